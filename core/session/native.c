#include "core/session/native.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/base/entry.h"
#include "core/contract/image_table.h"
#include "core/base/status.h"

/* What the ops on grids take. */
enum { MAX_TABLE_SIDE = 512, MAX_SIDE = INT16_MAX };

void rvit_native_complete(const rvit_model *model, rvit_session_desc *desc)
{
    if (desc->max_len == 0)
        desc->max_len = model->info.tokens;
    if (desc->max_tokens == 0 && (int64_t)desc->max_images * desc->max_len < INT32_MAX)
        desc->max_tokens = desc->max_images * desc->max_len;
}

/* The position table must be that of the file: it is resampled for each image, and once only. */
static rvit_status check_table(const rvit_model *model)
{
    const rvit_model_info *info = &model->info;
    const int32_t height = info->image_height / info->patch_size, width = info->image_width / info->patch_size;
    if (!rvit_model_has_table(model))
        return RVIT_OK;
    if (height != model->trained[0] || width != model->trained[1])
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: native is 1, but the checkpoint was opened with another image size than that of its position table "
                         "(%d x %d patches, not %d x %d): leave checkpoint desc's image_size 0",
                         (int)height, (int)width, (int)model->trained[0], (int)model->trained[1]);
    if (height > MAX_TABLE_SIDE || width > MAX_TABLE_SIDE)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: native is 1, but the position table has %d x %d patches, more than %d a side",
                         (int)height, (int)width, MAX_TABLE_SIDE);
    return RVIT_OK;
}

rvit_status rvit_native_check(const rvit_model *model, const rvit_session_desc *desc)
{
    const int32_t side = model->info.merge, least = side > 0 ? side * side : model->info.n_prefix + 1;
    if (!desc->native) {
        if (side > 0)
            return rvit_fail(RVIT_UNSUPPORTED,
                             "session desc: native is 0, but the model merges squares of patches of images of any grid: it runs with "
                             "native 1 alone");
        if (desc->max_tokens != 0 || desc->max_len != 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is given, but native is 0",
                             desc->max_tokens != 0 ? "max_tokens" : "max_len");
        return RVIT_OK;
    }
    if (desc->native != 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: native is %d, expected 0 or 1", (int)desc->native);
    if (desc->fixed_batch || desc->dense_fallback)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is 1, but with native a batch has no rows that are known beforehand",
                         desc->fixed_batch ? "fixed_batch" : "dense_fallback");
    if (desc->max_len < least)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_len is %d, an image has %d tokens or more", (int)desc->max_len,
                         (int)least);
    if (desc->max_tokens < desc->max_len || desc->max_tokens >= INT32_MAX)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_tokens is %d, expected max_len (%d) or more, below %d",
                         (int)desc->max_tokens, (int)desc->max_len, INT32_MAX);
    return check_table(model);
}

rvit_status rvit_native_check_units(const rvit_model *model, const rvit_prune_schedule *schedule)
{
    const rvit_policy *policy = schedule->policy;
    const int32_t side = model->info.merge, is_l2 = policy->score == RVIT_SCORE_L2 && schedule->select == RVIT_SELECT_TOP_K;
    if (side == 0 || schedule->n_stages == 0)
        return RVIT_OK;
    if (!is_l2 && policy->info.type != RVIT_PRUNE_RECEIVED && policy->info.type != RVIT_PRUNE_RANDOM && !policy->by_pixels &&
        !policy->merges)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: prune: %s drops single patches, but the model merges squares of %d x %d of them: l2, received, "
                         "random and pixelprune drop whole squares, and tome merges them",
                         policy->info.name, (int)side, (int)side);
    for (int32_t i = 0; i < schedule->n_stages && rvit_policy_reads(policy, RVIT_PROBS_RECEIVED); i++)
        if (rvit_model_has_windows(model, schedule->blocks[i]))
            return rvit_fail(RVIT_UNSUPPORTED,
                             "session desc: prune: %s would prune in block %d, whose attention is within windows, so that what tokens "
                             "receive cannot be compared: give a block with attention over the whole image, such as %d",
                             policy->info.name, (int)schedule->blocks[i],
                             (int)(model->merge.full_blocks.n > 0 ? model->merge.full_blocks.blocks[model->merge.full_blocks.n - 1] : -1));
    return RVIT_OK;
}

rvit_status rvit_native_check_policy(const rvit_prune_desc *desc, const rvit_prune_schedule *schedule)
{
    const char *name = schedule->policy->info.name;
    if (schedule->n_stages > 0 && schedule->select == RVIT_SELECT_SAMPLE && desc->n_samples == 0)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: native is 1, where %s has no number of samples of its own: give prune desc's n_samples", name);
    if (schedule->object_block >= 0)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: native is 1, but %s needs the neighbours of a patch, in a grid that is the same for all images",
                         name);
    if (schedule->n_stages > 1 && schedule->policy->count == RVIT_POLICY_POWER)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "session desc: native is 1, but %s counts the patches of the unpruned image in each of its %d stages, of which "
                         "lengths tell only the first: give one block",
                         name, (int)schedule->n_stages);
    return RVIT_OK;
}

/* Lines and columns of patches of an image: given, or of the size that a picture is resized to, as rvit_images_write has left it. */
static const int32_t *grid_of(const rvit_session *s, const rvit_run_args *args, int32_t image)
{
    if (args->pictures == NULL)
        return &args->grids[2 * image];
    const int32_t *region = rvit_session_host(s, s->plan->pictures);
    const int32_t *entry = region + RVIT_IMAGE_ENTRIES(s->plan->desc.max_images) + (int64_t)image * RVIT_IMAGE_ENTRY_WORDS;
    return &((const rvit_image_entry *)(const void *)entry)->grid_height;
}

_Static_assert(offsetof(rvit_image_entry, grid_width) == offsetof(rvit_image_entry, grid_height) + sizeof(int32_t), "a grid");

rvit_status rvit_native_lay_out(const rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_desc *desc = &s->plan->desc;
    int32_t *cu = rvit_session_host(s, s->plan->run_cu_seqlens);
    int64_t tokens = 0;
    if (args->n_images > 0 && args->grids == NULL && args->pictures == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: grids is NULL, but session desc's native is 1");
    for (int32_t i = 0; i < args->n_images; i++) {
        const int32_t *grid = grid_of(s, args, i), height = grid[0], width = grid[1];
        if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: grids: image %d has %d x %d patches, expected 1 to %d a side", (int)i,
                             (int)height, (int)width, MAX_SIDE);
        const int32_t side = s->model->info.merge;
        if (side > 0 && (height % side != 0 || width % side != 0))
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "run args: image %d has %d x %d patches, expected multiples of %d a side: the model merges squares of them",
                             (int)i, (int)height, (int)width, (int)side);
        const int64_t len = s->model->info.n_prefix + (int64_t)height * width;
        if (len > desc->max_len)
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "run args: image %d has %d x %d patches and so %lld tokens, the session's max_len is %d", (int)i, (int)height,
                             (int)width, (long long)len, (int)desc->max_len);
        cu[i] = (int32_t)tokens;
        tokens += len;
        if (tokens > desc->max_tokens)
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "run args: with image %d, of %d x %d patches, the batch has %lld tokens, the session's max_tokens is %d",
                             (int)i, (int)height, (int)width, (long long)tokens, (int)desc->max_tokens);
    }
    for (int32_t i = args->n_images; i <= desc->max_images; i++)
        cu[i] = (int32_t)tokens;
    return RVIT_OK;
}

int32_t rvit_native_patches(const rvit_session *s, int32_t n_images)
{
    const int32_t *cu = rvit_session_host(s, s->plan->run_cu_seqlens);
    return cu[n_images] - n_images * s->model->info.n_prefix;
}

int32_t rvit_native_place(const rvit_session *s, int32_t image, int32_t patch)
{
    const int32_t side = s->model->info.merge;
    if (side == 0)
        return patch;
    const int32_t *grids = rvit_session_host(s, s->plan->grids);
    const int32_t width = grids[2 * image + 1], unit = patch / (side * side), inner = patch % (side * side), across = width / side;
    return (unit / across * side + inner / side) * width + unit % across * side + inner % side;
}

void rvit_native_hand_over(rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_plan *plan = s->plan;
    const int32_t patches = rvit_native_patches(s, args->n_images);
    int32_t *live_patches = rvit_session_host(s, plan->live_patches);
    *live_patches = patches;
    int32_t *grids = rvit_session_host(s, plan->grids);
    for (int32_t i = 0; i < args->n_images; i++)
        memcpy(&grids[2 * i], grid_of(s, args, i), 2 * sizeof *grids);
    if (args->patches != NULL)
        memcpy(rvit_session_host(s, plan->images), args->patches,
               (size_t)patches * (size_t)rvit_model_row_values(s->model) * sizeof *args->patches);
    memcpy(rvit_session_host(s, plan->host_cu_seqlens), rvit_session_host(s, plan->run_cu_seqlens), (size_t)plan->run_cu_seqlens.size);
}
