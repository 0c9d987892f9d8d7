/* Tests how the Vulkan backend handles failing drivers, with the installed driver behind the test layer (layer.c). */
#include "vulkan_tests.h"

static char *log_lines;

static void collect(void *user, rvit_log_level level, const char *message)
{
    (void)user, (void)level;
    const size_t n = log_lines ? strlen(log_lines) : 0;
    char *longer = realloc(log_lines, n + strlen(message) + 2);
    assert_non_null(longer);
    sprintf(longer + n, "%s\n", message);
    log_lines = longer;
}

int logged(const char *text)
{
    return log_lines && strstr(log_lines, text);
}

void log_restart(void)
{
    free(log_lines);
    log_lines = NULL;
    rvit_log_set(collect, NULL);
}

void set_layer(const char *words)
{
    assert_int_equal(setenv("RVIT_TEST_LAYER", words, 1), 0);
}

static int no_layer(void **state)
{
    (void)state;
    rvit_log_set(NULL, NULL);
    free(log_lines);
    log_lines = NULL;
    set_layer("");
    return 0;
}

rvit_device_desc auto_desc(void)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_VULKAN;
    return desc;
}

rvit_device_info info_of(const rvit_device *device)
{
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_get_info(device, &info));
    return info;
}

void workload_open(workload *w, rvit_device *device)
{
    static const int32_t cu[] = {0, 7, 7, W_ROWS};
    *w = (workload){.device = device};
    expect_ok(rvit_stream_create(device, &w->stream));
    expect_ok(rvit_buffer_create(device, W_SIZE, RVIT_BUFFER_UPLOAD, &w->in));
    expect_ok(rvit_buffer_create(device, W_SIZE, RVIT_BUFFER_READBACK, &w->out));
    random_seed(3);
    store_normal(RVIT_F32, rvit_buffer_host(w->in), 0, W_ROWS * 3 * W_DIM, 1);
    memcpy((char *)rvit_buffer_host(w->in) + W_CU, cu, sizeof cu);
}

/* Two heads. narrow: half the head size, which needs other pipelines. */
static rvit_status attention(workload *w, int64_t out, int narrow)
{
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = 3;
    args.n_heads = narrow ? 2 : 1;
    args.head_dim = W_DIM / args.n_heads;
    args.max_len = args.rows = W_ROWS;
    args.q = (rvit_view){w->in, 0};
    args.k = (rvit_view){w->in, W_DIM * 4};
    args.v = (rvit_view){w->in, 2 * W_DIM * 4};
    args.q_stride = args.k_stride = args.v_stride = 3 * W_DIM;
    args.cu_seqlens = (rvit_view){w->in, W_CU};
    args.out = (rvit_view){w->out, out};
    return rvit_attention(w->stream, &args);
}

rvit_status workload_attention(workload *w, int64_t out)
{
    return attention(w, out, 0);
}

rvit_status workload_run(workload *w)
{
    const rvit_status status = workload_attention(w, 0);
    return status != RVIT_OK ? status : rvit_stream_synchronize(w->stream);
}

void workload_close(workload *w)
{
    rvit_stream_destroy(w->stream);
    rvit_buffer_destroy(w->in);
    rvit_buffer_destroy(w->out);
}

/* The largest difference between the device and the CPU. */
double error_of(rvit_device *device)
{
    rvit_device *cpu = NULL;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    expect_ok(rvit_device_create(&desc, &cpu));
    workload w[2];
    for (int i = 0; i < 2; i++) {
        workload_open(&w[i], i == 0 ? cpu : device);
        expect_ok(workload_run(&w[i]));
    }
    const double error = largest_difference(rvit_buffer_host(w[0].out), rvit_buffer_host(w[1].out), W_ROWS * W_DIM);
    workload_close(&w[0]);
    workload_close(&w[1]);
    rvit_device_destroy(cpu);
    return error;
}

static void wrong_tier(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    const rvit_tier before = info_of(device).tier;
    rvit_device_destroy(device);
    if (before == RVIT_TIER_SCALAR)
        skip();
    set_layer("wrong_subgroup");
    log_restart();
    expect_ok(rvit_device_create(&desc, &device));
    rvit_device_info info = info_of(device);
    assert_int_equal(info.tier, RVIT_TIER_SCALAR);
    assert_non_null(strstr(info.note, "self-test"));
    assert_true(logged("subgroup tier skipped: self-test: "));
    assert_true(error_of(device) < 1e-5);
    rvit_device_destroy(device);
    desc.tier = RVIT_TIER_SUBGROUP;
    expect_status(rvit_device_create(&desc, &device), RVIT_UNSUPPORTED, "tier");
    desc.skip_self_test = 1;
    expect_ok(rvit_device_create(&desc, &device));
    assert_int_equal(info_of(device).tier, RVIT_TIER_SUBGROUP);
    if (info.is_software) /* other drivers may have subgroups so small that attention uses the scalar tier's shader */
        assert_true(!(error_of(device) < 1e-2));
    rvit_device_destroy(device);
}

static void wrong_driver(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    set_layer("wrong");
    expect_status(rvit_device_create(&desc, &device), RVIT_UNSUPPORTED, "self-test");
    assert_null(device);
    desc.skip_self_test = 1;
    expect_ok(rvit_device_create(&desc, &device));
    rvit_device_destroy(device);
}

static void lost_in_self_test(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    log_restart();
    set_layer("lost_subgroup");
    expect_ok(rvit_device_create(&desc, &device));
    assert_int_equal(info_of(device).tier, RVIT_TIER_SCALAR);
    assert_true(error_of(device) < 1e-5);
    rvit_device_destroy(device);
    desc.tier = RVIT_TIER_SUBGROUP;
    expect_status(rvit_device_create(&desc, &device), RVIT_DEVICE_LOST, NULL);
}

static void lost(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_program *program = NULL;
    const rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    workload w;
    workload_open(&w, device);
    expect_ok(rvit_record_begin(w.stream));
    expect_ok(workload_attention(&w, 0));
    expect_ok(rvit_record_end(w.stream, &program));
    expect_ok(rvit_program_launch(program, w.stream));
    expect_ok(workload_attention(&w, 0));
    set_layer("lost");
    uint32_t words[4] = {0};
    expect_status(workload_attention(&w, 0), RVIT_DEVICE_LOST, "vkQueueSubmit");
    expect_status(rvit_program_launch(program, w.stream), RVIT_DEVICE_LOST, NULL);
    expect_status(rvit_stream_synchronize(w.stream), RVIT_DEVICE_LOST, NULL); /* waits for earlier submits */
    expect_status(rvit_stream_read(w.stream, (rvit_view){w.out, 0}, words, sizeof words), RVIT_DEVICE_LOST, NULL);
    rvit_device *second = NULL;
    expect_status(rvit_device_create(&desc, &second), RVIT_DEVICE_LOST, NULL);
    assert_null(second);
    /* The device remains lost, but a new one works. */
    set_layer("");
    expect_status(workload_attention(&w, 0), RVIT_DEVICE_LOST, NULL);
    expect_ok(rvit_device_create(&desc, &second));
    assert_true(error_of(second) < 1e-5);
    rvit_program_destroy(program);
    workload_close(&w);
    rvit_device_destroy(device);
    assert_true(error_of(second) < 1e-5);
    rvit_device_destroy(second);
}

/* Pipelines are compiled on first use. */
static void lazy_pipelines(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    desc.skip_self_test = 1;
    log_restart();
    expect_ok(rvit_device_create(&desc, &device));
    assert_false(logged("pipeline "));
    workload w;
    workload_open(&w, device);
    expect_ok(workload_run(&w));
    assert_true(logged("pipeline attention_"));
    assert_false(logged("pipeline linear_"));
    log_restart();
    expect_ok(workload_run(&w));
    assert_false(logged("pipeline "));
    workload_close(&w);
    rvit_device_destroy(device);
}

/* The pipelines of a program are compiled together: if one fails, none is kept. */
static void no_pipelines(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_program *program = NULL;
    rvit_device_desc desc = auto_desc();
    desc.skip_self_test = 1;
    expect_ok(rvit_device_create(&desc, &device));
    workload w;
    workload_open(&w, device);
    for (int turn = 0; turn < 3; turn++) {
        set_layer(turn == 1 ? "" : "no_shaders");
        log_restart();
        expect_ok(rvit_record_begin(w.stream));
        expect_ok(workload_attention(&w, 0));
        expect_ok(attention(&w, 0, 1));
        if (turn == 0) {
            expect_status(rvit_record_end(w.stream, &program), RVIT_OUT_OF_DEVICE_MEMORY, "vkCreateShaderModule");
            assert_false(logged("pipeline "));
            continue;
        }
        expect_ok(rvit_record_end(w.stream, &program));
        assert_int_equal(logged("pipeline attention_"), turn == 1); /* now they exist */
        expect_ok(rvit_program_launch(program, w.stream));
        expect_ok(rvit_stream_synchronize(w.stream));
        rvit_program_destroy(program);
    }
    workload_close(&w);
    rvit_device_destroy(device);
}

/* A program above the MAC limit is split into several submits and gives the same bits, however it is waited for. */
static void split_submits(void **state)
{
    (void)state;
    enum { N_OPS = 5 };
    uint8_t first[W_SIZE];
    static const int64_t bounds[] = {-1, 0, 1, (int64_t)2 * 2 * W_ROWS * W_ROWS * W_DIM};
    static const int64_t wanted[] = {1, 1, N_OPS, (N_OPS + 1) / 2};
    static const int32_t polls[] = {0, -1, 1, 1000000};
    for (int i = 0; i < 4; i++) {
        rvit_device *device = NULL;
        rvit_program *program = NULL;
        rvit_device_desc desc = auto_desc();
        desc.submit_work = bounds[i];
        desc.poll_us = polls[i];
        expect_ok(rvit_device_create(&desc, &device));
        workload w;
        workload_open(&w, device);
        memset(rvit_buffer_host(w.out), SENTINEL, W_SIZE);
        expect_ok(rvit_record_begin(w.stream));
        for (int op = 0; op < N_OPS; op++)
            expect_ok(workload_attention(&w, op * W_ROWS * W_DIM * 4));
        expect_ok(rvit_record_end(w.stream, &program));
        rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
        expect_ok(rvit_stream_get_stats(w.stream, &before));
        for (int run = 0; run < 100; run++) /* more than the slots of a stream */
            expect_ok(rvit_program_launch(program, w.stream));
        expect_ok(rvit_stream_get_stats(w.stream, &after));
        assert_int_equal(after.submits - before.submits, 100 * wanted[i]);
        expect_ok(rvit_stream_synchronize(w.stream));
        if (i == 0)
            memcpy(first, rvit_buffer_host(w.out), W_SIZE);
        assert_memory_equal(first, rvit_buffer_host(w.out), W_SIZE);
        rvit_program_destroy(program);
        workload_close(&w);
        rvit_device_destroy(device);
    }
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    desc.submit_work = -2;
    expect_status(rvit_device_create(&desc, &device), RVIT_INVALID_ARGUMENT, "submit_work");
    desc = auto_desc();
    desc.poll_us = -2;
    expect_status(rvit_device_create(&desc, &device), RVIT_INVALID_ARGUMENT, "poll_us");
}

/* bipartite_match and grid_relayout with windows bind one array more than the smallest devices can, layernorm to int8 two more. */
static void few_bindings(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    set_layer("minimum");
    const rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    workload w;
    workload_open(&w, device);
    rvit_bipartite_match_args args = RVIT_BIPARTITE_MATCH_ARGS_INIT;
    args.n_images = 3;
    args.max_len = args.rows = W_ROWS;
    args.group_size = 2;
    args.n_heads = 1;
    args.head_dim = W_DIM;
    args.k_stride = 3 * W_DIM;
    args.merges = 4;
    args.k.buffer = args.cu_seqlens.buffer = w.in;
    args.cu_seqlens.offset = W_CU;
    args.metric.buffer = args.keep.buffer = args.out_cu_seqlens.buffer = args.src_rows.buffer = args.next_rows.buffer = w.out;
    args.keep.offset = W_ROWS * W_DIM * 4;
    args.out_cu_seqlens.offset = args.keep.offset + 1024;
    args.src_rows.offset = args.keep.offset + 2048;
    args.next_rows.offset = args.keep.offset + 3072;
    expect_ok(rvit_bipartite_match(w.stream, &args));
    expect_ok(rvit_stream_synchronize(w.stream));
    args.n_windows = 3;
    args.window_cu_seqlens = args.cu_seqlens;
    expect_status(rvit_bipartite_match(w.stream, &args), RVIT_UNSUPPORTED, "bipartite_match: it binds more arrays");
    rvit_layernorm_args norm = RVIT_LAYERNORM_ARGS_INIT;
    norm.out_dtype = RVIT_I8;
    norm.rows.capacity = W_ROWS;
    norm.dim = W_DIM;
    norm.eps = 1e-6f;
    norm.x = norm.gamma = args.k;
    norm.out = args.metric;
    norm.out_scales = args.src_rows;
    expect_status(rvit_layernorm(w.stream, &norm), RVIT_UNSUPPORTED, "layernorm: it binds more arrays");
    rvit_grid_relayout_args relayout = RVIT_GRID_RELAYOUT_ARGS_INIT;
    relayout.n_images = 3;
    relayout.max_len = relayout.rows = W_ROWS;
    relayout.group_size = 2;
    relayout.cu_seqlens = args.cu_seqlens;
    relayout.out_cu_seqlens = args.cu_seqlens;
    relayout.src_rows = args.k;
    relayout.keep = args.k;
    relayout.group_cu_seqlens.buffer = w.out;
    expect_status(rvit_grid_relayout(w.stream, &relayout), RVIT_UNSUPPORTED, "grid_relayout: it binds more arrays");
    workload_close(&w);
    rvit_device_destroy(device);
}

/* Two drivers, where one reports an integrated GPU or a CPU: the discrete GPU is chosen, in any order. */
static void best_of_two(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        rvit_device_kind kind; /* of the chosen device */
    } cases[] = {{"kinds:2,1", RVIT_DEVICE_KIND_DISCRETE},   {"kinds:1,2", RVIT_DEVICE_KIND_DISCRETE},
                 {"kinds:4,3", RVIT_DEVICE_KIND_VIRTUAL},    {"kinds:3,4", RVIT_DEVICE_KIND_VIRTUAL},
                 {"kinds:0,1", RVIT_DEVICE_KIND_INTEGRATED}, {"kinds:1,0", RVIT_DEVICE_KIND_INTEGRATED},
                 {"kinds:1,1", RVIT_DEVICE_KIND_INTEGRATED}, {"kinds:4,4", RVIT_DEVICE_KIND_CPU}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_layer(cases[i].words);
        rvit_device_info infos[8];
        int32_t n = 0, wanted = -1, n_vulkan = 0;
        for (int k = 0; k < 8; k++)
            infos[k] = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
        expect_ok(rvit_device_list(infos, 8, &n));
        for (int32_t k = 0; k < n; k++) {
            n_vulkan += infos[k].backend == RVIT_BACKEND_VULKAN;
            if (infos[k].backend == RVIT_BACKEND_VULKAN && wanted < 0 && infos[k].kind == cases[i].kind)
                wanted = infos[k].index;
        }
        if (n_vulkan != 2)
            skip(); /* the test vulkan_two_drivers provides the driver twice */
        rvit_device_desc desc = auto_desc();
        desc.skip_self_test = 1;
        rvit_device *device = NULL;
        expect_ok(rvit_device_create(&desc, &device));
        assert_int_equal(info_of(device).index, wanted);
        assert_int_equal(info_of(device).kind, cases[i].kind);
        rvit_device_destroy(device);
    }
}

static void pci_address_and_free_memory(void **state)
{
    (void)state;
    set_layer("pci_and_memory");
    rvit_device_desc desc = auto_desc();
    rvit_device *device = NULL;
    expect_ok(rvit_device_create(&desc, &device));
    const rvit_device_info info = info_of(device);
    assert_string_equal(info.pci_address, "10000:0a:1f.7");
    assert_int_equal(info.memory_free, info.memory_size / 4);
    rvit_device_destroy(device);
}

/* A device that offers the extension must be created with it. */
static void portable_device(void **state)
{
    (void)state;
    set_layer("portable");
    rvit_device_desc desc = auto_desc();
    rvit_device *device = NULL;
    expect_ok(rvit_device_create(&desc, &device));
    rvit_device_destroy(device);
}

static void missing_function(void **state)
{
    (void)state;
    set_layer("no_function");
    rvit_device_desc desc = auto_desc();
    rvit_device *device = NULL;
    expect_status(rvit_device_create(&desc, &device), RVIT_UNAVAILABLE, "has no vkCmdDispatchIndirect");
    set_layer("");
    expect_ok(rvit_device_create(&desc, &device));
    rvit_device_destroy(device);
}

/* Out-of-memory errors contain the size and the device's memory. */
static void no_memory(void **state)
{
    (void)state;
    rvit_device_desc desc = auto_desc();
    desc.skip_self_test = 1;
    rvit_device *device = NULL;
    rvit_buffer *buffer = NULL;
    char has[64];
    set_layer("pci_and_memory");
    expect_ok(rvit_device_create(&desc, &device));
    set_layer("pci_and_memory no_memory");
    const rvit_device_info info = info_of(device);
    snprintf(has, sizeof has, "(%lld bytes in total, %lld free)", (long long)info.memory_size, (long long)info.memory_free);
    expect_status(rvit_buffer_create(device, 8 << 20, RVIT_BUFFER_DEVICE, &buffer), RVIT_OUT_OF_DEVICE_MEMORY,
                  "cannot allocate 8388608 bytes on");
    assert_non_null(strstr(rvit_status_detail(), has));
    rvit_device_destroy(device);
}

#define LAYERED(function) TEST_OF(function, no_layer, no_layer)
SUITE(drivers_suite, LAYERED(best_of_two), LAYERED(pci_address_and_free_memory), LAYERED(portable_device), LAYERED(missing_function),
      LAYERED(no_memory), LAYERED(wrong_tier), LAYERED(wrong_driver), LAYERED(lost_in_self_test), LAYERED(lost), LAYERED(lazy_pipelines),
      LAYERED(no_pipelines), LAYERED(split_submits), LAYERED(few_bindings));

int main(int argc, char **argv)
{
    const suite *const suites[] = {&drivers_suite, &cache_suite, &loops_suite, &arrange_suite, &arrange_failure_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof suites[0]);
}
