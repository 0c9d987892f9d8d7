/* The application resets the GPU (cudaDeviceReset) while a device exists. Every later call must report the loss without blocking, and must
   not touch objects created after the reset. A separate program, because a reset destroys everything that the process has on the GPU. */
#include <dlfcn.h>

#include "backend_cuda/cu.h"
#include "failing_allocator.h"

static failing_allocator allocator;

typedef struct world {
    rvit_device *device;
    rvit_stream *stream;
    rvit_buffer *buffer, *mapped;
    rvit_program *program;
    rvit_linear_args gemm;
} world;

static rvit_status open_device(rvit_device **out_device)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CUDA;
    desc.allocator = &allocator.allocator;
    return rvit_device_create(&desc, out_device);
}

static void use(const world *w)
{
    expect_ok(rvit_linear(w->stream, &w->gemm));
    expect_ok(rvit_program_launch(w->program, w->stream));
    expect_ok(rvit_stream_synchronize(w->stream));
}

static world open_world(void)
{
    world w = {0};
    expect_ok(open_device(&w.device));
    expect_ok(rvit_stream_create(w.device, &w.stream));
    expect_ok(rvit_buffer_create(w.device, 1 << 16, RVIT_BUFFER_DEVICE, &w.buffer));
    expect_ok(rvit_buffer_create(w.device, 1 << 10, RVIT_BUFFER_UPLOAD, &w.mapped));
    w.gemm = (rvit_linear_args)RVIT_LINEAR_ARGS_INIT;
    w.gemm.rows.capacity = w.gemm.in_features = w.gemm.out_features = 64;
    w.gemm.x = (rvit_view){w.buffer, 0};
    w.gemm.weight = (rvit_view){w.buffer, 1 << 14};
    w.gemm.out = (rvit_view){w.buffer, 1 << 15};
    expect_ok(rvit_record_begin(w.stream));
    expect_ok(rvit_linear(w.stream, &w.gemm));
    expect_ok(rvit_record_end(w.stream, &w.program));
    use(&w);
    return w;
}

static void close_world(const world *w)
{
    rvit_program_destroy(w->program);
    rvit_buffer_destroy(w->mapped);
    rvit_buffer_destroy(w->buffer);
    rvit_stream_destroy(w->stream);
    rvit_device_destroy(w->device);
}

static void expect_lost(const world *w)
{
    rvit_buffer *buffer = NULL;
    rvit_stream *stream = NULL;
    expect_status(rvit_linear(w->stream, &w->gemm), RVIT_DEVICE_LOST, NULL);
    expect_status(rvit_program_launch(w->program, w->stream), RVIT_DEVICE_LOST, NULL);
    expect_status(rvit_stream_synchronize(w->stream), RVIT_DEVICE_LOST, NULL);
    expect_status(rvit_buffer_create(w->device, 64, RVIT_BUFFER_DEVICE, &buffer), RVIT_DEVICE_LOST, NULL);
    expect_status(rvit_stream_create(w->device, &stream), RVIT_DEVICE_LOST, NULL);
}

static void reset(void)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW), *const symbol = dlsym(library, "cuDevicePrimaryCtxReset_v2");
    CUresult (*call)(CUdevice) = NULL;
    memcpy(&call, &symbol, sizeof call);
    assert_non_null(symbol);
    assert_int_equal(call(0), CUDA_SUCCESS);
    dlclose(library);
}

static void destroyed_after_reset(void **state)
{
    (void)state;
    const world w = open_world();
    reset();
    expect_lost(&w);
    close_world(&w);
    assert_int_equal(allocator.live, 0);
}

static void new_device_after_reset(void **state)
{
    (void)state;
    const world old = open_world();
    reset();
    const world new = open_world();
    expect_lost(&old);
    use(&new);
    close_world(&old);
    use(&new);
    close_world(&new);
    assert_int_equal(allocator.live, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(destroyed_after_reset), cmocka_unit_test(new_device_after_reset)};
    rvit_device *device = NULL;
    const rvit_cu_driver *driver = NULL;
    failing_allocator_init(&allocator);
    if (open_device(&device) != RVIT_OK || rvit_cu_driver_open(&driver) != RVIT_OK || driver->cuCtxGetId == NULL) {
        print_message("no CUDA device, or its driver has no context ids: %s\n", rvit_status_detail());
        return 77;
    }
    rvit_device_destroy(device);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
