/* The policies, their parameters, and the number of rows that they keep. */
#include "core/plan/policy.h"

#include <math.h>
#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"

#define INFO(type_, source_, summary_) \
    .info.struct_size = sizeof(rvit_prune_info), .info.type = RVIT_PRUNE_##type_, .info.source = source_, .info.summary = summary_
#define PARAMETERS(parameters_) .info.parameters = parameters_
/* Below 0: the policy has no such parameter. */
#define DEFAULTS(keep_, threshold_, mass_) ALL_DEFAULTS(keep_, threshold_, mass_, -1.0, -1.0, -1.0)
#define ALL_DEFAULTS(keep_, threshold_, mass_, alpha_, object_part_, tau_)                                                      \
    .info.default_keep = keep_, .info.default_threshold = threshold_, .info.default_mass = mass_, .info.default_alpha = alpha_, \
    .info.default_object_part = object_part_, .info.default_tau = tau_
#define AFTER_BLOCK .info.site = "after the block", .site = RVIT_SITE_AFTER_BLOCK
#define BEFORE_BLOCK .info.site = "before the block", .site = RVIT_SITE_BEFORE_BLOCK
#define INSIDE_BLOCK .info.site = "between attention and MLP", .site = RVIT_SITE_AFTER_ATTENTION
#define BLOCKS(n, ...) .info.n_default_blocks = n, .info.default_blocks = {__VA_ARGS__}
#define ONCE BLOCKS(1, 3)
#define THREE_TIMES BLOCKS(3, 3, 6, 9)
#define FROM_THE_END(n) BLOCKS(1, -(n))
#define BEST(score_, count_) .select = RVIT_SELECT_TOP_K, .score = RVIT_SCORE_##score_, .count = RVIT_POLICY_##count_
#define PAPER "arXiv 2604.15408"

static const rvit_policy policies[] = {
    {INFO(NONE, "-", "no pruning"), .info.site = "-", DEFAULTS(-1.0, -1.0, -1.0)},
    {INFO(L2, PAPER, "the tokens of largest L2 norm, once"), AFTER_BLOCK, PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS),
     DEFAULTS(0.5, -1.0, -1.0), ONCE, BEST(L2, FLOOR), .prefix_competes = 1},
    {INFO(L2_THRESHOLD, "this library", "the tokens whose L2 norm reaches a threshold"), AFTER_BLOCK,
     PARAMETERS(RVIT_PRUNE_THRESHOLD | RVIT_PRUNE_BLOCKS), DEFAULTS(-1.0, -1.0, -1.0), ONCE, .select = RVIT_SELECT_THRESHOLD,
     .score = RVIT_SCORE_L2},
    {INFO(EVIT, "arXiv 2202.07800", "the tokens the CLS token attends to most"), INSIDE_BLOCK,
     PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.7, -1.0, -1.0), THREE_TIMES, BEST(CLS_ATTENTION, CEIL)},
    {INFO(EVIT_FUSED, "arXiv 2202.07800", "the same, with the dropped tokens fused into one"), INSIDE_BLOCK,
     PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.7, -1.0, -1.0), THREE_TIMES, BEST(CLS_ATTENTION, CEIL), .fuses = 1},
    {INFO(EVIT_PAPER, PAPER, "the tokens the CLS token attends to most, once"), AFTER_BLOCK,
     PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.5, -1.0, -1.0), ONCE, BEST(CLS_ATTENTION, FLOOR)},
    {INFO(DYNAMICVIT, "arXiv 2106.02034", "the tokens the checkpoint's predictors rank highest"), BEFORE_BLOCK,
     PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.7, -1.0, -1.0), THREE_TIMES, BEST(PREDICTOR, POWER)},
    {INFO(DYNAMICVIT_GATE, "arXiv 2106.02034", "the tokens the checkpoint's predictors keep with a probability above a threshold"),
     BEFORE_BLOCK, PARAMETERS(RVIT_PRUNE_THRESHOLD | RVIT_PRUNE_BLOCKS), DEFAULTS(-1.0, 0.5, -1.0), THREE_TIMES,
     .select = RVIT_SELECT_THRESHOLD, .score = RVIT_SCORE_PREDICTOR},
    {INFO(ATS, "arXiv 2111.15667", "a sample of the tokens by CLS attention times value norm"), INSIDE_BLOCK,
     PARAMETERS(RVIT_PRUNE_SAMPLES | RVIT_PRUNE_BLOCKS), DEFAULTS(-1.0, -1.0, -1.0), BLOCKS(-1, 3), .select = RVIT_SELECT_SAMPLE,
     .score = RVIT_SCORE_CLS_NORM},
    {INFO(ATS_PAPER, PAPER, "the best tokens by CLS attention times norm, up to a share of the sum"), AFTER_BLOCK,
     PARAMETERS(RVIT_PRUNE_MASS | RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(-1.0, -1.0, 0.9), ONCE, .select = RVIT_SELECT_MASS,
     .score = RVIT_SCORE_CLS_NORM, .count = RVIT_POLICY_FLOOR},
    {INFO(TOME, "arXiv 2210.09461", "merges the pairs of tokens with the most similar keys"), INSIDE_BLOCK,
     PARAMETERS(RVIT_PRUNE_MERGES | RVIT_PRUNE_BLOCKS), DEFAULTS(-1.0, -1.0, -1.0), .info.default_merges = 8, BLOCKS(-1, 0), .merges = 1},
    {INFO(RANDOM, "this library", "tokens at random positions, the same for every image"), AFTER_BLOCK,
     PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_SEED | RVIT_PRUNE_BLOCKS), DEFAULTS(0.5, -1.0, -1.0), ONCE, BEST(POSITION, FLOOR)},
    {INFO(MASK, "the caller", "a keep mask given with each run"), AFTER_BLOCK, PARAMETERS(RVIT_PRUNE_BLOCKS), DEFAULTS(-1.0, -1.0, -1.0),
     ONCE, .select = RVIT_SELECT_MASK},
    {INFO(RECEIVED, "this library", "the tokens all tokens attend to most, once; needs no CLS token"), INSIDE_BLOCK,
     PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.5, -1.0, -1.0), ONCE, BEST(CLS_ATTENTION, FLOOR),
     .probs = RVIT_PROBS_RECEIVED},
    {INFO(FASTERVLM, "arXiv 2412.01818",
          "the tokens the CLS token attends to most in the last block but one; for consumers of that block's output, no faster before it"),
     AFTER_BLOCK, PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.5, -1.0, -1.0), FROM_THE_END(2), BEST(CLS_ATTENTION, FLOOR)},
    {INFO(MAP_PROBE, "this library",
          "the tokens the query of attention pooling attends to most; exact after the last block, an experiment after earlier ones"),
     AFTER_BLOCK, PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS), DEFAULTS(0.5, -1.0, -1.0), FROM_THE_END(1), BEST(CLS_ATTENTION, FLOOR),
     .probs = RVIT_PROBS_MAP},
    {INFO(HIPRUNE, "arXiv 2508.00553",
          "the tokens all tokens attend to most in the last block but one, and before them some that they attend to most in a "
          "middle block, with their neighbours; for consumers of that block's output, no faster before it"),
     AFTER_BLOCK, PARAMETERS(RVIT_PRUNE_KEEP | RVIT_PRUNE_BLOCKS | RVIT_PRUNE_ALPHA | RVIT_PRUNE_OBJECT_BLOCK),
     ALL_DEFAULTS(0.5, -1.0, -1.0, 0.1, 0.375, -1.0), FROM_THE_END(2), /* 9 of the 24 blocks of CLIP L/14 */
     BEST(CLS_ATTENTION, FLOOR), .probs = RVIT_PROBS_RECEIVED},
    {INFO(PIXELPRUNE, "arXiv 2604.00886",
          "the patches whose pixels their neighbours do not predict; their number depends on the image; needs variable resolution"),
     BEFORE_BLOCK, PARAMETERS(RVIT_PRUNE_TAU), ALL_DEFAULTS(-1.0, -1.0, -1.0, -1.0, -1.0, 0.0), BLOCKS(1, 0), .select = RVIT_SELECT_MASK,
     .by_pixels = 1},
};
enum { N_POLICIES = sizeof policies / sizeof policies[0] };

rvit_status rvit_prune_list(int32_t index, rvit_prune_info *out_info)
{
    RVIT_ENTRY;
    if (index < 0 || index >= N_POLICIES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_prune_list: index is %d, there are %d policies", (int)index, (int)N_POLICIES);
    rvit_prune_info info = policies[index].info;
    info.name = rvit_policy_name(&policies[index]);
    return rvit_args_return(out_info, &info, sizeof info, "prune info");
}

static rvit_status find_policy(rvit_prune_type type, const rvit_policy **out_policy)
{
    for (int i = 0; i < N_POLICIES; i++) {
        if (policies[i].info.type == type) {
            *out_policy = &policies[i];
            return RVIT_OK;
        }
    }
    return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: type: %d is not a valid prune type", (int)type);
}

/* Parameters that the policy does not have must be unset. */
static rvit_status check_parameters(const rvit_policy *policy, const rvit_prune_desc *desc)
{
    const struct {
        rvit_prune_parameter parameter;
        int is_set;
        const char *name;
    } fields[] = {
        {RVIT_PRUNE_KEEP, !(desc->keep < 0.0), "keep"},
        {RVIT_PRUNE_BLOCKS, desc->n_blocks != 0, "blocks"},
        {RVIT_PRUNE_THRESHOLD, !(desc->threshold < 0.0), "threshold"},
        {RVIT_PRUNE_MASS, !(desc->mass < 0.0), "mass"},
        {RVIT_PRUNE_SAMPLES, desc->n_samples != 0, "n_samples"},
        {RVIT_PRUNE_MERGES, desc->merges >= 0, "merges"},
        {RVIT_PRUNE_SEED, desc->seed != 0, "seed"},
        {RVIT_PRUNE_ALPHA, !(desc->alpha < 0.0), "alpha"},
        {RVIT_PRUNE_OBJECT_BLOCK, desc->object_block >= 0, "object_block"},
        {RVIT_PRUNE_TAU, desc->tau != 0.0, "tau"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].is_set && (policy->info.parameters & (int32_t)fields[i].parameter) == 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s is given, but the policy %s has no such parameter", fields[i].name,
                             rvit_policy_name(policy));
    return RVIT_OK;
}

static rvit_status check_fraction(const char *name, double value)
{
    if (isnan(value) || value > 1.0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s is %g, expected 0..1", name, value);
    return RVIT_OK;
}

/* The smallest float that is at least `value` or, with `above`, greater. */
static float at_least(double value, int above)
{
    const float nearest = (float)value;
    return (double)nearest < value || (above && (double)nearest == value) ? nextafterf(nearest, INFINITY) : nearest;
}

/* Users set thresholds for the norm and for a probability; scores are the square of the norm and the logarithm of the probability. */
static rvit_status resolve_threshold(const rvit_prune_desc *desc, rvit_prune_schedule *schedule)
{
    const rvit_prune_info *info = &schedule->policy->info;
    const double threshold = desc->threshold < 0.0 ? info->default_threshold : desc->threshold;
    if (isnan(threshold))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: threshold is NaN");
    if (threshold < 0.0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s needs a threshold: no L2 norm suits every model",
                         rvit_policy_name(schedule->policy));
    if (schedule->policy->score == RVIT_SCORE_L2) {
        schedule->threshold = at_least(threshold * threshold, 0);
        return RVIT_OK;
    }
    schedule->k_min = 1;
    schedule->threshold = at_least(log(threshold), 1);
    return check_fraction("threshold", threshold);
}

static rvit_status resolve_blocks(const rvit_prune_desc *desc, int32_t depth, rvit_prune_schedule *schedule)
{
    const rvit_prune_info *info = &schedule->policy->info;
    if (desc->n_blocks < 0 || desc->n_blocks > RVIT_PRUNE_MAX_STAGES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: n_blocks is %d, expected 0..%d", (int)desc->n_blocks, RVIT_PRUNE_MAX_STAGES);
    const int defaults = desc->n_blocks == 0, to_last = defaults && info->n_default_blocks < 0;
    schedule->n_stages = to_last ? depth - info->default_blocks[0] : defaults ? info->n_default_blocks : desc->n_blocks;
    if (schedule->n_stages > RVIT_PRUNE_MAX_STAGES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s would prune in %d blocks, a session has at most %d prune stages",
                         rvit_policy_name(schedule->policy), (int)schedule->n_stages, RVIT_PRUNE_MAX_STAGES);
    if (to_last && schedule->n_stages < 1)
        schedule->n_stages = 1;
    for (int32_t s = 0; s < schedule->n_stages; s++) {
        schedule->blocks[s] = to_last ? info->default_blocks[0] + s : defaults ? info->default_blocks[s] : desc->blocks[s];
        if (defaults && schedule->blocks[s] < 0)
            schedule->blocks[s] += depth;
        if (schedule->blocks[s] < 0 || schedule->blocks[s] >= depth)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s prunes in block %d, the model has blocks 0..%d",
                             rvit_policy_name(schedule->policy), (int)schedule->blocks[s], (int)depth - 1);
        if (s > 0 && schedule->blocks[s] <= schedule->blocks[s - 1])
            return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: block %d comes after block %d, expected ascending blocks",
                             (int)schedule->blocks[s], (int)schedule->blocks[s - 1]);
    }
    return RVIT_OK;
}

/* Anchors are marked by row, so no other stage may change the rows before they are used. */
static rvit_status resolve_anchors(const rvit_prune_desc *desc, int32_t depth, rvit_prune_schedule *schedule)
{
    const rvit_prune_info *info = &schedule->policy->info;
    schedule->object_block = -1;
    if ((info->parameters & RVIT_PRUNE_OBJECT_BLOCK) == 0)
        return RVIT_OK;
    if (schedule->n_stages != 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s prunes in one block, n_blocks is %d", rvit_policy_name(schedule->policy),
                         (int)schedule->n_stages);
    const int32_t last = schedule->blocks[0], default_block = (int32_t)floor(info->default_object_part * (double)depth + 0.5) - 1;
    if (desc->object_block > last)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: object_block is %d, expected 0..%d: %s prunes after block %d",
                         (int)desc->object_block, (int)last, rvit_policy_name(schedule->policy), (int)last);
    schedule->alpha = desc->alpha < 0.0 ? info->default_alpha : desc->alpha;
    if (schedule->alpha > 0.0)
        schedule->object_block = desc->object_block >= 0 ? desc->object_block
                                 : default_block < 0     ? 0
                                 : default_block < last  ? default_block
                                                         : last;
    return RVIT_OK;
}

rvit_status rvit_prune_resolve(const rvit_prune_desc *given, int32_t depth, int32_t n_patches, rvit_prune_schedule *out_schedule)
{
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "prune desc"));
    rvit_prune_schedule schedule = {.group_size = 1, .n_patches = n_patches, .seed = desc.seed};
    RVIT_TRY(find_policy(desc.type, &schedule.policy));
    const rvit_prune_info *info = &schedule.policy->info;
    RVIT_TRY(check_fraction("keep", desc.keep));
    RVIT_TRY(check_fraction("mass", desc.mass));
    RVIT_TRY(check_fraction("alpha", desc.alpha));
    RVIT_TRY(check_parameters(schedule.policy, &desc));
    if (!(desc.tau >= 0.0 && desc.tau <= 1.0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: tau is %g, expected 0..1", desc.tau);
    schedule.tau = desc.tau;
    schedule.select = schedule.policy->select;
    schedule.keep = desc.keep < 0.0 ? info->default_keep : desc.keep;
    if (schedule.select == RVIT_SELECT_MASS && schedule.keep >= 0.0) {
        if (desc.mass >= 0.0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: %s takes keep or mass, not both", rvit_policy_name(schedule.policy));
        schedule.select = RVIT_SELECT_TOP_K;
    }
    schedule.mass = desc.mass < 0.0 ? info->default_mass : desc.mass;
    if (desc.n_samples < 0 || desc.n_samples > 1 << 16)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "prune desc: n_samples is %d, expected 1..%d, or 0", (int)desc.n_samples, 1 << 16);
    schedule.n_samples = desc.n_samples == 0 ? n_patches : desc.n_samples;
    schedule.merges = desc.merges < 0 ? info->default_merges : desc.merges;
    if (desc.type != RVIT_PRUNE_NONE)
        RVIT_TRY(resolve_blocks(&desc, depth, &schedule));
    RVIT_TRY(resolve_anchors(&desc, depth, &schedule));
    if (schedule.policy->merges && schedule.merges == 0)
        schedule.n_stages = 0;
    if (schedule.select == RVIT_SELECT_THRESHOLD)
        RVIT_TRY(resolve_threshold(&desc, &schedule));
    *out_schedule = schedule;
    return RVIT_OK;
}

static rvit_status count_rows(const rvit_prune_schedule *schedule, int32_t stage, int32_t max_n, int32_t *out_counts)
{
    switch (schedule->policy->count) {
    case RVIT_POLICY_FLOOR:
        return rvit_count_table(RVIT_COUNT_FLOOR, schedule->keep, 1, max_n, out_counts);
    case RVIT_POLICY_CEIL:
        return rvit_count_table(RVIT_COUNT_CEIL, schedule->keep, 1, max_n, out_counts);
    case RVIT_POLICY_POWER:
        if (schedule->n_patches == 0)
            return rvit_count_table(RVIT_COUNT_FLOOR, schedule->keep, 1, max_n, out_counts);
        break;
    }
    const int32_t k = (int32_t)trunc((double)schedule->n_patches * pow(schedule->keep, (double)stage + 1.0));
    for (int32_t n = 0; n <= max_n; n++)
        out_counts[n] = k < 1 && n > 0 ? 1 : k < n ? k : n;
    return RVIT_OK;
}

rvit_status rvit_prune_counts(const rvit_prune_schedule *schedule, int32_t stage, int32_t max_n, int32_t *out_counts)
{
    RVIT_TRY(count_rows(schedule, stage, max_n / schedule->group_size, out_counts));
    /* From the end, so that entries are read before they are overwritten. */
    for (int32_t n = max_n; schedule->group_size > 1 && n >= 0; n--)
        out_counts[n] = schedule->group_size * out_counts[n / schedule->group_size];
    return RVIT_OK;
}

rvit_status rvit_prune_anchor_counts(const rvit_prune_schedule *schedule, int32_t max_n, int32_t *out_counts)
{
    RVIT_TRY(rvit_prune_counts(schedule, 0, max_n, out_counts));
    for (int32_t n = 0; n <= max_n; n++) {
        /* An anchor and its neighbours are up to five of the kept rows. */
        const int32_t max = out_counts[n] / 5, wanted = (int32_t)rint((double)out_counts[n] * schedule->alpha / 5.0);
        out_counts[n] = wanted < max ? wanted : max;
    }
    return RVIT_OK;
}

/* One step of splitmix64. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t bits = *state += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

void rvit_prune_random_scores(const rvit_prune_schedule *schedule, int32_t stage, int32_t n, float *out_scores)
{
    /* Hash seed and stage first; otherwise nearby seeds would give the same sequence, shifted. */
    uint64_t seed = schedule->seed, state = next_random(&seed) + (uint64_t)stage;
    state = next_random(&state);
    for (int32_t i = 0; i < n; i++)
        out_scores[i] =
            i % schedule->group_size > 0 ? out_scores[i - 1] : (float)(next_random(&state) >> 40); /* 24 bits: a float holds them exactly */
}

rvit_status rvit_count_table(rvit_count_rule rule, double keep, int32_t k_min, int32_t max_n, int32_t *out_counts)
{
    RVIT_ENTRY;
    if (!(keep >= 0.0 && keep <= 1.0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "count table: keep is %g, expected 0..1", keep);
    if (k_min < 0 || max_n < 0 || max_n == INT32_MAX || out_counts == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "count table: k_min or max_n is out of range, or out_counts is NULL");
    if (rule != RVIT_COUNT_FLOOR && rule != RVIT_COUNT_CEIL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "count table: rule: %d is not a valid count rule", (int)rule);
    for (int32_t n = 0; n <= max_n; n++) {
        const double product = rule == RVIT_COUNT_FLOOR ? trunc((double)n * keep) : ceil(keep * (double)n);
        int32_t k = (int32_t)product;
        if (k < k_min)
            k = k_min;
        out_counts[n] = k < n ? k : n;
    }
    return RVIT_OK;
}
