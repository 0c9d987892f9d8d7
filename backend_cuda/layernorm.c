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
    /* A warp a row; as many CTAs as stay on the device at once, for each warp reads gamma and beta but once. */
    const rvit_cu_machine *machine = &queue->device->machine;
    const int32_t warps = args->rows.capacity <= 4 * (int64_t)machine->n_sms ? 2 : 4;
    const int32_t ctas = rvit_cu_tile_ctas(machine, args->rows.capacity, warps, 4);
    return rvit_cu_launch(queue, rvit_cu_of_dtype(RVIT_CU_layernorm_f32, args->dtype), ctas, warps * 32, 0, &params);
}
