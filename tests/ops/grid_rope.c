#include "good_ops.h"
#include "ops.h"

#include <math.h>

typedef struct grid_rope_case {
    rvit_rope_coordinates coordinates;
    rvit_rope_order order;
    double base;
    float offset, reference[2];
    int32_t head_dim, live, capacity;
    int is_large; /* grids of up to 32,767 */
} grid_rope_case;

static double coordinate(const grid_rope_case *c, int32_t i, int32_t n, float reference)
{
    if (c->coordinates == RVIT_ROPE_CENTRED)
        return 2 * acos(-1) * (2 * (i + 0.5 + (double)c->offset) / n - 1);
    return reference > 0 ? (i + (double)c->offset) / n * reference : i + (double)c->offset;
}

/* The cosines and sines of a row. */
static void expected_row(const grid_rope_case *c, const int32_t *place, double *out)
{
    const int32_t quarter = c->head_dim / 4;
    for (int axis = 0; axis < 2; axis++) {
        const int is_x = axis != (c->order == RVIT_ROPE_XY);
        const double at = coordinate(c, place[is_x], place[2 + is_x], c->reference[is_x]);
        for (int32_t j = 0; j < quarter; j++) {
            const double angle = at * pow(c->base, -4.0 * j / c->head_dim);
            out[axis * quarter + j] = cos(angle);
            out[2 * quarter + axis * quarter + j] = sin(angle);
        }
    }
}

static void run(const grid_rope_case *c)
{
    const int64_t values = (int64_t)c->live * c->head_dim;
    array *token_map = array_input("token_map", c->capacity * 16), *frequencies = array_input("frequencies", c->head_dim * 2);
    array *out = array_output("out", (int64_t)c->capacity * c->head_dim * 4), *live = c->live == c->capacity ? NULL : array_live(c->live);
    double *exact = scratch((size_t)(values + 1) * sizeof *exact);
    float *plain = scratch((size_t)(values + 1) * sizeof *plain);
    expect_ok(rvit_rope_frequencies(c->coordinates, c->base, c->head_dim, (float *)(void *)frequencies->host));
    for (int32_t t = 0; t < c->live; t++) {
        const int32_t most = c->is_large ? 32767 : 40, height = 1 + random_below(most), width = 1 + random_below(most);
        const int32_t place[4] = {random_below(height), random_below(width), height, width};
        const int32_t cell[4] = {t % 7 == 2 ? -1 - t : t, 0, place[0] * 65536 + place[1], height * 65536 + width};
        memcpy(token_map->host + t * 16, cell, 16);
        expected_row(c, place, exact + (int64_t)t * c->head_dim);
        for (int32_t j = 0; cell[0] < 0 && j < c->head_dim; j++)
            exact[(int64_t)t * c->head_dim + j] = j < c->head_dim / 2;
    }
    for (int64_t i = 0; i < values; i++)
        plain[i] = (float)exact[i];
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_rope_args args = RVIT_GRID_ROPE_ARGS_INIT;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.head_dim = c->head_dim;
        args.coordinates = c->coordinates;
        args.order = c->order;
        args.offset = c->offset;
        args.reference_height = c->reference[0];
        args.reference_width = c->reference[1];
        args.token_map = array_view(token_map, s);
        args.frequencies = array_view(frequencies, s);
        args.out = array_view(out, s);
        if (!supported(s, "grid_rope", rvit_grid_rope(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        check_close("grid_rope", RVIT_F32, (const float *)(const void *)out->result[s], exact, plain, values);
        for (int32_t t = 2; t < c->live; t += 7)
            for (int32_t j = 0; j < c->head_dim; j++)
                assert_true(load(RVIT_F32, out->result[s], (int64_t)t * c->head_dim + j) == (j < c->head_dim / 2));
        array_expect_untouched(out, s, values * 4);
    }
    harness_teardown(NULL);
}

/* Qwen, DINOv3, EVA02 and PE, and others. */
static void grid_rope_families(void **state)
{
    (void)state;
    static const grid_rope_case families[] = {
        {.coordinates = RVIT_ROPE_INDEX, .base = 10000},
        {.coordinates = RVIT_ROPE_CENTRED, .base = 100},
        {.coordinates = RVIT_ROPE_INDEX, .base = 10000, .reference = {16, 16}},
        {.coordinates = RVIT_ROPE_INDEX, .order = RVIT_ROPE_XY, .base = 10000, .offset = 1, .reference = {24, 32}},
        {.coordinates = RVIT_ROPE_CENTRED, .order = RVIT_ROPE_XY, .base = 1000, .offset = -0.25f},
        {.coordinates = RVIT_ROPE_INDEX, .base = 1.5, .offset = 0.5f, .reference = {0, 7}}};
    static const int32_t head_dims[] = {8, 64, 72, 128}, rows[] = {0, 1, 31, 200};
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (int h = 0; h < 4; h++)
            for (int r = 0; r < 4; r++) {
                if (leaves_out((int)f + h + r, 2))
                    continue;
                grid_rope_case c = families[f];
                c.head_dim = head_dims[h];
                c.live = rows[r];
                c.capacity = rows[r] + h % 2;
                c.is_large = (h + r) % 2;
                run(&c);
            }
}

/* DINOv3's angles, for heads of 8 and 2 x 3 patches; a prefix token; and patches with garbage among them. */
static void grid_rope_vectors(void **state)
{
    (void)state;
    static const double angles[2][4] = {{-3.14159265, -0.31415927, -4.18879020, -0.41887902}, {3.14159265, 0.31415927, 0, 0}};
    static const int32_t places[][4] = {
        {0, 0, 0, 131075}, {4, 0, 65537, 131075}, {-1, 0, 0, 131075}, {7, 0, -1, -1}, {8, 0, 0x7fffffff, 0}};
    array *token_map = array_input("token_map", sizeof places), *frequencies = array_input("frequencies", 16),
          *out = array_output("out", 5 * 32);
    memcpy(token_map->host, places, sizeof places);
    expect_ok(rvit_rope_frequencies(RVIT_ROPE_CENTRED, 100, 8, (float *)(void *)frequencies->host));
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_rope_args args = RVIT_GRID_ROPE_ARGS_INIT;
        args.rows.capacity = 5;
        args.head_dim = 8;
        args.coordinates = RVIT_ROPE_CENTRED;
        args.token_map = array_view(token_map, s);
        args.frequencies = array_view(frequencies, s);
        args.out = array_view(out, s);
        if (!supported(s, "grid_rope", rvit_grid_rope(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        for (int t = 0; t < 2; t++)
            for (int j = 0; j < 4; j++) {
                assert_true(fabs(load(RVIT_F32, out->result[s], t * 8 + j) - cos(angles[t][j])) < 2e-7);
                assert_true(fabs(load(RVIT_F32, out->result[s], t * 8 + 4 + j) - sin(angles[t][j])) < 2e-7);
            }
        for (int j = 0; j < 8; j++)
            assert_true(load(RVIT_F32, out->result[s], 2 * 8 + j) == (j < 4));
    }
}

static void grid_rope_refuses(void **state)
{
    (void)state;
    array *token_map = array_input("token_map", 64), *frequencies = array_input("frequencies", 16), *out = array_output("out", 4 * 32);
    memset(token_map->host, 0, 64);
    memset(frequencies->host, 0, 16);
    arrays_upload();
    rvit_grid_rope_args good = RVIT_GRID_ROPE_ARGS_INIT;
    good.rows.capacity = 4;
    good.head_dim = 8;
    good.token_map = array_view(token_map, DEVICE);
    good.frequencies = array_view(frequencies, DEVICE);
    good.out = array_view(out, DEVICE);
    if (!supported(DEVICE, "grid_rope", rvit_grid_rope(H.stream[DEVICE], &good)))
        return;
#define REFUSED(word, ...)                                                                   \
    do {                                                                                     \
        rvit_grid_rope_args args = good;                                                     \
        __VA_ARGS__;                                                                         \
        expect_status(rvit_grid_rope(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("capacity", args.rows.capacity = -1);
    REFUSED("head_dim", args.head_dim = 12);
    REFUSED("head_dim", args.head_dim = 136);
    REFUSED("coordinates", args.coordinates = (rvit_rope_coordinates)2);
    REFUSED("order", args.order = (rvit_rope_order)2);
    REFUSED("offset", args.offset = NAN);
    REFUSED("offset", args.offset = INFINITY);
    REFUSED("reference_height", args.reference_height = -1);
    REFUSED("reference_width", args.reference_width = INFINITY);
    REFUSED("centred", args.coordinates = RVIT_ROPE_CENTRED, args.reference_width = 16);
    REFUSED("token_map", args.token_map.buffer = NULL);
    REFUSED("frequencies", args.frequencies.buffer = NULL);
    REFUSED("token_map", args.rows.capacity = 100);
    REFUSED("out", args.out.buffer = NULL);
    REFUSED("overlaps", args.out = args.token_map);
#undef REFUSED
    float turns[4];
    expect_status(rvit_rope_frequencies((rvit_rope_coordinates)2, 10, 8, turns), RVIT_INVALID_ARGUMENT, "coordinates");
    expect_status(rvit_rope_frequencies(RVIT_ROPE_INDEX, 0, 8, turns), RVIT_INVALID_ARGUMENT, "base");
    expect_status(rvit_rope_frequencies(RVIT_ROPE_INDEX, INFINITY, 8, turns), RVIT_INVALID_ARGUMENT, "base");
    expect_status(rvit_rope_frequencies(RVIT_ROPE_INDEX, NAN, 8, turns), RVIT_INVALID_ARGUMENT, "base");
    expect_status(rvit_rope_frequencies(RVIT_ROPE_INDEX, 10, 12, turns), RVIT_INVALID_ARGUMENT, "head_dim");
    expect_status(rvit_rope_frequencies(RVIT_ROPE_INDEX, 10, 8, NULL), RVIT_INVALID_ARGUMENT, "out");
}

/* A call that works. */
void good_grid_rope(rvit_grid_rope_args *a)
{
    static const int32_t token_map[GOOD_ROWS][4] = {{-1, 0, 0, 65538}, {0, 0, 0, 65538}, {1, 0, 1, 65538}};
    a->rows = good_rows();
    a->head_dim = 8;
    a->token_map = good_ints("token_map", token_map[0], 4 * GOOD_ROWS);
    a->frequencies = good_input("frequencies", 16);
    a->out = good_output("out", GOOD_ROWS * 8 * 4);
}

SUITE(grid_rope_suite, TEST(grid_rope_families), TEST(grid_rope_vectors), TEST(grid_rope_refuses));
