/* What each kernel is given: one plain struct, shared by the host's C and the kernels. Pointers are device addresses. Counts that the host
   knows are capacities; what is on the device is read there. Each size is a multiple of 8 without padding. */
#ifndef RVIT_CU_PARAMS_H
#define RVIT_CU_PARAMS_H

#include <stdint.h>

/* The numbers of rvit_dtype. */
#define RVIT_CU_F32 0
#define RVIT_CU_F16 1
#define RVIT_CU_BF16 2

/* Rows an op works on: capacity, or the count at live clamped to 0..capacity. */
typedef struct rvit_cu_rows {
    const int32_t *live; /* or NULL */
    int32_t capacity, unused;
} rvit_cu_rows;

/* Bytes, a multiple of 4; wide: all three are multiples of 16. */
typedef struct rvit_cu_copy_params {
    const void *source;
    void *destination;
    int64_t size;
    int32_t wide, unused;
} rvit_cu_copy_params;

/* One CTA for each channel of each line of patches of an image. */
typedef struct rvit_cu_patchify_params {
    const float *images;
    void *out;
    int32_t *cu_seqlens;        /* or NULL */
    const int32_t *live_images; /* or NULL */
    int32_t n_images, channels, image_size, patch_size, grid, n_prefix;
} rvit_cu_patchify_params;

typedef struct rvit_cu_linear_params {
    const void *x, *weight;
    const float *bias;    /* or NULL */
    const void *residual; /* or NULL; elements as out */
    void *out;
    rvit_cu_rows rows;
    int32_t in_features, out_features;
    int32_t residual_period; /* 0: a row for each row of out */
    int32_t gelu;
    int32_t out_f32; /* out and residual are float32, else as x */
    int32_t unused;
} rvit_cu_linear_params;

/* In place: x = gelu(x). */
typedef struct rvit_cu_gelu_params {
    void *x;
    int64_t n; /* elements, a multiple of 4 */
} rvit_cu_gelu_params;

typedef struct rvit_cu_layernorm_params {
    const void *x;
    const int32_t *src_rows; /* or NULL */
    const float *gamma, *beta;
    void *out, *out_x; /* out_x or NULL */
    rvit_cu_rows rows;
    int32_t x_rows, dim, out_dtype;
    float eps;
} rvit_cu_layernorm_params;

/* Strides in elements. A CTA takes row block blockIdx.x of head blockIdx.y of image first_image + blockIdx.z. */
typedef struct rvit_cu_attention_params {
    const void *q, *k, *v;
    const int32_t *cu_seqlens;
    const float *key_bias; /* or NULL */
    void *out;
    float *cls_probs, *lse; /* or NULL */
    int32_t q_stride, k_stride, v_stride, out_stride;
    int32_t n_heads, head_dim, max_len, rows;
    int32_t first_image;
    int32_t stages, stage_keys; /* of the ring in shared memory */
    float scale;                /* 16-bit kernels: |scale| * log2(e) */
    uint32_t q_sign;            /* 16-bit kernels: flips the signs of a pair of elements if scale is negative */
    int32_t unused;
} rvit_cu_attention_params;

typedef struct rvit_cu_score_params {
    const void *x; /* or cls_probs */
    float *scores;
    rvit_cu_rows rows;
    int32_t width; /* dim, or n_heads */
    float factor;  /* of the sum over heads */
} rvit_cu_score_params;

/* What one select leaves to the next one on the same memory, followed by a state of 8 bytes for each image; zero at first. tickets and
   finished count CTAs, epoch tells this select's states from those of an earlier one. */
typedef struct rvit_cu_select_scratch {
    int32_t tickets, finished, epoch;
    int32_t last_error; /* INT32_MAX less the first error; 0: none */
} rvit_cu_select_scratch;

typedef struct rvit_cu_select_params {
    const int32_t *counts, *cu_seqlens;
    const float *scores;
    const uint8_t *keep_in;
    uint8_t *keep;
    int32_t *out_cu_seqlens, *src_rows, *error; /* error or NULL */
    rvit_cu_select_scratch *scratch;
    unsigned long long *states;
    int32_t n_states;
    int32_t mode, n_images, max_len, rows, n_prefix, prefix_competes;
    float threshold;
} rvit_cu_select_params;

typedef struct rvit_cu_pack_params {
    const void *source;
    const int32_t *src_rows;
    void *destination;
    rvit_cu_rows rows;
    int32_t source_rows, row_size; /* bytes */
} rvit_cu_pack_params;

typedef struct rvit_cu_unpack_params {
    const void *source, *base; /* base or NULL */
    const int32_t *src_rows;
    void *destination;
    rvit_cu_rows rows, destination_rows;
    int32_t row_size; /* bytes, a multiple of 8 */
    uint32_t fill;    /* as stored; a 16-bit element twice */
} rvit_cu_unpack_params;

typedef struct rvit_cu_head_params {
    const void *x;
    const int32_t *cu_seqlens;
    const float *gamma, *beta;
    const void *weight;
    const float *bias; /* or NULL */
    float *logits;
    int32_t n_images, rows, dim, n_tokens, n_classes, x_dtype;
    int32_t class_tiles; /* CTAs that share an image */
    int32_t held;        /* 1: the normalised rows fit shared memory */
    float eps;
    int32_t unused;
} rvit_cu_head_params;

#endif
