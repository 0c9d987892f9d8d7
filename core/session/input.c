/* The input of a session's runs: checks of desc and run args, and the staging buffer of images. */
#include "core/session/input.h"

#include "core/base/status.h"
#include "core/contract/image_descriptor.h"
#include "core/device/device.h"
#include "core/image/images.h"

static const char *const kinds[] = {[RVIT_INPUT_TENSOR] = "TENSOR", [RVIT_INPUT_PATCHES] = "PATCHES", [RVIT_INPUT_IMAGES] = "IMAGES"};
static const char *const memories[] = {[RVIT_INPUT_HOST] = "HOST", [RVIT_INPUT_FIXED] = "FIXED", [RVIT_INPUT_RUN] = "RUN"};

/* Checks the device memory that may hold images. */
static rvit_status check_pixels(const rvit_model *model, const rvit_session_desc *desc)
{
    const rvit_buffer *buffer = desc->input_view.buffer;
    if (buffer == NULL)
        return RVIT_OK;
    if (buffer->device != model->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input_view belongs to another device");
    if (desc->input_view.offset < 0 || desc->input_view.offset % 16 != 0 || desc->input_view.offset >= buffer->size)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "session desc: input_view is at offset %lld, expected a multiple of 16 before the end of the buffer's %lld bytes",
                         (long long)desc->input_view.offset, (long long)buffer->size);
    return RVIT_OK;
}

static rvit_status check_images(const rvit_model *model, const rvit_session_desc *desc)
{
    if (desc->input_memory != RVIT_INPUT_HOST)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input_memory is %s, but input is IMAGES: expected HOST",
                         memories[desc->input_memory]);
    RVIT_TRY(check_pixels(model, desc));
    const int64_t min = 4 * (RVIT_IMAGE_ENTRIES(desc->max_images) + (int64_t)desc->max_images * RVIT_IMAGE_ENTRY_WORDS);
    if (desc->input_bytes < min || desc->input_bytes > RVIT_IMAGE_MAX_STAGING)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input_bytes is %lld, expected %lld..%lld", (long long)desc->input_bytes,
                         (long long)min, (long long)RVIT_IMAGE_MAX_STAGING);
    rvit_image_recipe recipe;
    return rvit_session_recipe(model, desc, &recipe);
}

static rvit_status check_view(const rvit_session_desc *desc)
{
    const int is_fixed = desc->input_memory == RVIT_INPUT_FIXED, is_given = desc->input_view.buffer != NULL;
    if (is_fixed != is_given)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input_view is %s, but input_memory is %s", is_given ? "given" : "absent",
                         memories[desc->input_memory]);
    if (desc->input_memory == RVIT_INPUT_RUN && desc->logits.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: logits is given, but with input_memory RUN each run has its own");
    if (desc->input_bytes != 0 || desc->recipe != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is given, but input is %s",
                         desc->input_bytes != 0 ? "input_bytes" : "recipe", kinds[desc->input]);
    return RVIT_OK;
}

rvit_status rvit_session_input_check_desc(const rvit_model *model, const rvit_session_desc *desc)
{
    if ((uint32_t)desc->input > RVIT_INPUT_IMAGES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input: %d is not a valid input kind", (int)desc->input);
    if ((uint32_t)desc->input_memory > RVIT_INPUT_RUN)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input_memory: %d is not a valid input memory", (int)desc->input_memory);
    if (desc->variable_resolution && desc->input == RVIT_INPUT_TENSOR)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input is TENSOR, but variable_resolution is 1: expected PATCHES or IMAGES");
    if (!desc->variable_resolution && desc->input == RVIT_INPUT_PATCHES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: input is PATCHES, but variable_resolution is 0: expected TENSOR or IMAGES");
    return desc->input == RVIT_INPUT_IMAGES ? check_images(model, desc) : check_view(desc);
}

/* Runs have views only with RVIT_INPUT_RUN. */
static rvit_status check_run_views(const rvit_session *s, const rvit_run_args *args)
{
    const int has_views = s->plan->desc.input_memory == RVIT_INPUT_RUN, has_head = s->model->info.n_classes > 0;
    const int has_view = args->input.view.buffer != NULL, has_logits = args->logits.buffer != NULL;
    if (!has_views && (has_view || has_logits))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: %s is given, but the session's input_memory is %s",
                         has_view ? "input.view" : "logits", memories[s->plan->desc.input_memory]);
    if (has_views && args->n_images > 0 && !has_view)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: input.view is absent, but the session's input_memory is RUN");
    if (has_views && args->n_images > 0 && has_logits != has_head)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: logits is %s, but the model has %s", has_logits ? "given" : "absent",
                         has_head ? "a head" : "no head");
    return RVIT_OK;
}

rvit_status rvit_session_input_check(const rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_desc *desc = &s->plan->desc;
    const rvit_input *input = &args->input;
    if (input->kind != desc->input)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: input.kind is %s, the session's input is %s",
                         (uint32_t)input->kind > RVIT_INPUT_IMAGES ? "unknown" : kinds[input->kind], kinds[desc->input]);
    if (input->data != NULL && desc->input_memory != RVIT_INPUT_HOST)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: input.data is given, but the session's input_memory is %s",
                         memories[desc->input_memory]);
    if (input->data == NULL && desc->input == RVIT_INPUT_IMAGES && args->n_images > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: input.data is NULL, but the session's input is IMAGES");
    if (input->grids != NULL && desc->input != RVIT_INPUT_PATCHES)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: input.grids is given, but the session's input is %s", kinds[desc->input]);
    if (input->grids == NULL && desc->input == RVIT_INPUT_PATCHES && args->n_images > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: input.grids is NULL, but the session's input is PATCHES");
    return check_run_views(s, args);
}

rvit_status rvit_session_input_write_images(rvit_session *s, const rvit_run_args *args)
{
    const rvit_session_plan *plan = s->plan;
    rvit_images_args images = RVIT_IMAGES_ARGS_INIT;
    images.recipe = &plan->recipe;
    images.images = args->input.data;
    images.n_images = args->n_images;
    images.max_images = plan->desc.max_images;
    images.max_rows = plan->segments[0].rows;
    images.patch_size = s->model->info.patch_size;
    /* With variable resolution, embed_variable inserts the prefix rows. */
    images.n_prefix = plan->desc.variable_resolution ? 0 : s->model->info.n_prefix;
    images.one_target = !plan->desc.variable_resolution;
    images.pixels = plan->desc.input_view;
    images.pixels_size = rvit_session_pixels_size(&plan->desc);
    return rvit_images_write_with(&images, rvit_session_host(s, plan->image_axes), rvit_session_host(s, plan->staged_images),
                                  plan->staged_images.size, &s->images_size);
}

rvit_status rvit_session_input_send(const rvit_session *s)
{
    rvit_op op = {.type = RVIT_OP_COPY, .copy = RVIT_COPY_ARGS_INIT};
    if (s->plan->desc.input != RVIT_INPUT_IMAGES || !s->model->device->transfers)
        return RVIT_OK;
    op.copy.source = rvit_session_view(s, s->plan->staged_images);
    op.copy.destination = rvit_session_view(s, s->plan->device_images);
    op.copy.size = s->images_size;
    RVIT_TRY(rvit_op_check(s->model->device, &op));
    return s->model->device->api->stream_enqueue(s->stream, &op, 1);
}

void *rvit_session_input_memory(rvit_session *session, int64_t *out_size)
{
    uint8_t *memory = NULL;
    int64_t size = 0, first = 0;
    if (session != NULL) {
        const rvit_session_plan *plan = session->plan;
        const int is_images = plan->desc.input == RVIT_INPUT_IMAGES;
        memory = rvit_session_host(session, is_images ? plan->staged_images : plan->input);
        size = is_images ? plan->staged_images.size : plan->input.size;
        first = is_images ? rvit_images_table_size(plan->desc.max_images) : 0;
    }
    if (out_size != NULL)
        *out_size = size < first ? 0 : size - first;
    return memory == NULL ? NULL : memory + first;
}
