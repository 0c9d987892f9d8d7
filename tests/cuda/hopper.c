/* Tests the wgmma GEMMs (sm_90a) for large and small M. On other devices, other kernels run the same tests. */
#include "cuda_tests.h"

#include <math.h>

#include "backend_cuda/cu.h"
#include "core/base/e4m3.h"
#include "core/device/device.h"
#include "reference/plain.h"

typedef enum residual_kind { NO_RESIDUAL, IN_PLACE, PERIODIC } residual_kind;

typedef struct hopper_case {
    rvit_dtype dtype, out_dtype;
    int32_t in_features, out_features;
    int64_t capacity;
    int32_t live[4]; /* the first is the reference for the others; -1: none */
    int bias;
    rvit_activation activation;
    residual_kind residual;
    rvit_cu_small_m_config config; /* no stages: large M */
    int one_scale;                 /* e4m3: the session has one scale for all rows */
    int counts;                    /* e4m3 output: counts saturated values */
} hopper_case;

/* The small-M configurations; index 1 is for out_features < in_features. Without stages: large M. */
static rvit_cu_small_m_config configs[2];

static rvit_cu_linear_choice choose_wgmma(const rvit_cu_machine *machine, const rvit_cu_linear_facts *facts)
{
    const rvit_cu_small_m_config *config = &configs[facts->in_features > facts->out_features];
    const rvit_cu_linear_path path = config->stages > 0 ? RVIT_CU_PATH_SMALL_M : RVIT_CU_PATH_LARGE_M;
    rvit_cu_linear_choice choice = {.path = path, .why = RVIT_CU_WHY_LARGE_M_TILES};
    if (path == RVIT_CU_PATH_SMALL_M)
        choice.small_m = rvit_cu_tile_small_m_of(machine, config, facts->rows, facts->in_features, facts->out_features,
                                                 (int32_t)rvit_dtype_size(facts->out_dtype));
    return rvit_cu_linear_has_kernel(machine, facts, path) ? choice : rvit_cu_linear_choose(machine, facts);
}

static int is_wgmma(rvit_cu_linear_choice choice)
{
    return choice.path == RVIT_CU_PATH_LARGE_M || choice.path == RVIT_CU_PATH_SMALL_M;
}

static void run(rvit_op op, const rvit_cu_small_m_config *config, int32_t n_sms)
{
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_machine machine = device->machine;
    configs[0] = configs[1] = *config;
    device->machine.n_sms = n_sms;
    device->choose_linear = choose_wgmma;
    const rvit_status status = rvit_stream_add(H.stream[DEVICE], &op);
    device->choose_linear = rvit_cu_linear_choose;
    device->machine = machine;
    expect_ok(status);
}

static void store_random(rvit_dtype dtype, uint8_t *data, int64_t n, float size)
{
    if (dtype != RVIT_E4M3)
        store_normal(dtype, data, 0, n, size);
    else
        for (int64_t i = 0; i < n; i++)
            data[i] = rvit_f32_to_e4m3(100 * random_normal());
}

#define SCALE 0.01f /* of the e4m3 output */

/* Checks e4m3 values with one scale; some saturate. */
static void check_quantized(const uint8_t *bytes, const double *exact, int64_t n)
{
    const double most = 448 * SCALE;
    for (int64_t i = 0; i < n; i++) {
        const double wanted = fmax(-most, fmin(most, exact[i])), got = SCALE * load(RVIT_E4M3, bytes, i);
        if (!(fabs(got - wanted) <= fabs(wanted) / 16 + SCALE / 512 + 0.02))
            fail_msg("element %lld is %.9g, should be %.9g", (long long)i, got, wanted);
    }
}

/* For any number of live rows and SMs, results are right and bit-equal, and the other rows do not change. */
static void check(const hopper_case *c, int *n_wgmma)
{
    enum { PERIOD = 5 };
    const int64_t out_element = rvit_dtype_size(c->out_dtype), most = c->live[0], n = most * c->out_features;
    const int64_t period = c->residual == PERIODIC ? PERIOD : 0, element = rvit_dtype_size(c->dtype);
    const int is_e4m3 = c->dtype == RVIT_E4M3, makes_e4m3 = c->out_dtype == RVIT_E4M3;
    array *x = array_input("x", c->capacity * c->in_features * element), *live = array_input("live", 4);
    array *weight = array_input("weight", (int64_t)c->out_features * c->in_features * element);
    array *x_scales = is_e4m3 ? array_input("x_scales", c->capacity * 4) : NULL;
    array *weight_scales = is_e4m3 ? array_input("weight_scales", c->out_features * 4) : NULL;
    array *one_scale = c->one_scale ? array_input("one_scale", 4) : NULL;
    array *static_scale = makes_e4m3 ? array_input("static_scale", 4) : NULL;
    array *out_scales = makes_e4m3 ? array_output("out_scales", c->capacity * 4) : NULL;
    array *saturated = c->counts ? array_output("saturated", 4) : NULL;
    array *bias = c->bias ? array_input("bias", c->out_features * 4) : NULL;
    array *out = array_output("out", c->capacity * c->out_features * out_element);
    array *residual = c->residual == PERIODIC ? array_input("residual", PERIOD * c->out_features * out_element) : c->residual ? out : NULL;
    store_random(c->dtype, x->host, most * c->in_features, 1); /* the rest stays NaN */
    store_random(c->dtype, weight->host, (int64_t)c->out_features * c->in_features, 1 / sqrtf((float)c->in_features));
    for (int64_t t = 0; is_e4m3 && t < most; t++)
        store(RVIT_F32, x_scales->host, t, c->one_scale ? 0.02f : 0.01f + 0.0001f * (float)(t % 97));
    for (int64_t j = 0; is_e4m3 && j < c->out_features; j++)
        store(RVIT_F32, weight_scales->host, j, (c->one_scale ? 0.01f : 0.005f + 0.0001f * (float)(j % 89)) / sqrtf((float)c->in_features));
    if (one_scale)
        store(RVIT_F32, one_scale->host, 0, 0.02f);
    if (static_scale)
        store(RVIT_F32, static_scale->host, 0, SCALE);
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
    p.x_scales = is_e4m3 ? loaded(RVIT_F32, x_scales->host, 0, most) : NULL;
    p.weight_scales = is_e4m3 ? loaded(RVIT_F32, weight_scales->host, 0, c->out_features) : NULL;
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    linear_f64(&p, exact);
    p.sum_bits = is_e4m3 ? 13 : 0;
    linear_f32(&p, plain);
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.hints.one_scale = array_view(one_scale, DEVICE);
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
    args.x_scales = array_view(x_scales, DEVICE);
    args.weight_scales = array_view(weight_scales, DEVICE);
    args.static_scale = array_view(static_scale, DEVICE);
    args.out_scales = array_view(out_scales, DEVICE);
    args.saturated = array_view(saturated, DEVICE);
    op.linear = args;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_queue queue = {.device = device};
    const rvit_cu_linear_facts facts = rvit_cu_linear_facts_of(&queue, &args);
    configs[0] = configs[1] = c->config;
    *n_wgmma += is_wgmma(choose_wgmma(&device->machine, &facts));
    char *first = scratch((size_t)out->size);
    for (int i = 0; i < 4 && c->live[i] >= 0; i++)
        for (int sms = 1; sms <= 5; sms += 4) {
            memcpy(live->host, &c->live[i], 4);
            if (saturated)
                memset(saturated->host, 0, 4);
            arrays_upload();
            run(op, &c->config, i % 2 ? 6 - sms : sms);
            arrays_fetch(DEVICE);
            array_expect_untouched(out, DEVICE, c->live[i] * (int64_t)c->out_features * out_element);
            if (makes_e4m3) {
                array_expect_untouched(out_scales, DEVICE, c->live[i] * (int64_t)4);
                for (int32_t t = 0; t < c->live[i]; t++)
                    assert_memory_equal(out_scales->result[DEVICE] + t * 4, static_scale->host, 4);
            }
            if (saturated) {
                int32_t n_cut = 0, n_full = 0;
                memcpy(&n_cut, saturated->result[DEVICE], 4);
                for (int64_t j = 0; j < c->live[i] * (int64_t)c->out_features; j++)
                    n_full += (out->result[DEVICE][j] & 0x7f) == 0x7e; /* counts saturated values and values equal to the maximum */
                assert_true(n_cut > n_full / 2 && n_cut <= n_full);
            }
            if (i == 0 && sms == 1) {
                if (makes_e4m3)
                    check_quantized(out->result[DEVICE], exact, n);
                else
                    check_close("out", c->out_dtype, loaded(c->out_dtype, out->result[DEVICE], 0, n), exact, plain, n);
                memcpy(first, out->result[DEVICE], (size_t)out->size);
            }
            assert_memory_equal(first, out->result[DEVICE], (size_t)(c->live[i] * c->out_features * out_element));
        }
    if (c->config.stages > 0 && c->config.split_k == 1) { /* without split-K, the bits are those of the large-M kernel */
        const rvit_cu_small_m_config none = {0};
        memcpy(live->host, &c->live[0], 4);
        arrays_upload();
        run(op, &none, 3);
        arrays_fetch(DEVICE);
        assert_memory_equal(first, out->result[DEVICE], (size_t)(most * c->out_features * out_element));
    }
    harness_teardown(NULL);
}

/* Rows, columns and channels that fill tiles and stages or not, with one or both consumer warpgroups. */
static void hopper_gemms(void **state)
{
    (void)state;
    static const hopper_case cases[] = {
        {RVIT_F16, RVIT_F16, 64, 256, 300, {257, 256, 1, 0}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {0}, 0, 0},
        {RVIT_BF16, RVIT_BF16, 200, 96, 140, {129, 128, -1}, 0, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {0}, 0, 0},
        {RVIT_F16, RVIT_F16, 8, 32, 70, {65, 64, -1}, 1, RVIT_ACTIVATION_SILU, NO_RESIDUAL, {0}, 0, 0},
        {RVIT_BF16, RVIT_BF16, 72, 160, 30, {30, 3, -1}, 1, RVIT_ACTIVATION_GELU_TANH, NO_RESIDUAL, {0}, 0, 0},
        {RVIT_F16, RVIT_F32, 520, 288, 200, {140, 139, 130, 5}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {0}, 0, 0},
        {RVIT_BF16, RVIT_F32, 136, 64, 300, {299, 150, -1}, 0, RVIT_ACTIVATION_NONE, PERIODIC, {0}, 0, 0},
        {RVIT_F16, RVIT_F32, 64, 128, 129, {129, -1}, 1, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {0}, 0, 0},
    };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    int n_wgmma = 0;
    for (int i = 0; i < N_CASES; i++)
        check(&cases[i], &n_wgmma);
    const int has_wgmma = rvit_cu_device_of(H.device[DEVICE])->machine.wgmma;
    assert_int_equal(n_wgmma, has_wgmma ? N_CASES : 0);
}

/* The same for e4m3, with per-row scales and with one scale; only wgmma kernels have an e4m3 output. */
static void hopper_e4m3(void **state)
{
    (void)state;
    static const hopper_case cases[] = {
        {RVIT_E4M3, RVIT_E4M3, 128, 256, 300, {257, 256, 2, 1}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {0}, 1, 0},
        {RVIT_E4M3, RVIT_E4M3, 400, 96, 140, {129, 128, -1}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {0}, 0, 1},
        {RVIT_E4M3, RVIT_E4M3, 16, 32, 70, {65, 64, -1}, 0, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {0}, 0, 1},
        {RVIT_E4M3, RVIT_E4M3, 144, 160, 30, {30, 3, -1}, 1, RVIT_ACTIVATION_GELU_TANH, NO_RESIDUAL, {0}, 1, 0},
        {RVIT_E4M3, RVIT_E4M3, 144, 224, 130, {130, 66, -1}, 1, RVIT_ACTIVATION_SILU, NO_RESIDUAL, {0}, 1, 1},
        {RVIT_E4M3, RVIT_F16, 272, 288, 300, {299, 150, -1}, 1, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {0}, 1, 0},
        {RVIT_E4M3, RVIT_BF16, 128, 64, 129, {129, 65, -1}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {0}, 0, 0},
        {RVIT_E4M3, RVIT_F32, 528, 288, 200, {140, 139, 130, 5}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {0}, 1, 0},
        {RVIT_E4M3, RVIT_F32, 272, 64, 300, {299, 150, -1}, 0, RVIT_ACTIVATION_NONE, PERIODIC, {0}, 0, 0},
    };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    const rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    if (!device->e4m3)
        skip();
    int n_wgmma = 0, n = 0;
    for (int i = 0; i < N_CASES; i++)
        if (device->machine.wgmma || cases[i].out_dtype != RVIT_E4M3) {
            check(&cases[i], &n_wgmma);
            n++;
        }
    assert_int_equal(n_wgmma, device->machine.wgmma ? n : 0);
}

/* Every tile, with split-K, clusters along N and M, with and without reuse of stages. */
static void hopper_small_m(void **state)
{
    (void)state;
    enum { F64X96, F64X128, F128X64, F128X96, F128X128, F128X192 };
    static const hopper_case cases[] = {
        {RVIT_F16, RVIT_F16, 200, 96, 150, {129, 64, 1, 0}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {F64X96, 2, 1, 1, 1}, 0, 0},
        {RVIT_F16, RVIT_F16, 136, 288, 70, {70, 5, -1}, 1, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {F64X96, 3, 2, 2, 1}, 0, 0},
        {RVIT_F16, RVIT_F32, 328, 160, 200, {190, 60, -1}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {F64X96, 2, 4, 1, 1}, 0, 0},
        {RVIT_BF16, RVIT_BF16, 264, 160, 140, {140, 65, 0, -1}, 1, RVIT_ACTIVATION_SILU, NO_RESIDUAL, {F64X128, 2, 2, 1, 1}, 0, 0},
        {RVIT_BF16, RVIT_F32, 520, 128, 129, {129, 3, -1}, 0, RVIT_ACTIVATION_NONE, PERIODIC, {F64X128, 2, 2, 1, 2}, 0, 0},
        {RVIT_F16, RVIT_F32, 392, 192, 260, {257, 128, -1}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {F128X64, 3, 2, 2, 1}, 0, 0},
        {RVIT_BF16, RVIT_BF16, 200, 96, 300, {257, 128, -1}, 1, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {F128X64, 2, 1, 1, 2}, 0, 0},
        {RVIT_F16, RVIT_F16, 264, 384, 150, {150, 129, 7, -1}, 1, RVIT_ACTIVATION_GELU_TANH, NO_RESIDUAL, {F128X96, 2, 1, 2, 1}, 0, 0},
        {RVIT_BF16, RVIT_F32, 392, 96, 100, {99, 1, -1}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {F128X96, 2, 2, 1, 1}, 0, 0},
        {RVIT_F16, RVIT_F16, 328, 256, 260, {257, 1, -1}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {F128X128, 3, 1, 2, 2}, 0, 0},
        {RVIT_F16, RVIT_F32, 520, 160, 130, {129, 2, 0, -1}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {F128X128, 2, 4, 1, 1}, 0, 0},
        {RVIT_BF16, RVIT_F32, 64, 128, 130, {129, 20, -1}, 1, RVIT_ACTIVATION_NONE, NO_RESIDUAL, {F128X128, 2, 1, 1, 1}, 0, 0},
        {RVIT_BF16, RVIT_BF16, 128, 256, 130, {129, -1}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {F128X192, 2, 1, 1, 1}, 0, 0},
        {RVIT_F16, RVIT_F32, 264, 384, 130, {129, -1}, 1, RVIT_ACTIVATION_NONE, IN_PLACE, {F128X192, 2, 2, 2, 1}, 0, 0},
        {RVIT_E4M3, RVIT_E4M3, 400, 288, 150, {150, 65, 1, 0}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {F128X64, 2, 1, 1, 1}, 1, 0},
        {RVIT_E4M3, RVIT_E4M3, 272, 224, 200, {197, 64, -1}, 1, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {F128X64, 2, 1, 2, 2}, 0, 1},
        {RVIT_E4M3, RVIT_E4M3, 144, 96, 140, {130, 9, -1}, 1, RVIT_ACTIVATION_GELU_TANH, NO_RESIDUAL, {F128X64, 2, 1, 1, 2}, 1, 0},
        {RVIT_E4M3, RVIT_E4M3, 528, 384, 140, {129, -1}, 0, RVIT_ACTIVATION_GELU, NO_RESIDUAL, {F128X64, 3, 1, 2, 1}, 1, 0},
    };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    const int has_wgmma = rvit_cu_device_of(H.device[DEVICE])->machine.wgmma;
    int n_wgmma = 0, n = 0;
    for (int i = 0; i < N_CASES; i++)
        if (has_wgmma || cases[i].out_dtype != RVIT_E4M3) {
            check(&cases[i], &n_wgmma);
            n++;
        }
    assert_int_equal(n_wgmma, has_wgmma ? n : 0);
}

/* Each small-M kernel. */
static void hopper_small_m_all(void **state)
{
    (void)state;
    static const rvit_dtype dtypes[] = {RVIT_F16, RVIT_BF16, RVIT_E4M3};
    const int has_wgmma = rvit_cu_device_of(H.device[DEVICE])->machine.wgmma;
    int n_wgmma = 0, n = 0;
    for (int shape = 0; shape < RVIT_CU_N_SMALL_M_SHAPES; shape++)
        for (int type = 0; type < (has_wgmma && shape == RVIT_CU_SMALL_M_128x64 ? 3 : 2); type++)
            for (int kind = 0; kind < (dtypes[type] == RVIT_E4M3 ? 2 : 3); kind++, n++) {
                hopper_case c = {.dtype = dtypes[type],
                                 .out_dtype = kind == 2 ? RVIT_F32 : dtypes[type],
                                 .in_features = dtypes[type] == RVIT_E4M3 ? 144 : 72,
                                 .out_features = 96,
                                 .capacity = 70,
                                 .live = {67, -1},
                                 .bias = 1,
                                 .activation = kind == 1 ? RVIT_ACTIVATION_SILU : RVIT_ACTIVATION_NONE,
                                 .config = {shape, 2, 1 + kind / 2, 1, 1},
                                 .one_scale = dtypes[type] == RVIT_E4M3};
                check(&c, &n_wgmma);
            }
    assert_int_equal(n_wgmma, has_wgmma ? n : 0);
}

/* GEMMs in f16, or e4m3 to e4m3; each reads the output of the previous one. */
static void dependent_launches(rvit_dtype dtype)
{
    enum { ROWS = 130, WIDTH = 128, HIDDEN = 256, LAYERS = 3 };
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const int is_e4m3 = dtype == RVIT_E4M3;
    const int64_t element = rvit_dtype_size(dtype), out_element = is_e4m3 ? 1 : 4;
    array *x = array_input("x", ROWS * WIDTH * element), *hidden = array_output("hidden", ROWS * HIDDEN * element);
    array *up = array_input("up", HIDDEN * WIDTH * element), *down = array_input("down", WIDTH * HIDDEN * element);
    array *bias = array_input("bias", HIDDEN * 4), *out = array_output("out", ROWS * WIDTH * out_element);
    array *ones = array_input("scales", ROWS * 4), *scale = array_input("static_scale", 4),
          *weight_scales = array_input("weight_scales", HIDDEN * 4);
    array *out_scales = array_output("out_scales", ROWS * 4);
    store_random(dtype, x->host, ROWS * WIDTH, 1);
    store_random(dtype, up->host, HIDDEN * WIDTH, 0.1f);
    store_random(dtype, down->host, WIDTH * HIDDEN, 0.1f);
    store_normal(RVIT_F32, bias->host, 0, HIDDEN, 1);
    store(RVIT_F32, scale->host, 0, SCALE);
    for (int t = 0; t < ROWS; t++)
        store(RVIT_F32, ones->host, t, SCALE);
    for (int j = 0; j < HIDDEN; j++)
        store(RVIT_F32, weight_scales->host, j, 0.001f);
    rvit_linear_args args[2] = {RVIT_LINEAR_ARGS_INIT, RVIT_LINEAR_ARGS_INIT};
    for (int i = 0; i < 2; i++) {
        args[i].dtype = dtype;
        args[i].rows.capacity = ROWS;
        args[i].in_features = i ? HIDDEN : WIDTH;
        args[i].out_features = i ? WIDTH : HIDDEN;
        args[i].bias = array_view(bias, DEVICE);
        args[i].x = array_view(i ? hidden : x, DEVICE);
        args[i].weight = array_view(i ? down : up, DEVICE);
        args[i].out = array_view(i ? out : hidden, DEVICE);
        args[i].out_dtype = dtype;
        if (is_e4m3) {
            args[i].x_scales = array_view(ones, DEVICE);
            args[i].weight_scales = array_view(weight_scales, DEVICE);
            args[i].static_scale = array_view(scale, DEVICE);
            args[i].out_scales = array_view(out_scales, DEVICE);
        }
    }
    args[0].activation = RVIT_ACTIVATION_GELU;
    if (!is_e4m3)
        args[1].out_dtype = RVIT_F32;
    device->choose_linear = choose_wgmma;
    char *first = scratch((size_t)out->size);
    for (int recorded = 0; recorded < 2; recorded++) {
        rvit_program *program = NULL;
        arrays_upload();
        if (recorded)
            expect_ok(rvit_record_begin(H.stream[DEVICE]));
        for (int i = 0; i < LAYERS * 2; i++)
            expect_ok(rvit_linear(H.stream[DEVICE], &args[i % 2]));
        if (recorded) {
            expect_ok(rvit_record_end(H.stream[DEVICE], &program));
            expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
        }
        arrays_fetch(DEVICE);
        rvit_program_destroy(program);
        if (!recorded)
            memcpy(first, out->result[DEVICE], (size_t)out->size);
    }
    device->choose_linear = rvit_cu_linear_choose;
    assert_memory_equal(first, out->result[DEVICE], (size_t)out->size);
    harness_teardown(NULL);
}

/* In a program, a GEMM starts before the previous one has written its input. The bits are those of sequential GEMMs. */
static void hopper_dependent_launches(void **state)
{
    (void)state;
    static const rvit_cu_small_m_config of[][2] = {
        {{RVIT_CU_SMALL_M_64x128, 2, 1, 2, 1}, {RVIT_CU_SMALL_M_128x64, 2, 4, 1, 1}}, /* fc1, fc2 */
        {{RVIT_CU_SMALL_M_128x64, 2, 1, 2, 1}, {RVIT_CU_SMALL_M_128x64, 2, 1, 1, 1}},
        {{0}, {0}}};
    for (int i = 0; i < (rvit_cu_device_of(H.device[DEVICE])->machine.wgmma ? 3 : 1); i++) {
        memcpy(configs, of[i], sizeof configs);
        dependent_launches(i == 0 ? RVIT_F16 : RVIT_E4M3);
    }
}

/* Ops that the wgmma kernels do not support run on other kernels. */
static void hopper_refuses(void **state)
{
    (void)state;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_queue queue = {.device = device};
    array *x = array_input("x", 8192), *live = array_input("live", 4);
    rvit_linear_args good = RVIT_LINEAR_ARGS_INIT;
    good.dtype = good.out_dtype = RVIT_F16;
    good.rows.capacity = 1 << 18;
    good.in_features = 64;
    good.out_features = 32;
    arrays_upload();
    good.rows.live = array_view(live, DEVICE);
    good.x = good.weight = good.out = array_view(x, DEVICE);
    enum { N = 12 };
    rvit_linear_args bad[N];
    for (int i = 0; i < N; i++)
        bad[i] = good;
    bad[0].rows.capacity = 1 << 17;
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
    bad[11].rows.padded = RVIT_ROWS_PADDED;
    rvit_cu_machine machine = device->machine;
    machine.wgmma = 1, machine.clusters = 0, machine.n_sms = 1 << 20;
    rvit_cu_linear_facts facts = rvit_cu_linear_facts_of(&queue, &good);
    assert_true(is_wgmma(rvit_cu_linear_choose(&machine, &facts)));
    machine.wgmma = 0;
    assert_false(is_wgmma(rvit_cu_linear_choose(&machine, &facts)));
    machine.wgmma = 1;
    int chosen = 0;
    for (int i = 0; i < N; i++) {
        facts = rvit_cu_linear_facts_of(&queue, &bad[i]);
        chosen |= is_wgmma(rvit_cu_linear_choose(&machine, &facts)) << i;
    }
    assert_int_equal(chosen, 0);
}

/* e4m3 ops that no kernel supports are refused with a reason. */
static void hopper_refuses_e4m3(void **state)
{
    (void)state;
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const rvit_cu_machine machine = device->machine;
    array *x = array_input("x", 8192), *scales = array_input("scales", 256), *out = array_output("out", 8192);
    array *out_scales = array_output("out_scales", 256);
    arrays_upload();
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = RVIT_E4M3;
    args.rows.capacity = 8;
    args.in_features = 64;
    args.out_features = 48;
    args.x = args.weight = array_view(x, DEVICE);
    args.x_scales = args.weight_scales = args.static_scale = array_view(scales, DEVICE);
    args.out = array_view(out, DEVICE);
    args.out_scales = array_view(out_scales, DEVICE);
    device->machine.wgmma = 1;
    expect_status(rvit_linear(H.stream[DEVICE], &args), RVIT_UNSUPPORTED, "multiple of 32");
    args.out_features = 32;
    args.gated = 1;
    expect_status(rvit_linear(H.stream[DEVICE], &args), RVIT_UNSUPPORTED, "e4m3 with gated");
    args.gated = 0;
    args.rows.capacity = 0;
    expect_ok(rvit_linear(H.stream[DEVICE], &args)); /* no rows */
    args.rows.capacity = 8;
    device->machine.wgmma = 0;
    expect_status(rvit_linear(H.stream[DEVICE], &args), RVIT_UNSUPPORTED, "compute capability 9.0");
    device->machine = machine;
}

SUITE(hopper_suite, TEST(hopper_gemms), TEST(hopper_e4m3), TEST(hopper_small_m), TEST(hopper_small_m_all), TEST(hopper_dependent_launches),
      TEST(hopper_refuses), TEST(hopper_refuses_e4m3));
