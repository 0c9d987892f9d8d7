#include "image_set.h"

#include <math.h>
#include <stdio.h>
/* before jpeglib.h, which needs size_t and FILE */
#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>

#include "image_file.h"
#include "report.h"

/* Width and height: photographs of ImageNet's sizes, upright and wide, small and large. */
static const int32_t sizes[IMAGE_SET_SIZES][2] = {
    {500, 375}, {375, 500}, {500, 333}, {333, 500}, {640, 480}, {480, 640}, {400, 300}, {300, 400}, {224, 224},
    {500, 500}, {256, 256}, {320, 240}, {500, 281}, {450, 299}, {512, 512}, {375, 250}, {600, 450}, {384, 384},
    {425, 640}, {500, 332}, {249, 187}, {161, 121}, {640, 427}, {333, 333}, {351, 233},
};

enum { WIDEST = 640, SHAPES = 8, NOISE = 28, JPEG_QUALITY = 90, JPEG_MOST = 1 << 20 };

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);
    if (memory == NULL)
        fail("images", "out of memory");
    return memory;
}

uint64_t image_set_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static double uniform(uint64_t *state)
{
    return (double)(image_set_random(state) >> 11) / 9007199254740992.0;
}

/* An ellipse or a rectangle of one colour, drawn over the earlier shapes. */
typedef struct shape {
    double x, y, rx, ry, colour[3];
    int is_ellipse;
} shape;

/* A gradient, shapes, waves and a little noise: smooth areas, edges and texture, as in photographs. */
static void draw(uint8_t *out, int32_t width, int32_t height, uint64_t *state)
{
    double corner[4][3];
    for (int i = 0; i < 12; i++)
        corner[i / 3][i % 3] = 255 * uniform(state);
    shape shapes[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        shape *s = &shapes[i];
        *s = (shape){.x = uniform(state), .y = uniform(state), .rx = 0.05 + 0.25 * uniform(state), .ry = 0.05 + 0.25 * uniform(state)};
        for (int c = 0; c < 3; c++)
            s->colour[c] = 255 * uniform(state);
        s->is_ellipse = (int)(image_set_random(state) & 1);
    }
    const double fx = 0.05 + 0.5 * uniform(state), fy = 0.05 + 0.5 * uniform(state), strength = 25 * uniform(state);
    double waves[WIDEST];
    for (int32_t x = 0; x < width; x++)
        waves[x] = strength * sin(fx * x);
    for (int32_t y = 0; y < height; y++) {
        const double line = cos(fy * y);
        for (int32_t x = 0; x < width; x++) {
            const double u = (double)x / width, v = (double)y / height, wave = waves[x] * line;
            const shape *top = NULL;
            for (int i = 0; i < SHAPES; i++) {
                const double dx = fabs(u - shapes[i].x) / shapes[i].rx, dy = fabs(v - shapes[i].y) / shapes[i].ry;
                if (shapes[i].is_ellipse ? dx * dx + dy * dy <= 1 : dx <= 1 && dy <= 1)
                    top = &shapes[i];
            }
            for (int c = 0; c < 3; c++) {
                const double ground =
                    (1 - v) * ((1 - u) * corner[0][c] + u * corner[1][c]) + v * ((1 - u) * corner[2][c] + u * corner[3][c]);
                const double value = (top != NULL ? top->colour[c] : ground) + wave + NOISE * (uniform(state) - 0.5);
                *out++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
    }
}

/* Cuts a window at a random position from the sheet, which repeats at its edges. */
static void cut(uint8_t *out, int32_t width, int32_t height, const struct image *sheet, uint64_t *state)
{
    const int64_t left = (int64_t)(image_set_random(state) % (uint64_t)sheet->width);
    const int64_t top = (int64_t)(image_set_random(state) % (uint64_t)sheet->height);
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++, out += 3)
            memcpy(out, sheet->pixels + 3 * ((top + y) % sheet->height * sheet->width + (left + x) % sheet->width), 3);
}

/* Writes the length of a JPEG and the JPEG. Returns the bytes of both. On an error, libjpeg's default handler ends the program. */
static size_t encode(const uint8_t *pixels, int32_t width, int32_t height, uint8_t *out)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *file = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &file, &size);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, JPEG_QUALITY, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        uint8_t line[3 * WIDEST];
        memcpy(line, pixels + (size_t)jpeg.next_scanline * 3 * (size_t)width, 3 * (size_t)width);
        JSAMPROW rows[] = {line};
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    if (size > JPEG_MOST)
        fail("images", "a JPEG is larger than foreseen");
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(size >> 8 * i);
    memcpy(out + 4, file, size);
    free(file);
    return 4 + size;
}

static void make_files(image_set *p)
{
    struct image_error error = {"decodes to another size"};
    p->payload = allocate((size_t)p->n, JPEG_MOST + 4);
    p->payload_at = allocate((size_t)p->n + 1, sizeof *p->payload_at);
    for (int32_t i = 0; i < p->n; i++) {
        uint8_t *file = p->payload + p->payload_at[i], *pixels = p->pixels + p->at[i];
        const size_t size = encode(pixels, p->widths[i], p->heights[i], file);
        struct image decoded;
        if (!image_decode(file + 4, size - 4, &decoded, &error) || decoded.width != p->widths[i] || decoded.height != p->heights[i])
            fail("a JPEG of ours", error.text);
        memcpy(pixels, decoded.pixels, p->at[i + 1] - p->at[i]);
        image_free(&decoded);
        p->payload_at[i + 1] = p->payload_at[i] + size;
    }
}

image_set image_set_make(int32_t n, int32_t group, int32_t edge, const char *sheet, int jpeg)
{
    const int32_t groups = (n + group - 1) / group;
    image_set p = {.n = groups * group, .group = group};
    p.widths = allocate((size_t)p.n, sizeof *p.widths);
    p.heights = allocate((size_t)p.n, sizeof *p.heights);
    p.at = allocate((size_t)p.n + 1, sizeof *p.at);
    for (int32_t i = 0; i < p.n; i++) {
        p.widths[i] = edge > 0 ? edge : sizes[i / group % IMAGE_SET_SIZES][0];
        p.heights[i] = edge > 0 ? edge : sizes[i / group % IMAGE_SET_SIZES][1];
        p.at[i + 1] = p.at[i] + 3 * (size_t)p.widths[i] * (size_t)p.heights[i];
    }
    p.pixels = allocate(p.at[p.n], 1);
    struct image source = {0};
    struct image_error error;
    if (sheet != NULL && !image_load(sheet, &source, &error))
        fail(sheet, error.text);
    uint64_t state = REPORT_SEED;
    for (int32_t i = 0; i < p.n; i++) {
        if (sheet != NULL)
            cut(p.pixels + p.at[i], p.widths[i], p.heights[i], &source, &state);
        else
            draw(p.pixels + p.at[i], p.widths[i], p.heights[i], &state);
    }
    if (sheet != NULL)
        image_free(&source);
    if (jpeg) {
        make_files(&p);
    } else {
        p.payload = p.pixels;
        p.payload_at = p.at;
    }
    return p;
}

size_t image_set_largest(const image_set *p)
{
    size_t largest = 0;
    for (int32_t i = 0; i < p->n; i++)
        if (p->at[i + 1] - p->at[i] > largest)
            largest = p->at[i + 1] - p->at[i];
    return largest;
}

double image_set_mean(const image_set *p)
{
    return (double)p->payload_at[p->n] / p->n;
}

void image_set_free(image_set *p)
{
    if (p->payload != p->pixels) {
        free(p->payload);
        free(p->payload_at);
    }
    free(p->pixels);
    free(p->at);
    free(p->widths);
    free(p->heights);
}

int32_t image_set_pick(const image_set *p, int32_t images, uint64_t *state)
{
    const uint64_t random = image_set_random(state) >> 16, groups = (uint64_t)(p->n / p->group);
    return (int32_t)(random % groups) * p->group + (int32_t)(random / groups % (uint64_t)(p->group - images + 1));
}
