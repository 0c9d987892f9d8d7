/* Embed against PyTorch's interpolation in float64, and against weights by hand. */
#include "ops.h"

#include <math.h>

#include "resample_vectors.h"

enum { DIM = 4, MOST = 35 };

/* A grid of zero patches, to which the table is added. */
typedef struct grid_arrays {
    array *token_map, *patches, *table, *out;
    int32_t table_height, table_width, height, width;
} grid_arrays;

static grid_arrays prepare(int32_t table_height, int32_t table_width, int32_t height, int32_t width)
{
    const int32_t rows = height * width;
    const grid_arrays a = {.token_map = array_input("token_map", rows * 16),
                           .patches = array_input("patches", rows * DIM * 4),
                           .table = array_input("table", (int64_t)table_height * table_width * DIM * 4),
                           .out = array_output("out", rows * DIM * 4),
                           .table_height = table_height,
                           .table_width = table_width,
                           .height = height,
                           .width = width};
    memset(a.patches->host, 0, (size_t)rows * DIM * 4);
    for (int32_t t = 0; t < rows; t++) {
        const int32_t cell[4] = {t, 0, t / width * 65536 + t % width, height * 65536 + width};
        memcpy(a.token_map->host + t * 16, cell, 16);
    }
    return a;
}

static int run(const grid_arrays *a, rvit_resample how, side s)
{
    rvit_embed_args args = RVIT_EMBED_ARGS_INIT;
    args.rows.capacity = args.patch_rows = (int64_t)a->height * a->width;
    args.dim = DIM;
    args.resample = how;
    args.table_height = a->table_height;
    args.table_width = a->table_width;
    args.token_map = array_view(a->token_map, s);
    args.patches = array_view(a->patches, s);
    args.table = array_view(a->table, s);
    args.out = array_view(a->out, s);
    if (!supported(s, "embed", rvit_embed(H.stream[s], &args)))
        return 0;
    arrays_fetch(s);
    return 1;
}

static void embed_equals_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        if (leaves_out((int64_t)i, 2))
            continue;
        const int32_t *table = vectors[i].table, *grid = vectors[i].grid;
        const grid_arrays a = prepare(table[0], table[1], grid[0], grid[1]);
        uint32_t x = 12345;
        for (int32_t e = 0; e < table[0] * table[1]; e++) {
            x = x * 1664525u + 1013904223u;
            for (int c = 0; c < DIM; c++)
                store(RVIT_F32, a.table->host, e * DIM + c, (float)(x >> 24) / 64 * (float)(c + 1));
        }
        arrays_upload();
        for (side s = 0; (int)s < H.n_sides; s++)
            for (int32_t t = 0; run(&a, vectors[i].how, s) && t < grid[0] * grid[1]; t++)
                for (int c = 0; c < DIM; c++) {
                    const double got = load(RVIT_F32, a.out->result[s], t * DIM + c), wanted = vectors[i].values[t] * (c + 1);
                    if (!(fabs(got - wanted) <= 16 * 4 * 0x1p-22)) /* four units in the last place of the largest value, 16 */
                        fail_msg("way %d, table %d x %d, grid %d x %d: row %d has %.9g, should have %.9g (side %d)", (int)vectors[i].how,
                                 table[0], table[1], grid[0], grid[1], t, got, wanted, (int)s);
                }
        harness_teardown(NULL);
    }
}

/* With a table of one line where each entry is 1 in its own column, a row is the weights. */
static void embed_weights(void **state)
{
    (void)state;
    static const struct {
        rvit_resample how;
        int32_t side, grid, at;
        double weights[DIM];
    } cases[] = {{RVIT_RESAMPLE_BILINEAR_ANTIALIAS, 4, 2, 0, {3 / 7.0, 3 / 7.0, 1 / 7.0, 0}},
                 {RVIT_RESAMPLE_BILINEAR_ANTIALIAS, 4, 3, 0, {0.7, 0.3, 0, 0}},
                 {RVIT_RESAMPLE_BILINEAR_ANTIALIAS, 4, 3, 1, {0, 0.5, 0.5, 0}},
                 {RVIT_RESAMPLE_BILINEAR_ANTIALIAS, 3, 2, 0, {0.625, 0.375, 0, 0}},
                 {RVIT_RESAMPLE_ALIGN_CORNERS, 4, 6, 1, {0.4, 0.6, 0, 0}},
                 {RVIT_RESAMPLE_ALIGN_CORNERS, 4, 1, 0, {1, 0, 0, 0}},
                 {RVIT_RESAMPLE_NEAREST, 4, 3, 2, {0, 0, 1, 0}},
                 {RVIT_RESAMPLE_BILINEAR, 4, 2, 1, {0, 0, 0.5, 0.5}},
                 {RVIT_RESAMPLE_BICUBIC, 2, 3, 0, {1.086805556, -0.086805556, 0, 0}},
                 {RVIT_RESAMPLE_TIMM, 3, 2, 0, {0.650080257, 0.390048154, -0.040128411, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int down = 0; down < 2; down++) {
            const grid_arrays a = down ? prepare(cases[i].side, 1, cases[i].grid, 1) : prepare(1, cases[i].side, 1, cases[i].grid);
            for (int e = 0; e < cases[i].side * DIM; e++)
                store(RVIT_F32, a.table->host, e, e / DIM == e % DIM);
            arrays_upload();
            for (side s = 0; (int)s < H.n_sides; s++)
                for (int c = 0; run(&a, cases[i].how, s) && c < DIM; c++) {
                    const double got = load(RVIT_F32, a.out->result[s], cases[i].at * DIM + c);
                    if (!(fabs(got - cases[i].weights[c]) <= 0x1p-22)) /* two units in the last place of 1 */
                        fail_msg("way %d, %d to %d: weight %d of row %d is %.9g, should be %.9g (side %d)", (int)cases[i].how,
                                 cases[i].side, cases[i].grid, c, cases[i].at, got, cases[i].weights[c], (int)s);
                }
            harness_teardown(NULL);
        }
}

SUITE(embed_vectors_suite, TEST(embed_equals_pytorch), TEST(embed_weights));
