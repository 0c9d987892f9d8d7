#include "backend_cuda/cu.h"

#define F32(name, ...) [RVIT_CU_NORM_##name] = RVIT_CU_layernorm_f32_##name,
#define F16(name, ...) [RVIT_CU_NORM_##name] = RVIT_CU_layernorm_f16_##name,
#define BF16(name, ...) [RVIT_CU_NORM_##name] = RVIT_CU_layernorm_bf16_##name,
static const rvit_cu_kernel kernels[][RVIT_CU_N_NORM_SHAPES] = {
    [RVIT_F32] = {RVIT_CU_NORM_SHAPES(F32) F32(any, 0)},
    [RVIT_F16] = {RVIT_CU_NORM_SHAPES(F16) F16(any, 0)},
    [RVIT_BF16] = {RVIT_CU_NORM_SHAPES(BF16) BF16(any, 0)},
};

/* The kernels with an e4m3 output hold only float32 rows in registers, the type of the residual stream. */
#define E4M3(name, ...) [RVIT_CU_NORM_##name] = RVIT_CU_layernorm_f32_##name##_e4m3,
static const rvit_cu_kernel kernels_e4m3[] = {RVIT_CU_NORM_SHAPES(E4M3)};

/* [e4m3 output]: RMS norm, padded rows, no beta. */
static const rvit_cu_kernel general_kernels[][3] = {RVIT_CU_OF_TYPES_AND(layernorm, general),
                                                    RVIT_CU_OF_TYPES_AND(layernorm, general_e4m3)};

static rvit_status launch_general(rvit_cu_queue *queue, const rvit_layernorm_args *args, rvit_cu_layernorm_params *params)
{
    const int32_t warps = args->rows.capacity <= 4 * (int64_t)queue->device->machine.n_sms ? 2 : 4;
    params->row_ctas = rvit_cu_tile_ctas(&queue->device->machine, args->rows.capacity, warps, RVIT_CU_CTAS_NORM_ANY);
    return rvit_cu_launch(queue, general_kernels[args->out_dtype == RVIT_E4M3][args->dtype], params->row_ctas, warps * 32, 0, params);
}

/* Prefetches the weights of the second and third GEMM after this op; those of the first would arrive too late. A block has two GEMMs
   between its layernorms. */
static void find_prefetches(const rvit_cu_queue *queue, rvit_cu_prefetch *prefetch)
{
    int n = -1;
    for (int32_t i = 0; i < queue->n_next_ops && n < RVIT_CU_PREFETCHES; i++) {
        const rvit_op *op = &queue->next_ops[i];
        if (op->type != RVIT_OP_LINEAR)
            continue;
        if (n >= 0) {
            const int64_t size = op->linear.in_features * rvit_linear_columns(&op->linear) * rvit_dtype_size(op->linear.dtype);
            prefetch->memory[n] = rvit_cu_at(op->linear.weight);
            prefetch->lines[n] = (int32_t)(size / RVIT_CU_PREFETCH_LINE);
        }
        n++;
    }
}

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
        .inverse_dim = 1.0f / (float)args->features,
        .eps = args->eps,
        .features = args->features,
        .rms = args->norm == RVIT_NORM_RMS,
        .static_scale = rvit_cu_at(args->static_scale),
        .out_scales = rvit_cu_at(args->out_scales),
        .saturated = rvit_cu_at(args->saturated),
    };
    const rvit_cu_norm_tile tile = rvit_cu_tile_layernorm(&queue->device->machine, args->rows.capacity, args->dim);
    const int is_e4m3 = args->out_dtype == RVIT_E4M3, has_e4m3 = args->dtype == RVIT_F32 && tile.shape != RVIT_CU_NORM_any;
    if (params.rms || params.beta == NULL || args->features < args->dim || (is_e4m3 && !has_e4m3))
        return launch_general(queue, args, &params);
    const rvit_cu_kernel kernel = is_e4m3 ? kernels_e4m3[tile.shape] : kernels[args->dtype][tile.shape];
    params.row_ctas = tile.ctas;
    find_prefetches(queue, &params.prefetch);
    const int64_t extra = params.prefetch.lines[0] > 0 ? tile.prefetch_ctas : 0;
    return rvit_cu_launch(queue, kernel, tile.ctas + extra, tile.threads, 0, &params);
}
