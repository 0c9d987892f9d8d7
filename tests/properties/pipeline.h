/* A short pruned forward made of every op but patchify: the property tests run it.

   layernorm, qkv, rope, attention, received, projection with residual, a prune stage, positions, layernorm that gathers, MLP with residual,
   and on the side a pack, an unpack, a second stage that scores what the first left, a head and a copy, a pool and a probe of what is
   left. */
#ifndef RVIT_TESTS_PIPELINE_H
#define RVIT_TESTS_PIPELINE_H

#include "harness.h"

typedef enum pipeline_prune {
    PRUNE_CLS,       /* top k by the CLS attention */
    PRUNE_L2,        /* top k by the L2 norm, the prefix competing */
    PRUNE_FUSED,     /* top k by the CLS attention, the rest fused */
    PRUNE_PREDICTOR, /* top k by a predictor: layernorm, three GEMMs and a mean before the stage */
    PRUNE_SAMPLE,    /* sampling by CLS attention times the norm of the values, which lie in the packed qkv */
    PRUNE_MERGE,     /* no select: match and merge */
    PRUNE_MASK,      /* the rows of keep_in */
    PRUNE_NOTHING    /* no stage, no gather: the dense forward */
} pipeline_prune;

/* How the rows of an output belong to images: by the layout before the stage, after it, after the second one. */
typedef enum pipeline_layout { BEFORE, AFTER, SECOND, PER_IMAGE } pipeline_layout;

/* What the int32 of an output are. */
typedef enum pipeline_content { VALUES, ROWS_BEFORE, ROWS_AFTER } pipeline_content;

typedef struct pipeline_output {
    array *a;
    pipeline_layout layout;
    int64_t row_size; /* bytes of a row, or of an image's part */
    pipeline_content content;
} pipeline_output;

#define PIPELINE_OUTPUTS 23
#define PIPELINE_CLASSES 7

typedef struct pipeline {
    rvit_dtype dtype;
    pipeline_prune prune;
    int32_t n_images, max_len, dim, n_heads;
    int64_t rows;
    array *x, *cu, *counts, *keep_in, *positions, *angles, *gamma, *beta, *qkv_weight, *projection_weight, *up_weight, *down_weight,
        *head_weight, *bias;
    array *y, *qkv, *attended, *x1, *z, *x2, *hidden, *probe_logits;                                              /* between ops */
    array *cls_probs, *lse, *scores, *metric, *keep, *cu_after, *src_rows, *next_rows, *sizes, *key_bias, *error; /* results */
    array *x3, *packed, *unpacked, *scores_after, *keep_after, *cu_second, *src_second, *logits, *logits_copy, *received, *positions_after,
        *pooled, *probed, *probs;
    pipeline_output outputs[PIPELINE_OUTPUTS];
    int n_outputs;
} pipeline;

/* With some, the dense forward results when every row is kept. */
int pipeline_can_keep_all(pipeline_prune prune);

/* mapped: inputs and results lie in mapped memory. Weights are the same for every pipeline of one shape. */
pipeline *pipeline_new(rvit_dtype dtype, pipeline_prune prune, int32_t n_images, int32_t max_len, int64_t rows, int mapped);
/* The lengths of the images; those that are not given are empty. */
void pipeline_set_lengths(pipeline *p, const int32_t *lengths, int32_t n);
/* The rows of an image from numbers that depend on the seed alone. cu must be set. */
void pipeline_set_image(pipeline *p, int32_t image, uint64_t seed);
/* Fills what no op may read: x past the last row, everything that is written before it is read. */
void pipeline_fill_unused(pipeline *p, uint8_t byte);
/* Sends lengths, images and resets through the mapping, without a stream. */
void pipeline_update_mapped(pipeline *p);
/* The ops, one by one: eager, or into a recording. */
rvit_status pipeline_enqueue(const pipeline *p, rvit_stream *stream);
/* The ops of the prune stage alone, once more. */
rvit_status pipeline_enqueue_stage(const pipeline *p, rvit_stream *stream);
/* Upload, enqueue, wait, fetch with all its checks. */
void pipeline_run(pipeline *p);
/* The part of an output that belongs to an image, after pipeline_run, and its size in bytes. */
const uint8_t *pipeline_part(const pipeline *p, int output, int32_t image, int64_t *out_size);
/* All results of an image in one piece of scratch memory; row numbers count from the image's first row. */
uint8_t *pipeline_image(const pipeline *p, int32_t image, int64_t *out_size);

#endif
