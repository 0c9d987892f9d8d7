#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef enum residual_kind { NO_RESIDUAL, SEPARATE, IN_PLACE, PERIODIC } residual_kind;

typedef struct linear_case {
    rvit_dtype dtype, out_dtype;
    int32_t in_features, out_features;
    int64_t rows, capacity; /* live rows and the bound; with a live count if they differ */
    int bias;
    rvit_activation activation;
    int gated;
    residual_kind residual;
    int padded; /* the rows past the live ones may be written */
} linear_case;

enum { N_ACTIVATIONS = RVIT_ACTIVATION_SILU + 1 };

static void check_result(const linear_case *c, rvit_dtype dtype, array *out, side s, const double *exact, const float *plain)
{
    const int64_t n_out = c->rows * c->out_features;
    char what[180];
    snprintf(what, sizeof what, "linear %s to %s, %lld rows, %d x %d, bias %d, activation %d, gated %d, residual %d",
             rvit_enum_name(RVIT_ENUM_DTYPE, dtype), rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), (long long)c->rows, c->in_features,
             c->out_features, c->bias, (int)c->activation, c->gated, c->residual);
    const float *got = loaded(c->out_dtype, out->result[s], 0, n_out);
    if (s == ORACLE)
        check_oracle(what, c->out_dtype, got, exact, n_out);
    else
        check_close(what, c->out_dtype, got, exact, plain, n_out);
}

static void run(const linear_case *c)
{
    const int64_t element = rvit_dtype_size(c->dtype), out_element = rvit_dtype_size(c->out_dtype);
    const int64_t period = c->residual == PERIODIC ? 5 : 0, n_out = c->rows * c->out_features;
    const int64_t columns = (int64_t)c->out_features * (c->gated ? 2 : 1);
    array *x = array_input("x", c->capacity * c->in_features * element);
    array *weight = array_input("weight", columns * c->in_features * element);
    array *bias = c->bias ? array_input("bias", columns * 4) : NULL;
    array *out = array_output("out", c->capacity * c->out_features * out_element);
    array *live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows);
    array *residual = c->residual == IN_PLACE ? out : NULL;
    if (c->residual == SEPARATE || c->residual == PERIODIC)
        residual = array_input("residual", (period ? period : c->capacity) * c->out_features * out_element);
    store_normal(c->dtype, x->host, 0, c->rows * c->in_features, 1);
    store_normal(c->dtype, weight->host, 0, columns * c->in_features, 1 / sqrtf((float)c->in_features));
    if (bias)
        store_normal(RVIT_F32, bias->host, 0, columns, 1);
    if (residual)
        store_normal(c->out_dtype, residual->host, 0, period ? period * c->out_features : n_out, 1);
    arrays_upload();

    linear_problem p = {.rows = c->rows,
                        .in_features = c->in_features,
                        .out_features = c->out_features,
                        .activation = c->activation,
                        .gated = c->gated,
                        .period = period};
    p.x = loaded(c->dtype, x->host, 0, c->rows * c->in_features);
    p.weight = loaded(c->dtype, weight->host, 0, columns * c->in_features);
    p.bias = bias ? loaded(RVIT_F32, bias->host, 0, columns) : NULL;
    p.residual = residual ? loaded(c->out_dtype, residual->host, 0, period ? period * c->out_features : n_out) : NULL;
    double *exact = scratch((size_t)n_out * sizeof *exact);
    float *plain = scratch((size_t)n_out * sizeof *plain);
    linear_f64(&p, exact);
    linear_f32(&p, plain);

    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.dtype = c->dtype;
        args.out_dtype = c->out_dtype;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.rows.padded = c->padded;
        args.in_features = c->in_features;
        args.out_features = c->out_features;
        args.activation = c->activation;
        args.gated = c->gated;
        args.x = array_view(x, s);
        args.weight = array_view(weight, s);
        args.bias = array_view(bias, s);
        args.residual = array_view(residual, s);
        args.residual_period = period;
        args.out = array_view(out, s);
        if (!supported(s, type_feature(c->dtype), rvit_linear(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        if (!c->padded)
            array_expect_untouched(out, s, n_out * out_element);
        check_result(c, c->dtype, out, s, exact, plain);
    }
    harness_teardown(NULL);
}

static void linear_variants(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int wide = 0; wide < (t ? 2 : 1); wide++)
            for (int bias = 0; bias < 2; bias++)
                for (int gelu = 0; gelu < 2; gelu++)
                    for (residual_kind residual = NO_RESIDUAL; residual <= PERIODIC; residual++) {
                        if (leaves_out(t + wide + bias + gelu + (int)residual, 2))
                            continue;
                        const linear_case c = {.dtype = stored_types[t],
                                               .out_dtype = wide ? RVIT_F32 : stored_types[t],
                                               .in_features = 64,
                                               .out_features = 48,
                                               .rows = 37,
                                               .capacity = 50,
                                               .bias = bias,
                                               .activation = gelu ? RVIT_ACTIVATION_GELU : RVIT_ACTIVATION_NONE,
                                               .residual = residual};
                        run(&c);
                    }
}

/* Each activation, gated or not. What comes before and after it is the same for all. */
static void linear_forms(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int wide = 0; wide < (t ? 2 : 1); wide++)
            for (int activation = 0; activation < N_ACTIVATIONS; activation++)
                for (int gated = 0; gated < 2; gated++) {
                    if (leaves_out(t + wide + activation + gated, 3))
                        continue;
                    const linear_case c = {.dtype = stored_types[t],
                                           .out_dtype = wide ? RVIT_F32 : stored_types[t],
                                           .in_features = 64,
                                           .out_features = 40,
                                           .rows = 37,
                                           .capacity = 50,
                                           .bias = activation != RVIT_ACTIVATION_QUICK_GELU,
                                           .activation = (rvit_activation)activation,
                                           .gated = gated,
                                           .residual = (residual_kind)((activation + wide + 2 * gated) % 4)};
                    run(&c);
                }
}

static void linear_sizes(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{4, 4}, {12, 20}, {36, 100}, {260, 132}, {192, 576}, {768, 192}, {1024, 36}, {1152, 68}};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            if (leaves_out(t + (int)i / 2, 2)) /* with i, the remaining cases would depend only on t */
                continue;
            const linear_case c = {.dtype = stored_types[t],
                                   .out_dtype = stored_types[t],
                                   .in_features = sizes[i][0],
                                   .out_features = sizes[i][1],
                                   .rows = 66,
                                   .capacity = 70,
                                   .bias = 1,
                                   .activation = (rvit_activation)(i % N_ACTIVATIONS),
                                   .gated = (t + (int)i) % 2,
                                   .residual = i % 3 ? SEPARATE : IN_PLACE};
            run(&c);
        }
}

/* Enough of both for the larger tiles of backends that choose by the number of groups. */
static void linear_large(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int gated = 0; gated < 2; gated++) {
            if (leaves_out(t + gated, 2))
                continue;
            const linear_case c = {.dtype = stored_types[t],
                                   .out_dtype = stored_types[t],
                                   .in_features = 40,
                                   .out_features = gated ? 388 : 772,
                                   .rows = 700,
                                   .capacity = 703,
                                   .bias = 1,
                                   .activation = gated ? RVIT_ACTIVATION_SILU : RVIT_ACTIVATION_NONE,
                                   .gated = gated,
                                   .residual = PERIODIC};
            run(&c);
        }
}

static void linear_rows(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 197, 257};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (int padded = 0; padded < 2; padded++) {
                if (leaves_out(t + (int)i + padded, 2))
                    continue;
                const linear_case c = {.dtype = stored_types[t],
                                       .out_dtype = stored_types[t],
                                       .in_features = 40,
                                       .out_features = 36,
                                       .rows = rows[i],
                                       .capacity = rows[i] + padded * 3,
                                       .bias = 1,
                                       .activation = padded ? (rvit_activation)(1 + i % 4) : RVIT_ACTIVATION_NONE,
                                       .gated = (int)i / 4 % 2,
                                       .residual = padded ? PERIODIC : SEPARATE};
                run(&c);
            }
}

/* Rows past the live ones hold NaN, and may be computed with: no live row is the worse for it. */
static void linear_padded(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 33, 64, 100};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (residual_kind residual = NO_RESIDUAL; residual <= PERIODIC; residual++) {
                const linear_case c = {.dtype = stored_types[t],
                                       .out_dtype = stored_types[t],
                                       .in_features = 64,
                                       .out_features = 72,
                                       .rows = rows[i],
                                       .capacity = 100,
                                       .bias = 1,
                                       .activation = i % 2 == 0     ? RVIT_ACTIVATION_NONE
                                                     : residual % 2 ? RVIT_ACTIVATION_SILU
                                                                    : RVIT_ACTIVATION_GELU,
                                       .gated = residual % 2,
                                       .residual = residual,
                                       .padded = 1};
                run(&c);
            }
}

/* A row's result does not depend on where it stands: what the forward's independence of batch mates rests on. */
static void check_position(rvit_dtype dtype, rvit_activation activation, int gated)
{
    enum { ROWS = 300, IN = 192, OUT = 64 };
    const int columns = gated ? 2 * OUT : OUT, bytes = dtype == RVIT_I8 || dtype == RVIT_E4M3;
    const rvit_dtype out_dtype = bytes ? RVIT_F32 : dtype;
    const int64_t element = rvit_dtype_size(dtype), out_element = rvit_dtype_size(out_dtype);
    array *x = array_input("x", ROWS * IN * element), *weight = array_input("weight", columns * IN * element);
    array *out = array_output("out", ROWS * OUT * out_element), *live = array_input("live", 4);
    array *x_scales = bytes ? array_input("x_scales", ROWS * 4) : NULL, *scales = bytes ? array_input("weight_scales", columns * 4) : NULL;
    if (bytes) {
        random_bytes(dtype, weight->host, columns * IN);
        random_bytes(dtype, x->host, IN);
        for (int i = 0; i < ROWS; i++)
            store(RVIT_F32, x_scales->host, i, 0.01f);
        for (int j = 0; j < columns; j++)
            store(RVIT_F32, scales->host, j, 0.001f * (float)(j + 1));
    } else {
        store_normal(dtype, weight->host, 0, columns * IN, 0.1f);
        store_normal(dtype, x->host, 0, IN, 1);
    }
    for (int r = 1; r < ROWS; r++)
        memcpy(x->host + r * IN * element, x->host, (size_t)(IN * element));
    static const int32_t counts[] = {ROWS, 1, 3, 33, 130, 299};
    const size_t row_size = (size_t)(OUT * out_element);
    uint8_t *first = scratch(row_size);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        memcpy(live->host, &counts[i], 4);
        arrays_upload();
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.dtype = dtype;
        args.out_dtype = out_dtype;
        args.rows.capacity = ROWS;
        args.rows.live = array_view(live, DEVICE);
        args.in_features = IN;
        args.out_features = OUT;
        args.activation = activation;
        args.gated = gated;
        args.x = array_view(x, DEVICE);
        args.weight = array_view(weight, DEVICE);
        args.x_scales = array_view(x_scales, DEVICE);
        args.weight_scales = array_view(scales, DEVICE);
        args.out = array_view(out, DEVICE);
        if (!supported(DEVICE, type_feature(dtype), rvit_linear(H.stream[DEVICE], &args)))
            return;
        arrays_fetch(DEVICE);
        if (i == 0)
            memcpy(first, out->result[DEVICE], row_size);
        for (size_t r = 0; r < (size_t)counts[i]; r++)
            if (memcmp(first, out->result[DEVICE] + r * row_size, row_size))
                fail_msg("%s, activation %d, gated %d: row %d of %d equal rows has another result", rvit_enum_name(RVIT_ENUM_DTYPE, dtype),
                         (int)activation, gated, (int)r, counts[i]);
    }
    harness_teardown(NULL);
}

static void linear_position(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++) {
        check_position(stored_types[t], RVIT_ACTIVATION_GELU, 0);
        check_position(stored_types[t], RVIT_ACTIVATION_QUICK_GELU, 0);
        check_position(stored_types[t], RVIT_ACTIVATION_SILU, 1);
    }
    for (int t = 0; t < 2; t++) {
        check_position(byte_types[t], RVIT_ACTIVATION_NONE, 0);
        check_position(byte_types[t], RVIT_ACTIVATION_GELU, 1);
    }
}

/* The count of live rows is clamped to 0..capacity. */
static void linear_live_out_of_range(void **state)
{
    (void)state;
    static const int32_t lives[] = {9, 1000000000, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
        array *x = array_input("x", 9 * 8 * 4), *weight = array_input("weight", 4 * 8 * 4);
        array *out = array_output("out", 9 * 4 * 4), *live = array_live(lives[i]);
        store_normal(RVIT_F32, x->host, 0, 9 * 8, 1);
        store_normal(RVIT_F32, weight->host, 0, 4 * 8, 1);
        arrays_upload();
        for (side s = 0; (int)s < H.n_sides; s++) {
            rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
            args.rows.capacity = 9;
            args.rows.live = array_view(live, s);
            args.in_features = 8;
            args.out_features = 4;
            args.x = array_view(x, s);
            args.weight = array_view(weight, s);
            args.out = array_view(out, s);
            expect_ok(rvit_linear(H.stream[s], &args));
            arrays_fetch(s);
            if (lives[i] < 0)
                array_expect_untouched(out, s, 0);
            float wanted[9 * 4];
            const linear_problem p = {.rows = 9,
                                      .in_features = 8,
                                      .out_features = 4,
                                      .x = (const float *)(const void *)x->host,
                                      .weight = (const float *)(const void *)weight->host};
            linear_f32(&p, wanted);
            if (lives[i] > 0)
                assert_true(largest_difference((const float *)(const void *)out->result[s], wanted, 9 * 4) < 1e-5);
        }
        harness_teardown(NULL);
    }
}

/* Of int8 and e4m3 the operands are exact: what remains is the rounding of scales, bias, activation and residual. */
static void run_bytes(rvit_dtype dtype, const linear_case *c)
{
    const int64_t columns = (int64_t)c->out_features * (c->gated ? 2 : 1), n_out = c->rows * c->out_features;
    const int64_t out_element = rvit_dtype_size(c->out_dtype);
    array *x = array_input("x", c->capacity * c->in_features), *weight = array_input("weight", columns * c->in_features);
    array *x_scales = array_input("x_scales", c->capacity * 4), *weight_scales = array_input("weight_scales", columns * 4);
    array *bias = c->bias ? array_input("bias", columns * 4) : NULL;
    array *out = array_output("out", c->capacity * c->out_features * out_element);
    array *live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows);
    array *residual = c->residual == IN_PLACE ? out : NULL;
    if (c->residual == SEPARATE)
        residual = array_input("residual", c->capacity * c->out_features * out_element);
    random_bytes(dtype, x->host, c->rows * c->in_features);
    random_bytes(dtype, weight->host, columns * c->in_features);
    for (int64_t t = 0; t < c->rows; t++)
        store(RVIT_F32, x_scales->host, t, t == 2 ? 0 : 0.01f * (1 + fabsf(random_normal())));
    for (int64_t j = 0; j < columns; j++)
        store(RVIT_F32, weight_scales->host, j, j == 5 ? 0 : 0.003f * (1 + fabsf(random_normal())) / sqrtf((float)c->in_features));
    if (bias)
        store_normal(RVIT_F32, bias->host, 0, columns, 1);
    if (residual)
        store_normal(c->out_dtype, residual->host, 0, n_out, 1);
    arrays_upload();
    linear_problem p = {.rows = c->rows,
                        .in_features = c->in_features,
                        .out_features = c->out_features,
                        .activation = c->activation,
                        .gated = c->gated,
                        .x = loaded(dtype, x->host, 0, c->rows * c->in_features),
                        .weight = loaded(dtype, weight->host, 0, columns * c->in_features),
                        .x_scales = loaded(RVIT_F32, x_scales->host, 0, c->rows),
                        .weight_scales = loaded(RVIT_F32, weight_scales->host, 0, columns)};
    p.bias = bias ? loaded(RVIT_F32, bias->host, 0, columns) : NULL;
    p.residual = residual ? loaded(c->out_dtype, residual->host, 0, n_out) : NULL;
    double *exact = scratch((size_t)n_out * sizeof *exact);
    float *plain = scratch((size_t)n_out * sizeof *plain);
    linear_f64(&p, exact);
    p.sum_bits = dtype == RVIT_E4M3 && H.desc.backend == RVIT_BACKEND_CUDA ? 13 : 0;
    linear_f32(&p, plain);
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.dtype = dtype;
        args.out_dtype = c->out_dtype;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.in_features = c->in_features;
        args.out_features = c->out_features;
        args.activation = c->activation;
        args.gated = c->gated;
        args.x = array_view(x, s);
        args.weight = array_view(weight, s);
        args.x_scales = array_view(x_scales, s);
        args.weight_scales = array_view(weight_scales, s);
        args.bias = array_view(bias, s);
        args.residual = array_view(residual, s);
        args.out = array_view(out, s);
        if (!supported(s, type_feature(dtype), rvit_linear(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        array_expect_untouched(out, s, n_out * out_element);
        check_result(c, dtype, out, s, exact, plain);
    }
    harness_teardown(NULL);
}

static void linear_bytes(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{16, 4}, {48, 20}, {64, 48}, {272, 132}, {192, 576}, {768, 192}, {1152, 68}, {3072, 40}};
    static const int64_t rows[] = {1, 37, 66, 5, 197, 33, 16, 130};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int u = 0; u < N_STORED_TYPES; u++) {
                if (leaves_out(t + (int)i + u, 3))
                    continue;
                const linear_case c = {.out_dtype = stored_types[u],
                                       .in_features = sizes[i][0],
                                       .out_features = sizes[i][1],
                                       .rows = rows[i],
                                       .capacity = rows[i] + (u ? 3 : 0),
                                       .bias = i % 3 != 0,
                                       .activation = (rvit_activation)((i + (size_t)u) % N_ACTIVATIONS),
                                       .gated = (t + (int)i + u) % 3 == 0,
                                       .residual = (residual_kind)((i + (size_t)u) % 3)};
                run_bytes(byte_types[t], &c);
            }
}

/* What models ask for. */
static void linear_bytes_of_models(void **state)
{
    (void)state;
    static const struct {
        rvit_dtype out_dtype;
        int32_t in_features, out_features, bias;
        residual_kind residual;
    } of[] = {{RVIT_F16, 192, 144, 1, NO_RESIDUAL}, {RVIT_BF16, 192, 260, 0, NO_RESIDUAL}, {RVIT_F32, 768, 192, 1, IN_PLACE}};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
            const linear_case c = {.out_dtype = of[i].out_dtype,
                                   .in_features = of[i].in_features,
                                   .out_features = of[i].out_features,
                                   .rows = 99,
                                   .capacity = 99 + (int64_t)i % 2,
                                   .bias = of[i].bias,
                                   .residual = of[i].residual};
            run_bytes(byte_types[t], &c);
        }
}

/* int8 sums are exact and do not overflow in any kernel, even the largest. A row with a NaN scale is NaN. */
static void linear_int8_exact(void **state)
{
    (void)state;
    enum { ROWS = 40 };
    static const int32_t lengths[] = {16, 64, 80, 784, 65536, 4096};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        const int32_t in = lengths[l], width = l % 2 ? 36 : 40;
        array *x = array_input("x", ROWS * in), *weight = array_input("weight", width * in);
        array *out = array_output("out", (int64_t)ROWS * width * 4);
        array *x_scales = array_input("x_scales", ROWS * 4), *weight_scales = array_input("weight_scales", (int64_t)width * 4);
        random_bytes(RVIT_I8, x->host, ROWS * in);
        random_bytes(RVIT_I8, weight->host, width * in);
        memset(x->host, 127, (size_t)in);
        memset(x->host + in, 0x80, (size_t)in); /* -128, which no quantisation makes */
        memset(weight->host, 0x80, (size_t)in);
        memset(weight->host + in, 127, (size_t)in);
        for (int i = 0; i < ROWS; i++)
            store(RVIT_F32, x_scales->host, i, i == 7 ? NAN : 0.5f + (float)i / 64);
        for (int j = 0; j < width; j++)
            store(RVIT_F32, weight_scales->host, j, 0.001f * (float)(j + 1));
        arrays_upload();
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.dtype = RVIT_I8;
        args.rows.capacity = ROWS;
        args.in_features = in;
        args.out_features = width;
        args.x = array_view(x, DEVICE);
        args.weight = array_view(weight, DEVICE);
        args.x_scales = array_view(x_scales, DEVICE);
        args.weight_scales = array_view(weight_scales, DEVICE);
        args.out = array_view(out, DEVICE);
        if (!supported(DEVICE, "int8", rvit_linear(H.stream[DEVICE], &args)))
            return;
        arrays_fetch(DEVICE);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < width; j++) {
                int32_t sum = 0;
                for (int32_t k = 0; k < in; k++)
                    sum += (int8_t)x->host[i * in + k] * (int8_t)weight->host[j * in + k];
                const float scale = load(RVIT_F32, x_scales->host, i) * load(RVIT_F32, weight_scales->host, j);
                const float wanted = (float)sum * scale, got = load(RVIT_F32, out->result[DEVICE], i * width + j);
                if (i == 7 ? !isnan(got) : memcmp(&wanted, &got, 4) != 0)
                    fail_msg("sum of %d: row %d, column %d is %.9g, should be %.9g", in, i, j, (double)got, (double)wanted);
            }
        harness_teardown(NULL);
    }
}

/* A call that works. */
void good_linear(rvit_linear_args *a)
{
    a->rows = good_rows();
    a->in_features = GOOD_DIM;
    a->out_features = 8;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->weight = good_input("weight", 8 * GOOD_DIM * 4);
    a->bias = good_input("bias", 32);
    a->residual = good_input("residual", GOOD_ROWS * 8 * 4);
    a->out = good_output("out", GOOD_ROWS * 8 * 4);
}

SUITE(linear_suite, TEST(linear_variants), TEST(linear_forms), TEST(linear_sizes), TEST(linear_large), TEST(linear_rows),
      TEST(linear_padded), TEST(linear_position), TEST(linear_live_out_of_range), TEST(linear_bytes), TEST(linear_bytes_of_models),
      TEST(linear_int8_exact));
