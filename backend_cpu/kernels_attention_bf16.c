/* The attention kernel for bf16 on processors that multiply bf16: AMX tiles, or dot products of pairs. Logits, softmax and sums are
   float32. The weights are rounded to bf16 before they are multiplied with the values, and their sum is that of the rounded weights.

   Keys are packed in blocks. Row tiles of two AMX tiles of queries then compute the logits of all keys of the block, their weights and
   their contribution to the output. Operands are tiles of 16 lines of 64 bytes: left operands hold 16 rows of 32 columns, right operands
   16 pairs of rows of 16 columns. Which columns form a pair is arbitrary if both sides agree. A pair of weights holds the keys i and
   i + 16 of 32, and a tile of values the even or the odd columns of 32, so that packing needs no shuffles. */
#include <math.h>

#include "backend_cpu/isa.h"
#include "backend_cpu/gemm_bf16.h"
#include "backend_cpu/vector.h"

#define KEYS 512 /* of a block */
#define QUERIES RVIT_CPU_ATTENTION_QUERIES
#define ROW_TILE RVIT_CPU_ATTENTION_ROW_TILE
#define MAX_DIM RVIT_CPU_MAX_HEAD_DIM
#define LOG2_E 1.44269504f

typedef struct state {
    uint16_t keys[KEYS * MAX_DIM];        /* [keys / 16][columns / 32] tiles */
    uint16_t values[KEYS * MAX_DIM];      /* [columns / 16][keys / 32] tiles */
    uint16_t queries[ROW_TILE * MAX_DIM]; /* [2][columns / 32] tiles */
    uint16_t weights[ROW_TILE * KEYS];    /* [2][keys / 32] tiles */
    float scores[ROW_TILE * KEYS];        /* [2][keys / 16] tiles */
    float part[ROW_TILE * MAX_DIM];       /* [2][columns / 16] tiles: the block's contribution to out */
    float bias[KEYS];                     /* -infinity past the last key */
    float out[QUERIES * MAX_DIM];         /* the sum over blocks; each row is [columns / 32][even, odd] */
    float largest[QUERIES];               /* the largest logit, times log2 e */
    float sum[QUERIES];                   /* of the rounded weights */
    float top[QUERIES], whole[QUERIES];   /* for cls_probs and lse: the largest logit, and the sum of the unrounded weights */
} state;

_Static_assert(sizeof(state) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "attention's state must fit the scratch memory");
_Static_assert(KEYS % 32 == 0 && QUERIES % ROW_TILE == 0, "blocks and query tiles are made of whole tiles");

/* A block of keys of an image, counted in tiles of 32. */
typedef struct block {
    int64_t first;
    int n, n_pairs, n_columns;
    int is_first, is_last;
} block;

/* 16 lines of 32 elements, starting at `lines`: a pointer to them, or a copy with zeros past the end. */
INLINE const uint16_t *whole_lines(const uint16_t *lines, int64_t *stride, int64_t n_lines, int64_t n_columns, uint16_t edge[16 * 32])
{
    if (n_lines >= 16 && n_columns >= 32)
        return lines;
    memset(edge, 0, sizeof(uint16_t) * 16 * 32);
    for (int64_t i = 0; i < 16 && i < n_lines; i++)
        memcpy(edge + i * 32, lines + i * *stride, (size_t)(n_columns < 32 ? n_columns : 32) * sizeof *edge);
    *stride = 32;
    return edge;
}

INLINE uvec load_packed(const void *p)
{
    uvec words;
    memcpy(&words, p, sizeof words);
    return words;
}

INLINE void store_packed(void *p, uvec words)
{
    memcpy(p, &words, sizeof words);
}

/* Transposes a tile of pairs, [i][j] to [j][i]: pairs of columns of a key become lines. */
INLINE void pack_keys(const uint16_t *keys, int64_t stride, int64_t n_keys, int64_t n_columns, uint16_t *tile)
{
    uint16_t edge[16 * 32];
    keys = whole_lines(keys, &stride, n_keys, n_columns, edge);
    for (int i = 0; i < 16; i += VL)
        for (int j = 0; j < 16; j += VL) {
            vec lines[VL];
            UNROLL
            for (int l = 0; l < VL; l++)
                lines[l] = (vec)load_packed(keys + (i + l) * stride + 2 * j);
            vec_transpose(lines);
            UNROLL
            for (int l = 0; l < VL; l++)
                store_packed(tile + (j + l) * 32 + 2 * i, (uvec)lines[l]);
        }
}

/* Packs 32 keys into two tiles. */
INLINE void pack_values(const uint16_t *values, int64_t stride, int64_t n_keys, int64_t n_columns, uint16_t *even, uint16_t *odd)
{
    uint16_t edges[2][16 * 32];
    int64_t strides[2] = {stride, stride};
    const uint16_t *low = whole_lines(values, &strides[0], n_keys, n_columns, edges[0]);
    const uint16_t *high = n_keys <= 16 ? NULL : whole_lines(values + 16 * stride, &strides[1], n_keys - 16, n_columns, edges[1]);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j += VL) {
            const uvec a = load_packed(low + i * strides[0] + 2 * j);
            const uvec b = high == NULL ? (uvec){0} : load_packed(high + i * strides[1] + 2 * j);
            store_packed(even + i * 32 + 2 * j, (a & 0xffff) | b << 16);
            store_packed(odd + i * 32 + 2 * j, a >> 16 | (b & 0xffff0000));
        }
}

static void load_block(const rvit_cpu_attention_tile *t, state *s, const block *b)
{
    const uint16_t *keys = (const uint16_t *)t->k + b->first * t->k_stride;
    for (int tile = 0; tile < 2 * b->n_pairs; tile++)
        for (int step = 0; step < b->n_columns; step++)
            pack_keys(keys + 16 * tile * t->k_stride + 32 * step, t->k_stride, b->n - 16 * tile, t->head_dim - 32 * step,
                      s->keys + (tile * b->n_columns + step) * TILE_ELEMENTS);
    const uint16_t *values = (const uint16_t *)t->v + b->first * t->v_stride;
    for (int pair = 0; pair < b->n_pairs; pair++)
        for (int column = 0; column < b->n_columns; column++) {
            uint16_t *even = s->values + (2 * column * b->n_pairs + pair) * TILE_ELEMENTS;
            pack_values(values + 32 * pair * t->v_stride + 32 * column, t->v_stride, b->n - 32 * pair, t->head_dim - 32 * column, even,
                        even + b->n_pairs * TILE_ELEMENTS);
        }
    for (int j = 0; j < 32 * b->n_pairs; j++)
        s->bias[j] = j >= b->n ? -INFINITY : t->key_bias != NULL ? t->key_bias[b->first + j] : 0.0f;
}

static void load_queries(const rvit_cpu_attention_tile *t, state *s, int row, int n_tiles, int n_steps)
{
    const uint16_t *queries = (const uint16_t *)t->q + (t->first_query + row) * t->q_stride;
    for (int tile = 0; tile < n_tiles; tile++)
        for (int step = 0; step < n_steps; step++) {
            uint16_t edge[16 * 32], *out = s->queries + (tile * n_steps + step) * TILE_ELEMENTS;
            int64_t stride = t->q_stride;
            const uint16_t *lines = whole_lines(queries + 16 * tile * t->q_stride + 32 * step, &stride, t->n_queries - row - 16 * tile,
                                                t->head_dim - 32 * step, edge);
            for (int i = 0; i < 16; i++)
                memcpy(out + i * 32, lines + i * stride, 64);
        }
}

/* The index of a column in a row of several tiles. */
INLINE int64_t at_column(int column)
{
    return column / 16 * TILE_FLOATS + column % 16;
}

/* Adds a row's logits, their maximum and the sum of their weights in float32, for cls_probs and lse. */
static void add_whole_row(const rvit_cpu_attention_tile *t, state *s, const block *b, const float *scores, int row, float *cls_logits)
{
    vec highest = vec_set(-INFINITY);
    for (int key = 0; key < b->n; key += VL)
        highest = vec_max(vec_load(scores + at_column(key)) * t->scale + vec_load(s->bias + key), highest);
    const float before = s->top[row], here = vec_largest(highest), after = here > before ? here : before;
    const float base = after == -INFINITY ? 0.0f : after;
    vec total = {0};
    for (int key = 0; key < b->n; key += VL) {
        const vec logit = vec_load(scores + at_column(key)) * t->scale + vec_load(s->bias + key);
        total += vec_exp(logit - base);
        float lanes[VL];
        vec_store(lanes, logit);
        for (int j = 0; cls_logits != NULL && j < VL && key + j < b->n; j++)
            cls_logits[(key + j) * t->n_heads] = lanes[j];
    }
    s->whole[row] = s->whole[row] * vec_exp(vec_set(before - base))[0] + vec_sum(total);
    s->top[row] = after;
}

/* 2^x for x <= 0, rounded to bf16. Only normal results matter; far below them it is 0 or negligible. NaN gives NaN. The polynomial for the
   fraction of x (relative error 8.6e-5) is rounded by adding a number whose unit in the last place is that of bf16. */
INLINE vec weight_of(vec x)
{
#if VL == 16
    const vec r = (vec)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    x = vec_max(vec_set(-127.0f), x);
    vec n = x + 12582912.0f - 12582912.0f; /* 1.5 * 2^23 */
    n -= vec_select(n > x, vec_set(1.0f), (vec){0});
    const vec r = x - n;
#endif
    vec p = r * 0.07706704f + 0.227645f;
    p = p * r + 0.69511676f;
    p = p * r + (98304.0f + 1.0f); /* 1.5 * 2^16 */
    p -= 98304.0f;
#if VL == 16
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)x);
#else
    return p * (vec)((__builtin_convertvector(n, ivec) + 127) << 23);
#endif
}

/* Computes the weights of a row of scores, times `factor` (which includes log2 e), and returns their sum. */
INLINE float weigh_row(const float *scores, int n, float factor, float base, uint16_t *weights)
{
    vec total[2] = {{0}, {0}};
    int key = 0;
    for (; key + 16 < n; key += 32, scores += 2 * TILE_FLOATS, weights += TILE_ELEMENTS)
        for (int j = 0; j < 16; j += VL) {
            const vec low = weight_of(vec_load(scores + j) * factor - base),
                      high = weight_of(vec_load(scores + TILE_FLOATS + j) * factor - base);
            total[0] += low;
            total[1] += high;
            store_packed(weights + 2 * j, (uvec)low >> 16 | ((uvec)high & 0xffff0000));
        }
    for (int j = 0; key < n && j < 16; j += VL) {
        const vec low = weight_of(vec_load(scores + j) * factor - base);
        total[0] += low;
        store_packed(weights + 2 * j, (uvec)low >> 16);
    }
    return vec_sum(total[0] + total[1]);
}

/* Turns a tile of rows of scores into weights, and updates the rows' maxima and sums. to_old: factors of the sums over earlier blocks. */
static void weigh_tile(const rvit_cpu_attention_tile *t, state *s, const block *b, float *scores, int row, int rows, uint16_t *weights,
                       float *to_old)
{
    const int has_bias = t->key_bias != NULL || t->scale <= 0.0f;
    const float factor = has_bias ? LOG2_E : t->scale * LOG2_E;
    const int n = (b->n + VL - 1) / VL * VL;
    float top[16];
    for (int i = 0; i < rows; i++) {
        float *line = scores + 16 * i;
        if (has_bias)
            for (int key = 0; key < n; key += VL)
                vec_store(line + at_column(key), vec_load(line + at_column(key)) * t->scale + vec_load(s->bias + key));
        else if (n > b->n)
            vec_store(line + at_column(n - VL), vec_load(line + at_column(n - VL)) + vec_load(s->bias + n - VL));
        for (int key = n; key < (b->n + 15) / 16 * 16; key += VL)
            vec_store(line + at_column(key), vec_set(-INFINITY));
        vec highest[2] = {vec_set(-INFINITY), vec_set(-INFINITY)};
        int key = 0;
        for (; key + 32 <= n; key += 32)
            for (int j = 0; j < 16; j += VL) {
                highest[0] = vec_max(vec_load(line + at_column(key) + j), highest[0]);
                highest[1] = vec_max(vec_load(line + at_column(key) + TILE_FLOATS + j), highest[1]);
            }
        for (; key < n; key += VL)
            highest[0] = vec_max(vec_load(line + at_column(key)), highest[0]);
        top[i] = vec_largest(vec_max(highest[0], highest[1])) * factor;
    }
    for (int i = 0; i < rows; i++) {
        float *largest = s->largest + row + i, *sum = s->sum + row + i;
        const float after = top[i] > *largest ? top[i] : *largest, base = after == -INFINITY ? 0.0f : after;
        const float here = weigh_row(scores + 16 * i, b->n, factor, base, weights + 32 * i);
        to_old[i] = b->is_first ? 0.0f : vec_exp(vec_set((*largest - base) * 0.693147181f))[0];
        *sum = *sum * to_old[i] + here;
        *largest = after;
    }
}

/* The bits of v rounded so that the upper half is the nearest bf16. NaN stays NaN: the lower half of a bf16 NaN is 0. */
INLINE uvec rounded_bits(vec v)
{
    return (uvec)v + 0x7fff + ((uvec)v >> 16 & 1);
}

/* Adds a tile of rows of `part` to `out`; after the last block, writes them to the op's output. */
static void finish_tile(const rvit_cpu_attention_tile *t, state *s, const block *b, const float *part, int row, int rows,
                        const float *to_old)
{
    const int width = 32 * b->n_columns;
    for (int i = 0; i < rows; i++) {
        const int64_t at = t->first_query + row + i;
        float *sums = s->out + (row + i) * width;
        uint16_t *out = (uint16_t *)t->out + at * t->out_stride;
        const float sum = s->sum[row + i], factor = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int column = 0; column < t->head_dim; column += 32) {
            const int whole = t->head_dim - column >= 32;
            uint16_t edge[32], *words = whole ? out + column : edge;
            for (int j = 0; j < 16; j += VL) {
                vec even = vec_load(part + at_column(column) + 16 * i + j), odd = vec_load(part + at_column(column + 16) + 16 * i + j);
                if (!b->is_first) {
                    even += vec_load(sums + column + j) * to_old[i];
                    odd += vec_load(sums + column + 16 + j) * to_old[i];
                }
                if (!b->is_last) {
                    vec_store(sums + column + j, even);
                    vec_store(sums + column + 16 + j, odd);
                } else {
                    store_packed(words + 2 * j, rounded_bits(even * factor) >> 16 | (rounded_bits(odd * factor) & 0xffff0000));
                }
            }
            if (b->is_last && !whole)
                memcpy(out + column, edge, (size_t)(t->head_dim - column) * sizeof *out);
        }
        if (b->is_last && t->len == 1 && sum == 1.0f)
            memcpy(out, t->v, (size_t)t->head_dim * sizeof *out); /* preserves the sign of a zero */
    }
}

static void add_row_tile(const rvit_cpu_attention_tile *t, state *s, const block *b, int row, int rows)
{
    const int n_tiles = (rows + 15) / 16, two = n_tiles > 1;
    const tile_lists queries = {s->queries, (int64_t)b->n_columns * TILE_ELEMENTS};
    const tile_lists weights = {s->weights, (int64_t)b->n_pairs * TILE_ELEMENTS};
    load_queries(t, s, row, n_tiles, b->n_columns);
    for (int pair = 0; pair < b->n_pairs; pair++) {
        const tile_lists keys = {s->keys + 2 * pair * queries.next, queries.next};
        gemm_tiles(queries, keys, b->n_columns, two, s->scores + 2 * pair * TILE_FLOATS, 2 * (int64_t)b->n_pairs * TILE_FLOATS);
    }
    float to_old[ROW_TILE];
    for (int tile = 0; tile < n_tiles; tile++) {
        float *scores = s->scores + 2 * tile * b->n_pairs * TILE_FLOATS;
        const int first = row + 16 * tile, here = rows - 16 * tile < 16 ? rows - 16 * tile : 16;
        for (int i = 0; i < here; i++) {
            const int is_cls = t->cls_probs != NULL && t->first_query + first + i == 0;
            if (is_cls || t->lse != NULL)
                add_whole_row(t, s, b, scores + 16 * i, first + i, is_cls ? t->cls_probs + b->first * t->n_heads : NULL);
        }
        weigh_tile(t, s, b, scores, first, here, s->weights + tile * weights.next, to_old + 16 * tile);
    }
    for (int column = 0; column < b->n_columns; column++) {
        const tile_lists values = {s->values + 2 * column * weights.next, weights.next};
        gemm_tiles(weights, values, b->n_pairs, two, s->part + 2 * column * TILE_FLOATS, 2 * (int64_t)b->n_columns * TILE_FLOATS);
    }
    for (int tile = 0; tile < n_tiles; tile++)
        finish_tile(t, s, b, s->part + 2 * tile * b->n_columns * TILE_FLOATS, row + 16 * tile,
                    rows - 16 * tile < 16 ? rows - 16 * tile : 16, to_old + 16 * tile);
}

/* Turns the logits that the first row wrote to cls_probs into probabilities, and writes lse. */
static void finish(const rvit_cpu_attention_tile *t, const state *s)
{
    if (t->cls_probs != NULL && t->first_query == 0) {
        const float factor = s->whole[0] == 0.0f ? 0.0f : 1.0f / s->whole[0];
        for (int64_t first = 0; first < t->len; first += VL) {
            const int n = t->len - first < VL ? (int)(t->len - first) : VL;
            float lanes[VL] = {0};
            for (int j = 0; j < n; j++)
                lanes[j] = s->whole[0] == 0.0f ? 0.0f : t->cls_probs[(first + j) * t->n_heads] - s->top[0];
            vec_store(lanes, vec_exp(vec_load(lanes)) * factor);
            for (int j = 0; j < n; j++)
                t->cls_probs[(first + j) * t->n_heads] = lanes[j];
        }
    }
    for (int64_t i = 0; t->lse != NULL && i < t->n_queries; i++)
        t->lse[(t->first_query + i) * t->n_heads] = s->top[i] + logf(s->whole[i]);
}

static void attention_bf16(const rvit_cpu_attention_tile *t, state *s)
{
    for (int64_t i = 0; i < t->n_queries; i++) {
        s->largest[i] = s->top[i] = -INFINITY;
        s->sum[i] = s->whole[i] = 0.0f;
    }
    /* Blocks have equal sizes, multiples of two tiles. */
    const int64_t n_blocks = (t->len + KEYS - 1) / KEYS, size = ((t->len + n_blocks - 1) / n_blocks + 31) / 32 * 32;
    gemm_begin();
    for (int64_t first = 0; first < t->len; first += size) {
        const int n = t->len - first < size ? (int)(t->len - first) : (int)size;
        const block b = {.first = first,
                         .n = n,
                         .n_pairs = (n + 31) / 32,
                         .n_columns = (t->head_dim + 31) / 32,
                         .is_first = first == 0,
                         .is_last = first + n == t->len};
        load_block(t, s, &b);
        for (int row = 0; row < t->n_queries; row += ROW_TILE)
            add_row_tile(t, s, &b, row, t->n_queries - row < ROW_TILE ? (int)t->n_queries - row : ROW_TILE);
    }
    gemm_end();
    finish(t, s);
}

void ISA_NAME(rvit_cpu_attention_bf16_kernel)(const rvit_cpu_attention_tile *tile, float *scratch)
{
    attention_bf16(tile, (state *)(void *)scratch);
}
