/* The vector code of the CPU backend: one table of functions, compiled once for each instruction set and picked when a device is
   created. A kernel does one thread's share of an op; the files named after the ops split the work. Kernels allocate nothing and need no
   alignment beyond that of an element. What they compute for a row never depends on where the row lies or what lies beside it. */
#ifndef RVIT_CPU_KERNELS_H
#define RVIT_CPU_KERNELS_H

#include <stdint.h>

/* Tiles of linear: at most so many rows and columns, and so much of in_features between two visits of the accumulators. */
#define RVIT_CPU_LINEAR_ROWS 384
#define RVIT_CPU_LINEAR_COLUMNS 256
#define RVIT_CPU_LINEAR_DEPTH 256
/* Attention: queries of a tile, keys of a block, and the largest head. */
#define RVIT_CPU_ATTENTION_QUERIES 264
#define RVIT_CPU_ATTENTION_KEYS 64
#define RVIT_CPU_MAX_HEAD_DIM 128

/* Floats of scratch memory that each thread brings along, 64-byte aligned; each kernel checks that it is enough. */
#define RVIT_CPU_SCRATCH_FLOATS (256 * 1024)

/* out[r, :] = activation(x[r, :] weight^T + bias) + residual of rows first_row .. first_row + rows - 1 and a range of columns. Every
   pointer is to the tile's first element but residual, which is to row 0 of its first column. */
typedef struct rvit_cpu_linear_tile {
    const void *x, *weight;
    const float *bias;    /* or NULL */
    const void *residual; /* or NULL */
    void *out;
    int64_t in_features;  /* also the stride of x and weight */
    int64_t out_features; /* the stride of residual and out */
    int64_t first_row;
    int64_t residual_period; /* 0: residual has a row for each row of out */
    int rows, columns;
    int half;     /* x and weight are float16 */
    int out_half; /* residual and out are float16 */
    int gelu;
} rvit_cpu_linear_tile;

/* One head of one image: queries first_query .. first_query + n_queries - 1 against all len keys. q, k, v and out point to the image's
   first row at the head. */
typedef struct rvit_cpu_attention_tile {
    const void *q, *k, *v;
    void *out;
    int64_t q_stride, k_stride, v_stride, out_stride;
    const float *key_bias; /* of the image's first key, or NULL */
    float *cls_probs;      /* of the image's first key at the head, or NULL */
    float *lse;            /* of the image's first row at the head, or NULL */
    int64_t n_heads;       /* the stride of cls_probs and lse */
    int64_t len, first_query, n_queries;
    int head_dim;
    float scale;
    int half;
} rvit_cpu_attention_tile;

/* Rows first .. end - 1 of out. */
typedef struct rvit_cpu_layernorm_rows {
    const void *x;
    const int32_t *src_rows; /* or NULL */
    int64_t x_rows;
    const float *gamma, *beta;
    void *out, *out_x; /* out_x or NULL */
    int64_t first, end;
    int64_t dim;
    float eps;
    int half, out_half;
} rvit_cpu_layernorm_rows;

/* Classes first_class .. first_class + n_classes - 1 of up to RVIT_CPU_HEAD_IMAGES images. x[i]: the first row of an image; its further
   tokens follow. logits[i]: the image's class 0. */
#define RVIT_CPU_HEAD_IMAGES 4
#define RVIT_CPU_HEAD_CLASSES 64
typedef struct rvit_cpu_head_tile {
    const void *x[RVIT_CPU_HEAD_IMAGES];
    float *logits[RVIT_CPU_HEAD_IMAGES];
    int n_images;
    const float *gamma, *beta;
    const void *weight; /* of class 0 */
    const float *bias;  /* of class 0, or NULL */
    int64_t dim, n_tokens;
    int64_t first_class, n_classes;
    float eps;
    int half, weight_half;
} rvit_cpu_head_tile;

/* Rows first .. end - 1 of match's metric: the sum of a row's keys over the heads, scaled to length 1. */
typedef struct rvit_cpu_metric_rows {
    const void *k;
    int64_t k_stride, n_heads, head_dim;
    float *metric; /* [rows, head_dim] */
    int64_t first, end;
    int half;
} rvit_cpu_metric_rows;

/* For each of n_a metrics, the first of n_b (1 or more) with the largest dot product, and that product; both lists of metrics have a row
   every `stride` floats. NaN is never the largest; where all are, the first with -infinity. */
typedef struct rvit_cpu_match_tile {
    const float *a, *b;
    int64_t stride, head_dim;
    int64_t n_a, n_b;
    int32_t *best; /* out: at every second element */
    float *value;  /* out: at every second element */
} rvit_cpu_match_tile;

typedef struct rvit_cpu_kernels {
    const char *name; /* "avx512" */
    int rows;         /* of a register tile: the best tiles have a multiple of it */
    int columns;
    void (*linear)(const rvit_cpu_linear_tile *tile, float *scratch);
    /* The end of linear alone: product [rows, columns] with the given stride, computed elsewhere. */
    void (*linear_finish)(const rvit_cpu_linear_tile *tile, const float *product, int64_t stride);
    void (*attention)(const rvit_cpu_attention_tile *tile, float *scratch);
    void (*layernorm)(const rvit_cpu_layernorm_rows *rows);
    void (*head)(const rvit_cpu_head_tile *tile, float *scratch);
    void (*metric)(const rvit_cpu_metric_rows *rows);
    void (*match)(const rvit_cpu_match_tile *tile, float *scratch);
    void (*to_float)(const uint16_t *half, float *out, int64_t n);
    void (*to_half)(const float *values, uint16_t *out, int64_t n);
} rvit_cpu_kernels;

extern const rvit_cpu_kernels rvit_cpu_kernels_portable;
#if defined(__x86_64__) && defined(__LP64__)
extern const rvit_cpu_kernels rvit_cpu_kernels_avx2;
extern const rvit_cpu_kernels rvit_cpu_kernels_avx512;
#endif

#endif
