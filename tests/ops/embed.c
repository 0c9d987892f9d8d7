#include "good_ops.h"
#include "ops.h"

#include "reference/plain.h"

typedef struct embed_case {
    rvit_dtype dtype;
    rvit_resample resample;
    int32_t table_height, table_width; /* 0: no table */
    int32_t dim, n_prefix, live, capacity;
    const int32_t *grids;
    int n_grids;
} embed_case;

/* Any rows in any order: row t is prefix token k, or patch `patch` at (y, x) of grid `grid`. */
typedef struct place {
    int32_t patch, grid, y, x;
} place;

typedef struct embed_arrays {
    array *token_map, *patches, *prefix, *table, *out, *live;
    place *places;
    int32_t patch_rows;
} embed_arrays;

static embed_arrays prepare(const embed_case *c)
{
    embed_arrays a = {.patch_rows = c->capacity + 3, .places = scratch((size_t)(c->capacity + 1) * sizeof *a.places)};
    const int64_t entries = (int64_t)c->table_height * c->table_width * c->dim;
    a.token_map = array_input("token_map", c->capacity * 16);
    a.patches = array_input("patches", (int64_t)a.patch_rows * c->dim * rvit_dtype_size(c->dtype));
    a.prefix = c->n_prefix ? array_input("prefix", (int64_t)c->n_prefix * c->dim * 4) : NULL;
    a.table = entries ? array_input("table", entries * 4) : NULL;
    a.out = array_output("out", (int64_t)c->capacity * c->dim * 4);
    a.live = c->live == c->capacity ? NULL : array_live(c->live);
    store_normal(c->dtype, a.patches->host, 0, (int64_t)a.patch_rows * c->dim, 1);
    if (a.prefix)
        store_normal(RVIT_F32, a.prefix->host, 0, (int64_t)c->n_prefix * c->dim, 1);
    if (a.table)
        store_normal(RVIT_F32, a.table->host, 0, entries, 1);
    for (int32_t t = 0; t < c->live; t++) {
        place *p = &a.places[t];
        p->grid = random_below(c->n_grids);
        const int32_t height = c->grids[2 * p->grid], width = c->grids[2 * p->grid + 1];
        p->y = random_below(height), p->x = random_below(width);
        p->patch = c->n_prefix && t % 5 == 0 ? -1 - random_below(c->n_prefix) : random_below(a.patch_rows);
        const int32_t cell[4] = {p->patch, p->grid, p->y * 65536 + p->x, height * 65536 + width};
        memcpy(a.token_map->host + t * 16, cell, 16);
    }
    arrays_upload();
    return a;
}

static rvit_status call(const embed_case *c, const embed_arrays *a, side s)
{
    rvit_embed_args args = RVIT_EMBED_ARGS_INIT;
    args.dtype = c->dtype;
    args.rows.capacity = c->capacity;
    args.rows.live = array_view(a->live, s);
    args.patch_rows = a->patch_rows;
    args.dim = c->dim;
    args.n_prefix = c->n_prefix;
    args.resample = c->resample;
    args.table_height = c->table_height;
    args.table_width = c->table_width;
    args.token_map = array_view(a->token_map, s);
    args.patches = array_view(a->patches, s);
    args.prefix = array_view(a->prefix, s);
    args.table = array_view(a->table, s);
    args.out = array_view(a->out, s);
    return rvit_embed(H.stream[s], &args);
}

static void expect_row(const char *what, const float *got, const float *wanted, int32_t dim, int32_t t, side s)
{
    if (memcmp(got, wanted, (size_t)dim * 4))
        fail_msg("embed: row %d is not %s, bit for bit (side %d)", t, what, (int)s);
}

static void check(const embed_case *c, const embed_arrays *a, side s)
{
    const int64_t dim = c->dim;
    double *exact = scratch((size_t)(c->live * dim + 1) * sizeof *exact);
    float *plain = scratch((size_t)(c->live * dim + 1) * 4), *got = loaded(RVIT_F32, a->out->result[s], 0, c->live * dim);
    int64_t n = 0;
    for (int32_t t = 0; t < c->live; t++) {
        const place p = a->places[t];
        const float *row = got + t * dim;
        if (p.patch < 0) {
            expect_row("a prefix token", row, (const float *)(const void *)a->prefix->host + (-1 - p.patch) * dim, c->dim, t, s);
            continue;
        }
        const float *patch = loaded(c->dtype, a->patches->host, p.patch * dim, dim);
        if (!a->table) {
            expect_row("its patch", row, patch, c->dim, t, s);
            continue;
        }
        const embed_problem problem = {.resample = c->resample,
                                       .table_height = c->table_height,
                                       .table_width = c->table_width,
                                       .dim = c->dim,
                                       .height = c->grids[2 * p.grid],
                                       .width = c->grids[2 * p.grid + 1],
                                       .y = p.y,
                                       .x = p.x,
                                       .table = (const float *)(const void *)a->table->host,
                                       .patch = patch};
        embed_f64(&problem, exact + n);
        embed_f32(&problem, plain + n);
        if (problem.height == c->table_height && problem.width == c->table_width)
            expect_row("its patch and the table's entry", row, plain + n, c->dim, t, s);
        memmove(got + n, row, (size_t)dim * 4);
        n += dim;
    }
    if (s == ORACLE)
        check_oracle("embed", RVIT_F32, got, exact, n);
    else
        check_close("embed", RVIT_F32, got, exact, plain, n);
    array_expect_untouched(a->out, s, c->live * dim * 4);
}

static void run(const embed_case *c)
{
    const embed_arrays a = prepare(c);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!supported(s, "embed", call(c, &a, s)))
            continue;
        arrays_fetch(s);
        check(c, &a, s);
    }
    harness_teardown(NULL);
}

static const int32_t grids[] = {1, 1, 2, 7, 16, 16, 9, 4, 30, 21, 3, 100, 4, 3, 48, 48, 1, 300};

static void embed_resamples(void **state)
{
    (void)state;
    static const int32_t tables[][2] = {{16, 16}, {4, 3}, {1, 1}, {48, 48}, {37, 2}, {3, 512}}, dims[] = {4, 20, 132, 768};
    for (int how = RVIT_RESAMPLE_BICUBIC; how <= RVIT_RESAMPLE_NEAREST; how++)
        for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
            for (int t = 0; t < N_STORED_TYPES; t++) {
                if (leaves_out(how + (int)i + t, 3))
                    continue;
                run(&(embed_case){.dtype = stored_types[t],
                                  .resample = (rvit_resample)how,
                                  .table_height = tables[i][0],
                                  .table_width = tables[i][1],
                                  .dim = dims[(how + (int)i) % 4],
                                  .n_prefix = t == 1 ? 5 : t == 2,
                                  .live = 60,
                                  .capacity = 60 + t,
                                  .grids = grids,
                                  .n_grids = sizeof grids / 8});
            }
}

static void embed_without_table(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 1, 2, 127, 300};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int t = 0; t < N_STORED_TYPES; t++) {
            if (leaves_out((int)i + t, 2))
                continue;
            run(&(embed_case){.dtype = stored_types[t],
                              .dim = 8 + 128 * t,
                              .n_prefix = (int32_t)i % 3,
                              .live = rows[i],
                              .capacity = rows[i] + t,
                              .grids = grids,
                              .n_grids = sizeof grids / 8});
        }
}

/* Whatever token_map hold, nothing outside the arrays is touched, and rows with good token_map are right. */
static void embed_takes_garbage(void **state)
{
    (void)state;
    static const int32_t bad[][4] = {{INT32_MAX, 0, 0, 65537},       {-1000, 0, 0, 65537},     {INT32_MIN, -1, -1, -1},
                                     {1, 0, INT32_MAX, INT32_MAX},   {2, 9, INT32_MIN, 65537}, {0, 0, 0, 0},
                                     {3, 0, 0x7fff7fff, 0x00010001}, {3, 0, 0, 0x0000ffff},    {3, 0, -1, 0x7fffffff},
                                     {1, 0, 0x00010001, 0x00030003}};
    enum { ROWS = sizeof bad / sizeof bad[0] };
    for (int how = RVIT_RESAMPLE_BICUBIC; how <= RVIT_RESAMPLE_NEAREST; how++)
        for (int n_prefix = 0; n_prefix < 2; n_prefix++) {
            const embed_case c = {.resample = (rvit_resample)how,
                                  .table_height = 3,
                                  .table_width = 3,
                                  .dim = 8,
                                  .n_prefix = n_prefix,
                                  .capacity = ROWS,
                                  .live = ROWS,
                                  .grids = grids,
                                  .n_grids = 1};
            const embed_arrays a = prepare(&c);
            memcpy(a.token_map->host, bad, sizeof bad);
            arrays_upload();
            for (side s = 0; (int)s < H.n_sides; s++) {
                if (!supported(s, "embed", call(&c, &a, s)))
                    continue;
                arrays_fetch(s);
                for (int k = 0; k < 8; k++) {
                    const float entry = load(RVIT_F32, a.table->host, 32 + k), patch = load(RVIT_F32, a.patches->host, 8 + k);
                    assert_true(load(RVIT_F32, a.out->result[s], (ROWS - 1) * 8 + k) == patch + entry);
                }
            }
            harness_teardown(NULL);
        }
}

/* A row has the same bits as in a batch with only its image, at any position. */
static void embed_rows_stand_alone(void **state)
{
    (void)state;
    const embed_case c = {.dtype = RVIT_F32,
                          .resample = RVIT_RESAMPLE_TIMM,
                          .table_height = 16,
                          .table_width = 16,
                          .dim = 132,
                          .n_prefix = 1,
                          .capacity = 40,
                          .live = 40,
                          .grids = grids,
                          .n_grids = sizeof grids / 8};
    const embed_arrays a = prepare(&c);
    if (!supported(DEVICE, "embed", call(&c, &a, DEVICE)))
        return;
    arrays_fetch(DEVICE);
    uint8_t *first = scratch(40 * 132 * 4), token_map[40 * 16];
    memcpy(first, a.out->result[DEVICE], 40 * 132 * 4);
    memcpy(token_map, a.token_map->host, sizeof token_map);
    for (int t = 0; t < 40; t++)
        memcpy(a.token_map->host + t * 16, token_map + (39 - t) * 16, 16);
    arrays_upload();
    expect_ok(call(&c, &a, DEVICE));
    arrays_fetch(DEVICE);
    for (int t = 0; t < 40; t++)
        assert_memory_equal(a.out->result[DEVICE] + t * 132 * 4, first + (39 - t) * 132 * 4, 132 * 4);
}

static void embed_refuses(void **state)
{
    (void)state;
    const embed_case c = {.resample = RVIT_RESAMPLE_BILINEAR,
                          .table_height = 2,
                          .table_width = 3,
                          .dim = 8,
                          .n_prefix = 1,
                          .capacity = 4,
                          .live = 4,
                          .grids = grids,
                          .n_grids = 1};
    const embed_arrays a = prepare(&c);
    if (!supported(DEVICE, "embed", call(&c, &a, DEVICE)))
        return;
    rvit_embed_args good = RVIT_EMBED_ARGS_INIT;
    good.rows.capacity = 4;
    good.patch_rows = a.patch_rows;
    good.dim = 8;
    good.n_prefix = 1;
    good.resample = RVIT_RESAMPLE_BILINEAR;
    good.table_height = 2;
    good.table_width = 3;
    good.token_map = array_view(a.token_map, DEVICE);
    good.patches = array_view(a.patches, DEVICE);
    good.prefix = array_view(a.prefix, DEVICE);
    good.table = array_view(a.table, DEVICE);
    good.out = array_view(a.out, DEVICE);
    expect_ok(rvit_embed(H.stream[DEVICE], &good));
#define REFUSED(word, ...)                                                               \
    do {                                                                                 \
        rvit_embed_args args = good;                                                     \
        __VA_ARGS__;                                                                     \
        expect_status(rvit_embed(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("dtype", args.dtype = (rvit_dtype)3);
    REFUSED("capacity", args.rows.capacity = -1);
    REFUSED("padded", args.rows.padded = 2);
    REFUSED("patch_rows", args.patch_rows = -1);
    REFUSED("dim", args.dim = 6);
    REFUSED("dim", args.dim = 0);
    REFUSED("n_prefix", args.n_prefix = -1);
    REFUSED("n_prefix", args.n_prefix = 1025);
    REFUSED("prefix", args.n_prefix = 0);
    REFUSED("prefix", args.prefix.buffer = NULL);
    REFUSED("resample", args.resample = RVIT_RESAMPLE_DEFAULT);
    REFUSED("resample", args.resample = (rvit_resample)7);
    REFUSED("table_height", args.table_height = 0);
    REFUSED("table_height", args.table_height = 513);
    REFUSED("table_width", args.table_width = -1);
    REFUSED("table_width", args.table_width = 513);
    REFUSED("table", args.table_height = 500);
    REFUSED("token_map", args.token_map.buffer = NULL);
    REFUSED("patches", args.patches.buffer = NULL);
    REFUSED("patches", args.patch_rows = 1000);
    REFUSED("out", args.out.buffer = NULL);
    REFUSED("overlaps", args.out = args.patches);
#undef REFUSED
}

/* A call that works. */
void good_embed(rvit_embed_args *a)
{
    static const int32_t token_map[GOOD_ROWS][4] = {{-1, 0, 0, 65538}, {0, 0, 0, 65538}, {1, 0, 1, 65538}};
    a->rows = good_rows();
    a->patch_rows = 4;
    a->dim = GOOD_DIM;
    a->n_prefix = 1;
    a->resample = RVIT_RESAMPLE_BILINEAR_ANTIALIAS;
    a->table_height = 2;
    a->table_width = 3;
    a->token_map = good_ints("token_map", token_map[0], 4 * GOOD_ROWS);
    a->patches = good_input("patches", 4 * GOOD_DIM * 4);
    a->prefix = good_input("prefix", GOOD_DIM * 4);
    a->table = good_input("table", 6 * GOOD_DIM * 4);
    a->out = good_output("out", GOOD_ROWS * GOOD_DIM * 4);
}

SUITE(embed_suite, TEST(embed_resamples), TEST(embed_without_table), TEST(embed_takes_garbage), TEST(embed_rows_stand_alone),
      TEST(embed_refuses));
