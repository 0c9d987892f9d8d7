/* The results of verify, accumulated over the batches that two sessions ran. */
#ifndef RVIT_CLI_VERIFY_COMPARE_H
#define RVIT_CLI_VERIFY_COMPARE_H

#include "kept.h"
#include "verify_judge.h"
#include "verify_select.h"

struct stage_figures {
    int64_t kept;          /* tokens that A keeps */
    int64_t differ;        /* tokens that only one of A and B keeps */
    int64_t given_differ;  /* rows in which the selections of both devices from B's scores differ */
    int64_t replay_differ; /* rows in which B's selection from its own scores differs from what its session kept */
};

struct figures {
    int64_t n_images;
    double tolerance;         /* of a logit */
    int32_t n_values;         /* logits per image, or CLS features without a head */
    bool has_classes;         /* the values are logits */
    struct kept_row *kept[2]; /* [tokens]: scratch for an image of A and of B */
    /* Logits of A and B with the same kept tokens. */
    double largest, sum, squares;
    int64_t n_logits;
    int64_t n_equal, n_decided, n_decided_equal; /* images with equal top-1; decided: B's margin is more than twice the tolerance */
    int64_t n_remasked;                          /* images for which B ran again with A's tokens */
    int64_t n_skipped;                           /* images with different tokens, if B cannot run with A's */
    /* Over all images, each side with its own tokens. */
    double largest_unmasked, squares_unmasked;
    int64_t n_equal_unmasked, n_sets_differ; /* images with equal top-1, and images that kept different tokens */
    int64_t n_expected, n_right[2];          /* images with an expected class, and those that A and B classify correctly */
    /* Decisions after the same earlier tokens. */
    bool judged, anchors; /* anchors: their judgement follows those of the stages */
    double judge_tolerance;
    struct judgement judgements[RVIT_PRUNE_MAX_STAGES + 1];
    int32_t n_stages;
    struct stage_figures stages[RVIT_PRUNE_MAX_STAGES];
    bool knows_rule; /* given_differ and replay_differ were measured */
    int32_t n_blocks;
    double *blocks; /* [n_blocks]: largest difference relative to the block's largest value; -1: not comparable */
};

/* Adds the kept tokens of a batch. out_differs [n_images]: whether an image has different tokens in any stage. Returns the number of such
   images. */
int32_t figures_add_kept(struct figures *self, const rvit_session *a, const rvit_session *b, int32_t n_images, bool *out_differs);
/* Adds the logits [n_images, n_values] of a batch, except for the images in skipped (NULL: none). */
void figures_add_logits(struct figures *self, const float *a, const float *b, int32_t n_images, const bool *skipped);
/* The same with each side's own tokens. right [n_images]: the expected classes, or NULL. */
void figures_add_own(struct figures *self, const float *a, const float *b, int32_t n_images, const int32_t *right);
/* Adds the traced block outputs of a batch if both sides have the same number of rows. */
rvit_status figures_add_blocks(struct figures *self, const rvit_session *a, const rvit_session *b, int32_t dim);

/* An element of an array of f32, f16 or bf16; NaN for other types. */
double element_at(const void *data, rvit_dtype dtype, int64_t index);
/* The number of rows in which a session's stage differs from a selection from the same scores. fused: the session has an extra row for the
   dropped tokens of an image. */
int64_t session_count_unlike(const rvit_session *session, int32_t stage, int32_t n_images, const struct selection *selection,
                             const int32_t *layout, bool fused);
/* Runs n_images. masks may be NULL. Prints a message on failure; returns an exit code. */
int session_run(rvit_session *session, const struct engine *engine, const float *images, const uint8_t *masks, int32_t n_images);
/* Writes the mask over the unpruned tokens for RVIT_PRUNE_MASK: out uint8 [n_stages, n_images, tokens]. */
void session_masks(const rvit_session *session, int32_t n_images, int32_t tokens, uint8_t *out);

#endif
