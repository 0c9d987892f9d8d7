/* Listing, choosing and creating devices. */
#include "api.h"

#include <dirent.h>
#include <fenv.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <raggedvit/vulkan.h>

#include "core/contract/backend.h"

static void listing(void **state)
{
    (void)state;
    enum { CAPACITY = 32 };
    const rvit_device_info init = RVIT_DEVICE_INFO_INIT;
    rvit_device_info infos[CAPACITY];
    int32_t n = -1, found_cpu = 0, found_tested = 0;
    for (int i = 0; i < CAPACITY; i++)
        infos[i] = init;
    expect_ok(rvit_device_list(infos, CAPACITY, &n));
    assert_in_range(n, 1, CAPACITY);
    for (int32_t i = 0; i < n; i++) {
        assert_non_null(memchr(infos[i].name, 0, sizeof infos[i].name));
        assert_non_null(memchr(infos[i].note, 0, sizeof infos[i].note));
        if (infos[i].index < 0) {
            /* A backend that cannot be used says why. */
            assert_int_not_equal(infos[i].note[0], 0);
            continue;
        }
        assert_int_not_equal(infos[i].name[0], 0);
        assert_int_not_equal(infos[i].tier, RVIT_TIER_AUTO);
        found_cpu += infos[i].backend == RVIT_BACKEND_CPU;
        found_tested += infos[i].backend == H.info.backend && infos[i].index == H.info.index && !strcmp(infos[i].name, H.info.name);
    }
    assert_int_equal(found_cpu, 1);
    assert_int_equal(found_tested, 1);
    /* A shorter array is filled as far as it goes, and the count is the whole. */
    int32_t again = -1;
    expect_ok(rvit_device_list(NULL, 0, &again));
    assert_int_equal(again, n);
    expect_status(rvit_device_list(NULL, 1, &again), RVIT_INVALID_ARGUMENT, "infos");
    expect_status(rvit_device_list(infos, -1, &again), RVIT_INVALID_ARGUMENT, "capacity");
    expect_status(rvit_device_list(infos, CAPACITY, NULL), RVIT_INVALID_ARGUMENT, "out_n_infos");
    infos[0].struct_size = 0;
    expect_status(rvit_device_list(infos, CAPACITY, &again), RVIT_INVALID_ARGUMENT, "struct_size");
}

/* An array of another version's structs: filled each in its place, no further than it goes. */
static void listing_for_another_version(void **state)
{
    (void)state;
    enum { CAPACITY = 32, MOST = sizeof(rvit_device_info) + 64 };
    static const size_t sizes[] = {offsetof(rvit_device_info, driver), sizeof(rvit_device_info), MOST};
    rvit_device_info wanted[CAPACITY];
    int32_t n = 0;
    for (int i = 0; i < CAPACITY; i++)
        wanted[i] = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_list(wanted, CAPACITY, &n));
    assert_in_range(n, 1, CAPACITY);
    enum { FREE = offsetof(rvit_device_info, memory_free) }; /* changes from call to call */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t size = sizes[s], known = size < sizeof *wanted ? size : sizeof *wanted;
        uint8_t *infos = scratch(CAPACITY * MOST);
        memset(infos, SENTINEL, CAPACITY * MOST);
        for (int32_t i = 0; i < n; i++)
            memcpy(infos + (size_t)i * size, &size, sizeof size);
        expect_ok(rvit_device_list((rvit_device_info *)(void *)infos, n, &n));
        for (int32_t i = 0; i < n; i++) {
            const uint8_t *info = infos + (size_t)i * size;
            memcpy(&wanted[i], &size, sizeof size);
            if (known > FREE)
                memcpy(&wanted[i].memory_free, info + FREE, sizeof wanted[i].memory_free);
            assert_memory_equal(info, &wanted[i], known);
            for (size_t byte = known; byte < size; byte++)
                assert_int_equal(info[byte], SENTINEL);
        }
        for (size_t byte = (size_t)n * size; byte < CAPACITY * MOST; byte++)
            assert_int_equal(infos[byte], SENTINEL);
    }
}

static void descs(void **state)
{
    (void)state;
    rvit_device *const untouched = (rvit_device *)(uintptr_t)0x10;
    rvit_device *device = untouched;
    const rvit_device_desc good = RVIT_DEVICE_DESC_INIT;
#define BAD(status, word, ...)                                        \
    do {                                                              \
        rvit_device_desc d = good;                                    \
        d.backend = H.desc.backend;                                   \
        __VA_ARGS__;                                                  \
        expect_status(rvit_device_create(&d, &device), status, word); \
        assert_ptr_equal(device, untouched);                          \
    } while (0)
    BAD(RVIT_INVALID_ARGUMENT, "struct_size", d.struct_size = 0);
    BAD(RVIT_INVALID_ARGUMENT, "index", d.index = -2);
    BAD(RVIT_UNAVAILABLE, "1000", d.index = 1000);
    BAD(RVIT_INVALID_ARGUMENT, "index", d.index = 0; d.backend = RVIT_BACKEND_AUTO);
    BAD(RVIT_INVALID_ARGUMENT, "tier: 9 is not a valid tier", d.tier = (rvit_tier)9);
    BAD(RVIT_INVALID_ARGUMENT, "n_threads", d.n_threads = -1);
    BAD(RVIT_INVALID_ARGUMENT, "vector_bits", d.vector_bits = 128);
    BAD(RVIT_INVALID_ARGUMENT, "oracle", d.backend = RVIT_BACKEND_AUTO; d.oracle = 1);
    BAD(RVIT_INVALID_ARGUMENT, "kernels", d.backend = RVIT_BACKEND_CPU; d.kernels = "sse");
    BAD(RVIT_UNSUPPORTED, "tier", d.backend = RVIT_BACKEND_CPU; d.tier = RVIT_TIER_MATRIX);
    const rvit_allocator half = {NULL, NULL, NULL};
    BAD(RVIT_INVALID_ARGUMENT, "allocator", d.allocator = &half);
#undef BAD
    rvit_device_desc unknown = good;
    unknown.backend = (rvit_backend)44;
    expect_status(rvit_device_create(&unknown, &device), RVIT_UNAVAILABLE, "backend: 44 is not a valid backend");
    assert_ptr_equal(device, untouched);
    expect_status(rvit_device_create(&good, NULL), RVIT_INVALID_ARGUMENT, "out_device");
    expect_ok(rvit_device_create(&H.desc, &device));
    rvit_device_destroy(device);
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    expect_status(rvit_device_get_info(NULL, &info), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_device_get_info(H.device[DEVICE], NULL), RVIT_INVALID_ARGUMENT, NULL);
}

/* A Vulkan device of the caller's, in a build without Vulkan or on a machine without the loader. The handles are not looked into. */
static void imported_without_vulkan(void)
{
    rvit_device *device = NULL;
    rvit_vulkan_device_desc desc = RVIT_VULKAN_DEVICE_DESC_INIT;
    desc.instance = desc.physical_device = desc.device = desc.queue = &desc;
    expect_status(rvit_vulkan_device_create(&desc, NULL, &device), RVIT_UNAVAILABLE, NULL);
    assert_int_not_equal(rvit_status_detail()[0], 0);
    assert_null(device);
}

/* A backend that is not in this build, or without a driver, is UNAVAILABLE with that reason. */
static void absent_backends(void **state)
{
    (void)state;
    static const rvit_backend backends[] = {RVIT_BACKEND_CUDA, RVIT_BACKEND_VULKAN};
    for (int i = 0; i < 2; i++) {
        rvit_device *device = NULL;
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = backends[i];
        const rvit_status status = rvit_device_create(&desc, &device);
        if (status != RVIT_OK || backends[i] == H.absent) {
            assert_int_equal(status, RVIT_UNAVAILABLE);
            assert_int_not_equal(rvit_status_detail()[0], 0);
            assert_null(device);
            if (backends[i] == RVIT_BACKEND_VULKAN && (strstr(rvit_status_detail(), "build") || strstr(rvit_status_detail(), "libvulkan")))
                imported_without_vulkan();
        }
        rvit_device_destroy(device);
    }
    /* A backend that is built in is still listed, with the reason. */
    rvit_device_info infos[8];
    int32_t n = 0;
    for (int i = 0; i < 8; i++)
        infos[i] = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_list(infos, 8, &n));
    for (int32_t i = 0; i < n; i++)
        if (infos[i].backend == H.absent) {
            assert_int_equal(infos[i].index, -1);
            assert_int_not_equal(infos[i].note[0], 0);
        }
}

/* The choice without a name is never a software device. */
static void automatic_choice(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_create(NULL, &device));
    expect_ok(rvit_device_get_info(device, &info));
    assert_int_equal(info.is_software, 0);
    rvit_device_destroy(device);
}

/* Two devices of one backend live side by side, and each tier that the device names can be asked for. */
static void two_devices(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    const int lowest = H.info.backend == RVIT_BACKEND_CUDA ? RVIT_TIER_MATRIX : RVIT_TIER_SCALAR;
    for (int tier = lowest; tier <= (int)H.info.tier; tier++) {
        rvit_device_desc desc = H.desc;
        desc.tier = (rvit_tier)tier;
        expect_ok(rvit_device_create(&desc, &device));
        rvit_device_info info = RVIT_DEVICE_INFO_INIT;
        expect_ok(rvit_device_get_info(device, &info));
        assert_string_equal(info.name, H.info.name);
        expect_ok(rvit_stream_create(device, &stream));
        expect_ok(rvit_buffer_create(device, 64, RVIT_BUFFER_DEVICE, &buffer));
        /* The device goes first: its children keep it. */
        rvit_device_destroy(device);
        uint32_t sent[16], received[16];
        for (int i = 0; i < 16; i++)
            sent[i] = random_bits();
        const rvit_view view = {buffer, 0};
        expect_ok(rvit_stream_write(stream, view, sent, 64));
        expect_ok(rvit_stream_read(stream, view, received, 64));
        assert_memory_equal(sent, received, 64);
        rvit_stream_destroy(stream);
        rvit_buffer_destroy(buffer);
    }
}

/* The number of threads and the oracle change nothing in what is exact. */
static void cpu_threads(void **state)
{
    (void)state;
    static const int32_t counts[] = {1, 2, 3, 16};
    enum { IMAGES = 40, LENGTH = 12, ROWS = IMAGES * LENGTH, DIM = 64, KEEP = 2048, CU = 2560, SRC_ROWS = 2816, SIZE = 4864 };
    uint8_t first[SIZE];
    for (int i = 0; i < 5; i++) {
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = RVIT_BACKEND_CPU;
        desc.n_threads = i < 4 ? counts[i] : 0;
        desc.oracle = i == 4;
        rvit_device *device = NULL;
        rvit_stream *stream = NULL;
        rvit_buffer *x = NULL, *cu = NULL, *results = NULL;
        expect_ok(rvit_device_create(&desc, &device));
        expect_ok(rvit_stream_create(device, &stream));
        expect_ok(rvit_buffer_create(device, ROWS * DIM * 4, RVIT_BUFFER_UPLOAD, &x));
        expect_ok(rvit_buffer_create(device, (IMAGES + 1) * 4, RVIT_BUFFER_UPLOAD, &cu));
        expect_ok(rvit_buffer_create(device, SIZE, RVIT_BUFFER_READBACK, &results));
        random_seed(9);
        store_normal(RVIT_F32, rvit_buffer_host(x), 0, ROWS * DIM, 1);
        for (int32_t image = 0; image <= IMAGES; image++)
            ((int32_t *)rvit_buffer_host(cu))[image] = image * LENGTH;
        memset(rvit_buffer_host(results), SENTINEL, SIZE);
        rvit_select_args args = RVIT_SELECT_ARGS_INIT;
        args.mode = RVIT_SELECT_SAMPLE;
        args.score = RVIT_SCORE_L2;
        args.n_images = IMAGES;
        args.max_len = LENGTH;
        args.rows = ROWS;
        args.n_samples = 6;
        args.dim = DIM;
        args.x.buffer = x;
        args.cu_seqlens.buffer = cu;
        args.scores.buffer = args.keep.buffer = args.out_cu_seqlens.buffer = args.src_rows.buffer = results;
        args.keep.offset = KEEP;
        args.out_cu_seqlens.offset = CU;
        args.src_rows.offset = SRC_ROWS;
        expect_ok(rvit_select(stream, &args));
        expect_ok(rvit_stream_synchronize(stream));
        if (i == 0)
            memcpy(first, rvit_buffer_host(results), SIZE);
        assert_memory_equal(first, rvit_buffer_host(results), SIZE);
        rvit_stream_destroy(stream);
        rvit_buffer_destroy(x);
        rvit_buffer_destroy(cu);
        rvit_buffer_destroy(results);
        rvit_device_destroy(device);
    }
}

/* How the calling thread rounds and treats subnormals shows in no result, and stays as it is. */
static void cpu_float_mode(void **state)
{
    (void)state;
    enum { ROWS = 2000, DIM = 64, SIZE = ROWS * DIM * 4, SCORES = ROWS * 4 };
    uint8_t first[SIZE + SCORES];
    for (int i = 0; i < 4; i++) {
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = RVIT_BACKEND_CPU;
        desc.n_threads = 2;
        rvit_device *device = NULL;
        rvit_stream *stream = NULL;
        rvit_buffer *x = NULL, *out = NULL, *rest = NULL;
        const int before = fegetround();
        if (i == 3)
            fesetround(FE_UPWARD); /* the device's threads begin with it */
        expect_ok(rvit_device_create(&desc, &device));
        fesetround(before);
        expect_ok(rvit_stream_create(device, &stream));
        expect_ok(rvit_buffer_create(device, SIZE, RVIT_BUFFER_UPLOAD, &x));
        expect_ok(rvit_buffer_create(device, SIZE + SCORES, RVIT_BUFFER_READBACK, &out));
        expect_ok(rvit_buffer_create(device, 64 + 8 * ROWS, RVIT_BUFFER_UPLOAD, &rest));
        random_seed(10);
        store_normal(RVIT_F32, rvit_buffer_host(x), 0, ROWS * DIM, 1e-19f); /* x * x is subnormal */
        ((int32_t *)rvit_buffer_host(rest))[1] = ROWS;
        rvit_linear_args linear = RVIT_LINEAR_ARGS_INIT;
        linear.rows.capacity = ROWS;
        linear.in_features = linear.out_features = DIM;
        linear.x.buffer = linear.weight.buffer = x;
        linear.out.buffer = out;
        rvit_select_args select = RVIT_SELECT_ARGS_INIT;
        select.mode = RVIT_SELECT_THRESHOLD;
        select.score = RVIT_SCORE_L2;
        select.n_images = 1;
        select.max_len = ROWS;
        select.rows = ROWS;
        select.dim = DIM;
        select.x.buffer = x;
        select.scores = (rvit_view){out, SIZE};
        select.cu_seqlens.buffer = select.out_cu_seqlens.buffer = select.keep.buffer = select.src_rows.buffer = rest;
        select.out_cu_seqlens.offset = 16;
        select.src_rows.offset = 32;
        select.keep.offset = 32 + 4 * ROWS;
        if (i == 1)
            fesetround(FE_UPWARD);
#if defined(__SSE__)
        const unsigned register_before = __builtin_ia32_stmxcsr();
        if (i == 2)
            __builtin_ia32_ldmxcsr(register_before | 0x8040u); /* subnormals are zero, in and out */
#endif
        const rvit_status status[2] = {rvit_linear(stream, &linear), rvit_select(stream, &select)};
        const int rounding = fegetround();
#if defined(__SSE__)
        const unsigned flushing = __builtin_ia32_stmxcsr() & 0x8040u;
        __builtin_ia32_ldmxcsr(register_before);
        assert_int_equal(flushing, i == 2 ? 0x8040 : 0);
#endif
        fesetround(before);
        assert_int_equal(rounding, i == 1 ? FE_UPWARD : before);
        expect_ok(status[0]);
        expect_ok(status[1]);
        if (i == 0)
            memcpy(first, rvit_buffer_host(out), sizeof first);
        assert_memory_equal(first, rvit_buffer_host(out), sizeof first);
        rvit_stream_destroy(stream);
        rvit_buffer_destroy(x);
        rvit_buffer_destroy(out);
        rvit_buffer_destroy(rest);
        rvit_device_destroy(device);
    }
}

/* Runs an op that is worth several threads. */
static rvit_status fill(rvit_stream *stream, rvit_buffer *buffer, float value)
{
    rvit_unpack_args args = RVIT_UNPACK_ARGS_INIT;
    args.destination_rows.capacity = 4096;
    args.dim = 64;
    args.fill = value;
    args.source.buffer = args.src_rows.buffer = args.destination.buffer = buffer;
    args.destination.offset = 64;
    return rvit_unpack(stream, &args);
}

/* The threads of a CPU device are not there in the child of a fork, which uses and ends it without them. */
static void cpu_after_a_fork(void **state)
{
    (void)state;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    for (desc.n_threads = 2; desc.n_threads <= 64; desc.n_threads += 31) {
        rvit_device *device = NULL;
        rvit_stream *stream = NULL;
        rvit_buffer *buffer = NULL;
        expect_ok(rvit_device_create(&desc, &device));
        expect_ok(rvit_stream_create(device, &stream));
        expect_ok(rvit_buffer_create(device, 64 + 4096 * 64 * 4, RVIT_BUFFER_UPLOAD, &buffer));
        const float *last = (const float *)rvit_buffer_host(buffer) + 16 + 4096 * 64 - 1;
        expect_ok(fill(stream, buffer, 1.0f));
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            const int done = fill(stream, buffer, 2.0f) == RVIT_OK && *last == 2.0f;
            rvit_buffer_destroy(buffer);
            rvit_stream_destroy(stream);
            rvit_device_destroy(device);
            _exit(done ? 0 : 1);
        }
        int how = 0;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
        expect_ok(fill(stream, buffer, 3.0f));
        assert_true(*last == 3.0f);
        rvit_buffer_destroy(buffer);
        rvit_stream_destroy(stream);
        rvit_device_destroy(device);
    }
}

/* The threads of this process by number, at most MOST_THREADS. Returns how many. */
enum { MOST_THREADS = 256 };
static int list_threads(int *threads)
{
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL && n < MOST_THREADS;)
        if (entry->d_name[0] != '.')
            threads[n++] = atoi(entry->d_name);
    closedir(folder);
    return n;
}

/* The signals that a thread does not handle, one a bit; all if it has ended. */
static unsigned long long blocked_signals(int thread)
{
    char path[64], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return ~0ull;
    while (fgets(line, sizeof line, file) != NULL)
        (void)sscanf(line, "SigBlk: %llx", &blocked);
    fclose(file);
    return blocked;
}

/* Threads that the backend and its driver start leave the application's signals to its own threads. */
static void signals_stay_with_the_application(void **state)
{
    (void)state;
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGUSR2, SIGPROF};
    int before[MOST_THREADS], after[MOST_THREADS], n_new = 0;
    rvit_device_desc desc = H.desc;
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    sigset_t mask, later;
    desc.n_threads = 3;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    const int n_before = list_threads(before);
    expect_ok(rvit_device_create(&desc, &device));
    expect_ok(rvit_stream_create(device, &stream));
    expect_ok(rvit_buffer_create(device, 64 + 4096 * 64 * 4, RVIT_BUFFER_UPLOAD, &buffer));
    expect_ok(fill(stream, buffer, 1.0f));
    expect_ok(rvit_stream_synchronize(stream));
    const int n_after = list_threads(after);
    for (int i = 0; i < n_after; i++) {
        int is_new = 1;
        for (int k = 0; k < n_before; k++)
            is_new &= before[k] != after[i];
        if (!is_new)
            continue;
        n_new++;
        unsigned long long blocked = blocked_signals(after[i]);
        /* Until a thread has begun, the C library blocks everything. */
        for (int tries = 0; H.info.backend == RVIT_BACKEND_CPU && tries < 2000 && (blocked >> (SIGSEGV - 1) & 1); tries++) {
            (void)usleep(1000);
            blocked = blocked_signals(after[i]);
        }
        for (size_t s = 0; s < sizeof signals / sizeof *signals; s++)
            assert_true(blocked >> (signals[s] - 1) & 1);
        if (H.info.backend == RVIT_BACKEND_CPU) /* a handler for faults still sees those of the library's own threads */
            assert_false(blocked >> (SIGSEGV - 1) & 1);
    }
    if (H.info.backend == RVIT_BACKEND_CPU)
        assert_int_equal(n_new, desc.n_threads - 1);
    pthread_sigmask(SIG_SETMASK, NULL, &later);
    for (int s = 1; s < 32; s++)
        assert_int_equal(sigismember(&later, s), sigismember(&mask, s));
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
    rvit_device_destroy(device);
}

/* Which of two devices is taken: the kind decides, then the memory, then the order. */
static void ranks(void **state)
{
    (void)state;
    static const struct {
        rvit_device_kind kind;
        int64_t memory_size;
    } best_first[] = {{RVIT_DEVICE_KIND_DISCRETE, 8}, {RVIT_DEVICE_KIND_DISCRETE, 4}, {RVIT_DEVICE_KIND_INTEGRATED, 64},
                      {RVIT_DEVICE_KIND_VIRTUAL, 64}, {RVIT_DEVICE_KIND_VIRTUAL, 0},  {RVIT_DEVICE_KIND_OTHER, 16},
                      {RVIT_DEVICE_KIND_UNKNOWN, 8},  {RVIT_DEVICE_KIND_CPU, 512}};
    enum { N = sizeof best_first / sizeof *best_first };
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            rvit_device_info infos[2] = {RVIT_DEVICE_INFO_INIT, RVIT_DEVICE_INFO_INIT};
            infos[0].kind = best_first[a].kind, infos[0].memory_size = best_first[a].memory_size;
            infos[1].kind = best_first[b].kind, infos[1].memory_size = best_first[b].memory_size;
            assert_int_equal(rvit_device_outranks(&infos[0], &infos[1]), a < b);
        }
}

/* What a list and a device say of the machine's parts. */
static void identity(void **state)
{
    (void)state;
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_get_info(H.device[DEVICE], &info));
    assert_int_not_equal(info.kind, RVIT_DEVICE_KIND_UNKNOWN);
    if (info.is_software || info.backend == RVIT_BACKEND_CPU)
        assert_int_equal(info.kind, RVIT_DEVICE_KIND_CPU);
    assert_true(info.memory_free >= 0 && (info.memory_size == 0 || info.memory_free <= info.memory_size));
    if (info.backend != RVIT_BACKEND_VULKAN)
        assert_true(info.memory_free > 0);
    unsigned domain, bus, place, function;
    char again[40] = "";
    if (sscanf(info.pci_address, "%x:%x:%x.%x", &domain, &bus, &place, &function) == 4)
        snprintf(again, sizeof again, "%04x:%02x:%02x.%x", domain, bus, place, function);
    assert_string_equal(info.pci_address, again);
    if (info.backend == RVIT_BACKEND_CUDA) {
        assert_string_not_equal(info.pci_address, "");
        rvit_buffer *buffer = NULL;
        expect_ok(rvit_buffer_create(H.device[DEVICE], 64 << 20, RVIT_BUFFER_DEVICE, &buffer));
        rvit_device_info later = RVIT_DEVICE_INFO_INIT;
        expect_ok(rvit_device_get_info(H.device[DEVICE], &later));
        assert_true(later.memory_free < info.memory_free);
        rvit_buffer_destroy(buffer);
    }
}

SUITE(device_suite, TEST(signals_stay_with_the_application), TEST(ranks), TEST(identity), TEST(listing), TEST(listing_for_another_version),
      TEST(descs), TEST(absent_backends), TEST(automatic_choice), TEST(two_devices), TEST(cpu_threads), TEST(cpu_float_mode),
      TEST(cpu_after_a_fork));
