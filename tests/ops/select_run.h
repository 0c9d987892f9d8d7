/* A select op with all its arrays, and the same scores and selection by plain code. */
#ifndef RVIT_TESTS_SELECT_RUN_H
#define RVIT_TESTS_SELECT_RUN_H

#include "ops.h"
#include "reference/selection.h"

typedef struct select_case {
    rvit_select_mode mode;
    rvit_score_type score;
    batch b;
    int32_t max_len; /* 0: that of b */
    int32_t n_prefix, prefix_competes, k_min, n_samples;
    float threshold;
    double mass;
    const int32_t *counts;  /* [max_len + 1] */
    const float *scores;    /* GIVEN: [live] */
    const uint8_t *keep_in; /* [live] */

    /* What is scored, as floats that are rounded to dtype. */
    rvit_dtype dtype;
    int32_t dim, n_heads;
    int64_t x_stride, x_column; /* x is part of wider rows; the rest is NaN; stride 0: x fills the rows */
    const float *x;             /* [live, dim] */
    const float *cls_probs;     /* [live, n_heads] */
    const float *weight, *bias; /* [2, dim], [2] */
    const float *position_scores;
    const uint8_t *anchors; /* [live] or NULL */
    int32_t anchor_columns;

    rvit_dtype fuse_dtype;
    int32_t fuse_dim;
    const float *fuse_x; /* [live, fuse_dim] or NULL */
    int no_error_view, error_stays, image_errors;
    int32_t unit;
} select_case;

/* Called with the results of a side, after all checks. */
typedef void select_observer(const select_case *c, side s, const selection *found, const float *scores, const float *fuse_x);

/* counts[n] = ceil(keep * n). */
int32_t *count_table(double keep, int32_t max_len);
/* What select must give for these scores (NULL: those of the case). */
selection select_wanted(const select_case *c, const float *scores);
/* Runs the case on every side, compares scores, selection and fused tokens with plain code, and checks what must stay untouched. Scores
   that the header specifies to the bit must match; others may be off by rounding, and the selection must then follow from the scores
   that the side computed. */
void select_check(const select_case *c);
void select_check_and_observe(const select_case *c, select_observer *observer);

/* The squared norm and the mean over heads in the order that prune.h fixes. */
float l2_in_the_fixed_order(const float *x, int32_t dim);
float heads_in_the_fixed_order(const float *probs, int32_t n_heads);

/* Every length of the contract in one batch. */
batch full_batch(int64_t padding_rows);

typedef enum score_kind { NORMAL, COARSE, EQUAL, SIGNED_ZEROS, EXTREME, SORTED, REVERSED, N_SCORE_KINDS } score_kind;
float *make_scores(int64_t n, score_kind kind);
float *make_normal(int64_t n, float scale);
/* Probabilities: in 0..1, multiples of 2^-24. */
float *make_probs(int64_t n);

#endif
