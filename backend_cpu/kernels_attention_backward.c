/* The gradient of attention: one half of it for a tile of keys or of queries (rvit_cpu_backward_tile), compiled once per instruction
   set. The other rows are processed in blocks: transposed, to compute logits and d_out v^T, and row-major, to add to the tile's
   gradients, which stay in scratch. Both halves compute the weights again, so no sum passes from one thread to another. */
#include <math.h>

#include "backend_cpu/isa.h"
#include "backend_cpu/gemm.h"

#define BLOCK RVIT_CPU_ATTENTION_KEYS
#define ROWS RVIT_CPU_ATTENTION_QUERIES
#define DIM RVIT_CPU_MAX_HEAD_DIM

/* The numbers that a row adds to its logits and subtracts from its entries of d_out v^T: bias and 0 for a key, -lse and D for a query. A
   query without weight, whose lse is -infinity, adds -infinity. */
typedef struct numbers {
    float logit, delta;
} numbers;

typedef struct state {
    float x_panels[DIM * BLOCK], y_panels[DIM * BLOCK]; /* [BLOCK / PANEL][head_dim][PANEL] */
    float x_rows[BLOCK * DIM], y_rows[BLOCK * DIM];
    float logit[BLOCK], delta[BLOCK]; /* of the block; -infinity and 0 past its last row */
    float weights[TILE_ROWS * BLOCK], gemms[TILE_ROWS * BLOCK];
    numbers own[ROWS];
    float shares[ROWS];
    float d_x[ROWS * DIM], d_y[ROWS * DIM];
    float x[ROWS * DIM], y[ROWS * DIM]; /* used if rows are stored in 16 bits */
} state;

_Static_assert(sizeof(state) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "the state must fit the scratch memory");
_Static_assert(ROWS % TILE_ROWS == 0, "tiles are made of register tiles");

INLINE int padded(int head_dim)
{
    return (head_dim + VL - 1) / VL * VL;
}

INLINE const void *row_of(const void *rows, int64_t row, int64_t stride, rvit_dtype dtype)
{
    return (const char *)rows + row * stride * rvit_cpu_size(dtype);
}

INLINE void copy_rows(const void *rows, int64_t stride, int64_t n, int width, float *out, rvit_dtype dtype)
{
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j += VL)
            vec_store(out + i * padded(width) + j, any_load(rows, i * stride + j, width - j < VL ? width - j : VL, dtype));
}

INLINE void pack_panels(const void *rows, int64_t stride, int n, int width, float *panels, rvit_dtype dtype)
{
    for (int row = 0; row < n; row += PANEL)
        pack_panel(row_of(rows, row, stride, dtype), stride, n - row < PANEL ? n - row : PANEL, width, panels + row * width, dtype);
}

INLINE numbers numbers_of_query(const rvit_cpu_backward_tile *t, int64_t row, rvit_dtype dtype)
{
    const void *out = row_of(t->out, row, t->out_stride, dtype), *d_out = row_of(t->d_out, row, t->d_out_stride, dtype);
    vec sum = {0};
    for (int j = 0; j < t->head_dim; j += VL) {
        const int width = t->head_dim - j < VL ? t->head_dim - j : VL;
        sum += any_load(out, j, width, dtype) * any_load(d_out, j, width, dtype);
    }
    numbers n = {-INFINITY, vec_sum(sum)};
    const float lse = t->lse[row * t->n_heads];
    if (lse != -INFINITY)
        n.logit = -lse;
    if (t->d_lse != NULL)
        n.delta -= t->d_lse[row * t->n_heads];
    if (t->d_cls_probs != NULL && row == 0) {
        float probs = 0.0f;
        for (int64_t key = 0; key < t->len; key++)
            probs += t->cls_probs[key * t->n_heads] * t->d_cls_probs[key * t->n_heads];
        n.delta += probs;
    }
    return n;
}

INLINE numbers numbers_of(const rvit_cpu_backward_tile *t, int64_t row, int is_key, rvit_dtype dtype)
{
    if (!is_key)
        return numbers_of_query(t, row, dtype);
    return (numbers){t->key_bias != NULL ? t->key_bias[row] : 0.0f, 0.0f};
}

INLINE void load_block(const rvit_cpu_backward_tile *t, state *s, int64_t first, int n, rvit_dtype dtype)
{
    const void *x = row_of(t->other_x, first, t->other_x_stride, dtype), *y = row_of(t->other_y, first, t->other_y_stride, dtype);
    pack_panels(x, t->other_x_stride, n, t->head_dim, s->x_panels, dtype);
    pack_panels(y, t->other_y_stride, n, t->head_dim, s->y_panels, dtype);
    copy_rows(x, t->other_x_stride, n, t->head_dim, s->x_rows, dtype);
    if (t->own_keys)
        copy_rows(y, t->other_y_stride, n, t->head_dim, s->y_rows, dtype);
    for (int j = 0; j < BLOCK; j++) {
        const numbers other = j < n ? numbers_of(t, first + j, !t->own_keys, dtype) : (numbers){-INFINITY, 0.0f};
        s->logit[j] = other.logit;
        s->delta[j] = other.delta;
    }
}

/* c[rows, n] = a[rows, head_dim] times the panels. */
INLINE void multiply_panels(const float *a, int64_t stride, const float *panels, int rows, int n, int head_dim, float *c)
{
    for (int column = 0; column < n; column += PANEL)
        gemm_of(rows, n - column)(a, stride, panels + column * head_dim, PANEL, head_dim, c + column, BLOCK, 0);
}

/* out[rows, head_dim] (+)= a[rows, n] block[n, head_dim]. */
INLINE void add_rows(const float *a, const float *block, int rows, int n, int head_dim, float *out, int accumulate)
{
    const int width = padded(head_dim);
    for (int j = 0; j < width; j += PANEL)
        gemm_of(rows, width - j)(a, BLOCK, block + j, width, n, out + j, width, accumulate);
}

/* A register tile times a block: turns logits into weights, and d_out v^T into gradients of the logits. */
static void weigh(const rvit_cpu_backward_tile *t, state *s, int row, int rows, int64_t first, int n)
{
    const numbers *own = s->own + row;
    /* d_cls_probs belongs to the first query, which is a row or a column of the tile. */
    if (t->d_cls_probs != NULL && t->own_keys && first == 0)
        for (int i = 0; i < rows; i++)
            s->gemms[i * BLOCK] += t->d_cls_probs[(t->first + row + i) * t->n_heads];
    if (t->d_cls_probs != NULL && !t->own_keys && t->first + row == 0)
        for (int j = 0; j < n; j++)
            s->gemms[j] += t->d_cls_probs[(first + j) * t->n_heads];
    for (int i = 0; i < rows; i++) {
        vec total = {0};
        for (int j = 0; j < n; j += VL) {
            float *weights = s->weights + i * BLOCK + j, *gradients = s->gemms + i * BLOCK + j;
            const vec weight = vec_exp(vec_load(weights) * t->scale + (vec_load(s->logit + j) + own[i].logit));
            const vec gradient = weight * (vec_load(gradients) - (vec_load(s->delta + j) + own[i].delta));
            vec_store(weights, weight);
            vec_store(gradients, gradient);
            total += gradient;
        }
        s->shares[row + i] = (first > 0 ? s->shares[row + i] : 0.0f) + vec_sum(total);
    }
}

INLINE void write_rows(const float *rows, void *out, int64_t stride, int64_t n, int width, float factor, rvit_dtype dtype)
{
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j += VL)
            any_store(out, i * stride + j, vec_load(rows + i * padded(width) + j) * factor, width - j < VL ? width - j : VL, dtype);
}

INLINE void backward(const rvit_cpu_backward_tile *t, state *s, rvit_dtype dtype)
{
    const int width = padded(t->head_dim);
    const float *x = row_of(t->x, t->first, t->x_stride, dtype), *y = row_of(t->y, t->first, t->y_stride, dtype);
    int64_t x_stride = t->x_stride, y_stride = t->y_stride;
    if (dtype != RVIT_F32) {
        copy_rows(x, x_stride, t->n, t->head_dim, s->x, dtype);
        copy_rows(y, y_stride, t->n, t->head_dim, s->y, dtype);
        x = s->x, y = s->y;
        x_stride = y_stride = width;
    }
    for (int64_t i = 0; i < t->n; i++)
        s->own[i] = numbers_of(t, t->first + i, t->own_keys, dtype);
    for (int64_t first = 0; first < t->len; first += BLOCK) {
        const int n = t->len - first < BLOCK ? (int)(t->len - first) : BLOCK;
        load_block(t, s, first, n, dtype);
        for (int row = 0; row < t->n; row += TILE_ROWS) {
            const int rows = t->n - row < TILE_ROWS ? (int)t->n - row : TILE_ROWS;
            multiply_panels(x + row * x_stride, x_stride, s->x_panels, rows, n, t->head_dim, s->weights);
            multiply_panels(y + row * y_stride, y_stride, s->y_panels, rows, n, t->head_dim, s->gemms);
            weigh(t, s, row, rows, first, n);
            if (t->own_keys)
                add_rows(s->weights, s->y_rows, rows, n, t->head_dim, s->d_y + row * width, first > 0);
            add_rows(s->gemms, s->x_rows, rows, n, t->head_dim, s->d_x + row * width, first > 0);
        }
    }
    const int64_t size = rvit_cpu_size(dtype);
    write_rows(s->d_x, (char *)t->d_x + t->first * t->d_x_stride * size, t->d_x_stride, t->n, t->head_dim, t->scale, dtype);
    if (t->own_keys)
        write_rows(s->d_y, (char *)t->d_y + t->first * t->d_y_stride * size, t->d_y_stride, t->n, t->head_dim, 1.0f, dtype);
    if (t->own_keys && t->shares != NULL)
        memcpy(t->shares + t->first, s->shares, (size_t)t->n * sizeof *s->shares);
}

void ISA_NAME(rvit_cpu_backward_kernel)(const rvit_cpu_backward_tile *tile, float *scratch)
{
    state *s = (state *)(void *)scratch;
    WITH_DTYPE(tile->dtype, backward, tile, s);
}
