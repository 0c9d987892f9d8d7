#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "core/base/os_program.h"
#include "option_table.h"

#define MAX_HEADER (1 << 20) /* a dump has only a few tensors */

static const char *const names[REFERENCE_OUTPUTS] = {"logits", "pooled", "features"};

const char *reference_name(int output)
{
    return names[output];
}

const char *reference_text(const struct reference *self, const char *name)
{
    const char *text = json_string_value(json_object_get(self->metadata, name));
    return text ? text : "";
}

/* Reads the metadata of the header, which rvit_tensors_open has checked. Returns NULL if the header is larger than a dump's or has no
   metadata. */
static json_t *read_metadata(const char *path)
{
    uint8_t bytes[8];
    uint64_t size = 0;
    json_t *metadata = NULL;
    int number;
    FILE *file = rvit_file_read_open(path, &number);
    if (!file)
        return NULL;
    if (fread(bytes, 1, sizeof bytes, file) == sizeof bytes)
        for (int i = 0; i < 8; i++)
            size |= (uint64_t)bytes[i] << 8 * i;
    char *header = size > 0 && size <= MAX_HEADER ? malloc(size) : NULL;
    if (header && fread(header, 1, size, file) == size) {
        json_error_t error;
        json_t *root = json_loadb(header, size, 0, &error);
        metadata = json_incref(json_object_get(root, "__metadata__"));
        json_decref(root);
    }
    free(header);
    (void)fclose(file);
    return metadata;
}

static int refuse_shape(const struct reference *self, const char *name, const int64_t *shape, int32_t rank, const char *expected)
{
    char text[128] = "";
    for (int32_t i = 0; i < rank; i++)
        append_text(text, sizeof text, i ? ", %lld" : "%lld", (long long)shape[i]);
    return fail_with(EXIT_FILE, self->path, "tensor '%s' is [%s], expected %s: the dump is of another model or another --image-size", name,
                     text, expected);
}

static int open_images(struct reference *self, const rvit_model_info *model)
{
    rvit_tensor_info found = RVIT_TENSOR_INFO_INIT;
    char expected[96];
    self->images = rvit_tensors_find(self->tensors, "images");
    if (self->images < 0 || rvit_tensors_get(self->tensors, self->images, &found) != RVIT_OK)
        return fail_with(EXIT_FILE, self->path, "has no tensor 'images': it is not a dump of tools/reference/dump_reference.py");
    const int64_t *shape = found.shape;
    if (strcmp(found.dtype, "F32") != 0)
        return fail_with(EXIT_FILE, self->path, "tensor 'images' is of type %s, expected F32", found.dtype);
    snprintf(expected, sizeof expected, "[images, %d, %d, %d]", model->channels, model->image_height, model->image_width);
    if (found.rank != 4 || shape[0] < 1 || shape[1] != model->channels || shape[2] != model->image_height || shape[3] != model->image_width)
        return refuse_shape(self, "images", shape, found.rank, expected);
    self->n_images = shape[0];
    self->image_length = shape[1] * shape[2] * shape[3];
    return EXIT_OK;
}

static int open_output(struct reference *self, int output, const rvit_model_info *model)
{
    struct reference_output *out = &self->outputs[output];
    rvit_tensor_info found = RVIT_TENSOR_INFO_INIT;
    char expected[96];
    out->index = rvit_tensors_find(self->tensors, names[output]);
    if (out->index < 0 || rvit_tensors_get(self->tensors, out->index, &found) != RVIT_OK)
        return EXIT_OK;
    const int64_t *shape = found.shape;
    if (strcmp(found.dtype, "F32") != 0)
        return fail_with(EXIT_FILE, self->path, "tensor '%s' is of type %s, expected F32", names[output], found.dtype);
    bool fits = found.rank == 2 && shape[0] == self->n_images;
    if (output == REFERENCE_LOGITS) {
        fits = fits && shape[1] == model->n_classes;
        snprintf(expected, sizeof expected, model->n_classes ? "[%lld, %d]" : "none, since the model has no head",
                 (long long)self->n_images, model->n_classes);
    } else if (output == REFERENCE_POOLED) {
        const int32_t width = model->pooling == RVIT_POOLING_CLS_MEAN ? 2 * model->dim : model->dim;
        fits = fits && shape[1] == width;
        snprintf(expected, sizeof expected, "[%lld, %d]", (long long)self->n_images, width);
    } else {
        fits = found.rank == 3 && shape[0] == self->n_images && shape[1] == model->tokens && shape[2] == model->dim;
        snprintf(expected, sizeof expected, "[%lld, %d, %d]", (long long)self->n_images, model->tokens, model->dim);
    }
    if (!fits)
        return refuse_shape(self, names[output], shape, found.rank, expected);
    out->length = found.rank == 2 ? shape[1] : shape[1] * shape[2];
    return EXIT_OK;
}

int reference_open(const char *path, const rvit_model_info *model, struct reference *out)
{
    *out = (struct reference){.path = path};
    const rvit_status status = rvit_tensors_open(path, NULL, &out->tensors);
    int code = status == RVIT_OK ? EXIT_OK : complain_status(path, status);
    if (code == EXIT_OK) {
        out->metadata = read_metadata(path);
        code = open_images(out, model);
    }
    bool any = false;
    for (int i = 0; i < REFERENCE_OUTPUTS && code == EXIT_OK; i++) {
        code = open_output(out, i, model);
        any |= out->outputs[i].index >= 0;
    }
    if (code == EXIT_OK && !any)
        code = fail_with(EXIT_FILE, path, "has none of the tensors 'logits', 'pooled' and 'features' to compare with");
    if (code != EXIT_OK)
        reference_close(out);
    return code;
}

void reference_close(struct reference *self)
{
    rvit_tensors_destroy(self->tensors);
    json_decref(self->metadata);
    *self = (struct reference){0};
}

static int read_values(const struct reference *self, int32_t index, const char *name, int64_t first, int64_t n, float *out)
{
    const rvit_status status = rvit_tensors_read(self->tensors, index, first, n, out);
    if (status != RVIT_OK)
        return complain_status(self->path, status);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(out[i]))
            return fail_with(EXIT_FILE, self->path, "tensor '%s': value %lld is not finite", name, (long long)(first + i));
    return EXIT_OK;
}

int reference_images(const struct reference *self, int64_t first, int64_t n, float *out)
{
    return read_values(self, self->images, "images", first * self->image_length, n * self->image_length, out);
}

int reference_values(const struct reference *self, int output, int64_t first, int64_t n, float *out)
{
    const struct reference_output *o = &self->outputs[output];
    return read_values(self, o->index, names[output], first * o->length, n * o->length, out);
}

double reference_tolerance(const struct reference *self, int output, rvit_precision precision)
{
    static const struct {
        const char *name;
        double min, unknown; /* unknown: if the dump has no error of PyTorch */
    } types[] = {[RVIT_PRECISION_F32] = {"f32", 1e-5, 1e-5},
                 [RVIT_PRECISION_F16] = {"f16", 1e-3, 1e-2},
                 [RVIT_PRECISION_BF16] = {"bf16", 8e-3, 8e-2},
                 [RVIT_PRECISION_INT8] = {"int8", 5e-2, 3e-1},
                 [RVIT_PRECISION_FP8] = {"fp8", 1.2e-1, 6e-1}};
    char name[64];
    snprintf(name, sizeof name, "error.%s.%s", names[output], types[precision].name);
    const double error = strtod(reference_text(self, name), NULL);
    if (!(error > 0 && error < 1))
        return types[precision].unknown;
    return fmax(2 * error, types[precision].min);
}

double reference_rms(const struct reference *self, int output, rvit_precision precision)
{
    char name[64];
    snprintf(name, sizeof name, "rms.%s.%s", names[output], rvit_enum_name(RVIT_ENUM_PRECISION, precision));
    return strtod(reference_text(self, name), NULL);
}

int reference_is_of_file(const struct reference *self, const char *checkpoint)
{
    const char *wanted = reference_text(self, "weights.crc32");
    int number;
    FILE *file = wanted[0] ? rvit_file_read_open(checkpoint, &number) : NULL;
    if (!file)
        return -1;
    static uint8_t bytes[1 << 16];
    char found[16];
    uLong crc = crc32(0, NULL, 0);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        crc = crc32(crc, bytes, (uInt)n);
    const bool failed = ferror(file) != 0;
    (void)fclose(file);
    snprintf(found, sizeof found, "%08lx", crc);
    return failed ? -1 : strcmp(found, wanted) == 0;
}
