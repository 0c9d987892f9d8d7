/* The ops, written plainly and in index order, once in float64 (what is right) and once in float32 (what plain code in the same
   precision gets, which sets the tolerance). Inputs are the stored values as floats, contiguous. */
#ifndef RVIT_TESTS_PLAIN_H
#define RVIT_TESTS_PLAIN_H

#include <stdint.h>

typedef struct linear_problem {
    int64_t rows;
    int32_t in_features, out_features, gelu;
    const float *x, *weight, *bias, *residual; /* bias, residual: or NULL */
    int64_t period;                            /* of residual; 0: none */
} linear_problem;
void linear_f64(const linear_problem *p, double *out);
void linear_f32(const linear_problem *p, float *out);

typedef struct layernorm_problem {
    int64_t rows;
    int32_t dim;
    float eps;
    const float *x, *gamma, *beta;
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

typedef struct head_problem {
    int32_t n_images, dim, n_tokens, n_classes;
    const int32_t *cu;
    float eps;
    const float *x, *gamma, *beta, *weight, *bias; /* bias: or NULL */
} head_problem;
void head_f64(const head_problem *p, double *logits);
void head_f32(const head_problem *p, float *logits);

#endif
