/* Tests memory and semaphores passed between VkDevices by file descriptor, and semaphores between streams and the application. */
#include "app.h"
#include "interop.h"

#include <fcntl.h>
#include <unistd.h>

enum { N = 1000 };

/* Returns 0 if the device does not support it; the error must contain the word. */
static int can(rvit_status status, const char *word)
{
    if (status == RVIT_UNSUPPORTED) {
        assert_non_null(strstr(rvit_status_detail(), word));
        return 0;
    }
    expect_ok(status);
    return 1;
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void copy(rvit_stream *stream, rvit_buffer *from, rvit_buffer *to)
{
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = (rvit_view){from, 0};
    args.destination = (rvit_view){to, 0};
    args.size = N * 4;
    expect_ok(rvit_copy(stream, &args));
}

static void memory(void **state)
{
    (void)state;
    rvit_buffer *exported = NULL, *imported[2] = {NULL, NULL};
    if (!can(rvit_buffer_create(APP->rvit, N * 4, RVIT_BUFFER_SHARED, &exported), "memory"))
        skip();
    assert_null(rvit_buffer_host(exported));
    rvit_buffer *second = NULL;
    expect_ok(rvit_buffer_create(APP->rvit, N * 4, RVIT_BUFFER_SHARED, &second));
    copy(H.stream[DEVICE], exported, second); /* two shared buffers do not overlap */
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    rvit_buffer_destroy(second);
    /* A device that the library creates, with default options. */
    rvit_device *other = NULL;
    rvit_stream *stream = NULL;
    rvit_device_desc own = H.desc;
    own.skip_self_test = 1;
    expect_ok(rvit_device_create(&own, &other));
    expect_ok(rvit_stream_create(other, &stream));
    rvit_external_memory m = RVIT_EXTERNAL_MEMORY_INIT;
    int32_t words[N], got[N];
    for (int i = 0; i < 2; i++) {
        expect_ok(rvit_buffer_export(exported, &m));
        assert_true(m.handle_type == RVIT_HANDLE_OPAQUE_FD && m.handle >= 0 && m.size >= N * 4 && m.offset == 0);
        expect_ok(import_memory(other, &m, N * 4, &imported[i]));
    }
    const int before = open_descriptors();
    for (int i = 0; i < 100; i++) {
        rvit_buffer *again = NULL;
        expect_ok(rvit_buffer_export(exported, &m));
        expect_ok(import_memory(other, &m, N * 4, &again));
        rvit_buffer_destroy(again);
    }
    assert_true(open_descriptors() < before + 10); /* a driver may keep some */
    for (int i = 0; i < N; i++)
        words[i] = i * i;
    expect_ok(rvit_stream_write(H.stream[DEVICE], (rvit_view){exported, 0}, words, sizeof words));
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    rvit_buffer_destroy(exported); /* the imports keep the memory alive */
    for (int i = 0; i < 2; i++) {
        expect_ok(rvit_stream_read(stream, (rvit_view){imported[i], 0}, got, sizeof got));
        assert_memory_equal(words, got, sizeof words);
        rvit_buffer_destroy(imported[i]);
    }
    rvit_stream_destroy(stream);
    rvit_device_destroy(other);
}

static void bad_memory(void **state)
{
    (void)state;
    rvit_buffer *shared = NULL, *plain = NULL, *buffer = NULL;
    rvit_external_memory m = RVIT_EXTERNAL_MEMORY_INIT;
    expect_ok(rvit_buffer_create(APP->rvit, 64, RVIT_BUFFER_DEVICE, &plain));
    expect_status(rvit_buffer_export(plain, &m), RVIT_INVALID_ARGUMENT, "RVIT_BUFFER_SHARED");
    expect_status(rvit_buffer_export(NULL, &m), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_buffer_create(APP->rvit, 0, RVIT_BUFFER_SHARED, &shared), RVIT_INVALID_ARGUMENT, "size");
    expect_status(rvit_buffer_create(NULL, 64, RVIT_BUFFER_SHARED, &shared), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_buffer_create(APP->rvit, 64, RVIT_BUFFER_SHARED, NULL), RVIT_INVALID_ARGUMENT, "out_buffer");
    if (can(rvit_buffer_create(APP->rvit, N, RVIT_BUFFER_SHARED, &shared), "memory")) {
        expect_ok(rvit_buffer_export(shared, &m));
        rvit_external_memory bad = m;
#define BAD(change, size, word) \
    bad = m;                    \
    change;                     \
    expect_status(import_memory(APP->rvit, &bad, size, &buffer), RVIT_INVALID_ARGUMENT, word)
        BAD(bad.handle = -1, N, "fd");
        BAD(bad.handle = 12345, N, "fd"); /* not open */
        BAD(bad.memory_type = 77, N, "memory_type");
        BAD(bad.offset = 4, N, "offset");
        BAD(bad.offset = -256, N, "offset");
        BAD(bad.size = 16, N, "size");
        BAD(bad.struct_size = 3, N, "struct_size");
        BAD(bad.handle_type = RVIT_HANDLE_NONE, N, "handle_type");
        BAD((void)0, m.size + 1, "size");
        BAD((void)0, 0, "size");
        expect_status(import_memory(APP->rvit, NULL, N, &buffer), RVIT_INVALID_ARGUMENT, NULL);
        expect_status(import_memory(APP->rvit, &m, N, NULL), RVIT_INVALID_ARGUMENT, "out_buffer");
        bad = m;
        bad.handle_type = RVIT_HANDLE_OPAQUE_WIN32;
        expect_status(import_memory(APP->rvit, &bad, N, &buffer), RVIT_UNSUPPORTED, "RVIT_HANDLE_OPAQUE_WIN32");
        bad = m;
        bad.handle = open("/dev/null", O_RDWR);
        const rvit_status status = import_memory(APP->rvit, &bad, N, &buffer);
        assert_true(status == RVIT_INVALID_ARGUMENT || status == RVIT_OUT_OF_DEVICE_MEMORY); /* NVIDIA's driver reports this */
        assert_non_null(strstr(rvit_status_detail(), "fd"));
        assert_int_equal(close((int)bad.handle), 0);
        assert_null(buffer);
        expect_ok(import_memory(APP->rvit, &m, N, &buffer)); /* the descriptor is still valid */
        rvit_buffer_destroy(buffer);
        rvit_buffer_destroy(shared);
    }
    rvit_buffer_destroy(plain);
}

static void submit_with(const app *a, VkSemaphore wait, uint64_t wait_value, VkSemaphore signal, uint64_t signal_value, int timeline)
{
    const VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                  .waitSemaphoreValueCount = wait != VK_NULL_HANDLE,
                                                  .pWaitSemaphoreValues = &wait_value,
                                                  .signalSemaphoreValueCount = signal != VK_NULL_HANDLE,
                                                  .pSignalSemaphoreValues = &signal_value};
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = timeline ? &values : NULL,
                               .waitSemaphoreCount = wait != VK_NULL_HANDLE,
                               .pWaitSemaphores = &wait,
                               .pWaitDstStageMask = &stage,
                               .signalSemaphoreCount = signal != VK_NULL_HANDLE,
                               .pSignalSemaphores = &signal};
    assert_int_equal(a->vk.vkQueueSubmit(a->queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
}

static VkSemaphore make_semaphore(const app *a, int timeline)
{
    VkSemaphore semaphore = VK_NULL_HANDLE;
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo create = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = timeline ? &type : NULL};
    assert_int_equal(a->vk.vkCreateSemaphore(a->device, &create, NULL, &semaphore), VK_SUCCESS);
    return semaphore;
}

/* The application signals; the stream waits, works and signals; the application continues. With VkSemaphores of the application and of the
   library. */
static void semaphores(void **state)
{
    (void)state;
    rvit_buffer *in = NULL, *out = NULL;
    expect_ok(rvit_buffer_create(APP->rvit, N * 4, RVIT_BUFFER_UPLOAD, &in));
    expect_ok(rvit_buffer_create(APP->rvit, N * 4, RVIT_BUFFER_READBACK, &out));
    for (int timeline = 0; timeline < 2; timeline++)
        for (int own = 0; own < 2; own++) {
            rvit_semaphore *s[2] = {NULL, NULL};
            VkSemaphore handles[2];
            for (int i = 0; i < 2; i++) {
                uint64_t handle = 0;
                rvit_semaphore_desc desc = RVIT_SEMAPHORE_DESC_INIT;
                desc.timeline = timeline;
                desc.vk_semaphore = own ? 0 : (uint64_t)make_semaphore(APP, timeline);
                expect_ok(rvit_semaphore_create(APP->rvit, &desc, &s[i]));
                expect_ok(rvit_semaphore_handle(s[i], &handle));
                handles[i] = (VkSemaphore)handle;
            }
            for (uint64_t round = 1; round <= 100; round++) { /* more than the slots of a stream */
                for (int i = 0; i < N; i++)
                    ((int32_t *)rvit_buffer_host(in))[i] = (int32_t)round + i;
                submit_with(APP, VK_NULL_HANDLE, 0, handles[0], round, timeline);
                expect_ok(rvit_stream_wait(H.stream[DEVICE], s[0], round));
                copy(H.stream[DEVICE], in, out);
                expect_ok(rvit_stream_signal(H.stream[DEVICE], s[1], round));
                submit_with(APP, handles[1], round, VK_NULL_HANDLE, 0, timeline);
                expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
                assert_memory_equal(rvit_buffer_host(in), rvit_buffer_host(out), N * 4);
            }
            APP->vk.vkQueueWaitIdle(APP->queue);
            for (int i = 0; i < 2; i++) {
                rvit_semaphore_destroy(s[i]);
                if (!own)
                    APP->vk.vkDestroySemaphore(APP->device, handles[i], NULL);
            }
        }
    rvit_buffer_destroy(in);
    rvit_buffer_destroy(out);
}

/* Shares semaphores between two devices by file descriptor. */
static void shared_semaphores(void **state)
{
    (void)state;
    rvit_device *other = NULL;
    rvit_stream *stream = NULL;
    rvit_device_desc own = H.desc;
    own.skip_self_test = 1;
    expect_ok(rvit_device_create(&own, &other));
    expect_ok(rvit_stream_create(other, &stream));
    for (int timeline = 0; timeline < 2; timeline++) {
        rvit_semaphore *exported = NULL, *imported = NULL;
        if (!can(create_semaphore(APP->rvit, timeline, 1, &exported), "emaphore")) {
            print_message("%s\n", rvit_status_detail());
            continue;
        }
        rvit_handle_type type = RVIT_HANDLE_NONE;
        intptr_t fd = -1;
        expect_ok(rvit_semaphore_export(exported, &type, &fd));
        assert_int_equal(type, RVIT_HANDLE_OPAQUE_FD);
        expect_status(import_semaphore(other, -1, timeline, &imported), RVIT_INVALID_ARGUMENT, "fd");
        expect_ok(import_semaphore(other, fd, timeline, &imported));
        for (uint64_t round = 1; round <= 3; round++) {
            expect_ok(rvit_stream_signal(H.stream[DEVICE], exported, round));
            expect_ok(rvit_stream_wait(stream, imported, round));
            expect_ok(rvit_stream_synchronize(stream));
        }
        expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
        rvit_semaphore_destroy(exported);
        rvit_semaphore_destroy(imported);
    }
    rvit_stream_destroy(stream);
    rvit_device_destroy(other);
}

static void bad_semaphores(void **state)
{
    (void)state;
    rvit_semaphore *semaphore = NULL, *none = NULL;
    rvit_device *other = NULL;
    rvit_stream *stream = NULL, *recording = NULL;
    rvit_device_desc own = H.desc;
    own.skip_self_test = 1;
    expect_ok(rvit_device_create(&own, &other));
    expect_ok(rvit_stream_create(other, &stream));
    expect_ok(rvit_stream_wrap(APP->rvit, NULL, &recording));
    expect_ok(create_semaphore(APP->rvit, 0, 0, &semaphore));
    rvit_handle_type type;
    intptr_t fd = -1;
    expect_status(rvit_semaphore_export(semaphore, &type, &fd), RVIT_INVALID_ARGUMENT, "shared");
    expect_status(create_semaphore(APP->rvit, 2, 0, &none), RVIT_INVALID_ARGUMENT, "timeline");
    expect_status(create_semaphore(APP->rvit, 0, -1, &none), RVIT_INVALID_ARGUMENT, "shared");
    expect_status(create_semaphore(NULL, 0, 0, &none), RVIT_INVALID_ARGUMENT, "device");
    expect_status(create_semaphore(APP->rvit, 0, 0, NULL), RVIT_INVALID_ARGUMENT, "out_semaphore");
    rvit_semaphore_desc both = RVIT_SEMAPHORE_DESC_INIT;
    both.shared = 1;
    both.vk_semaphore = 1;
    expect_status(rvit_semaphore_create(APP->rvit, &both, &none), RVIT_INVALID_ARGUMENT, "exclude");
    both.shared = 0;
    both.handle_type = RVIT_HANDLE_OPAQUE_FD;
    expect_status(rvit_semaphore_create(APP->rvit, &both, &none), RVIT_INVALID_ARGUMENT, "exclude");
    expect_status(rvit_stream_wait(stream, semaphore, 1), RVIT_INVALID_ARGUMENT, "devices");
    expect_status(rvit_stream_signal(recording, semaphore, 1), RVIT_INVALID_ARGUMENT, "command");
    expect_status(rvit_stream_wait(NULL, semaphore, 1), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_stream_wait(stream, NULL, 1), RVIT_INVALID_ARGUMENT, "NULL");
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_status(rvit_stream_wait(H.stream[DEVICE], semaphore, 1), RVIT_INVALID_ARGUMENT, "recording");
    rvit_program *program = NULL;
    expect_status(rvit_record_end(H.stream[DEVICE], &program), RVIT_INVALID_ARGUMENT, "nothing");
    assert_null(none);
    rvit_semaphore_destroy(NULL);
    rvit_semaphore_destroy(semaphore);
    rvit_stream_destroy(recording);
    rvit_stream_destroy(stream);
    rvit_device_destroy(other);
}

SUITE(app_share_suite, APP_TEST(memory), APP_TEST(bad_memory), APP_TEST(semaphores), APP_TEST(shared_semaphores), APP_TEST(bad_semaphores));
