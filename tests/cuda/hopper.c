/* The GEMM of warpgroups (sm_90a). Elsewhere the kernels of other devices pass the same tests. */
#include "cuda_tests.h"

#include <math.h>

#include "backend_cuda/cu.h"
#include "reference/plain.h"

typedef enum residual_kind { NO_RESIDUAL, IN_PLACE, PERIODIC } residual_kind;

typedef struct hopper_case {
    rvit_dtype dtype, out_dtype;
    int32_t in_features, out_features;
    int64_t capacity;
    int32_t live[4]; /* the first is what the others are compared with; -1: none */
    int bias;
    rvit_activation activation;
    residual_kind residual;
} hopper_case;

static void run(const rvit_linear_args *args, int32_t n_sms)
{
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_machine machine = device->machine;
    device->machine.hopper_macs = 1;
    device->machine.n_sms = n_sms;
    const rvit_status status = rvit_linear(H.stream[DEVICE], args);
    device->machine = machine;
    expect_ok(status);
}

/* However many rows are live and on however many SMs: they are right, have the same bits, and those behind them are left alone. */
static void check(const hopper_case *c, int *n_served)
{
    enum { PERIOD = 5 };
    const int64_t out_element = rvit_dtype_size(c->out_dtype), most = c->live[0], n = most * c->out_features;
    const int64_t period = c->residual == PERIODIC ? PERIOD : 0;
    array *x = array_input("x", c->capacity * c->in_features * 2), *live = array_input("live", 4);
    array *weight = array_input("weight", (int64_t)c->out_features * c->in_features * 2);
    array *bias = c->bias ? array_input("bias", c->out_features * 4) : NULL;
    array *out = array_output("out", c->capacity * c->out_features * out_element);
    array *residual = c->residual == PERIODIC ? array_input("residual", PERIOD * c->out_features * out_element) : c->residual ? out : NULL;
    store_normal(c->dtype, x->host, 0, most * c->in_features, 1); /* behind them NaN stays */
    store_normal(c->dtype, weight->host, 0, (int64_t)c->out_features * c->in_features, 1 / sqrtf((float)c->in_features));
    if (bias)
        store_normal(RVIT_F32, bias->host, 0, c->out_features, 1);
    if (residual)
        store_normal(c->out_dtype, residual->host, 0, period ? PERIOD * c->out_features : n, 1);
    linear_problem p = {
        .rows = most, .in_features = c->in_features, .out_features = c->out_features, .activation = c->activation, .period = period};
    p.x = loaded(c->dtype, x->host, 0, most * c->in_features);
    p.weight = loaded(c->dtype, weight->host, 0, (int64_t)c->out_features * c->in_features);
    p.bias = bias ? loaded(RVIT_F32, bias->host, 0, c->out_features) : NULL;
    p.residual = residual ? loaded(c->out_dtype, residual->host, 0, period ? PERIOD * c->out_features : n) : NULL;
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = c->dtype;
    args.out_dtype = c->out_dtype;
    args.rows.capacity = c->capacity;
    args.rows.live = array_view(live, DEVICE);
    args.in_features = c->in_features;
    args.out_features = c->out_features;
    args.activation = c->activation;
    args.x = array_view(x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.bias = array_view(bias, DEVICE);
    args.residual = array_view(residual, DEVICE);
    args.residual_period = period;
    args.out = array_view(out, DEVICE);
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_queue queue = {.device = device};
    const int64_t macs = device->machine.hopper_macs;
    device->machine.hopper_macs = 1;
    *n_served += rvit_cu_hopper_serves(&queue, &args);
    device->machine.hopper_macs = macs;
    char *first = scratch((size_t)out->size);
    for (int i = 0; i < 4 && c->live[i] >= 0; i++)
        for (int sms = 1; sms <= 5; sms += 4) {
            memcpy(live->host, &c->live[i], 4);
            arrays_upload();
            run(&args, i % 2 ? 6 - sms : sms);
            arrays_fetch(DEVICE);
            array_expect_untouched(out, DEVICE, c->live[i] * (int64_t)c->out_features * out_element);
            if (i == 0 && sms == 1) {
                check_close("out", c->out_dtype, loaded(c->out_dtype, out->result[DEVICE], 0, n), exact, plain, n);
                memcpy(first, out->result[DEVICE], (size_t)out->size);
            }
            assert_memory_equal(first, out->result[DEVICE], (size_t)(c->live[i] * c->out_features * out_element));
        }
    harness_teardown(NULL);
}

/* Rows, columns and channels that fill tiles and stages, and that do not; turns of both groups and of one. */
static void hopper_products(void **state)
{
    (void)state;
    static const hopper_case cases[] = {
        {RVIT_F16, RVIT_F16, 64, 256, 300, {257, 256, 1, 0}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL},
        {RVIT_BF16, RVIT_BF16, 200, 96, 140, {129, 128, -1}, 0, RVIT_ACTIVATION_NONE, NO_RESIDUAL},
        {RVIT_F16, RVIT_F16, 8, 32, 70, {65, 64, -1}, 1, RVIT_ACTIVATION_SILU, NO_RESIDUAL},
        {RVIT_BF16, RVIT_BF16, 72, 160, 30, {30, 3, -1}, 1, RVIT_ACTIVATION_GELU_TANH, NO_RESIDUAL},
        {RVIT_F16, RVIT_F32, 520, 288, 200, {140, 139, 130, 5}, 1, RVIT_ACTIVATION_NONE, IN_PLACE},
        {RVIT_BF16, RVIT_F32, 136, 64, 300, {299, 150, -1}, 0, RVIT_ACTIVATION_NONE, PERIODIC},
        {RVIT_F16, RVIT_F32, 64, 128, 129, {129, -1}, 1, RVIT_ACTIVATION_NONE, NO_RESIDUAL},
    };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    int n_served = 0;
    for (int i = 0; i < N_CASES; i++)
        check(&cases[i], &n_served);
    const int warpgroups = rvit_cu_device_of(H.device[DEVICE])->machine.warpgroups;
    assert_int_equal(n_served, warpgroups ? N_CASES : 0);
}

/* What it has no code for is not given to it. */
static void hopper_refuses(void **state)
{
    (void)state;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_machine machine = device->machine;
    const rvit_cu_queue queue = {.device = device};
    array *x = array_input("x", 8192), *live = array_input("live", 4);
    rvit_linear_args good = RVIT_LINEAR_ARGS_INIT;
    good.dtype = good.out_dtype = RVIT_F16;
    good.rows.capacity = 8;
    good.in_features = 64;
    good.out_features = 32;
    arrays_upload();
    good.rows.live = array_view(live, DEVICE);
    good.x = good.weight = good.out = array_view(x, DEVICE);
    device->machine.warpgroups = 1;
    device->machine.hopper_macs = 64 * 32 * 8;
    const int serves = rvit_cu_hopper_serves(&queue, &good);
    rvit_linear_args bad[11];
    for (int i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].rows.capacity = 7;
    bad[1].rows.capacity = 0;
    bad[2].in_features = 68;
    bad[3].out_features = 48;
    bad[4].gated = 1;
    bad[5].dtype = bad[5].out_dtype = RVIT_F32;
    bad[6].residual = bad[6].x;
    bad[7].out_dtype = RVIT_F32, bad[7].activation = RVIT_ACTIVATION_GELU;
    bad[8].weight.offset += 8;
    bad[9].rows.live = (rvit_view){NULL, 0};
    bad[10].out_features = 33;
    int taken = 0;
    for (int i = 0; i < 11; i++)
        taken |= rvit_cu_hopper_serves(&queue, &bad[i]) << i;
    device->machine.warpgroups = 0;
    const int without = rvit_cu_hopper_serves(&queue, &good);
    device->machine = machine;
    assert_int_equal(serves, 1);
    assert_int_equal(taken, 0);
    assert_int_equal(without, 0);
}

SUITE(hopper_suite, TEST(hopper_products), TEST(hopper_refuses));
