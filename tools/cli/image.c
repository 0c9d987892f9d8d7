#include "image.h"

#include <stdio.h>
#include <stdlib.h>

bool image_fail(struct image_error *error, const char *text)
{
    snprintf(error->text, sizeof error->text, "%s", text);
    return false;
}

bool image_check_size(int32_t width, int32_t height, struct image_error *error)
{
    if (width > 0 && height > 0 && (int64_t)width * height <= IMAGE_MAX_PIXELS)
        return true;
    snprintf(error->text, sizeof error->text, "%d x %d pixels; 1 to %lld in all are handled", width, height, (long long)IMAGE_MAX_PIXELS);
    return false;
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

void image_free(struct image *picture)
{
    free(picture->pixels);
    *picture = (struct image){0, 0, NULL};
}

struct image_view image_whole(const struct image *picture)
{
    return (struct image_view){picture->pixels, (int64_t)picture->width * 3, picture->width, picture->height};
}
