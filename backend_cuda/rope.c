#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(rope);

rvit_status rvit_cu_rope(rvit_cu_queue *queue, const rvit_rope_args *args)
{
    rvit_cu_rope_params params = {
        .q = rvit_cu_at(args->q),
        .k = rvit_cu_at(args->k),
        .table = rvit_cu_at(args->table),
        .positions = rvit_cu_at(args->positions),
        .rows = rvit_cu_rows_of(&args->rows),
        .q_stride = args->q_stride,
        .k_stride = args->k_stride,
        .n_heads = args->n_heads,
        .head_dim = args->head_dim,
        .n_positions = args->n_positions,
        .n_prefix = args->n_prefix,
    };
    /* A warp a row: small CTAs spread a small batch over the device. */
    const rvit_cu_machine *machine = &queue->device->machine;
    const int32_t warps = args->rows.capacity <= 4 * (int64_t)machine->n_sms ? 2 : 8;
    const int32_t ctas = rvit_cu_tile_ctas(machine, args->rows.capacity, warps, 8);
    return rvit_cu_launch(queue, kernels[args->dtype], ctas, warps * 32, 0, &params);
}
