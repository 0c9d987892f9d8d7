#include "video.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BITS 16 /* fraction bits */

const char *video_format_name(int format)
{
    static const char *const names[] = {
        [VIDEO_NV12] = "nv12", [VIDEO_YUV420P] = "yuv420p", [VIDEO_RGB24] = "rgb24", [VIDEO_BGR24] = "bgr24", [VIDEO_GRAY] = "gray"};
    return names[format];
}

static bool parse_edge(const char **text, char end, int32_t *out)
{
    char *rest;
    if (**text < '0' || **text > '9')
        return false;
    const long value = strtol(*text, &rest, 10);
    if (*rest != end || value < 1 || value > INT32_MAX)
        return false;
    *text = rest + 1;
    *out = (int32_t)value;
    return true;
}

bool video_parse_size(const char *text, struct video *out, struct image_error *error)
{
    const char *at = text;
    if (!parse_edge(&at, 'x', &out->width) || !parse_edge(&at, 0, &out->height))
        return image_fail(error, "'%.60s' is not a size, expected WIDTHxHEIGHT, such as 640x480", text);
    return image_check_size(out->width, out->height, error);
}

size_t video_frame_size(const struct video *self)
{
    const size_t width = (size_t)self->width, height = (size_t)self->height;
    switch (self->format) {
    case VIDEO_RGB24:
    case VIDEO_BGR24:
        return 3 * width * height;
    case VIDEO_NV12:
    case VIDEO_YUV420P:
        return width * height + 2 * ((width + 1) / 2) * ((height + 1) / 2);
    default:
        return width * height;
    }
}

/* Contribution of luma and chroma to the colours, in fixed point. */
struct weights {
    int32_t black, luma, red_cr, green_cb, green_cr, blue_cb;
};

static struct weights make_weights(enum video_matrix matrix, enum video_range range)
{
    const double red = matrix == VIDEO_BT709 ? 0.2126 : 0.299, blue = matrix == VIDEO_BT709 ? 0.0722 : 0.114, green = 1 - red - blue;
    const bool is_limited = range == VIDEO_LIMITED;
    const double one = 1 << BITS, luma = is_limited ? 255.0 / 219 : 1, chroma = is_limited ? 255.0 / 224 : 1;
    const double cr = 2 * (1 - red) * chroma, cb = 2 * (1 - blue) * chroma;
    return (struct weights){.black = is_limited ? 16 : 0,
                            .luma = (int32_t)(luma * one + 0.5),
                            .red_cr = (int32_t)(cr * one + 0.5),
                            .green_cb = (int32_t)(cb * blue / green * one + 0.5),
                            .green_cr = (int32_t)(cr * red / green * one + 0.5),
                            .blue_cb = (int32_t)(cb * one + 0.5)};
}

static uint8_t to_byte(int32_t value)
{
    value = value < 0 ? 0 : value >> BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* Converts a row. Its chroma samples are `step` bytes apart. */
static void line_to_rgb(const struct weights *weights, const uint8_t *luma, const uint8_t *cb_line, const uint8_t *cr_line, int32_t step,
                        int32_t width, uint8_t *out)
{
    for (int32_t x = 0; x < width; x++, out += 3) {
        const int32_t y = (luma[x] - weights->black) * weights->luma + (1 << (BITS - 1));
        const int32_t cb = cb_line[x / 2 * step] - 128, cr = cr_line[x / 2 * step] - 128;
        out[0] = to_byte(y + weights->red_cr * cr);
        out[1] = to_byte(y - weights->green_cb * cb - weights->green_cr * cr);
        out[2] = to_byte(y + weights->blue_cb * cb);
    }
}

static void yuv_to_rgb(const struct video *self, const uint8_t *frame, const struct image *out)
{
    const struct weights weights = make_weights(self->matrix, self->range);
    const size_t width = (size_t)self->width, height = (size_t)self->height, half = (width + 1) / 2;
    const bool is_pairs = self->format == VIDEO_NV12;
    const uint8_t *chroma = frame + width * height;
    const size_t to_cr = is_pairs ? 1 : half * ((height + 1) / 2);
    for (size_t y = 0; y < height; y++) {
        const uint8_t *cb = chroma + y / 2 * half * (is_pairs ? 2 : 1);
        line_to_rgb(&weights, frame + y * width, cb, cb + to_cr, is_pairs ? 2 : 1, self->width, out->pixels + 3 * y * width);
    }
}

void video_to_rgb(const struct video *self, const uint8_t *frame, const struct image *out)
{
    const size_t n_pixels = (size_t)self->width * (size_t)self->height;
    uint8_t *to = out->pixels;
    switch (self->format) {
    case VIDEO_RGB24:
        memcpy(to, frame, 3 * n_pixels);
        return;
    case VIDEO_BGR24:
        for (size_t i = 0; i < 3 * n_pixels; i++)
            to[i] = frame[i + 2 - 2 * (i % 3)];
        return;
    case VIDEO_GRAY:
        for (size_t i = 0; i < n_pixels; i++)
            memset(to + 3 * i, frame[i], 3);
        return;
    default:
        yuv_to_rgb(self, frame, out);
    }
}
