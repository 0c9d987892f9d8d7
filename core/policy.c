/* The policies, their parameters, and how they count. */
#include "core/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/args.h"
#include "core/status.h"

static const rvit_policy policies[] = {
    {.info = {sizeof(rvit_prune_info), RVIT_PRUNE_NONE, "none", "no pruning", "-", 1.0, 0, {0}}},
    {.info =
         {sizeof(rvit_prune_info), RVIT_PRUNE_L2, "l2", "top-k by the L2 norm of a block's output, once", "arXiv 2604.15408", 0.5, 1, {3}},
     .site = RVIT_SITE_AFTER_BLOCK,
     .select = RVIT_SELECT_TOP_K,
     .score = RVIT_SCORE_L2,
     .prefix_competes = 1,
     .count = RVIT_COUNT_FLOOR,
     .k_min = 1},
    {.info = {sizeof(rvit_prune_info),
              RVIT_PRUNE_EVIT,
              "evit",
              "top-k by the CLS token's attention, between attention and MLP, no fused token",
              "arXiv 2202.07800",
              0.7,
              3,
              {3, 6, 9}},
     .site = RVIT_SITE_AFTER_ATTENTION,
     .select = RVIT_SELECT_TOP_K,
     .score = RVIT_SCORE_CLS_ATTENTION,
     .count = RVIT_COUNT_CEIL,
     .k_min = 1},
    {.info = {sizeof(rvit_prune_info), RVIT_PRUNE_MASK, "mask", "a keep mask given with each run", "the caller", 1.0, 1, {3}},
     .site = RVIT_SITE_AFTER_BLOCK,
     .select = RVIT_SELECT_MASK},
};
enum { N_POLICIES = sizeof policies / sizeof policies[0] };

rvit_status rvit_prune_list(int32_t index, rvit_prune_info *out_info)
{
    if (index < 0 || index >= N_POLICIES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_prune_list: index is %d, there are %d policies", (int)index, (int)N_POLICIES);
    return rvit_args_return(out_info, &policies[index].info, sizeof policies[index].info, "prune info");
}

rvit_status rvit_prune_from_name(const char *name, rvit_prune_type *out_type)
{
    if (name == NULL || out_type == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_prune_from_name: name or out_type is NULL");
    char names[256] = "";
    for (int i = 0; i < N_POLICIES; i++) {
        if (strcmp(name, policies[i].info.name) == 0) {
            *out_type = policies[i].info.type;
            return RVIT_OK;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", policies[i].info.name);
    }
    return rvit_fail(RVIT_INVALID_ARGUMENT, "no pruning policy is called '%.64s': there are %s", name, names);
}

rvit_status rvit_prune_resolve(const rvit_prune_desc *given, int32_t depth, rvit_prune_plan *out_plan)
{
    /* A desc left all zero asks for no pruning. */
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    if (given->struct_size != 0)
        RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "prune desc"));
    const rvit_policy *policy = NULL;
    for (int i = 0; i < N_POLICIES; i++)
        if (policies[i].info.type == desc.type)
            policy = &policies[i];
    if (policy == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: type is %d, which is none", (int)desc.type);
    if (isnan(desc.keep) || desc.keep > 1.0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: keep is %g, expected 0..1", desc.keep);
    rvit_prune_plan plan = {.policy = policy, .keep = desc.keep < 0.0 ? policy->info.default_keep : desc.keep};
    if (desc.n_blocks < 0 || desc.n_blocks > RVIT_PRUNE_MAX_STAGES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: n_blocks is %d, expected 0..%d", (int)desc.n_blocks, RVIT_PRUNE_MAX_STAGES);
    const int defaults = desc.n_blocks == 0;
    plan.n_stages = defaults ? policy->info.n_default_blocks : desc.n_blocks;
    if (desc.type == RVIT_PRUNE_NONE)
        plan.n_stages = 0;
    for (int32_t s = 0; s < plan.n_stages; s++) {
        plan.blocks[s] = defaults ? policy->info.default_blocks[s] : desc.blocks[s];
        if (plan.blocks[s] < 0 || plan.blocks[s] >= depth)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s prunes in block %d, the model has blocks 0..%d", policy->info.name,
                             (int)plan.blocks[s], (int)depth - 1);
        if (s > 0 && plan.blocks[s] <= plan.blocks[s - 1])
            return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: block %d comes after block %d, expected ascending blocks",
                             (int)plan.blocks[s], (int)plan.blocks[s - 1]);
    }
    *out_plan = plan;
    return RVIT_OK;
}

rvit_status rvit_count_table(rvit_count_rule rule, double keep, int32_t k_min, int32_t max_n, int32_t *out_counts)
{
    if (!(keep >= 0.0 && keep <= 1.0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "count table: keep is %g, expected 0..1", keep);
    if (k_min < 0 || max_n < 0 || out_counts == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "count table: k_min or max_n is negative, or out_counts is NULL");
    if (rule != RVIT_COUNT_FLOOR && rule != RVIT_COUNT_CEIL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "count table: rule is %d, which is none", (int)rule);
    for (int32_t n = 0; n <= max_n; n++) {
        const double product = rule == RVIT_COUNT_FLOOR ? trunc((double)n * keep) : ceil(keep * (double)n);
        int32_t k = (int32_t)product;
        if (k < k_min)
            k = k_min;
        out_counts[n] = k < n ? k : n;
    }
    return RVIT_OK;
}
