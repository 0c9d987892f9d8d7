#include "backend_cuda/cu.h"

size_t rvit_cu_select_scratch_size(const rvit_select_args *args)
{
    return sizeof(rvit_cu_select_scratch) + (size_t)args->n_images * sizeof(unsigned long long);
}

rvit_status rvit_cu_select(rvit_cu_queue *queue, const rvit_select_args *args)
{
    RVIT_TRY(rvit_cu_scratch_reserve(queue, &queue->select, rvit_cu_select_scratch_size(args)));
    const uintptr_t scratch = (uintptr_t)queue->select.pointer;
    const size_t n_states = (queue->select.size - sizeof(rvit_cu_select_scratch)) / sizeof(unsigned long long);
    rvit_cu_select_params params = {
        .counts = rvit_cu_at(args->counts),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .scores = rvit_cu_at(args->scores),
        .keep_in = rvit_cu_at(args->keep_in),
        .keep = rvit_cu_at(args->keep),
        .out_cu_seqlens = rvit_cu_at(args->out_cu_seqlens),
        .src_rows = rvit_cu_at(args->src_rows),
        .error = rvit_cu_at(args->error),
        .scratch = (rvit_cu_select_scratch *)scratch,
        .states = (unsigned long long *)(scratch + sizeof(rvit_cu_select_scratch)),
        .n_states = n_states > INT32_MAX ? INT32_MAX : (int32_t)n_states,
        .mode = (int32_t)args->mode,
        .n_images = args->n_images,
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .n_prefix = args->n_prefix,
        .prefix_competes = args->prefix_competes,
        .threshold = args->threshold,
    };
    const int32_t len = args->max_len < args->rows ? args->max_len : (int32_t)args->rows;
    return rvit_cu_launch(queue, RVIT_CU_select_rows, args->n_images > 0 ? args->n_images : 1, rvit_cu_tile_select(len), 0, &params);
}
