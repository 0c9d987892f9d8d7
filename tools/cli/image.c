#include "image.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool image_fail(struct image_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

bool image_check_size(int32_t width, int32_t height, struct image_error *error)
{
    if (width > 0 && height > 0 && (int64_t)width * height <= IMAGE_MAX_PIXELS)
        return true;
    return image_fail(error, "%d x %d pixels, expected 1 to %lld in total", width, height, (long long)IMAGE_MAX_PIXELS);
}

bool image_create(int32_t width, int32_t height, struct image *out, struct image_error *error)
{
    if (!image_check_size(width, height, error))
        return false;
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 3);
    if (!pixels)
        return image_fail(error, "out of memory");
    *out = (struct image){width, height, pixels};
    return true;
}

void image_free(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0, 0, NULL};
}

struct image_view image_whole(const struct image *image)
{
    return (struct image_view){image->pixels, (int64_t)image->width * 3, image->width, image->height};
}

bool image_copy(struct image_view view, struct image *out, struct image_error *error)
{
    if (!image_create(view.width, view.height, out, error))
        return false;
    for (int32_t y = 0; y < view.height; y++)
        memcpy(out->pixels + 3 * (size_t)y * (size_t)view.width, view.pixels + y * view.stride, 3 * (size_t)view.width);
    return true;
}
