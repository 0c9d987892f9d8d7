/* A small random ViT: its weights, its checkpoint file, and a simple float64 forward of one image. */
#ifndef RVIT_TESTS_TOY_H
#define RVIT_TESTS_TOY_H

#include "harness.h"

typedef enum toy_pool { TOY_CLS, TOY_MEAN, TOY_MAP } toy_pool;

typedef struct toy_spec {
    int32_t dim, depth, mlp, image_size, patch_size, n_classes, distilled;
    rvit_dtype stored; /* type in the file; the weights are rounded to it */
    uint64_t seed;
    int32_t n_predictors; /* of DynamicViT; the float64 forward takes the decisions as input and does not use them */
    int32_t rotary;       /* 1: has rotary positions and a table, as timm's vit_small_patch16_rope_ape_224 */
    int32_t n_registers, no_cls;
    toy_pool pool; /* input of the head; TOY_MEAN: the mean of the patches after the norm */
} toy_spec;

typedef struct toy_tensor {
    char name[48];
    int32_t rank;
    int64_t shape[4], n;
    float *values;
} toy_tensor;

#define TOY_MAX_DEPTH 12
#define TOY_MAX_PREDICTORS 3

typedef struct toy_block {
    const float *norm1_w, *norm1_b, *qkv_w, *qkv_b, *proj_w, *proj_b, *norm2_w, *norm2_b, *fc1_w, *fc1_b, *fc2_w, *fc2_b;
} toy_block;

/* Attention pooling, with the blocks' number of heads and MLP width. */
typedef struct toy_map {
    const float *latent, *q_w, *q_b, *kv_w, *kv_b, *proj_w, *proj_b, *norm_w, *norm_b, *fc1_w, *fc1_b, *fc2_w, *fc2_b;
} toy_map;

typedef struct toy {
    toy_spec spec;
    int32_t n_heads, n_prefix, tokens, pixels; /* pixels: floats per image */
    toy_tensor tensors[25 + 12 * TOY_MAX_DEPTH + 10 * TOY_MAX_PREDICTORS];
    int n_tensors;
    const float *cls, *dist, *registers, *pos, *patch_w, *patch_b, *norm_w, *norm_b, *head_w, *head_b, *head_dist_w, *head_dist_b;
    toy_block blocks[TOY_MAX_DEPTH];
    toy_map map;
} toy;

/* Returns a toy in scratch memory. */
const toy *toy_new(const toy_spec *spec);
/* Writes the checkpoint and returns its path. */
const char *toy_write(const toy *m, const char *file_name);
/* n random images, normally distributed with standard deviation 1. */
float *toy_images(const toy *m, int32_t n, uint64_t seed);

/* A prune stage with given decisions; the tests compare decisions separately from values. */
typedef struct toy_stage {
    int32_t block;
    int inside_block;    /* 1: between attention and MLP; 0: after the block */
    const int32_t *kept; /* token indices of the unpruned image, ascending */
    int32_t n_kept;
    int32_t merges; /* above 0: the stage merges so many rows (tome), with decisions made in float64 */
    /* outputs, in scratch memory: the tokens before the stage, and their scores of each kind */
    int32_t n_before;
    int32_t *before;
    double *l2, *cls_attention, *received, *map_probe; /* map_probe: only with attention pooling */
} toy_stage;

typedef struct toy_trace {
    double *embedding;             /* [tokens, dim] */
    double *blocks[TOY_MAX_DEPTH]; /* output of each block, [rows, dim] */
    int32_t rows[TOY_MAX_DEPTH];
} toy_trace;

/* logits [n_classes]; out_trace may be NULL. */
void toy_forward(const toy *m, const float *image, toy_stage *stages, int n_stages, double *logits, toy_trace *out_trace);

#endif
