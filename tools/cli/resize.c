/* Bicubic resizing: Keys' cubic with a = -0.5, widened by the scale when shrinking (antialiasing); a horizontal pass, then a vertical one.
   Each pass uses weights with 22 fraction bits, rounded half away from zero; it starts at half a unit and clamps to 8 bits. */
#include "resize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRACTION_BITS 22

/* The taps of the outputs of one axis. */
struct taps {
    int32_t n_outputs, capacity; /* capacity: weights stored per output */
    int32_t *first, *count;      /* [n_outputs] */
    int32_t *weights;            /* [n_outputs, capacity] */
};

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0)
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

static void taps_free(struct taps *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weights);
}

static int32_t fixed_point(double weight)
{
    const double scaled = weight * (1 << FRACTION_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* Outputs start .. start + n_outputs - 1 of an axis of in_size samples resized to full_size. Must be freed even on failure. */
static bool taps_create(int32_t in_size, int64_t full_size, int64_t start, int32_t n_outputs, struct taps *out)
{
    const double scale = (double)in_size / (double)full_size;
    const double stretch = scale < 1.0 ? 1.0 : scale;
    const double support = 2.0 * stretch, inverse = 1.0 / stretch;
    *out = (struct taps){.n_outputs = n_outputs, .capacity = (int32_t)ceil(support) * 2 + 1};
    const size_t n = (size_t)n_outputs;
    double *weights = malloc((size_t)out->capacity * sizeof *weights);
    out->first = calloc(n, sizeof *out->first);
    out->count = calloc(n, sizeof *out->count);
    out->weights = malloc(n * (size_t)out->capacity * sizeof *out->weights);
    if (!weights || !out->first || !out->count || !out->weights) {
        free(weights);
        return false;
    }
    for (int32_t i = 0; i < n_outputs; i++) {
        const double centre = ((double)(start + i) + 0.5) * scale;
        const double low = centre - support + 0.5, high = centre + support + 0.5;
        const int32_t begin = low < 0 ? 0 : (int32_t)low;
        const int32_t count = (high > in_size ? in_size : (int32_t)high) - begin;
        double sum = 0;
        for (int32_t j = 0; j < count; j++) {
            weights[j] = cubic((begin + j - centre + 0.5) * inverse);
            sum += weights[j];
        }
        for (int32_t j = 0; j < count; j++)
            out->weights[(size_t)i * (size_t)out->capacity + (size_t)j] = fixed_point(sum != 0 ? weights[j] / sum : weights[j]);
        out->first[i] = begin;
        out->count[i] = count;
    }
    free(weights);
    return true;
}

static uint8_t to_byte(int32_t sum)
{
    const int32_t value = sum < 0 ? 0 : sum >> FRACTION_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

static void horizontal(const uint8_t *in, const struct taps *axis, uint8_t *out)
{
    for (int32_t x = 0; x < axis->n_outputs; x++) {
        const int32_t *weights = axis->weights + (size_t)x * (size_t)axis->capacity;
        const uint8_t *pixel = in + 3 * (size_t)axis->first[x];
        int32_t red = 1 << (FRACTION_BITS - 1), green = red, blue = red;
        for (int32_t k = 0; k < axis->count[x]; k++, pixel += 3) {
            red += pixel[0] * weights[k];
            green += pixel[1] * weights[k];
            blue += pixel[2] * weights[k];
        }
        out[3 * x] = to_byte(red);
        out[3 * x + 1] = to_byte(green);
        out[3 * x + 2] = to_byte(blue);
    }
}

/* lines: starts at the first line that any output needs. sums: scratch of one line. */
static void vertical(const uint8_t *lines, int32_t first_line, const struct taps *axis, size_t line_size, int32_t *sums, uint8_t *out)
{
    for (int32_t y = 0; y < axis->n_outputs; y++) {
        const int32_t *weights = axis->weights + (size_t)y * (size_t)axis->capacity;
        const uint8_t *line = lines + (size_t)(axis->first[y] - first_line) * line_size;
        for (size_t i = 0; i < line_size; i++)
            sums[i] = 1 << (FRACTION_BITS - 1);
        for (int32_t k = 0; k < axis->count[y]; k++, line += line_size)
            for (size_t i = 0; i < line_size; i++)
                sums[i] += line[i] * weights[k];
        for (size_t i = 0; i < line_size; i++)
            out[(size_t)y * line_size + i] = to_byte(sums[i]);
    }
}

bool resize_bicubic(struct image_view source, int64_t full_width, int64_t full_height, int64_t left, int64_t top, const struct image *out,
                    struct image_error *error)
{
    struct taps across = {0}, down = {0};
    uint8_t *lines = NULL;
    int32_t *sums = NULL;
    const size_t line_size = (size_t)out->width * 3;
    bool ok = taps_create(source.width, full_width, left, out->width, &across) &&
              taps_create(source.height, full_height, top, out->height, &down);
    if (ok) {
        const int32_t begin = down.first[0], end = down.first[out->height - 1] + down.count[out->height - 1];
        lines = malloc((size_t)(end - begin) * line_size);
        sums = malloc(line_size * sizeof *sums);
        ok = lines && sums;
        if (ok) {
            for (int32_t y = begin; y < end; y++)
                horizontal(source.pixels + y * source.stride, &across, lines + (size_t)(y - begin) * line_size);
            vertical(lines, begin, &down, line_size, sums, out->pixels);
        }
    }
    if (!ok)
        snprintf(error->text, sizeof error->text, "out of memory");
    free(lines);
    free(sums);
    taps_free(&across);
    taps_free(&down);
    return ok;
}
