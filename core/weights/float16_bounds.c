/* Bounds the activations that a model stores in 16 bits, for any image. The residual stream, norms, softmax and sums are float32; the
   outputs of norms and of the GEMMs after them are stored. Rows of a norm have the known length sqrt(n) before gamma and beta, so its
   weights bound its outputs and, by Cauchy-Schwarz, those of the GEMM after it. Attention averages values, and no activation function
   exceeds its input. So a model within float16's range never overflows.

   DynamicViT's predictors are not bounded: a NaN there is a score, which is reported. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/model/checkpoint.h"
#include "core/weights/float16_bounds.h"
#include "core/weights/input_bounds.h"

#define LANES 16

typedef struct bounds {
    rvit_weights_loader l;
    double *max;
    char *where; /* [RVIT_BOUND_NAME]: the layer with the largest bound */
} bounds;

static void note(bounds *r, double bound, const char *what, int32_t block)
{
    if (bound <= *r->max)
        return;
    *r->max = isfinite(bound) ? bound : INFINITY;
    snprintf(r->where, RVIT_BOUND_NAME, block < 0 ? "%s" : "%s of block %d", what, (int)block);
}

/* The bound of one output of a GEMM with `columns` inputs, which are outputs of a norm of n values, repeated. */
static double bound_of_row(const float *row, int64_t columns, const float *norm, int64_t n, float bias)
{
    float squares[LANES] = {0}, shifts[LANES] = {0};
    for (int64_t first = 0; first < columns; first += n) {
        const float *w = row + first;
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (int64_t k = 0; k < LANES; k++) {
                const float x = w[i + k] * norm[i + k];
                squares[k] += x * x;
                shifts[k] += w[i + k] * norm[n + i + k];
            }
        for (; i < n; i++) {
            squares[0] += w[i] * norm[i] * (w[i] * norm[i]);
            shifts[0] += w[i] * norm[n + i];
        }
    }
    double square = 0, shift = bias;
    for (int k = 0; k < LANES; k++) {
        square += squares[k];
        shift += shifts[k];
    }
    return sqrt(square * (double)columns) + fabs(shift);
}

/* Adds the outputs of a norm; reads gamma and beta to `norm`. */
static rvit_status add_norm(bounds *r, rvit_role gamma, rvit_role beta, int32_t index, int64_t n, float *norm, const char *what)
{
    RVIT_TRY(rvit_weights_read_norm(&r->l, gamma, beta, index, n, norm));
    note(r, rvit_bound_of_norm(norm, n), what, index);
    return RVIT_OK;
}

/* Adds the outputs of a GEMM whose weight is in l.values. gated: rows of the gate, then of the values; the two outputs are multiplied. */
static void add_rows(bounds *r, int64_t rows, int64_t columns, const float *norm, int64_t n, const float *bias, int gated, double factor,
                     const char *what, int32_t block)
{
    for (int64_t i = 0; i < rows; i++) {
        const double bound = factor * bound_of_row(r->l.values + i * columns, columns, norm, n, bias[i]);
        note(r, bound, what, block);
        if (gated)
            note(r, bound * bound_of_row(r->l.values + (rows + i) * columns, columns, norm, n, bias[rows + i]), what, block);
    }
}

static rvit_status add_qkv(bounds *r, int32_t block, const float *norm, float *bias)
{
    const int64_t dim = r->l.model->info.dim;
    memset(bias, 0, (size_t)(3 * dim) * sizeof *bias);
    if (r->l.checkpoint->config.qkv_bias)
        RVIT_TRY(rvit_weights_read_qkv(&r->l, RVIT_ROLE_QKV_BIAS, block, dim, bias));
    RVIT_TRY(rvit_weights_read_qkv(&r->l, RVIT_ROLE_QKV_WEIGHT, block, dim * dim, r->l.values));
    /* A rotated value does not exceed the length of its pair, sqrt(2) times the larger one. */
    const double rotated = rvit_model_rotates(r->l.model) ? 1.4143 : 1.0;
    add_rows(r, 3 * dim, dim, norm, dim, bias, 0, rotated, "qkv", block);
    return RVIT_OK;
}

static rvit_status add_fc1(bounds *r, int32_t block, const float *norm, float *bias)
{
    const int64_t dim = r->l.model->info.dim, mlp = r->l.model->info.mlp_dim, parts = r->l.model->info.gated ? 2 : 1;
    const int64_t separate = rvit_weights_has(&r->l, RVIT_ROLE_GATE_WEIGHT);
    const int64_t first = separate ? mlp : 0, n = separate ? mlp : parts * mlp;
    memset(bias, 0, (size_t)(parts * mlp) * sizeof *bias);
    if (r->l.checkpoint->config.mlp_bias) {
        if (separate)
            RVIT_TRY(rvit_weights_read(&r->l, RVIT_ROLE_GATE_BIAS, block, mlp, bias));
        RVIT_TRY(rvit_weights_read(&r->l, RVIT_ROLE_FC1_BIAS, block, n, bias + first));
    }
    if (separate)
        RVIT_TRY(rvit_weights_read(&r->l, RVIT_ROLE_GATE_WEIGHT, block, mlp * dim, r->l.values));
    RVIT_TRY(rvit_weights_read(&r->l, RVIT_ROLE_FC1_WEIGHT, block, n * dim, r->l.values + first * dim));
    add_rows(r, mlp, dim, norm, dim, bias, parts == 2, 1.0, "fc1", block);
    return RVIT_OK;
}

/* Adds the weight itself, where no norm bounds its inputs. Weights stored as float16 always fit. */
static rvit_status add_weight(bounds *r, rvit_role role, int32_t block, int64_t n, const char *what)
{
    float lanes[LANES] = {0};
    int64_t i = 0;
    if (r->l.model->files.n_by_dtype[RVIT_F16] == r->l.model->files.n_tensors)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(&r->l, role, block, n, r->l.values));
    for (; i + LANES <= n; i += LANES)
        for (int64_t k = 0; k < LANES; k++)
            lanes[k] = fmaxf(lanes[k], fabsf(r->l.values[i + k]));
    for (; i < n; i++)
        lanes[0] = fmaxf(lanes[0], fabsf(r->l.values[i]));
    for (int k = 0; k < LANES; k++)
        note(r, (double)lanes[k], what, block);
    return RVIT_OK;
}

static rvit_status add_block(bounds *r, int32_t b)
{
    const rvit_vit_config *config = &r->l.checkpoint->config;
    const int64_t dim = r->l.model->info.dim, mlp = r->l.model->info.mlp_dim;
    float *norm = r->l.more, *bias = norm + 2 * dim;
    RVIT_TRY(add_norm(r, RVIT_ROLE_NORM1_GAMMA, RVIT_ROLE_NORM1_BETA, b, dim, norm, "norm1"));
    RVIT_TRY(add_qkv(r, b, norm, bias));
    if (config->attention_norm)
        RVIT_TRY(add_norm(r, RVIT_ROLE_ATTENTION_NORM_GAMMA, RVIT_ROLE_ATTENTION_NORM_BETA, b, dim, norm, "attention's norm"));
    RVIT_TRY(add_norm(r, RVIT_ROLE_NORM2_GAMMA, RVIT_ROLE_NORM2_BETA, b, dim, norm, "norm2"));
    RVIT_TRY(add_fc1(r, b, norm, bias));
    RVIT_TRY(add_weight(r, RVIT_ROLE_PROJ_WEIGHT, b, dim * dim, "proj's weight"));
    RVIT_TRY(add_weight(r, RVIT_ROLE_FC2_WEIGHT, b, dim * mlp, "fc2's weight"));
    return config->mlp_norm ? add_norm(r, RVIT_ROLE_MLP_NORM_GAMMA, RVIT_ROLE_MLP_NORM_BETA, b, mlp, r->l.more, "the MLP's norm") : RVIT_OK;
}

static rvit_status add_map(bounds *r)
{
    const rvit_vit_config *config = &r->l.checkpoint->config;
    const int64_t dim = r->l.model->info.dim;
    float *norm = r->l.more, *bias = norm + 2 * dim;
    if (!config->info.final_norm) {
        note(r, INFINITY, "attention pooling without a norm before it", -1);
        return RVIT_OK;
    }
    RVIT_TRY(rvit_weights_read_norm(&r->l, RVIT_ROLE_NORM_GAMMA, RVIT_ROLE_NORM_BETA, 0, dim, norm));
    note(r, rvit_bound_of_norm(norm, dim), "the last norm", -1);
    RVIT_TRY(rvit_weights_read_map_part(&r->l, 2, 1, bias));
    RVIT_TRY(rvit_weights_read_map_part(&r->l, 2, 0, r->l.values));
    add_rows(r, dim, dim, norm, dim, bias, 0, 1.0, "the values of attention pooling", -1);
    if (config->map_mlp == 0)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read_norm(&r->l, RVIT_ROLE_MAP_NORM_GAMMA, RVIT_ROLE_MAP_NORM_BETA, 0, dim, norm));
    RVIT_TRY(rvit_weights_read(&r->l, RVIT_ROLE_MAP_FC1_BIAS, 0, config->map_mlp, bias));
    RVIT_TRY(rvit_weights_read(&r->l, RVIT_ROLE_MAP_FC1_WEIGHT, 0, config->map_mlp * dim, r->l.values));
    add_rows(r, config->map_mlp, dim, norm, dim, bias, 0, 1.0, "fc1 of attention pooling", -1);
    return RVIT_OK;
}

/* first: the role of the norm's gamma, of n values; beta and fc1 follow. */
static rvit_status add_merger(bounds *r, rvit_role first, int32_t index, int64_t n)
{
    const int64_t width = r->l.checkpoint->config.group_dim;
    float *norm = r->l.more, *bias = norm + 2 * n;
    RVIT_TRY(rvit_weights_read_norm(&r->l, first, (rvit_role)(first + 1), index, n, norm));
    RVIT_TRY(rvit_weights_read(&r->l, (rvit_role)(first + 3), index, width, bias));
    RVIT_TRY(rvit_weights_read(&r->l, (rvit_role)(first + 2), index, width * width, r->l.values));
    add_rows(r, width, width, norm, n, bias, 0, 1.0, "a merger's fc1", -1);
    return RVIT_OK;
}

static rvit_status add_all(bounds *r)
{
    const rvit_model_info *info = &r->l.model->info;
    for (int32_t b = 0; b < info->depth; b++)
        RVIT_TRY(add_block(r, b));
    if (info->pooling == RVIT_POOLING_MAP)
        RVIT_TRY(add_map(r));
    if (!r->l.checkpoint->config.merges)
        return RVIT_OK;
    RVIT_TRY(add_merger(r, RVIT_ROLE_MERGER_NORM_GAMMA, 0, info->dim));
    for (int32_t i = 0; i < info->n_deepstack; i++)
        RVIT_TRY(add_merger(r, RVIT_ROLE_DEEPSTACK_NORM_GAMMA, i, r->l.checkpoint->config.group_dim));
    return RVIT_OK;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

rvit_status rvit_float16_bound(const rvit_device *device, const rvit_checkpoint *checkpoint, double *out_max, char where[RVIT_BOUND_NAME])
{
    const rvit_vit_config *config = &checkpoint->config;
    const int64_t dim = config->info.dim, hidden = (config->info.gated ? 2 : 1) * (int64_t)config->info.mlp_dim, group = config->group_dim;
    const int64_t rows = larger(larger(3 * dim, hidden), config->map_mlp);
    rvit_model model = {.device = (rvit_device *)(uintptr_t)device, .info = config->info, .files = config->files};
    rvit_alloc *alloc = &model.device->alloc;
    bounds r = {.l = {.checkpoint = checkpoint, .model = &model}, .max = out_max, .where = where};
    *out_max = 0;
    where[0] = '\0';
    r.l.values = rvit_alloc_array(alloc, (size_t)larger(rows * dim, group * group), sizeof *r.l.values);
    r.l.more =
        rvit_alloc_array(alloc, (size_t)(2 * larger(larger(dim, config->info.mlp_dim), group) + larger(rows, group)), sizeof *r.l.more);
    const rvit_status status = r.l.values == NULL || r.l.more == NULL ? RVIT_OUT_OF_HOST_MEMORY : add_all(&r);
    rvit_alloc_free(alloc, r.l.values);
    rvit_alloc_free(alloc, r.l.more);
    return status;
}
