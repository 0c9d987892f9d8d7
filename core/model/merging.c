#include "core/model/merging.h"

#include "core/base/status.h"

enum { MAX_WINDOW = 1 << 14 };

/* Compares a number that is in both the tensors and the files. */
static rvit_status check_same(const char *path, const rvit_facts *facts, rvit_fact fact, int32_t value, const char *what)
{
    const rvit_fact_value *f = &facts->of[fact];
    if (!f->known || (int32_t)f->value[0] == value)
        return RVIT_OK;
    return rvit_fail(rvit_fact_conflict(f), "%s: the %s is %d in the tensors, but should be %s (%s)", path, what, (int)value, f->text,
                     f->where);
}

static rvit_status resolve_side(const char *path, rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported)
{
    const rvit_fact_value *side = &facts->of[RVIT_FACT_MERGE];
    if (!side->known)
        return RVIT_OK;
    config->merge.side = (int32_t)side->value[0];
    if ((int64_t)config->merge.side * config->merge.side * config->info.dim != config->group_dim)
        return rvit_fail(rvit_fact_conflict(side), "%s: the tensors merge groups of %d values, but a group has %d x %d rows of %d (%s)",
                         path, (int)config->group_dim, (int)config->merge.side, (int)config->merge.side, (int)config->info.dim,
                         side->where);
    if (config->merge.side != 2)
        rvit_unsupported_add(unsupported, "the model merges %d x %d patches, which is not supported (%s)", (int)config->merge.side,
                             (int)config->merge.side, side->where);
    return RVIT_OK;
}

static rvit_status resolve_windows(const char *path, rvit_vit_config *config, const rvit_facts *facts)
{
    const rvit_fact_value *window = &facts->of[RVIT_FACT_WINDOW];
    const int32_t pixels = rvit_facts_integer(facts, RVIT_FACT_WINDOW);
    if (!window->known || pixels == 0 || config->merge.side == 0)
        return RVIT_OK;
    config->merge.window = pixels / config->merge.side / config->info.patch_size;
    if (config->merge.window < 1 || config->merge.window > MAX_WINDOW)
        return rvit_fail(rvit_fact_conflict(window), "%s: windows have %d pixels (%s), expected %d to %d times the %d of a merge group",
                         path, (int)pixels, window->where, 1, MAX_WINDOW, (int)(config->merge.side * config->info.patch_size));
    config->merge.full_blocks = facts->full_blocks;
    return RVIT_OK;
}

static rvit_status resolve_deepstack(const char *path, rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported)
{
    const rvit_fact_value *deepstack = &facts->of[RVIT_FACT_DEEPSTACK];
    const rvit_block_list *list = &facts->deepstack;
    if (!deepstack->known)
        return RVIT_OK;
    if (list->n != config->info.n_deepstack)
        return rvit_fail(rvit_fact_conflict(deepstack), "%s: the tensors have %d deepstack mergers, but %s lists %d blocks", path,
                         (int)config->info.n_deepstack, deepstack->where, (int)list->n);
    for (int32_t i = 0; i < list->n; i++)
        if (list->blocks[i] >= config->info.depth)
            return rvit_fail(rvit_fact_conflict(deepstack), "%s: %s lists block %d, but the model has %d blocks", path, deepstack->where,
                             (int)list->blocks[i], (int)config->info.depth);
    for (int32_t i = 1; i < list->n; i++)
        if (list->blocks[i] <= list->blocks[i - 1]) {
            rvit_unsupported_add(unsupported, "%s lists block %d after block %d, which is not supported", deepstack->where,
                                 (int)list->blocks[i], (int)list->blocks[i - 1]);
            break;
        }
    if (list->n > RVIT_MAX_DEEPSTACK)
        rvit_unsupported_add(unsupported, "%s lists %d blocks, but at most %d are supported", deepstack->where, (int)list->n,
                             RVIT_MAX_DEEPSTACK);
    config->merge.deepstack = *list;
    return RVIT_OK;
}

rvit_status rvit_resolve_merge(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_unsupported *unsupported)
{
    if (!config->merges) {
        if (!facts->of[RVIT_FACT_MERGE].known)
            return RVIT_OK;
        return rvit_fail(rvit_fact_conflict(&facts->of[RVIT_FACT_MERGE]),
                         "%s: the model merges patches (%s), but the tensors have no merger", path, facts->of[RVIT_FACT_MERGE].where);
    }
    RVIT_TRY(check_same(path, facts, RVIT_FACT_MERGED, config->info.merged_dim, "width of merged rows"));
    RVIT_TRY(check_same(path, facts, RVIT_FACT_FRAMES, config->frames, "number of frames of a patch"));
    rvit_facts_set(facts, RVIT_FACT_FINAL_NORM, 0, "no model with these tensors has one");
    RVIT_TRY(resolve_side(path, config, facts, unsupported));
    RVIT_TRY(resolve_windows(path, config, facts));
    RVIT_TRY(resolve_deepstack(path, config, facts, unsupported));
    if (config->info.merged_dim % 4 != 0)
        rvit_unsupported_add(unsupported, "the merged rows have %d columns, expected a multiple of 4 (the weights)",
                             (int)config->info.merged_dim);
    config->info.merge = config->merge.side;
    config->info.window = config->merge.window;
    config->info.patch_frames = config->frames;
    return RVIT_OK;
}
