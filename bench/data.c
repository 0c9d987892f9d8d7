#include "data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#ifdef RVIT_BENCH_IMAGES
#include "image_file.h"
#include "preprocess.h"
#endif

static unsigned long long next_random(unsigned long long *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

rvit_buffer *data_buffer(bench_device *d, int64_t size)
{
    rvit_buffer *buffer;
    bench_check(rvit_buffer_create(d->device, size, RVIT_BUFFER_DEVICE, &buffer), "buffer");
    return buffer;
}

rvit_buffer *data_upload(bench_device *d, const void *host, int64_t size)
{
    rvit_buffer *buffer = data_buffer(d, size);
    bench_check(rvit_stream_write(d->stream, (rvit_view){buffer, 0}, host, size), "write");
    return buffer;
}

rvit_buffer *data_random(bench_device *d, int64_t n, rvit_dtype dtype, uint32_t shift)
{
    const int64_t size = n * rvit_dtype_size(dtype);
    void *data = malloc((size_t)size);
    unsigned long long state = REPORT_SEED;
    /* Builds each number from its bits: sign, exponent, mantissa. */
    for (int64_t i = 0; i < n; i++) {
        const unsigned long long bits = next_random(&state);
        const uint32_t sign = (uint32_t)(bits >> 63), step = (uint32_t)(bits >> 40) & 3, mantissa = (uint32_t)(bits >> 8) & 0x7fffff;
        const uint32_t single = sign << 31 | (124 + step - shift) << 23 | mantissa;
        if (dtype == RVIT_F32)
            ((uint32_t *)data)[i] = single;
        else if (dtype == RVIT_BF16)
            ((uint16_t *)data)[i] = (uint16_t)(single >> 16);
        else
            ((uint16_t *)data)[i] = (uint16_t)(sign << 15 | (12 + step - shift) << 10 | mantissa >> 13);
    }
    rvit_buffer *buffer = data_upload(d, data, size);
    free(data);
    return buffer;
}

rvit_buffer *data_lengths(bench_device *d, int32_t n_images, int32_t length)
{
    int32_t *ends = malloc(((size_t)n_images + 1) * sizeof *ends);
    for (int32_t i = 0; i <= n_images; i++)
        ends[i] = i * length;
    rvit_buffer *buffer = data_upload(d, ends, ((int64_t)n_images + 1) * 4);
    free(ends);
    return buffer;
}

void data_noise(float *images, size_t n)
{
    unsigned long long state = REPORT_SEED;
    for (size_t i = 0; i < n; i++) {
        double u[2];
        for (int j = 0; j < 2; j++)
            u[j] = ((double)(next_random(&state) >> 11) + 1.0) / 9007199254740993.0;
        images[i] = (float)(sqrt(-2.0 * log(u[0])) * cos(6.283185307179586 * u[1]));
    }
}

#ifdef RVIT_BENCH_IMAGES
static void fail(const char *sheet, const struct image_error *error)
{
    fprintf(stderr, "bench: %s: %s\n", sheet, error->text);
    exit(1);
}

void data_tiles(const char *sheet, int tile, int n, int size, float *out)
{
    struct image sheet_image;
    struct image_error error = {"has no tile of that size"};
    const size_t image_length = 3 * (size_t)size * (size_t)size;
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.fit = RVIT_FIT_SQUASH;
    recipe.height = recipe.width = size;
    memcpy(recipe.mean, mean, sizeof mean);
    memcpy(recipe.std, std, sizeof std);
    if (!image_load(sheet, &sheet_image, &error) || sheet_image.width < tile || sheet_image.height < tile)
        fail(sheet, &error);
    const int columns = sheet_image.width / tile, n_tiles = columns * (sheet_image.height / tile);
    for (int i = 0; i < n && i < n_tiles; i++) {
        struct image_view source = image_whole(&sheet_image);
        source.pixels += i / columns * tile * source.stride + (int64_t)(i % columns) * tile * 3;
        source.width = source.height = tile;
        const rvit_image image = preprocess_source(source);
        if (!preprocess_image(&recipe, &image, out + (size_t)i * image_length, NULL, &error))
            fail(sheet, &error);
    }
    for (int i = n_tiles; i < n; i++)
        memcpy(out + (size_t)i * image_length, out + (size_t)(i - n_tiles) * image_length, image_length * sizeof *out);
    image_free(&sheet_image);
}
#else
void data_tiles(const char *sheet, int tile, int n, int size, float *out)
{
    (void)tile, (void)n, (void)size, (void)out;
    fprintf(stderr, "bench: %s: built without the tool's image reader (RVIT_TOOLS)\n", sheet);
    exit(2);
}
#endif
