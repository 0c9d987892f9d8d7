/* Tests the session's cache of resampling axes: results have the same bytes as without it, and the right entries are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/image/images.h"

static rvit_image_axes *new_axes(void)
{
    rvit_image_axes *axes = calloc(1, sizeof *axes);
    assert_non_null(axes);
    return axes;
}

static const rvit_image_window first = {{RVIT_RESIZE_BICUBIC, 640, 331}, 53, 224};

/* Whether the axis was in the cache: changes the first word of each cached axis, and checks whether it is in the output. */
static int was_cached(rvit_image_axes *axes, const rvit_image_window *window, int torch)
{
    static int32_t plain[1 << 17], got[1 << 17];
    const int64_t n = rvit_image_axis_words(window);
    assert_true(n <= 1 << 17);
    const int32_t bits = rvit_image_axis_write(NULL, window, torch, plain);
    for (int i = 0; i < RVIT_IMAGE_AXES_KEPT; i++)
        axes->kept[i].words[0] += 1 << 20;
    assert_int_equal(rvit_image_axis_write(axes, window, torch, got), bits);
    const int had = got[0] - plain[0] == 1 << 20;
    assert_true(had || got[0] == plain[0]);
    assert_memory_equal(got + 1, plain + 1, 4 * (size_t)(n - 1));
    for (int i = 0; i < RVIT_IMAGE_AXES_KEPT; i++)
        axes->kept[i].words[0] -= axes->kept[i].used == axes->clock && !had ? 0 : 1 << 20;
    return had;
}

static void axes_are_cached(void **state)
{
    (void)state;
    rvit_image_axes *axes = new_axes();
    assert_false(was_cached(axes, &first, 0));
    assert_true(was_cached(axes, &first, 0));
    assert_true(was_cached(axes, &first, 0));
    free(axes);
}

/* Axes that differ in any number that determines the weights are separate entries. */
static void other_axes_differ(void **state)
{
    (void)state;
    rvit_image_axes *axes = new_axes();
    rvit_image_window others[5] = {first, first, first, first, first};
    others[0].axis.filter = RVIT_RESIZE_BILINEAR;
    others[1].axis.in_size++;
    others[2].axis.full_size++;
    others[3].start++;
    others[4].n_outputs--;
    assert_false(was_cached(axes, &first, 0));
    assert_false(was_cached(axes, &first, 1));
    for (int i = 0; i < 5; i++)
        assert_false(was_cached(axes, &others[i], 0));
    for (int i = 0; i < 5; i++)
        assert_true(was_cached(axes, &others[i], 0));
    assert_true(was_cached(axes, &first, 0));
    assert_true(was_cached(axes, &first, 1));
    free(axes);
}

static void least_recently_used_is_replaced(void **state)
{
    (void)state;
    rvit_image_axes *axes = new_axes();
    rvit_image_window window = first;
    for (int i = 0; i < RVIT_IMAGE_AXES_KEPT; i++) {
        window.axis.in_size = 640 + i;
        assert_false(was_cached(axes, &window, 0));
    }
    assert_true(was_cached(axes, &first, 0));
    window.axis.in_size = 500;
    assert_false(was_cached(axes, &window, 0)); /* replaces 641 */
    assert_true(was_cached(axes, &first, 0));
    window.axis.in_size = 642;
    assert_true(was_cached(axes, &window, 0));
    window.axis.in_size = 641;
    assert_false(was_cached(axes, &window, 0));
    free(axes);
}

static void long_axes_are_not_cached(void **state)
{
    (void)state;
    rvit_image_axes *axes = new_axes();
    rvit_image_window window = first;
    window.axis.in_size = 40000;
    window.axis.full_size = 448;
    assert_true(rvit_image_axis_words(&window) > RVIT_IMAGE_AXIS_KEPT_WORDS);
    assert_false(was_cached(axes, &window, 0));
    assert_false(was_cached(axes, &window, 0));
    assert_int_equal(axes->clock, 0);
    free(axes);
}

/* The written data of several batches with different sizes is the same as without the cache. */
static void same_data_as_without_cache(void **state)
{
    (void)state;
    enum { N = 6, ROOM = 4 << 20 };
    static const int32_t sizes[][2] = {{64, 48}, {48, 64}, {300, 20}, {9, 9}, {640, 480}, {101, 67}, {64, 48}, {33, 200}};
    rvit_image_axes *axes = new_axes();
    uint8_t *plain = aligned_alloc(64, ROOM), *got = aligned_alloc(64, ROOM), *pixels = calloc(1, 640 * 480 * 3);
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.height = recipe.width = 32;
    recipe.resize_height = recipe.resize_width = 36;
    recipe.std[0] = recipe.std[1] = recipe.std[2] = 1;
    for (int run = 0; run < 24; run++) {
        rvit_image images[N];
        rvit_images_args args = RVIT_IMAGES_ARGS_INIT;
        int64_t plain_size, got_size;
        recipe.processor = run % 5 == 4 ? RVIT_PROCESSOR_HF : RVIT_PROCESSOR_TIMM;
        recipe.filter = run % 7 == 6 ? RVIT_FILTER_BILINEAR : RVIT_FILTER_BICUBIC;
        for (int i = 0; i < N; i++) {
            images[i] = (rvit_image)RVIT_IMAGE_INIT;
            images[i].width = sizes[(run / 2 + i) % 8][0];
            images[i].height = sizes[(run / 2 + i) % 8][1];
            images[i].target_width = images[i].target_height = i == 3 ? 64 : 0;
            images[i].data = pixels;
        }
        args.recipe = &recipe;
        args.images = images;
        args.n_images = args.max_images = 1 + run % N;
        args.max_rows = 1000;
        args.patch_size = 8;
        memset(plain, 0xee, ROOM);
        memset(got, 0xee, ROOM);
        assert_int_equal(rvit_images_write(&args, plain, ROOM, &plain_size), RVIT_OK);
        assert_int_equal(rvit_images_write_with(&args, axes, got, ROOM, &got_size), RVIT_OK);
        assert_int_equal(plain_size, got_size);
        assert_memory_equal(plain, got, ROOM);
    }
    assert_true(axes->clock > 0);
    free(axes);
    free(plain);
    free(got);
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(axes_are_cached), cmocka_unit_test(other_axes_differ),
                                       cmocka_unit_test(least_recently_used_is_replaced), cmocka_unit_test(long_axes_are_not_cached),
                                       cmocka_unit_test(same_data_as_without_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
