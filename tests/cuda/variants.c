/* The choice of a kernel depends on the batch's capacities and the device, but results must not. These tests run the same ops as on devices
   with one SM, with very many, and in between. */
#include "cuda_tests.h"

#include <math.h>

#include "backend_cuda/cu.h"
#include "core/device/device.h"

extern const int rvit_cu_image_version; /* generated */

typedef struct machine_list {
    int32_t n_sms[8];
    int n;
} machine_list;

/* Runs the op for each device size and compares the outputs bit for bit. */
static void expect_equal(const machine_list *list, void (*run)(void *), void *context, array *const *outputs, int n_outputs)
{
    rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
    const int32_t n_sms = device->machine.n_sms;
    uint8_t *first[4] = {NULL};
    for (int i = 0; i < list->n; i++) {
        arrays_upload();
        device->machine.n_sms = list->n_sms[i];
        run(context);
        device->machine.n_sms = n_sms;
        arrays_fetch(DEVICE);
        for (int o = 0; o < n_outputs; o++) {
            if (outputs[o] == NULL)
                continue;
            const size_t size = (size_t)outputs[o]->size;
            if (i == 0) {
                first[o] = scratch(size);
                memcpy(first[o], outputs[o]->result[DEVICE], size);
            } else if (memcmp(first[o], outputs[o]->result[DEVICE], size) != 0) {
                fail_msg("%s differs between a device of %d SMs and one of %d", outputs[o]->name, list->n_sms[0], list->n_sms[i]);
            }
        }
    }
}

static void run_attention(void *context)
{
    expect_ok(rvit_attention(H.stream[DEVICE], context));
}

/* A bit mask of the kernels that are chosen for the op on the listed devices. */
static unsigned attention_shapes(const machine_list *list, const rvit_attention_args *args)
{
    rvit_cu_machine machine = rvit_cu_device_of(H.device[DEVICE])->machine;
    const int32_t len = args->max_len < args->rows ? args->max_len : (int32_t)args->rows;
    const rvit_cu_attention_size size = {2, args->head_dim, args->n_heads, args->n_images, args->rows, len, args->lse.buffer != NULL, 0};
    unsigned seen = 0;
    for (int i = 0; i < list->n; i++) {
        machine.n_sms = list->n_sms[i];
        seen |= 1u << rvit_cu_tile_attention(&machine, &size).shape;
    }
    return seen;
}

static void attention_variants(void **state)
{
    (void)state;
    static const int32_t dims[] = {8, 24, 32, 40, 64, 72, 80, 88, 96, 104, 128};
    static const int32_t ragged[] = {197, 1, 65, 0, 130, 64, 300, 7}, alike[] = {197, 190, 197, 180};
    static const int32_t short_48[] = {48, 1, 0, 33, 41, 32}, short_32[] = {17, 32, 0, 16, 1, 21};
    static const struct {
        const int32_t *lengths;
        int n_images, has_bias_stats; /* some kernels support neither a bias nor probabilities */
    } batches[] = {{ragged, 8, 1}, {alike, 4, 0}, {short_48, 6, 0}, {short_32, 6, 0}, {short_48, 6, 1}, {ragged, 8, 0}};
    static const machine_list list = {{1, 1 << 20, 20}, 3};
    enum { N_HEADS = 3, N_BATCHES = sizeof batches / sizeof batches[0], N_DIMS = sizeof dims / sizeof dims[0] };
    unsigned seen = 0;
    for (size_t d = 0; d < N_DIMS * N_BATCHES; d++) {
        if (d / N_DIMS >= 4 && dims[d % N_DIMS] != 64) /* the last two are for d64 kernels */
            continue;
        for (int dtype = RVIT_F16; dtype <= RVIT_BF16; dtype++) {
            const int32_t dim = dims[d % N_DIMS];
            const int n_images = batches[d / N_DIMS].n_images, has_bias_stats = batches[d / N_DIMS].has_bias_stats;
            const batch b = batch_of(batches[d / N_DIMS].lengths, n_images, 2);
            const int64_t width = N_HEADS * dim, size = b.rows * width * 2;
            array *qkv = array_input("qkv", 3 * size), *cu = array_cu(&b), *out = array_output("out", size);
            array *key_bias = has_bias_stats && d % 2 ? array_input("key_bias", b.rows * 4) : NULL;
            array *cls = has_bias_stats ? array_output("cls_probs", b.rows * N_HEADS * 4) : NULL,
                  *lse = has_bias_stats ? array_output("lse", b.rows * N_HEADS * 4) : NULL;
            store_normal((rvit_dtype)dtype, qkv->host, 0, b.live * 3 * width, 1.5f);
            if (key_bias)
                store_normal(RVIT_F32, key_bias->host, 0, b.live, 2);
            rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
            args.dtype = (rvit_dtype)dtype;
            args.n_images = n_images;
            args.n_heads = N_HEADS;
            args.head_dim = dim;
            args.max_len = b.max_len;
            args.rows = b.rows;
            args.scale = d % 3 == 1 ? -0.3f : 0;
            args.q = args.k = args.v = array_view(qkv, DEVICE);
            args.k.offset += width * 2;
            args.v.offset += width * 4;
            args.q_stride = args.k_stride = args.v_stride = 3 * width;
            args.cu_seqlens = array_view(cu, DEVICE);
            args.key_bias = array_view(key_bias, DEVICE);
            args.out = array_view(out, DEVICE);
            args.cls_probs = array_view(cls, DEVICE);
            args.lse = array_view(lse, DEVICE);
            array *const outputs[] = {out, cls, lse};
            seen |= attention_shapes(&list, &args);
            expect_equal(&list, run_attention, &args, outputs, has_bias_stats ? 3 : 1);
            harness_teardown(NULL);
        }
    }
    assert_int_equal(seen, (1u << RVIT_CU_N_ATTENTION_SHAPES) - 1); /* every kernel of each element type */
}

/* An image has the same bits in a batch of one and in a larger batch, also if a long image selects another kernel, or if each of its tiles
   gets its own SM. The same holds within a session, which uses split-KV in all of its launches. */
static void long_images_independent(void **state)
{
    (void)state;
    static const int32_t longs[] = {577, 130, 512, 64, 511, 592}, talls[] = {130, 2050, 540, 511, 0, 1},
                         dims[] = {64, 72, 80, 128, 64, 128};
    enum { N_IMAGES = 6, N_DIMS = sizeof dims / sizeof dims[0] };
    rvit_cu_machine *machine = &rvit_cu_device_of(H.device[DEVICE])->machine;
    const int32_t n_sms = machine->n_sms;
    for (int d = 0; d < 4 * N_DIMS; d++) {
        const int is_split = d >= 2 * N_DIMS;
        if (is_split && d % N_DIMS != 0)
            continue;
        const int32_t *lengths = d % N_DIMS < N_DIMS - 2 ? longs : talls;
        const rvit_dtype dtype = d / N_DIMS % 2 == 0 ? RVIT_F16 : RVIT_BF16;
        const int32_t dim = dims[d % N_DIMS];
        const batch b = batch_of(lengths, N_IMAGES, 3);
        const int64_t size = b.rows * dim * 2;
        array *qkv = array_input("qkv", 3 * size), *out = array_output("out", size), *single = array_output("out of one image", size);
        array *cu = array_cu(&b), *cu_alone[N_IMAGES];
        store_normal(dtype, qkv->host, 0, b.live * 3 * dim, 1.5f);
        for (int i = 0; i < N_IMAGES; i++) {
            const batch one = batch_of(&lengths[i], 1, 0);
            cu_alone[i] = array_cu(&one);
        }
        arrays_upload();
        machine->n_sms = is_split ? 1 << 20 : 16;
        for (int i = -1; i < N_IMAGES; i++) {
            rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
            args.dtype = dtype;
            args.n_images = i < 0 ? N_IMAGES : 1;
            args.n_heads = 1;
            args.head_dim = dim;
            args.max_len = i < 0 ? b.max_len : lengths[i];
            args.rows = i < 0 ? b.rows : lengths[i];
            args.q = args.k = args.v = array_view(qkv, DEVICE);
            args.q.offset += i < 0 ? 0 : (int64_t)b.cu[i] * 3 * dim * 2;
            args.k.offset = args.q.offset + dim * 2;
            args.v.offset = args.q.offset + dim * 4;
            args.q_stride = args.k_stride = args.v_stride = 3 * dim;
            args.cu_seqlens = array_view(i < 0 ? cu : cu_alone[i], DEVICE);
            args.out = array_view(i < 0 ? out : single, DEVICE);
            args.out.offset += i < 0 ? 0 : (int64_t)b.cu[i] * dim * 2;
            rvit_op op = {.type = RVIT_OP_ATTENTION, .hints = {.fixed_images = is_split}, .attention = args};
            expect_ok(rvit_stream_add(H.stream[DEVICE], &op));
        }
        machine->n_sms = n_sms;
        arrays_fetch(DEVICE);
        assert_memory_equal(out->result[DEVICE], single->result[DEVICE], (size_t)(b.live * dim * 2));
        harness_teardown(NULL);
    }
}

/* A negative scale gives the same result as negated queries. */
static void negative_scale(void **state)
{
    (void)state;
    static const int32_t lengths[] = {70, 33};
    enum { DIM = 64 };
    for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++) {
        const batch b = batch_of(lengths, 2, 0);
        const int64_t size = b.rows * DIM * rvit_dtype_size((rvit_dtype)dtype);
        array *q = array_input("q", size), *minus_q = array_input("minus_q", size), *k = array_input("k", size);
        array *cu = array_cu(&b), *out[2] = {array_output("out", size), array_output("out of minus q", size)};
        store_normal((rvit_dtype)dtype, q->host, 0, b.live * DIM, 2);
        store_normal((rvit_dtype)dtype, k->host, 0, b.live * DIM, 2);
        for (int64_t i = 0; i < b.live * DIM; i++)
            store((rvit_dtype)dtype, minus_q->host, i, -load((rvit_dtype)dtype, q->host, i));
        arrays_upload();
        for (int negative = 0; negative < 2; negative++) {
            rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
            args.dtype = (rvit_dtype)dtype;
            args.n_images = 2;
            args.n_heads = 1;
            args.head_dim = DIM;
            args.max_len = b.max_len;
            args.rows = b.rows;
            args.scale = negative ? -0.25f : 0.25f;
            args.q = array_view(negative ? q : minus_q, DEVICE);
            args.k = args.v = array_view(k, DEVICE);
            args.cu_seqlens = array_view(cu, DEVICE);
            args.out = array_view(out[negative], DEVICE);
            expect_ok(rvit_attention(H.stream[DEVICE], &args));
        }
        arrays_fetch(DEVICE);
        assert_memory_equal(out[0]->result[DEVICE], out[1]->result[DEVICE], (size_t)size);
        assert_false(isnan(load((rvit_dtype)dtype, out[1]->result[DEVICE], 0)));
        harness_teardown(NULL);
    }
}

static void run_linear(void *context)
{
    expect_ok(rvit_linear(H.stream[DEVICE], context));
}

/* Finds, for each tile that some device would choose, a number of SMs that leads to it. seen is NULL if there is only one tile. */
static machine_list shapes_of(int64_t rows, int32_t in_features, int32_t columns, unsigned *seen)
{
    if (seen == NULL)
        return (machine_list){{1, 1 << 20, 20}, 3};
    rvit_cu_machine machine = rvit_cu_device_of(H.device[DEVICE])->machine;
    machine_list list = {{1}, 1};
    unsigned listed = 0;
    for (machine.n_sms = 1; machine.n_sms <= 1000; machine.n_sms++) {
        const unsigned shape = 1u << rvit_cu_tile_linear(&machine, 2, rows, in_features, columns, 0).shape;
        if (!(listed & shape))
            list.n_sms[list.n++] = machine.n_sms;
        listed |= shape;
    }
    *seen |= listed;
    return list;
}

typedef struct linear_form {
    rvit_activation activation;
    int gated, has_residual, wide; /* wide: the output is float32 */
} linear_form;

static void check_linear_variants(rvit_dtype dtype, const int32_t size[3], const linear_form *config, unsigned *seen)
{
    const int64_t rows = size[0], in = size[1], out_features = size[2], columns = config->gated ? 2 * out_features : out_features;
    const rvit_dtype out_dtype = config->wide ? RVIT_F32 : dtype;
    const int64_t out_size = rows * out_features * rvit_dtype_size(out_dtype);
    array *x = array_input("x", rows * in * 2), *weight = array_input("weight", columns * in * 2);
    array *bias = array_input("bias", columns * 4), *live = array_input("live", 4);
    array *residual = config->has_residual ? array_input("residual", out_size) : NULL, *out = array_output("out", out_size);
    const int32_t count = (int32_t)rows - 1;
    memcpy(live->host, &count, 4);
    store_normal(dtype, x->host, 0, rows * in, 1);
    store_normal(dtype, weight->host, 0, columns * in, 0.2f);
    store_normal(RVIT_F32, bias->host, 0, columns, 1);
    if (residual)
        store_normal(out_dtype, residual->host, 0, rows * out_features, 1);
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = dtype;
    args.out_dtype = out_dtype;
    args.rows.capacity = rows;
    args.rows.live = array_view(live, DEVICE);
    args.in_features = (int32_t)in;
    args.out_features = (int32_t)out_features;
    args.activation = config->activation;
    args.gated = config->gated;
    args.x = array_view(x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.bias = array_view(bias, DEVICE);
    args.residual = array_view(residual, DEVICE);
    args.out = array_view(out, DEVICE);
    const machine_list list = shapes_of(rows, (int32_t)in, (int32_t)columns, seen);
    array *const outputs[] = {out};
    expect_equal(&list, run_linear, &args, outputs, 1);
    harness_teardown(NULL);
}

static void linear_variants(void **state)
{
    (void)state;
    static const int32_t sizes[][3] = {{300, 104, 200}, {129, 72, 260}, {70, 200, 132}, {5, 8, 4}, {66, 20, 36}};
    /* Two kinds of ops have kernels for specific shapes; one kernel supports all others. */
    static const linear_form plain[] = {{RVIT_ACTIVATION_NONE, 0, 1, 0}, {RVIT_ACTIVATION_GELU, 0, 0, 1}, {RVIT_ACTIVATION_GELU, 0, 0, 0}};
    static const linear_form sigmoids[] = {{RVIT_ACTIVATION_GELU_TANH, 0, 0, 0}, {RVIT_ACTIVATION_SILU, 1, 0, 0}};
    static const linear_form others[] = {{RVIT_ACTIVATION_GELU, 1, 0, 0},
                                         {RVIT_ACTIVATION_NONE, 1, 1, 0},
                                         {RVIT_ACTIVATION_QUICK_GELU, 0, 1, 0},
                                         {RVIT_ACTIVATION_SILU, 1, 1, 1},
                                         {RVIT_ACTIVATION_SILU, 0, 0, 1}};
    unsigned seen[2] = {0};
    for (int dtype = RVIT_F16; dtype <= RVIT_BF16; dtype++) {
        for (int s = 0; s < 5; s++) {
            for (int i = 0; i < 2; i++)
                check_linear_variants((rvit_dtype)dtype, sizes[s], &plain[(s + i) % 3], &seen[0]);
            check_linear_variants((rvit_dtype)dtype, sizes[s], &sigmoids[s % 2], &seen[1]);
        }
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            check_linear_variants((rvit_dtype)dtype, sizes[0], &others[i], NULL);
    }
#define SEEN(name, ...) assert_true(seen[0] & seen[1] & 1u << RVIT_CU_LINEAR_##name);
    RVIT_CU_LINEAR_SHAPES(SEEN)
    RVIT_CU_LINEAR_NONPERSISTENT(SEEN)
}

static void run_select(void *context)
{
    expect_ok(rvit_select(H.stream[DEVICE], context));
}

/* One CTA or several compute the scores of an image. */
static void select_variants(void **state)
{
    (void)state;
    static const int32_t lengths[] = {197, 1, 65, 0, 130, 64, 300, 7};
    static const machine_list list = {{1, 1 << 20, 20, 3}, 4};
    enum { N_IMAGES = 8, DIM = 100 };
    for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++)
        for (int mode = RVIT_SELECT_TOP_K; mode <= RVIT_SELECT_MASS; mode++) {
            if (mode == RVIT_SELECT_MASK)
                continue;
            const batch b = batch_of(lengths, N_IMAGES, 5);
            array *x = array_input("x", b.rows * DIM * rvit_dtype_size((rvit_dtype)dtype)), *cu = array_cu(&b);
            array *counts = array_input("counts", (b.max_len + 1) * 4), *scores = array_output("scores", b.rows * 4);
            array *keep = array_output("keep", b.rows), *out_cu = array_output("out_cu_seqlens", (N_IMAGES + 1) * 4);
            array *src_rows = array_output("src_rows", b.rows * 4);
            store_normal((rvit_dtype)dtype, x->host, 0, b.live * DIM, 1);
            for (int32_t n = 0; n <= b.max_len; n++)
                ((int32_t *)(void *)counts->host)[n] = n / 2;
            rvit_select_args args = RVIT_SELECT_ARGS_INIT;
            args.mode = (rvit_select_mode)mode;
            args.score = RVIT_SCORE_L2;
            args.n_images = N_IMAGES;
            args.max_len = b.max_len;
            args.rows = b.rows;
            args.n_prefix = 1;
            args.threshold = DIM;
            args.k_min = 3;
            args.n_samples = 20;
            args.mass = 0.6;
            args.dtype = (rvit_dtype)dtype;
            args.dim = DIM;
            args.x = array_view(x, DEVICE);
            args.counts = array_view(counts, DEVICE);
            args.scores = array_view(scores, DEVICE);
            args.cu_seqlens = array_view(cu, DEVICE);
            args.keep = array_view(keep, DEVICE);
            args.out_cu_seqlens = array_view(out_cu, DEVICE);
            args.src_rows = array_view(src_rows, DEVICE);
            array *const outputs[] = {scores, keep, out_cu, src_rows};
            expect_equal(&list, run_select, &args, outputs, 4);
            harness_teardown(NULL);
        }
}

static void run_match(void *context)
{
    expect_ok(rvit_bipartite_match(H.stream[DEVICE], context));
}

/* The same, with metrics inside and outside shared memory. */
static void match_variants(void **state)
{
    (void)state;
    static const int32_t lengths[] = {197, 1, 65, 0, 130, 64, 300, 7};
    static const machine_list list = {{1, 1 << 20, 20, 3}, 4};
    static const int32_t dims[] = {8, 40, 64, 72, 128};
    enum { N_IMAGES = 8, N_HEADS = 3 };
    for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
            const batch b = batch_of(lengths, N_IMAGES, 5);
            const int64_t width = N_HEADS * dims[d];
            array *k = array_input("k", b.rows * width * rvit_dtype_size((rvit_dtype)dtype)), *cu = array_cu(&b);
            array *metric = array_output("metric", b.rows * dims[d] * 4), *keep = array_output("keep", b.rows);
            array *out_cu = array_output("out_cu_seqlens", (N_IMAGES + 1) * 4), *src_rows = array_output("src_rows", b.rows * 4);
            array *next_rows = array_output("next_rows", b.rows * 4);
            store_normal((rvit_dtype)dtype, k->host, 0, b.live * width, 1);
            rvit_bipartite_match_args args = RVIT_BIPARTITE_MATCH_ARGS_INIT;
            args.dtype = (rvit_dtype)dtype;
            args.n_images = N_IMAGES;
            args.max_len = b.max_len;
            args.rows = b.rows;
            args.n_prefix = 1 + (int32_t)(d % 2);
            args.n_heads = N_HEADS;
            args.head_dim = dims[d];
            args.merges = 20;
            args.k = array_view(k, DEVICE);
            args.cu_seqlens = array_view(cu, DEVICE);
            args.metric = array_view(metric, DEVICE);
            args.keep = array_view(keep, DEVICE);
            args.out_cu_seqlens = array_view(out_cu, DEVICE);
            args.src_rows = array_view(src_rows, DEVICE);
            args.next_rows = array_view(next_rows, DEVICE);
            array *const outputs[] = {keep, out_cu, src_rows, next_rows};
            expect_equal(&list, run_match, &args, outputs, 4);
            uint8_t *in_shared = scratch((size_t)next_rows->size);
            memcpy(in_shared, next_rows->result[DEVICE], (size_t)next_rows->size);
            rvit_cu_device *device = rvit_cu_device_of(H.device[DEVICE]);
            const int32_t max_shared = device->machine.max_shared;
            device->machine.max_shared = RVIT_CU_BIPARTITE_MATCH_FIXED + RVIT_CU_BIPARTITE_MATCH_STAGED;
            expect_equal(&list, run_match, &args, outputs, 4);
            device->machine.max_shared = max_shared;
            assert_memory_equal(in_shared, next_rows->result[DEVICE], (size_t)next_rows->size);
            harness_teardown(NULL);
        }
}

/* A build for GPUs with much shared memory only, JIT-compiled for a GPU with less (emulated by RVIT_EMU_...). */
static void kernels_for_more_shared_memory(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    setenv("RVIT_EMU_ARCH", "120", 1);
    setenv("RVIT_EMU_PTX", "90", 1);
    const rvit_status status = rvit_device_create(&H.desc, &device);
    unsetenv("RVIT_EMU_ARCH");
    unsetenv("RVIT_EMU_PTX");
    if (status == RVIT_OK && strstr(H.info.name, "emulation") == NULL) {
        rvit_device_destroy(device);
        skip();
    }
    assert_int_equal(status, RVIT_UNSUPPORTED);
    assert_non_null(strstr(rvit_status_detail(), "RVIT_CUDA_ARCHS"));
}

/* A driver that does not load the kernels: the message has its version, that of the build, and what to do. */
static void driver_refuses_kernels(void **state)
{
    (void)state;
    if (strstr(H.info.name, "emulation") == NULL)
        skip();
    static const struct {
        const char *variable, *value, *driver, *advice;
    } cases[] = {{"RVIT_EMU_OLD", "11020", "the driver is of CUDA 11.2;", "update the driver, or use a build by CUDA 11"},
                 {"RVIT_EMU_IMAGE", "209", "the driver is of CUDA ", "in RVIT_CUDA_ARCHS (cuModuleLoadData failed: CUDA_ERROR_NO_BINARY"}};
    char built[32];
    (void)snprintf(built, sizeof built, "by CUDA %d.%d (driver ", rvit_cu_image_version / 1000, rvit_cu_image_version % 1000 / 10);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rvit_device *device = NULL;
        setenv(cases[i].variable, cases[i].value, 1);
        const rvit_status status = rvit_device_create(&H.desc, &device);
        unsetenv(cases[i].variable);
        assert_int_equal(status, RVIT_UNSUPPORTED);
        assert_non_null(strstr(rvit_status_detail(), built));
        assert_non_null(strstr(rvit_status_detail(), cases[i].driver));
        assert_non_null(strstr(rvit_status_detail(), cases[i].advice));
    }
}

SUITE(variants_suite, TEST(attention_variants), TEST(long_images_independent), TEST(negative_scale), TEST(linear_variants),
      TEST(select_variants), TEST(match_variants), TEST(kernels_for_more_shared_memory), TEST(driver_refuses_kernels));
