/* Simple implementations of the ops, which sum in index order. The float64 version is the reference; the float32 version sets the
   tolerance. Inputs are the stored values as contiguous floats. */
#ifndef RVIT_TESTS_PLAIN_H
#define RVIT_TESTS_PLAIN_H

#include <stdint.h>

#include <raggedvit/ops.h>

typedef struct linear_problem {
    int64_t rows;
    int32_t in_features, out_features;
    rvit_activation activation;
    int32_t gated;
    const float *x, *weight, *bias, *residual; /* bias, residual: or NULL */
    int64_t period;                            /* of residual; 0: none */
    const float *x_scales, *weight_scales;     /* both may be NULL */
    int32_t sum_bits; /* 0, or the precision of 8-bit tensor cores: when 32 products are added to the sum, all terms are truncated so many
                         bits below the leading bit of the largest term */
} linear_problem;
void linear_f64(const linear_problem *p, double *out);
void linear_f32(const linear_problem *p, float *out);

/* The values that quantize rounds: the activation of x + bias, or of pairs of gate and value. */
typedef struct quantize_problem {
    int64_t rows;
    int32_t columns;
    rvit_activation activation;
    int32_t gated;
    const float *x, *bias; /* bias: or NULL */
} quantize_problem;
void quantize_f64(const quantize_problem *p, double *out);
void quantize_f32(const quantize_problem *p, float *out);

/* The norm of a row. */
typedef struct norm_problem {
    int32_t features; /* number of valid columns, 0: all; the others become 0 */
    int32_t rms;
    float eps;
    const float *gamma, *beta; /* gamma NULL: no norm; beta: or NULL */
} norm_problem;

typedef struct layernorm_problem {
    int64_t rows;
    int32_t dim;
    norm_problem norm;
    const float *x;
} layernorm_problem;
void layernorm_f64(const layernorm_problem *p, double *out);
void layernorm_f32(const layernorm_problem *p, float *out);

typedef struct attention_problem {
    int32_t length, n_heads, head_dim; /* one image */
    float scale;
    const float *q, *k, *v; /* [length, n_heads, head_dim] */
    const float *key_bias;  /* [length] or NULL */
} attention_problem;
/* out [length, n_heads * head_dim], cls [length, n_heads], lse [length, n_heads]. */
void attention_f64(const attention_problem *p, double *out, double *cls, double *lse);
void attention_f32(const attention_problem *p, float *out, float *cls, float *lse);

/* The mean weight that each row receives, [length, n_heads]; v is not used. lse: [length, n_heads]. */
void received_f64(const attention_problem *p, const float *lse, double *out);
void received_f32(const attention_problem *p, const float *lse, float *out);

/* The gradient of attention. round is applied to the attention weights and their gradients before they are multiplied; NULL: no rounding.
   With matrix instructions in 16-bit types all software, including PyTorch, rounds them to the stored type. */
typedef struct attention_backward_problem {
    attention_problem forward;
    const float *out, *lse, *d_out;               /* [length, n_heads, head_dim]; lse: [length, n_heads] */
    const float *cls_probs, *d_cls_probs, *d_lse; /* [length, n_heads] or NULL, the first two together */
    float (*round)(float value);
    double *terms; /* [length] or NULL; accumulates the absolute values of the terms of d_key_bias */
} attention_backward_problem;
/* d_q, d_k, d_v: [length, n_heads, head_dim]; d_key_bias: [length]. */
void attention_backward_f64(const attention_backward_problem *p, double *d_q, double *d_k, double *d_v, double *d_key_bias);
void attention_backward_f32(const attention_backward_problem *p, float *d_q, float *d_k, float *d_v, float *d_key_bias);

typedef struct head_problem {
    int32_t n_images, dim, n_tokens, n_classes;
    const int32_t *cu; /* or NULL: n_tokens rows each */
    norm_problem norm;
    const float *x, *weight, *bias; /* bias: or NULL */
} head_problem;
void head_f64(const head_problem *p, double *logits);
void head_f32(const head_problem *p, float *logits);

/* The log-probability of the first of two classes. */
typedef struct predictor_problem {
    int64_t rows;
    int32_t dim;
    const float *x, *weight, *bias; /* [rows, dim], [2, dim], [2] */
} predictor_problem;
void predictor_f64(const predictor_problem *p, double *scores);
void predictor_f32(const predictor_problem *p, float *scores);

/* The sum of an image's dropped rows, each times its score. */
typedef struct fuse_problem {
    int32_t length, dim; /* one image */
    const uint8_t *keep;
    const float *scores, *x;
} fuse_problem;
void fuse_f64(const fuse_problem *p, double *row);
void fuse_f32(const fuse_problem *p, float *row);

/* The mean of the rows from `first` on; 0 if there are none. */
typedef struct mean_problem {
    int32_t length, first, dim; /* one image */
    const float *x;
} mean_problem;
void mean_f64(const mean_problem *p, double *row);
void mean_f32(const mean_problem *p, float *row);

/* The weighted mean of the normalised rows from `first` on; 0 if there are none. */
typedef struct pool_problem {
    int32_t length, first, dim; /* one image */
    norm_problem norm;
    const float *x, *sizes; /* sizes: or NULL */
} pool_problem;
void pool_f64(const pool_problem *p, double *row);
void pool_f32(const pool_problem *p, float *row);

/* For one image, the sum of the rows weighted by the softmax of each head's logits, times the head's weights. */
typedef struct probe_problem {
    int32_t length, dim, n_heads, head_dim, logits_stride;
    const float *x, *logits, *sizes, *weight, *bias; /* sizes, bias: or NULL */
} probe_problem;
/* out [n_heads * head_dim], probs [length, n_heads]. */
void probe_f64(const probe_problem *p, double *out, double *probs);
void probe_f32(const probe_problem *p, float *out, float *probs);

/* The sum of the keys over the heads, scaled to length 1. */
typedef struct metric_problem {
    int64_t rows;
    int32_t n_heads, head_dim;
    const float *k; /* [rows, n_heads, head_dim] */
} metric_problem;
void metric_f64(const metric_problem *p, double *metric);
void metric_f32(const metric_problem *p, float *metric);

/* The mean of n listed rows, weighted by their sizes. */
typedef struct merge_problem {
    int32_t n, dim;
    const int32_t *list; /* row indices of x, in order */
    const float *x, *sizes;
} merge_problem;
void merge_f64(const merge_problem *p, double *row, double *size, double *key_bias);
void merge_f32(const merge_problem *p, float *row, float *size, float *key_bias);

/* Adds a resampled position table, at one position of a grid, to a patch. Equals torch.nn.functional.interpolate with rounded sources. */
typedef struct embed_problem {
    rvit_resample resample;
    int32_t table_height, table_width, dim;
    int32_t height, width, y, x;
    const float *table, *patch;
} embed_problem;
void embed_f64(const embed_problem *p, double *out);
void embed_f32(const embed_problem *p, float *out);

#endif
