/* Tests GEMMs of cuBLASLt, which runs them if the host knows the row count or padding rows may be computed. Checks the results and, with
   the emulated library, how many GEMMs it ran. Without a library, the backend's own kernels run. */
#include "cuda_tests.h"

#include <dlfcn.h>

#include "backend_cuda/cu.h"
#include "reference/plain.h"
#include "core/device/device.h"

typedef enum residual_kind { NO_RESIDUAL, SEPARATE, IN_PLACE, PERIODIC, N_RESIDUALS } residual_kind;
typedef enum rows_kind { KNOWN, PADDED, LIVE, N_ROWS_KINDS } rows_kind;

typedef struct gemm_case {
    rvit_dtype dtype, out_dtype;
    int bias, narrow; /* narrow: the bias also exists in the output type */
    rvit_activation activation;
    int gated;
    residual_kind residual;
    rows_kind rows;
} gemm_case;

enum { CAPACITY = 37, LIVE_ROWS = 30, IN = 72, OUT = 56, PERIOD = 5 };

/* A function of the emulated library, or NULL. */
static void *emulated(const char *name)
{
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD), *symbol = NULL;
    if (library != NULL) {
        symbol = dlsym(library, name);
        dlclose(library);
    }
    return symbol;
}

/* -1: the library is not emulated. */
static long long lt_gemms(void)
{
    void *symbol = emulated("rvit_emulation_gemms");
    long long (*count)(void) = NULL;
    memcpy(&count, &symbol, sizeof count);
    return count == NULL ? -1 : count();
}

static void offer_algorithms(int n)
{
    void *symbol = emulated("rvit_emulation_algorithms");
    void (*offer)(int) = NULL;
    memcpy(&offer, &symbol, sizeof offer);
    if (offer != NULL)
        offer(n);
}

/* Chooses cuBLASLt whenever it supports the GEMM, as for very many rows. */
static rvit_cu_linear_choice choose_lt(const rvit_cu_machine *machine, const rvit_cu_linear_facts *facts)
{
    rvit_cu_machine other = *machine;
    rvit_cu_linear_facts more = *facts;
    other.wgmma = other.early = 0, other.faster_mma = 1;
    more.rows = facts->rows == 0 ? 0 : INT32_MAX / 2;
    const rvit_cu_linear_choice choice = rvit_cu_linear_choose(&other, &more);
    return choice.path == RVIT_CU_PATH_LT || choice.path == RVIT_CU_PATH_LT_EPILOGUE ? choice : rvit_cu_linear_choose(machine, facts);
}

static rvit_cu_linear_path path_of(const gemm_case *c)
{
    const rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_linear_facts facts = {.dtype = c->dtype,
                                        .out_dtype = c->out_dtype,
                                        .rows = CAPACITY,
                                        .in_features = IN,
                                        .out_features = OUT,
                                        .activation = c->activation,
                                        .gated = c->gated,
                                        .has_bias = c->bias,
                                        .has_residual = c->residual != NO_RESIDUAL,
                                        .repeats = c->residual == PERIODIC,
                                        .live = c->rows == LIVE,
                                        .narrow_bias = c->narrow};
    return device->choose_linear(&device->machine, &facts).path;
}

static int uses_lt(const gemm_case *c)
{
    return path_of(c) == RVIT_CU_PATH_LT || path_of(c) == RVIT_CU_PATH_LT_EPILOGUE;
}

static const rvit_view absent = {NULL, 0};

/* Adds the op as a session does, with hints. */
static rvit_status add_linear(const rvit_linear_args *args, rvit_view narrow_bias, int padding_rows)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .hints = {.narrow_bias = narrow_bias, .padding_rows = padding_rows}, .linear = *args};
    return rvit_stream_add(H.stream[DEVICE], &op);
}

/* The tolerance of a GEMM that rounds its output before the epilogue, from a plain implementation. */
static void round_twice(const gemm_case *c, const linear_problem *p, float *plain, int64_t n)
{
    linear_problem bare = *p;
    bare.activation = RVIT_ACTIVATION_NONE;
    if (rvit_dtype_size(c->out_dtype) == 2)
        bare.bias = NULL;
    linear_f32(&bare, plain);
    for (int64_t i = 0; i < n; i++) {
        const float stored = rounded(c->out_dtype, plain[i]);
        const float one = 1, x = bare.bias == NULL && p->bias ? stored + p->bias[i % OUT] : stored;
        const linear_problem activation = {
            .rows = 1, .in_features = 1, .out_features = 1, .activation = p->activation, .x = &x, .weight = &one};
        linear_f32(&activation, &plain[i]);
    }
}

static void check(const gemm_case *c)
{
    const int64_t element = rvit_dtype_size(c->dtype), out_element = rvit_dtype_size(c->out_dtype);
    const int64_t rows = c->rows == KNOWN ? CAPACITY : LIVE_ROWS, n = rows * OUT;
    const int64_t residual_rows = c->residual == PERIODIC ? PERIOD : rows, columns = c->gated ? 2 * OUT : OUT;
    array *x = array_input("x", CAPACITY * IN * element), *weight = array_input("weight", columns * IN * element);
    array *bias = c->bias ? array_input("bias", columns * 4) : NULL, *live = c->rows == KNOWN ? NULL : array_input("live", 4);
    array *narrow = c->narrow ? array_input("bias_narrow", OUT * out_element) : NULL;
    array *out = array_output("out", CAPACITY * OUT * out_element), *residual = c->residual == IN_PLACE ? out : NULL;
    if (c->residual == SEPARATE || c->residual == PERIODIC)
        residual = array_input("residual", (c->residual == PERIODIC ? PERIOD : CAPACITY) * OUT * out_element);
    store_normal(c->dtype, x->host, 0, rows * IN, 1);
    store_normal(c->dtype, weight->host, 0, columns * IN, 0.12f);
    if (bias)
        store_normal(RVIT_F32, bias->host, 0, columns, 1);
    for (int64_t i = 0; narrow && i < OUT; i++) {
        store(c->out_dtype, narrow->host, i, load(RVIT_F32, bias->host, i));
        store(RVIT_F32, bias->host, i, load(c->out_dtype, narrow->host, i));
    }
    if (residual)
        store_normal(c->out_dtype, residual->host, 0, residual_rows * OUT, 1);
    const int32_t count = LIVE_ROWS;
    if (live)
        memcpy(live->host, &count, 4);
    linear_problem p = {.rows = rows, .in_features = IN, .out_features = OUT, .activation = c->activation, .gated = c->gated};
    p.x = loaded(c->dtype, x->host, 0, rows * IN);
    p.weight = loaded(c->dtype, weight->host, 0, columns * IN);
    p.bias = bias ? loaded(RVIT_F32, bias->host, 0, columns) : NULL;
    p.residual = residual ? loaded(c->out_dtype, residual->host, 0, residual_rows * OUT) : NULL;
    p.period = c->residual == PERIODIC ? PERIOD : 0;
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    if (path_of(c) == RVIT_CU_PATH_LT_EPILOGUE)
        round_twice(c, &p, plain, n);

    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = c->dtype;
    args.out_dtype = c->out_dtype;
    args.rows.capacity = CAPACITY;
    args.rows.live = array_view(live, DEVICE);
    args.rows.padded = c->rows == PADDED;
    args.in_features = IN;
    args.out_features = OUT;
    args.activation = c->activation;
    args.gated = c->gated;
    args.residual_period = p.period;
    arrays_upload();
    args.x = array_view(x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.bias = array_view(bias, DEVICE);
    args.residual = array_view(residual, DEVICE);
    args.out = array_view(out, DEVICE);
    const long long before = lt_gemms();
    expect_ok(add_linear(&args, array_view(narrow, DEVICE), 0));
    const long long after = lt_gemms();
    /* The library is opened by the first GEMM that could use it. */
    if (after >= 0 && after - (before < 0 ? 0 : before) != uses_lt(c))
        fail_msg("%s -> %s, bias %d%s, activation %d, gated %d, residual %d, rows %d: %lld GEMMs by cuBLASLt",
                 rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), c->bias,
                 c->narrow ? " (narrow too)" : "", (int)c->activation, c->gated, (int)c->residual, (int)c->rows, after - before);
    arrays_fetch(DEVICE);
    char what[128];
    snprintf(what, sizeof what, "%s -> %s, bias %d%s, activation %d, gated %d, residual %d, rows %d",
             rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), c->bias,
             c->narrow ? " (narrow too)" : "", (int)c->activation, c->gated, (int)c->residual, (int)c->rows);
    check_close(what, c->out_dtype, loaded(c->out_dtype, out->result[DEVICE], 0, n), exact, plain, n);
    if (c->rows == LIVE)
        array_expect_untouched(out, DEVICE, n * out_element);
    harness_teardown(NULL);
}

static void check_all(int takes_lt)
{
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    static const rvit_activation activations[] = {RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_GELU, RVIT_ACTIVATION_GELU_TANH,
                                                  RVIT_ACTIVATION_SILU, RVIT_ACTIVATION_SILU};
    for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++)
        for (int wide = 0; wide < 1 + (dtype != RVIT_F32); wide++)
            for (int form = 0; form < 15; form++)
                for (int residual = 0; residual < N_RESIDUALS; residual++)
                    for (int rows = 0; rows < N_ROWS_KINDS; rows++) {
                        const rvit_dtype out_dtype = wide ? RVIT_F32 : (rvit_dtype)dtype;
                        const gemm_case c = {.dtype = (rvit_dtype)dtype,
                                             .out_dtype = out_dtype,
                                             .bias = form / 5 > 0,
                                             .narrow = form / 5 == 2,
                                             .activation = activations[form % 5],
                                             .gated = form % 5 == 4,
                                             .residual = (residual_kind)residual,
                                             .rows = (rows_kind)rows};
                        if (c.narrow && (c.gated || out_dtype == RVIT_F32)) /* sessions do not narrow the bias of gated GEMMs */
                            continue;
                        device->choose_linear = takes_lt ? choose_lt : rvit_cu_linear_choose;
                        check(&c);
                        device->choose_linear = rvit_cu_linear_choose;
                    }
}

static void in_one_pass(void **state)
{
    (void)state;
    check_all(0);
}

static void in_two_passes(void **state)
{
    (void)state;
    check_all(1);
}

/* Eager GEMMs of many shapes: the oldest plans are dropped, and created again when needed. */
static void many_shapes(void **state)
{
    (void)state;
    enum { SHAPES = 80 };
    array *x = array_input("x", SHAPES * 8 * 4), *weight = array_input("weight", 8 * 8 * 4), *out = array_output("out", SHAPES * 8 * 4);
    store_normal(RVIT_F32, x->host, 0, SHAPES * 8, 1);
    store_normal(RVIT_F32, weight->host, 0, 8 * 8, 1);
    arrays_upload();
    for (int round = 0; round < 2; round++)
        for (int64_t rows = 1; rows <= SHAPES; rows++) {
            rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
            args.rows.capacity = rows;
            args.in_features = args.out_features = 8;
            args.x = array_view(x, DEVICE);
            args.weight = array_view(weight, DEVICE);
            args.out = array_view(out, DEVICE);
            expect_ok(rvit_linear(H.stream[DEVICE], &args));
        }
    arrays_fetch(DEVICE);
    linear_problem p = {.rows = SHAPES, .in_features = 8, .out_features = 8};
    p.x = loaded(RVIT_F32, x->host, 0, SHAPES * 8);
    p.weight = loaded(RVIT_F32, weight->host, 0, 8 * 8);
    double exact[SHAPES * 8];
    float plain[SHAPES * 8];
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    check_close("many shapes", RVIT_F32, loaded(RVIT_F32, out->result[DEVICE], 0, SHAPES * 8), exact, plain, SHAPES * 8);
}

/* Before recording, algorithms are measured in separate memory, so the op's own data does not change. */
static void recorded(void **state)
{
    (void)state;
    rvit_cu_machine *machine = &rvit_cu_device_of(H.device[DEVICE])->machine;
    const int32_t tried = machine->autotune_macs;
    machine->autotune_macs = 1;
    offer_algorithms(3);
    array *x = array_input("x", CAPACITY * IN * 4), *weight = array_input("weight", OUT * IN * 4);
    array *out = array_output("out", CAPACITY * OUT * 4);
    store_normal(RVIT_F32, x->host, 0, CAPACITY * IN, 1);
    store_normal(RVIT_F32, weight->host, 0, OUT * IN, 0.12f);
    store_normal(RVIT_F32, out->host, 0, CAPACITY * OUT, 1);
    linear_problem p = {.rows = CAPACITY, .in_features = IN, .out_features = OUT};
    p.x = loaded(RVIT_F32, x->host, 0, CAPACITY * IN);
    p.weight = loaded(RVIT_F32, weight->host, 0, OUT * IN);
    p.residual = loaded(RVIT_F32, out->host, 0, CAPACITY * OUT);
    double exact[CAPACITY * OUT];
    float plain[CAPACITY * OUT];
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    arrays_upload();
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.rows.capacity = CAPACITY;
    args.in_features = IN;
    args.out_features = OUT;
    args.x = array_view(x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.residual = args.out = array_view(out, DEVICE);
    rvit_program *program[2];
    for (int i = 0; i < 2; i++) {
        const long long before = lt_gemms();
        expect_ok(rvit_record_begin(H.stream[DEVICE]));
        expect_ok(rvit_linear(H.stream[DEVICE], &args));
        expect_ok(rvit_record_end(H.stream[DEVICE], &program[i]));
        /* The second program reuses the result of the first. */
        if (before >= 0 && (lt_gemms() == before + 1) != (i == 1))
            fail_msg("program %d: %lld GEMMs by cuBLASLt", i, lt_gemms() - before);
    }
    expect_ok(rvit_program_launch(program[1], H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    check_close("recorded", RVIT_F32, loaded(RVIT_F32, out->result[DEVICE], 0, CAPACITY * OUT), exact, plain, CAPACITY * OUT);
    for (int i = 0; i < 2; i++)
        rvit_program_destroy(program[i]);
    offer_algorithms(1);
    machine->autotune_macs = tried;
}

/* If there is no memory for measuring algorithms, the program is still recorded. */
static void no_memory_to_autotune(void **state)
{
    (void)state;
    rvit_cu_machine *machine = &rvit_cu_device_of(H.device[DEVICE])->machine;
    const int32_t tried = machine->autotune_macs;
    array *x = array_input("x", CAPACITY * IN * 4), *weight = array_input("weight", OUT * IN * 4);
    array *out = array_output("out", CAPACITY * OUT * 4);
    arrays_upload();
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.rows.capacity = CAPACITY;
    args.in_features = IN;
    args.out_features = OUT;
    args.x = array_view(x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.out = array_view(out, DEVICE);
    expect_ok(rvit_linear(H.stream[DEVICE], &args)); /* opens cuBLASLt */
    if (lt_gemms() < 0)
        skip();
    machine->autotune_macs = 1;
    offer_algorithms(3);
    int recorded_untried = 0;
    for (int n = 1; n <= 16; n++) {
        args.rows.capacity = CAPACITY - n; /* a new shape */
        rvit_program *program = NULL;
        char text[16];
        snprintf(text, sizeof text, "%d", n);
        const long long before = lt_gemms();
        expect_ok(rvit_record_begin(H.stream[DEVICE]));
        expect_ok(rvit_linear(H.stream[DEVICE], &args));
        setenv("RVIT_EMU_FAIL_ALLOC", text, 1);
        const rvit_status status = rvit_record_end(H.stream[DEVICE], &program);
        unsetenv("RVIT_EMU_FAIL_ALLOC");
        assert_true(status == RVIT_OK || status == RVIT_OUT_OF_DEVICE_MEMORY);
        recorded_untried += status == RVIT_OK && lt_gemms() == before + 1;
        rvit_program_destroy(program);
    }
    assert_true(recorded_untried > 0);
    offer_algorithms(1);
    machine->autotune_macs = tried;
}

enum { MOST_ROWS = 700, MIDDLE = 64 };

typedef struct gemm_pair {
    array *x, *up, *down, *live, *middle, *out;
} gemm_pair;

static rvit_status record_two(const gemm_pair *c, int padding_rows, rvit_program **out_program)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = RVIT_F16;
    args.out_dtype = RVIT_F16;
    args.rows.capacity = MOST_ROWS;
    args.rows.live = array_view(c->live, DEVICE);
    args.in_features = IN;
    args.out_features = MIDDLE;
    args.activation = RVIT_ACTIVATION_GELU;
    args.x = array_view(c->x, DEVICE);
    args.weight = array_view(c->up, DEVICE);
    args.out = array_view(c->middle, DEVICE);
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_ok(add_linear(&args, absent, padding_rows));
    args.in_features = MIDDLE;
    args.out_features = IN;
    args.activation = RVIT_ACTIVATION_NONE;
    args.x = args.out;
    args.weight = array_view(c->down, DEVICE);
    args.out = array_view(c->out, DEVICE);
    expect_ok(add_linear(&args, absent, padding_rows));
    return rvit_record_end(H.stream[DEVICE], out_program);
}

/* GEMMs of a program with a row count on the device run on the backend's own kernels. The results are right for any count, and each row's
   bits do not depend on the others. */
static void rows_on_the_device(void **state)
{
    (void)state;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    device->choose_linear = choose_lt;
    gemm_pair c = {.x = array_input("x", MOST_ROWS * IN * 2),
                   .up = array_input("up", MIDDLE * IN * 2),
                   .down = array_input("down", IN * MIDDLE * 2),
                   .live = array_input("live", 4),
                   .middle = array_output("middle", MOST_ROWS * MIDDLE * 2),
                   .out = array_output("out", MOST_ROWS * IN * 2)};
    store_normal(RVIT_F16, c.x->host, 0, MOST_ROWS * IN, 1);
    store_normal(RVIT_F16, c.up->host, 0, MIDDLE * IN, 0.12f);
    store_normal(RVIT_F16, c.down->host, 0, IN * MIDDLE, 0.12f);
    rvit_program *program = NULL;
    arrays_upload();
    const long long before = lt_gemms();
    expect_ok(record_two(&c, 1, &program));
    device->choose_linear = rvit_cu_linear_choose;
    if (before >= 0)
        assert_int_equal(lt_gemms() - before, 0);
    const int32_t counts[] = {MOST_ROWS, 0, 1, 69, 70, 320, 321, 500, 699, MOST_ROWS + 5, -3};
    char *whole = scratch((size_t)c.out->size);
    linear_problem p = {.rows = MOST_ROWS, .in_features = IN, .out_features = MIDDLE, .activation = RVIT_ACTIVATION_GELU};
    p.x = loaded(RVIT_F16, c.x->host, 0, MOST_ROWS * IN);
    p.weight = loaded(RVIT_F16, c.up->host, 0, MIDDLE * IN);
    double *exact = scratch(MOST_ROWS * MIDDLE * sizeof *exact);
    float *plain = scratch(MOST_ROWS * MIDDLE * sizeof *plain);
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const int32_t live = counts[i] < 0 ? 0 : counts[i] > MOST_ROWS ? MOST_ROWS : counts[i];
        memcpy(c.live->host, &counts[i], 4);
        arrays_upload();
        expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
        arrays_fetch(DEVICE);
        check_close("middle", RVIT_F16, loaded(RVIT_F16, c.middle->result[DEVICE], 0, live * MIDDLE), exact, plain, live * MIDDLE);
        if (i == 0)
            memcpy(whole, c.out->result[DEVICE], (size_t)c.out->size);
        assert_memory_equal(whole, c.out->result[DEVICE], (size_t)live * IN * 2);
    }
    rvit_program_destroy(program);
}

/* A program keeps the plans of all its shapes, so each is looked up once. */
static void program_of_many_shapes(void **state)
{
    (void)state;
    enum { SHAPES = 600 };
    array *x = array_input("x", SHAPES * 8 * 4), *weight = array_input("weight", 8 * 8 * 4), *out = array_output("out", SHAPES * 8 * 4);
    arrays_upload();
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    for (int64_t rows = 1; rows <= SHAPES; rows++) {
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.rows.capacity = rows;
        args.in_features = args.out_features = 8;
        args.x = array_view(x, DEVICE);
        args.weight = array_view(weight, DEVICE);
        args.out = array_view(out, DEVICE);
        expect_ok(rvit_linear(H.stream[DEVICE], &args));
    }
    expect_ok(rvit_stream_get_stats(H.stream[DEVICE], &before));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    expect_ok(rvit_stream_get_stats(H.stream[DEVICE], &after));
    assert_in_range(after.host_allocations - before.host_allocations, 1, SHAPES + 10);
    rvit_program_destroy(program);
}

static void enqueue_copy(const array *from, int64_t offset, const array *to)
{
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.source = array_view(from, DEVICE);
    copy.source.offset += offset;
    copy.destination = array_view(to, DEVICE);
    copy.size = 4;
    expect_ok(rvit_copy(H.stream[DEVICE], &copy));
}

/* An op other than pruning changes the row count between two GEMMs. The second GEMM uses the new count. */
static void changing_row_count(void **state)
{
    (void)state;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_machine machine = device->machine;
    device->machine.early = 0;
    const int32_t few = 70, many = MOST_ROWS - 1;
    array *x = array_input("x", MOST_ROWS * IN * 2), *weight = array_input("weight", MIDDLE * IN * 2);
    array *counts = array_input("counts", 2 * 4), *live = array_output("live", 4), *seen = array_output("seen", 4);
    array *out[2] = {array_output("before", MOST_ROWS * MIDDLE * 2), array_output("after", MOST_ROWS * MIDDLE * 2)};
    store_normal(RVIT_F16, x->host, 0, MOST_ROWS * IN, 1);
    store_normal(RVIT_F16, weight->host, 0, MIDDLE * IN, 0.12f);
    memcpy(counts->host, &few, 4);
    memcpy(counts->host + 4, &many, 4);
    arrays_upload();
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    for (int i = 0; i < 2; i++) {
        enqueue_copy(counts, i * 4, live);
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.dtype = args.out_dtype = RVIT_F16;
        args.rows.capacity = MOST_ROWS;
        args.rows.live = array_view(live, DEVICE);
        args.in_features = IN;
        args.out_features = MIDDLE;
        args.x = array_view(x, DEVICE);
        args.weight = array_view(weight, DEVICE);
        args.out = array_view(out[i], DEVICE);
        expect_ok(add_linear(&args, absent, 1));
        enqueue_copy(live, 0, seen); /* recorded in each program */
        expect_ok(add_linear(&args, absent, 1));
    }
    rvit_program *program = NULL;
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    device->machine = machine;
    expect_ok(rvit_stream_get_stats(H.stream[DEVICE], &before));
    expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
    expect_ok(rvit_stream_get_stats(H.stream[DEVICE], &after));
    assert_int_equal(after.copies - before.copies, 4);
    arrays_fetch(DEVICE);
    linear_problem p = {.rows = many, .in_features = IN, .out_features = MIDDLE};
    p.x = loaded(RVIT_F16, x->host, 0, many * IN);
    p.weight = loaded(RVIT_F16, weight->host, 0, MIDDLE * IN);
    double *exact = scratch(MOST_ROWS * MIDDLE * sizeof *exact);
    float *plain = scratch(MOST_ROWS * MIDDLE * sizeof *plain);
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    check_close("before", RVIT_F16, loaded(RVIT_F16, out[0]->result[DEVICE], 0, few * MIDDLE), exact, plain, few * MIDDLE);
    check_close("after", RVIT_F16, loaded(RVIT_F16, out[1]->result[DEVICE], 0, many * MIDDLE), exact, plain, many * MIDDLE);
    rvit_program_destroy(program);
}

SUITE(gemm_suite, TEST(in_one_pass), TEST(in_two_passes), TEST(many_shapes), TEST(recorded), TEST(no_memory_to_autotune),
      TEST(rows_on_the_device), TEST(program_of_many_shapes), TEST(changing_row_count));
