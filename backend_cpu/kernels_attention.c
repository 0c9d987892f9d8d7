/* The attention kernel: online softmax over blocks of keys, compiled once per instruction set. Each block of keys is transposed, and its
   values are copied, into scratch as contiguous float32. Two register tiles of queries at a time then compute their logits, update their
   running maxima and denominators, and add to their output rows, which stay in scratch. */
#include <math.h>

#include "backend_cpu/isa.h"
#include "backend_cpu/gemm.h"

#define KEYS 256 /* of a block */
#define QUERIES RVIT_CPU_ATTENTION_QUERIES
#define ROWS (2 * TILE_ROWS)              /* that are in softmax at a time */
#define LANES ((ROWS + VL - 1) / VL * VL) /* rounded up to whole vectors */

typedef struct state {
    float keys[RVIT_CPU_MAX_HEAD_DIM * KEYS]; /* [KEYS / PANEL][head_dim][PANEL] */
    float values[KEYS * RVIT_CPU_MAX_HEAD_DIM];
    float bias[KEYS]; /* -infinity past the last key */
    float logits[ROWS * KEYS];
    float largest[QUERIES + VL], sum[QUERIES + VL];
    float out[QUERIES * RVIT_CPU_MAX_HEAD_DIM];
    float queries[QUERIES * RVIT_CPU_MAX_HEAD_DIM]; /* used if queries are stored as 16 bits */
} state;

_Static_assert(sizeof(state) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "attention's state must fit the scratch memory");
_Static_assert(QUERIES % ROWS == 0, "query tiles are made of whole groups of rows");

/* Rounds up to whole vectors: the stride of values and out. */
INLINE int padded(int head_dim)
{
    return (head_dim + VL - 1) / VL * VL;
}

INLINE void copy_rows(const void *rows, int64_t stride, int64_t n, int width, float *out, int out_stride, rvit_dtype dtype)
{
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j += VL)
            vec_store(out + i * out_stride + j, any_load(rows, i * stride + j, width - j < VL ? width - j : VL, dtype));
}

INLINE void load_block(const rvit_cpu_attention_tile *t, state *s, int64_t first, int n, rvit_dtype dtype)
{
    const int64_t size = rvit_cpu_size(dtype);
    const char *keys = (const char *)t->k + first * t->k_stride * size;
    for (int key = 0; key < n; key += PANEL)
        pack_panel(keys + key * t->k_stride * size, t->k_stride, n - key < PANEL ? n - key : PANEL, t->head_dim,
                   s->keys + key * t->head_dim, dtype);
    copy_rows((const char *)t->v + first * t->v_stride * size, t->v_stride, n, t->head_dim, s->values, padded(t->head_dim), dtype);
    for (int j = 0; j < KEYS; j++)
        s->bias[j] = j >= n ? -INFINITY : t->key_bias != NULL ? t->key_bias[first + j] : 0.0f;
}

/* The softmax of one block for some rows. Turns logits into weights, updates the running maxima and denominators, and writes the factor
   of the rows' earlier sums to `scale`. A row that has seen only -infinity keeps maximum -infinity and denominator 0. */
INLINE void softmax(const rvit_cpu_attention_tile *t, state *s, int rows, int n_vecs, float *largest, float *sum, float *scale,
                    float *cls_logits, int n)
{
    float top[LANES];
    for (int i = 0; i < rows; i++) {
        vec highest = vec_set(-INFINITY);
        for (int j = 0; j < n_vecs; j++) {
            const vec logit = vec_load(s->logits + i * KEYS + j * VL) * t->scale + vec_load(s->bias + j * VL);
            vec_store(s->logits + i * KEYS + j * VL, logit);
            highest = vec_max(logit, highest);
        }
        top[i] = vec_largest(highest);
    }
    for (int i = rows; i < LANES; i++)
        top[i] = -INFINITY;
    if (cls_logits != NULL)
        for (int j = 0; j < n; j++)
            cls_logits[j * t->n_heads] = s->logits[j];
    float base[LANES];
    for (int i = 0; i < LANES; i += VL) {
        const vec before = vec_load(largest + i);
        const vec after = vec_max(vec_load(top + i), before);
        const vec from = vec_select(after == -INFINITY, (vec){0}, after);
        vec_store(base + i, from);
        vec_store(scale + i, vec_exp(before - from));
        vec_store(top + i, after);
    }
    memcpy(largest, top, (size_t)rows * sizeof *top);
    for (int i = 0; i < rows; i++) {
        vec total = {0};
        for (int j = 0; j < n_vecs; j++) {
            const vec weight = vec_exp(vec_load(s->logits + i * KEYS + j * VL) - base[i]);
            vec_store(s->logits + i * KEYS + j * VL, weight);
            total += weight;
        }
        sum[i] = sum[i] * scale[i] + vec_sum(total);
    }
}

INLINE int tile_rows(int left)
{
    return left < TILE_ROWS ? left : TILE_ROWS;
}

static void update(const rvit_cpu_attention_tile *t, state *s, const float *q, int64_t q_stride, int row, int rows, int64_t first_key,
                   int n)
{
    const int width = padded(t->head_dim);
    for (int key = 0; key < n; key += PANEL)
        for (int i = 0; i < rows; i += TILE_ROWS)
            gemm_of(tile_rows(rows - i), n - key)(q + i * q_stride, q_stride, s->keys + key * t->head_dim, PANEL, t->head_dim,
                                                  s->logits + i * KEYS + key, KEYS, 0);

    float *cls_logits = NULL;
    if (t->cls_probs != NULL && t->first_query + row == 0)
        cls_logits = t->cls_probs + first_key * t->n_heads;
    float scale[LANES];
    const int n_vecs = (n + VL - 1) / VL;
    softmax(t, s, rows, n_vecs, s->largest + row, s->sum + row, scale, cls_logits, n);

    float *out = s->out + row * width;
    if (first_key > 0)
        for (int i = 0; i < rows; i++)
            if (scale[i] != 1.0f)
                for (int j = 0; j < width; j += VL)
                    vec_store(out + i * width + j, vec_load(out + i * width + j) * scale[i]);
    for (int j = 0; j < width; j += PANEL)
        for (int i = 0; i < rows; i += TILE_ROWS)
            gemm_of(tile_rows(rows - i), width - j)(s->logits + i * KEYS, KEYS, s->values + j, width, n, out + i * width + j, width,
                                                    first_key > 0);
}

INLINE void write_rows(const rvit_cpu_attention_tile *t, const state *s, rvit_dtype dtype)
{
    const int64_t size = rvit_cpu_size(dtype);
    const int width = padded(t->head_dim);
    for (int64_t i = 0; i < t->n_queries; i++) {
        const int64_t row = t->first_query + i;
        void *out = (char *)t->out + row * t->out_stride * size;
        const float sum = s->sum[i];
        const float factor = 1.0f / sum;
        if (t->len == 1 && sum == 1.0f) {
            memcpy(out, t->v, (size_t)(t->head_dim * size)); /* preserves the sign of a zero */
        } else {
            for (int j = 0; j < t->head_dim; j += VL) {
                const vec v = sum == 0.0f ? (vec){0} : vec_load(s->out + i * width + j) * factor;
                any_store(out, j, v, t->head_dim - j < VL ? t->head_dim - j : VL, dtype);
            }
        }
        if (t->lse != NULL)
            t->lse[row * t->n_heads] = s->largest[i] + logf(sum);
    }
}

/* Turns the logits that the first row wrote to cls_probs into probabilities. */
static void finish_cls(const rvit_cpu_attention_tile *t, float largest, float sum)
{
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int64_t first = 0; first < t->len; first += VL) {
        const int n = t->len - first < VL ? (int)(t->len - first) : VL;
        float lanes[VL] = {0};
        for (int j = 0; j < n; j++)
            lanes[j] = sum == 0.0f ? 0.0f : t->cls_probs[(first + j) * t->n_heads] - largest;
        vec_store(lanes, vec_exp(vec_load(lanes)) * factor);
        for (int j = 0; j < n; j++)
            t->cls_probs[(first + j) * t->n_heads] = lanes[j];
    }
}

INLINE void attention(const rvit_cpu_attention_tile *t, state *s, rvit_dtype dtype)
{
    const float *q = (const float *)t->q + t->first_query * t->q_stride;
    int64_t q_stride = t->q_stride;
    if (dtype != RVIT_F32) {
        copy_rows((const uint16_t *)t->q + t->first_query * t->q_stride, t->q_stride, t->n_queries, t->head_dim, s->queries,
                  padded(t->head_dim), dtype);
        q = s->queries;
        q_stride = padded(t->head_dim);
    }
    for (int64_t i = 0; i < t->n_queries + VL; i++) {
        s->largest[i] = -INFINITY;
        s->sum[i] = 0.0f;
    }
    for (int64_t key = 0; key < t->len; key += KEYS) {
        const int n = t->len - key < KEYS ? (int)(t->len - key) : KEYS;
        load_block(t, s, key, n, dtype);
        for (int row = 0; row < t->n_queries; row += ROWS) {
            const int rows = t->n_queries - row < ROWS ? (int)t->n_queries - row : ROWS;
            update(t, s, q + row * q_stride, q_stride, row, rows, key, n);
        }
    }
    write_rows(t, s, dtype);
    if (t->cls_probs != NULL && t->first_query == 0)
        finish_cls(t, s->largest[0], s->sum[0]);
}

void ISA_NAME(rvit_cpu_attention_kernel)(const rvit_cpu_attention_tile *tile, float *scratch)
{
    state *s = (state *)(void *)scratch;
    WITH_DTYPE(tile->dtype, attention, tile, s);
}
