/* rvit_image_prepare: resizes and normalises one image on the host. Its 8-bit arithmetic is that of every backend's preprocess. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/half.h"
#include "core/image/image_writer.h"

enum { CHANNELS = 3, MAX_SIDE = 1 << 24 };

/* The filter taps of one axis: output i is the sum over j < count[i] of weight[i * capacity + j] times input first[i] + j. */
typedef struct taps {
    int32_t n, capacity, bits;
    const int32_t *first, *count, *fixed; /* fixed point, with `bits` fraction bits */
    const float *real;                    /* for HF_FLOAT, instead of fixed */
} taps;

/* 8-bit RGB pixels in host memory. */
typedef struct pixels {
    const uint8_t *first;
    int64_t stride; /* bytes */
} pixels;

typedef struct job {
    const rvit_image_recipe *recipe;
    const rvit_staged_image *staged;
    rvit_alloc *alloc;
    pixels source;
    taps across, down;
    void *memory[6]; /* to free */
    int n_memory;
} job;

static void *allocate(job *self, int64_t n, size_t size)
{
    void *memory = rvit_alloc_array(self->alloc, (size_t)n, size);
    self->memory[self->n_memory++] = memory;
    return memory;
}

static int32_t end_of(const taps *axis)
{
    return axis->first[axis->n - 1] + axis->count[axis->n - 1];
}

/* One block of memory: first, count, and the weights by output; for fixed weights also the layout that rvit_image_axis_write fills. */
static rvit_status make_taps(job *self, const rvit_image_window *window, taps *out)
{
    const int32_t n = window->n_outputs, capacity = rvit_resize_capacity(&window->axis),
                  real = self->recipe->processor == RVIT_PROCESSOR_HF_FLOAT;
    const int64_t n_words = rvit_image_axis_words(window), n_weights = (int64_t)n * capacity;
    int32_t *axis = allocate(self, n_words + n_weights, sizeof *axis);
    RVIT_TRY_MEMORY(axis);
    int32_t *fixed = axis + n_words;
    float *reals = (float *)(void *)fixed;
    *out = (taps){n, capacity, 0, axis, axis + n, real ? NULL : fixed, real ? reals : NULL};
    if (!real)
        out->bits = rvit_image_axis_write(NULL, window, self->recipe->processor == RVIT_PROCESSOR_HF, axis);
    for (int32_t i = 0; i < n; i++) {
        if (!real) {
            for (int32_t j = 0; j < axis[n + i]; j++)
                fixed[(int64_t)i * capacity + j] = axis[(2 + (int64_t)j) * n + i];
            continue;
        }
        const rvit_resize_taps of = rvit_resize_taps_of(&window->axis, window->start + i);
        axis[i] = of.first;
        axis[n + i] = of.count;
        for (int32_t j = 0; j < of.count; j++)
            reals[(int64_t)i * capacity + j] = (float)rvit_resize_weight(&window->axis, &of, j);
    }
    return RVIT_OK;
}

static uint8_t to_byte(int32_t sum, int32_t bits)
{
    const int32_t value = sum < 0 ? 0 : sum >> bits;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* Converts a line of NV12 pixels to RGB. */
static void convert_nv12(const rvit_staged_image *p, int32_t y, uint8_t *out)
{
    const rvit_image_entry *e = &p->entry;
    const uint8_t *luma = (const uint8_t *)p->image.data + y * p->image.stride;
    const uint8_t *chroma = (const uint8_t *)p->image.data + p->plane_offset + y / 2 * p->image.stride;
    for (int32_t x = 0; x < p->image.width; x++, out += CHANNELS) {
        const int32_t sum = (luma[x] - e->luma_zero) * e->luma_gain + (1 << 15), cb = chroma[x / 2 * 2] - 128,
                      cr = chroma[x / 2 * 2 + 1] - 128;
        out[0] = to_byte(sum + cr * e->red_cr, 16);
        out[1] = to_byte(sum + cb * e->green_cb + cr * e->green_cr, 16);
        out[2] = to_byte(sum + cb * e->blue_cb, 16);
    }
}

static void convert_packed(const rvit_staged_image *p, int32_t y, uint8_t *out)
{
    const rvit_image_entry *e = &p->entry;
    const uint8_t *pixel = (const uint8_t *)p->image.data + y * p->image.stride;
    for (int32_t x = 0; x < p->image.width; x++, pixel += e->pixel_size, out += CHANNELS) {
        out[0] = pixel[e->red];
        out[1] = pixel[e->green];
        out[2] = pixel[e->blue];
    }
}

/* RGB8 is used in place; other formats are converted first. */
static rvit_status find_pixels(job *self)
{
    const rvit_staged_image *p = self->staged;
    self->source = (pixels){p->image.data, p->image.stride};
    if (p->image.format == RVIT_IMAGE_RGB8)
        return RVIT_OK;
    const int64_t line_size = CHANNELS * (int64_t)p->image.width;
    uint8_t *rgb = allocate(self, p->image.height, (size_t)line_size);
    RVIT_TRY_MEMORY(rgb);
    for (int32_t y = 0; y < p->image.height; y++)
        (p->image.format == RVIT_IMAGE_NV12 ? convert_nv12 : convert_packed)(p, y, rgb + y * line_size);
    self->source = (pixels){rgb, line_size};
    return RVIT_OK;
}

/* in: pixels of the line from number `begin` on. */
static void resize_line(const uint8_t *in, int32_t begin, const taps *axis, uint8_t *out)
{
    for (int32_t x = 0; x < axis->n; x++, out += CHANNELS) {
        const int32_t *weights = axis->fixed + (int64_t)x * axis->capacity;
        const uint8_t *pixel = in + CHANNELS * (int64_t)(axis->first[x] - begin);
        int32_t red = 1 << (axis->bits - 1), green = red, blue = red;
        for (int32_t k = 0; k < axis->count[x]; k++, pixel += CHANNELS) {
            red += pixel[0] * weights[k];
            green += pixel[1] * weights[k];
            blue += pixel[2] * weights[k];
        }
        out[0] = to_byte(red, axis->bits);
        out[1] = to_byte(green, axis->bits);
        out[2] = to_byte(blue, axis->bits);
    }
}

/* lines: from number `begin` on. sums: scratch for one line. */
static void resize_columns(pixels lines, int32_t begin, const taps *axis, int64_t line_size, int32_t *sums, uint8_t *out)
{
    for (int32_t y = 0; y < axis->n; y++, out += line_size) {
        const int32_t *weights = axis->fixed + (int64_t)y * axis->capacity;
        const uint8_t *line = lines.first + (axis->first[y] - begin) * lines.stride;
        for (int64_t i = 0; i < line_size; i++)
            sums[i] = 1 << (axis->bits - 1);
        for (int32_t k = 0; k < axis->count[y]; k++, line += lines.stride)
            for (int64_t i = 0; i < line_size; i++)
                sums[i] += line[i] * weights[k];
        for (int64_t i = 0; i < line_size; i++)
            out[i] = to_byte(sums[i], axis->bits);
    }
}

/* out: the covered part of the target, [down.n, across.n, 3]. */
static rvit_status resize(job *self, uint8_t *out)
{
    const taps *across = &self->across, *down = &self->down;
    const pixels *source = &self->source;
    const int32_t left = across->first[0], top = down->first[0], n_lines = end_of(down) - top;
    const int64_t line_size = CHANNELS * (int64_t)across->n, read_size = CHANNELS * (int64_t)(end_of(across) - left);
    const int down_first = rvit_image_down_first(self->recipe, self->staged);
    uint8_t *between = allocate(self, down_first ? down->n : n_lines, (size_t)(down_first ? read_size : line_size));
    int32_t *sums = allocate(self, down_first ? read_size : line_size, sizeof *sums);
    if (between == NULL || sums == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    if (down_first) {
        const pixels lines = {source->first + top * source->stride + CHANNELS * (int64_t)left, source->stride};
        resize_columns(lines, top, down, read_size, sums, between);
        for (int32_t y = 0; y < down->n; y++)
            resize_line(between + y * read_size, left, across, out + y * line_size);
    } else {
        for (int32_t y = 0; y < n_lines; y++)
            resize_line(source->first + (top + y) * source->stride, 0, across, between + y * line_size);
        resize_columns((pixels){between, line_size}, top, down, line_size, sums, out);
    }
    return RVIT_OK;
}

/* Normalises 8-bit pixels. The colour `fill` is where the image does not cover the target. */
static void normalize(const job *self, const uint8_t *resized, float *out)
{
    const rvit_image_entry *e = &self->staged->entry;
    const int32_t width = self->staged->geometry.target_width, height = self->staged->geometry.target_height;
    for (int c = 0; c < CHANNELS; c++) {
        float levels[256];
        for (int v = 0; v < 256; v++)
            levels[v] = rvit_image_level(self->recipe, (float)v, c);
        const float fill = levels[self->recipe->fill[c]];
        for (int32_t y = 0; y < height; y++)
            for (int32_t x = 0; x < width; x++)
                *out++ = y < e->top || y >= e->bottom || x < e->left || x >= e->right
                             ? fill
                             : levels[resized[CHANNELS * ((int64_t)(y - e->top) * (e->right - e->left) + x - e->left) + c]];
    }
}

static rvit_status prepare_8bit(job *self, float *out)
{
    uint8_t *resized = allocate(self, self->down.n, CHANNELS * (size_t)self->across.n);
    RVIT_TRY_MEMORY(resized);
    if (self->down.n > 0 && self->across.n > 0)
        RVIT_TRY(resize(self, resized));
    normalize(self, resized, out);
    return RVIT_OK;
}

/* Resizes values 0..1 in float32, without rounding or clamping, as PyTorch does. */
static rvit_status prepare_float(job *self, float *out)
{
    const taps *across = &self->across, *down = &self->down;
    const int32_t top = down->first[0], end = end_of(down);
    const int64_t line_size = CHANNELS * (int64_t)across->n, plane = (int64_t)across->n * down->n;
    float *lines = allocate(self, (int64_t)(end - top) * line_size, sizeof *lines);
    float *sums = allocate(self, line_size, sizeof *sums);
    if (lines == NULL || sums == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    for (int32_t y = top; y < end; y++)
        for (int32_t x = 0; x < across->n; x++) {
            const uint8_t *pixel = self->source.first + y * self->source.stride + CHANNELS * (int64_t)across->first[x];
            const float *weights = across->real + (int64_t)x * across->capacity;
            float *to = lines + (y - top) * line_size + CHANNELS * (int64_t)x;
            for (int32_t k = 0; k < across->count[x]; k++)
                for (int c = 0; c < CHANNELS; c++)
                    to[c] += weights[k] * ((float)pixel[CHANNELS * k + c] * (1.0f / 255));
        }
    for (int32_t y = 0; y < down->n; y++) {
        memset(sums, 0, (size_t)line_size * sizeof *sums);
        for (int32_t k = 0; k < down->count[y]; k++) {
            const float *line = lines + (down->first[y] - top + k) * line_size, weight = down->real[(int64_t)y * down->capacity + k];
            for (int64_t i = 0; i < line_size; i++)
                sums[i] += weight * line[i];
        }
        for (int c = 0; c < CHANNELS; c++)
            for (int32_t x = 0; x < across->n; x++)
                out[c * plane + (int64_t)y * across->n + x] = (sums[CHANNELS * x + c] - self->recipe->mean[c]) / self->recipe->std[c];
    }
    return RVIT_OK;
}

static void copy_planes(const rvit_staged_image *p, float *out)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int32_t y = 0; y < p->image.height; y++, out += p->image.width) {
            const uint8_t *line = (const uint8_t *)p->image.data + c * p->plane_offset + y * p->image.stride;
            if (p->image.format == RVIT_IMAGE_PLANAR_F32)
                memcpy(out, line, (size_t)p->line_size);
            for (int32_t x = 0; x < p->image.width && p->image.format == RVIT_IMAGE_PLANAR_F16; x++) {
                uint16_t half;
                memcpy(&half, line + 2 * (int64_t)x, sizeof half);
                out[x] = rvit_f16_to_f32(half);
            }
        }
}

static rvit_status prepare(job *self, float *out)
{
    const rvit_staged_image *p = self->staged;
    const rvit_image_geometry *g = &p->geometry;
    const rvit_image_entry *e = &p->entry;
    const rvit_resize_kernel filter = rvit_image_filter(self->recipe->filter);
    const rvit_image_window x = {{filter, p->image.width, g->width}, g->left + e->left, e->right - e->left};
    const rvit_image_window y = {{filter, p->image.height, g->height}, g->top + e->top, e->bottom - e->top};
    RVIT_TRY(find_pixels(self));
    RVIT_TRY(make_taps(self, &x, &self->across));
    RVIT_TRY(make_taps(self, &y, &self->down));
    return self->recipe->processor == RVIT_PROCESSOR_HF_FLOAT ? prepare_float(self, out) : prepare_8bit(self, out);
}

rvit_status rvit_image_prepare(const rvit_image_recipe *given_recipe, const rvit_image *image, const rvit_allocator *allocator, float *out,
                               rvit_image_geometry *out_geometry)
{
    RVIT_ENTRY;
    rvit_image_recipe recipe;
    rvit_staged_image staged = {.name = "image"};
    RVIT_TRY(rvit_args_copy(&recipe, sizeof recipe, given_recipe, "image recipe"));
    RVIT_TRY(rvit_args_copy(&staged.image, sizeof staged.image, image, "image"));
    RVIT_TRY(rvit_image_recipe_check(&recipe));
    RVIT_TRY(rvit_image_check(&staged, MAX_SIDE));
    RVIT_TRY(rvit_image_find_geometry(&recipe, 1, &staged));
    /* Each output of NEAREST follows from the one before it, so the time grows with the side and not with the target. */
    const int64_t longest = staged.geometry.width > staged.geometry.height ? staged.geometry.width : staged.geometry.height;
    if (recipe.filter == RVIT_FILTER_NEAREST && longest > (int64_t)RVIT_IMAGE_MAX_TARGET * RVIT_IMAGE_MAX_SIDE)
        return rvit_fail(RVIT_UNSUPPORTED, "image: %d x %d pixels are too thin for NEAREST: a side would have %lld pixels after resizing",
                         (int)staged.image.width, (int)staged.image.height, (long long)longest);
    if (allocator != NULL && (allocator->allocate == NULL || allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_image_prepare: allocator lacks allocate or release");
    if (out_geometry != NULL)
        RVIT_TRY(rvit_args_return(out_geometry, &staged.geometry, sizeof staged.geometry, "image geometry"));
    if (out == NULL)
        return out_geometry != NULL ? RVIT_OK : rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_image_prepare: out and out_geometry are NULL");
    if (staged.image.data == NULL || staged.image.view.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image: %s",
                         staged.image.data == NULL ? "data is NULL" : "view is set, expected host memory");
    RVIT_TRY(rvit_image_check_planes(&staged));
    if (rvit_image_is_planar(staged.image.format)) {
        copy_planes(&staged, out);
        return RVIT_OK;
    }
    rvit_image_set_reading(&staged);
    rvit_image_cover(&staged, staged.geometry.target_width, staged.geometry.target_height);
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, allocator);
    job self = {.recipe = &recipe, .staged = &staged, .alloc = &alloc};
    const rvit_status status = prepare(&self, out);
    for (int i = 0; i < self.n_memory; i++)
        rvit_alloc_free(&alloc, self.memory[i]);
    return status;
}
