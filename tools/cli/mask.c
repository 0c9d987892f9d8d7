#include "mask.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "npy.h"

static const char kind[] = "a NumPy array (.npy) or JSON";

static int create(const char *path, struct mask *out)
{
    const int64_t n_images = out->n_images ? out->n_images : 1;
    if (n_images > ((int64_t)1 << 32) / out->n_patches / (out->n_stages ? out->n_stages : 1))
        return fail_with(EXIT_FILE, path, "holds more than 4 GiB of masks");
    out->keep = allocate((size_t)out->n_stages * (size_t)n_images * (size_t)out->n_patches, 1);
    return out->keep ? EXIT_OK : EXIT_FAULT;
}

static int read_npy(const char *path, const char *data, size_t size, struct mask *out)
{
    struct npy array;
    const char *error;
    if (!npy_parse(data, size, &array, &error))
        return fail_with(EXIT_FILE, path, "%s", error);
    if (strcmp(array.type, "|u1") != 0 && strcmp(array.type, "|b1") != 0)
        return fail_with(EXIT_FILE, path, "holds elements of type '%s', expected uint8 ('|u1') or bool ('|b1')", array.type);
    if (array.fortran_order && array.n_dims > 1)
        return fail_with(EXIT_FILE, path, "is stored in Fortran order, expected C order");
    if (array.n_dims < 1 || array.n_dims > 3)
        return fail_with(EXIT_FILE, path, "has %d dimensions, expected [patches], [images, patches] or [stages, images, patches]",
                         array.n_dims);
    const int64_t n_patches = array.shape[array.n_dims - 1], n_stages = array.n_dims == 3 ? array.shape[0] : 1;
    if (n_patches != out->n_patches)
        return fail_with(EXIT_FILE, path, "is for %lld patches, the model has %d", (long long)n_patches, out->n_patches);
    if (n_stages < 1 || n_stages > RVIT_PRUNE_MAX_STAGES)
        return fail_with(EXIT_FILE, path, "is for %lld prune stages, expected 1 to %d", (long long)n_stages, RVIT_PRUNE_MAX_STAGES);
    out->n_stages = (int32_t)n_stages;
    out->n_images = array.n_dims > 1 ? array.shape[array.n_dims - 2] : 0;
    if (array.n_dims > 1 && out->n_images == 0)
        return fail_with(EXIT_FILE, path, "has no images");
    const int code = create(path, out);
    if (code == EXIT_OK)
        memcpy(out->keep, array.data, (size_t)out->n_stages * (size_t)(out->n_images ? out->n_images : 1) * (size_t)out->n_patches);
    return code;
}

/* Reads one list of patch numbers. */
static int read_stage(const char *path, const json_t *list, int64_t image, int32_t stage, struct mask *out)
{
    uint8_t *keep = out->keep + (stage * out->n_images + image) * out->n_patches;
    const json_t *number;
    size_t i;
    if (!json_is_array(list))
        return fail_with(EXIT_FILE, path, "image %lld, stage %d: expected a list of patch numbers", (long long)image, stage);
    json_array_foreach(list, i, number)
    {
        const json_int_t patch = json_is_integer(number) ? json_integer_value(number) : -1;
        if (patch < 0 || patch >= out->n_patches) {
            char *text = json_dumps(number, JSON_ENCODE_ANY | JSON_COMPACT);
            complain(path, "image %lld, stage %d: %.40s is not a patch number from 0 to %d", (long long)image, stage, text ? text : "this",
                     out->n_patches - 1);
            free(text);
            return EXIT_FILE;
        }
        keep[patch] = 1;
    }
    return EXIT_OK;
}

/* The stages of an image: the value itself, or "kept" of an object from classify --json. */
static const json_t *stages_of(const json_t *image)
{
    return json_is_object(image) ? json_object_get(image, "kept") : image;
}

/* images: a list per image of a list per stage. */
static int read_images(const char *path, const json_t *images, struct mask *out)
{
    out->n_images = (int64_t)json_array_size(images);
    if (out->n_images == 0)
        return fail_with(
            EXIT_FILE, path,
            "has no images; expected a list per image of a list per pruning stage of kept patch numbers, or the output of classify "
            "--json");
    for (int64_t i = 0; i < out->n_images; i++) {
        const json_t *stages = stages_of(json_array_get(images, (size_t)i));
        const size_t n = json_array_size(stages);
        if (!json_is_array(stages) || n < 1 || n > RVIT_PRUNE_MAX_STAGES)
            return fail_with(EXIT_FILE, path, "image %lld: expected a list for each of 1 to %d prune stages", (long long)i,
                             RVIT_PRUNE_MAX_STAGES);
        if (i > 0 && n != (size_t)out->n_stages)
            return fail_with(EXIT_FILE, path, "image %lld has %zu prune stages, image 0 has %d", (long long)i, n, out->n_stages);
        out->n_stages = (int32_t)n;
    }
    int code = create(path, out);
    for (int64_t i = 0; i < out->n_images; i++)
        for (int32_t s = 0; s < out->n_stages && code == EXIT_OK; s++)
            code = read_stage(path, json_array_get(stages_of(json_array_get(images, (size_t)i)), (size_t)s), i, s, out);
    return code;
}

static int read_json(const char *path, const char *data, size_t size, struct mask *out)
{
    json_error_t error;
    json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail_with(EXIT_FILE, path, "is not %s: line %d: %s", kind, error.line, error.text);
    const json_t *images = json_is_object(root) ? json_object_get(root, "images") : root;
    const json_t *blocks = json_object_get(root, "blocks"), *block;
    int code = read_images(path, images, out);
    size_t i;
    if (code == EXIT_OK && json_array_size(blocks) == (size_t)out->n_stages)
        json_array_foreach(blocks, i, block)
        {
            const json_int_t number = json_is_integer(block) ? json_integer_value(block) : -1;
            if (number < 0 || number > INT32_MAX) {
                code = fail_with(EXIT_FILE, path, "\"blocks\" is not a list of block numbers");
                break;
            }
            out->blocks[out->n_blocks++] = (int32_t)number;
        }
    json_decref(root);
    return code;
}

int mask_read(const char *path, int32_t n_patches, struct mask *out)
{
    char *data;
    size_t size;
    *out = (struct mask){.n_patches = n_patches};
    int code = file_read(path, kind, &data, &size);
    if (code != EXIT_OK)
        return code;
    code = npy_is(data, size) ? read_npy(path, data, size, out) : read_json(path, data, size, out);
    free(data);
    if (code != EXIT_OK)
        mask_free(out);
    return code;
}

void mask_free(struct mask *self)
{
    free(self->keep);
    *self = (struct mask){0};
}

int mask_open(struct prune *prune, const rvit_model_info *model, int64_t n_images, int64_t n_given, struct mask *out)
{
    *out = (struct mask){0};
    int code = prune->mask ? mask_read(prune->mask, model->tokens - model->n_prefix, out) : EXIT_OK;
    if (code != EXIT_OK)
        return code;
    if (prune->mask && prune->desc.n_blocks == 0 && out->n_blocks > 0) {
        prune->desc.n_blocks = out->n_blocks;
        memcpy(prune->desc.blocks, out->blocks, sizeof out->blocks);
    }
    prune_resolve(prune, model);
    const bool fits = out->n_images == 0 || out->n_images == n_images || out->n_images == n_given;
    if (prune->mask && out->n_stages != prune->desc.n_blocks)
        code = fail_with(EXIT_FILE, prune->mask, "is for %d prune stage%s, but %d block%s; set them with --blocks LIST", out->n_stages,
                         out->n_stages > 1 ? "s" : "", prune->desc.n_blocks, prune->desc.n_blocks > 1 ? "s prune" : " prunes");
    else if (!fits && n_images >= 0)
        code = fail_with(EXIT_FILE, prune->mask, "is for %lld image%s, but there are %lld", (long long)out->n_images,
                         out->n_images > 1 ? "s" : "", (long long)n_images);
    else if (!fits)
        code = fail_with(EXIT_FILE, prune->mask, "is for %lld image%s; for video on standard input, set --limit to that number",
                         (long long)out->n_images, out->n_images > 1 ? "s" : "");
    if (code != EXIT_OK)
        mask_free(out);
    return code;
}

void mask_fill(const struct mask *self, const int64_t *positions, int32_t n, int32_t n_prefix, uint8_t *out)
{
    const int64_t n_images = self->n_images ? self->n_images : 1;
    for (int32_t s = 0; s < self->n_stages; s++)
        for (int32_t i = 0; i < n; i++) {
            const int64_t image = self->n_images ? positions[i] : 0;
            memset(out, 1, (size_t)n_prefix);
            memcpy(out + n_prefix, self->keep + (s * n_images + image) * self->n_patches, (size_t)self->n_patches);
            out += n_prefix + self->n_patches;
        }
}
