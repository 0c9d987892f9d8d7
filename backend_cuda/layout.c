/* What select and match share: the records by which the CTAs of a launch learn from each other. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_layout_reserve(rvit_cu_queue *queue, int64_t n_images)
{
    return rvit_cu_scratch_reserve(queue, &queue->layout,
                                   sizeof(rvit_cu_layout_scratch) + (size_t)n_images * sizeof(rvit_cu_layout_record));
}

void rvit_cu_layout_attach(const rvit_cu_queue *queue, rvit_cu_layout *layout)
{
    const uintptr_t scratch = (uintptr_t)queue->layout.pointer;
    const size_t n_records = (queue->layout.size - sizeof(rvit_cu_layout_scratch)) / sizeof(rvit_cu_layout_record);
    layout->scratch = (rvit_cu_layout_scratch *)scratch;
    layout->records = (rvit_cu_layout_record *)(scratch + sizeof(rvit_cu_layout_scratch));
    layout->n_records = n_records > INT32_MAX ? INT32_MAX : (int32_t)n_records;
}
