/* The records through which the CTAs of select and bipartite_match communicate. */
#include "backend_cuda/cu.h"

size_t rvit_cu_layout_size(int64_t n_images)
{
    return sizeof(rvit_cu_layout_scratch) + (size_t)n_images * sizeof(rvit_cu_layout_record);
}

rvit_status rvit_cu_layout_reserve(rvit_cu_queue *queue, int64_t n_images, int64_t n_sorted)
{
    const size_t size = rvit_cu_layout_size(n_images), sorted = (size_t)n_sorted * sizeof(unsigned long long);
    if (queue->caller_workspace.size == 0) {
        RVIT_TRY(rvit_cu_scratch_reserve(queue, &queue->layout, size));
        return rvit_cu_scratch_reserve(queue, &queue->sorted, sorted);
    }
    if (queue->caller_workspace.size < size + sorted)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "cuda: the stream's workspace has %zu bytes, the op needs %zu: see rvit_cuda_workspace_size",
                         queue->caller_workspace.size, size + sorted);
    RVIT_CU_TRY(queue->device->driver, cuMemsetD8Async, (queue->caller_workspace.pointer, 0, size, queue->stream));
    return RVIT_OK;
}

void *rvit_cu_layout_sorted(const rvit_cu_queue *queue, int64_t n_images)
{
    return (void *)(uintptr_t)(queue->caller_workspace.size == 0 ? queue->sorted.pointer
                                                                 : queue->caller_workspace.pointer + rvit_cu_layout_size(n_images));
}

void rvit_cu_layout_attach(const rvit_cu_queue *queue, rvit_cu_layout *layout)
{
    const int own = queue->caller_workspace.size == 0;
    const uintptr_t scratch = (uintptr_t)(own ? queue->layout.pointer : queue->caller_workspace.pointer);
    const size_t size = own ? queue->layout.size : rvit_cu_layout_size(layout->n_images);
    const size_t n_records = (size - sizeof(rvit_cu_layout_scratch)) / sizeof(rvit_cu_layout_record);
    layout->scratch = (rvit_cu_layout_scratch *)scratch;
    layout->records = (rvit_cu_layout_record *)(scratch + sizeof(rvit_cu_layout_scratch));
    layout->n_records = n_records > INT32_MAX ? INT32_MAX : (int32_t)n_records;
}
