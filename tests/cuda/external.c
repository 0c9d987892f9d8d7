/* Tests memory and semaphores that are imported from other APIs. */
#define _GNU_SOURCE
#include "cuda_tests.h"

#include <sys/mman.h>
#include <unistd.h>

#include "failing_allocator.h"
#include "interop.h"

enum { SIZE = 3 * 4096, N = 512 };

static int is_emulated(void)
{
    return strstr(H.info.name, "emulation") != NULL;
}

static rvit_status import_file(rvit_device *device, int fd, int64_t memory_size, int64_t offset, int64_t size, rvit_buffer **out_buffer)
{
    rvit_external_memory memory = RVIT_EXTERNAL_MEMORY_INIT;
    memory.handle_type = RVIT_HANDLE_OPAQUE_FD;
    memory.handle = fd;
    memory.size = memory_size;
    memory.offset = offset;
    return import_memory(device, &memory, size, out_buffer);
}

static int file_in_memory(void)
{
    const int fd = memfd_create("rvit_test", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    return fd;
}

/* The emulated driver imports memfd files as device memory and semaphores, which tests the calls and their order. A real driver refuses
   such files. */
static void from_files(void **state)
{
    (void)state;
    const int fds[3] = {file_in_memory(), file_in_memory(), file_in_memory()};
    rvit_buffer *imported = NULL, *own = NULL;
    rvit_semaphore *semaphores[2] = {NULL, NULL};
    rvit_stream *other = NULL;
    if (!is_emulated()) {
        expect_status(import_file(H.device[DEVICE], fds[0], SIZE, 0, SIZE, &imported), RVIT_INVALID_ARGUMENT, "fd");
        for (int timeline = 0; timeline < 2; timeline++)
            expect_status(import_semaphore(H.device[DEVICE], fds[1], timeline, &semaphores[0]), RVIT_INVALID_ARGUMENT, "fd");
        for (int i = 0; i < 3; i++)
            assert_int_equal(close(fds[i]), 0); /* still owned by the caller */
        return;
    }
    char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    const uint64_t *value = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[1], 0);
    assert_true(mapped != MAP_FAILED && value != MAP_FAILED);
    expect_ok(import_file(H.device[DEVICE], fds[0], SIZE, 4096 + 256, N * 4, &imported));
    assert_int_equal(rvit_buffer_size(imported), N * 4);
    assert_null(rvit_buffer_host(imported));
    for (int timeline = 0; timeline < 2; timeline++)
        expect_ok(import_semaphore(H.device[DEVICE], fds[2 - timeline], timeline, &semaphores[timeline]));
    expect_ok(rvit_buffer_create(H.device[DEVICE], N * 4, RVIT_BUFFER_DEVICE, &own));
    expect_ok(rvit_stream_create(H.device[DEVICE], &other));
    int32_t words[N], got[N];
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < N; i++)
            words[i] = round * 1000 + i;
        expect_ok(rvit_stream_write(H.stream[DEVICE], (rvit_view){imported, 0}, words, sizeof words));
        expect_ok(rvit_stream_signal(H.stream[DEVICE], semaphores[1], (uint64_t)round));
        expect_ok(rvit_stream_signal(H.stream[DEVICE], semaphores[0], 0));
        expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
        assert_true(*value == (uint64_t)round);
        assert_memory_equal(mapped + 4096 + 256, words, sizeof words);
        expect_ok(rvit_stream_wait(other, semaphores[1], (uint64_t)round));
        expect_ok(rvit_stream_wait(other, semaphores[0], 0));
        expect_ok(rvit_stream_read(other, (rvit_view){imported, 0}, got, sizeof got));
        assert_memory_equal(words, got, sizeof words);
    }
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_stream_get_stats(other, &stats));
    assert_true(stats.device_size >= N * 4 && stats.device_size < 2 * N * 4 + SIZE); /* imported memory does not count as allocated */
    rvit_stream_destroy(other);
    rvit_buffer_destroy(own);
    rvit_buffer_destroy(imported);
    for (int i = 0; i < 2; i++)
        rvit_semaphore_destroy(semaphores[i]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(close(fds[i]), -1); /* the driver closed them */
    munmap(mapped, SIZE);
    munmap((void *)(uintptr_t)value, 4096);
}

static void misuse(void **state)
{
    (void)state;
    rvit_device *cpu = NULL;
    rvit_stream *cpu_stream = NULL;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    expect_ok(rvit_device_create(&desc, &cpu));
    expect_ok(rvit_stream_create(cpu, &cpu_stream));
    rvit_device *device = H.device[DEVICE];
    rvit_buffer *buffer = NULL;
    rvit_semaphore *semaphore = NULL;
    expect_status(import_file(NULL, 0, SIZE, 0, SIZE, &buffer), RVIT_INVALID_ARGUMENT, "device");
    expect_status(import_file(cpu, 0, SIZE, 0, SIZE, &buffer), RVIT_UNSUPPORTED, "EXTERNAL");
    expect_status(import_file(device, 0, SIZE, 0, SIZE, NULL), RVIT_INVALID_ARGUMENT, "out_buffer");
    expect_status(import_file(device, -1, SIZE, 0, SIZE, &buffer), RVIT_INVALID_ARGUMENT, "fd");
    expect_status(import_file(device, 12345, SIZE, 0, SIZE, &buffer), RVIT_INVALID_ARGUMENT, "fd");
    expect_status(import_file(device, 0, SIZE, 16, 64, &buffer), RVIT_INVALID_ARGUMENT, "offset");
    expect_status(import_file(device, 0, SIZE, 256, SIZE, &buffer), RVIT_INVALID_ARGUMENT, "size");
    expect_status(import_file(device, 0, SIZE, 0, 0, &buffer), RVIT_INVALID_ARGUMENT, "size");
    expect_status(import_file(device, 0, -1, 0, 1, &buffer), RVIT_INVALID_ARGUMENT, "size");
    expect_status(import_semaphore(cpu, 0, 0, &semaphore), RVIT_UNSUPPORTED, "semaphores");
    expect_status(import_semaphore(device, -1, 0, &semaphore), RVIT_INVALID_ARGUMENT, "fd");
    expect_status(import_semaphore(device, 0, 2, &semaphore), RVIT_INVALID_ARGUMENT, "timeline");
    expect_status(create_semaphore(device, 1, 0, &semaphore), RVIT_UNSUPPORTED, "import");
    expect_status(create_semaphore(device, 1, 1, &semaphore), RVIT_UNSUPPORTED, "import");
    expect_status(rvit_buffer_create(device, SIZE, RVIT_BUFFER_SHARED, &buffer), RVIT_UNSUPPORTED, "Vulkan");
    expect_status(import_semaphore(device, 0, 0, NULL), RVIT_INVALID_ARGUMENT, "out_semaphore");
    expect_status(rvit_stream_wait(NULL, NULL, 0), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_stream_signal(H.stream[DEVICE], NULL, 0), RVIT_INVALID_ARGUMENT, "NULL");
    assert_null(buffer);
    assert_null(semaphore);
    rvit_semaphore_destroy(NULL);
    rvit_stream_destroy(cpu_stream);
    rvit_device_destroy(cpu);
}

/* The Vulkan device of the CUDA device under test, or NULL. */
static rvit_device *same_on_vulkan(void)
{
    static rvit_device_info infos[32];
    int32_t n = 0;
    for (int i = 0; i < 32; i++)
        infos[i] = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_list(infos, 32, &n));
    rvit_device *device = NULL;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_VULKAN;
    for (int32_t i = 0; i < n && i < 32 && device == NULL; i++)
        if (infos[i].backend == RVIT_BACKEND_VULKAN && infos[i].index >= 0 && memcmp(infos[i].uuid, H.info.uuid, sizeof H.info.uuid) == 0) {
            desc.index = infos[i].index;
            expect_ok(rvit_device_create(&desc, &device));
        }
    return device;
}

enum { ROWS = 64, DIM = 64, FIRST = 0, SECOND = ROWS * DIM * 4, SHARED = 2 * ROWS * DIM * 4 };

static rvit_linear_args linear(rvit_view x, rvit_view weight, rvit_view out)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.rows.capacity = ROWS;
    args.in_features = args.out_features = DIM;
    args.x = x;
    args.weight = weight;
    args.out = out;
    return args;
}

/* A buffer shared by both APIs and synchronised by both kinds of semaphores, without host waits: Vulkan doubles the rows, CUDA doubles them
   again, and Vulkan copies them. */
static void alternates_with_vulkan(void **state)
{
    (void)state;
    rvit_device *vulkan = same_on_vulkan(), *cuda = H.device[DEVICE];
    if (vulkan == NULL)
        skip();
    rvit_stream *stream = NULL;
    rvit_buffer *in = NULL, *out = NULL, *weight[2] = {NULL, NULL}, *exported = NULL, *imported = NULL;
    expect_ok(rvit_stream_create(vulkan, &stream));
    expect_ok(rvit_buffer_create(vulkan, SECOND, RVIT_BUFFER_UPLOAD, &in));
    expect_ok(rvit_buffer_create(vulkan, SECOND, RVIT_BUFFER_READBACK, &out));
    static float twice[DIM * DIM];
    for (int i = 0; i < DIM; i++)
        twice[i * DIM + i] = 2;
    for (int i = 0; i < 2; i++) {
        expect_ok(rvit_buffer_create(i == 0 ? vulkan : cuda, sizeof twice, RVIT_BUFFER_DEVICE, &weight[i]));
        expect_ok(rvit_stream_write(i == 0 ? stream : H.stream[DEVICE], (rvit_view){weight[i], 0}, twice, sizeof twice));
    }
    rvit_external_memory memory = RVIT_EXTERNAL_MEMORY_INIT;
    expect_ok(rvit_buffer_create(vulkan, SHARED, RVIT_BUFFER_SHARED, &exported));
    expect_ok(rvit_buffer_export(exported, &memory));
    expect_ok(import_memory(cuda, &memory, SHARED, &imported));
    for (int timeline = 0; timeline < 2; timeline++) {
        rvit_semaphore *theirs[2];
        rvit_semaphore *ours[2];
        for (int i = 0; i < 2; i++) {
            rvit_handle_type type;
            intptr_t fd = -1;
            expect_ok(create_semaphore(vulkan, timeline, 1, &theirs[i]));
            expect_ok(rvit_semaphore_export(theirs[i], &type, &fd));
            expect_ok(import_semaphore(cuda, fd, timeline, &ours[i]));
        }
        for (uint64_t round = 1; round <= 200; round++) {
            float *values = rvit_buffer_host(in);
            for (int i = 0; i < ROWS * DIM; i++)
                values[i] = (float)((int)round * 31 + i % 1000);
            const rvit_linear_args first = linear((rvit_view){in, 0}, (rvit_view){weight[0], 0}, (rvit_view){exported, FIRST});
            const rvit_linear_args second = linear((rvit_view){imported, FIRST}, (rvit_view){weight[1], 0}, (rvit_view){imported, SECOND});
            rvit_copy_args fetch = RVIT_COPY_ARGS_INIT;
            fetch.source = (rvit_view){exported, SECOND};
            fetch.destination = (rvit_view){out, 0};
            fetch.size = SECOND;
            expect_ok(rvit_linear(stream, &first));
            expect_ok(rvit_stream_signal(stream, theirs[0], round));
            expect_ok(rvit_stream_wait(H.stream[DEVICE], ours[0], round));
            expect_ok(rvit_linear(H.stream[DEVICE], &second));
            expect_ok(rvit_stream_signal(H.stream[DEVICE], ours[1], round));
            expect_ok(rvit_stream_wait(stream, theirs[1], round));
            expect_ok(rvit_copy(stream, &fetch));
            expect_ok(rvit_stream_synchronize(stream));
            const float *got = rvit_buffer_host(out);
            for (int i = 0; i < ROWS * DIM; i++)
                assert_true(got[i] == 4 * values[i]);
        }
        expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
        for (int i = 0; i < 2; i++) {
            rvit_semaphore_destroy(theirs[i]);
            rvit_semaphore_destroy(ours[i]);
        }
    }
    for (int i = 0; i < 2; i++)
        rvit_buffer_destroy(weight[i]);
    rvit_buffer_destroy(imported);
    rvit_buffer_destroy(exported);
    rvit_buffer_destroy(in);
    rvit_buffer_destroy(out);
    rvit_stream_destroy(stream);
    rvit_device_destroy(vulkan);
}

typedef struct importing {
    rvit_device *device;
    rvit_buffer *buffer;
    rvit_semaphore *semaphore;
} importing;

static rvit_status close_after(rvit_status status, int fd)
{
    if (status != RVIT_OK)
        assert_int_equal(close(fd), 0); /* still owned by the caller */
    return status;
}

static rvit_status import_buffer(void *argument)
{
    importing *i = argument;
    const int fd = file_in_memory();
    return close_after(import_file(i->device, fd, SIZE, 0, SIZE, &i->buffer), fd);
}

static void destroy_buffer(void *argument)
{
    rvit_buffer_destroy(((importing *)argument)->buffer);
}

static rvit_status import_one(void *argument)
{
    importing *i = argument;
    const int fd = file_in_memory();
    return close_after(import_semaphore(i->device, fd, 1, &i->semaphore), fd);
}

static void destroy_semaphore(void *argument)
{
    rvit_semaphore_destroy(((importing *)argument)->semaphore);
}

static void every_allocation_of_imports(void **state)
{
    (void)state;
    if (!is_emulated())
        return;
    failing_allocator f;
    failing_allocator_init(&f);
    rvit_device_desc desc = H.desc;
    desc.allocator = &f.allocator;
    importing i = {NULL, NULL, NULL};
    expect_ok(rvit_device_create(&desc, &i.device));
    const allocation_trial buffer = {"rvit_buffer_wrap", import_buffer, destroy_buffer, &i};
    fail_every_allocation(&f, &buffer);
    const allocation_trial semaphore = {"rvit_semaphore_create", import_one, destroy_semaphore, &i};
    fail_every_allocation(&f, &semaphore);
    rvit_device_destroy(i.device);
    assert_int_equal(f.live, 0);
}

SUITE(external_suite, TEST(from_files), TEST(every_allocation_of_imports), TEST(misuse), TEST(alternates_with_vulkan));
