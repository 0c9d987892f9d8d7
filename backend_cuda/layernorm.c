#include "backend_cuda/cu.h"

rvit_status rvit_cu_layernorm(rvit_cu_queue *queue, const rvit_layernorm_args *args)
{
    rvit_cu_layernorm_params params = {
        .x = rvit_cu_at(args->x),
        .src_rows = rvit_cu_at(args->src_rows),
        .gamma = rvit_cu_at(args->gamma),
        .beta = rvit_cu_at(args->beta),
        .out = rvit_cu_at(args->out),
        .out_x = rvit_cu_at(args->out_x),
        .rows = rvit_cu_rows_of(&args->rows),
        .x_rows = (int32_t)args->x_rows,
        .dim = args->dim,
        .out_dtype = (int32_t)args->out_dtype,
        .inverse_dim = 1.0f / (float)args->dim,
        .eps = args->eps,
    };
    static const rvit_cu_kernel first[] = {
        [RVIT_F32] = RVIT_CU_layernorm_f32_256, [RVIT_F16] = RVIT_CU_layernorm_f16_256, [RVIT_BF16] = RVIT_CU_layernorm_bf16_256};
    const rvit_cu_norm_tile tile = rvit_cu_tile_layernorm(&queue->device->machine, args->rows.capacity, args->dim);
    const rvit_cu_kernel kernel = (rvit_cu_kernel)((int)first[args->dtype] + tile.length_class);
    return rvit_cu_launch(queue, kernel, tile.ctas, tile.threads, 0, &params);
}
