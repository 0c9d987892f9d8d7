#include "request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "image_file.h"
#include "option_table.h"

enum { KEPT_MEMORY = 16 << 20 };

/* Parameters */

static TRITONSERVER_Error *no_such_setting(const struct model *model)
{
    return invalid("the request's parameters policy and keep match no setting of this model: %s", model->settings.text);
}

static bool read_keep(TRITONSERVER_ParameterType type, const void *value, double *out)
{
    char *end;
    switch (type) {
    case TRITONSERVER_PARAMETER_STRING:
        *out = strtod(value, &end);
        return end != (const char *)value && !*end && *out >= 0;
    case TRITONSERVER_PARAMETER_INT:
        *out = (double)*(const int64_t *)value;
        return *out >= 0;
    case TRITONSERVER_PARAMETER_DOUBLE:
        *out = *(const double *)value;
        return *out >= 0;
    default:
        return false;
    }
}

static TRITONSERVER_Error *find_setting(struct request *self, const struct model *model)
{
    struct setting_choice choice = {NULL, -1};
    uint32_t n = 0;
    self->setting = 0;
    TRY(TRITONBACKEND_RequestParameterCount(self->handle, &n));
    for (uint32_t i = 0; i < n; i++) {
        const char *name = "";
        const void *value = NULL;
        TRITONSERVER_ParameterType type = TRITONSERVER_PARAMETER_STRING;
        TRY(TRITONBACKEND_RequestParameter(self->handle, i, &name, &type, &value));
        if (strcmp(name, "policy") == 0 && type == TRITONSERVER_PARAMETER_STRING)
            choice.policy = value;
        else if (strcmp(name, "policy") == 0 || (strcmp(name, "keep") == 0 && !read_keep(type, value, &choice.keep)))
            return no_such_setting(model);
        else if (strcmp(name, "keep") != 0 && strncmp(name, "triton_", 7) != 0)
            return invalid("the request has the parameter '%.100s', expected only policy and keep, which choose one of: %s", name,
                           model->settings.text);
    }
    if (n > 0)
        self->setting = settings_find(&model->settings, &choice);
    return self->setting >= 0 ? NULL : no_such_setting(model);
}

static TRITONSERVER_Error *find_outputs(struct request *self, const struct model *model)
{
    uint32_t n = 0;
    TRY(TRITONBACKEND_RequestOutputCount(self->handle, &n));
    self->outputs = n == 0 ? model->tensors.outputs : 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = "";
        TRY(TRITONBACKEND_RequestOutputName(self->handle, i, &name));
        const int kind = tensors_find_output(name);
        if (kind < 0 || !(model->tensors.outputs & 1U << kind))
            return invalid("this model does not declare the output '%.100s'", name);
        self->outputs |= 1U << kind;
    }
    return NULL;
}

/* Shapes */

static TRITONSERVER_Error *bad_shape(const struct input *input, const char *expected)
{
    char text[256] = "";
    for (uint32_t i = 0; i < input->n_dims && i < 8; i++)
        append_text(text, sizeof text, "%s%" PRId64, i > 0 ? ", " : "", input->shape[i]);
    return invalid("%s has the shape [%s], expected %s", tensors_inputs[input->kind].name, text, expected);
}

/* Checks that the shape matches the size. element: bytes per element. */
static TRITONSERVER_Error *check_size(const struct input *input, int64_t element)
{
    int64_t size = element;
    for (uint32_t i = 0; i < input->n_dims; i++)
        if (__builtin_mul_overflow(size, input->shape[i], &size))
            return bad_shape(input, "fewer elements");
    if ((uint64_t)size != input->size)
        return invalid("%s has %" PRIu64 " bytes, but its shape takes %" PRId64, tensors_inputs[input->kind].name, input->size, size);
    return NULL;
}

static bool is_side(int64_t pixels)
{
    return pixels >= 1 && pixels <= RVIT_IMAGE_MAX_SIDE;
}

static TRITONSERVER_Error *check_shape(const struct input *input, const struct model *model)
{
    const int64_t *shape = input->shape, *dims = model->tensors.input_dims[INPUT_PIXELS];
    char expected[128];
    if (input->n_dims == 0 || shape[0] < 1)
        return bad_shape(input, "one or more images in the first dimension");
    if (shape[0] > model->config.max_batch_size)
        return invalid("%s has %" PRId64 " images, more than the %d of max_batch_size", tensors_inputs[input->kind].name, shape[0],
                       model->config.max_batch_size);
    if (input->kind == INPUT_ENCODED)
        return input->n_dims == 2 && shape[1] == 1 ? NULL : bad_shape(input, "[n, 1]");
    if (input->kind == INPUT_IMAGE) {
        if (input->n_dims != 4 || shape[3] != 3 || !is_side(shape[1]) || !is_side(shape[2]))
            return bad_shape(input, "[n, h, w, 3] with h and w of 1 to 65535");
        return check_size(input, 1);
    }
    if (input->n_dims != 4 || shape[1] != 3 || !is_side(shape[2]) || !is_side(shape[3]) || (dims[1] > 0 && shape[2] != dims[1]) ||
        (dims[2] > 0 && shape[3] != dims[2])) {
        if (dims[1] > 0)
            snprintf(expected, sizeof expected, "[n, 3, %" PRId64 ", %" PRId64 "]", dims[1], dims[2]);
        else
            snprintf(expected, sizeof expected, "[n, 3, h, w] with multiples of the patch size %d", model->info.patch_size);
        return bad_shape(input, expected);
    }
    return check_size(input, 4);
}

/* Images */

static TRITONSERVER_Error *bad_image(const struct request *self, int32_t index, const char *text)
{
    return invalid("%s: image %d: %s", tensors_inputs[self->input.kind].name, index, text);
}

/* Gets the whole input as contiguous bytes. */
static TRITONSERVER_Error *gather(struct request *self, const uint8_t **out)
{
    *out = self->input.whole;
    if (*out)
        return NULL;
    if (self->gathered_size < self->input.size) {
        free(self->gathered);
        self->gathered_size = 0;
        self->gathered = malloc(self->input.size);
        if (!self->gathered)
            return failure_out_of_memory();
        self->gathered_size = self->input.size;
    }
    *out = self->gathered;
    return input_read(&self->input, self->gathered, self->input.size);
}

static bool reserve(struct batch_images *images, int64_t n)
{
    if (images->capacity - images->n >= n)
        return true;
    const int64_t capacity = 2 * (int64_t)images->capacity + n;
    struct batch_image *list = realloc(images->list, (size_t)capacity * sizeof *list);
    if (!list)
        return false;
    images->list = list;
    images->capacity = (int32_t)capacity;
    return true;
}

/* Reads element `index` of a BYTES tensor at *at. */
static TRITONSERVER_Error *next_file(const struct request *self, const uint8_t *bytes, uint64_t *at, int32_t index, struct batch_image *out)
{
    const uint64_t left = self->input.size - *at;
    uint64_t size = 0;
    for (int i = 0; left >= 4 && i < 4; i++)
        size |= (uint64_t)bytes[*at + (uint64_t)i] << 8 * i;
    if (left < 4 || size > left - 4)
        return bad_image(self, index, "the input ends within it");
    if (size == 0)
        return bad_image(self, index, "the file is empty");
    out->source = bytes + *at + 4;
    out->source_size = size;
    *at += 4 + size;
    if (!image_decode_size(out->source, out->source_size, &out->width, &out->height, &out->error))
        return bad_image(self, index, out->error.text);
    return NULL;
}

static TRITONSERVER_Error *find_files(struct request *self, struct batch_image *images)
{
    const uint8_t *bytes = NULL;
    uint64_t at = 0;
    TRY(gather(self, &bytes));
    for (int32_t i = 0; i < self->n; i++) {
        TRY(next_file(self, bytes, &at, i, &images[i]));
        if (!is_side(images[i].width) || !is_side(images[i].height))
            return bad_image(self, i, "it has more than 65535 pixels along a side");
    }
    if (at == self->input.size)
        return NULL;
    return invalid("ENCODED: %" PRIu64 " bytes follow the last of %d images", self->input.size - at, self->n);
}

static TRITONSERVER_Error *measure(struct request *self, struct batch_image *images, int64_t share)
{
    self->tokens = self->bytes = 0;
    for (int32_t i = 0; i < self->n; i++) {
        if (i > 0 && self->input.kind != INPUT_ENCODED)
            images[i] = images[0];
        else if (!batch_image_measure(&images[i], self->input.kind == INPUT_PIXELS, share))
            return bad_image(self, i, images[i].error.text);
        self->tokens += images[i].target.tokens;
        self->bytes += images[i].size + images[i].weights + IMAGE_ALIGNMENT;
    }
    return NULL;
}

/* The images of a request share the memory of a run. If planes exceed their share, all images become planes, which always fit. */
static TRITONSERVER_Error *measure_images(struct request *self, const struct model *model, struct batch_image *images)
{
    const int64_t memory = model->plan.memory;
    TRY(measure(self, images, memory / self->n - IMAGE_ALIGNMENT));
    if (self->bytes > memory)
        TRY(measure(self, images, 0));
    if (self->tokens > model->plan.max_tokens || self->n > model->plan.max_images)
        return invalid("the request's %d images have %" PRId64 " tokens, more than the %d of max_tokens", self->n, self->tokens,
                       model->config.max_tokens > 0 ? model->config.max_tokens : model->plan.max_tokens);
    if (self->bytes > memory)
        return invalid("the request's images take %" PRId64 " bytes, more than the %" PRId64 " of max_image_bytes", self->bytes, memory);
    return NULL;
}

static TRITONSERVER_Error *open_images(struct request *self, const struct model *model, struct batch_images *images)
{
    self->n = (int32_t)self->input.shape[0];
    if (!reserve(images, self->n))
        return failure_out_of_memory();
    struct batch_image *list = &images->list[images->n];
    for (int32_t i = 0; i < self->n; i++)
        list[i] = (struct batch_image){.plan = &model->plan};
    if (self->input.kind == INPUT_ENCODED) {
        TRY(find_files(self, list));
        return measure_images(self, model, list);
    }
    list[0].height = (int32_t)self->input.shape[self->input.kind == INPUT_PIXELS ? 2 : 1];
    list[0].width = (int32_t)self->input.shape[self->input.kind == INPUT_PIXELS ? 3 : 2];
    TRY(measure_images(self, model, list));
    if (!list[0].is_prepared)
        return NULL;
    const uint8_t *bytes = NULL;
    TRY(gather(self, &bytes));
    for (int32_t i = 0; i < self->n; i++)
        list[i].source = bytes + (int64_t)i * 3 * list[i].width * list[i].height;
    return NULL;
}

static TRITONSERVER_Error *open_request(struct request *self, const struct model *model, struct batch_images *images)
{
    bool is_cancelled = false;
    TRY(TRITONBACKEND_RequestIsCancelled(self->handle, &is_cancelled));
    if (is_cancelled)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "the request was cancelled");
    TRY(input_open(self->handle, model->tensors.inputs, &self->input));
    TRY(check_shape(&self->input, model));
    TRY(find_setting(self, model));
    TRY(find_outputs(self, model));
    return open_images(self, model, images);
}

void request_open(struct request *self, TRITONBACKEND_Request *handle, const struct model *model, struct batch_images *images)
{
    *self = (struct request){.handle = handle, .first = images->n, .gathered = self->gathered, .gathered_size = self->gathered_size};
    self->error = open_request(self, model, images);
    if (!self->error)
        images->n += self->n;
}

/* The tokens of an image of this size, or the maximum if the size is invalid. */
static int64_t tokens_of_size(const struct model *model, int64_t width, int64_t height)
{
    struct image_target target;
    struct image_error error;
    return image_target_of(&model->plan, (int32_t)width, (int32_t)height, &target, &error) ? target.tokens : model->max_len;
}

static int64_t tokens_of_files(const struct request *self, const struct model *model)
{
    struct batch_image image = {0};
    uint64_t at = 0;
    int64_t tokens = 0;
    for (int64_t i = 0; i < self->input.shape[0]; i++) {
        TRITONSERVER_Error *error = next_file(self, self->input.whole, &at, 0, &image);
        if (error) {
            TRITONSERVER_ErrorDelete(error);
            return 0;
        }
        tokens += tokens_of_size(model, image.width, image.height);
    }
    return tokens;
}

bool request_size(TRITONBACKEND_Request *handle, const struct model *model, int64_t *out_images, int64_t *out_tokens)
{
    struct request self = {.handle = handle};
    TRITONSERVER_Error *error = input_open(handle, model->tensors.inputs, &self.input);
    if (!error)
        error = check_shape(&self.input, model);
    if (error) {
        TRITONSERVER_ErrorDelete(error);
        return false;
    }
    const int64_t *shape = self.input.shape, patch = model->info.patch_size;
    *out_images = shape[0];
    *out_tokens = shape[0] * model->max_len;
    if (!model->plan.variable_resolution)
        return true;
    if (self.input.kind == INPUT_IMAGE)
        *out_tokens = shape[0] * tokens_of_size(model, shape[2], shape[1]);
    else if (self.input.kind == INPUT_PIXELS)
        *out_tokens = shape[0] * (model->info.n_prefix + shape[2] / patch * (shape[3] / patch));
    else if (self.input.whole) /* else assume the maximum */
        *out_tokens = tokens_of_files(&self, model);
    return true;
}

/* Copies */

static TRITONSERVER_Error *copy(struct request *self, struct batch_image *images)
{
    bool is_finite = true;
    TRY(input_rewind(&self->input));
    for (int32_t i = 0; i < self->n; i++) {
        void *place = (void *)(uintptr_t)images[i].image.data;
        if (self->input.kind == INPUT_IMAGE)
            TRY(input_read(&self->input, place, (uint64_t)images[i].size));
        else
            TRY(input_read_floats(&self->input, place, (uint64_t)images[i].size / 4, &is_finite));
        if (!is_finite)
            return bad_image(self, i, "a value is NaN or infinite");
    }
    return NULL;
}

void request_copy(struct request *self, struct batch_image *images)
{
    if (!images[0].source)
        self->error = copy(self, images);
}

void request_trim(struct request *self)
{
    if (self->gathered_size > KEPT_MEMORY)
        request_free(self);
}

void request_free(struct request *self)
{
    free(self->gathered);
    self->gathered = NULL;
    self->gathered_size = 0;
}
