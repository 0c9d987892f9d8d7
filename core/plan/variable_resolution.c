/* Checks of sessions with variable resolution. */
#include "core/plan/variable_resolution.h"

#include "core/base/status.h"

enum { MAX_TABLE_SIDE = 512 }; /* the limit of the ops on grids */

void rvit_variable_complete(const rvit_model *model, rvit_session_desc *desc)
{
    if (desc->max_len == 0)
        desc->max_len = model->info.tokens;
    if (desc->max_tokens == 0 && (int64_t)desc->max_images * desc->max_len < INT32_MAX)
        desc->max_tokens = desc->max_images * desc->max_len;
}

/* The position table must have the file's size: it is resampled to each image's grid from the values of the file. */
static rvit_status check_table(const rvit_model *model)
{
    const rvit_model_info *info = &model->info;
    const int32_t height = info->image_height / info->patch_size, width = info->image_width / info->patch_size;
    if (!rvit_model_has_table(model))
        return RVIT_OK;
    if (height != model->trained[0] || width != model->trained[1])
        return rvit_fail(
            RVIT_UNSUPPORTED,
            "session desc: variable_resolution is 1, but the checkpoint was opened with another image size than that of its position table "
            "(%d x %d patches, not %d x %d): leave checkpoint desc's image_size 0",
            (int)height, (int)width, (int)model->trained[0], (int)model->trained[1]);
    if (height > MAX_TABLE_SIDE || width > MAX_TABLE_SIDE)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: variable_resolution is 1, but the position table has %d x %d patches, more than %d a side",
                         (int)height, (int)width, MAX_TABLE_SIDE);
    return RVIT_OK;
}

rvit_status rvit_variable_check(const rvit_model *model, const rvit_session_desc *desc)
{
    const int32_t side = model->info.merge, min = side > 0 ? side * side : model->info.n_prefix + 1;
    if (!desc->variable_resolution) {
        if (side > 0)
            return rvit_fail(
                RVIT_UNSUPPORTED,
                "session desc: variable_resolution is 0, but the model merges patches, which needs it: set variable_resolution to 1");
        if (desc->max_tokens != 0 || desc->max_len != 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is given, but variable_resolution is 0",
                             desc->max_tokens != 0 ? "max_tokens" : "max_len");
        return RVIT_OK;
    }
    if (desc->variable_resolution != 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: variable_resolution is %d, expected 0 or 1", (int)desc->variable_resolution);
    if (desc->fixed_batch || desc->dense_fallback)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "session desc: %s is 1, but with variable_resolution the number of rows of a batch is not known",
                         desc->fixed_batch ? "fixed_batch" : "dense_fallback");
    if (desc->max_len < min)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_len is %d, an image has %d tokens or more", (int)desc->max_len,
                         (int)min);
    if (desc->max_tokens < desc->max_len || desc->max_tokens >= INT32_MAX)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_tokens is %d, expected max_len (%d) or more, below %d",
                         (int)desc->max_tokens, (int)desc->max_len, INT32_MAX);
    return check_table(model);
}

rvit_status rvit_variable_check_groups(const rvit_model *model, const rvit_prune_schedule *schedule)
{
    const rvit_policy *policy = schedule->policy;
    const int32_t side = model->info.merge, is_l2 = policy->score == RVIT_SCORE_L2 && schedule->select == RVIT_SELECT_TOP_K;
    if (side == 0 || schedule->n_stages == 0)
        return RVIT_OK;
    if (!is_l2 && policy->info.type != RVIT_PRUNE_RECEIVED && policy->info.type != RVIT_PRUNE_RANDOM && !policy->by_pixels &&
        !policy->merges)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: prune: %s drops single patches, but the model merges groups of %d x %d of them: l2, received, "
                         "random and pixelprune drop whole groups, and tome merges them",
                         rvit_policy_name(policy), (int)side, (int)side);
    for (int32_t i = 0; i < schedule->n_stages && rvit_policy_reads(policy, RVIT_PROBS_RECEIVED); i++)
        if (rvit_model_has_windows(model, schedule->blocks[i]))
            return rvit_fail(RVIT_UNSUPPORTED,
                             "session desc: prune: %s would prune in block %d, whose attention is within windows, so the attention "
                             "that tokens receive cannot be compared: set a block with attention over the whole image, such as %d",
                             rvit_policy_name(policy), (int)schedule->blocks[i],
                             (int)(model->merge.full_blocks.n > 0 ? model->merge.full_blocks.blocks[model->merge.full_blocks.n - 1] : -1));
    return RVIT_OK;
}

rvit_status rvit_variable_check_policy(const rvit_prune_desc *desc, const rvit_prune_schedule *schedule)
{
    const char *name = rvit_policy_name(schedule->policy);
    if (schedule->n_stages > 0 && schedule->select == RVIT_SELECT_SAMPLE && desc->n_samples == 0)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: variable_resolution is 1, where %s has no default number of samples: set prune desc's n_samples",
                         name);
    if (schedule->object_block >= 0)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: variable_resolution is 1, but %s needs the same patch grid for all images", name);
    if (schedule->n_stages > 1 && schedule->policy->count == RVIT_POLICY_POWER)
        return rvit_fail(
            RVIT_UNSUPPORTED,
            "session desc: variable_resolution is 1, but %s counts the patches of the unpruned image in each of its %d stages, which is "
            "known only in the first stage: set one block",
            name, (int)schedule->n_stages);
    return RVIT_OK;
}
