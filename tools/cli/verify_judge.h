/* Judges decisions by their margin: how far, relatively, scores must move for B to decide otherwise. Where A does, that is right as long as
   the margin is below what the scores of A's type may be off by. */
#ifndef RVIT_CLI_VERIFY_JUDGE_H
#define RVIT_CLI_VERIFY_JUDGE_H

#include <raggedvit/prune.h>

#include "cli.h"

/* Of one stage, over all images. */
struct judgement {
    int64_t decisions;      /* rows past the prefix that were judged; of a policy that merges, those that may be */
    int64_t n_left_out;     /* images that kept different tokens before */
    int64_t within, beyond; /* those on which A and B differ, with a margin below the tolerance or not */
    double largest_margin;  /* of those that differ */
    int64_t n_scores;
    double squares, largest_error; /* of the relative differences between the scores */
};

/* How a stage decides. */
struct judge_rule {
    rvit_select_mode mode;
    int32_t n_prefix, prefix_competes, k_min, n_samples;
    const int32_t *counts; /* with prefix_competes: how many stay of each number of rows */
    double threshold, mass;
    double least;   /* what smaller scores are off by does not shrink with them */
    int32_t merges; /* with metrics */
};

/* The rows of an image before a stage. The stages before it kept the same on both sides. */
struct judge_rows {
    int32_t len;
    const float *scores_a, *scores_b;
    const uint8_t *keep_a, *keep_b;
    /* Of a policy that merges instead of scores: [len, dim]. same: both merged the same rows into the same. */
    const float *metric_a, *metric_b;
    int32_t dim;
    bool same;
};

struct judge_rank {
    double score, edge; /* edge: by how much the rank, whatever row has it, is kept or not */
    int32_t row;
    bool kept;
};

/* What scores are: weights of attention, sums of squares or products, or logarithms of what predictors say. */
enum judge_kind { JUDGE_ATTENTION, JUDGE_SUMS, JUDGE_PREDICTOR };
/* The largest margin that a decision by such scores may have and yet be another: four times what the difference of two scores is off by, in
   the root mean square and relative to them. */
double judge_tolerance(enum judge_kind kind, rvit_precision precision);

/* Adds an image. ranks: room for len of them. */
void judge_image(struct judgement *self, const struct judge_rule *rule, const struct judge_rows *rows, double tolerance,
                 struct judge_rank *ranks);

#endif
