/* Pruning policies as data: one row each says where it scores, what, how it counts and how it selects. */
#ifndef RVIT_CORE_POLICY_H
#define RVIT_CORE_POLICY_H

#include <raggedvit/prune.h>

typedef enum rvit_prune_site {
    RVIT_SITE_AFTER_BLOCK,    /* on the output of a block; the next layernorm gathers */
    RVIT_SITE_AFTER_ATTENTION /* between attention and MLP of a block; the MLP's layernorm gathers */
} rvit_prune_site;

typedef struct rvit_policy {
    rvit_prune_info info;
    rvit_prune_site site;
    rvit_select_mode select;
    rvit_score_type score; /* unless the mask is given */
    int32_t prefix_competes;
    rvit_count_rule count;
    int32_t k_min;
} rvit_policy;

/* A policy with its parameters settled for a model of `depth` blocks. n_stages 0: no pruning. */
typedef struct rvit_prune_plan {
    const rvit_policy *policy;
    double keep;
    int32_t n_stages;
    int32_t blocks[RVIT_PRUNE_MAX_STAGES];
} rvit_prune_plan;

rvit_status rvit_prune_resolve(const rvit_prune_desc *desc, int32_t depth, rvit_prune_plan *out_plan);

#endif
