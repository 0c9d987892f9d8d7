/* What verify measures: sums over the batches that two sessions ran. */
#ifndef RVIT_CLI_VERIFY_COMPARE_H
#define RVIT_CLI_VERIFY_COMPARE_H

#include "engine.h"

struct stage_figures {
    int64_t kept;          /* tokens A keeps */
    int64_t differ;        /* kept by one of A and B, not by the other */
    int64_t given_differ;  /* with B's scores given to both: rows where the two selections differ */
    int64_t replay_differ; /* B's selection from its own scores against what its session kept */
};

struct figures {
    int64_t n_images;
    double tolerance; /* of a logit */
    /* logits of A and B, under the same mask */
    double largest, sum;
    int64_t n_logits;
    int64_t n_equal, n_decided, n_decided_equal; /* top-1; decided: B's margin is above twice the tolerance */
    int64_t n_remasked;                          /* images for which B had to run with A's tokens */
    double largest_unmasked;                     /* over all images, each side with its own tokens */
    int32_t n_stages;
    struct stage_figures stages[RVIT_PRUNE_MAX_STAGES];
    bool knows_rule; /* given_differ and replay_differ were measured */
    int32_t n_blocks;
    double *blocks; /* [n_blocks]: largest difference over the block's largest value; -1: never comparable */
};

/* Adds the logits [n_images, n_classes] of one batch. */
void figures_add_logits(struct figures *self, const float *a, const float *b, int32_t n_images, int32_t n_classes);
/* Adds one batch's kept tokens; returns how many images have different ones at any stage. */
int32_t figures_add_kept(struct figures *self, const rvit_session *a, const rvit_session *b, int32_t n_images);
/* Adds the traced block outputs of one batch, where both have the same number of rows. */
rvit_status figures_add_blocks(struct figures *self, const rvit_session *a, const rvit_session *b, int32_t dim);

/* Tells of the row before a stage, for each row in order, whether the session kept it: out uint8 [rows before the stage]. */
void session_keep_bytes(const rvit_session *session, int32_t stage, int32_t n_images, int32_t tokens, uint8_t *out);
/* The layout before a stage: the one after the stage before it, or n_images times all tokens, written to scratch [n_images + 1]. */
const int32_t *session_layout_before(const rvit_session *session, int32_t stage, int32_t n_images, int32_t tokens, int32_t *scratch);
/* The mask over the model's own tokens that RVIT_PRUNE_MASK takes: out uint8 [n_stages, n_images, tokens]. */
void session_masks(const rvit_session *session, int32_t n_images, int32_t tokens, uint8_t *out);

#endif
