/* Linear with e4m3 output and a static scale gives the same as linear followed by quantize. */
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef struct e4m3_case {
    int32_t in_features, out_features;
    int64_t rows, capacity;
    rvit_activation activation;
    int gated, bias, counts;
    float scale;
} e4m3_case;

typedef struct e4m3_arrays {
    array *x, *weight, *x_scales, *weight_scales, *bias, *scale, *live, *out, *out_scales, *saturated;
} e4m3_arrays;

enum { COUNTED_BEFORE = 7 };

static e4m3_arrays make(const e4m3_case *c)
{
    const int64_t columns = (int64_t)c->out_features * (c->gated ? 2 : 1);
    const e4m3_arrays a = {.x = array_input("x", c->capacity * c->in_features),
                           .weight = array_input("weight", columns * c->in_features),
                           .x_scales = array_input("x_scales", c->capacity * 4),
                           .weight_scales = array_input("weight_scales", columns * 4),
                           .bias = c->bias ? array_input("bias", columns * 4) : NULL,
                           .scale = array_input("static_scale", 4),
                           .live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows),
                           .out = array_output("out", c->capacity * c->out_features),
                           .out_scales = array_output("out_scales", c->capacity * 4),
                           .saturated = c->counts ? array_output("saturated", 4) : NULL};
    random_bytes(RVIT_E4M3, a.x->host, c->rows * c->in_features);
    random_bytes(RVIT_E4M3, a.weight->host, columns * c->in_features);
    for (int64_t t = 0; t < c->rows; t++)
        store(RVIT_F32, a.x_scales->host, t, t == 2 ? 0 : 0.01f * (1 + fabsf(random_normal())));
    for (int64_t j = 0; j < columns; j++)
        store(RVIT_F32, a.weight_scales->host, j, j == 5 ? 0 : 0.003f * (1 + fabsf(random_normal())) / sqrtf((float)c->in_features));
    if (a.bias)
        store_normal(RVIT_F32, a.bias->host, 0, columns, 1);
    memcpy(a.scale->host, &c->scale, 4);
    if (a.saturated)
        memcpy(a.saturated->host, &(int32_t){COUNTED_BEFORE}, 4);
    return a;
}

static rvit_linear_args args_of(const e4m3_case *c, const e4m3_arrays *a, side s)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = RVIT_E4M3;
    args.rows.capacity = c->capacity;
    args.rows.live = array_view(a->live, s);
    args.in_features = c->in_features;
    args.out_features = c->out_features;
    args.activation = c->activation;
    args.gated = c->gated;
    args.x = array_view(a->x, s);
    args.weight = array_view(a->weight, s);
    args.x_scales = array_view(a->x_scales, s);
    args.weight_scales = array_view(a->weight_scales, s);
    args.bias = array_view(a->bias, s);
    args.static_scale = array_view(a->scale, s);
    args.out = array_view(a->out, s);
    args.out_scales = array_view(a->out_scales, s);
    args.saturated = array_view(a->saturated, s);
    return args;
}

/* The CPU has all of it. Some GPUs have a part, and refuse the rest (tests/cuda/hopper.c knows which). */
static int makes_e4m3(side s, const rvit_linear_args *args)
{
    const rvit_status status = rvit_linear(H.stream[s], args);
    if (s == DEVICE && H.desc.backend != RVIT_BACKEND_CPU && status == RVIT_UNSUPPORTED) {
        assert_non_null(strstr(rvit_status_detail(), "e4m3"));
        return 0;
    }
    expect_ok(status);
    return 1;
}

/* The same by two ops: float32, and that to e4m3. What the first is given as out is not looked at. */
static void run_apart(const e4m3_case *c, const e4m3_arrays *a, array *product, array *bytes, array *scales, array *counted, side s)
{
    rvit_linear_args args = args_of(c, a, s);
    const rvit_view nothing = {NULL, 0};
    args.out_dtype = RVIT_F32;
    args.static_scale = args.out_scales = args.saturated = nothing;
    args.out = array_view(product, s);
    expect_ok(rvit_linear(H.stream[s], &args));
    rvit_quantize_args quantize = RVIT_QUANTIZE_ARGS_INIT;
    quantize.out_dtype = RVIT_E4M3;
    quantize.rows = args.rows;
    quantize.columns = c->out_features;
    quantize.x = array_view(product, s);
    quantize.static_scale = array_view(a->scale, s);
    quantize.out = array_view(bytes, s);
    quantize.out_scales = array_view(scales, s);
    quantize.saturated = array_view(counted, s);
    expect_ok(rvit_quantize(H.stream[s], &quantize));
}

static void run(const e4m3_case *c)
{
    const int64_t columns = (int64_t)c->out_features * (c->gated ? 2 : 1), n = c->rows * c->out_features;
    const e4m3_arrays a = make(c);
    array *product = array_output("product", c->capacity * c->out_features * 4),
          *bytes = array_output("bytes", c->capacity * c->out_features);
    array *scales = array_output("scales", c->capacity * 4), *counted = array_output("counted", 4);
    memcpy(counted->host, &(int32_t){COUNTED_BEFORE}, 4);
    arrays_upload();
    linear_problem p = {.rows = c->rows,
                        .in_features = c->in_features,
                        .out_features = c->out_features,
                        .activation = c->activation,
                        .gated = c->gated,
                        .x = loaded(RVIT_E4M3, a.x->host, 0, c->rows * c->in_features),
                        .weight = loaded(RVIT_E4M3, a.weight->host, 0, columns * c->in_features),
                        .x_scales = loaded(RVIT_F32, a.x_scales->host, 0, c->rows),
                        .weight_scales = loaded(RVIT_F32, a.weight_scales->host, 0, columns),
                        .bias = a.bias ? loaded(RVIT_F32, a.bias->host, 0, columns) : NULL};
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    linear_f64(&p, exact);
    p.sum_bits = H.desc.backend == RVIT_BACKEND_CUDA ? 13 : 0;
    linear_f32(&p, plain);
    char what[160];
    snprintf(what, sizeof what, "linear to e4m3, %lld rows, %d x %d, bias %d, activation %d, gated %d, scale %g", (long long)c->rows,
             c->in_features, c->out_features, c->bias, (int)c->activation, c->gated, (double)c->scale);
    for (side s = 0; (int)s < H.n_sides; s++) {
        const rvit_linear_args args = args_of(c, &a, s);
        if (!makes_e4m3(s, &args))
            continue;
        arrays_fetch(s);
        array_expect_untouched(a.out, s, n);
        array_expect_untouched(a.out_scales, s, c->rows * 4);
        for (int64_t t = 0; t < c->rows; t++)
            assert_memory_equal(a.out_scales->result[s] + t * 4, &c->scale, 4);
        const int64_t cut = check_static_bytes(what, RVIT_E4M3, a.out->result[s], c->scale, exact, plain, n,
                                               a.saturated ? *(int32_t *)(void *)a.saturated->result[s] - COUNTED_BEFORE : -1);
        if (c->counts && c->scale < 0.005f)
            assert_true(cut > 0);
        if (s == DEVICE && H.desc.backend != RVIT_BACKEND_CPU)
            continue;
        run_apart(c, &a, product, bytes, scales, counted, s); /* on the CPU bit for bit */
        arrays_fetch(s);
        assert_memory_equal(a.out->result[s], bytes->result[s], (size_t)n);
        if (a.saturated)
            assert_memory_equal(a.saturated->result[s], counted->result[s], 4);
    }
    harness_teardown(NULL);
}

/* Sizes that GPUs have and that they refuse; scales that cut nothing off, and that cut off and count; for GELU two that halves cannot
   hold the values of. */
static void linear_e4m3_again(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{16, 16}, {48, 32}, {128, 192}, {272, 224}, {192, 576}, {768, 96}, {1152, 48}};
    static const int64_t rows[] = {1, 37, 130, 5, 197, 33, 16};
    static const float gelu_scales[] = {0.02f, 1e-4f, 200};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int activation = 0; activation <= RVIT_ACTIVATION_SILU; activation++)
            for (int gated = 0; gated < 2; gated++) {
                if (leaves_out((int)i + activation + gated, 2))
                    continue;
                const e4m3_case c = {.in_features = sizes[i][0],
                                     .out_features = sizes[i][1],
                                     .rows = rows[i],
                                     .capacity = rows[i] + (int64_t)i % 3,
                                     .activation = (rvit_activation)activation,
                                     .gated = gated,
                                     .bias = (i + (size_t)activation) % 3 != 0,
                                     .counts = (i + (size_t)activation) % 2 == 0,
                                     .scale = activation == RVIT_ACTIVATION_GELU ? gelu_scales[i % 3]
                                              : activation % 2                   ? 0.02f
                                                                                 : 0.001f};
                run(&c);
            }
}

/* A value that is not finite becomes NaN, and no other of its row; one that is only too large is cut off. */
static void check_not_finite(rvit_activation activation)
{
    enum { ROWS = 70, IN = 64, OUT = 96, NAN_ROW = 4, ENDLESS = 33, SCALED_ROW = 66 };
    const e4m3_case c = {.in_features = IN,
                         .out_features = OUT,
                         .rows = ROWS,
                         .capacity = ROWS,
                         .activation = activation,
                         .bias = 1,
                         .counts = 1,
                         .scale = 1e-3f};
    const e4m3_arrays a = make(&c);
    a.x->host[NAN_ROW * IN + 9] = 0x7f;
    store(RVIT_F32, a.x_scales->host, SCALED_ROW, NAN);
    store(RVIT_F32, a.bias->host, ENDLESS, INFINITY);
    store(RVIT_F32, a.bias->host, ENDLESS + 1, -INFINITY);
    store(RVIT_F32, a.bias->host, ENDLESS + 2, 3e38f);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        const rvit_linear_args args = args_of(&c, &a, s);
        if (!makes_e4m3(s, &args))
            continue;
        arrays_fetch(s);
        for (int t = 0; t < ROWS; t++)
            for (int j = 0; j < OUT; j++) {
                const uint8_t got = a.out->result[s][t * OUT + j];
                const int is_nan = t == NAN_ROW || t == SCALED_ROW || j == ENDLESS || j == ENDLESS + 1;
                if (activation == RVIT_ACTIVATION_GELU && j == ENDLESS + 1 && !(t == NAN_ROW || t == SCALED_ROW))
                    continue; /* of minus infinity it is 0 or NaN */
                if ((got == 0x7f) != is_nan || (j == ENDLESS + 2 && !is_nan && got != 0x7e))
                    fail_msg("row %d, column %d is %02x", t, j, got);
            }
        for (int t = 0; t < ROWS; t++)
            assert_memory_equal(a.out_scales->result[s] + t * 4, &c.scale, 4);
        assert_true(*(int32_t *)(void *)a.saturated->result[s] >= COUNTED_BEFORE + ROWS - 2); /* the column of 3e38 */
    }
    harness_teardown(NULL);
}

static void linear_e4m3_not_finite(void **state)
{
    (void)state;
    check_not_finite(RVIT_ACTIVATION_NONE);
    check_not_finite(RVIT_ACTIVATION_GELU);
}

/* One that is no scale makes all NaN. */
static void linear_e4m3_bad_scales(void **state)
{
    (void)state;
    static const float bad[] = {0, -1, 1e-39f, 1e35f, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        enum { ROWS = 9, OUT = 64 };
        const e4m3_case c = {
            .in_features = 32, .out_features = OUT, .rows = ROWS, .capacity = ROWS + 2, .bias = 1, .counts = 1, .scale = bad[i]};
        const e4m3_arrays a = make(&c);
        arrays_upload();
        for (side s = 0; (int)s < H.n_sides; s++) {
            const rvit_linear_args args = args_of(&c, &a, s);
            if (!makes_e4m3(s, &args))
                continue;
            arrays_fetch(s);
            array_expect_untouched(a.out, s, ROWS * OUT);
            for (int t = 0; t < ROWS; t++)
                assert_true(isnan(load(RVIT_F32, a.out_scales->result[s], t)));
            for (int j = 0; j < ROWS * OUT; j++)
                assert_int_equal(a.out->result[s][j], 0x7f);
            assert_memory_equal(a.saturated->result[s], &(int32_t){COUNTED_BEFORE}, 4);
        }
        harness_teardown(NULL);
    }
}

/* A row has the same bytes wherever it stands, and whatever its batch mates are. */
static void linear_e4m3_position(void **state)
{
    (void)state;
    enum { ROWS = 300, IN = 192, OUT = 224 };
    static const struct {
        int32_t rows, at;
    } of[] = {{1, 0}, {300, 0}, {300, 299}, {129, 128}, {65, 40}, {300, 70}, {256, 255}};
    for (int activation = 0; activation <= RVIT_ACTIVATION_GELU_TANH; activation++) {
        uint8_t row[IN], wanted[OUT];
        random_bytes(RVIT_E4M3, row, IN);
        const e4m3_case all = {.in_features = IN,
                               .out_features = OUT,
                               .rows = ROWS,
                               .capacity = ROWS + 1,
                               .activation = (rvit_activation)activation,
                               .bias = 1,
                               .scale = 0.01f};
        const e4m3_arrays a = make(&all);
        for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
            random_bytes(RVIT_E4M3, a.x->host, ROWS * IN);
            memcpy(a.x->host + of[i].at * IN, row, IN);
            for (int t = 0; t < ROWS; t++)
                store(RVIT_F32, a.x_scales->host, t, t == of[i].at ? 0.01f : 0.01f * random_normal());
            memcpy(a.live->host, &of[i].rows, 4);
            arrays_upload();
            const rvit_linear_args args = args_of(&all, &a, DEVICE);
            if (!makes_e4m3(DEVICE, &args))
                break;
            arrays_fetch(DEVICE);
            array_expect_untouched(a.out, DEVICE, of[i].rows * OUT);
            if (i == 0)
                memcpy(wanted, a.out->result[DEVICE], OUT);
            assert_memory_equal(wanted, a.out->result[DEVICE] + of[i].at * OUT, OUT);
        }
        harness_teardown(NULL);
    }
}

SUITE(linear_e4m3_suite, TEST(linear_e4m3_again), TEST(linear_e4m3_not_finite), TEST(linear_e4m3_bad_scales), TEST(linear_e4m3_position));
