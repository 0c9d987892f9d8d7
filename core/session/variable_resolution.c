/* Runs with variable resolution: checks and layouts of their grids. */
#include "core/session/variable_resolution.h"

#include <stddef.h>
#include <string.h>

#include "core/base/status.h"
#include "core/contract/image_descriptor.h"

enum { MAX_SIDE = INT16_MAX }; /* the limit of the ops on grids */

/* Rows and columns of patches of an image: from the run args, or of its resized pixels, from its descriptor in the staging buffer. */
static const int32_t *grid_of(const rvit_session *s, const rvit_run_args *args, int32_t image)
{
    if (args->input.kind == RVIT_INPUT_PATCHES)
        return &args->input.grids[2 * image];
    const int32_t *staging = rvit_session_host(s, s->plan->staged_images);
    const int32_t *entry = staging + RVIT_IMAGE_ENTRIES(s->plan->desc.max_images) + (int64_t)image * RVIT_IMAGE_ENTRY_WORDS;
    return &((const rvit_image_entry *)(const void *)entry)->grid_height;
}

_Static_assert(offsetof(rvit_image_entry, grid_width) == offsetof(rvit_image_entry, grid_height) + sizeof(int32_t), "a grid");

rvit_status rvit_variable_lay_out(const rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_desc *desc = &s->plan->desc;
    int32_t *cu = rvit_session_host(s, s->plan->run_cu_seqlens);
    int64_t tokens = 0;
    for (int32_t i = 0; i < args->n_images; i++) {
        const int32_t *grid = grid_of(s, args, i), height = grid[0], width = grid[1];
        if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: grids: image %d has %d x %d patches, expected 1 to %d a side", (int)i,
                             (int)height, (int)width, MAX_SIDE);
        const int32_t side = s->model->info.merge;
        if (side > 0 && (height % side != 0 || width % side != 0))
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "run args: image %d has %d x %d patches, expected multiples of %d a side: the model merges groups of %d x %d",
                             (int)i, (int)height, (int)width, (int)side, (int)side, (int)side);
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

int32_t rvit_variable_patches(const rvit_session *s, int32_t n_images)
{
    const int32_t *cu = rvit_session_host(s, s->plan->run_cu_seqlens);
    return cu[n_images] - n_images * s->model->info.n_prefix;
}

int32_t rvit_variable_raster_index(const rvit_session *s, int32_t image, int32_t patch)
{
    const int32_t side = s->model->info.merge;
    if (side == 0)
        return patch;
    const int32_t *grids = rvit_session_host(s, s->plan->grids);
    const int32_t width = grids[2 * image + 1], group = patch / (side * side), inner = patch % (side * side), across = width / side;
    return (group / across * side + inner / side) * width + group % across * side + inner % side;
}

void rvit_variable_write_input(rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_plan *plan = s->plan;
    const int32_t patches = rvit_variable_patches(s, args->n_images);
    int32_t *live_patches = rvit_session_host(s, plan->live_patches);
    *live_patches = patches;
    int32_t *grids = rvit_session_host(s, plan->grids);
    for (int32_t i = 0; i < args->n_images; i++)
        memcpy(&grids[2 * i], grid_of(s, args, i), 2 * sizeof *grids);
    if (args->input.kind == RVIT_INPUT_PATCHES && args->input.data != NULL)
        memcpy(rvit_session_host(s, plan->input), args->input.data,
               (size_t)patches * (size_t)rvit_model_row_values(s->model) * sizeof(float));
    memcpy(rvit_session_host(s, plan->host_cu_seqlens), rvit_session_host(s, plan->run_cu_seqlens), (size_t)plan->run_cu_seqlens.size);
}
