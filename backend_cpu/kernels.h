/* The vector kernels of the CPU backend: a table of functions per instruction set, selected when a device is created. A kernel computes
   one thread's share of an op; the files named after the ops split the work. Kernels allocate nothing and require only element
   alignment. The result of a row never depends on its position or its neighbours. */
#ifndef RVIT_CPU_KERNELS_H
#define RVIT_CPU_KERNELS_H

#include <stdint.h>

#include <raggedvit/ops.h>

#include "core/contract/op.h"

/* Maximum tile of linear: rows, columns, and the part of in_features that is accumulated at a time. */
#define RVIT_CPU_LINEAR_ROWS 384
#define RVIT_CPU_LINEAR_COLUMNS 256
#define RVIT_CPU_LINEAR_DEPTH 256
/* Linear with weights in panels (panel.h): columns of a panel, the largest in_features, bytes of a panel; rows of an AMX tile. */
#define RVIT_CPU_PANEL_COLUMNS 32
#define RVIT_CPU_PANEL_DEPTH 8192
#define RVIT_CPU_PANEL_BYTES (2 * RVIT_CPU_PANEL_DEPTH * RVIT_CPU_PANEL_COLUMNS)
#define RVIT_CPU_TILE_ROWS 16
/* Attention: maximum queries of a tile, keys of a block, and head_dim; and the queries that attention_bf16 computes at a time. */
#define RVIT_CPU_ATTENTION_QUERIES 288
#define RVIT_CPU_ATTENTION_ROW_TILE 32
#define RVIT_CPU_ATTENTION_KEYS 64
#define RVIT_CPU_MAX_HEAD_DIM 128
#define RVIT_CPU_MAX_MATCH_DIM (RVIT_BIPARTITE_MATCH_MAX_GROUP * RVIT_CPU_MAX_HEAD_DIM)

/* Floats of scratch memory per thread, 64-byte aligned. Every kernel asserts that they suffice. */
#define RVIT_CPU_SCRATCH_FLOATS (384 * 1024)

/* Bytes of an element. */
static inline int64_t rvit_cpu_size(rvit_dtype dtype)
{
    return dtype == RVIT_F32 ? 4 : rvit_is_quantized(dtype) ? 1 : 2;
}

typedef enum rvit_cpu_activation { RVIT_CPU_NONE, RVIT_CPU_GELU, RVIT_CPU_SIGMOID } rvit_cpu_activation;

/* out[r, :] = activation(x[r, :] weight^T + bias) + residual, for rows first_row .. first_row + rows - 1 and a range of columns. Every
   pointer is to the tile's first element, except residual, which is to row 0 of the tile's first column. If gated, columns and weight
   count gates and values; each pair makes one element of residual and out. */
typedef struct rvit_cpu_linear_tile {
    const void *x, *weight;
    const float *x_scales, *weight_scales; /* I8 and E4M3: of the tile's first row and column; else NULL */
    const float *bias;                     /* or NULL */
    const void *residual;                  /* or NULL */
    void *out;
    int64_t in_features;  /* also the stride of x and weight */
    int64_t out_features; /* the stride of residual and out */
    int64_t first_row;
    int64_t residual_period; /* 0: residual has one row per row of out */
    int rows, columns;       /* columns is even if gated */
    rvit_dtype dtype;        /* of x and weight */
    rvit_dtype out_dtype;    /* of residual and out */
    int gated;
    int arranged; /* weight has the layout made by the kernel's arrange function, and begins with a panel */
    rvit_cpu_activation activation;
    float slope, cubic; /* SIGMOID: x sigmoid(x (slope + cubic x^2)) */
    /* With out_dtype E4M3: the factor of values, 0 if all become NaN; and the counter of saturated values. */
    float inverse;
    int64_t *n_saturated;
} rvit_cpu_linear_tile;

/* One head of one image: n_queries queries from first_query on, all len keys. Pointers are to the image's first row, at this head. */
typedef struct rvit_cpu_attention_tile {
    const void *q, *k, *v;
    void *out;
    int64_t q_stride, k_stride, v_stride, out_stride;
    const float *key_bias; /* at the image's first key, or NULL */
    float *cls_probs;      /* at the image's first key and this head, or NULL */
    float *lse;            /* at the image's first row and this head, or NULL */
    int64_t n_heads;       /* the stride of cls_probs and lse */
    int64_t len, first_query, n_queries;
    int head_dim;
    float scale;
    rvit_dtype dtype;
} rvit_cpu_attention_tile;

/* One half of the gradient of attention, for one head of one image. own_keys: the tile's own rows are the keys first .. first + n - 1; x
   and y are k and v, d_x and d_y are d_k and d_v, and the other rows are the image's q and d_out. Otherwise its own rows are queries; x
   and y are q and d_out, d_x is d_q, and the other rows are k and v. Every pointer is to the image's first row, at this head. */
typedef struct rvit_cpu_backward_tile {
    const void *x, *y, *other_x, *other_y, *out, *d_out;
    void *d_x, *d_y; /* d_y or NULL */
    int64_t x_stride, y_stride, other_x_stride, other_y_stride, out_stride, d_out_stride, d_x_stride, d_y_stride;
    const float *key_bias;                              /* or NULL */
    const float *lse, *d_lse, *cls_probs, *d_cls_probs; /* all but lse may be NULL; n_heads apart */
    float *shares;                                      /* this head's terms of d_key_bias, or NULL */
    int64_t n_heads, len, first, n;
    int head_dim;
    float scale;
    rvit_dtype dtype;
    int own_keys;
} rvit_cpu_backward_tile;

/* One head of one image: all queries, up to RVIT_CPU_ATTENTION_KEYS keys. Pointers are to the image's first row, at this head. */
typedef struct rvit_cpu_attention_received_tile {
    const void *q, *k;
    int64_t q_stride, k_stride;
    const float *key_bias; /* or NULL */
    const float *lse;
    float *out;
    int64_t n_heads; /* the stride of lse and out */
    int64_t len, first_key;
    int n_keys, head_dim;
    float scale;
    rvit_dtype dtype;
} rvit_cpu_attention_received_tile;

/* Rows first .. end - 1 of rope's queries and keys. */
typedef struct rvit_cpu_rope_rows {
    void *heads[2]; /* q, k */
    int64_t strides[2];
    const float *table;       /* [n_positions, head_dim]: cosines, sines */
    const int32_t *positions; /* or NULL: row % n_positions */
    int64_t first, end;
    int64_t n_positions, n_prefix, n_heads, head_dim;
    rvit_dtype dtype;
} rvit_cpu_rope_rows;

/* Rows first .. end - 1 of out. */
typedef struct rvit_cpu_layernorm_rows {
    const void *x;
    const int32_t *src_rows; /* or NULL */
    int64_t x_rows;
    const float *gamma, *beta; /* beta or NULL */
    void *out, *out_x;         /* out_x or NULL */
    int64_t first, end;
    int64_t dim, features;
    float eps;
    rvit_dtype dtype, out_dtype;
    int rms;
    float *out_scales;         /* out_dtype I8 or E4M3 */
    const float *static_scale; /* or NULL */
} rvit_cpu_layernorm_rows;

/* The row of x that is normalised to a row of out. */
static inline int64_t rvit_cpu_source_row(const rvit_cpu_layernorm_rows *r, int64_t row)
{
    if (r->src_rows == NULL)
        return row;
    return r->src_rows[row] < 0 ? 0 : r->src_rows[row] < r->x_rows ? r->src_rows[row] : r->x_rows - 1;
}

/* Rows first .. end - 1 of quantize. */
typedef struct rvit_cpu_quantize_rows {
    const void *x;
    const float *bias, *static_scale; /* or NULL */
    int8_t *out;
    float *out_scales;
    int64_t first, end;
    int64_t columns; /* of out */
    rvit_dtype dtype, out_dtype;
    int gated;
    rvit_cpu_activation activation;
    float slope, cubic; /* as in linear */
} rvit_cpu_quantize_rows;

/* Classes first_class .. first_class + n_classes - 1 of up to RVIT_CPU_HEAD_IMAGES images. x[i]: the first row of an image, followed by
   its other tokens. logits[i]: the image's class 0. */
#define RVIT_CPU_HEAD_IMAGES 4
#define RVIT_CPU_HEAD_CLASSES 64
typedef struct rvit_cpu_head_tile {
    const void *x[RVIT_CPU_HEAD_IMAGES];
    float *logits[RVIT_CPU_HEAD_IMAGES];
    int n_images;
    const float *gamma, *beta; /* or NULL */
    const void *weight;        /* of class 0 */
    const float *bias;         /* of class 0, or NULL */
    int64_t dim, n_tokens;
    int64_t first_class, n_classes;
    float eps;
    rvit_dtype dtype, weight_dtype;
    int rms;
} rvit_cpu_head_tile;

/* The mean of n_rows rows (at least 1) of an image, each normalised first; for a range of columns. */
#define RVIT_CPU_POOL_COLUMNS 65536
typedef struct rvit_cpu_pool_tile {
    const void *x;             /* the first of these rows */
    const float *sizes;        /* of that row, or NULL */
    const float *gamma, *beta; /* or NULL */
    void *out;                 /* the image's row */
    int64_t n_rows, dim;
    int64_t first_column, n_columns; /* at most RVIT_CPU_POOL_COLUMNS */
    float eps;
    rvit_dtype dtype, out_dtype;
    int rms;
} rvit_cpu_pool_tile;

/* One head of one image of len rows (at least 1). Pointers are to the image's first row, at this head. */
#define RVIT_CPU_ATTENTION_POOL_ROWS 4096
#define RVIT_CPU_ATTENTION_POOL_COLUMNS 65536
#define RVIT_CPU_MAX_PROBE_DIM 192
typedef struct rvit_cpu_attention_pool_tile {
    const void *x, *weight;
    const float *logits, *sizes, *bias; /* sizes, bias: or NULL */
    void *out;
    float *probs; /* or NULL */
    int64_t logits_stride, n_heads;
    int64_t len, dim, head_dim;
    rvit_dtype dtype, out_dtype;
} rvit_cpu_attention_pool_tile;

/* Rows first .. end - 1 of the metric of bipartite_match: the sum of a row's keys over the heads, scaled to length 1. */
typedef struct rvit_cpu_metric_rows {
    const void *k;
    int64_t k_stride, n_heads, head_dim;
    float *metric; /* [rows, head_dim] */
    int64_t first, end;
    rvit_dtype dtype;
} rvit_cpu_metric_rows;

/* For each of n_a metrics, the index of the most similar of n_b metrics (at least 1), and their dot product. In both lists the metrics
   are `stride` floats apart. Of equals the first wins; NaN is never the largest; if all are NaN, the result is 0 with -infinity. */
typedef struct rvit_cpu_bipartite_match_tile {
    const float *a, *b;
    int64_t stride, dim; /* dim: at most RVIT_CPU_MAX_MATCH_DIM */
    int64_t n_a, n_b;
    int64_t step;  /* stride of best and value */
    int32_t *best; /* out */
    float *value;  /* out */
} rvit_cpu_bipartite_match_tile;

typedef struct rvit_cpu_kernels {
    const char *name; /* "avx512" */
    int rows;         /* rows of a register tile; tiles are fastest with a multiple of it */
    int columns;
    int step_clocks;       /* estimated clocks of a register tile for one of in_features */
    int32_t native_dtypes; /* as in rvit_device_info */
    /* Rearranges weights [columns, in_features] for `linear` in place if the sizes fit; returns whether it did. */
    int (*arrange)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch);
    /* Linear with weights in panels (panel.h) and in_features of at most RVIT_CPU_PANEL_DEPTH: I8, and BF16 where there are instructions
       for it. NULL: not available. Tiles are fastest with a multiple of panel_rows. */
    int panel_rows;
    int (*arrange_panels)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch);
    void (*linear_panels_i8)(const rvit_cpu_linear_tile *tile, float *scratch);
    void (*linear_panels_bf16)(const rvit_cpu_linear_tile *tile, float *scratch);
    void (*linear)(const rvit_cpu_linear_tile *tile, float *scratch); /* F32, F16, BF16 */
    /* The sums of I8 are exact in int32; then float(sum) * (x_scale * weight_scale), and the epilogue of linear. */
    void (*linear_i8)(const rvit_cpu_linear_tile *tile, float *scratch);
    void (*linear_e4m3)(const rvit_cpu_linear_tile *tile, float *scratch);
    /* Only the epilogue of linear. sums: [rows, columns] with the given stride, computed elsewhere. */
    void (*linear_finish)(const rvit_cpu_linear_tile *tile, const float *sums, int64_t stride);
    void (*attention)(const rvit_cpu_attention_tile *tile, float *scratch);
    void (*attention_bf16)(const rvit_cpu_attention_tile *tile, float *scratch); /* or NULL: attention computes bf16 too */
    void (*attention_backward)(const rvit_cpu_backward_tile *tile, float *scratch);
    void (*received)(const rvit_cpu_attention_received_tile *tile, float *scratch);
    void (*rope)(const rvit_cpu_rope_rows *rows);
    void (*layernorm)(const rvit_cpu_layernorm_rows *rows);
    /* With out_dtype I8 or E4M3. This and quantize return the number of values that a static scale saturates. */
    int64_t (*layernorm_quantized)(const rvit_cpu_layernorm_rows *rows, float *scratch);
    int64_t (*quantize)(const rvit_cpu_quantize_rows *rows, float *scratch);
    void (*head)(const rvit_cpu_head_tile *tile, float *scratch);
    void (*pool)(const rvit_cpu_pool_tile *tile, float *scratch);
    void (*attention_pool)(const rvit_cpu_attention_pool_tile *tile, float *scratch);
    void (*metric)(const rvit_cpu_metric_rows *rows);
    void (*bipartite_match)(const rvit_cpu_bipartite_match_tile *tile, float *scratch);
    /* Copies n runs of `patch` pixels to F16 or BF16 rows, out_stride bytes apart. second: byte offset of the rounding errors; 0: not
       stored. */
    void (*patchify)(const float *pixels, int64_t patch, int64_t n, rvit_dtype dtype, char *out, int64_t out_stride, int64_t second);
    /* Convert from and to F16 or BF16. */
    void (*widen)(const uint16_t *from, rvit_dtype dtype, float *out, int64_t n);
    void (*narrow)(const float *values, rvit_dtype dtype, uint16_t *out, int64_t n);
} rvit_cpu_kernels;

extern const rvit_cpu_kernels rvit_cpu_kernels_portable;
/* Declares kernels that tables do not share; not every table has those of bf16. */
#define RVIT_CPU_PANELS(isa)                                                                                                 \
    int rvit_cpu_arrange_panels_##isa(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch); \
    void rvit_cpu_linear_panels_i8_##isa(const rvit_cpu_linear_tile *tile, float *scratch);                                  \
    void rvit_cpu_linear_panels_bf16_##isa(const rvit_cpu_linear_tile *tile, float *scratch);                                \
    void rvit_cpu_attention_bf16_kernel_##isa(const rvit_cpu_attention_tile *tile, float *scratch)

#endif
