/* Checks that rvit_session_memory predicts the memory of a session, and that runs do not change it. */
#include "model.h"

#include <stdatomic.h>
#include "tools/cli/session_results.h"

static const toy_spec spec = {.dim = 128,
                              .depth = 4,
                              .mlp = 256,
                              .image_size = 64,
                              .patch_size = 8,
                              .n_classes = 7,
                              .stored = RVIT_F32,
                              .seed = 71,
                              .n_predictors = 2,
                              .rotary = 1};
static const toy_spec small = {.dim = 64,
                               .depth = 3,
                               .mlp = 64,
                               .image_size = 32,
                               .patch_size = 8,
                               .n_classes = 7,
                               .stored = RVIT_F32,
                               .seed = 72,
                               .n_predictors = 2}; /* small, for many runs */

enum { N_IMAGES = 5, CLASSES = 7, HEADER = 64 };

/* An allocator that counts the allocated bytes. */
typedef struct counter {
    rvit_allocator allocator;
    atomic_llong live;
} counter;

static void *counted_allocate(void *user, size_t size, size_t alignment)
{
    (void)alignment; /* at most HEADER */
    uint8_t *memory = aligned_alloc(HEADER, (HEADER + size + HEADER - 1) / HEADER * HEADER);
    if (!memory)
        return NULL;
    memcpy(memory, &size, sizeof size);
    atomic_fetch_add(&((counter *)user)->live, (long long)size);
    return memory + HEADER;
}

static void counted_release(void *user, void *pointer)
{
    if (!pointer)
        return;
    uint8_t *memory = (uint8_t *)pointer - HEADER;
    size_t size;
    memcpy(&size, memory, sizeof size);
    atomic_fetch_sub(&((counter *)user)->live, (long long)size);
    free(memory);
}

typedef struct fixture {
    counter counter;
    const toy *m;
    rvit_device *device;
    rvit_model *model;
    rvit_stream *stream; /* for reading the device's statistics; some sessions use it */
    rvit_buffer *images, *logits;
} fixture;

static fixture *open_fixture_of(const toy_spec *of, rvit_dtype dtype, rvit_quantization quantization)
{
    fixture *f = scratch(sizeof *f);
    f->counter.allocator = (rvit_allocator){&f->counter, counted_allocate, counted_release};
    f->m = toy_new(of);
    rvit_device_desc device = H.desc;
    device.allocator = &f->counter.allocator;
    expect_ok(rvit_device_create(&device, &f->device));
    expect_ok(rvit_stream_create(f->device, &f->stream));
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = dtype;
    desc.quantization = quantization;
    expect_ok(rvit_model_create(f->device, open_checkpoint(f->m, "memory.safetensors"), &desc, &f->model));
    expect_ok(rvit_buffer_create(f->device, (int64_t)N_IMAGES * f->m->pixels * 4, RVIT_BUFFER_DEVICE, &f->images));
    expect_ok(rvit_buffer_create(f->device, N_IMAGES * CLASSES * 4, RVIT_BUFFER_DEVICE, &f->logits));
    return f;
}

static fixture *open_fixture(rvit_dtype dtype)
{
    return open_fixture_of(&spec, dtype, RVIT_QUANTIZATION_NONE);
}

static void close_fixture(fixture *f)
{
    rvit_buffer_destroy(f->images);
    rvit_buffer_destroy(f->logits);
    rvit_model_destroy(f->model);
    rvit_stream_destroy(f->stream);
    rvit_device_destroy(f->device);
    assert_int_equal(atomic_load(&f->counter.live), 0);
}

typedef struct memory_use {
    rvit_stats stats;
    long long host;
} memory_use;

static memory_use memory_used(const fixture *f)
{
    memory_use h = {RVIT_STATS_INIT, 0};
    expect_ok(rvit_stream_get_stats(f->stream, &h.stats));
    h.host = atomic_load(&f->counter.live);
    return h;
}

enum { PLAIN, OUTPUTS, TRACED, FIXED, VIEWS, CALLERS_STREAM, RUN_VIEWS, N_VARIANTS };

static rvit_session_desc variant_of(const fixture *f, int policy, int variant)
{
    rvit_session_desc desc = policy_desc(policy, N_IMAGES);
    desc.trace = variant == TRACED;
    desc.fixed_batch = variant == FIXED || variant == VIEWS;
    if (variant == OUTPUTS || variant == TRACED)
        desc.outputs = TOY_OUTPUTS;
    desc.features_block = 1;
    desc.received_block = 0;
    if (variant == VIEWS) {
        desc.input_memory = RVIT_INPUT_FIXED;
        desc.input_view.buffer = f->images;
        desc.logits.buffer = f->logits;
    }
    if (variant == CALLERS_STREAM)
        desc.stream = f->stream;
    if (variant == RUN_VIEWS)
        desc.input_memory = RVIT_INPUT_RUN;
    return desc;
}

/* The bounds of docs/memory.md. */
static long long most_working(int32_t stages)
{
    const int32_t tokens = 1 + 64;
    switch (H.desc.backend) {
    case RVIT_BACKEND_CPU:
        return 0;
    case RVIT_BACKEND_VULKAN:
        return 1024 * (1 + spec.depth + stages);
    default:
        return 4096 + 32 * N_IMAGES + 4096 + 16 * N_IMAGES * tokens + (32 << 20);
    }
}

static void expect_size(const char *what, int policy, int variant, long long found, long long low, long long high)
{
    if (found < low || found > high)
        fail_msg("policy %d, variant %d: %s: %lld bytes, expected %lld to %lld", policy, variant, what, found, low, high);
}

static void check_session(fixture *f, int policy, int variant)
{
    const rvit_session_desc desc = variant_of(f, policy, variant);
    rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
    rvit_session *session = NULL;
    /* The first session allocates what is created once per device, and the op list of the caller's stream. */
    expect_ok(rvit_session_create(f->model, &desc, &session));
    rvit_session_destroy(session);

    const memory_use before = memory_used(f);
    expect_ok(rvit_session_memory(f->model, &desc, &memory));
    const memory_use asked = memory_used(f);
    assert_int_equal(asked.host, before.host);
    assert_int_equal(asked.stats.device_allocations, before.stats.device_allocations);
    expect_ok(rvit_session_create(f->model, &desc, &session));
    const memory_use after = memory_used(f);
    const int32_t stages = session_n_stages(session);
    expect_size("device_size", policy, variant, after.stats.device_size - before.stats.device_size, memory.device_size, memory.device_size);
    expect_size("upload_size", policy, variant, after.stats.upload_size - before.stats.upload_size, memory.upload_size, memory.upload_size);
    const long long readback = memory.readback_size + memory.trace_size;
    expect_size("readback_size", policy, variant, after.stats.readback_size - before.stats.readback_size, readback, readback);
    assert_int_equal(memory.trace_size > 0, variant == TRACED);
    expect_size("working_size", policy, variant, after.stats.working_size - before.stats.working_size, 0, most_working(stages));
    long long host = memory.host_size;
    if (H.desc.backend == RVIT_BACKEND_CPU)
        host += memory.device_size + memory.upload_size + readback;
    expect_size("host_size", policy, variant, after.host - before.host, host, host + 16384 + 8192 * (spec.depth + stages));
    rvit_session_destroy(session);
    const memory_use end = memory_used(f);
    assert_int_equal(end.host, before.host);
    assert_int_equal(end.stats.device_size, before.stats.device_size);
    assert_int_equal(end.stats.upload_size, before.stats.upload_size);
    assert_int_equal(end.stats.readback_size, before.stats.readback_size);
    assert_int_equal(end.stats.working_size, before.stats.working_size);
}

static void memory_is_predicted(void **state)
{
    (void)state;
    static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
    for (int t = 0; t < n_types(); t++) {
        fixture *f = open_fixture(types[t]);
        for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy))
            for (int variant = 0; variant < N_VARIANTS; variant++)
                check_session(f, policy, variant);
        close_fixture(f);
    }
    if (lacks("int8"))
        return;
    fixture *f = open_fixture_of(&spec, RVIT_F32, RVIT_QUANTIZATION_INT8);
    for (int policy = RVIT_PRUNE_NONE; policy <= RVIT_PRUNE_L2; policy = next_policy(policy))
        for (int variant = 0; variant < N_VARIANTS; variant++)
            check_session(f, policy, variant);
    close_fixture(f);
}

/* The sum of array sizes, each rounded up as in docs/memory.md. */
static int64_t sum_of(const int64_t *sizes, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += (sizes[i] + 255) / 256 * 256;
    return sum;
}
#define SUM(...) sum_of((const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* Compares with the formulas of docs/memory.md. */
static void check_formula(rvit_quantization quantization)
{
    static const int policies[] = {RVIT_PRUNE_NONE,   RVIT_PRUNE_L2,           RVIT_PRUNE_EVIT,     RVIT_PRUNE_MASK,   RVIT_PRUNE_TOME,
                                   RVIT_PRUNE_RANDOM, RVIT_PRUNE_L2_THRESHOLD, RVIT_PRUNE_RECEIVED, RVIT_PRUNE_HIPRUNE};
    enum { B = N_IMAGES, T = 65, D = 128, HEADS = 2, E = 2, STAGES = 2 };
    const int widest = H.desc.backend == RVIT_BACKEND_CPU ? 5 : 3;
    fixture *f = open_fixture_of(&spec, RVIT_F16, quantization);
    for (int p = 0; p < 9; p++) {
        const int policy = policies[p], hiprune = policy == RVIT_PRUNE_HIPRUNE, tome = policy == RVIT_PRUNE_TOME,
                  mask = policy == RVIT_PRUNE_MASK;
        const int fixed =
            policy == RVIT_PRUNE_L2 || policy == RVIT_PRUNE_EVIT || policy == RVIT_PRUNE_RANDOM || policy == RVIT_PRUNE_RECEIVED || hiprune;
        const int stages = policy == RVIT_PRUNE_NONE ? 0 : hiprune ? 1 : STAGES;
        rvit_session_desc desc = variant_of(f, policy, TRACED);
        rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
        rvit_session *session = NULL;
        expect_ok(rvit_session_memory(f->model, &desc, &memory));
        int64_t len[STAGES + 1] = {T, T, T};
        if (fixed || tome) {
            expect_ok(rvit_session_create(f->model, &desc, &session));
            run_session(session, f->m, toy_images(f->m, 1, 2), 1, NULL);
            for (int i = 0; i < stages; i++)
                len[i + 1] = session_cu_seqlens(session, i)[1];
            rvit_session_destroy(session);
            assert_true((hiprune || len[2] < len[1]) && len[1] < T);
        }
        int64_t device = SUM(4 * B * T * D, stages > 0 ? 4 * B * len[1] * D : 0, E * B * T * D, E * B * T * widest * D, 4 * (B + 1));
        int64_t upload = SUM(4, 4 * B * 3 * 64 * 64) + (hiprune ? SUM(4 * (T + 1)) : 0), trace = (1 + spec.depth) * SUM(4 * B * T * D);
        int64_t readback = SUM(4 * B * CLASSES, 4 * B * len[stages] * D, 4 * B * T * HEADS, 4 * B * D,
                               4 * B * len[stages > 0 && !hiprune] * D, 4 * B * T * HEADS);
        device += SUM(4 * B * T * HEADS);
        if (quantization != RVIT_QUANTIZATION_NONE)
            device += SUM(B * T * 3 * D, 4 * B * T);
        if (policy == RVIT_PRUNE_EVIT)
            device += SUM(4 * B * T * HEADS);
        if (hiprune)
            device += SUM(B * T, 4 * (T + 1));
        if (policy == RVIT_PRUNE_RECEIVED || hiprune)
            device += SUM(4 * B * T * HEADS); /* the second array; the first one is shared with the output */
        if (tome)
            device += SUM(4 * B * T * 64);
        if (hiprune)
            trace += SUM(4 * B * T, B * T);
        for (int i = 0; i < stages; i++) {
            const int64_t results = SUM(B * len[i], 4 * (B + 1), tome ? 4 * B * len[i] : 0);
            int64_t tables = fixed ? SUM(4 * (len[i] + 1)) : 0;
            if (policy == RVIT_PRUNE_RANDOM)
                tables += SUM(4 * len[i]);
            device += SUM(4 * B * len[i], 4 * B * len[i + 1]) + results + tables + (tome || mask ? 0 : SUM(4 * B * len[i]));
            if (tome)
                device += 2 * SUM(4 * B * len[i + 1]);
            upload += tables + (mask ? SUM(B * len[i]) : 0);
            readback += results + (tome ? 0 : SUM(4 * (B + 1)));
            trace += SUM(4 * B * len[i], tome ? 4 * B * len[i] * 64 : 0);
        }
        expect_size("device_size by the formula", policy, TRACED, memory.device_size, device, device);
        expect_size("upload_size by the formula", policy, TRACED, memory.upload_size, upload, upload);
        expect_size("readback_size by the formula", policy, TRACED, memory.readback_size, readback, readback);
        expect_size("trace_size by the formula", policy, TRACED, memory.trace_size, trace, trace);
    }
    close_fixture(f);
}

static void formula_holds(void **state)
{
    (void)state;
    check_formula(RVIT_QUANTIZATION_NONE);
    if (!lacks("int8"))
        check_formula(RVIT_QUANTIZATION_INT8);
}

/* Reads the results that the session computes on first use. */
static void read_lazy_results(rvit_session *session, const toy *m, int32_t n)
{
    uint8_t *mask = scratch((size_t)m->tokens);
    float *grid = scratch((size_t)((m->tokens - m->n_prefix) * m->spec.dim) * sizeof *grid);
    for (int32_t i = 0; i < n; i++) {
        expect_ok(rvit_session_keep_mask(session, session_n_stages(session) - 1, i, mask));
        expect_ok(rvit_session_feature_grid(session, i, 0.0f, grid));
    }
}

static void runs_allocate_nothing(void **state)
{
    (void)state;
    static const int policies[] = {RVIT_PRUNE_L2, RVIT_PRUNE_EVIT, RVIT_PRUNE_ATS, RVIT_PRUNE_TOME, RVIT_PRUNE_MASK, RVIT_PRUNE_DYNAMICVIT};
    fixture *f = open_fixture_of(&small, RVIT_F32, RVIT_QUANTIZATION_NONE);
    const float *images = toy_images(f->m, N_IMAGES, 1);
    uint8_t *keep = scratch((size_t)(2 * N_IMAGES * f->m->tokens));
    for (int i = 0; i < 2 * N_IMAGES * f->m->tokens; i++)
        keep[i] = i % f->m->tokens == 0 || random_below(3) > 0;
    for (int p = 0; p < 6; p++) {
        rvit_session_desc desc = variant_of(f, policies[p], TRACED);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(f->model, &desc, &session));
        const memory_use before = memory_used(f);
        for (int run = 0; run < (H.is_slow ? 2 * (N_IMAGES + 1) : 100); run++) {
            const int32_t n = run * 7 % (N_IMAGES + 1);
            run_session(session, f->m, images, n, policies[p] == RVIT_PRUNE_MASK ? keep : NULL);
            if (run % 10 == 0)
                read_lazy_results(session, f->m, n);
        }
        const memory_use after = memory_used(f);
        assert_int_equal(after.host, before.host);
        assert_int_equal(after.stats.host_allocations, before.stats.host_allocations);
        assert_int_equal(after.stats.device_allocations, before.stats.device_allocations);
        assert_int_equal(after.stats.device_size, before.stats.device_size);
        assert_int_equal(after.stats.upload_size, before.stats.upload_size);
        assert_int_equal(after.stats.readback_size, before.stats.readback_size);
        assert_int_equal(after.stats.working_size, before.stats.working_size);
        rvit_session_destroy(session);
    }
    close_fixture(f);
}

/* With dense_fallback the session may use either plan, so the sizes are upper bounds. */
static void fallback_is_bounded(void **state)
{
    (void)state;
    fixture *f = open_fixture(RVIT_F32);
    for (int policy = RVIT_PRUNE_L2; policy <= RVIT_PRUNE_TOME; policy++) {
        if (policy == RVIT_PRUNE_MASK || leaves_out(policy, 3))
            continue; /* dense_fallback does not apply to masks */
        rvit_session_desc desc = policy_desc(policy, N_IMAGES);
        rvit_memory_info pruned = RVIT_MEMORY_INFO_INIT, most = RVIT_MEMORY_INFO_INIT, dense = RVIT_MEMORY_INFO_INIT;
        const rvit_session_desc none = policy_desc(RVIT_PRUNE_NONE, N_IMAGES);
        expect_ok(rvit_session_memory(f->model, &desc, &pruned));
        expect_ok(rvit_session_memory(f->model, &none, &dense));
        desc.outputs = RVIT_OUTPUT_FEATURES;
        desc.dense_fallback = 1;
        desc.input_memory = RVIT_INPUT_FIXED;
        desc.input_view.buffer = f->images;
        expect_ok(rvit_session_memory(f->model, &desc, &most));
        assert_true(most.device_size >= pruned.device_size && most.device_size >= dense.device_size);
        assert_true(most.upload_size >= dense.upload_size); /* the sessions that are timed have their own images */
        const memory_use before = memory_used(f);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(f->model, &desc, &session));
        const memory_use after = memory_used(f);
        assert_true(after.stats.device_size - before.stats.device_size <= most.device_size);
        assert_true(after.stats.upload_size - before.stats.upload_size <= most.upload_size);
        assert_true(after.stats.readback_size - before.stats.readback_size <= most.readback_size);
        rvit_session_destroy(session);
    }
    close_fixture(f);
}

static void weights_are_counted(void **state)
{
    (void)state;
    fixture *f = open_fixture(RVIT_F32);
    const memory_use before = memory_used(f);
    rvit_checkpoint *checkpoint = open_checkpoint(f->m, "weights.safetensors");
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    expect_ok(rvit_checkpoint_get_model_info(checkpoint, &info));
    expect_ok(rvit_checkpoint_get_info(checkpoint, &files));
    assert_int_equal(info.weights_size, 0);
    rvit_model *model = NULL;
    expect_ok(rvit_model_create(f->device, checkpoint, NULL, &model));
    expect_ok(rvit_model_get_info(model, &info));
    assert_int_equal(memory_used(f).stats.device_size - before.stats.device_size, info.weights_size);
    assert_true(info.weights_size >= files.n_parameters * 4);
    rvit_model_destroy(model);
    close_fixture(f);
}

static void bad_descs_are_refused(void **state)
{
    (void)state;
    fixture *f = open_fixture(RVIT_F32);
    rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
    rvit_session_desc desc = policy_desc(RVIT_PRUNE_L2, N_IMAGES);
    rvit_session *session = NULL;
    expect_status(rvit_session_memory(NULL, &desc, &memory), RVIT_INVALID_ARGUMENT, "model");
    expect_status(rvit_session_memory(f->model, &desc, NULL), RVIT_INVALID_ARGUMENT, NULL);
    expect_ok(rvit_session_memory(f->model, NULL, &memory));
    desc.max_images = 0;
    expect_status(rvit_session_memory(f->model, &desc, &memory), RVIT_INVALID_ARGUMENT, "max_images");
    desc = policy_desc(RVIT_PRUNE_L2, N_IMAGES);
    prune_in(&desc)->blocks[1] = spec.depth;
    expect_status(rvit_session_memory(f->model, &desc, &memory), RVIT_INVALID_ARGUMENT, NULL);
    /* A refused session does not change a recording stream. */
    desc = variant_of(f, RVIT_PRUNE_L2, CALLERS_STREAM);
    expect_ok(rvit_record_begin(f->stream));
    expect_status(rvit_session_create(f->model, &desc, &session), RVIT_INVALID_ARGUMENT, "stream");
    rvit_program *program = NULL;
    expect_status(rvit_record_end(f->stream, &program), RVIT_INVALID_ARGUMENT, NULL);
    expect_ok(rvit_session_create(f->model, &desc, &session));
    rvit_session_destroy(session);
    close_fixture(f);
}

SUITE(memory_suite, MODEL_TEST(memory_is_predicted), MODEL_TEST(formula_holds), MODEL_TEST(runs_allocate_nothing),
      MODEL_TEST(fallback_is_bounded), MODEL_TEST(weights_are_counted), MODEL_TEST(bad_descs_are_refused));
