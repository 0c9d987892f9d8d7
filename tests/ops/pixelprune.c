#include "good_ops.h"
#include "ops.h"

#include <math.h>

typedef struct prune_case {
    int32_t n_images, n_prefix, merge, columns, channels, interleaved, padding_rows, padding_stride, patch_merge, window;
    float limits[4];
    const int32_t *grids;
    const char *pixels; /* a letter for each patch, which determines its values; NULL: random */
    const char *wanted; /* a mark for each patch, or NULL */
} prune_case;

/* The patches of an image, a grid of small images. */
typedef struct cell_grid {
    const prune_case *c;
    const float *pixels; /* [lines, columns, values of a patch] */
    int32_t height, width;
    uint8_t *keep;
    int32_t *source; /* number of the patch that reconstructs each */
} cell_grid;

static int64_t cell_values(const prune_case *c)
{
    return (int64_t)c->columns * c->merge * c->merge;
}

static int is_reconstructed(const prune_case *c)
{
    return c->limits[0] > 0 || c->limits[1] > 0 || c->limits[2] > 0 || c->limits[3] > 0;
}

static int alike(const cell_grid *g, int32_t x, int32_t y)
{
    const prune_case *c = g->c;
    for (int64_t i = 0; i < cell_values(c); i++) {
        const int64_t in_patch = i % c->columns;
        const int64_t channel = c->interleaved ? in_patch % c->channels : in_patch / (c->columns / c->channels);
        const float a = g->pixels[x * cell_values(c) + i], b = g->pixels[y * cell_values(c) + i];
        if (!(a == b) && !(fabsf(a - b) <= c->limits[channel]))
            return 0;
    }
    return 1;
}

static void expected(cell_grid *g)
{
    for (int32_t y = 0; y < g->height; y++)
        for (int32_t x = 0; x < g->width; x++) {
            const int32_t own = y * g->width + x;
            int32_t prediction = -1;
            const int32_t left = x > 0 ? g->source[own - 1] : -1, above = y > 0 ? g->source[own - g->width] : -1;
            if (left >= 0 && above >= 0) {
                const int32_t corner = g->source[own - g->width - 1];
                prediction = alike(g, corner, left) && !alike(g, corner, above) ? above : left;
            } else {
                prediction = left >= 0 ? left : above;
            }
            g->keep[own] = prediction < 0 || !alike(g, own, prediction);
            g->source[own] = g->keep[own] || !is_reconstructed(g->c) ? own : prediction;
        }
}

/* Few values, so that neighbours are often alike, and steps of a fraction of a limit, so that reconstructions differ from pixels. */
static float value_of(const prune_case *c, int32_t cell, int64_t i, uint32_t letter)
{
    if (c->pixels != NULL)
        return c->pixels[cell] == '?' && i == 0 ? NAN : (float)c->pixels[cell] + (float)(i % 5);
    return (float)(i % 7) + 0.25f * (float)(letter & 3) + (letter >> 2 == 1 && i == cell_values(c) - 1 ? 0.125f : 0);
}

static void set_int(uint8_t *to, int64_t at, int32_t value)
{
    memcpy(to + at * 4, &value, 4);
}

typedef struct prune_arrays {
    array *cu, *token_map, *pixels, *keep, *sources, *group_rows;
    int64_t rows, patch_rows; /* in use */
    uint8_t *wanted;
    int32_t *wanted_sources;
} prune_arrays;

/* One image: its pixels, its token_map and what is expected of it. */
static void fill_image(const prune_case *c, prune_arrays *a, int32_t image, int64_t row, int64_t patch_row, const char **pattern)
{
    const int32_t merge = c->merge, area = merge * merge;
    prune_case own = *c;
    own.pixels = *pattern;
    cell_grid g = {.c = &own, .height = c->grids[2 * image] / merge, .width = c->grids[2 * image + 1] / merge};
    const int32_t n = g.height * g.width;
    float *pixels = scratch((size_t)(n * cell_values(c) + 1) * sizeof *pixels);
    g.keep = scratch((size_t)n + 1);
    g.source = scratch(((size_t)n + 1) * sizeof *g.source);
    for (int32_t cell = 0; cell < n; cell++) {
        const uint32_t letter = random_bits() % 3 ? 0 : random_bits() % 16;
        for (int64_t i = 0; i < cell_values(c); i++)
            pixels[cell * cell_values(c) + i] = value_of(&own, cell, i, letter);
    }
    g.pixels = pixels;
    expected(&g);
    const int64_t first = row + c->n_prefix;
    int32_t *order = scratch(((size_t)n + 1) * sizeof *order); /* of each cell, its number among the rows */
    const int32_t window = c->window > 0 ? c->window : n + 1;
    int32_t next = 0;
    for (int32_t top = 0; top < g.height; top += window)
        for (int32_t left = 0; left < g.width; left += window)
            for (int32_t y = top; y < top + window && y < g.height; y++)
                for (int32_t x = left; x < left + window && x < g.width; x++)
                    order[y * g.width + x] = next++;
    assert_int_equal(next, n);
    memset(a->wanted + row, 1, (size_t)c->n_prefix);
    for (int32_t k = 0; n > 0 && k < c->n_prefix; k++)
        set_int(a->token_map->host, 4 * (row + k), -1 - k);
    for (int32_t cell = 0; cell < n; cell++) {
        const int32_t top = cell / g.width * merge, left = cell % g.width * merge, width = g.width * merge;
        if (a->group_rows != NULL)
            set_int(a->group_rows->host, row / area + cell, (int32_t)(row / area) + order[cell]);
        for (int32_t p = 0; p < area; p++) {
            const int64_t at = first + (int64_t)order[cell] * area + p;
            const int32_t y = top + p / merge, x = left + p % merge;
            const int64_t patch = patch_row + (c->patch_merge ? y * width + x : cell * area + p);
            const int32_t of = g.source[cell];
            const int32_t first_of = c->patch_merge ? of / g.width * merge * width + of % g.width * merge : of * area;
            set_int(a->token_map->host, 4 * at, (int32_t)patch);
            set_int(a->token_map->host, 4 * at + 1, image);
            set_int(a->token_map->host, 4 * at + 2, y * 65536 + x);
            set_int(a->token_map->host, 4 * at + 3, c->grids[2 * image] * 65536 + c->grids[2 * image + 1]);
            a->wanted[at] = g.keep[cell];
            a->wanted_sources[patch] = p == 0 ? (int32_t)patch_row + first_of : -1;
            memcpy(a->pixels->host + patch * (c->columns + c->padding_stride) * 4, pixels + cell * cell_values(c) + p * c->columns,
                   (size_t)c->columns * 4);
        }
    }
    if (*pattern != NULL)
        *pattern += n;
}

static rvit_pixelprune_args args_of(const prune_case *c, const prune_arrays *a, side s, int32_t max_len)
{
    rvit_pixelprune_args args = RVIT_PIXELPRUNE_ARGS_INIT;
    args.n_images = c->n_images;
    args.n_prefix = c->n_prefix;
    args.max_len = max_len;
    args.merge = c->merge;
    args.rows = a->rows + c->padding_rows;
    args.patch_rows = a->patch_rows + c->padding_rows;
    args.columns = c->columns;
    args.channels = c->channels;
    args.interleaved = c->interleaved;
    memcpy(args.limits, c->limits, sizeof args.limits);
    args.stride = c->columns + c->padding_stride;
    args.cu_seqlens = array_view(a->cu, s);
    args.token_map = array_view(a->token_map, s);
    args.pixels = array_view(a->pixels, s);
    args.keep = array_view(a->keep, s);
    args.sources = array_view(a->sources, s);
    args.patch_merge = c->patch_merge;
    args.group_rows = array_view(a->group_rows, s);
    return args;
}

/* Returns how many of the patches are kept. */
static int64_t run(const prune_case *c)
{
    prune_arrays a = {.rows = 0};
    int32_t max_len = 0, *cu = scratch(((size_t)c->n_images + 1) * sizeof *cu);
    for (int32_t i = 0; i < c->n_images; i++) {
        const int32_t patches = c->grids[2 * i] * c->grids[2 * i + 1], len = patches == 0 ? 0 : patches + c->n_prefix;
        a.rows = cu[i + 1] = cu[i] + len;
        a.patch_rows += patches;
        max_len = len > max_len ? len : max_len;
    }
    const int64_t rows = a.rows + c->padding_rows, patch_rows = a.patch_rows + c->padding_rows;
    a.cu = array_input("cu_seqlens", 4 * ((int64_t)c->n_images + 1));
    a.token_map = array_input("token_map", 16 * rows);
    a.pixels = array_input("pixels", patch_rows * (c->columns + c->padding_stride) * 4);
    a.keep = array_output("keep", rows);
    a.sources = is_reconstructed(c) ? array_output("sources", 4 * patch_rows) : NULL;
    a.group_rows = c->window > 0 ? array_input("group_rows", 4 * (rows / (c->merge * c->merge))) : NULL;
    a.wanted = scratch((size_t)rows + 1);
    a.wanted_sources = scratch(((size_t)patch_rows + 1) * sizeof *a.wanted_sources);
    memcpy(a.cu->host, cu, 4 * ((size_t)c->n_images + 1));
    const char *pattern = c->pixels;
    int64_t patch_row = 0, kept = 0;
    for (int32_t i = 0; i < c->n_images; i++) {
        const int32_t patches = c->grids[2 * i] * c->grids[2 * i + 1];
        if (patches > 0)
            fill_image(c, &a, i, cu[i], patch_row, &pattern);
        patch_row += patches;
    }
    for (int64_t row = 0; c->wanted != NULL && row < a.rows; row++)
        assert_int_equal(a.wanted[row], c->wanted[row] == 'x');
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        const rvit_pixelprune_args args = args_of(c, &a, s, max_len);
        if (!supported(s, "pixelprune", rvit_pixelprune(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        for (int64_t row = 0; row < a.rows; row++)
            if (a.keep->result[s][row] != a.wanted[row])
                fail_msg("row %d of %d: %d, should be %d (side %d)", (int)row, (int)a.rows, a.keep->result[s][row], a.wanted[row], (int)s);
        array_expect_untouched(a.keep, s, a.rows);
        for (int64_t p = 0; a.sources != NULL && p < a.patch_rows; p++)
            if (a.wanted_sources[p] >= 0)
                assert_memory_equal(a.sources->result[s] + 4 * p, &a.wanted_sources[p], 4);
    }
    for (int64_t row = 0; row < a.rows; row++)
        kept += a.wanted[row];
    harness_teardown(NULL);
    return kept - (a.rows - a.patch_rows);
}

/* Grids of any shape, prefixes, blocks of 2 x 2, strides, channels in both orders. */
static void pixelprune_random(void **state)
{
    (void)state;
    static const int32_t grids[][2] = {{6, 10}, {2, 2}, {0, 4}, {2, 18}, {16, 2}, {8, 8}, {4, 0}, {20, 14}};
    static const float limits[][4] = {{0}, {0.25f, 0.25f, 0.25f}, {0, 0.5f, 0}, {0.125f, 0.25f, 0.375f}};
    int64_t kept = 0, patches = 0;
    for (int l = 0; l < 4; l++)
        for (int m = 1; m <= 2; m++)
            for (int i = 0; i < 2; i++)
                for (int p = 0; p < 3; p++) {
                    prune_case c = {.n_images = 8,
                                    .n_prefix = p == 1   ? 1
                                                : p == 2 ? 5
                                                         : 0,
                                    .merge = m,
                                    .channels = 3,
                                    .interleaved = i,
                                    .columns = p == 0   ? 12
                                               : p == 1 ? 48
                                                        : 300,
                                    .padding_rows = 3 * i,
                                    .padding_stride = p == 1 ? 8 : 0,
                                    .grids = grids[0]};
                    if (leaves_out(l + m + i + p, 2))
                        continue;
                    c.patch_merge = (l + p) % 2;
                    c.window = c.n_prefix > 0 ? 0 : 3 * i;
                    memcpy(c.limits, limits[l], sizeof c.limits);
                    kept += run(&c);
                    patches += 60 + 4 + 36 + 32 + 64 + 280;
                }
    printf("%d of %d patches kept\n", (int)kept, (int)patches);
    assert_true(kept > patches / 4 && kept < patches * 3 / 4); /* else the images test little */
}

/* Patterns with marks made by hand. */
static void pixelprune_patterns(void **state)
{
    (void)state;
    static const int32_t grid[] = {4, 5}, line[] = {1, 6}, column[] = {6, 1}, two[] = {2, 2, 2, 3};
    /* A rectangle on a ground: its corners, and where the ground goes on behind it. */
    run(&(prune_case){.n_images = 1,
                      .merge = 1,
                      .columns = 8,
                      .channels = 1,
                      .grids = grid,
                      .pixels = "aaaaa"
                                "abbba"
                                "abbba"
                                "aaaaa",
                      .wanted = "x...."
                                ".x..x"
                                "....."
                                ".x..."});
    /* A vertical edge is predicted from above, a horizontal one from the left. */
    run(&(prune_case){.n_images = 1,
                      .merge = 1,
                      .columns = 4,
                      .channels = 1,
                      .grids = grid,
                      .pixels = "aabbb"
                                "aabbb"
                                "ccccc"
                                "ccccc",
                      .wanted = "x.x.."
                                "....."
                                "x...."
                                "....."});
    run(&(prune_case){.n_images = 1, .merge = 1, .columns = 4, .channels = 1, .grids = line, .pixels = "aabbab", .wanted = "x.x.xx"});
    run(&(prune_case){.n_images = 1, .merge = 1, .columns = 4, .channels = 1, .grids = column, .pixels = "aabbab", .wanted = "x.x.xx"});
    /* Images do not see each other; prefix tokens stay. NaN is like nothing, not even itself. */
    run(&(prune_case){.n_images = 2,
                      .n_prefix = 1,
                      .merge = 1,
                      .columns = 4,
                      .channels = 1,
                      .grids = two,
                      .pixels = "aaaa"
                                "aaa??a",
                      .wanted = "xx..."
                                "xx..xxx"});
    /* a, b, c, d are steps of 1: with a limit of 1 b becomes a, so that c is new; pixels themselves would all be alike. */
    run(&(prune_case){
        .n_images = 1, .merge = 1, .columns = 4, .channels = 1, .limits = {1}, .grids = line, .pixels = "abcdef", .wanted = "x.x.x."});
    run(&(prune_case){
        .n_images = 1, .merge = 1, .columns = 4, .channels = 1, .limits = {2}, .grids = line, .pixels = "abcdef", .wanted = "x..x.."});
}

/* What floats are equal: 0 and -0, infinities; denormals are not 0. */
static void pixelprune_values(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0, 0x80000000u, 1, 1, 0x7f800000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7fc00000u, 0x3f800000u};
    static const uint8_t wanted[] = {1, 0, 1, 0, 1, 0, 1, 1, 1, 1};
    enum { N = sizeof bits / sizeof *bits };
    static const int32_t cu_values[] = {0, N};
    array *cu = array_input("cu_seqlens", 8), *token_map = array_input("token_map", 16 * N), *pixels = array_input("pixels", 16 * N);
    array *keep = array_output("keep", N);
    memcpy(cu->host, cu_values, 8);
    memset(pixels->host, 0, 16 * N);
    for (int32_t i = 0; i < N; i++) {
        const int32_t cell[4] = {i, 0, i, 65536 + N};
        memcpy(token_map->host + 16 * i, cell, 16);
        memcpy(pixels->host + 16 * i + 8, &bits[i], 4);
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_pixelprune_args args = RVIT_PIXELPRUNE_ARGS_INIT;
        args.n_images = 1;
        args.max_len = N;
        args.rows = N;
        args.columns = 4;
        args.cu_seqlens = array_view(cu, s);
        args.token_map = array_view(token_map, s);
        args.pixels = array_view(pixels, s);
        args.keep = array_view(keep, s);
        if (!supported(s, "pixelprune", rvit_pixelprune(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        assert_memory_equal(keep->result[s], wanted, N);
    }
}

static void pixelprune_refuses(void **state)
{
    (void)state;
    rvit_pixelprune_args good = RVIT_PIXELPRUNE_ARGS_INIT;
    good_pixelprune(&good);
    arrays_upload();
    if (!supported(DEVICE, "pixelprune", rvit_pixelprune(H.stream[DEVICE], &good)))
        return;
#define REFUSED(word, ...)                                                                    \
    do {                                                                                      \
        rvit_pixelprune_args args = good;                                                     \
        __VA_ARGS__;                                                                          \
        expect_status(rvit_pixelprune(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("n_images", args.n_images = -1);
    REFUSED("n_prefix", args.n_prefix = 1025);
    REFUSED("max_len", args.max_len = -1);
    REFUSED("merge", args.merge = 3);
    REFUSED("rows", args.rows = -1);
    REFUSED("patch_rows", args.patch_rows = -1);
    REFUSED("columns", args.columns = 0);
    REFUSED("columns", args.columns = 6);
    REFUSED("columns", args.channels = 3);
    REFUSED("channels", args.channels = 5);
    REFUSED("channels", args.channels = -1);
    REFUSED("interleaved", args.interleaved = 2);
    REFUSED("patch_merge", args.patch_merge = 2);
    REFUSED("group_rows", args.n_prefix = 1, args.group_rows = args.token_map);
    REFUSED("stride", args.stride = 4);
    REFUSED("stride", args.stride = 10);
    REFUSED("limits", args.limits[0] = -1);
    REFUSED("limits", args.limits[0] = NAN);
    REFUSED("limits", args.limits[0] = INFINITY);
    REFUSED("limits", args.limits[3] = 1);
    REFUSED("sources", args.sources.buffer = NULL);
    REFUSED("token_map", args.token_map.buffer = NULL);
    REFUSED("pixels", args.pixels.buffer = NULL);
    REFUSED("pixels", args.patch_rows = 1000);
    REFUSED("keep", args.keep.buffer = NULL);
    REFUSED("overlaps", args.keep = args.token_map);
#undef REFUSED
    rvit_pixelprune_args exact = good;
    exact.limits[0] = 0;
    exact.sources.buffer = NULL;
    expect_ok(rvit_pixelprune(H.stream[DEVICE], &exact));
}

/* A call that works. */
void good_pixelprune(rvit_pixelprune_args *a)
{
    int32_t token_map[GOOD_ROWS][4] = {{0}};
    for (int32_t i = 0; i < GOOD_ROWS; i++)
        token_map[i][0] = i;
    a->n_images = GOOD_IMAGES;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->columns = 8;
    a->channels = 2;
    a->limits[0] = 0.5f;
    a->cu_seqlens = good_lengths();
    a->token_map = good_ints("token_map", token_map[0], 4 * GOOD_ROWS);
    a->pixels = good_input("pixels", GOOD_ROWS * 8 * 4);
    a->keep = good_output("keep", GOOD_ROWS);
    a->sources = good_output("sources", GOOD_ROWS * 4);
}

SUITE(pixelprune_suite, TEST(pixelprune_random), TEST(pixelprune_patterns), TEST(pixelprune_values), TEST(pixelprune_refuses));
