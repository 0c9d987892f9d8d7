#include "good_ops.h"
#include "ops.h"

typedef struct layout_case {
    int32_t n_images, live, n_prefix, merge; /* live -1: not given */
    int32_t max_len, rows, patch_rows;       /* 0: what the grids need */
    const int32_t *grids;
    int with_patches, with_cells;
} layout_case;

static int32_t int_at(const uint8_t *data, int64_t i)
{
    int32_t value;
    memcpy(&value, data + i * 4, 4);
    return value;
}

static int64_t below(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A side as the op takes it. */
static int64_t side_of(int32_t given, int32_t merge)
{
    const int64_t clamped = given < 0 ? 0 : below(given, 32767);
    return merge == 2 ? clamped / 2 * 2 : clamped;
}

/* Cells are made by walking over the grid, as the patches are cut. */
static void check_image(const layout_case *c, const array *token_map, side s, int32_t image, int64_t first, int64_t patch_row, int64_t end)
{
    const int64_t height = side_of(c->grids[2 * image], c->merge), width = side_of(c->grids[2 * image + 1], c->merge);
    const int64_t block = c->merge == 2 ? 2 : 1;
    int64_t row = first, patch = patch_row;
    const int64_t grid = height * 65536 + width;
    for (int32_t k = 0; k < c->n_prefix && row < end; k++, row++) {
        const int32_t wanted[4] = {-1 - k, image, 0, (int32_t)grid};
        assert_memory_equal(token_map->result[s] + row * 16, wanted, 16);
    }
    for (int64_t top = 0; top < height && row < end; top += block)
        for (int64_t left = 0; left < width && row < end; left += block)
            for (int64_t y = top; y < top + block; y++)
                for (int64_t x = left; x < left + block && row < end; x++, row++) {
                    const int32_t wanted[4] = {(int32_t)patch++, image, (int32_t)(y * 65536 + x), (int32_t)grid};
                    if (memcmp(token_map->result[s] + row * 16, wanted, 16))
                        fail_msg("token_map: row %d of image %d is {%d, %d, %d, %d}, should be {%d, %d, %d, %d} (side %d)",
                                 (int)(row - first), image, int_at(token_map->result[s], row * 4),
                                 int_at(token_map->result[s], row * 4 + 1), int_at(token_map->result[s], row * 4 + 2),
                                 int_at(token_map->result[s], row * 4 + 3), wanted[0], wanted[1], wanted[2], wanted[3], (int)s);
                }
    assert_int_equal(row, end);
}

static void check(const layout_case *c, side s, const array *cu, const array *patch_cu, const array *token_map)
{
    const int32_t live = c->live == -1 ? c->n_images : c->live < 0 ? 0 : (int32_t)below(c->live, c->n_images);
    int64_t row = 0, patch_row = 0;
    for (int32_t i = 0; i <= c->n_images; i++) {
        if (int_at(cu->result[s], i) != row)
            fail_msg("cu_seqlens[%d] is %d, should be %d (side %d)", i, int_at(cu->result[s], i), (int)row, (int)s);
        if (patch_cu && int_at(patch_cu->result[s], i) != patch_row)
            fail_msg("patch_cu_seqlens[%d] is %d, should be %d (side %d)", i, int_at(patch_cu->result[s], i), (int)patch_row, (int)s);
        if (i >= live)
            continue;
        const int64_t patches = side_of(c->grids[2 * i], c->merge) * side_of(c->grids[2 * i + 1], c->merge);
        const int64_t end = below(row + below(patches ? patches + c->n_prefix : 0, c->max_len), c->rows);
        if (token_map)
            check_image(c, token_map, s, i, row, patch_row, end);
        row = end;
        patch_row = below(patch_row + patches, c->patch_rows ? c->patch_rows : c->rows);
    }
    if (token_map)
        array_expect_untouched(token_map, s, row * 16);
}

static void run(const layout_case *c)
{
    array *grids = array_input("grids", c->n_images * 8), *cu = array_output("cu_seqlens", (c->n_images + 1) * 4);
    array *patch_cu = c->with_patches ? array_output("patch_cu_seqlens", (c->n_images + 1) * 4) : NULL;
    array *token_map = c->with_cells ? array_output("token_map", c->rows * 16) : NULL, *live = c->live == -1 ? NULL : array_live(c->live);
    memcpy(grids->host, c->grids, (size_t)c->n_images * 8);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_layout_args args = RVIT_GRID_LAYOUT_ARGS_INIT;
        args.n_images = c->n_images;
        args.n_prefix = c->n_prefix;
        args.max_len = c->max_len;
        args.merge = c->merge;
        args.rows = c->rows;
        args.patch_rows = c->patch_rows;
        args.live_images = array_view(live, s);
        args.grids = array_view(grids, s);
        args.cu_seqlens = array_view(cu, s);
        args.patch_cu_seqlens = array_view(patch_cu, s);
        args.token_map = array_view(token_map, s);
        if (!supported(s, "grid_layout", rvit_grid_layout(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        check(c, s, cu, patch_cu, token_map);
    }
    harness_teardown(NULL);
}

static void grid_layout_variants(void **state)
{
    (void)state;
    static const int32_t counts[] = {0, 1, 2, 31, 128, 129, 700}, prefixes[] = {0, 1, 5};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int p = 0; p < 3; p++)
            for (int merge = 0; merge <= 2; merge++) {
                if (leaves_out((int)i + p + merge, 2))
                    continue;
                int32_t *grids = scratch((size_t)(2 * counts[i] + 1) * 4);
                layout_case c = {.n_images = counts[i],
                                 .live = p == 1 ? counts[i] / 2 : -1,
                                 .n_prefix = prefixes[p],
                                 .merge = merge,
                                 .max_len = 1000,
                                 .grids = grids,
                                 .with_patches = p != 2,
                                 .with_cells = merge != 1 || p == 2};
                for (int32_t image = 0; image < c.n_images; image++) {
                    grids[2 * image] = (1 + (merge == 2)) * random_below(c.n_images > 500 ? 4 : 14);
                    grids[2 * image + 1] = (1 + (merge == 2)) * random_below(c.n_images > 500 ? 4 : 14);
                    const int32_t patches = grids[2 * image] * grids[2 * image + 1];
                    c.rows += patches ? patches + c.n_prefix : 0;
                }
                c.rows += p == 0 ? 3 : 0;
                run(&c);
            }
}

/* What no caller should give: nothing is written past an array, and images that fit keep their rows. */
static void grid_layout_limits(void **state)
{
    (void)state;
    static const int32_t grids[][16] = {
        {2, 3, -1, 4, 3, 3, 4, -2147483647 - 1, 0, 5, 2, 2, 1, 1, -3, -3},
        {2147483647, 2147483647, 2147483647, 2147483647, 2147483647, 2147483647, 3, 3, 32767, 32768, 1, 2147483647, 2147483647, 1, 2, 2},
        {2, 2, 40000, 1, 3, 2, 9, 9, 5, 4, 1, 1, 30, 40, 2, 3},
        {5, 5, 3, 4, 1, 7, 2, 1, 1, 2, 7, 7, 3, 2, 0, 0}};
    static const int32_t limits[][3] = {{1000, 300, 0}, {1000, 300, 40}, {20, 300, 0}, {20, 33, 200}, {1, 10, 5}, {0, 10, 3}, {7, 0, 0}};
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++)
        for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++)
            for (int n_prefix = 0; n_prefix < 3; n_prefix += 2) {
                if (leaves_out((int)(g + l) + n_prefix / 2, 2))
                    continue;
                run(&(layout_case){.n_images = 8,
                                   .live = n_prefix ? 7 : -1,
                                   .n_prefix = n_prefix,
                                   .merge = 1 + (int)(l % 2),
                                   .max_len = limits[l][0],
                                   .rows = limits[l][1],
                                   .patch_rows = limits[l][2],
                                   .grids = grids[g],
                                   .with_patches = 1,
                                   .with_cells = 1});
            }
}

static void grid_layout_live_images(void **state)
{
    (void)state;
    static const int32_t lives[] = {0, 1, 3, 4, 1000000, -7}, grids[] = {2, 2, 1, 3, 0, 0, 4, 1};
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++)
        run(&(layout_case){
            .n_images = 4, .live = lives[i], .n_prefix = 1, .max_len = 5, .rows = 16, .grids = grids, .with_patches = 1, .with_cells = 1});
}

/* By hand: an image of 2 x 4 patches in blocks, and an empty one. */
static void grid_layout_vectors(void **state)
{
    (void)state;
    static const int32_t grids[] = {2, 4, 0, 7, 2, 2}, lengths[] = {0, 9, 9, 14}, patches[] = {0, 8, 8, 12};
    static const int32_t places[14] = {0, 0, 1, 65536, 65537, 2, 3, 65538, 65539, 0, 0, 1, 65536, 65537};
    array *in = array_input("grids", sizeof grids), *cu = array_output("cu_seqlens", 16), *patch_cu = array_output("patch_cu_seqlens", 16);
    array *token_map = array_output("token_map", 14 * 16);
    memcpy(in->host, grids, sizeof grids);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_layout_args args = RVIT_GRID_LAYOUT_ARGS_INIT;
        args.n_images = 3;
        args.n_prefix = 1;
        args.max_len = 9;
        args.merge = 2;
        args.rows = 14;
        args.grids = array_view(in, s);
        args.cu_seqlens = array_view(cu, s);
        args.patch_cu_seqlens = array_view(patch_cu, s);
        args.token_map = array_view(token_map, s);
        if (!supported(s, "grid_layout", rvit_grid_layout(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        assert_memory_equal(cu->result[s], lengths, sizeof lengths);
        assert_memory_equal(patch_cu->result[s], patches, sizeof patches);
        for (int t = 0; t < 14; t++) {
            assert_int_equal(int_at(token_map->result[s], 4 * t), t == 0 || t == 9 ? -1 : t < 9 ? t - 1 : t - 2);
            assert_int_equal(int_at(token_map->result[s], 4 * t + 1), t < 9 ? 0 : 2);
            assert_int_equal(int_at(token_map->result[s], 4 * t + 2), places[t]);
            assert_int_equal(int_at(token_map->result[s], 4 * t + 3), 2 * 65536 + (t < 9 ? 4 : 2));
        }
    }
}

static rvit_grid_layout_args good_args(array *grids, array *cu)
{
    rvit_grid_layout_args a = RVIT_GRID_LAYOUT_ARGS_INIT;
    a.n_images = 2;
    a.n_prefix = 1;
    a.max_len = 5;
    a.rows = 10;
    a.grids = array_view(grids, DEVICE);
    a.cu_seqlens = array_view(cu, DEVICE);
    return a;
}

static void grid_layout_refuses(void **state)
{
    (void)state;
    static const int32_t two[] = {2, 2, 1, 1};
    array *grids = array_input("grids", 16), *cu = array_output("cu_seqlens", 12), *token_map = array_output("token_map", 160);
    memcpy(grids->host, two, sizeof two);
    arrays_upload();
    const rvit_grid_layout_args good = good_args(grids, cu);
    if (!supported(DEVICE, "grid_layout", rvit_grid_layout(H.stream[DEVICE], &good)))
        return;
#define REFUSED(word, ...)                                                                     \
    do {                                                                                       \
        rvit_grid_layout_args args = good;                                                     \
        __VA_ARGS__;                                                                           \
        expect_status(rvit_grid_layout(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("n_images", args.n_images = -1);
    REFUSED("n_prefix", args.n_prefix = 1025);
    REFUSED("n_prefix", args.n_prefix = -1);
    REFUSED("max_len", args.max_len = -1);
    REFUSED("merge", args.merge = 3);
    REFUSED("merge", args.merge = -1);
    REFUSED("rows", args.rows = -1);
    REFUSED("patch_rows", args.patch_rows = -1);
    REFUSED("grids", args.grids.buffer = NULL);
    REFUSED("grids", args.n_images = 1000);
    REFUSED("cu_seqlens", args.cu_seqlens.buffer = NULL);
    REFUSED("token_map", args.token_map = array_view(token_map, DEVICE), args.rows = 1000);
    REFUSED("overlaps", args.patch_cu_seqlens = args.cu_seqlens);
#undef REFUSED
}

/* A call that works. */
void good_grid_layout(rvit_grid_layout_args *a)
{
    static const int32_t live = 2, grids[] = {1, 3, 2, 2, 0, 0};
    a->n_images = 3;
    a->n_prefix = 1;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->live_images = good_ints("live_images", &live, 1);
    a->grids = good_ints("grids", grids, 6);
    a->cu_seqlens = good_output("cu_seqlens", 16);
    a->patch_cu_seqlens = good_output("patch_cu_seqlens", 16);
    a->token_map = good_output("token_map", GOOD_ROWS * 16);
}

SUITE(grid_layout_suite, TEST(grid_layout_variants), TEST(grid_layout_limits), TEST(grid_layout_live_images), TEST(grid_layout_vectors),
      TEST(grid_layout_refuses));
