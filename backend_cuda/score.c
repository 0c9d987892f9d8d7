#include "backend_cuda/cu.h"

rvit_status rvit_cu_score(rvit_cu_queue *queue, const rvit_score_args *args)
{
    const int is_l2 = args->type == RVIT_SCORE_L2;
    rvit_cu_score_params params = {
        .x = rvit_cu_at(is_l2 ? args->x : args->cls_probs),
        .scores = rvit_cu_at(args->scores),
        .rows = rvit_cu_rows_of(&args->rows),
        .width = is_l2 ? args->dim : args->n_heads,
        .factor = is_l2 ? 0.0f : 1.0f / (float)args->n_heads,
    };
    const rvit_cu_kernel kernel = is_l2 ? rvit_cu_of_dtype(RVIT_CU_score_l2_f32, args->dtype) : RVIT_CU_score_cls;
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->rows.capacity, is_l2 ? 8 : 256, 8);
    return rvit_cu_launch(queue, kernel, ctas, 256, 0, &params);
}
