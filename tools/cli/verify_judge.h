/* Judges decisions by their margin: how far scores must move, relative to their size, for B to decide otherwise. If A decides otherwise,
   that is correct as long as the margin is below the possible error of the scores in A's type. */
#ifndef RVIT_CLI_VERIFY_JUDGE_H
#define RVIT_CLI_VERIFY_JUDGE_H

#include <raggedvit/prune.h>

#include "cli.h"

/* The judgement of a stage over all images. */
struct judgement {
    int64_t decisions;      /* judged rows without the prefix; for a policy that merges, the mergeable rows */
    int64_t n_skipped;      /* images that kept different tokens in earlier stages */
    int64_t within, beyond; /* differing decisions with a margin below the tolerance, and others */
    double largest_margin;  /* of differing decisions */
    int64_t n_scores;
    double squares, largest_error; /* of the relative differences between the scores */
};

/* How a stage decides. */
struct judge_rule {
    rvit_select_mode mode;
    int32_t n_prefix, prefix_competes, k_min, n_samples;
    const int32_t *counts; /* with prefix_competes: rows to keep for each number of rows */
    double threshold, mass;
    double min_scale; /* smaller scores have the same absolute error as this */
    int32_t merges;   /* for policies that merge */
};

/* The rows of an image before a stage. Both sides kept the same rows in earlier stages. */
struct judge_rows {
    int32_t len;
    const float *scores_a, *scores_b;
    const uint8_t *keep_a, *keep_b;
    /* For a policy that merges, instead of scores: [len, dim]. same: both sides merged the same rows. */
    const float *metric_a, *metric_b;
    int32_t dim;
    bool same;
};

struct judge_rank {
    double score, edge; /* edge: by how much the rank is kept or dropped, regardless of its row */
    int32_t row;
    bool kept;
};

/* Kinds of scores: attention weights, sums of squares or dot products, and logarithms of predictor outputs. */
enum judge_kind { JUDGE_ATTENTION, JUDGE_SUMS, JUDGE_PREDICTOR };
/* The largest margin of a decision that may correctly differ: four times the relative root mean square error of a difference of two scores.
 */
double judge_tolerance(enum judge_kind kind, rvit_precision precision);

/* Adds an image. ranks has room for rows->len elements. */
void judge_image(struct judgement *self, const struct judge_rule *rule, const struct judge_rows *rows, double tolerance,
                 struct judge_rank *ranks);

#endif
