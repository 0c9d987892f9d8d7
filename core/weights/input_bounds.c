/* Static scales for the inputs of E4M3 GEMMs, from an upper bound that holds for any image. Rows of a norm have a known length, so its
   weights bound its outputs and, by Cauchy-Schwarz, the outputs of fc1. Real inputs are far smaller: in a row of 768 equal values each is
   1/28 of the bound. That costs nothing, because E4M3 keeps its precision over 15 octaves, nine of them below 1/28. So nothing saturates,
   and cuBLASLt is faster when a GEMM has one scale. */
#include "core/weights/input_bounds.h"

#include <math.h>
#include <string.h>

#include "core/base/quantized.h"
#include "core/contract/op.h"
#include "core/model/checkpoint.h"

/* Rounding changes each operand of fc1 by 1/16 at most. */
#define ROUNDED (17.0 / 16 * 17.0 / 16)

int rvit_input_is_bounded(const rvit_model *model, rvit_dtype dtype, const rvit_file_scales *file, rvit_block_linear linear)
{
    if (dtype != RVIT_E4M3 || linear == RVIT_BLOCK_PROJ || file->input > 0.0f || (file->has_scales && !file->one_scale))
        return 0;
    /* The product of the bounds of gate and value would be too loose. */
    return linear != RVIT_BLOCK_FC2 || model->mlp_norm || !model->info.gated;
}

rvit_status rvit_weights_read_norm(const rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, int64_t n, float *values)
{
    RVIT_TRY(rvit_weights_read(l, gamma, block, n, values));
    memset(values + n, 0, (size_t)n * sizeof *values);
    return l->checkpoint->config.norm_beta ? rvit_weights_read(l, beta, block, n, values + n) : RVIT_OK;
}

/* A row has length sqrt(n) before gamma and beta. NaN if one of these is NaN. */
double rvit_bound_of_norm(const float *norm, int64_t n)
{
    double max = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double bound = fabs((double)norm[i]) * sqrt((double)n) + fabs((double)norm[n + i]);
        max = bound <= max ? max : bound;
    }
    return max;
}

/* Bounds fc1's outputs, and so their activations. */
static double bound_of_rows(const float *norm, int64_t n, const float *rows, const float *bias, int64_t n_rows)
{
    double max = 0.0;
    for (int64_t r = 0; r < n_rows; r++) {
        double square = 0.0, shift = bias[r];
        for (int64_t i = 0; i < n; i++) {
            const double w = rows[r * n + i];
            square += w * norm[i] * w * norm[i];
            shift += w * norm[n + i];
        }
        const double bound = ROUNDED * (sqrt(square * (double)n) + fabs(shift));
        max = bound <= max ? max : bound;
    }
    return max;
}

rvit_status rvit_weights_bound_input(rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *out_scale)
{
    const rvit_model *m = l->model;
    const int64_t dim = m->info.dim, mlp = m->info.mlp_dim;
    const int is_inner = linear == RVIT_BLOCK_FC2 && m->mlp_norm;
    const int64_t n = is_inner ? mlp : dim;
    if (is_inner)
        RVIT_TRY(rvit_weights_read_norm(l, RVIT_ROLE_MLP_NORM_GAMMA, RVIT_ROLE_MLP_NORM_BETA, block, n, l->more));
    else if (linear == RVIT_BLOCK_QKV)
        RVIT_TRY(rvit_weights_read_norm(l, RVIT_ROLE_NORM1_GAMMA, RVIT_ROLE_NORM1_BETA, block, n, l->more));
    else
        RVIT_TRY(rvit_weights_read_norm(l, RVIT_ROLE_NORM2_GAMMA, RVIT_ROLE_NORM2_BETA, block, n, l->more));
    double bound = rvit_bound_of_norm(l->more, n);
    if (linear == RVIT_BLOCK_FC2 && !is_inner) {
        float *bias = l->more + 2 * n;
        RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_FC1_WEIGHT, block, mlp * n, l->values));
        memset(bias, 0, (size_t)mlp * sizeof *bias);
        if (l->checkpoint->config.mlp_bias)
            RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_FC1_BIAS, block, mlp, bias));
        bound = bound_of_rows(l->more, n, l->values, bias, mlp);
    }
    const double scale = bound / rvit_quantized_max(RVIT_E4M3);
    *out_scale = scale < RVIT_QUANTIZED_MIN ? RVIT_QUANTIZED_MIN : (float)scale; /* if not finite, results are NaN */
    return RVIT_OK;
}
