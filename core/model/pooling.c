#include "core/model/pooling.h"

#include <string.h>

#include "core/base/status.h"

static const char weights[] = "the weights";

/* Sets the heads and the activation of attention pooling. By default they equal those of the blocks, except in gated models (the
   activation) and in timm's rotary models. */
static void resolve_map(rvit_vit_config *config, rvit_facts *facts)
{
    static const char where[] = "as in the blocks";
    const rvit_fact_value *heads = &facts->of[RVIT_FACT_HEADS], *activation = &facts->of[RVIT_FACT_ACTIVATION];
    const int same = (config->family->flags & RVIT_FAMILY_HF) != 0 || rvit_facts_integer(facts, RVIT_FACT_POSITION) == RVIT_POSITION_TABLE;
    if (heads->known && same)
        rvit_facts_set(facts, RVIT_FACT_MAP_HEADS, heads->value[0], where);
    if (activation->known && same && !config->info.gated)
        rvit_facts_set(facts, RVIT_FACT_MAP_ACTIVATION, activation->value[0], where);
    config->map_heads = rvit_facts_integer(facts, RVIT_FACT_MAP_HEADS);
    config->map_activation = (rvit_activation)rvit_facts_integer(facts, RVIT_FACT_MAP_ACTIVATION);
}

void rvit_resolve_pooling(rvit_vit_config *config, rvit_facts *facts)
{
    rvit_fact_value *pooling = &facts->of[RVIT_FACT_POOLING];
    if (pooling->known && (int32_t)pooling->value[0] == RVIT_POOLING_MEAN && config->fc_norm) {
        pooling->known = 0;
        rvit_facts_set(facts, RVIT_FACT_POOLING, RVIT_POOLING_MEAN_NORM, weights);
    }
    if (config->map)
        rvit_facts_set(facts, RVIT_FACT_POOLING, RVIT_POOLING_MAP, weights);
    if (config->cls_and_mean) {
        pooling->known = 0;
        rvit_facts_set(facts, RVIT_FACT_POOLING, RVIT_POOLING_CLS_MEAN, weights);
    }
    if (rvit_facts_integer(facts, RVIT_FACT_POOLING) == RVIT_POOLING_MAP)
        resolve_map(config, facts);
}

/* rvit_attention_pool limits the head width of attention pooling. */
static rvit_status check_map(const char *path, const rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported)
{
    const rvit_fact_value *heads = &facts->of[RVIT_FACT_MAP_HEADS], *prefix = &facts->of[RVIT_FACT_POOL_PREFIX];
    if (config->info.n_prefix > 0 && prefix->known && prefix->value[0] == 0)
        rvit_unsupported_add(unsupported,
                             "the model has prefix tokens that its attention pooling does not read, which is not supported (%s)",
                             prefix->where);
    if (!heads->known)
        return RVIT_OK;
    if (config->map_heads < 1 || config->info.dim % config->map_heads != 0)
        return rvit_fail(rvit_fact_conflict(heads), "%s: the width %d cannot be split into %s heads of attention pooling (%s)", path,
                         (int)config->info.dim, heads->text, heads->where);
    const int32_t head_dim = config->info.dim / config->map_heads;
    if (head_dim > 192 || head_dim % 4 != 0)
        rvit_unsupported_add(unsupported, "the heads of attention pooling have %d columns, expected a multiple of 4 up to 192 (%s)",
                             (int)head_dim, heads->where);
    return RVIT_OK;
}

rvit_status rvit_check_pooling(const char *path, const rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported)
{
    const rvit_model_info *info = &config->info;
    const rvit_fact_value *pooling = &facts->of[RVIT_FACT_POOLING];
    const int32_t kind = rvit_facts_integer(facts, RVIT_FACT_POOLING), has_head = info->n_classes > 0;
    char name[RVIT_NAME_SIZE] = "";
    const rvit_fact_value *norm = &facts->of[RVIT_FACT_FINAL_NORM];
    const int none = norm->known && norm->value[0] == 0, normed = info->final_norm || config->fc_norm;
    if (none && normed)
        return rvit_fail(rvit_fact_conflict(norm), "%s: tensor '%s' is present, but the model has no norm after the last block (%s)", path,
                         rvit_family_name(config->family, info->final_norm ? RVIT_ROLE_NORM_GAMMA : RVIT_ROLE_FC_NORM_GAMMA, 0, name),
                         norm->where);
    if (!normed && !(none && kind != RVIT_POOLING_MAP))
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing, and no file says that the model has no norm after the last block",
                         path, rvit_family_name(config->family, RVIT_ROLE_NORM_GAMMA, 0, name));
    if (info->final_norm && config->fc_norm)
        rvit_unsupported_add(unsupported, "the model has two norms after the last block ('norm' and 'fc_norm')");
    if (!pooling->known)
        return RVIT_OK;
    if (kind == RVIT_POOLING_MAP && !config->map)
        return rvit_fail(rvit_fact_conflict(pooling), "%s: the model has attention pooling (%s), but the weights have none", path,
                         pooling->where);
    if (config->map && kind != RVIT_POOLING_MAP && (config->family->flags & RVIT_FAMILY_MAP_UNREAD) == 0)
        return rvit_fail(rvit_fact_conflict(pooling), "%s: the weights have attention pooling, but pooling is %s (%s)", path, pooling->text,
                         pooling->where);
    if (kind == RVIT_POOLING_MAP)
        RVIT_TRY(check_map(path, config, facts, unsupported));
    if ((kind == RVIT_POOLING_CLS || kind == RVIT_POOLING_CLS_MEAN) && !config->cls)
        return rvit_fail(rvit_fact_conflict(pooling), "%s: the head reads the CLS row (%s), but the weights have no CLS token", path,
                         pooling->where);
    if (!has_head)
        return RVIT_OK;
    /* Unless fc_norm is set, timm normalises after pooling if it takes a mean, and otherwise before. */
    if (kind == RVIT_POOLING_CLS && config->fc_norm && !facts->of[RVIT_FACT_FC_NORM].known && strcmp(pooling->where, "given") != 0)
        return rvit_fail(rvit_fact_conflict(pooling),
                         "%s: tensor '%s', the norm of a mean, is present, but the head reads the CLS row (%s)", path,
                         rvit_family_name(config->family, RVIT_ROLE_FC_NORM_GAMMA, 0, name), pooling->where);
    const rvit_fact_value *prefix = &facts->of[RVIT_FACT_POOL_PREFIX];
    const int means = kind == RVIT_POOLING_MEAN || kind == RVIT_POOLING_MEAN_NORM || kind == RVIT_POOLING_MEAN_RAW;
    if (means && info->n_prefix > 0 && rvit_facts_integer(facts, RVIT_FACT_POOL_PREFIX) &&
        strstr(prefix->where, "pool_include_prefix") != NULL)
        rvit_unsupported_add(unsupported, "the model has a mean that includes prefix tokens, which is not supported (%s)", prefix->where);
    if (kind == RVIT_POOLING_NONE)
        rvit_unsupported_add(unsupported, "the model has a head on every row, which is not supported (%s)", pooling->where);
    if (kind == RVIT_POOLING_MEAN_NORM && !config->fc_norm)
        return rvit_fail(rvit_fact_conflict(pooling), "%s: the head normalises the mean (%s), but the weights have no fc_norm", path,
                         pooling->where);
    if (info->distilled && kind != RVIT_POOLING_CLS)
        return rvit_fail(rvit_fact_conflict(pooling), "%s: pooling is %s (%s), but a distilled head reads two rows", path, pooling->text,
                         pooling->where);
    if (kind == RVIT_POOLING_CLS_MEAN && !config->cls_and_mean)
        return rvit_fail(rvit_fact_conflict(pooling), "%s: the head reads CLS row and mean (%s), but has columns for one", path,
                         pooling->where);
    return RVIT_OK;
}
