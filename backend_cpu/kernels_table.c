/* The kernels without their own file (linear, layernorm, head, conversions), and the table of all kernels. Compiled once per
   instruction set, with RVIT_CPU_ISA defined as its name. */
#include <math.h>

#include "backend_cpu/finish.h"
#include "backend_cpu/isa.h"
#include "backend_cpu/norm.h"
#include "backend_cpu/gemm.h"

static void linear_finish(const rvit_cpu_linear_tile *t, const float *sums, int64_t stride)
{
    finish_block(t, sums, stride, 0, t->rows, 0, t->columns);
}

INLINE void convert(const void *from, rvit_dtype from_dtype, void *out, int64_t n, rvit_dtype dtype)
{
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t width = n - i < VL ? n - i : VL;
        any_store(out, i, any_load(from, i, width, from_dtype), width, dtype);
    }
}

static void widen(const uint16_t *from, rvit_dtype dtype, float *out, int64_t n)
{
    if (dtype == RVIT_F16)
        convert(from, RVIT_F16, out, n, RVIT_F32);
    else
        convert(from, RVIT_BF16, out, n, RVIT_F32);
}

static void narrow(const float *values, rvit_dtype dtype, uint16_t *out, int64_t n)
{
    if (dtype == RVIT_F16)
        convert(values, RVIT_F32, out, n, RVIT_F16);
    else
        convert(values, RVIT_F32, out, n, RVIT_BF16);
}

INLINE vec narrowed(vec v, rvit_dtype dtype)
{
    if (dtype == RVIT_BF16)
        return (vec)(bf16_bits(v) << 16);
    uint16_t lanes[VL];
    half_store(lanes, v);
    return half_load(lanes);
}

INLINE void cut_piece(const float *pixels, int64_t j, int64_t width, char *out, int64_t second, rvit_dtype dtype)
{
    const vec v = any_load(pixels, j, width, RVIT_F32);
    any_store(out, j, v, width, dtype);
    if (second > 0)
        any_store(out + second, j, v - narrowed(v, dtype), width, dtype);
}

INLINE void cut_pieces(const float *pixels, int64_t patch, int64_t n, char *out, int64_t out_stride, int64_t second, rvit_dtype dtype)
{
    const int64_t whole = patch - patch % VL;
    for (int64_t i = 0; i < n; i++, pixels += patch, out += out_stride) {
        for (int64_t j = 0; j < whole; j += VL)
            cut_piece(pixels, j, VL, out, second, dtype);
        if (whole < patch)
            cut_piece(pixels, whole, patch - whole, out, second, dtype);
    }
}

static void patchify(const float *pixels, int64_t patch, int64_t n, rvit_dtype dtype, char *out, int64_t out_stride, int64_t second)
{
    if (dtype == RVIT_F16)
        cut_pieces(pixels, patch, n, out, out_stride, second, RVIT_F16);
    else
        cut_pieces(pixels, patch, n, out, out_stride, second, RVIT_BF16);
}

/* Row strides are slightly more than a power of two, so that rows do not compete for the same cache sets. */
#define SUMS_STRIDE (RVIT_CPU_LINEAR_COLUMNS + 16)
#define FLOATS_STRIDE (RVIT_CPU_LINEAR_DEPTH + 16)

_Static_assert(RVIT_CPU_LINEAR_DEPTH *PANEL + RVIT_CPU_LINEAR_ROWS * (SUMS_STRIDE + FLOATS_STRIDE) <= RVIT_CPU_SCRATCH_FLOATS,
               "a tile of linear must fit the scratch memory");
_Static_assert(RVIT_CPU_LINEAR_COLUMNS % PANEL == 0 && RVIT_CPU_LINEAR_DEPTH % VL == 0, "full tiles are made of full panels");

/* Rearranges a weight into panels [in_features, PANEL]; the last one may be narrower. */
static int arrange(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch)
{
    const int64_t size = rvit_cpu_size(dtype);
    if (columns % VL != 0 || in_features * PANEL > RVIT_CPU_SCRATCH_FLOATS)
        return 0;
    for (int64_t column = 0; column < columns; column += PANEL) {
        const int width = columns - column < PANEL ? (int)(columns - column) : PANEL;
        char *panel = (char *)weight + column * in_features * size;
        if (dtype == RVIT_F32 && width == PANEL)
            pack_panel(panel, in_features, PANEL, in_features, scratch, RVIT_F32);
        for (int64_t p = 0; p < in_features && (dtype != RVIT_F32 || width < PANEL); p++)
            for (int j = 0; j < width; j++)
                memcpy((char *)scratch + (p * width + j) * size, panel + (j * in_features + p) * size, (size_t)size);
        memcpy(panel, scratch, (size_t)(width * in_features * size));
    }
    return 1;
}

/* Rows p .. p + depth - 1 of a panel as floats, `stride` apart: a pointer to them, or a copy in scratch. */
INLINE const float *panel_part(const rvit_cpu_linear_tile *t, int column, int columns, int64_t p, int64_t depth, float *scratch,
                               int64_t *stride)
{
    const int64_t size = rvit_cpu_size(t->dtype);
    const char *weight = (const char *)t->weight + column * t->in_features * size;
    *stride = t->arranged ? columns : PANEL;
    if (!t->arranged) {
        WITH_DTYPE(t->dtype, pack_panel, weight + p * size, t->in_features, columns, depth, scratch);
        return scratch;
    }
    weight += p * columns * size;
    if (t->dtype == RVIT_F32)
        return (const float *)(const void *)weight;
    widen((const uint16_t *)(const void *)weight, t->dtype, scratch, depth * columns);
    return scratch;
}

/* Prefetches the cache lines that a register tile will write. */
INLINE void fetch_out(const rvit_cpu_linear_tile *t, int row, int rows, int column, int columns)
{
    const int64_t size = rvit_cpu_size(t->out_dtype), width = (t->gated ? columns / 2 : columns) * size;
    char *out = (char *)t->out + (row * t->out_features + (t->gated ? column / 2 : column)) * size;
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j += 64)
            __builtin_prefetch(out + i * t->out_features * size + j, 1, 3);
}

/* Floats with arranged weights: rows are read in place, and sums stay in registers for all of in_features. */
static void linear_whole(const rvit_cpu_linear_tile *t)
{
    float sums[TILE_ROWS * PANEL];
    for (int column = 0; column < t->columns; column += PANEL) {
        const int columns = t->columns - column < PANEL ? t->columns - column : PANEL;
        const float *panel = (const float *)t->weight + column * t->in_features;
        for (int row = 0; row < t->rows; row += TILE_ROWS) {
            const int rows = t->rows - row < TILE_ROWS ? t->rows - row : TILE_ROWS;
            fetch_out(t, row, rows, column, columns);
            gemm_of(rows, columns)((const float *)t->x + row * t->in_features, t->in_features, panel, columns, t->in_features, sums, PANEL,
                                   0);
            finish_block(t, sums, PANEL, row, rows, column, columns);
        }
    }
}

/* Uses a panel of weights for all rows while it is in a near cache. If in_features is split, all accumulators wait in scratch. */
static void linear(const rvit_cpu_linear_tile *t, float *scratch)
{
    if (t->dtype == RVIT_F32 && t->arranged) {
        linear_whole(t);
        return;
    }
    float *panel = scratch;
    float *sums = panel + RVIT_CPU_LINEAR_DEPTH * PANEL;
    float *floats = sums + RVIT_CPU_LINEAR_ROWS * SUMS_STRIDE;
    for (int64_t p = 0; p < t->in_features; p += RVIT_CPU_LINEAR_DEPTH) {
        const int64_t left = t->in_features - p;
        const int64_t depth = left < RVIT_CPU_LINEAR_DEPTH ? left : RVIT_CPU_LINEAR_DEPTH;
        const float *x = (const float *)t->x + p;
        int64_t x_stride = t->in_features;
        if (t->dtype != RVIT_F32) {
            for (int i = 0; i < t->rows; i++)
                widen((const uint16_t *)t->x + i * t->in_features + p, t->dtype, floats + i * FLOATS_STRIDE, depth);
            x = floats;
            x_stride = FLOATS_STRIDE;
        }
        for (int column = 0; column < t->columns; column += PANEL) {
            const int columns = t->columns - column < PANEL ? t->columns - column : PANEL;
            int64_t part_stride;
            const float *part = panel_part(t, column, columns, p, depth, panel, &part_stride);
            for (int row = 0; row < t->rows; row += TILE_ROWS) {
                const int rows = t->rows - row < TILE_ROWS ? t->rows - row : TILE_ROWS;
                float *sum = sums + row * SUMS_STRIDE + column;
                gemm_of(rows, columns)(x + row * x_stride, x_stride, part, part_stride, depth, sum, SUMS_STRIDE, p > 0);
                if (depth == left)
                    finish_block(t, sum, SUMS_STRIDE, row, rows, column, columns);
            }
        }
    }
}

INLINE void layernorm_of(const rvit_cpu_layernorm_rows *r, rvit_dtype dtype, rvit_dtype out_dtype)
{
    const int64_t dim = r->dim, size = rvit_cpu_size(dtype);
    const float *gamma = r->gamma, *beta = r->beta;
    const char *x = r->x;
    char *out = r->out;
    for (int64_t row = r->first; row < r->end; row += ROWS_TOGETHER) {
        const int n = r->end - row < ROWS_TOGETHER ? (int)(r->end - row) : ROWS_TOGETHER;
        int64_t from[ROWS_TOGETHER];
        float mean[ROWS_TOGETHER], scale[ROWS_TOGETHER];
        for (int j = 0; j < n; j++) {
            from[j] = rvit_cpu_source_row(r, row + j) * dim;
            moments(x, from[j], dim, r->eps, dtype, &mean[j], &scale[j]);
        }
        for (int j = 0; j < n; j++) {
            for (int64_t i = 0; i < dim; i += VL) {
                const int64_t width = dim - i < VL ? dim - i : VL;
                const vec normal = (any_load(x, from[j] + i, width, dtype) - mean[j]) * scale[j];
                any_store(out, (row + j) * dim + i, normal * any_load(gamma, i, width, RVIT_F32) + any_load(beta, i, width, RVIT_F32),
                          width, out_dtype);
            }
            if (r->out_x != NULL)
                memcpy((char *)r->out_x + (row + j) * dim * size, x + from[j] * size, (size_t)(dim * size));
        }
    }
}

INLINE void layernorm_from(const rvit_cpu_layernorm_rows *r, rvit_dtype dtype)
{
    WITH_DTYPE(r->out_dtype, layernorm_of, r, dtype);
}

/* RMS norm, padded rows, no beta. */
static void layernorm_other(const rvit_cpu_layernorm_rows *r)
{
    const int64_t size = rvit_cpu_size(r->dtype);
    const row_norm norm = {r->gamma, r->beta, r->features, r->eps, r->rms};
    for (int64_t row = r->first; row < r->end; row++) {
        const int64_t from = rvit_cpu_source_row(r, row);
        const row_moments m = moments_of(&norm, r->x, from * r->dim, r->dtype);
        for (int64_t i = 0; i < r->dim; i += VL) {
            const int64_t left = r->features - i, width = r->dim - i < VL ? r->dim - i : VL;
            vec out = {0};
            if (left > 0)
                out = normal(&norm, &m, r->x, from * r->dim, i, left < width ? left : width, r->dtype);
            if (left > 0 && left < width) {
                float lanes[VL];
                vec_store(lanes, out);
                out = vec_load_part(lanes, left);
            }
            any_store(r->out, row * r->dim + i, out, width, r->out_dtype);
        }
        if (r->out_x != NULL)
            memcpy((char *)r->out_x + row * r->dim * size, (const char *)r->x + from * r->dim * size, (size_t)(r->dim * size));
    }
}

static void layernorm(const rvit_cpu_layernorm_rows *r)
{
    if (r->rms || r->beta == NULL || r->features < r->dim)
        layernorm_other(r);
    else
        WITH_DTYPE(r->dtype, layernorm_from, r);
}

/* Normalises rows in segments of this many elements, and adds the dot product of each class with a segment to the class's sum. */
#define STRETCH 512

static void head(const rvit_cpu_head_tile *t, float *scratch)
{
    const int64_t weight_size = rvit_cpu_size(t->weight_dtype);
    const int64_t features = t->n_tokens * t->dim;
    float *sums = scratch, *rows = scratch + RVIT_CPU_HEAD_CLASSES * RVIT_CPU_HEAD_IMAGES;
    memset(sums, 0, sizeof(float) * RVIT_CPU_HEAD_CLASSES * RVIT_CPU_HEAD_IMAGES);
    const row_norm norm = {t->gamma, t->beta, t->dim, t->eps, t->rms};
    for (int64_t token = 0; token < t->n_tokens; token++) {
        row_moments m[RVIT_CPU_HEAD_IMAGES];
        for (int image = 0; image < t->n_images; image++)
            m[image] = moments_of(&norm, t->x[image], token * t->dim, t->dtype);
        for (int64_t p = 0; p < t->dim; p += STRETCH) {
            const int64_t length = t->dim - p < STRETCH ? t->dim - p : STRETCH;
            for (int image = 0; image < t->n_images; image++)
                for (int64_t i = 0; i < length; i += VL) {
                    const int64_t width = length - i < VL ? length - i : VL;
                    any_store(rows, image * STRETCH + i, normal(&norm, &m[image], t->x[image], token * t->dim, p + i, width, t->dtype),
                              width, RVIT_F32);
                }
            for (int64_t c = 0; c < t->n_classes; c++) {
                const void *weight = (const char *)t->weight + ((t->first_class + c) * features + token * t->dim + p) * weight_size;
                vec dot[RVIT_CPU_HEAD_IMAGES] = {{0}, {0}, {0}, {0}};
                for (int64_t i = 0; i < length; i += VL) {
                    const int64_t width = length - i < VL ? length - i : VL;
                    const vec w = any_load(weight, i, width, t->weight_dtype);
                    for (int image = 0; image < t->n_images; image++)
                        dot[image] += w * any_load(rows, image * STRETCH + i, width, RVIT_F32);
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
    .step_clocks = TILE_ROWS * TILE_VECS / 2,
    .arrange = arrange,
    .linear = linear,
    .linear_finish = linear_finish,
    .linear_i8 = ISA_NAME(rvit_cpu_linear_i8_kernel),
    .linear_e4m3 = ISA_NAME(rvit_cpu_linear_e4m3_kernel),
    .attention = ISA_NAME(rvit_cpu_attention_kernel),
    .attention_backward = ISA_NAME(rvit_cpu_backward_kernel),
    .received = ISA_NAME(rvit_cpu_attention_received_kernel),
    .rope = ISA_NAME(rvit_cpu_rope_kernel),
    .layernorm = layernorm,
    .layernorm_quantized = ISA_NAME(rvit_cpu_layernorm_quantized_kernel),
    .quantize = ISA_NAME(rvit_cpu_quantize_kernel),
    .head = head,
    .pool = ISA_NAME(rvit_cpu_pool_kernel),
    .attention_pool = ISA_NAME(rvit_cpu_attention_pool_kernel),
    .metric = ISA_NAME(rvit_cpu_metric_kernel),
    .bipartite_match = ISA_NAME(rvit_cpu_bipartite_match_kernel),
    .patchify = patchify,
    .widen = widen,
    .narrow = narrow,
};
