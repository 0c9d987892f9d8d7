#include "backend_cuda/cu.h"

rvit_status rvit_cu_quantize(rvit_cu_queue *queue, const rvit_quantize_args *args)
{
    static const rvit_cu_kernel any[] = RVIT_CU_OF_TYPES_AND(quantize, any);
    /* [type][with a static scale][with a sigmoid] */
    static const rvit_cu_kernel held[][2][2] = {[RVIT_F16] = {{RVIT_CU_quantize_f16, RVIT_CU_quantize_f16_sigmoid},
                                                              {RVIT_CU_quantize_f16_fixed, RVIT_CU_quantize_f16_fixed_sigmoid}},
                                                [RVIT_BF16] = {{RVIT_CU_quantize_bf16, RVIT_CU_quantize_bf16_sigmoid},
                                                               {RVIT_CU_quantize_bf16_fixed, RVIT_CU_quantize_bf16_fixed_sigmoid}}};
    const rvit_sigmoid sigmoid = rvit_sigmoid_of(args->activation);
    rvit_cu_quantize_params params = {
        .x = rvit_cu_at(args->x),
        .bias = rvit_cu_at(args->bias),
        .static_scale = rvit_cu_at(args->static_scale),
        .out = rvit_cu_at(args->out),
        .out_scales = rvit_cu_at(args->out_scales),
        .saturated = rvit_cu_at(args->saturated),
        .rows = rvit_cu_rows_of(&args->rows),
        .columns = args->columns,
        .gelu = args->activation == RVIT_ACTIVATION_GELU,
        .gated = args->gated,
        .slope = sigmoid.slope,
        .cubic = sigmoid.cubic,
    };
    /* The cases that models use hold rows in registers. */
    const rvit_cu_quantize_tile tile = rvit_cu_tile_quantize(&queue->device->machine, args->rows.capacity, args->columns);
    const int is_held = tile.held && args->dtype != RVIT_F32 && !args->gated;
    const rvit_cu_kernel kernel = is_held ? held[args->dtype][params.static_scale != NULL][sigmoid.slope != 0.0f] : any[args->dtype];
    return rvit_cu_launch(queue, kernel, tile.ctas, tile.threads, 0, &params);
}
