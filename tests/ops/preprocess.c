#include <math.h>

#include "core/contract/image_descriptor.h"
#include "good_ops.h"
#include "ops.h"

typedef struct pillow_case {
    rvit_processor processor;
    rvit_image_format format;
    rvit_filter filter;
    rvit_fit fit;
    int32_t width, height, target_width, target_height, edge;
    uint32_t crc;
} pillow_case;

#include "nv12_vectors.h"
#include "pillow_vectors.h"

#define MOST_PIXELS_IF_SLOW 200000

static uint32_t crc32_of(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Byte i of every image, as in tests/ops/make_pillow_vectors.py. */
static uint8_t content(uint32_t i)
{
    i *= 2654435761u;
    i ^= i >> 15;
    i *= 2246822519u;
    return (uint8_t)(i >> 24);
}

static int64_t pixel_size(rvit_image_format format)
{
    switch (format) {
    case RVIT_IMAGE_RGB8:
    case RVIT_IMAGE_BGR8:
        return 3;
    case RVIT_IMAGE_RGBA8:
    case RVIT_IMAGE_PLANAR_F32:
        return 4;
    case RVIT_IMAGE_PLANAR_F16:
        return 2;
    case RVIT_IMAGE_GRAY8:
    case RVIT_IMAGE_NV12:
        break;
    }
    return 1;
}

/* An image of one plane with `gap` bytes of 0xee after each line. */
static rvit_image packed_image(rvit_image_format format, int32_t width, int32_t height, int64_t gap)
{
    rvit_image image = RVIT_IMAGE_INIT;
    const int64_t line = width * pixel_size(format), stride = line + gap;
    uint8_t *data = scratch((size_t)(stride * height));
    memset(data, 0xee, (size_t)(stride * height));
    for (int64_t y = 0; y < height; y++)
        for (int64_t i = 0; i < line; i++)
            data[y * stride + i] = content((uint32_t)(y * line + i));
    image.data = data;
    image.width = width;
    image.height = height;
    image.stride = gap == 0 ? 0 : stride;
    image.format = format;
    return image;
}

/* One call of the op. */
typedef struct call {
    rvit_image_recipe recipe;
    rvit_images_args images;
    rvit_preprocess_args op;
    int with_staging, with_layout, to_device, in_place; /* to_device: the images are in pixels; in_place: some are in the staging buffer */
    array *source, *pixels, *staging, *out, *cu_seqlens, *grids;
} call;

/* Values 0..1, so that 8-bit ones can be read back. */
static void call_init(call *c, int32_t n_images, int32_t patch_size)
{
    *c = (call){.recipe = RVIT_IMAGE_RECIPE_INIT, .images = RVIT_IMAGES_ARGS_INIT, .op = RVIT_PREPROCESS_ARGS_INIT};
    for (int i = 0; i < 3; i++)
        c->recipe.std[i] = 1;
    c->recipe.processor = RVIT_PROCESSOR_TIMM;
    c->images.n_images = c->images.max_images = n_images;
    c->images.patch_size = patch_size;
}

/* Makes the arrays and uploads them; images [n_images]. */
static void call_prepare(call *c, rvit_image *images)
{
    rvit_images_args *a = &c->images;
    a->recipe = &c->recipe;
    a->images = images;
    if (c->to_device) {
        int64_t size = 0;
        for (int32_t i = 0; i < a->n_images; i++)
            size += ((int64_t)images[i].width * images[i].height * pixel_size(images[i].format) * 3 + 64) / 16 * 16;
        c->pixels = array_input("pixels", size);
        memset(c->pixels->host, 0, (size_t)size);
        a->pixels = array_view(c->pixels, DEVICE);
        a->pixels_size = size;
        int64_t at = 0;
        for (int32_t i = 0; i < a->n_images; i++) {
            const int64_t bytes = images[i].width * (int64_t)images[i].height * pixel_size(images[i].format);
            memcpy(c->pixels->host + at, images[i].data, (size_t)bytes);
            images[i].data = NULL;
            images[i].view = a->pixels;
            images[i].view.offset += at;
            at += (bytes + 64) / 16 * 16;
        }
    }
    int64_t size, written;
    expect_ok(rvit_images_write(a, NULL, 0, &size));
    const int64_t copied = size, table = rvit_images_table_size(a->max_images);
    if (c->in_place) /* the others are copied behind them */
        size = 2 * size + table;
    c->source = array_input("source", size + 32);
    uint8_t *region = scratch((size_t)size + 16), *aligned = region + (16 - (uintptr_t)region % 16) % 16;
    memset(aligned, 0xee, (size_t)size);
    int64_t at = table;
    for (int32_t i = 0; c->in_place && i < a->n_images; i += 2) {
        const size_t bytes = (size_t)images[i].width * (size_t)images[i].height * (size_t)pixel_size(images[i].format);
        images[i].data = memcpy(aligned + at, images[i].data, bytes);
        at += ((int64_t)bytes + 3) / 4 * 4;
    }
    expect_ok(rvit_images_write(a, aligned, size, &written));
    assert_true(c->in_place ? written > at && written <= size : written == copied);
    memcpy(c->source->host, aligned, (size_t)size);
    rvit_preprocess_args *o = &c->op;
    o->n_images = a->max_images;
    o->rows = a->max_rows;
    o->patch_size = a->patch_size;
    o->source_size = size + 32;
    o->pixels_size = a->pixels_size;
    const int64_t parts = o->split == 2 ? 2 : 1, stride = o->out_stride > 0 ? o->out_stride : parts * 3 * a->patch_size * a->patch_size;
    c->out = array_output("out", a->max_rows * stride * rvit_dtype_size(o->dtype));
    c->staging = c->with_staging ? array_output("staging", o->source_size) : NULL;
    c->cu_seqlens = c->with_layout ? array_output("cu_seqlens", 4 * (a->max_images + 1)) : NULL;
    c->grids = c->with_layout && a->max_images > 0 ? array_output("grids", 8 * (int64_t)a->max_images) : NULL;
    arrays_upload();
}

/* 0: the device lacks the type. */
static int call_run(const call *c, side s)
{
    rvit_preprocess_args op = c->op;
    op.source = array_view(c->source, s);
    op.pixels = array_view(c->pixels, s);
    op.staging = array_view(c->staging, s);
    op.out = array_view(c->out, s);
    op.cu_seqlens = array_view(c->cu_seqlens, s);
    op.grids = array_view(c->grids, s);
    if (!supported(s, type_feature(op.dtype), rvit_preprocess(H.stream[s], &op)))
        return 0;
    arrays_fetch(s);
    return 1;
}

/* The row and the element in it of a pixel of an image whose patches begin at row `first`. */
static int64_t place_of(int64_t stride, int32_t patch, int64_t first, int32_t grid_width, int32_t x, int32_t y, int c)
{
    const int64_t row = first + y / patch * grid_width + x / patch;
    return row * stride + ((int64_t)c * patch + y % patch) * patch + x % patch;
}

/* rvit_image_prepare gives the values of the op, in planes. */
static float *prepared(const call *c, const rvit_image *image, rvit_image_geometry *out_geometry)
{
    *out_geometry = (rvit_image_geometry)RVIT_IMAGE_GEOMETRY_INIT;
    expect_ok(rvit_image_prepare(&c->recipe, image, NULL, NULL, out_geometry));
    float *planes = scratch(12 * (size_t)out_geometry->target_width * (size_t)out_geometry->target_height);
    expect_ok(rvit_image_prepare(&c->recipe, image, NULL, planes, NULL));
    return planes;
}

static void expect_prepared(const call *c, side s, const float *planes, const rvit_image_geometry *geometry)
{
    const int32_t patch = c->op.patch_size, width = geometry->target_width, height = geometry->target_height;
    for (int channel = 0; channel < 3; channel++)
        for (int32_t y = 0; y < height / patch * patch; y++)
            for (int32_t x = 0; x < width / patch * patch; x++) {
                const float got = load(RVIT_F32, c->out->result[s], place_of(3 * patch * patch, patch, 0, width / patch, x, y, channel));
                const float wanted = planes[((int64_t)channel * height + y) * width + x];
                if (memcmp(&got, &wanted, sizeof got))
                    fail_msg("channel %d of (%d, %d) is %g, but %g on the host (side %d)", channel, x, y, (double)got, (double)wanted,
                             (int)s);
            }
}

static void run_pillow(const pillow_case *p, int32_t patch, int64_t gap, int with_staging)
{
    call c;
    call_init(&c, 1, patch);
    c.with_staging = with_staging;
    c.recipe.processor = p->processor;
    c.recipe.filter = p->filter;
    c.recipe.fit = p->fit;
    c.recipe.width = p->target_width;
    c.recipe.height = p->target_height;
    c.recipe.resize_width = c.recipe.resize_height = p->edge;
    c.images.max_rows = p->target_width / patch * (p->target_height / patch);
    rvit_image image = packed_image(p->format, p->width, p->height, gap);
    rvit_image_geometry geometry;
    const float *planes = prepared(&c, &image, &geometry);
    call_prepare(&c, &image);
    const size_t n = (size_t)p->target_width * (size_t)p->target_height;
    uint8_t *bytes = scratch(3 * n);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!call_run(&c, s))
            continue;
        expect_prepared(&c, s, planes, &geometry);
        for (int32_t y = 0; y < p->target_height; y++)
            for (int32_t x = 0; x < p->target_width; x++)
                for (int channel = 0; channel < 3; channel++) {
                    const int64_t at = place_of(3 * patch * patch, patch, 0, p->target_width / patch, x, y, channel);
                    const float got = load(RVIT_F32, c.out->result[s], at);
                    const int value = (int)lrintf(got * 255), timm = p->processor == RVIT_PROCESSOR_TIMM;
                    assert_true(got == (timm ? (float)value / 255.0f : (float)value * (1.0f / 255)));
                    bytes[3 * ((size_t)y * (size_t)p->target_width + (size_t)x) + (size_t)channel] = (uint8_t)value;
                }
        if (crc32_of(bytes, 3 * n) != p->crc)
            fail_msg("format %d, filter %d, fit %d, %d x %d to %d x %d (edge %d, processor %d): other values than Pillow's (side %d)",
                     (int)p->format, (int)p->filter, (int)p->fit, p->width, p->height, p->target_width, p->target_height, p->edge,
                     (int)p->processor, (int)s);
    }
    harness_teardown(NULL);
}

static int divides(const pillow_case *p, int32_t patch)
{
    return p->target_width % patch == 0 && p->target_height % patch == 0;
}

static void preprocess_equals_pillow(void **state)
{
    (void)state;
    static const int32_t patches[] = {14, 16, 32, 10, 4, 2}; /* the first that divides the target */
    for (int32_t i = 0; i < (int32_t)(sizeof pillow_cases / sizeof *pillow_cases); i++) {
        const pillow_case *p = &pillow_cases[i];
        const int64_t pixels = (int64_t)p->width * p->height;
        if (leaves_out(i, 5) || (H.is_slow && !runs_all_cases() && pixels > MOST_PIXELS_IF_SLOW))
            continue;
        if (pixels * pixel_size(p->format) > 100000000 && lacks("large_arrays"))
            continue;
        int32_t patch = 0;
        while (!divides(p, patches[(patch + i) % 6]))
            patch++;
        run_pillow(p, patches[(patch + i) % 6], i % 3 * 5, i % 2);
    }
}

enum { N_MIXED = 9 };

/* Images of every kind, some with targets of their own. */
static void mixed_images(rvit_image images[N_MIXED])
{
    static const int32_t sizes[N_MIXED][4] = {{40, 30, 0, 0}, {1, 1, 16, 24}, {19, 200, 0, 0},   {64, 64, 48, 8}, {40, 30, 0, 0},
                                              {7, 9, 0, 0},   {33, 3, 8, 8},  {101, 67, 40, 32}, {30, 40, 0, 0}};
    static const rvit_image_format formats[] = {RVIT_IMAGE_RGB8, RVIT_IMAGE_GRAY8, RVIT_IMAGE_RGBA8, RVIT_IMAGE_BGR8};
    for (int i = 0; i < N_MIXED; i++) {
        images[i] = packed_image(formats[i % 4], sizes[i][0], sizes[i][1], 0);
        images[i].target_width = sizes[i][2];
        images[i].target_height = sizes[i][3];
    }
}

static void mixed_call(call *c, int32_t n_images, int32_t capacity, rvit_dtype dtype, int32_t n_prefix)
{
    call_init(c, n_images, 8);
    c->images.max_images = capacity;
    c->images.n_prefix = n_prefix;
    c->recipe.height = c->recipe.width = 24;
    c->recipe.resize_height = c->recipe.resize_width = 28;
    c->recipe.mean[0] = 0.5f;
    c->recipe.std[1] = 0.25f;
    c->recipe.fill[2] = 77;
    c->op.dtype = dtype;
    c->with_layout = 1;
}

/* Part 0 of a value is the value rounded, part 1 what that took from it, rounded as well. */
static float part_of(rvit_dtype dtype, float value, int64_t part)
{
    const float first = rounded(dtype, value);
    return part == 0 ? first : rounded(dtype, value - first);
}

/* In a batch, each image has the same rows as in a batch of one, and bytes past the live rows stay. gap: after each part of a row. */
static void run_mixed(rvit_dtype dtype, int32_t parts, int32_t n_images, int32_t capacity, int32_t n_prefix, int32_t gap, int to_device,
                      int in_place)
{
    rvit_image images[N_MIXED];
    call c, single;
    mixed_images(images);
    mixed_call(&c, n_images, capacity, dtype, n_prefix);
    c.with_staging = n_prefix != 1;
    c.to_device = to_device;
    c.in_place = in_place;
    c.op.split = parts;
    c.op.out_stride = parts * (192 + gap);
    c.images.max_rows = 120;
    const rvit_image *kept = memcpy(scratch(sizeof images), images, sizeof images);
    call_prepare(&c, images);
    const int64_t element = rvit_dtype_size(dtype), stride = c.op.out_stride;
    uint8_t *rows[2] = {NULL, NULL};
    int32_t starts[N_MIXED + 1] = {0};
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!call_run(&c, s))
            continue;
        rows[s] = memcpy(scratch((size_t)c.out->size), c.out->result[s], (size_t)c.out->size);
        const int32_t *cu = (const int32_t *)(const void *)c.cu_seqlens->result[s];
        const int32_t *grids = c.grids == NULL ? NULL : (const int32_t *)(const void *)c.grids->result[s];
        for (int32_t i = 0; i < capacity; i++) {
            const int own = i < n_images && kept[i].target_width > 0, live = i < n_images;
            assert_int_equal(grids[2 * i], !live ? 0 : own ? kept[i].target_height / 8 : 3);
            assert_int_equal(grids[2 * i + 1], !live ? 0 : own ? kept[i].target_width / 8 : 3);
            assert_int_equal(cu[i + 1] - cu[i], live ? n_prefix + grids[2 * i] * grids[2 * i + 1] : 0);
            if (live)
                starts[i + 1] = cu[i + 1];
        }
        assert_int_equal(cu[0], 0);
        array_expect_untouched(c.out, s, starts[n_images] * stride * element);
    }
    for (int32_t i = 0; i < n_images; i++) {
        mixed_images(images);
        mixed_call(&single, 1, 1, RVIT_F32, 0);
        single.images.max_rows = starts[i + 1] - starts[i] - n_prefix;
        rvit_image_geometry geometry;
        const float *planes = prepared(&single, &images[i], &geometry);
        call_prepare(&single, &images[i]);
        for (side s = 0; (int)s < H.n_sides; s++) {
            if (!call_run(&single, s) || rows[s] == NULL)
                continue;
            expect_prepared(&single, s, planes, &geometry);
            for (int32_t t = 0; t < starts[i + 1] - starts[i]; t++)
                for (int32_t k = 0; k < stride; k++) {
                    const float got = load(dtype, rows[s], (starts[i] + t) * stride + k);
                    const int64_t part = k / (192 + gap), v = k % (192 + gap), at = (t - n_prefix) * 192 + v;
                    const float wanted = t < n_prefix || v >= 192 ? 0 : part_of(dtype, load(RVIT_F32, single.out->result[s], at), part);
                    if (memcmp(&got, &wanted, 4))
                        fail_msg("image %d, row %d, column %d is %g, alone %g (side %d)", i, t, k, (double)got, (double)wanted, (int)s);
                }
        }
    }
    harness_teardown(NULL);
}

static void preprocess_batches(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++) {
        if (!leaves_out(t, 2))
            run_mixed(stored_types[t], 1, N_MIXED, N_MIXED, t, 2 * t, 0, t);
        if (!leaves_out(t + 1, 2))
            run_mixed(stored_types[t], 1, N_MIXED - 2, N_MIXED + 3, 2 - t, 0, 1, 0);
        if (stored_types[t] != RVIT_F32)
            run_mixed(stored_types[t], 2, N_MIXED, N_MIXED + 1, 1, 2 * (t % 2), 0, 0);
    }
    run_mixed(RVIT_F32, 1, N_MIXED, N_MIXED + 1, 0, 0, 0, 1);
    run_mixed(RVIT_F32, 1, 0, 3, 1, 0, 0, 0);
}

/* The equations of BT.601 and BT.709. */
static double rgb_of(const rvit_image *image, double y, double cb, double cr, int channel)
{
    const double red = image->matrix == RVIT_IMAGE_BT709 ? 0.2126 : 0.299, blue = image->matrix == RVIT_IMAGE_BT709 ? 0.0722 : 0.114;
    const double luma = image->full_range ? y / 255 : (y - 16) / 219, scale = image->full_range ? 255 : 224;
    const double pb = (cb - 128) / scale, pr = (cr - 128) / scale;
    const double r = luma + 2 * (1 - red) * pr, b = luma + 2 * (1 - blue) * pb;
    const double value = 255 * (channel == 0 ? r : channel == 2 ? b : (luma - red * r - blue * b) / (1 - red - blue));
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static void run_nv12(int32_t width, int32_t height, rvit_image_matrix matrix, int full_range, int64_t gap)
{
    call c;
    call_init(&c, 1, 2);
    c.recipe.filter = RVIT_FILTER_NEAREST;
    c.recipe.fit = RVIT_FIT_SQUASH;
    c.recipe.width = width;
    c.recipe.height = height;
    const int64_t stride = (width + 1) / 2 * 2 + gap, plane = stride * height + 3 * gap;
    rvit_image image = RVIT_IMAGE_INIT;
    image.format = RVIT_IMAGE_NV12;
    image.width = width;
    image.height = height;
    image.stride = gap > 0 ? stride : 0;
    image.plane_offset = gap > 0 ? plane : 0;
    image.matrix = matrix;
    image.full_range = full_range;
    const int64_t size = plane + stride * ((height + 1) / 2);
    uint8_t *data = scratch((size_t)size);
    for (int64_t i = 0; i < size; i++)
        data[i] = content((uint32_t)i);
    image.data = data;
    c.images.max_rows = width / 2 * (height / 2);
    call_prepare(&c, &image);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!call_run(&c, s))
            continue;
        for (int32_t y = 0; y < height / 2 * 2; y++)
            for (int32_t x = 0; x < width / 2 * 2; x++)
                for (int channel = 0; channel < 3; channel++) {
                    const uint8_t *chroma = data + plane + y / 2 * stride + x / 2 * 2;
                    const double wanted = rgb_of(&image, data[y * stride + x], chroma[0], chroma[1], channel);
                    const double got = 255 * load(RVIT_F32, c.out->result[s], place_of(12, 2, 0, width / 2, x, y, channel));
                    if (fabs(got - wanted) > 0.51)
                        fail_msg("NV12 %d x %d, matrix %d, full range %d: channel %d of (%d, %d) is %g, should be %g", width, height,
                                 (int)matrix, full_range, channel, x, y, got, wanted);
                }
    }
    harness_teardown(NULL);
}

static void preprocess_nv12_as_ffmpeg(void **state)
{
    (void)state;
    static const uint8_t *const given[] = {nv12_00, nv12_01, nv12_10, nv12_11};
    static const uint8_t *const wanted[] = {nv12_rgb_00, nv12_rgb_01, nv12_rgb_10, nv12_rgb_11};
    for (int i = 0; i < 4; i++) {
        call c;
        call_init(&c, 1, 2);
        c.recipe.fit = RVIT_FIT_SQUASH;
        c.recipe.width = NV12_WIDTH;
        c.recipe.height = NV12_HEIGHT;
        rvit_image image = RVIT_IMAGE_INIT;
        image.format = RVIT_IMAGE_NV12;
        image.width = NV12_WIDTH;
        image.height = NV12_HEIGHT;
        image.matrix = (rvit_image_matrix)(i >> 1);
        image.full_range = i & 1;
        image.data = given[i];
        c.images.max_rows = NV12_WIDTH * NV12_HEIGHT / 4;
        rvit_image_geometry geometry;
        const float *planes = prepared(&c, &image, &geometry);
        call_prepare(&c, &image);
        for (side s = 0; (int)s < H.n_sides; s++) {
            if (!call_run(&c, s))
                continue;
            expect_prepared(&c, s, planes, &geometry);
            for (int32_t y = 0; y < NV12_HEIGHT; y++)
                for (int32_t x = 0; x < NV12_WIDTH; x++)
                    for (int channel = 0; channel < 3; channel++) {
                        const double got = 255 * load(RVIT_F32, c.out->result[s], place_of(12, 2, 0, NV12_WIDTH / 2, x, y, channel));
                        const int theirs = wanted[i][(y * NV12_WIDTH + x) * 3 + channel];
                        if (fabs(got - theirs) > 1.01)
                            fail_msg("matrix %d, full range %d: channel %d of (%d, %d) is %g, FFmpeg's %d", i >> 1, i & 1, channel, x, y,
                                     got, theirs);
                    }
        }
        harness_teardown(NULL);
    }
}

static void preprocess_nv12(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        run_nv12(32, 18, (rvit_image_matrix)(i & 1), i >> 1, 0);
        run_nv12(33, 7, (rvit_image_matrix)(i & 1), i >> 1, 6);
    }
}

/* Planar images give the same as patchify. out_dtype: 16-bit types are split into two parts. */
static void run_planar(rvit_image_format format, rvit_dtype out_dtype, int64_t gap)
{
    enum { SIDE = 44, PATCH = 14, ROWS = 9, WIDTH = 3 * PATCH * PATCH };
    call c;
    call_init(&c, 1, PATCH);
    c.recipe.width = c.recipe.height = SIDE;
    c.images.max_rows = ROWS;
    c.op.dtype = out_dtype;
    c.op.split = out_dtype == RVIT_F32 ? 1 : 2;
    const rvit_dtype dtype = format == RVIT_IMAGE_PLANAR_F32 ? RVIT_F32 : RVIT_F16;
    const int64_t element = rvit_dtype_size(dtype), stride = SIDE + gap;
    uint8_t *data = scratch((size_t)(3 * SIDE * stride * element));
    store_normal(dtype, data, 0, 3 * SIDE * stride, 1);
    rvit_image image = RVIT_IMAGE_INIT;
    image.format = format;
    image.data = data;
    image.width = image.height = SIDE;
    image.stride = stride * element;
    rvit_image_geometry geometry;
    const float *planes = prepared(&c, &image, &geometry);
    call_prepare(&c, &image);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!call_run(&c, s))
            continue;
        if (out_dtype == RVIT_F32)
            expect_prepared(&c, s, planes, &geometry);
        for (int32_t y = 0; y < 42; y++)
            for (int32_t x = 0; x < 42; x++)
                for (int channel = 0; channel < 3; channel++) {
                    const int64_t at = place_of(c.op.split * WIDTH, PATCH, 0, 3, x, y, channel);
                    const float wanted = load(dtype, data, (channel * SIDE + y) * stride + x);
                    for (int64_t part = 0; part < c.op.split; part++)
                        assert_true(load(out_dtype, c.out->result[s], at + part * WIDTH) == part_of(out_dtype, wanted, part));
                }
    }
    harness_teardown(NULL);
}

static void preprocess_planar(void **state)
{
    (void)state;
    run_planar(RVIT_IMAGE_PLANAR_F32, RVIT_F32, 0);
    run_planar(RVIT_IMAGE_PLANAR_F32, RVIT_F32, 3);
    run_planar(RVIT_IMAGE_PLANAR_F32, RVIT_F16, 3);
    run_planar(RVIT_IMAGE_PLANAR_F32, RVIT_BF16, 0);
    run_planar(RVIT_IMAGE_PLANAR_F16, RVIT_F32, 0);
    run_planar(RVIT_IMAGE_PLANAR_F16, RVIT_F32, 1);
}

/* A smaller copy gets the geometry of its original: 500 x 375 pixels become 341 x 256, 62 x 46 would become 345 x 256. */
static void preprocess_copies(void **state)
{
    (void)state;
    call c;
    call_init(&c, 1, 16);
    c.recipe.height = c.recipe.width = 224;
    c.recipe.resize_height = c.recipe.resize_width = 256;
    c.images.max_rows = 14 * 14;
    rvit_image image = packed_image(RVIT_IMAGE_RGB8, 62, 46, 0);
    rvit_image_geometry geometry;
    (void)prepared(&c, &image, &geometry);
    assert_int_equal(geometry.width, 345);
    image.original_width = 500;
    image.original_height = 375;
    const float *planes = prepared(&c, &image, &geometry);
    assert_true(geometry.width == 341 && geometry.height == 256 && geometry.left == 58 && geometry.top == 16);
    call_prepare(&c, &image);
    for (side s = 0; (int)s < H.n_sides; s++)
        if (call_run(&c, s))
            expect_prepared(&c, s, planes, &geometry);
    harness_teardown(NULL);
}

static void prepare_refusals(void **state)
{
    (void)state;
    call c;
    call_init(&c, 1, 16);
    c.recipe.height = c.recipe.width = 32;
    rvit_image image = packed_image(RVIT_IMAGE_RGB8, 40, 30, 0), bad = image;
    float *out = scratch(12 * 32 * 32);
    expect_status(rvit_image_prepare(NULL, &image, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "image recipe");
    expect_status(rvit_image_prepare(&c.recipe, NULL, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "image");
    expect_status(rvit_image_prepare(&c.recipe, &image, NULL, NULL, NULL), RVIT_INVALID_ARGUMENT, "out and out_geometry");
    const rvit_allocator allocator = {0};
    expect_status(rvit_image_prepare(&c.recipe, &image, &allocator, out, NULL), RVIT_INVALID_ARGUMENT, "allocator");
    bad.data = NULL;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "image: data is NULL");
    bad = image;
    bad.stride = 119;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "image: stride is 119");
    bad = image;
    bad.original_width = 39;
    bad.original_height = 30;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "a copy of 39 x 30");
    bad.original_width = 80;
    bad.original_height = 0;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "a copy of 80 x 0");
    bad = image;
    bad.width = 65535;
    bad.height = 1;
    bad.stride = 0;
    c.recipe.fit = RVIT_FIT_BORDER;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_UNSUPPORTED, "65535 x 1 pixels are too thin");
    bad.width = 1 << 24;
    c.recipe.fit = RVIT_FIT_CROP;
    c.recipe.filter = RVIT_FILTER_NEAREST;
    c.recipe.height = c.recipe.width = c.recipe.resize_height = c.recipe.resize_width = 128;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_UNSUPPORTED, "too thin for NEAREST");
    c.recipe.fit = RVIT_FIT_BORDER;
    c.recipe.filter = RVIT_FILTER_BICUBIC;
    c.recipe.height = c.recipe.width = c.recipe.resize_height = c.recipe.resize_width = 32;
    bad.width++;
    expect_status(rvit_image_prepare(&c.recipe, &bad, NULL, out, NULL), RVIT_INVALID_ARGUMENT, "expected sides of 1..16777216");
    c.recipe.processor = RVIT_PROCESSOR_HF_FLOAT;
    expect_status(rvit_image_prepare(&c.recipe, &image, NULL, out, NULL), RVIT_UNSUPPORTED, "SQUASH");
    c.recipe.fit = RVIT_FIT_SQUASH;
    expect_ok(rvit_image_prepare(&c.recipe, &image, NULL, out, NULL));
    c.recipe.filter = RVIT_FILTER_LANCZOS;
    expect_status(rvit_image_prepare(&c.recipe, &image, NULL, out, NULL), RVIT_UNSUPPORTED, "filter");
}

/* Refusals name the image. */
static void preprocess_bad_images(void **state)
{
    (void)state;
    rvit_image good[3], bad[3];
    for (int i = 0; i < 3; i++)
        good[i] = packed_image(RVIT_IMAGE_RGB8, 10, 8, 0);
    call c;
    call_init(&c, 3, 4);
    c.recipe.width = c.recipe.height = 8;
    c.images.max_rows = 12;
    c.images.recipe = &c.recipe;
    c.images.images = bad;
    int64_t size, at;
    memcpy(bad, good, sizeof bad);
    expect_ok(rvit_images_write(&c.images, NULL, 0, &size));
    uint8_t *region = scratch((size_t)size + 16);
    region += (16 - (uintptr_t)region % 16) % 16;
#define BAD(status, word, ...)                                                        \
    do {                                                                              \
        memcpy(bad, good, sizeof bad);                                                \
        __VA_ARGS__;                                                                  \
        expect_status(rvit_images_write(&c.images, region, size, &at), status, word); \
        assert_non_null(strstr(rvit_status_detail(), "image 2"));                     \
    } while (0)
    BAD(RVIT_INVALID_ARGUMENT, "0", bad[2].width = 0);
    BAD(RVIT_INVALID_ARGUMENT, "pixels", bad[2].height = -5);
    BAD(RVIT_INVALID_ARGUMENT, "pixels", bad[2].height = INT32_MAX);
    BAD(RVIT_INVALID_ARGUMENT, "pixels", bad[2].width = 65536);
    BAD(RVIT_INVALID_ARGUMENT, "stride", bad[2].stride = 29);
    BAD(RVIT_INVALID_ARGUMENT, "stride", bad[2].stride = -30);
    BAD(RVIT_INVALID_ARGUMENT, "stride", bad[2].stride = INT64_MAX);
    BAD(RVIT_INVALID_ARGUMENT, "format", bad[2].format = (rvit_image_format)7);
    BAD(RVIT_INVALID_ARGUMENT, "format", bad[2].format = (rvit_image_format)-1);
    BAD(RVIT_INVALID_ARGUMENT, "matrix", bad[2].matrix = (rvit_image_matrix)2);
    BAD(RVIT_INVALID_ARGUMENT, "full_range", bad[2].full_range = 2);
    BAD(RVIT_INVALID_ARGUMENT, "plane_offset", bad[2].plane_offset = 4);
    BAD(RVIT_INVALID_ARGUMENT, "plane_offset", bad[2].format = RVIT_IMAGE_NV12, bad[2].plane_offset = 79);
    BAD(RVIT_INVALID_ARGUMENT, "plane_offset", bad[2].format = RVIT_IMAGE_NV12, bad[2].plane_offset = INT64_MIN);
    BAD(RVIT_INVALID_ARGUMENT, "plane_offset", bad[2].format = RVIT_IMAGE_NV12, bad[2].plane_offset = INT64_MAX);
    BAD(RVIT_INVALID_ARGUMENT, "planar", bad[2].format = RVIT_IMAGE_PLANAR_F16);
    BAD(RVIT_INVALID_ARGUMENT, "data", bad[2].data = NULL);
    BAD(RVIT_INVALID_ARGUMENT, "target", bad[2].target_width = 8);
    BAD(RVIT_INVALID_ARGUMENT, "target", bad[2].target_width = 8, bad[2].target_height = 6);
    BAD(RVIT_INVALID_ARGUMENT, "target", bad[2].target_width = INT32_MIN, bad[2].target_height = 8);
    BAD(RVIT_INVALID_ARGUMENT, "rows", bad[2].target_width = 12, bad[2].target_height = 8);
    BAD(RVIT_INVALID_ARGUMENT, "capacity", bad[2].width = 12, bad[2].stride = 30, bad[2].format = RVIT_IMAGE_GRAY8, bad[2].height = 65535);
    BAD(RVIT_UNSUPPORTED, "thin", c.recipe.fit = RVIT_FIT_BORDER, bad[2].format = RVIT_IMAGE_GRAY8, bad[2].stride = 1, bad[2].width = 1,
        bad[2].height = 65535);
    c.recipe.fit = RVIT_FIT_CROP;
    BAD(RVIT_INVALID_ARGUMENT, "view is set, but pixels", bad[2].data = NULL, bad[2].view = array_view(array_input("other", 240), DEVICE));
    BAD(RVIT_INVALID_ARGUMENT, "struct_size", bad[2].struct_size++);
#undef BAD
    memcpy(bad, good, sizeof bad);
    expect_status(rvit_images_write(&c.images, region, size - 16, &at), RVIT_INVALID_ARGUMENT, "capacity");
    expect_status(rvit_images_write(&c.images, region, 64, &at), RVIT_INVALID_ARGUMENT, "the staging buffer");
    expect_status(rvit_images_write(&c.images, region + 4, size, &at), RVIT_INVALID_ARGUMENT, "the staging buffer");
    expect_status(rvit_images_write(&c.images, region, size, NULL), RVIT_INVALID_ARGUMENT, "out_size");
    c.images.n_images = 4;
    expect_status(rvit_images_write(&c.images, region, size, &at), RVIT_INVALID_ARGUMENT, "n_images");
    c.images.n_images = 3;
    c.images.patch_size = 3;
    expect_status(rvit_images_write(&c.images, region, size, &at), RVIT_INVALID_ARGUMENT, "patch_size");
    c.images.patch_size = 4;
    c.recipe.std[1] = 0;
    expect_status(rvit_images_write(&c.images, region, size, &at), RVIT_INVALID_ARGUMENT, "std");
    c.recipe.std[1] = 1;
    c.recipe.processor = RVIT_PROCESSOR_HF_FLOAT;
    c.recipe.fit = RVIT_FIT_SQUASH;
    c.recipe.resize_height = c.recipe.resize_width = 0;
    expect_status(rvit_images_write(&c.images, region, size, &at), RVIT_UNSUPPORTED, "image 0: the processor HF_FLOAT");
    c.recipe.processor = RVIT_PROCESSOR_HF;
    c.recipe.filter = RVIT_FILTER_BOX;
    expect_status(rvit_images_write(&c.images, region, size, &at), RVIT_UNSUPPORTED, "filter");
}

/* A region of garbage: whatever it says, nothing else is touched, and the op ends. */
static void preprocess_garbage(void **state)
{
    (void)state;
    random_seed(5);
    for (int round = 0; round < (H.is_slow ? 12 : 200); round++) {
        rvit_image images[N_MIXED];
        mixed_images(images);
        call c;
        mixed_call(&c, N_MIXED, N_MIXED, RVIT_F32, 1);
        c.images.max_rows = 130;
        c.with_staging = round % 2;
        c.to_device = round % 3 == 0;
        call_prepare(&c, images);
        for (int i = 0; i < 40; i++) {
            const int64_t entries = RVIT_IMAGE_ENTRIES(N_MIXED), n = entries + N_MIXED * RVIT_IMAGE_ENTRY_WORDS + 300;
            const int64_t at = random_below(4) == 0 ? random_below((int32_t)n) : entries + random_below((int32_t)(n - entries));
            static const int32_t values[] = {0, -1, INT32_MAX, INT32_MIN, 1, 1 << 20};
            const int32_t value = random_below(2) == 0 ? values[random_below(6)] : (int32_t)random_bits();
            if (at < RVIT_IMAGE_LEVELS || at >= RVIT_IMAGE_ROW_STARTS)
                memcpy(c.source->host + 4 * at, &value, 4);
        }
        arrays_upload();
        for (side s = 0; (int)s < H.n_sides; s++)
            (void)call_run(&c, s);
        harness_teardown(NULL);
    }
}

/* A call that works. */
void good_preprocess(rvit_preprocess_args *a)
{
    rvit_image image = packed_image(RVIT_IMAGE_RGB8, 9, 7, 0);
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    rvit_images_args images = RVIT_IMAGES_ARGS_INIT;
    recipe.height = recipe.width = 8;
    recipe.std[0] = recipe.std[1] = recipe.std[2] = 1;
    images.recipe = &recipe;
    images.images = &image;
    images.n_images = images.max_images = 1;
    images.max_rows = 4;
    images.patch_size = 4;
    int64_t size;
    expect_ok(rvit_images_write(&images, NULL, 0, &size));
    uint8_t *region = scratch((size_t)size + 16);
    region += (16 - (uintptr_t)region % 16) % 16;
    expect_ok(rvit_images_write(&images, region, size, &size));
    a->n_images = 1;
    a->rows = 4;
    a->patch_size = 4;
    a->source_size = size;
    a->pixels_size = 64;
    a->source = good_input("source", size);
    memcpy(array_of(a->source.buffer)->host, region, (size_t)size);
    a->pixels = good_input("pixels", 64);
    a->staging = good_output("staging", size);
    a->out = good_output("out", 4 * 48 * 4);
    a->cu_seqlens = good_output("cu_seqlens", 8);
    a->grids = good_output("grids", 8);
}

SUITE(preprocess_suite, TEST(preprocess_equals_pillow), TEST(preprocess_batches), TEST(preprocess_nv12), TEST(preprocess_nv12_as_ffmpeg),
      TEST(preprocess_planar), TEST(preprocess_copies), TEST(prepare_refusals), TEST(preprocess_bad_images), TEST(preprocess_garbage));
