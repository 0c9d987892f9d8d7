/* Pictures of a session's runs: what desc and runs say of them, and the region that they travel in. */
#include "core/session/pictures.h"

#include "core/base/status.h"
#include "core/contract/image_descriptor.h"
#include "core/device/device.h"
#include "core/image/images.h"

/* The memory of pictures on the device. */
static rvit_status check_pixels(const rvit_model *model, const rvit_session_desc *desc)
{
    const rvit_buffer *buffer = desc->pixels.buffer;
    if (buffer == NULL)
        return desc->pixels_size == 0 ? RVIT_OK
                                      : rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: pixels_size is %lld, but pixels is absent",
                                                  (long long)desc->pixels_size);
    if (buffer->device != model->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: pixels belongs to another device");
    const int64_t rest = buffer->size - desc->pixels.offset;
    if (desc->pixels.offset < 0 || desc->pixels.offset % 16 != 0 || desc->pixels_size < 1 || desc->pixels_size > rest)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "session desc: pixels is at offset %lld with pixels_size %lld, expected a multiple of 16 and a part of the "
                         "buffer's %lld bytes",
                         (long long)desc->pixels.offset, (long long)desc->pixels_size, (long long)buffer->size);
    return RVIT_OK;
}

rvit_status rvit_session_pictures_check_desc(const rvit_model *model, const rvit_session_desc *desc)
{
    if (desc->max_picture_bytes == 0 && (desc->recipe != NULL || desc->pixels.buffer != NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is given, but max_picture_bytes is 0",
                         desc->recipe != NULL ? "recipe" : "pixels");
    RVIT_TRY(check_pixels(model, desc));
    if (desc->max_picture_bytes == 0)
        return RVIT_OK;
    if (desc->images.buffer != NULL || desc->run_views)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_picture_bytes is given beside %s",
                         desc->run_views ? "run_views" : "images");
    const int64_t least = 4 * (RVIT_IMAGE_ENTRIES(desc->max_images) + (int64_t)desc->max_images * RVIT_IMAGE_ENTRY_WORDS);
    if (desc->max_picture_bytes < least || desc->max_picture_bytes > RVIT_IMAGE_MAX_STAGING)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_picture_bytes is %lld, expected %lld..%lld",
                         (long long)desc->max_picture_bytes, (long long)least, (long long)RVIT_IMAGE_MAX_STAGING);
    rvit_image_recipe recipe;
    return rvit_session_recipe(model, desc, &recipe);
}

rvit_status rvit_session_pictures_check(const rvit_session *s, const rvit_run_args *args)
{
    const int takes = s->plan->desc.max_picture_bytes > 0;
    if (!takes && args->pictures != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: pictures is given, but session desc's max_picture_bytes is 0");
    if (takes && (args->images != NULL || args->patches != NULL || args->grids != NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: %s is given, but with max_picture_bytes pictures takes its place",
                         args->images != NULL    ? "images"
                         : args->patches != NULL ? "patches"
                                                 : "grids");
    if (takes && args->n_images > 0 && args->pictures == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: pictures is NULL, but session desc's max_picture_bytes is above 0");
    return RVIT_OK;
}

rvit_status rvit_session_pictures_write(rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_plan *plan = s->plan;
    rvit_images_args images = RVIT_IMAGES_ARGS_INIT;
    images.recipe = &plan->recipe;
    images.images = args->pictures;
    images.n_images = args->n_images;
    images.max_images = plan->desc.max_images;
    images.max_rows = plan->segments[0].rows;
    images.patch_size = s->model->info.patch_size;
    /* The rows of prefix tokens are left out where each image has a grid of its own: the positions bring them. */
    images.n_prefix = plan->desc.native ? 0 : s->model->info.n_prefix;
    images.one_target = !plan->desc.native;
    images.pixels = plan->desc.pixels;
    images.pixels_size = plan->desc.pixels_size;
    return rvit_images_write_with(&images, rvit_session_host(s, plan->image_axes), rvit_session_host(s, plan->pictures),
                                  plan->pictures.size, &s->pictures_size);
}

rvit_status rvit_session_pictures_send(const rvit_session *s)
{
    rvit_op op = {.type = RVIT_OP_COPY, .copy = RVIT_COPY_ARGS_INIT};
    if (s->plan->desc.max_picture_bytes == 0 || !s->model->device->transfers)
        return RVIT_OK;
    op.copy.source = rvit_session_view(s, s->plan->pictures);
    op.copy.destination = rvit_session_view(s, s->plan->staged_pictures);
    op.copy.size = s->pictures_size;
    RVIT_TRY(rvit_op_check(s->model->device, &op));
    return s->model->device->api->stream_enqueue(s->stream, &op, 1);
}

uint8_t *rvit_session_picture_memory(rvit_session *session, int64_t *out_size)
{
    uint8_t *region = session == NULL ? NULL : rvit_session_host(session, session->plan->pictures);
    const int64_t first = region == NULL ? 0 : rvit_images_table_size(session->plan->desc.max_images);
    const int64_t size = region == NULL || session->plan->pictures.size < first ? 0 : session->plan->pictures.size - first;
    if (out_size != NULL)
        *out_size = size;
    return region == NULL ? NULL : region + first;
}
