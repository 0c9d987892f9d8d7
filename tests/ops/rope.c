#include "good_ops.h"
#include "ops.h"

#include <math.h>

typedef enum kind { SEPARATE, PACKED, PADDED } kind; /* PACKED: parts of qkv rows. PADDED: gaps of 8 elements between rows */

typedef struct rope_case {
    rvit_dtype dtype;
    int32_t n_heads, head_dim, live, capacity, n_positions, n_prefix;
    kind kind;
    int with_positions;
} rope_case;

typedef struct rope_arrays {
    array *q, *k, *table, *positions, *live;
    int64_t stride, k_offset; /* elements */
} rope_arrays;

/* Rows that are not rotated. */
enum { N_STILL = 5 };

static rope_arrays prepare(const rope_case *c)
{
    const int64_t width = c->n_heads * c->head_dim, element = rvit_dtype_size(c->dtype), angles = c->head_dim / 2;
    rope_arrays a = {.stride = c->kind == PACKED ? 3 * width : c->kind == PADDED ? width + 8 : width};
    a.k_offset = c->kind == PACKED ? width : 0;
    a.q = array_output("q", c->capacity * a.stride * element);
    a.k = c->kind == PACKED ? a.q : array_output("k", c->capacity * a.stride * element);
    a.table = array_input("table", (int64_t)c->n_positions * c->head_dim * 4);
    a.positions = c->with_positions ? array_input("positions", c->capacity * 4) : NULL;
    a.live = c->live == c->capacity ? NULL : array_live(c->live);
    for (int32_t t = 0; t < c->live; t++) {
        store_normal(c->dtype, a.q->host, t * a.stride, width, 1);
        store_normal(c->dtype, a.k->host, t * a.stride + a.k_offset, width, 1);
    }
    for (int64_t p = 0; p < c->n_positions; p++)
        for (int64_t j = 0; j < angles; j++) {
            const float angle = 3 * random_normal();
            store(RVIT_F32, a.table->host, p * c->head_dim + j, cosf(angle));
            store(RVIT_F32, a.table->host, p * c->head_dim + angles + j, sinf(angle));
        }
    const int32_t still[N_STILL] = {-1, INT32_MIN, c->n_positions, INT32_MAX, c->n_prefix - 1};
    for (int32_t t = 0; c->with_positions && t < c->live; t++) {
        const int32_t position = t % 4 == 1 ? still[t / 4 % N_STILL] : random_below(c->n_positions);
        memcpy(a.positions->host + t * 4, &position, 4);
    }
    arrays_upload();
    return a;
}

static rvit_status call(const rope_case *c, const rope_arrays *a, side s)
{
    rvit_rope_args args = RVIT_ROPE_ARGS_INIT;
    args.dtype = c->dtype;
    args.rows.capacity = c->capacity;
    args.rows.live = array_view(a->live, s);
    args.n_heads = c->n_heads;
    args.head_dim = c->head_dim;
    args.n_positions = c->n_positions;
    args.n_prefix = c->n_prefix;
    args.q = array_view(a->q, s);
    args.k = array_view(a->k, s);
    args.k.offset += a->k_offset * rvit_dtype_size(c->dtype);
    if (c->kind != SEPARATE)
        args.q_stride = args.k_stride = a->stride;
    args.table = array_view(a->table, s);
    args.positions = array_view(a->positions, s);
    return rvit_rope(H.stream[s], &args);
}

/* The row of the table that rotates row t; NULL: none. */
static const float *angles_of(const rope_case *c, const rope_arrays *a, int32_t t)
{
    int32_t position = t % c->n_positions;
    if (c->with_positions)
        memcpy(&position, a->positions->host + t * 4, 4);
    const int rotated = position >= c->n_prefix && position >= 0 && position < c->n_positions;
    return rotated ? (const float *)a->table->host + (int64_t)position * c->head_dim : NULL;
}

static void check_side(const rope_case *c, const rope_arrays *a, side s, const array *x, int64_t offset, const char *name)
{
    const int32_t width = c->n_heads * c->head_dim, half = c->head_dim / 2;
    const int64_t element = rvit_dtype_size(c->dtype);
    double *exact = scratch((size_t)(c->live * width) * sizeof *exact);
    float *plain = scratch((size_t)(c->live * width) * sizeof *plain), *got = scratch((size_t)(c->live * width) * sizeof *got);
    int64_t n = 0;
    for (int32_t t = 0; t < c->live; t++) {
        const float *cosines = angles_of(c, a, t);
        const int64_t at = t * a->stride + offset;
        if (!cosines) {
            assert_memory_equal(x->result[s] + at * element, x->host + at * element, (size_t)(width * element));
            continue;
        }
        for (int32_t i = 0; i < width; i++, n++) {
            const int32_t j = i % half, upper = i % c->head_dim >= half;
            const float own = load(c->dtype, x->host, at + i), other = load(c->dtype, x->host, at + (upper ? i - half : i + half));
            const float sine = upper ? cosines[half + j] : -cosines[half + j];
            exact[n] = (double)own * cosines[j] + (double)other * sine;
            plain[n] = rounded(c->dtype, own * cosines[j] + other * sine);
            got[n] = load(c->dtype, x->result[s], at + i);
        }
    }
    char what[128];
    snprintf(what, sizeof what, "rope %s, %d heads of %d, %d rows, %s", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), c->n_heads, c->head_dim,
             c->live, name);
    if (s == ORACLE)
        check_oracle(what, c->dtype, got, exact, n);
    else
        check_close(what, c->dtype, got, exact, plain, n);
}

/* Rows past the live ones, and what lies between the rows. */
static void check_untouched(const rope_case *c, const rope_arrays *a, side s)
{
    const int64_t element = rvit_dtype_size(c->dtype), row = a->stride * element;
    const int64_t used = (c->kind == PACKED ? 2 : 1) * (int64_t)c->n_heads * c->head_dim * element;
    array_expect_untouched(a->q, s, c->live * row);
    array_expect_untouched(a->k, s, c->live * row);
    for (int32_t t = 0; t < c->live; t++) {
        assert_memory_equal(a->q->result[s] + t * row + used, a->q->host + t * row + used, (size_t)(row - used));
        assert_memory_equal(a->k->result[s] + t * row + used, a->k->host + t * row + used, (size_t)(row - used));
    }
}

static void run(const rope_case *c)
{
    const rope_arrays a = prepare(c);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!supported(s, type_feature(c->dtype), call(c, &a, s)))
            continue;
        arrays_fetch(s);
        check_side(c, &a, s, a.q, 0, "q");
        check_side(c, &a, s, a.k, a.k_offset, "k");
        check_untouched(c, &a, s);
    }
    harness_teardown(NULL);
}

static void rope_head_dims(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t dim = 8; dim <= 128; dim += 8)
            for (int with_positions = 0; with_positions < 2; with_positions++) {
                if (leaves_out(t + dim / 8 + with_positions, 2))
                    continue;
                run(&(rope_case){.dtype = stored_types[t],
                                 .n_heads = dim < 32 ? 7 : 3,
                                 .head_dim = dim,
                                 .live = 41,
                                 .capacity = 41 + dim % 3,
                                 .n_positions = 19,
                                 .n_prefix = dim / 8 % 3,
                                 .kind = (kind)(dim / 8 % 3),
                                 .with_positions = with_positions});
            }
}

static void rope_rows(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 1, 2, 33, 197, 2500};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (int padded = 0; padded < 2; padded++) {
                if (leaves_out(t + (int)i + padded, 2))
                    continue;
                run(&(rope_case){.dtype = stored_types[t],
                                 .n_heads = rows[i] > 1000 ? 1 : 12,
                                 .head_dim = 64,
                                 .live = rows[i],
                                 .capacity = rows[i] + 9 * padded,
                                 .n_positions = 197,
                                 .n_prefix = 1,
                                 .kind = padded ? PACKED : SEPARATE,
                                 .with_positions = padded});
            }
}

/* The angles of DINOv3 for a head of 8 on a grid of 2 x 3: patches (0, 0) and (1, 1). */
static void rope_vectors(void **state)
{
    (void)state;
    static const double angles[2][4] = {{-3.14159265, -0.31415927, -4.18879020, -0.41887902}, {3.14159265, 0.31415927, 0, 0}};
    array *q = array_output("q", 2 * 8 * 4), *k = array_output("k", 2 * 8 * 4), *table = array_input("table", 2 * 8 * 4);
    for (int p = 0; p < 2; p++)
        for (int j = 0; j < 4; j++) {
            store(RVIT_F32, table->host, p * 8 + j, (float)cos(angles[p][j]));
            store(RVIT_F32, table->host, p * 8 + 4 + j, (float)sin(angles[p][j]));
            store(RVIT_F32, q->host, p * 8 + j, 1);
            store(RVIT_F32, q->host, p * 8 + 4 + j, 0);
            store(RVIT_F32, k->host, p * 8 + j, 0);
            store(RVIT_F32, k->host, p * 8 + 4 + j, (float)(j + 1));
        }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_rope_args args = RVIT_ROPE_ARGS_INIT;
        args.rows.capacity = args.n_positions = 2;
        args.n_heads = 1;
        args.head_dim = 8;
        args.q = array_view(q, s);
        args.k = array_view(k, s);
        args.table = array_view(table, s);
        expect_ok(rvit_rope(H.stream[s], &args));
        arrays_fetch(s);
        for (int p = 0; p < 2; p++)
            for (int j = 0; j < 4; j++) {
                assert_true(fabs(load(RVIT_F32, q->result[s], p * 8 + j) - cos(angles[p][j])) < 1e-6);
                assert_true(fabs(load(RVIT_F32, q->result[s], p * 8 + 4 + j) - sin(angles[p][j])) < 1e-6);
                assert_true(fabs(load(RVIT_F32, k->result[s], p * 8 + j) + (j + 1) * sin(angles[p][j])) < 4e-6);
                assert_true(fabs(load(RVIT_F32, k->result[s], p * 8 + 4 + j) - (j + 1) * cos(angles[p][j])) < 4e-6);
            }
    }
}

/* A row of NaN changes no other row's bits, and a row's bits do not depend on where it is. */
static void rope_rows_are_alone(void **state)
{
    (void)state;
    const rope_case c = {.dtype = RVIT_F16, .n_heads = 3, .head_dim = 40, .live = 30, .capacity = 30, .n_positions = 7, .kind = PACKED};
    const rope_arrays a = prepare(&c);
    const int64_t row = a.stride * 2;
    memcpy(a.q->host + 21 * row, a.q->host, (size_t)row); /* position 0 again */
    arrays_upload();
    expect_ok(call(&c, &a, DEVICE));
    arrays_fetch(DEVICE);
    uint8_t *before = scratch((size_t)(c.live * row));
    memcpy(before, a.q->result[DEVICE], (size_t)(c.live * row));
    assert_memory_equal(before, before + 21 * row, (size_t)row);
    memset(a.q->host + 9 * row, POISON, (size_t)row);
    arrays_upload();
    expect_ok(call(&c, &a, DEVICE));
    arrays_fetch(DEVICE);
    for (int32_t t = 0; t < c.live; t++)
        if (t != 9)
            assert_memory_equal(a.q->result[DEVICE] + t * row, before + t * row, (size_t)row);
}

static void rope_refuses(void **state)
{
    (void)state;
    const rope_case c = {.n_heads = 2, .head_dim = 16, .live = 4, .capacity = 4, .n_positions = 4, .kind = PACKED};
    const rope_arrays a = prepare(&c);
    rvit_rope_args good = RVIT_ROPE_ARGS_INIT;
    good.rows.capacity = good.n_positions = 4;
    good.n_heads = 2;
    good.head_dim = 16;
    good.q = good.k = array_view(a.q, DEVICE);
    good.k.offset += 32 * 4;
    good.q_stride = good.k_stride = 96;
    good.table = array_view(a.table, DEVICE);
    expect_ok(rvit_rope(H.stream[DEVICE], &good));
#define REFUSED(word, ...)                                                              \
    do {                                                                                \
        rvit_rope_args args = good;                                                     \
        __VA_ARGS__;                                                                    \
        expect_status(rvit_rope(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("dtype", args.dtype = (rvit_dtype)3);
    REFUSED("capacity", args.rows.capacity = -1);
    REFUSED("padded", args.rows.padded = 2);
    REFUSED("n_heads", args.n_heads = 0);
    REFUSED("head_dim", args.head_dim = 12);
    REFUSED("head_dim", args.head_dim = 136);
    REFUSED("n_positions", args.n_positions = 0);
    REFUSED("table", args.n_positions = 1000);
    REFUSED("n_prefix", args.n_prefix = -1);
    REFUSED("q_stride", args.q_stride = 24);
    REFUSED("k_stride", args.k_stride = 100);
    REFUSED("q", args.q.buffer = NULL);
    REFUSED("k", args.k.buffer = NULL);
    REFUSED("table", args.table.buffer = NULL);
    REFUSED("overlaps", args.k.offset -= 16);
    REFUSED("overlaps", args.k_stride = 88);
    REFUSED("overlaps", args.table = args.q);
#undef REFUSED
}

/* A call that works. */
void good_rope(rvit_rope_args *a)
{
    a->rows = good_rows();
    a->n_heads = 2;
    a->head_dim = GOOD_DIM / 2;
    a->n_positions = GOOD_MAX_LEN;
    a->n_prefix = 1;
    a->q = good_output("q", GOOD_ROWS * GOOD_DIM * 4);
    a->k = good_output("k", GOOD_ROWS * GOOD_DIM * 4);
    a->table = good_input("table", GOOD_MAX_LEN * GOOD_DIM / 2 * 4);
    static const int32_t positions[GOOD_ROWS] = {0, 1, 2, 3, 0, 1, -1, 3, 4, 5, 5, 5};
    a->positions = good_ints("positions", positions, GOOD_ROWS);
}

SUITE(rope_suite, TEST(rope_head_dims), TEST(rope_rows), TEST(rope_vectors), TEST(rope_rows_are_alone), TEST(rope_refuses));
