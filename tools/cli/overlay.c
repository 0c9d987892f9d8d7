#include "overlay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "image_png.h"

#define MIN_SIZE 768 /* approximate length of the longer edge, in pixels */
#define MAX_SIZE 1600
#define LINES_PER_EDGE 800 /* pixels of the longer edge per pixel of line width */
#define MIN_GRID 6         /* patch size below which there are no lines between patches of the same kind */

enum { UNSEEN = -1, KEPT = 0 }; /* and stages from 1 */

static const float veil[3] = {22, 26, 36}; /* colour towards which dropped patches fade */

/* How late a patch was dropped: 0 for the first stage, approaching 1 for the last of many. */
static float lateness(int32_t stage, int32_t n_stages)
{
    return (float)(stage - 1) / (float)n_stages;
}

/* light, colour: remaining fraction of the brightness and of the saturation. */
static void fade(uint8_t *pixel, float light, float colour)
{
    const float grey = 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
    for (int c = 0; c < 3; c++) {
        const float faded = (1 - colour) * grey + colour * pixel[c];
        pixel[c] = (uint8_t)(light * faded + (1 - light) * veil[c] + 0.5f);
    }
}

static void shade(uint8_t *pixel, int32_t kind, int32_t n_stages)
{
    if (kind == UNSEEN)
        fade(pixel, 0.55f, 0);
    else if (kind != KEPT)
        fade(pixel, 0.26f + 0.34f * lateness(kind, n_stages), 0.2f + 0.3f * lateness(kind, n_stages));
}

static void blend(uint8_t *pixel, float colour, float amount)
{
    for (int c = 0; c < 3; c++)
        pixel[c] = (uint8_t)((1 - amount) * pixel[c] + amount * colour + 0.5f);
}

/* The patch column or row of each pixel along an edge, or UNSEEN. full: length of the edge after the model's resize; start: offset of the
   model's view in it. */
static int32_t *make_axis(int32_t n_pixels, int64_t full, int64_t start, int32_t patch_size, int32_t n_patches)
{
    int32_t *out = calloc((size_t)n_pixels, sizeof *out);
    for (int32_t i = 0; out && i < n_pixels; i++) {
        const double patch = floor(((i + 0.5) * (double)full / n_pixels - (double)start) / patch_size);
        out[i] = patch >= 0 && patch < n_patches ? (int32_t)patch : UNSEEN;
    }
    return out;
}

/* An image with its patches. */
struct canvas {
    const struct overlay *overlay;
    struct image image;
    int32_t *columns, *rows; /* of each pixel */
    int32_t line;            /* line width */
    bool has_grid;
};

static int32_t kind_of(const struct canvas *self, int32_t x, int32_t y)
{
    const int32_t row = self->rows[y], column = self->columns[x];
    return row == UNSEEN || column == UNSEEN ? UNSEEN : self->overlay->dropped_at[row * self->overlay->columns + column];
}

/* Draws the upper and left border of each patch: bright between kept and other patches, else faint. */
static void draw_border(const struct canvas *self, int32_t x, int32_t y, int32_t kind, uint8_t *pixel)
{
    const bool above = y >= self->line && self->rows[y] != self->rows[y - self->line];
    const bool left = x >= self->line && self->columns[x] != self->columns[x - self->line];
    if (!above && !left)
        return;
    const int32_t upper = above ? kind_of(self, x, y - self->line) : kind, other = left ? kind_of(self, x - self->line, y) : kind;
    if ((upper == KEPT) != (kind == KEPT) || (other == KEPT) != (kind == KEPT))
        blend(pixel, 255, 0.75f);
    else if ((upper == UNSEEN) != (kind == UNSEEN) || (other == UNSEEN) != (kind == UNSEEN))
        blend(pixel, 255, 0.4f);
    else if (kind != UNSEEN && self->has_grid)
        blend(pixel, kind == KEPT ? 255 : 128, 0.12f);
}

static void draw(const struct canvas *self)
{
    uint8_t *pixel = self->image.pixels;
    for (int32_t y = 0; y < self->image.height; y++)
        for (int32_t x = 0; x < self->image.width; x++, pixel += 3) {
            const int32_t kind = kind_of(self, x, y);
            shade(pixel, kind, self->overlay->n_stages);
            draw_border(self, x, y, kind, pixel);
        }
}

static int32_t scaled(int32_t edge, double scale)
{
    const double out = rint(edge * scale);
    return out < 1 ? 1 : (int32_t)out;
}

static bool make_canvas(const struct overlay *overlay, struct canvas *out, struct image_error *error)
{
    const struct image *image = overlay->image;
    const int32_t longer = image->width > image->height ? image->width : image->height;
    const double scale = longer > MAX_SIZE ? (double)MAX_SIZE / longer : longer < MIN_SIZE ? rint((double)MIN_SIZE / longer) : 1;
    const int32_t width = scaled(image->width, scale), height = scaled(image->height, scale);
    *out = (struct canvas){.overlay = overlay};
    if (!preprocess_resize(image_whole(image), width, height, &out->image, error))
        return false;
    const rvit_image_geometry *plan = &overlay->geometry;
    const double patch = (double)overlay->patch_size * (double)width / (double)plan->width;
    out->line = scaled(longer, scale / LINES_PER_EDGE);
    out->has_grid = patch >= MIN_GRID * out->line;
    out->columns = make_axis(width, plan->width, plan->left, overlay->patch_size, overlay->columns);
    out->rows = make_axis(height, plan->height, plan->top, overlay->patch_size, overlay->rows);
    if (out->columns && out->rows)
        return true;
    return image_fail(error, "out of memory");
}

bool overlay_write(const char *path, const struct overlay *self, struct image_error *error)
{
    struct canvas canvas;
    const bool ok = make_canvas(self, &canvas, error);
    if (ok)
        draw(&canvas);
    const bool written = ok && image_write_png(path, &canvas.image, error);
    image_free(&canvas.image);
    free(canvas.columns);
    free(canvas.rows);
    return written;
}
