/* Resizes with one pass per axis and the weights of core/image/resize_axis.h. An integer pass rounds to nearest and clamps to 8 bits. */
#include "resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/image/resize_axis.h"

/* The filter taps of one axis. */
struct taps {
    int32_t n_outputs, capacity; /* capacity: weights per output */
    int32_t *first, *count;      /* [n_outputs] */
    int32_t *weights;            /* [n_outputs, capacity], fixed point */
    int bits;                    /* fraction bits */
    float *reals;                /* used instead of weights */
};

static void taps_free(struct taps *self)
{
    free(self->first);
    free(self->count);
    free(self->weights);
    free(self->reals);
}

static rvit_resize_kernel kernel_of(enum resize_filter filter)
{
    return filter == RESIZE_BICUBIC ? RVIT_RESIZE_BICUBIC : RVIT_RESIZE_BILINEAR;
}

enum { TORCH_BITS = 0, REAL = -1 };

/* Creates taps for outputs start .. start + n_outputs - 1. bits: fraction bits or a constant above. Free them even on failure. */
static bool taps_create(const rvit_resize_axis *axis, int64_t start, int32_t n_outputs, int bits, struct taps *out,
                        struct image_error *error)
{
    const int32_t capacity = rvit_resize_capacity(axis);
    const size_t n = (size_t)n_outputs, n_weights = n * (size_t)capacity;
    *out = (struct taps){.n_outputs = n_outputs, .capacity = capacity};
    if (bits == TORCH_BITS && axis->full_size > RVIT_RESIZE_LONGEST_TORCH_AXIS)
        return image_fail(error, "the image is too thin: resized it would be %lld pixels long", (long long)axis->full_size);
    out->first = calloc(n, sizeof *out->first);
    out->count = calloc(n, sizeof *out->count);
    out->weights = bits == REAL ? NULL : calloc(n_weights, sizeof *out->weights);
    out->reals = bits == REAL ? calloc(n_weights, sizeof *out->reals) : NULL;
    if (!out->first || !out->count || (bits == REAL ? !out->reals : !out->weights))
        return image_fail(error, "out of memory");
    out->bits = bits == TORCH_BITS ? rvit_resize_torch_bits(axis) : bits;
    for (int32_t i = 0; i < n_outputs; i++) {
        const size_t at = (size_t)i * (size_t)capacity;
        const rvit_resize_taps taps = rvit_resize_taps_of(axis, start + i);
        out->first[i] = taps.first;
        out->count[i] = taps.count;
        for (int32_t j = 0; j < taps.count; j++) {
            const double weight = rvit_resize_weight(axis, &taps, j);
            if (bits == REAL)
                out->reals[at + (size_t)j] = (float)weight;
            else
                out->weights[at + (size_t)j] = rvit_resize_fixed(weight, out->bits);
        }
    }
    return true;
}

static int32_t taps_end(const struct taps *self)
{
    return self->first[self->n_outputs - 1] + self->count[self->n_outputs - 1];
}

static uint8_t to_byte(int32_t sum, int bits)
{
    const int32_t value = sum < 0 ? 0 : sum >> bits;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* in: pixels of the row from number `begin` on. */
static void horizontal(const uint8_t *in, int32_t begin, const struct taps *axis, uint8_t *out)
{
    for (int32_t x = 0; x < axis->n_outputs; x++) {
        const int32_t *weights = axis->weights + (size_t)x * (size_t)axis->capacity;
        const uint8_t *pixel = in + 3 * (size_t)(axis->first[x] - begin);
        int32_t red = 1 << (axis->bits - 1), green = red, blue = red;
        for (int32_t k = 0; k < axis->count[x]; k++, pixel += 3) {
            red += pixel[0] * weights[k];
            green += pixel[1] * weights[k];
            blue += pixel[2] * weights[k];
        }
        out[3 * x] = to_byte(red, axis->bits);
        out[3 * x + 1] = to_byte(green, axis->bits);
        out[3 * x + 2] = to_byte(blue, axis->bits);
    }
}

/* lines: rows from number `begin` on. sums: scratch for one row. */
static void vertical(const uint8_t *lines, int64_t stride, int32_t begin, const struct taps *axis, size_t line_size, int32_t *sums,
                     uint8_t *out)
{
    for (int32_t y = 0; y < axis->n_outputs; y++) {
        const int32_t *weights = axis->weights + (size_t)y * (size_t)axis->capacity;
        const uint8_t *line = lines + (axis->first[y] - begin) * stride;
        for (size_t i = 0; i < line_size; i++)
            sums[i] = 1 << (axis->bits - 1);
        for (int32_t k = 0; k < axis->count[y]; k++, line += stride)
            for (size_t i = 0; i < line_size; i++)
                sums[i] += line[i] * weights[k];
        for (size_t i = 0; i < line_size; i++)
            out[(size_t)y * line_size + i] = to_byte(sums[i], axis->bits);
    }
}

static bool pass_both(struct image_view source, const struct taps *across, const struct taps *down, bool down_first,
                      const struct image *out)
{
    const int32_t left = across->first[0], top = down->first[0];
    const size_t line_size = (size_t)out->width * 3, n_lines = (size_t)(taps_end(down) - top);
    const size_t cut_size = (size_t)(taps_end(across) - left) * 3; /* of the needed part of a row */
    uint8_t *between = malloc(down_first ? (size_t)out->height * cut_size : n_lines * line_size);
    int32_t *sums = malloc((down_first ? cut_size : line_size) * sizeof *sums);
    const bool ok = between && sums;
    if (ok && down_first) {
        vertical(source.pixels + top * source.stride + (size_t)left * 3, source.stride, top, down, cut_size, sums, between);
        for (int32_t y = 0; y < out->height; y++)
            horizontal(between + (size_t)y * cut_size, left, across, out->pixels + (size_t)y * line_size);
    } else if (ok) {
        for (size_t y = 0; y < n_lines; y++)
            horizontal(source.pixels + (top + (int64_t)y) * source.stride, 0, across, between + y * line_size);
        vertical(between, (int64_t)line_size, top, down, line_size, sums, out->pixels);
    }
    free(between);
    free(sums);
    return ok;
}

bool resize_window(struct image_view source, const struct resize *how, const struct image *out, struct image_error *error)
{
    struct taps across = {0}, down = {0};
    const int bits = how->sums == RESIZE_PILLOW ? RVIT_RESIZE_PILLOW_BITS : TORCH_BITS;
    const rvit_resize_axis x = {kernel_of(how->filter), source.width, how->width}, y = {kernel_of(how->filter), source.height, how->height};
    const bool down_first =
        how->sums == RESIZE_PILLOW && how->height < source.height && source.height - how->height > 2 * (source.width - how->width);
    bool ok = taps_create(&x, how->left, out->width, bits, &across, error) && taps_create(&y, how->top, out->height, bits, &down, error);
    if (ok && !pass_both(source, &across, &down, down_first, out))
        ok = image_fail(error, "out of memory");
    taps_free(&across);
    taps_free(&down);
    return ok;
}

/* Computes one output row of the vertical pass over float rows; the first has number `begin`. */
static void add_lines(const float *lines, int32_t begin, const struct taps *axis, int32_t y, size_t line_size, float *out)
{
    const float *weights = axis->reals + (size_t)y * (size_t)axis->capacity;
    memset(out, 0, line_size * sizeof *out);
    for (int32_t k = 0; k < axis->count[y]; k++) {
        const float *line = lines + (size_t)(axis->first[y] - begin + k) * line_size;
        for (size_t i = 0; i < line_size; i++)
            out[i] += weights[k] * line[i];
    }
}

bool resize_window_float(struct image_view source, const struct resize *how, int32_t width, int32_t height, float *out,
                         struct image_error *error)
{
    struct taps across = {0}, down = {0};
    const rvit_resize_axis x = {kernel_of(how->filter), source.width, how->width}, y = {kernel_of(how->filter), source.height, how->height};
    const size_t line_size = (size_t)width * 3;
    float *lines = NULL;
    bool ok = taps_create(&x, how->left, width, REAL, &across, error) && taps_create(&y, how->top, height, REAL, &down, error);
    if (ok) {
        const int32_t begin = down.first[0], end = taps_end(&down);
        lines = malloc((size_t)(end - begin) * line_size * sizeof *lines);
        ok = lines || image_fail(error, "out of memory");
        for (int32_t line = begin; ok && line < end; line++)
            for (size_t i = 0; i < line_size; i++) {
                const size_t column = i / 3;
                const uint8_t *value = source.pixels + line * source.stride + 3 * (size_t)across.first[column] + i % 3;
                float sum = 0;
                for (int32_t k = 0; k < across.count[column]; k++)
                    sum += across.reals[column * (size_t)across.capacity + (size_t)k] * ((float)value[3 * k] * (1.0f / 255));
                lines[(size_t)(line - begin) * line_size + i] = sum;
            }
        for (int32_t line = 0; ok && line < height; line++)
            add_lines(lines, begin, &down, line, line_size, out + (size_t)line * line_size);
    }
    free(lines);
    taps_free(&across);
    taps_free(&down);
    return ok;
}
