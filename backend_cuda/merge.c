#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(merge);

rvit_status rvit_cu_merge(rvit_cu_queue *queue, const rvit_merge_args *args)
{
    rvit_cu_merge_params params = {
        .x = rvit_cu_at(args->x),
        .sizes = rvit_cu_at(args->sizes),
        .src_rows = rvit_cu_at(args->src_rows),
        .next_rows = rvit_cu_at(args->next_rows),
        .out_x = rvit_cu_at(args->out_x),
        .out_sizes = rvit_cu_at(args->out_sizes),
        .out_key_bias = rvit_cu_at(args->out_key_bias),
        .rows = rvit_cu_rows_of(&args->rows),
        .x_rows = (int32_t)args->x_rows,
        .dim = args->dim,
    };
    /* A warp a row: small CTAs spread a small batch over the device. */
    const rvit_cu_machine *machine = &queue->device->machine;
    const int32_t warps = args->rows.capacity <= 4 * (int64_t)machine->n_sms ? 2 : 8;
    const int32_t ctas = rvit_cu_tile_ctas(machine, args->rows.capacity, warps, 8);
    return rvit_cu_launch(queue, kernels[args->dtype], ctas, warps * 32, 0, &params);
}
