#include "good_ops.h"
#include "ops.h"

typedef struct patchify_case {
    rvit_dtype dtype;
    int32_t n_images, live, channels, height, width, patch_size, n_prefix; /* live -1: not given */
    int with_cu, crop;
    int by_size;            /* height, which is width, is given as image_size */
    int32_t padding, parts; /* parts: 0 or 2; padding: of each part */
} patchify_case;

static int32_t clamped_live(const patchify_case *c, int32_t given)
{
    if (c->live == -1)
        return c->n_images;
    return given < 0 ? 0 : given > c->n_images ? c->n_images : given;
}

static int32_t tokens_of(const patchify_case *c)
{
    return c->n_prefix + c->height / c->patch_size * (c->width / c->patch_size);
}

static void check(const patchify_case *c, side s, const array *images, const array *out, const array *cu)
{
    const int32_t grid = c->width / c->patch_size, tokens = tokens_of(c), live = clamped_live(c, c->live);
    const int32_t area = c->patch_size * c->patch_size, width = c->channels * area, part = width + c->padding;
    const int32_t stride = c->parts == 2 ? 2 * part : part;
    for (int32_t i = 0; i < live; i++)
        for (int32_t t = 0; t < tokens; t++)
            for (int32_t k = 0; k < stride; k++) {
                float wanted = 0;
                const int32_t v = k % part;
                if (t >= c->n_prefix && v < width) {
                    const int32_t patch = t - c->n_prefix, y = patch / grid * c->patch_size + v % area / c->patch_size;
                    const int32_t x = patch % grid * c->patch_size + v % c->patch_size;
                    const int64_t at = (((int64_t)i * c->channels + v / area) * c->height + y) * c->width + x;
                    const float pixel = load(RVIT_F32, images->host, at);
                    wanted = rounded(c->dtype, pixel);
                    if (k >= part)
                        wanted = rounded(c->dtype, pixel - wanted);
                }
                const float got = load(c->dtype, out->result[s], ((int64_t)i * tokens + t) * stride + k);
                if (memcmp(&wanted, &got, 4))
                    fail_msg("patchify %s: image %d, row %d, column %d is %g, should be %g (side %d)",
                             rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), i, t, k, (double)got, (double)wanted, (int)s);
            }
    array_expect_untouched(out, s, (int64_t)live * tokens * stride * rvit_dtype_size(c->dtype));
    for (int32_t i = 0; cu && i <= c->n_images; i++) {
        int32_t got;
        memcpy(&got, cu->result[s] + i * 4, 4);
        assert_int_equal(got, (i < live ? i : live) * tokens);
    }
}

static void run(const patchify_case *c)
{
    const int64_t tokens = tokens_of(c), pixels = (int64_t)c->channels * c->height * c->width;
    const int64_t width = ((int64_t)c->channels * c->patch_size * c->patch_size + c->padding) * (c->parts == 2 ? 2 : 1);
    array *images = array_input("images", c->n_images * pixels * 4);
    array *out = array_output("out", c->n_images * tokens * width * rvit_dtype_size(c->dtype));
    array *cu = c->with_cu ? array_output("cu_seqlens", (c->n_images + 1) * 4) : NULL;
    array *live = c->live == -1 ? NULL : array_live(c->live);
    store_normal(RVIT_F32, images->host, 0, clamped_live(c, c->live) * pixels, 1);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_patchify_args args = RVIT_PATCHIFY_ARGS_INIT;
        args.dtype = c->dtype;
        args.n_images = c->n_images;
        args.live_images = array_view(live, s);
        args.channels = c->channels;
        args.image_size = c->by_size ? c->height : 0;
        args.image_height = c->by_size ? 0 : c->height;
        args.image_width = c->by_size ? 0 : c->width;
        args.crop = c->crop;
        args.split = c->parts;
        args.out_stride = c->padding > 0 ? (int32_t)width : 0;
        args.patch_size = c->patch_size;
        args.n_prefix = c->n_prefix;
        args.images = array_view(images, s);
        args.out = array_view(out, s);
        args.cu_seqlens = array_view(cu, s);
        if (!supported(s, type_feature(c->dtype), rvit_patchify(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        check(c, s, images, out, cu);
    }
    harness_teardown(NULL);
}

static void patchify_variants(void **state)
{
    (void)state;
    /* channels, height, width, patch size, crop; in the last ones lines are cut off, and rows begin at any multiple of 4 bytes */
    static const int32_t shapes[][5] = {{3, 32, 32, 16},    {3, 64, 64, 16},    {1, 28, 28, 14},  {4, 12, 12, 2},   {3, 48, 48, 8},
                                        {2, 16, 16, 16},    {3, 16, 48, 16},    {2, 56, 28, 14},  {1, 30, 6, 2},    {3, 32, 32, 16, 1},
                                        {3, 33, 46, 14, 1}, {3, 50, 35, 16, 1}, {2, 8, 29, 8, 1}, {1, 31, 31, 2, 1}};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (int n_prefix = 0; n_prefix < 3; n_prefix++) {
                if (leaves_out(t + (int)i + n_prefix, 2))
                    continue;
                patchify_case c = {.dtype = stored_types[t],
                                   .n_images = 3,
                                   .live = -1,
                                   .channels = shapes[i][0],
                                   .height = shapes[i][1],
                                   .width = shapes[i][2],
                                   .patch_size = shapes[i][3],
                                   .n_prefix = n_prefix,
                                   .with_cu = n_prefix != 1,
                                   .crop = shapes[i][4],
                                   .by_size = shapes[i][1] == shapes[i][2],
                                   .padding = i % 3 == 2 ? 4 + 2 * (int32_t)(i % 2) : 0};
                run(&c);
                c.parts = 2;
                if (c.dtype != RVIT_F32)
                    run(&c);
            }
}

static void patchify_live_images(void **state)
{
    (void)state;
    static const int32_t lives[] = {0, 1, 4, 5, 6, 1000000, -7};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
            const patchify_case c = {.dtype = stored_types[t],
                                     .n_images = 5,
                                     .live = lives[i],
                                     .channels = 3,
                                     .height = 32,
                                     .width = 24,
                                     .patch_size = 8,
                                     .n_prefix = 1,
                                     .with_cu = 1};
            run(&c);
        }
    const patchify_case none = {
        .dtype = RVIT_F32, .live = -1, .channels = 3, .height = 32, .width = 32, .patch_size = 8, .n_prefix = 1, .with_cu = 1};
    run(&none);
}

/* L1: the pixel at (c, y, x) holds c * 65536 + y * 256 + x. */
static void patchify_vectors(void **state)
{
    (void)state;
    array *images = array_input("images", 3 * 32 * 32 * 4), *out = array_output("out", 4 * 768 * 4);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < 32; y++)
            for (int x = 0; x < 32; x++)
                store(RVIT_F32, images->host, (c * 32 + y) * 32 + x, (float)(c * 65536 + y * 256 + x));
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_patchify_args args = RVIT_PATCHIFY_ARGS_INIT;
        args.n_images = 1;
        args.channels = 3;
        args.image_size = 32;
        args.patch_size = 16;
        args.images = array_view(images, s);
        args.out = array_view(out, s);
        expect_ok(rvit_patchify(H.stream[s], &args));
        arrays_fetch(s);
        assert_true(load(RVIT_F32, out->result[s], 768) == 16);
        assert_true(load(RVIT_F32, out->result[s], 768 + 17) == 273);
        assert_true(load(RVIT_F32, out->result[s], 768 + 256) == 65552);
        assert_true(load(RVIT_F32, out->result[s], 2 * 768) == 4096);
    }
}

/* A call that works. */
void good_patchify(rvit_patchify_args *a)
{
    static const int32_t live = 1;
    a->n_images = 2;
    a->channels = 3;
    a->image_size = 8;
    a->patch_size = 4;
    a->n_prefix = 1;
    a->live_images = good_ints("live_images", &live, 1);
    a->images = good_input("images", 2 * 3 * 64 * 4);
    a->out = good_output("out", 2 * 5 * 48 * 4);
    a->cu_seqlens = good_output("cu_seqlens", 12);
}

SUITE(patchify_suite, TEST(patchify_variants), TEST(patchify_live_images), TEST(patchify_vectors));
