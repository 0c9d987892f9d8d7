#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "core/base/e4m3.h"
#include "reference/plain.h"

enum { N_ACTIVATIONS = RVIT_ACTIVATION_SILU + 1, N_BYTE_TYPES = 2 };

/* The nearest E4M3 number, ties to the even code, by a search of all numbers. */
static uint8_t nearest_e4m3(float value)
{
    uint8_t codes[127], best = 0;
    for (int code = 0; code < 127; code++) {
        codes[code] = (uint8_t)code;
        const double distance = fabs(load(RVIT_E4M3, codes, code) - fabs((double)value));
        const double least = fabs(load(RVIT_E4M3, codes, best) - fabs((double)value));
        if (distance < least || (distance == least && code % 2 == 0))
            best = (uint8_t)code;
    }
    return (uint8_t)(best | (signbit(value) ? 128 : 0));
}

static uint8_t nearest(rvit_dtype dtype, float value)
{
    if (dtype == RVIT_E4M3)
        return nearest_e4m3(value);
    const float whole = nearbyintf(value);
    return (uint8_t)(int8_t)fmaxf(-127, fminf(127, whole));
}

/* All numbers, what lies halfway between two of them, and a little above and below; and what has no number. */
static void quantize_e4m3_conversions(void **state)
{
    (void)state;
    uint8_t codes[256];
    for (int code = 0; code < 256; code++) {
        codes[code] = (uint8_t)code;
        const float value = load(RVIT_E4M3, codes, code), found = rvit_e4m3_to_f32((uint8_t)code);
        if (code % 128 == 127) {
            assert_true(isnan(found));
            assert_int_equal(rvit_f32_to_e4m3(found) & 127, 127);
            continue;
        }
        assert_memory_equal(&value, &found, 4);
        assert_int_equal(rvit_f32_to_e4m3(value), code);
        if (code % 128 == 126)
            continue;
        codes[0] = (uint8_t)(code + 1);
        const float middle = (value + load(RVIT_E4M3, codes, 0)) / 2;
        const float around[] = {middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY)};
        for (int i = 0; i < 3; i++)
            assert_int_equal(rvit_f32_to_e4m3(around[i]), nearest_e4m3(around[i]));
    }
    static const float large[] = {448, 449, 464, 480, 1e30f, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        assert_int_equal(rvit_f32_to_e4m3(large[i]), 0x7e);
        assert_int_equal(rvit_f32_to_e4m3(-large[i]), 0xfe);
    }
    assert_int_equal(rvit_f32_to_e4m3(1e-40f), 0);
    assert_int_equal(rvit_f32_to_e4m3(-1e-40f), 0x80);
}

typedef struct quantize_case {
    rvit_dtype dtype, out_dtype;
    int32_t columns;
    int64_t rows, capacity;
    int bias, gated, counts;
    rvit_activation activation;
    float static_scale; /* 0: none */
    int edges;          /* the first rows are those of edge_row */
} quantize_case;

/* Rows with special values. */
enum { N_EDGES = 9 };
static void edge_row(int kind, float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        x[i] = kind == 0 ? 0 : kind == 1 ? -0.0f : kind == 2 ? 1e-35f * random_normal() : kind == 3 ? 1e-40f : random_normal();
    x[3] = kind == 4 ? NAN : kind == 5 ? INFINITY : kind == 6 ? -INFINITY : kind == 7 ? -1e4f : kind == 8 ? 6e4f : x[3];
    x[n - 1] = kind == 4 ? 3 : x[n - 1];
}

typedef struct quantize_arrays {
    array *x, *bias, *live, *scale, *out, *out_scales, *saturated;
} quantize_arrays;

static int call(const quantize_case *c, const quantize_arrays *a, side s)
{
    rvit_quantize_args args = RVIT_QUANTIZE_ARGS_INIT;
    args.dtype = c->dtype;
    args.out_dtype = c->out_dtype;
    args.rows.capacity = c->capacity;
    args.rows.live = array_view(a->live, s);
    args.columns = c->columns;
    args.activation = c->activation;
    args.gated = c->gated;
    args.x = array_view(a->x, s);
    args.bias = array_view(a->bias, s);
    args.static_scale = array_view(a->scale, s);
    args.out = array_view(a->out, s);
    args.out_scales = array_view(a->out_scales, s);
    args.saturated = array_view(a->saturated, s);
    if (!supported(s, rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), rvit_quantize(H.stream[s], &args)))
        return 0;
    arrays_fetch(s);
    array_expect_untouched(a->out, s, c->rows * c->columns);
    array_expect_untouched(a->out_scales, s, c->rows * 4);
    return 1;
}

static quantize_arrays make(const quantize_case *c)
{
    const int64_t width = (int64_t)c->columns * (c->gated ? 2 : 1);
    quantize_arrays a = {.x = array_input("x", c->capacity * width * rvit_dtype_size(c->dtype)),
                         .bias = c->bias ? array_input("bias", width * 4) : NULL,
                         .live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows),
                         .scale = c->static_scale != 0 ? array_input("static_scale", 4) : NULL,
                         .out = array_output("out", c->capacity * c->columns),
                         .out_scales = array_output("out_scales", c->capacity * 4),
                         .saturated = c->counts ? array_output("saturated", 4) : NULL};
    float *row = scratch((size_t)width * 4);
    for (int64_t t = 0; t < c->rows; t++) {
        if (c->edges && t < N_EDGES) {
            edge_row((int)t, row, (int32_t)width);
            for (int64_t i = 0; i < width; i++)
                store(c->dtype, a.x->host, t * width + i, row[i]);
        } else {
            store_normal(c->dtype, a.x->host, t * width, width, 1 + (float)(t % 3));
        }
    }
    if (a.bias)
        store_normal(RVIT_F32, a.bias->host, 0, width, 1);
    if (a.scale)
        memcpy(a.scale->host, &c->static_scale, 4);
    if (a.saturated)
        memcpy(a.saturated->host, &(int32_t){7}, 4);
    return a;
}

/* Without a bias, an activation and a gate every bit is given. */
static void run_exact(const quantize_case *c)
{
    const quantize_arrays a = make(c);
    arrays_upload();
    const float most = c->out_dtype == RVIT_I8 ? 127 : 448, s = c->static_scale;
    for (side on = 0; (int)on < H.n_sides; on++) {
        if (!call(c, &a, on))
            continue;
        const float *scales = (const float *)(const void *)a.out_scales->result[on];
        int32_t cut = 7;
        for (int64_t t = 0; t < c->rows; t++) {
            const float *x = loaded(c->dtype, a.x->host, t * c->columns, c->columns);
            float largest = 0;
            int finite = 1;
            for (int32_t i = 0; i < c->columns; i++) {
                finite &= isfinite(x[i]) != 0;
                largest = fmaxf(largest, fabsf(x[i]));
            }
            const int zero = !finite || (s == 0 && largest < 0x1p-100f) || (s != 0 && !(s >= 0x1p-100f && s <= 0x1p100f));
            const float inverse = zero ? 0 : s != 0 ? 1 / s : most / largest;
            const float scale = zero ? 0 : s != 0 ? s : largest / most;
            if (zero && (!finite || s != 0) ? !isnan(scales[t]) : memcmp(&scale, &scales[t], 4) != 0)
                fail_msg("%s to %s, static scale %g: the scale of row %lld is %.9g", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
                         rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), (double)s, (long long)t, (double)scales[t]);
            for (int32_t i = 0; i < c->columns; i++) {
                const uint8_t nothing = c->out_dtype == RVIT_E4M3 && (!finite || s != 0) ? 0x7f : 0;
                const uint8_t wanted = zero ? nothing : nearest(c->out_dtype, x[i] * inverse), got = a.out->result[on][t * c->columns + i];
                cut += !zero && s != 0 && fabsf(x[i] * inverse) > most;
                if (wanted != got)
                    fail_msg("%s to %s, static scale %g: %.9g of row %lld is %02x, should be %02x (%s)",
                             rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), (double)s,
                             (double)x[i], (long long)t, got, wanted, on == ORACLE ? "oracle" : "device");
            }
        }
        if (a.saturated)
            assert_memory_equal(a.saturated->result[on], &cut, 4);
    }
    harness_teardown(NULL);
}

static void quantize_exact(void **state)
{
    (void)state;
    static const int32_t columns[] = {16, 48, 64, 208, 768, 3072};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int u = 0; u < N_BYTE_TYPES; u++)
            for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
                if (leaves_out(t + u + (int)i, 3))
                    continue;
                const quantize_case c = {.dtype = stored_types[t],
                                         .out_dtype = byte_types[u],
                                         .columns = columns[i],
                                         .rows = 21,
                                         .capacity = 21 + (int64_t)i % 2 * 4,
                                         .edges = 1,
                                         .counts = i % 3 == 0};
                run_exact(&c);
            }
}

/* What a static scale cuts off is counted; one that is no scale makes every row NaN. */
static void quantize_static(void **state)
{
    (void)state;
    static const float scales[] = {0.01f, 0.0125f, 1, 1e-20f, 3e-39f, INFINITY, -1};
    for (int u = 0; u < N_BYTE_TYPES; u++)
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
            const quantize_case c = {.dtype = stored_types[i % N_STORED_TYPES],
                                     .out_dtype = byte_types[u],
                                     .columns = 64,
                                     .rows = 90,
                                     .capacity = 93,
                                     .edges = 1,
                                     .static_scale = scales[i],
                                     .counts = i != 1};
            run_exact(&c);
        }
}

static void run_activation(const quantize_case *c)
{
    const quantize_arrays a = make(c);
    arrays_upload();
    const int64_t width = (int64_t)c->columns * (c->gated ? 2 : 1), n = c->rows * c->columns;
    const quantize_problem p = {.rows = c->rows,
                                .columns = c->columns,
                                .activation = c->activation,
                                .gated = c->gated,
                                .x = loaded(c->dtype, a.x->host, 0, c->rows * width),
                                .bias = a.bias ? loaded(RVIT_F32, a.bias->host, 0, width) : NULL};
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    quantize_f64(&p, exact);
    quantize_f32(&p, plain);
    char what[120];
    snprintf(what, sizeof what, "quantize %s to %s, activation %d, gated %d, bias %d", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
             rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), (int)c->activation, c->gated, c->bias);
    for (side s = 0; (int)s < H.n_sides; s++)
        if (call(c, &a, s))
            check_quantized_rows(what, c->out_dtype, a.out->result[s], (const float *)(const void *)a.out_scales->result[s], exact, plain,
                                 c->rows, c->columns);
    harness_teardown(NULL);
}

static void quantize_activations(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int u = 0; u < N_BYTE_TYPES; u++)
            for (int activation = 0; activation < N_ACTIVATIONS; activation++)
                for (int gated = 0; gated < 2; gated++) {
                    if (leaves_out(t + u + activation + gated, 3))
                        continue;
                    const quantize_case c = {.dtype = stored_types[t],
                                             .out_dtype = byte_types[u],
                                             .columns = 16 * (1 + 3 * t + activation),
                                             .rows = 37,
                                             .capacity = 50,
                                             .bias = activation != RVIT_ACTIVATION_QUICK_GELU,
                                             .gated = gated,
                                             .activation = (rvit_activation)activation};
                    run_activation(&c);
                }
}

/* A call that works. */
void good_quantize(rvit_quantize_args *a)
{
    a->out_dtype = RVIT_I8;
    a->rows = good_rows();
    a->columns = GOOD_DIM;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->bias = good_input("bias", GOOD_DIM * 4);
    a->static_scale = good_input("static_scale", 4);
    a->out = good_output("out", GOOD_ROWS * GOOD_DIM);
    a->out_scales = good_output("out_scales", GOOD_ROWS * 4);
    a->saturated = good_output("saturated", 4);
}

SUITE(quantize_suite, TEST(quantize_e4m3_conversions), TEST(quantize_exact), TEST(quantize_static), TEST(quantize_activations));
