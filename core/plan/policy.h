/* Pruning policies as a table: where each scores, by what, how many rows it keeps and how it selects them. */
#ifndef RVIT_CORE_PLAN_POLICY_H
#define RVIT_CORE_PLAN_POLICY_H

#include <raggedvit/prune.h>

typedef enum rvit_prune_site {
    RVIT_SITE_BEFORE_BLOCK,    /* on the input of a block; its first layernorm gathers */
    RVIT_SITE_AFTER_ATTENTION, /* between attention and MLP of a block; the MLP's layernorm gathers */
    RVIT_SITE_AFTER_BLOCK      /* on the output of a block; the next layernorm gathers */
} rvit_prune_site;

/* The number of rows to keep of n competing rows. */
typedef enum rvit_policy_count {
    RVIT_POLICY_FLOOR, /* max(1, trunc(n * keep)) */
    RVIT_POLICY_CEIL,  /* max(1, ceil(keep * n)) */
    RVIT_POLICY_POWER  /* max(1, trunc(N * keep^(stage + 1))), N patches of the unpruned image */
} rvit_policy_count;

/* The attention that CLS_ATTENTION and CLS_NORM use. */
typedef enum rvit_policy_probs {
    RVIT_PROBS_CLS,      /* of the CLS row, in the stage's block */
    RVIT_PROBS_RECEIVED, /* of all rows, in the stage's block */
    RVIT_PROBS_MAP       /* of the query of attention pooling, as if the block were the last */
} rvit_policy_probs;

typedef struct rvit_policy {
    rvit_prune_info info; /* all but the name */
    rvit_prune_site site;
    rvit_select_mode select;
    rvit_score_type score; /* not used with RVIT_SELECT_MASK */
    rvit_policy_probs probs;
    int32_t prefix_competes;
    rvit_policy_count count;
    int32_t by_pixels; /* 1: rvit_pixelprune computes the mask from the pixels of patches */
    int32_t fuses;     /* 1: the dropped tokens are fused into one */
    int32_t merges;    /* 1: rows are merged (rvit_bipartite_match, rvit_merge), not selected */
} rvit_policy;

static inline const char *rvit_policy_name(const rvit_policy *policy)
{
    return rvit_enum_name(RVIT_ENUM_PRUNE, (int32_t)policy->info.type);
}

/* A policy with its parameters resolved for a model, and the blocks in which it prunes. n_stages 0: no pruning. */
typedef struct rvit_prune_schedule {
    const rvit_policy *policy;
    rvit_select_mode select;
    double keep, mass;
    float threshold; /* of the scores */
    int32_t k_min;
    int32_t n_samples, merges;
    double alpha, tau;
    int32_t object_block; /* the block in which anchors are chosen; -1: no anchors */
    uint64_t seed;
    int32_t group_size; /* rows that are kept or dropped together: those of a merge group, or 1 */
    int32_t windowed;   /* 1: rows are merged only within an attention window */
    int32_t given;      /* 1: stages decide, but keep the rows of the caller's masks (RVIT_TRACE_GIVEN) */
    int32_t n_patches;  /* 0: images differ; a policy that counts by it has one stage */
    int32_t n_stages;
    int32_t blocks[RVIT_PRUNE_MAX_STAGES];
} rvit_prune_schedule;

/* desc NULL: no pruning. depth and n_patches are the model's. */
rvit_status rvit_prune_resolve(const rvit_prune_desc *desc, int32_t depth, int32_t n_patches, rvit_prune_schedule *out_schedule);

/* Whether a policy scores by this attention. */
static inline int rvit_policy_reads(const rvit_policy *policy, rvit_policy_probs probs)
{
    return policy->probs == probs && (policy->score == RVIT_SCORE_CLS_ATTENTION || policy->score == RVIT_SCORE_CLS_NORM);
}

/* Whether runs have a mask. */
static inline int rvit_prune_takes_mask(const rvit_prune_schedule *schedule)
{
    return schedule->n_stages > 0 && (schedule->given || schedule->select == RVIT_SELECT_MASK) && !schedule->policy->by_pixels;
}

/* Whether patches are dropped by their pixels. */
static inline int rvit_prune_by_pixels(const rvit_prune_schedule *schedule)
{
    return schedule->n_stages > 0 && schedule->policy->by_pixels;
}

/* Fills out_counts [max_n + 1]: how many of n rows a stage that keeps the k best keeps. */
rvit_status rvit_prune_counts(const rvit_prune_schedule *schedule, int32_t stage, int32_t max_n, int32_t *out_counts);

/* The same for the anchors of a schedule with an object block. */
rvit_status rvit_prune_anchor_counts(const rvit_prune_schedule *schedule, int32_t max_n, int32_t *out_counts);

/* Fills out_scores [n] of a stage that scores positions at random. Equal seeds give equal scores on every machine. */
void rvit_prune_random_scores(const rvit_prune_schedule *schedule, int32_t stage, int32_t n, float *out_scores);

#endif
