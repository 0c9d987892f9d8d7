/* All kernels except those of attention, its gradient and match: linear, layernorm, head, conversions; and the table of all kernels.
   Compiled once per instruction set, with RVIT_CPU_ISA defined as its name. */
#include <math.h>

#include "backend_cpu/isa.h"
#include "backend_cpu/product.h"

/* Linear. */

INLINE vec activate(const rvit_cpu_linear_tile *t, vec v, rvit_cpu_activation activation)
{
    return activation == RVIT_CPU_GELU ? vec_gelu(v) : activation == RVIT_CPU_SIGMOID ? vec_sigmoid(v, t->slope, t->cubic) : v;
}

INLINE vec product_and_bias(const rvit_cpu_linear_tile *t, const float *product, int column, int width)
{
    const vec v = any_load(product, 0, width, 0);
    return t->bias != NULL ? v + any_load(t->bias, column, width, 0) : v;
}

INLINE void finish(const rvit_cpu_linear_tile *t, const float *product, int64_t stride, int first_row, int rows, int first_column,
                   int columns, rvit_cpu_activation activation, int gated)
{
    const int step = gated ? 2 * VL : VL;
    for (int i = 0; i < rows; i++) {
        const int64_t row = t->first_row + first_row + i;
        const int64_t residual_row = t->residual_period > 0 ? row % t->residual_period : row;
        for (int j = 0; j < columns; j += step) {
            const int here = columns - j < step ? columns - j : step, width = gated ? here / 2 : here;
            const int from = first_column + j, column = gated ? from / 2 : from;
            vec v = product_and_bias(t, product + i * stride + j, from, here < VL ? here : VL);
            if (gated) {
                const vec more = here > VL ? product_and_bias(t, product + i * stride + j + VL, from + VL, here - VL) : (vec){0};
                v = activate(t, EVEN(v, more), activation) * ODD(v, more);
            } else {
                v = activate(t, v, activation);
            }
            if (t->residual != NULL)
                v += any_load(t->residual, residual_row * t->out_features + column, width, t->out_half);
            any_store(t->out, (first_row + i) * t->out_features + column, v, width, t->out_half);
        }
    }
}

static void finish_block(const rvit_cpu_linear_tile *t, const float *product, int64_t stride, int first_row, int rows, int first_column,
                         int columns)
{
    if (t->gated)
        finish(t, product, stride, first_row, rows, first_column, columns, t->activation, 1);
    else if (t->activation == RVIT_CPU_GELU)
        finish(t, product, stride, first_row, rows, first_column, columns, RVIT_CPU_GELU, 0);
    else if (t->activation == RVIT_CPU_SIGMOID)
        finish(t, product, stride, first_row, rows, first_column, columns, RVIT_CPU_SIGMOID, 0);
    else
        finish(t, product, stride, first_row, rows, first_column, columns, RVIT_CPU_NONE, 0);
}

static void linear_finish(const rvit_cpu_linear_tile *t, const float *product, int64_t stride)
{
    finish_block(t, product, stride, 0, t->rows, 0, t->columns);
}

static void to_float(const uint16_t *half, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t width = n - i < VL ? n - i : VL;
        any_store(out, i, any_load(half, i, width, 1), width, 0);
    }
}

static void to_half(const float *values, uint16_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t width = n - i < VL ? n - i : VL;
        any_store(out, i, any_load(values, i, width, 0), width, 1);
    }
}

/* The rows of a tile are a little more than a power of two apart, so that they do not compete for the same cache sets. */
#define SUMS_STRIDE (RVIT_CPU_LINEAR_COLUMNS + 16)
#define FLOATS_STRIDE (RVIT_CPU_LINEAR_DEPTH + 16)

_Static_assert(RVIT_CPU_LINEAR_DEPTH *PANEL + RVIT_CPU_LINEAR_ROWS * (SUMS_STRIDE + FLOATS_STRIDE) <= RVIT_CPU_SCRATCH_FLOATS,
               "a tile of linear must fit the scratch memory");
_Static_assert(RVIT_CPU_LINEAR_COLUMNS % PANEL == 0 && RVIT_CPU_LINEAR_DEPTH % VL == 0, "full tiles are made of full panels");

/* Transposes a panel of weights into scratch and uses it for all rows of the tile while it is in the L1 cache. If in_features is split, the
   accumulators of the whole tile stay in scratch between the parts. */
static void linear(const rvit_cpu_linear_tile *t, float *scratch)
{
    float *panel = scratch;
    float *sums = panel + RVIT_CPU_LINEAR_DEPTH * PANEL;
    float *floats = sums + RVIT_CPU_LINEAR_ROWS * SUMS_STRIDE;
    const int64_t size = t->half ? 2 : 4;
    for (int64_t p = 0; p < t->in_features; p += RVIT_CPU_LINEAR_DEPTH) {
        const int64_t left = t->in_features - p;
        const int64_t depth = left < RVIT_CPU_LINEAR_DEPTH ? left : RVIT_CPU_LINEAR_DEPTH;
        const float *x = (const float *)t->x + p;
        int64_t x_stride = t->in_features;
        if (t->half) {
            for (int i = 0; i < t->rows; i++)
                to_float((const uint16_t *)t->x + i * t->in_features + p, floats + i * FLOATS_STRIDE, depth);
            x = floats;
            x_stride = FLOATS_STRIDE;
        }
        for (int column = 0; column < t->columns; column += PANEL) {
            const int columns = t->columns - column < PANEL ? t->columns - column : PANEL;
            const void *weight = (const char *)t->weight + (column * t->in_features + p) * size;
            if (t->half)
                pack_panel(weight, t->in_features, columns, depth, panel, 1);
            else
                pack_panel(weight, t->in_features, columns, depth, panel, 0);
            for (int row = 0; row < t->rows; row += TILE_ROWS) {
                const int rows = t->rows - row < TILE_ROWS ? t->rows - row : TILE_ROWS;
                float *sum = sums + row * SUMS_STRIDE + column;
                products[rows - 1][columns > VL](x + row * x_stride, x_stride, panel, PANEL, depth, sum, SUMS_STRIDE, p > 0);
                if (depth == left)
                    finish_block(t, sum, SUMS_STRIDE, row, rows, column, columns);
            }
        }
    }
}

/* Layernorm. */

/* Mean and 1 / sqrt(variance + eps) of a row, in two passes (mean, then deviations), so that a large mean costs no precision. */
INLINE void moments(const void *x, int64_t first, int64_t dim, float eps, int half, float *out_mean, float *out_scale)
{
    vec sum[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * VL <= dim; i += 4 * VL) {
        UNROLL
        for (int j = 0; j < 4; j++)
            sum[j] += any_load(x, first + i + j * VL, VL, half);
    }
    for (; i < dim; i += VL)
        sum[0] += any_load(x, first + i, dim - i < VL ? dim - i : VL, half);
    const float mean = vec_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / (float)dim;

    vec square[4] = {{0}, {0}, {0}, {0}};
    for (i = 0; i + 4 * VL <= dim; i += 4 * VL) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            const vec difference = any_load(x, first + i + j * VL, VL, half) - mean;
            square[j] += difference * difference;
        }
    }
    for (; i < dim; i += VL) {
        const int64_t width = dim - i < VL ? dim - i : VL;
        vec difference = any_load(x, first + i, width, half) - mean;
        if (width < VL) {
            float lanes[VL];
            vec_store(lanes, difference);
            difference = vec_load_part(lanes, width);
        }
        square[0] += difference * difference;
    }
    const float variance = vec_sum((square[0] + square[1]) + (square[2] + square[3])) / (float)dim;
    *out_mean = mean;
    *out_scale = 1.0f / sqrtf(variance + eps);
}

INLINE void layernorm_of(const rvit_cpu_layernorm_rows *r, int half, int out_half)
{
    const int64_t size = half ? 2 : 4;
    for (int64_t row = r->first; row < r->end; row++) {
        int64_t from = row;
        if (r->src_rows != NULL)
            from = r->src_rows[row] < 0 ? 0 : r->src_rows[row] < r->x_rows ? r->src_rows[row] : r->x_rows - 1;
        float mean, scale;
        moments(r->x, from * r->dim, r->dim, r->eps, half, &mean, &scale);
        for (int64_t i = 0; i < r->dim; i += VL) {
            const int64_t width = r->dim - i < VL ? r->dim - i : VL;
            const vec normal = (any_load(r->x, from * r->dim + i, width, half) - mean) * scale;
            const vec out = normal * any_load(r->gamma, i, width, 0) + any_load(r->beta, i, width, 0);
            any_store(r->out, row * r->dim + i, out, width, out_half);
        }
        if (r->out_x != NULL)
            memcpy((char *)r->out_x + row * r->dim * size, (const char *)r->x + from * r->dim * size, (size_t)(r->dim * size));
    }
}

static void layernorm(const rvit_cpu_layernorm_rows *r)
{
    if (r->half && r->out_half)
        layernorm_of(r, 1, 1);
    else if (r->half)
        layernorm_of(r, 1, 0);
    else if (r->out_half)
        layernorm_of(r, 0, 1);
    else
        layernorm_of(r, 0, 0);
}

/* Head. */

/* Normalises rows in segments of this many elements, and adds the dot product of each class with the segment to the class's sum. */
#define STRETCH 512

static void head(const rvit_cpu_head_tile *t, float *scratch)
{
    const int64_t weight_size = t->weight_half ? 2 : 4;
    const int64_t features = t->n_tokens * t->dim;
    float *sums = scratch, *normal = scratch + RVIT_CPU_HEAD_CLASSES * RVIT_CPU_HEAD_IMAGES;
    memset(sums, 0, sizeof(float) * RVIT_CPU_HEAD_CLASSES * RVIT_CPU_HEAD_IMAGES);
    for (int64_t token = 0; token < t->n_tokens; token++) {
        float mean[RVIT_CPU_HEAD_IMAGES], scale[RVIT_CPU_HEAD_IMAGES];
        for (int image = 0; image < t->n_images; image++)
            moments(t->x[image], token * t->dim, t->dim, t->eps, t->half, &mean[image], &scale[image]);
        for (int64_t p = 0; p < t->dim; p += STRETCH) {
            const int64_t length = t->dim - p < STRETCH ? t->dim - p : STRETCH;
            for (int image = 0; image < t->n_images; image++)
                for (int64_t i = 0; i < length; i += VL) {
                    const int64_t width = length - i < VL ? length - i : VL;
                    const vec x = (any_load(t->x[image], token * t->dim + p + i, width, t->half) - mean[image]) * scale[image];
                    const vec y = x * any_load(t->gamma, p + i, width, 0) + any_load(t->beta, p + i, width, 0);
                    any_store(normal, image * STRETCH + i, y, width, 0);
                }
            for (int64_t c = 0; c < t->n_classes; c++) {
                const void *weight = (const char *)t->weight + ((t->first_class + c) * features + token * t->dim + p) * weight_size;
                vec dot[RVIT_CPU_HEAD_IMAGES] = {{0}, {0}, {0}, {0}};
                for (int64_t i = 0; i < length; i += VL) {
                    const int64_t width = length - i < VL ? length - i : VL;
                    const vec w = any_load(weight, i, width, t->weight_half);
                    for (int image = 0; image < t->n_images; image++)
                        dot[image] += w * any_load(normal, image * STRETCH + i, width, 0);
                }
                for (int image = 0; image < t->n_images; image++)
                    sums[c * RVIT_CPU_HEAD_IMAGES + image] += vec_sum(dot[image]);
            }
        }
    }
    for (int image = 0; image < t->n_images; image++)
        for (int64_t c = 0; c < t->n_classes; c++)
            t->logits[image][t->first_class + c] =
                sums[c * RVIT_CPU_HEAD_IMAGES + image] + (t->bias != NULL ? t->bias[t->first_class + c] : 0.0f);
}

const rvit_cpu_kernels ISA_NAME(rvit_cpu_kernels) = {
    .name = ISA_STRING,
    .rows = TILE_ROWS,
    .columns = PANEL,
    .linear = linear,
    .linear_finish = linear_finish,
    .attention = ISA_NAME(rvit_cpu_attention_kernel),
    .attention_backward = ISA_NAME(rvit_cpu_backward_kernel),
    .layernorm = layernorm,
    .head = head,
    .metric = ISA_NAME(rvit_cpu_metric_kernel),
    .match = ISA_NAME(rvit_cpu_match_kernel),
    .to_float = to_float,
    .to_half = to_half,
};
