/* Grid layout in merge groups and windows, against a loop over each image. */
#include "ops.h"

#include "good_ops.h"

typedef struct windows_case {
    int32_t n_images, live, merge, window, line_by_line; /* live -1: not given */
    int32_t max_len, rows, max_windows;
    const int32_t *grids;
} windows_case;

/* The expected outputs. */
typedef struct wanted {
    int32_t *cu, *patch_cu, *unit_cu, *window_cu, *group_rows, *cells;
    int64_t rows;
} wanted;

static int64_t below(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The rows of an image in their order, as long as they fit, and in starts the first row of each of its windows. */
static void walk(const windows_case *c, const wanted *w, int32_t image, int64_t begin, int64_t end, int64_t patch_row, int64_t *n_windows)
{
    const int64_t m = c->merge, height = c->grids[2 * image] / m, width = c->grids[2 * image + 1] / m;
    const int64_t reach = c->window == 0 ? height + width + 1 : c->window;
    int64_t row = begin;
    for (int64_t top = 0; top < height; top += reach)
        for (int64_t left = 0; left < width; left += reach) {
            if (c->window > 0 && *n_windows <= c->max_windows)
                w->window_cu[*n_windows] = (int32_t)below(row, end);
            *n_windows += c->window > 0;
            for (int64_t y = top; y < below(top + reach, height); y++)
                for (int64_t x = left; x < below(left + reach, width); x++) {
                    const int64_t place = begin / (m * m) + y * width + x;
                    if (place < end / (m * m))
                        w->group_rows[place] = (int32_t)below(row / (m * m), end / (m * m) - 1);
                    for (int64_t inner = 0; inner < m * m; inner++, row++) {
                        const int64_t line = y * m + inner / m, column = x * m + inner % m;
                        const int64_t patch = c->line_by_line ? line * width * m + column : (y * width + x) * m * m + inner;
                        const int32_t cell[4] = {(int32_t)(patch_row + patch), image, (int32_t)(line * 65536 + column),
                                                 (int32_t)(height * m * 65536 + width * m)};
                        if (row < end)
                            memcpy(w->cells + 4 * row, cell, sizeof cell);
                    }
                }
        }
}

static wanted reference(const windows_case *c)
{
    const int64_t area = (int64_t)c->merge * c->merge, most = c->rows / area * area, longest = c->max_len / area * area;
    wanted w = {.cu = scratch(((size_t)c->n_images + 1) * 4),
                .patch_cu = scratch(((size_t)c->n_images + 1) * 4),
                .unit_cu = scratch(((size_t)c->n_images + 1) * 4),
                .window_cu = scratch(((size_t)c->max_windows + 1) * 4),
                .group_rows = scratch((size_t)(most / area + 1) * 4),
                .cells = scratch((size_t)(most + 1) * 16)};
    const int32_t live = c->live < 0 ? c->n_images : (int32_t)below(c->live, c->n_images);
    int64_t row = 0, patch_row = 0, window = 0;
    for (int32_t i = 0; i <= c->n_images; i++) {
        w.cu[i] = (int32_t)row;
        w.patch_cu[i] = (int32_t)patch_row;
        w.unit_cu[i] = (int32_t)(row / area);
        if (i >= live)
            continue;
        const int64_t patches = (int64_t)(c->grids[2 * i] / c->merge) * (c->grids[2 * i + 1] / c->merge) * area;
        const int64_t end = below(row + below(patches, longest), most);
        walk(c, &w, i, row, end, patch_row, &window);
        row = end;
        patch_row = below(patch_row + patches, most);
    }
    for (; window <= c->max_windows; window++)
        w.window_cu[window] = (int32_t)row;
    w.rows = row;
    return w;
}

static void expect_ints(const char *what, const array *got, side s, const int32_t *should, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t value;
        memcpy(&value, got->result[s] + 4 * i, 4);
        if (value != should[i])
            fail_msg("%s[%lld] is %d, should be %d (side %d)", what, (long long)i, value, should[i], (int)s);
    }
    array_expect_untouched(got, s, 4 * n);
}

static void run(const windows_case *c)
{
    const int64_t area = (int64_t)c->merge * c->merge;
    array *grids = array_input("grids", c->n_images * 8), *live = c->live < 0 ? NULL : array_live(c->live);
    array *cu = array_output("cu_seqlens", (c->n_images + 1) * 4), *patch_cu = array_output("patch_cu_seqlens", (c->n_images + 1) * 4);
    array *cells = array_output("cells", c->rows * 16), *unit_cu = array_output("group_cu_seqlens", (c->n_images + 1) * 4);
    array *window_cu = c->window > 0 ? array_output("window_cu_seqlens", (c->max_windows + 1) * 4) : NULL;
    array *group_rows = array_output("group_rows", c->rows / area * 4);
    memcpy(grids->host, c->grids, (size_t)c->n_images * 8);
    arrays_upload();
    const wanted w = reference(c);
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_layout_args args = RVIT_GRID_LAYOUT_ARGS_INIT;
        args.n_images = c->n_images;
        args.max_len = c->max_len;
        args.merge = c->merge;
        args.patch_merge = c->line_by_line;
        args.window = c->window;
        args.max_windows = c->max_windows;
        args.rows = c->rows;
        args.live_images = array_view(live, s);
        args.grids = array_view(grids, s);
        args.cu_seqlens = array_view(cu, s);
        args.patch_cu_seqlens = array_view(patch_cu, s);
        args.token_map = array_view(cells, s);
        args.group_cu_seqlens = array_view(unit_cu, s);
        args.window_cu_seqlens = array_view(window_cu, s);
        args.group_rows = array_view(group_rows, s);
        if (!supported(s, "grid_layout", rvit_grid_layout(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        expect_ints("cu_seqlens", cu, s, w.cu, c->n_images + 1);
        expect_ints("patch_cu_seqlens", patch_cu, s, w.patch_cu, c->n_images + 1);
        expect_ints("group_cu_seqlens", unit_cu, s, w.unit_cu, c->n_images + 1);
        expect_ints("cells", cells, s, w.cells, 4 * w.rows);
        expect_ints("group_rows", group_rows, s, w.group_rows, w.rows / area);
        if (window_cu != NULL)
            expect_ints("window_cu_seqlens", window_cu, s, w.window_cu, c->max_windows + 1);
    }
    harness_teardown(NULL);
}

/* Windows that a batch may have at most, as the header says. */
static int32_t most_windows(int64_t rows, int32_t n_images, int32_t merge, int32_t window)
{
    return window == 0 ? 0 : (int32_t)((rows / (merge * merge) + (int64_t)(window - 1) * n_images) / window);
}

static void grid_windows_variants(void **state)
{
    (void)state;
    static const int32_t counts[] = {0, 1, 3, 31, 300}, windows[] = {0, 1, 2, 3, 4, 16384};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof windows / sizeof *windows; k++)
            for (int32_t merge = 1; merge <= 2; merge++) {
                if (leaves_out((int64_t)(i + k) + merge, 2))
                    continue;
                int32_t *grids = scratch((size_t)(2 * counts[i] + 1) * 4), *at = grids;
                windows_case c = {.n_images = counts[i],
                                  .live = k == 2 ? counts[i] / 2 : -1,
                                  .merge = merge,
                                  .window = windows[k],
                                  .line_by_line = k % 2 != 0,
                                  .max_len = 4000,
                                  .grids = grids};
                for (int32_t image = 0; image < c.n_images; image++, at += 2) {
                    at[0] = merge * random_below(c.n_images > 100 ? 6 : 14);
                    at[1] = merge * random_below(c.n_images > 100 ? 6 : 14);
                    c.rows += at[0] * at[1];
                }
                c.rows += merge * merge * random_below(2);
                c.max_windows = most_windows(c.rows, c.n_images, merge, c.window);
                run(&c);
            }
}

/* Thin images have the most windows: no batch has more than the header says. */
static void grid_windows_capacity(void **state)
{
    (void)state;
    for (int32_t height = 1; height < 12; height++)
        for (int32_t width = 1; width < 12; width++)
            for (int32_t window = 1; window < 6; window++) {
                const int32_t n = ((height + window - 1) / window) * ((width + window - 1) / window);
                assert_true(n <= most_windows((int64_t)height * width, 1, 1, window));
            }
}

/* What does not fit is left out, and no array is left. */
static void grid_windows_limits(void **state)
{
    (void)state;
    static const int32_t grids[] = {4, 6, 7, 9, 12, 2, 2, 2},
                         limits[][3] = {{1000, 60, 100}, {22, 200, 100}, {1000, 200, 3}, {3, 200, 9}, {1000, 3, 0}, {23, 45, 1}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int32_t window = 0; window <= 2; window += 2)
            run(&(windows_case){.n_images = 4,
                                .live = -1,
                                .merge = 2,
                                .window = window,
                                .max_len = limits[i][0],
                                .rows = limits[i][1],
                                .max_windows = limits[i][2],
                                .grids = grids});
}

/* By hand: windows of 2 x 2 units of images of 4 x 6 and 6 x 10 patches. */
static void grid_windows_vectors(void **state)
{
    (void)state;
    static const int32_t grids[] = {4, 6, 6, 10}, starts[] = {0, 16, 24, 40, 56, 64, 72, 80, 84, 84};
    static const int32_t units[] = {0, 1, 4, 2, 3, 5, 6, 7, 10, 11, 14, 8, 9, 12, 13, 15, 16, 17, 18, 19, 20};
    array *in = array_input("grids", sizeof grids), *cu = array_output("cu_seqlens", 12), *window_cu = array_output("windows", 40);
    array *group_rows = array_output("group_rows", 84);
    memcpy(in->host, grids, sizeof grids);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_layout_args args = RVIT_GRID_LAYOUT_ARGS_INIT;
        args.n_images = 2;
        args.max_len = args.rows = 84;
        args.merge = args.window = 2;
        args.max_windows = 9;
        args.grids = array_view(in, s);
        args.cu_seqlens = array_view(cu, s);
        args.window_cu_seqlens = array_view(window_cu, s);
        args.group_rows = array_view(group_rows, s);
        if (!supported(s, "grid_layout", rvit_grid_layout(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        expect_ints("window_cu_seqlens", window_cu, s, starts, 10);
        expect_ints("group_rows", group_rows, s, units, 21);
    }
}

static void grid_windows_refused(void **state)
{
    (void)state;
    array *grids = array_input("grids", 16), *cu = array_output("cu_seqlens", 12), *more = array_output("more", 64);
    arrays_upload();
    rvit_grid_layout_args good = RVIT_GRID_LAYOUT_ARGS_INIT;
    good.n_images = 2;
    good.max_len = good.rows = 16;
    good.merge = good.window = 2;
    good.max_windows = 3;
    good.grids = array_view(grids, DEVICE);
    good.cu_seqlens = array_view(cu, DEVICE);
    good.window_cu_seqlens = array_view(more, DEVICE);
#define REFUSED(word, change)                                                                  \
    do {                                                                                       \
        rvit_grid_layout_args args = good;                                                     \
        change;                                                                                \
        expect_status(rvit_grid_layout(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("window", args.window = -1);
    REFUSED("window", args.window = 16385);
    REFUSED("window_cu_seqlens is given, but window is 0", args.window = 0);
    REFUSED("max_windows", args.max_windows = -1);
    REFUSED("window_cu_seqlens", args.max_windows = 1000);
    REFUSED("patch_merge", args.patch_merge = 2);
    REFUSED("window is above 0, but n_prefix is 1", args.n_prefix = 1);
    REFUSED("group_cu_seqlens or group_rows is given, but n_prefix is 2",
            (args.n_prefix = 2, args.window = 0, args.window_cu_seqlens.buffer = NULL, args.group_cu_seqlens = array_view(more, DEVICE)));
    REFUSED("group_rows", (args.group_rows = array_view(more, DEVICE), args.window_cu_seqlens.buffer = NULL, args.rows = 1000));
#undef REFUSED
}

SUITE(grid_windows_suite, TEST(grid_windows_variants), TEST(grid_windows_capacity), TEST(grid_windows_limits), TEST(grid_windows_vectors),
      TEST(grid_windows_refused));
