#include "image_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_kind.h"
#include "image_reader.h"
#include "orientation.h"
#include "regular_file.h"

#define MAX_FILE_SIZE ((int64_t)2 << 30) /* larger than the largest uncompressed image, with 16 bits and alpha */

/* The size and memory that the caller needs for an image. */
struct wanted {
    bool size_only;
    int32_t min_width, min_height;   /* smallest acceptable size of the upright image; 0: full size */
    const struct image_taker *taker; /* NULL: out gets newly allocated memory */
};

/* Hands over an image that had to be turned upright first. */
static bool hand_over(const struct image_taker *taker, struct image *image, struct image_error *error)
{
    uint8_t *pixels = taker->take(taker->user, image->width, image->height, error);
    if (pixels)
        memcpy(pixels, image->pixels, 3 * (size_t)image->width * (size_t)image->height);
    image_free(image);
    image->pixels = pixels;
    return pixels != NULL;
}

static bool decode(const void *data, size_t size, struct wanted wanted, struct image *out, struct image_error *error)
{
    struct image_reader input = {.data = data,
                                 .size = size,
                                 .size_only = wanted.size_only,
                                 .min_width = wanted.min_width,
                                 .min_height = wanted.min_height,
                                 .taker = wanted.taker,
                                 .orientation = 1,
                                 .error = error};
    const struct image_kind *kind = image_kind_of(data, size);
    if (size == 0)
        return image_fail(error, "the file is empty");
    if (!kind)
        return image_fail(error, "not a PNG, JPEG, WebP or BMP image");
    if (!kind->read)
        return image_fail(error, "%s is not supported; PNG, JPEG, WebP and BMP are", kind->name);
    bool ok = kind->read(&input);
    if (input.is_taken)
        return ok;
    if (ok && wanted.size_only && orientation_swaps(input.orientation))
        input.result = (struct image){input.result.height, input.result.width, NULL};
    else if (ok && !wanted.size_only)
        ok = orientation_apply(input.orientation, &input.result, error);
    if (!ok)
        free(input.result.pixels);
    else if (wanted.taker)
        ok = hand_over(wanted.taker, &input.result, error);
    else
        *out = input.result;
    return ok;
}

bool image_decode(const void *data, size_t size, struct image *out, struct image_error *error)
{
    return decode(data, size, (struct wanted){0}, out, error);
}

bool image_read_file(const char *path, char **out_data, size_t *out_size, struct image_error *error)
{
    return regular_file_read(path, MAX_FILE_SIZE, out_data, out_size, error->text, sizeof error->text) == REGULAR_FILE_READ;
}

static bool load(const char *path, struct wanted wanted, struct image *out, struct image_error *error)
{
    char *data = NULL;
    size_t size = 0;
    if (!image_read_file(path, &data, &size, error))
        return false;
    const bool ok = decode(data, size, wanted, out, error);
    free(data);
    return ok;
}

bool image_load(const char *path, struct image *out, struct image_error *error)
{
    return load(path, (struct wanted){0}, out, error);
}

bool image_decode_to(const void *data, size_t size, const struct image_taker *taker, struct image_error *error)
{
    return decode(data, size, (struct wanted){.taker = taker}, NULL, error);
}

bool image_load_to(const char *path, const struct image_taker *taker, struct image_error *error)
{
    return load(path, (struct wanted){.taker = taker}, NULL, error);
}

bool image_load_reduced(const char *path, int32_t min_width, int32_t min_height, struct image *out, struct image_error *error)
{
    return load(path, (struct wanted){.min_width = min_width, .min_height = min_height}, out, error);
}

bool image_load_size(const char *path, int32_t *out_width, int32_t *out_height, struct image_error *error)
{
    struct image header;
    if (!load(path, (struct wanted){.size_only = true}, &header, error))
        return false;
    *out_width = header.width;
    *out_height = header.height;
    return true;
}

bool image_decode_size(const void *data, size_t size, int32_t *out_width, int32_t *out_height, struct image_error *error)
{
    struct image header = {0};
    if (!decode(data, size, (struct wanted){.size_only = true}, &header, error))
        return false;
    *out_width = header.width;
    *out_height = header.height;
    return true;
}
