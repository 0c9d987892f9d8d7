#include "backend_cuda/cu.h"

#include "core/base/half.h"

/* The fill as stored; 16-bit elements twice. */
static uint32_t stored(rvit_dtype dtype, float fill)
{
    if (dtype == RVIT_F32)
        return rvit_float_bits(fill);
    return (dtype == RVIT_F16 ? rvit_f32_to_f16(fill) : rvit_f32_to_bf16(fill)) * 0x10001u;
}

rvit_status rvit_cu_unpack(rvit_cu_queue *queue, const rvit_unpack_args *args)
{
    rvit_cu_unpack_params params = {
        .source = rvit_cu_at(args->source),
        .base = rvit_cu_at(args->base),
        .src_rows = rvit_cu_at(args->src_rows),
        .destination = rvit_cu_at(args->destination),
        .rows = rvit_cu_rows_of(&args->rows),
        .destination_rows = rvit_cu_rows_of(&args->destination_rows),
        .row_size = args->dim * (int32_t)rvit_dtype_size(args->dtype),
        .fill = stored(args->dtype, args->fill),
    };
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->destination_rows.capacity, 8, 8);
    return rvit_cu_launch(queue, RVIT_CU_unpack, ctas, 256, 0, &params);
}
