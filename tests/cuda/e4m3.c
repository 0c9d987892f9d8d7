/* e4m3 GEMMs with a session's hints: one scale for all rows, a bias in the type that cuBLASLt adds, padding rows. Checks the results,
   and which GEMMs cuBLASLt ran, if it is the emulated one. */
#include "cuda_tests.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "backend_cuda/cu.h"
#include "core/base/e4m3.h"
#include "core/device/device.h"
#include "reference/plain.h"

enum { CAPACITY = 61, LIVE_ROWS = 45, IN = 208, OUT = 72, NAN_ROW = 7 };
typedef enum rows_kind { KNOWN, LIVE, PADDED, N_ROWS_KINDS } rows_kind;

typedef struct e4m3_case {
    rvit_dtype out_dtype;
    int bias, narrow, residual, one_scale;
    rvit_activation activation;
    rows_kind rows;
} e4m3_case;

/* -1: the library is not emulated. */
static long long lt_gemms(void)
{
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "rvit_emulation_gemms") : NULL;
    long long (*count)(void) = NULL;
    memcpy(&count, &symbol, sizeof count);
    if (library != NULL)
        dlclose(library);
    return count == NULL ? -1 : count();
}

/* Whether the emulated library has this GEMM; per-row scales need 9.0. */
static int uses_lt(const e4m3_case *c)
{
    const char *const architecture = getenv("RVIT_EMU_ARCH");
    const int has_rows = architecture != NULL && atoi(architecture) == 90;
    return c->rows != LIVE && (c->one_scale || has_rows) && !(c->residual && c->activation != RVIT_ACTIVATION_NONE);
}

static void check(const e4m3_case *c)
{
    const int64_t out_element = rvit_dtype_size(c->out_dtype), rows = c->rows == KNOWN ? CAPACITY : LIVE_ROWS, n = rows * OUT;
    array *x = array_input("x", CAPACITY * IN), *weight = array_input("weight", OUT * IN);
    array *x_scales = array_input("x_scales", CAPACITY * 4), *weight_scales = array_input("weight_scales", OUT * 4);
    array *one_scale = c->one_scale ? array_input("one_scale", 4) : NULL;
    array *bias = c->bias ? array_input("bias", OUT * 4) : NULL, *narrow = c->narrow ? array_input("narrow", OUT * 2) : NULL;
    array *live = c->rows == KNOWN ? NULL : array_input("live", 4);
    array *out = array_output("out", CAPACITY * OUT * out_element);
    const rvit_dtype narrow_dtype = c->out_dtype == RVIT_F32 ? RVIT_BF16 : c->out_dtype;
    for (int64_t i = 0; i < CAPACITY * IN; i++)
        x->host[i] = i / IN == NAN_ROW ? 0x7f : rvit_f32_to_e4m3(100 * random_normal());
    for (int64_t i = 0; i < OUT * IN; i++)
        weight->host[i] = rvit_f32_to_e4m3(100 * random_normal());
    for (int64_t t = 0; t < CAPACITY; t++)
        store(RVIT_F32, x_scales->host, t, t == NAN_ROW ? NAN : c->one_scale ? 0.02f : 0.01f + 0.0003f * (float)t);
    for (int64_t j = 0; j < OUT; j++)
        store(RVIT_F32, weight_scales->host, j, c->one_scale ? 0.0007f : 0.0005f + 0.00002f * (float)j);
    if (one_scale)
        store(RVIT_F32, one_scale->host, 0, 0.02f);
    for (int64_t j = 0; bias && j < OUT; j++)
        store(RVIT_F32, bias->host, j, rounded(narrow_dtype, 3 * random_normal()));
    for (int64_t j = 0; narrow && j < OUT; j++)
        store(narrow_dtype, narrow->host, j, load(RVIT_F32, bias->host, j));
    if (c->residual)
        store_normal(c->out_dtype, out->host, 0, CAPACITY * OUT, 3);
    if (live)
        memcpy(live->host, &(int32_t){LIVE_ROWS}, 4);
    linear_problem p = {.rows = rows, .in_features = IN, .out_features = OUT, .activation = c->activation};
    p.x = loaded(RVIT_E4M3, x->host, 0, rows * IN);
    p.weight = loaded(RVIT_E4M3, weight->host, 0, OUT * IN);
    p.x_scales = loaded(RVIT_F32, x_scales->host, 0, rows);
    p.weight_scales = loaded(RVIT_F32, weight_scales->host, 0, OUT);
    p.bias = bias ? loaded(RVIT_F32, bias->host, 0, OUT) : NULL;
    p.residual = c->residual ? loaded(c->out_dtype, out->host, 0, n) : NULL;
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    linear_f64(&p, exact);
    p.sum_bits = 13;
    linear_f32(&p, plain);
    arrays_upload();

    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.hints.narrow_bias = array_view(narrow, DEVICE);
    op.hints.one_scale = array_view(one_scale, DEVICE);
    op.hints.padding_rows = c->rows == PADDED;
    op.linear.dtype = RVIT_E4M3;
    op.linear.out_dtype = c->out_dtype;
    op.linear.rows.capacity = CAPACITY;
    op.linear.rows.live = array_view(live, DEVICE);
    op.linear.in_features = IN;
    op.linear.out_features = OUT;
    op.linear.activation = c->activation;
    op.linear.x = array_view(x, DEVICE);
    op.linear.weight = array_view(weight, DEVICE);
    op.linear.x_scales = array_view(x_scales, DEVICE);
    op.linear.weight_scales = array_view(weight_scales, DEVICE);
    op.linear.bias = array_view(bias, DEVICE);
    op.linear.residual = c->residual ? array_view(out, DEVICE) : (rvit_view){NULL, 0};
    op.linear.out = array_view(out, DEVICE);
    const long long before = lt_gemms();
    expect_ok(rvit_stream_add(H.stream[DEVICE], &op));
    const long long after = lt_gemms();
    char what[120];
    snprintf(what, sizeof what, "e4m3 to %s, bias %d%s, activation %d, residual %d, rows %d, one scale %d",
             rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), c->bias, c->narrow ? " (narrow too)" : "", (int)c->activation, c->residual,
             (int)c->rows, c->one_scale);
    if (after >= 0 && after - (before < 0 ? 0 : before) != uses_lt(c))
        fail_msg("%s: %lld GEMMs by cuBLASLt", what, after - before);
    arrays_fetch(DEVICE);
    float *got = loaded(c->out_dtype, out->result[DEVICE], 0, n);
    for (int64_t j = NAN_ROW * OUT; j < (NAN_ROW + 1) * OUT; j++) { /* no other row has NaN */
        if (!isnan(got[j]))
            fail_msg("%s: the row with a NaN input has the output %g", what, (double)got[j]);
        got[j] = 0, exact[j] = 0, plain[j] = 0;
    }
    check_close(what, c->out_dtype, got, exact, plain, n);
    if (c->rows == LIVE)
        array_expect_untouched(out, DEVICE, n * out_element);
    harness_teardown(NULL);
}

static void e4m3_gemms(void **state)
{
    (void)state;
    if (!rvit_cu_device_of(H.device[DEVICE])->e4m3)
        skip();
    static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
    for (int type = 0; type < 3; type++)
        for (int form = 0; form < 4; form++)
            for (int one_scale = 0; one_scale < 2; one_scale++)
                for (int rows = 0; rows < N_ROWS_KINDS; rows++) {
                    const e4m3_case c = {.out_dtype = types[type],
                                         .bias = form > 0,
                                         .narrow = form == 2,
                                         .activation = form == 3 ? RVIT_ACTIVATION_GELU : RVIT_ACTIVATION_NONE,
                                         .residual = type == 0,
                                         .one_scale = one_scale,
                                         .rows = (rows_kind)rows};
                    check(&c);
                }
}

/* In a program's GEMM with a row count on the device, each row's bits do not depend on the other rows. */
static void check_rows_on_the_device(int one_scale)
{
    enum { MOST = 700 };
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_machine machine = device->machine;
    array *x = array_input("x", MOST * IN), *weight = array_input("weight", OUT * IN), *out = array_output("out", MOST * OUT * 2);
    array *x_scales = array_input("x_scales", MOST * 4), *weight_scales = array_input("weight_scales", OUT * 4);
    array *scale = array_input("one_scale", 4), *live = array_input("live", 4);
    for (int64_t i = 0; i < MOST * IN; i++)
        x->host[i] = rvit_f32_to_e4m3(100 * random_normal());
    for (int64_t i = 0; i < OUT * IN; i++)
        weight->host[i] = rvit_f32_to_e4m3(100 * random_normal());
    for (int64_t t = 0; t < MOST; t++)
        store(RVIT_F32, x_scales->host, t, 0.02f);
    for (int64_t j = 0; j < OUT; j++)
        store(RVIT_F32, weight_scales->host, j, 0.0007f);
    store(RVIT_F32, scale->host, 0, 0.02f);
    arrays_upload();
    rvit_op op = {.type = RVIT_OP_LINEAR, .hints = {.padding_rows = 1}, .linear = RVIT_LINEAR_ARGS_INIT};
    if (one_scale)
        op.hints.one_scale = array_view(scale, DEVICE);
    op.linear.dtype = RVIT_E4M3;
    op.linear.out_dtype = RVIT_F16;
    op.linear.rows.capacity = MOST;
    op.linear.rows.live = array_view(live, DEVICE);
    op.linear.in_features = IN;
    op.linear.out_features = OUT;
    op.linear.x = array_view(x, DEVICE);
    op.linear.weight = array_view(weight, DEVICE);
    op.linear.x_scales = array_view(x_scales, DEVICE);
    op.linear.weight_scales = array_view(weight_scales, DEVICE);
    op.linear.out = array_view(out, DEVICE);
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_ok(rvit_stream_add(H.stream[DEVICE], &op));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    device->machine = machine;
    static const int32_t counts[] = {MOST, 1, 69, 321, 699, MOST + 5, 0};
    char *whole = scratch(MOST * OUT * 2);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const int32_t n = counts[i] < MOST ? counts[i] : MOST;
        memcpy(live->host, &counts[i], 4);
        arrays_upload();
        expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
        arrays_fetch(DEVICE);
        if (i == 0)
            memcpy(whole, out->result[DEVICE], MOST * OUT * 2);
        for (int32_t j = 0; j < n * OUT; j++)
            assert_true(isfinite(load(RVIT_F16, out->result[DEVICE], j)));
        assert_memory_equal(whole, out->result[DEVICE], (size_t)n * OUT * 2);
    }
    rvit_program_destroy(program);
    harness_teardown(NULL);
}

static void e4m3_rows_on_the_device(void **state)
{
    (void)state;
    if (!rvit_cu_device_of(H.device[DEVICE])->e4m3)
        skip();
    for (int one_scale = 0; one_scale < 2; one_scale++)
        check_rows_on_the_device(one_scale);
}

/* With the scale of its largest value as the static scale, a row gets the same values as with its own scale. The kernels differ, so
   halfway cases may round either way. Only non-finite rows become NaN. */
static void check_static(rvit_dtype dtype, rvit_activation activation, int32_t columns)
{
    enum { ROWS = 300 };
    array *x = array_input("x", ROWS * columns * 2), *bias = array_input("bias", columns * 4), *scale = array_input("scale", 4);
    array *out[2] = {array_output("by row", ROWS * columns), array_output("static", ROWS * columns)};
    array *scales[2] = {array_output("scales by row", ROWS * 4), array_output("static scales", ROWS * 4)};
    store_normal(dtype, x->host, 0, columns, 1);
    for (int r = 1; r < ROWS; r++)
        memcpy(x->host + 2 * r * columns, x->host, (size_t)columns * 2);
    store(dtype, x->host, 200 * columns + 3, NAN);
    store(dtype, x->host, 201 * columns + columns - 1, INFINITY);
    store_normal(RVIT_F32, bias->host, 0, columns, 1);
    uint8_t *first = scratch((size_t)columns);
    for (int by = 0; by < 2; by++) {
        if (by == 1) {
            memcpy(scale->host, scales[0]->result[DEVICE], 4);
            memcpy(first, out[0]->result[DEVICE], (size_t)columns);
        }
        arrays_upload();
        rvit_quantize_args args = RVIT_QUANTIZE_ARGS_INIT;
        args.dtype = dtype;
        args.out_dtype = RVIT_E4M3;
        args.rows.capacity = ROWS;
        args.columns = columns;
        args.activation = activation;
        args.x = array_view(x, DEVICE);
        args.bias = array_view(bias, DEVICE);
        args.out = array_view(out[by], DEVICE);
        args.out_scales = array_view(scales[by], DEVICE);
        if (by == 1)
            args.static_scale = array_view(scale, DEVICE);
        expect_ok(rvit_quantize(H.stream[DEVICE], &args));
        arrays_fetch(DEVICE);
    }
    const float *of_rows = (const float *)(const void *)scales[1]->result[DEVICE];
    for (int r = 0; r < ROWS; r++) {
        const uint8_t *row = out[1]->result[DEVICE] + r * columns;
        const int is_nan = r == 200 || r == 201;
        assert_true(is_nan ? isnan(of_rows[r]) : memcmp(&of_rows[r], scale->host, 4) == 0);
        for (int32_t i = 0; i < columns; i++)
            if (is_nan ? row[i] != 0x7f : abs((row[i] & 127) - (first[i] & 127)) > 1)
                fail_msg("%s, activation %d, %d columns: value %d of row %d is %02x; with the row's own scale it is %02x",
                         rvit_enum_name(RVIT_ENUM_DTYPE, dtype), (int)activation, (int)columns, (int)i, r, row[i], first[i]);
    }
    harness_teardown(NULL);
}

static void e4m3_static_scales(void **state)
{
    (void)state;
    if (!rvit_cu_device_of(H.device[DEVICE])->e4m3)
        skip();
    for (rvit_dtype dtype = RVIT_F16; dtype <= RVIT_BF16; dtype++)
        for (int activation = 0; activation < 3; activation++) {
            check_static(dtype, (rvit_activation)activation, 208);
            check_static(dtype, (rvit_activation)activation, 3072);
        }
}

/* A device without e4m3 refuses with a reason. */
static void e4m3_refused(void **state)
{
    (void)state;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const int e4m3 = device->e4m3;
    array *x = array_input("x", 16 * 16 * 4), *out = array_output("out", 16 * 16), *scales = array_output("scales", 16 * 4);
    arrays_upload();
    rvit_quantize_args args = RVIT_QUANTIZE_ARGS_INIT;
    args.out_dtype = RVIT_E4M3;
    args.rows.capacity = args.columns = 16;
    args.x = array_view(x, DEVICE);
    args.out = array_view(out, DEVICE);
    args.out_scales = array_view(scales, DEVICE);
    device->e4m3 = 0;
    expect_status(rvit_quantize(H.stream[DEVICE], &args), RVIT_UNSUPPORTED, "compute capability 8.9");
    device->e4m3 = e4m3;
    args.out_dtype = RVIT_I8;
    expect_status(rvit_quantize(H.stream[DEVICE], &args), RVIT_UNSUPPORTED, "int8");
}

SUITE(e4m3_suite, TEST(e4m3_gemms), TEST(e4m3_rows_on_the_device), TEST(e4m3_static_scales), TEST(e4m3_refused));
