#include "overlay.h"

#include "resize.h"

#define WANTED_SIZE 768 /* approximate pixels of the longer edge */

static const float veil[3] = {22, 26, 36}; /* colour that dropped patches fade to */

/* How late a patch was dropped: 0 for the first stage, towards 1 for the last of many. */
static float lateness(int32_t stage, int32_t n_stages)
{
    return (float)(stage - 1) / (float)n_stages;
}

static void shade(uint8_t *pixel, float late)
{
    const float light = 0.26f + 0.34f * late, colour = 0.2f + 0.3f * late;
    const float grey = 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
    for (int c = 0; c < 3; c++) {
        const float faded = (1 - colour) * grey + colour * pixel[c];
        pixel[c] = (uint8_t)(light * faded + (1 - light) * veil[c] + 0.5f);
    }
}

static void blend(uint8_t *pixel, float colour, float amount)
{
    for (int c = 0; c < 3; c++)
        pixel[c] = (uint8_t)((1 - amount) * pixel[c] + amount * colour + 0.5f);
}

bool overlay_write(const char *path, const struct image *view, int32_t patch_size, const uint8_t *dropped_at, int32_t n_stages,
                   struct image_error *error)
{
    /* Pixels past the last whole patch are not seen by the model. */
    const int32_t columns = view->width / patch_size, seen_width = columns * patch_size;
    const int32_t seen_height = view->height / patch_size * patch_size;
    const int32_t longer = seen_width > seen_height ? seen_width : seen_height;
    const int32_t scale = longer >= WANTED_SIZE ? 1 : (WANTED_SIZE + longer / 2) / longer;
    const int32_t patch = patch_size * scale;
    const struct resize how = {
        .filter = RESIZE_BICUBIC, .sums = RESIZE_PILLOW, .width = (int64_t)view->width * scale, .height = (int64_t)view->height * scale};
    struct image out;
    if (!image_create(seen_width * scale, seen_height * scale, &out, error))
        return false;
    bool ok = resize_window(image_whole(view), &how, &out, error);
    for (int32_t y = 0; ok && y < out.height; y++)
        for (int32_t x = 0; x < out.width; x++) {
            uint8_t *pixel = out.pixels + ((size_t)y * (size_t)out.width + (size_t)x) * 3;
            const int32_t row = y / patch, column = x / patch;
            const uint8_t stage = dropped_at[row * columns + column];
            if (stage)
                shade(pixel, lateness(stage, n_stages));
            /* Each patch draws its upper and left border: bright between kept and dropped patches, else a faint line. */
            const bool above = y % patch == 0 && row > 0, left = x % patch == 0 && column > 0;
            const bool edge = (above && !stage != !dropped_at[(row - 1) * columns + column]) ||
                              (left && !stage != !dropped_at[row * columns + column - 1]);
            if (edge)
                blend(pixel, 255, 0.75f);
            else if (above || left)
                blend(pixel, stage ? 128 : 255, 0.12f);
        }
    ok = ok && image_write_png(path, &out, error);
    image_free(&out);
    return ok;
}
