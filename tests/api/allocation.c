/* A failed allocation at any site leaves a clean error. */
#include "api.h"
#include "failing_allocator.h"
#include "good_ops.h"
#include "interop.h"

typedef struct context {
    failing_allocator f;
    rvit_device_desc desc;
    rvit_device *device;
    rvit_stream *stream;
    rvit_buffer *buffer;
    rvit_program *program;
    rvit_buffer_type type;
    const good_op *ops;
} context;

static rvit_status create_device(void *argument)
{
    context *c = argument;
    return rvit_device_create(&c->desc, &c->device);
}

static void destroy_device(void *argument)
{
    rvit_device_destroy(((context *)argument)->device);
}

static rvit_status create_buffer(void *argument)
{
    context *c = argument;
    return rvit_buffer_create(c->device, 5000, c->type, &c->buffer);
}

static rvit_status wrap_buffer(void *argument)
{
    static _Alignas(16) char memory[16];
    context *c = argument;
    return wrap_memory(c->device, RVIT_MEMORY_HOST, (uintptr_t)memory, sizeof memory, &c->buffer);
}

static void destroy_buffer(void *argument)
{
    rvit_buffer_destroy(((context *)argument)->buffer);
}

/* Create, and use in every way, so that what is made at the first use is made. */
static rvit_status create_and_use_stream(void *argument)
{
    context *c = argument;
    rvit_status status = rvit_stream_create(c->device, &c->stream);
    if (status != RVIT_OK)
        return status;
    uint8_t data[1024] = {0};
    const rvit_view view = {c->buffer, 16};
    status = rvit_stream_write(c->stream, view, data, sizeof data);
    if (status == RVIT_OK)
        status = rvit_stream_read(c->stream, view, data, sizeof data);
    for (int i = 0; i < N_GOOD_OPS && status == RVIT_OK; i++)
        if (!lacks(c->ops[i].name))
            status = c->ops[i].call(c->stream, &c->ops[i].args);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(c->stream);
    if (status != RVIT_OK) {
        /* The stream goes on working, or at least ends in order. */
        char detail[256];
        snprintf(detail, sizeof detail, "%s", rvit_status_detail());
        rvit_stream_destroy(c->stream);
        assert_true(detail[0]);
    }
    return status;
}

static void destroy_stream(void *argument)
{
    rvit_stream_destroy(((context *)argument)->stream);
}

static rvit_status record(void *argument)
{
    context *c = argument;
    rvit_stream *stream = NULL;
    rvit_status status = rvit_stream_create(c->device, &stream);
    if (status != RVIT_OK)
        return status;
    status = rvit_record_begin(stream);
    for (int i = 0; i < 4 * N_GOOD_OPS && status == RVIT_OK; i++)
        if (!lacks(c->ops[i % N_GOOD_OPS].name))
            status = c->ops[i % N_GOOD_OPS].call(stream, &c->ops[i % N_GOOD_OPS].args);
    if (status == RVIT_OK)
        status = rvit_record_end(stream, &c->program);
    rvit_stream_destroy(stream);
    return status;
}

static void destroy_program(void *argument)
{
    rvit_program_destroy(((context *)argument)->program);
}

static void every_allocation_of(int debug_checks)
{
    rvit_device *device = H.device[DEVICE];
    rvit_stream *stream = H.stream[DEVICE];
    context *c = calloc(1, sizeof *c);
    assert_non_null(c);
    failing_allocator_init(&c->f);
    c->desc = H.desc;
    c->desc.allocator = &c->f.allocator;
    c->desc.debug_checks = debug_checks;
    const allocation_trial create = {"rvit_device_create", create_device, destroy_device, c};
    fail_every_allocation(&c->f, &create);
    assert_int_equal(c->f.live, 0);

    expect_ok(create_device(c));
    /* The arrays of the good ops lie on this device. */
    H.device[DEVICE] = c->device;
    expect_ok(rvit_stream_create(c->device, &H.stream[DEVICE]));
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    c->ops = ops;
    for (int type = 0; type < 3; type++) {
        c->type = (rvit_buffer_type)type;
        const allocation_trial buffer = {"rvit_buffer_create", create_buffer, destroy_buffer, c};
        fail_every_allocation(&c->f, &buffer);
    }
    const allocation_trial wrap = {"rvit_buffer_wrap", wrap_buffer, destroy_buffer, c};
    if (H.info.backend == RVIT_BACKEND_CPU)
        fail_every_allocation(&c->f, &wrap);
    expect_ok(create_buffer(c));
    const allocation_trial use = {"a stream's life", create_and_use_stream, destroy_stream, c};
    fail_every_allocation(&c->f, &use);
    const allocation_trial program = {"a recording", record, destroy_program, c};
    fail_every_allocation(&c->f, &program);
    rvit_buffer_destroy(c->buffer);
    harness_teardown(NULL);
    rvit_stream_destroy(H.stream[DEVICE]);
    H.device[DEVICE] = device;
    H.stream[DEVICE] = stream;
    rvit_device_destroy(c->device);
    assert_int_equal(c->f.live, 0);
    free(c);
}

static void every_allocation(void **state)
{
    (void)state;
    every_allocation_of(0);
    every_allocation_of(1);
}

SUITE(allocation_suite, TEST(every_allocation));
