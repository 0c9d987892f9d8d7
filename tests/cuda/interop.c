/* Tests the use of the caller's context, stream and memory. */
#include "cuda_tests.h"

#include <raggedvit/cuda.h>

#include "backend_cuda/cu.h"
#include "failing_allocator.h"
#include "interop.h"

enum { ROWS = 50, IN = 64, OUT = 32 };

/* The CUDA objects of the caller. */
typedef struct caller {
    const rvit_cu_driver *cuda;
    CUdevice device;
    CUcontext context;
    CUstream stream[2];
    CUdeviceptr memory;
} caller;

static void expect_success(CUresult result)
{
    assert_int_equal((int)result, (int)CUDA_SUCCESS);
}

static caller caller_open(void)
{
    caller c = {0};
    expect_ok(rvit_cu_driver_open(&c.cuda));
    expect_success(c.cuda->cuDeviceGet(&c.device, 0));
    expect_success(c.cuda->cuDevicePrimaryCtxRetain(&c.context, c.device));
    expect_success(c.cuda->cuCtxPushCurrent(c.context));
    for (int i = 0; i < 2; i++)
        expect_success(c.cuda->cuStreamCreate(&c.stream[i], CU_STREAM_NON_BLOCKING));
    expect_success(c.cuda->cuMemAlloc(&c.memory, 1 << 20));
    return c;
}

static void caller_close(caller *c)
{
    CUcontext current = NULL, popped;
    expect_success(c->cuda->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, c->context); /* the library restored it */
    expect_success(c->cuda->cuMemFree(c->memory));
    for (int i = 0; i < 2; i++)
        expect_success(c->cuda->cuStreamDestroy(c->stream[i]));
    expect_success(c->cuda->cuCtxPopCurrent(&popped));
    expect_success(c->cuda->cuDevicePrimaryCtxRelease(c->device));
}

/* A GEMM on the caller's stream and memory gives the same result as on the library's. Setting another stream or other memory allocates
   nothing. */
static void wrapped(void **state)
{
    (void)state;
    caller c = caller_open();
    rvit_device *device = NULL;
    expect_ok(rvit_cuda_device_create(NULL, NULL, &device));
    void *handle = NULL;
    expect_ok(rvit_cuda_device_context(device, &handle));
    assert_ptr_equal(handle, c.context);
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_stream_wrap(device, c.stream[0], &stream));
    expect_ok(rvit_stream_handle(stream, &handle));
    assert_ptr_equal(handle, c.stream[0]);
    expect_ok(wrap_memory(device, RVIT_MEMORY_CUDA, c.memory, 1 << 18, &buffer));
    assert_null(rvit_buffer_host(buffer));
    uint64_t address = 0;
    int64_t offset = -1;
    expect_ok(rvit_buffer_handle(buffer, &address, &offset));
    assert_true(address == c.memory && offset == 0);

    static float x[ROWS * IN], weight[OUT * IN], out[2][ROWS * OUT];
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = random_normal();
    for (int i = 0; i < OUT * IN; i++)
        weight[i] = random_normal();
    for (int round = 0; round < 2; round++) {
        const rvit_view x_view = {buffer, 0}, weight_view = {buffer, sizeof x}, out_view = {buffer, (int64_t)(sizeof x + sizeof weight)};
        expect_ok(rvit_stream_write(stream, x_view, x, sizeof x));
        expect_ok(rvit_stream_write(stream, weight_view, weight, sizeof weight));
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.rows.capacity = ROWS;
        args.in_features = IN;
        args.out_features = OUT;
        args.x = x_view;
        args.weight = weight_view;
        args.out = out_view;
        expect_ok(rvit_linear(stream, &args));
        expect_ok(rvit_stream_read(stream, out_view, out[round], sizeof out[round]));
        rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
        expect_ok(rvit_stream_get_stats(stream, &before));
        expect_ok(rvit_buffer_set(buffer, (void *)(uintptr_t)(c.memory + (1 << 19)), 1 << 19));
        expect_ok(rvit_stream_set(stream, c.stream[1]));
        expect_ok(rvit_stream_get_stats(stream, &after));
        assert_int_equal(before.host_allocations, after.host_allocations);
        assert_int_equal(before.device_allocations, after.device_allocations);
        assert_int_equal(before.synchronizations, after.synchronizations);
        assert_int_equal(rvit_buffer_size(buffer), 1 << 19);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    double largest = 0;
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUT; o++) {
            double sum = 0;
            for (int i = 0; i < IN; i++)
                sum += (double)x[r * IN + i] * weight[o * IN + i];
            const double error = sum - out[0][r * OUT + o];
            largest = error > largest ? error : -error > largest ? -error : largest;
        }
    assert_true(largest < 1e-4);
    rvit_device_destroy(device); /* its children keep it alive */
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
    /* The memory and the streams still belong to the caller. */
    expect_success(c.cuda->cuMemsetD8Async(c.memory, 0, 1 << 20, c.stream[0]));
    expect_success(c.cuda->cuStreamSynchronize(c.stream[0]));
    caller_close(&c);
}

typedef struct wrapping {
    const caller *caller;
    rvit_device *device;
    rvit_stream *stream;
    rvit_buffer *buffer;
} wrapping;

static rvit_status wrap_stream(void *argument)
{
    wrapping *w = argument;
    return rvit_stream_wrap(w->device, w->caller->stream[0], &w->stream);
}

static void destroy_stream(void *argument)
{
    rvit_stream_destroy(((wrapping *)argument)->stream);
}

static rvit_status wrap_buffer(void *argument)
{
    wrapping *w = argument;
    return wrap_memory(w->device, RVIT_MEMORY_CUDA, w->caller->memory, 1 << 18, &w->buffer);
}

static void destroy_buffer(void *argument)
{
    rvit_buffer_destroy(((wrapping *)argument)->buffer);
}

static void every_allocation(void **state)
{
    (void)state;
    caller c = caller_open();
    failing_allocator f;
    failing_allocator_init(&f);
    rvit_device_desc desc = H.desc;
    desc.allocator = &f.allocator;
    wrapping w = {.caller = &c};
    expect_ok(rvit_device_create(&desc, &w.device));
    const allocation_trial stream = {"rvit_stream_wrap", wrap_stream, destroy_stream, &w};
    fail_every_allocation(&f, &stream);
    const allocation_trial buffer = {"rvit_buffer_wrap", wrap_buffer, destroy_buffer, &w};
    fail_every_allocation(&f, &buffer);
    rvit_device_destroy(w.device);
    assert_int_equal(f.live, 0);
    caller_close(&c);
}

/* An ordinary device works next to the caller's context, from a thread with another current context or none. */
static void context_is_left_alone(void **state)
{
    (void)state;
    caller c = caller_open();
    CUcontext popped, current = NULL;
    expect_success(c.cuda->cuCtxPopCurrent(&popped));
    expect_success(c.cuda->cuCtxGetCurrent(&current));
    assert_null(current);
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_buffer_create(H.device[DEVICE], 64, RVIT_BUFFER_DEVICE, &buffer));
    uint32_t words[16] = {1, 2, 3};
    const rvit_view view = {buffer, 0};
    expect_ok(rvit_stream_write(H.stream[DEVICE], view, words, sizeof words));
    expect_ok(rvit_stream_read(H.stream[DEVICE], view, words, sizeof words));
    rvit_buffer_destroy(buffer);
    expect_success(c.cuda->cuCtxGetCurrent(&current));
    assert_null(current);
    rvit_device *device = NULL;
    expect_status(rvit_cuda_device_create(NULL, NULL, &device), RVIT_UNAVAILABLE, "context");
    expect_success(c.cuda->cuCtxPushCurrent(c.context));
    caller_close(&c);
}

/* With the caller's workspace, a stream can be captured before its first op, and the graph can be launched repeatedly. */
static void captured_with_a_workspace(const caller *c, rvit_device *device, rvit_stream *other, const rvit_select_args *args)
{
    rvit_stream *stream = NULL;
    int32_t out[3], none[3] = {-1, -1, -1};
    static const int32_t wanted[] = {0, 2, 3};
    const int64_t size = rvit_cuda_workspace_size(args->n_images, args->rows);
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    assert_true(size > 0);
    expect_ok(rvit_stream_wrap(device, c->stream[1], &stream));
    expect_status(rvit_cuda_stream_set_workspace(NULL, (void *)(uintptr_t)c->memory, size), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_cuda_stream_set_workspace(H.stream[DEVICE], (void *)(uintptr_t)c->memory, size), RVIT_INVALID_ARGUMENT, "wrapped");
    expect_status(rvit_cuda_stream_set_workspace(stream, (void *)(uintptr_t)(c->memory + 8), size), RVIT_INVALID_ARGUMENT,
                  "multiple of 16");
    expect_ok(rvit_cuda_stream_set_workspace(stream, (void *)(uintptr_t)c->memory, 16));
    expect_status(rvit_select(stream, args), RVIT_INVALID_ARGUMENT, "workspace");
    expect_success(c->cuda->cuMemsetD8Async(c->memory, 0xa5, 4096, c->stream[1]));
    expect_ok(rvit_cuda_stream_set_workspace(stream, (void *)(uintptr_t)c->memory, size));
    expect_success(c->cuda->cuStreamSynchronize(c->stream[1]));
    expect_success(c->cuda->cuStreamBeginCapture(c->stream[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    expect_ok(rvit_select(stream, args));
    expect_success(c->cuda->cuStreamEndCapture(c->stream[1], &graph));
    expect_success(c->cuda->cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int round = 0; round < 3; round++) {
        expect_ok(rvit_stream_synchronize(other)); /* the graph on the other stream reads what it wrote */
        expect_success(c->cuda->cuMemsetD8Async(c->memory, 0xff, (size_t)size, c->stream[1]));
        expect_success(c->cuda->cuGraphLaunch(executable, c->stream[1]));
        expect_success(c->cuda->cuStreamSynchronize(c->stream[1]));
        expect_ok(rvit_stream_read(other, args->out_cu_seqlens, out, sizeof out));
        assert_memory_equal(out, wanted, sizeof out);
        expect_ok(rvit_stream_write(other, args->out_cu_seqlens, none, sizeof none));
    }
    expect_ok(rvit_cuda_stream_set_workspace(stream, NULL, 0));
    expect_ok(rvit_select(stream, args)); /* back to the stream's own memory */
    expect_success(c->cuda->cuGraphExecDestroy(executable));
    expect_success(c->cuda->cuGraphDestroy(graph));
    rvit_stream_destroy(stream);
}

/* During a capture, an op that needs more memory than the stream has is refused, and the capture remains valid. */
static void captured_by_the_caller(void **state)
{
    (void)state;
    enum { CU = 0, KEEP_IN = 16, KEEP = 32, OUT_CU = 48, SRC_ROWS = 64, SIZE = 96 };
    static const int32_t cu[] = {0, 3, 5}, wanted[] = {0, 2, 3};
    static const uint8_t keep[8] = {1, 0, 1, 0, 1};
    caller c = caller_open();
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_cuda_device_create(NULL, NULL, &device));
    expect_ok(rvit_stream_wrap(device, c.stream[0], &stream));
    expect_ok(rvit_buffer_create(device, SIZE, RVIT_BUFFER_DEVICE, &buffer));
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, CU}, cu, sizeof cu));
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, KEEP_IN}, keep, sizeof keep));
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = RVIT_SELECT_MASK;
    args.n_images = 2;
    args.max_len = args.rows = 5;
    args.cu_seqlens = (rvit_view){buffer, CU};
    args.keep_in = (rvit_view){buffer, KEEP_IN};
    args.keep = (rvit_view){buffer, KEEP};
    args.out_cu_seqlens = (rvit_view){buffer, OUT_CU};
    args.src_rows = (rvit_view){buffer, SRC_ROWS};
    for (int round = 0; round < 2; round++) {
        CUgraph graph = NULL;
        expect_success(c.cuda->cuStreamBeginCapture(c.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        if (round == 0)
            expect_status(rvit_select(stream, &args), RVIT_INVALID_ARGUMENT, "capture");
        else
            expect_ok(rvit_select(stream, &args));
        expect_success(c.cuda->cuStreamEndCapture(c.stream[0], &graph));
        if (round == 0) {
            expect_ok(rvit_select(stream, &args));
        } else {
            CUgraphExec executable = NULL;
            expect_success(c.cuda->cuGraphInstantiateWithFlags(&executable, graph, 0));
            expect_success(c.cuda->cuGraphLaunch(executable, c.stream[0]));
            expect_success(c.cuda->cuStreamSynchronize(c.stream[0]));
            expect_success(c.cuda->cuGraphExecDestroy(executable));
        }
        expect_success(c.cuda->cuGraphDestroy(graph));
        int32_t out[3], none[3] = {-1, -1, -1};
        expect_ok(rvit_stream_read(stream, args.out_cu_seqlens, out, sizeof out));
        assert_memory_equal(out, wanted, sizeof out);
        expect_ok(rvit_stream_write(stream, args.out_cu_seqlens, none, sizeof none));
    }
    captured_with_a_workspace(&c, device, stream, &args);
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
    rvit_device_destroy(device);
    caller_close(&c);
}

static CUresult other_context(CUcontext *context)
{
    *context = NULL;
    return CUDA_SUCCESS;
}

static CUresult refuse_context(CUcontext context)
{
    (void)context;
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* If a context cannot be made current, the call fails and the thread's context stack is unchanged. */
static void unusable_context(void **state)
{
    (void)state;
    rvit_device *const device = H.device[DEVICE];
    const rvit_cu_driver *const real = rvit_cu_device_of(device)->driver;
    caller c = caller_open();
    CUcontext current = NULL;
    rvit_cu_driver broken = *real;
    broken.cuCtxGetCurrent = other_context;
    broken.cuCtxPushCurrent = refuse_context;
    rvit_cu_device_of(device)->driver = &broken;
    rvit_buffer *buffer = NULL;
    rvit_stream *stream = NULL;
    const rvit_status status[] = {rvit_buffer_create(device, 64, RVIT_BUFFER_DEVICE, &buffer), rvit_stream_create(device, &stream)};
    rvit_cu_device_of(device)->driver = real;
    assert_int_equal(status[0], RVIT_DEVICE_LOST);
    assert_int_equal(status[1], RVIT_DEVICE_LOST);
    expect_success(c.cuda->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, c.context);
    caller_close(&c);
}

/* The statuses for CUDA errors that end a context, and for a device that is temporarily unavailable. */
static void statuses_of_results(void **state)
{
    (void)state;
    static const CUresult lost[] = {CUDA_ERROR_ILLEGAL_ADDRESS,      CUDA_ERROR_LAUNCH_FAILED,   CUDA_ERROR_ECC_UNCORRECTABLE,
                                    CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_MPS_RPC_FAILURE, CUDA_ERROR_MPS_CLIENT_TERMINATED,
                                    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_EXTERNAL_DEVICE};
    static const CUresult unavailable[] = {CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_MPS_CONNECTION_FAILED, CUDA_ERROR_MPS_SERVER_NOT_READY,
                                           CUDA_ERROR_MPS_MAX_CLIENTS_REACHED};
    const rvit_cu_driver *driver = NULL;
    expect_ok(rvit_cu_driver_open(&driver));
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
        assert_int_equal(rvit_cu_fail(driver, lost[i], "call"), RVIT_DEVICE_LOST);
    for (size_t i = 0; i < sizeof unavailable / sizeof unavailable[0]; i++)
        assert_int_equal(rvit_cu_fail(driver, unavailable[i], "call"), RVIT_UNAVAILABLE);
}

static void misuse(void **state)
{
    (void)state;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    rvit_device *cpu = NULL;
    rvit_stream *cpu_stream = NULL, *stream = NULL;
    rvit_buffer *cpu_buffer = NULL, *own = NULL, *buffer = NULL;
    expect_ok(rvit_device_create(&desc, &cpu));
    expect_ok(rvit_stream_create(cpu, &cpu_stream));
    expect_ok(rvit_buffer_create(cpu, 64, RVIT_BUFFER_DEVICE, &cpu_buffer));
    expect_ok(rvit_buffer_create(H.device[DEVICE], 64, RVIT_BUFFER_DEVICE, &own));
    void *handle;
    uint64_t address = 0;
    int64_t offset = 0;
    expect_status(rvit_cuda_device_create(NULL, NULL, NULL), RVIT_INVALID_ARGUMENT, "out_device");
    expect_status(rvit_cuda_device_context(cpu, &handle), RVIT_INVALID_ARGUMENT, "CUDA");
    expect_status(rvit_cuda_device_context(NULL, &handle), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_stream_wrap(cpu, NULL, &stream), RVIT_UNSUPPORTED, "native");
    expect_status(rvit_stream_handle(cpu_stream, &handle), RVIT_UNSUPPORTED, "native");
    expect_status(rvit_stream_set(H.stream[DEVICE], NULL), RVIT_INVALID_ARGUMENT, "wrapped");
    expect_status(rvit_stream_set(NULL, NULL), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_buffer_handle(cpu_buffer, NULL, &offset), RVIT_INVALID_ARGUMENT, "out_handle");
    expect_ok(rvit_buffer_handle(own, &address, &offset));
    expect_status(rvit_buffer_set(own, (void *)(uintptr_t)address, 64), RVIT_INVALID_ARGUMENT, "wrapped");
    expect_ok(wrap_memory(H.device[DEVICE], RVIT_MEMORY_CUDA, address, 16, &buffer));
    const rvit_copy_args onto_itself = {.struct_size = sizeof onto_itself, .source = {own, 0}, .destination = {buffer, 0}, .size = 16};
    expect_status(rvit_copy(H.stream[DEVICE], &onto_itself), RVIT_INVALID_ARGUMENT, "overlaps");
    rvit_buffer_destroy(buffer);
    expect_status(wrap_memory(H.device[DEVICE], RVIT_MEMORY_CUDA, address, 0, &buffer), RVIT_INVALID_ARGUMENT, "size");
    expect_status(wrap_memory(H.device[DEVICE], RVIT_MEMORY_CUDA, address + 4, 16, &buffer), RVIT_INVALID_ARGUMENT, "16");
    expect_status(wrap_memory(H.device[DEVICE], RVIT_MEMORY_CUDA, 0, 16, &buffer), RVIT_INVALID_ARGUMENT, "address");
    expect_status(wrap_memory(H.device[DEVICE], RVIT_MEMORY_CUDA, 0x7fff12345670u, 16, &buffer), RVIT_INVALID_ARGUMENT, "driver");
    rvit_buffer_destroy(own);
    rvit_buffer_destroy(cpu_buffer);
    rvit_stream_destroy(cpu_stream);
    rvit_device_destroy(cpu);
}

/* A device with sleeping waits waits for events, on the library's own streams. */
static void sleeping_waits(void **state)
{
    (void)state;
    static const float values[4] = {1, 2, 3, 4};
    float found[4] = {0};
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    desc.backend = RVIT_BACKEND_CUDA;
    desc.poll_us = -1;
    expect_ok(rvit_device_create(&desc, &device));
    expect_ok(rvit_stream_create(device, &stream));
    expect_ok(rvit_buffer_create(device, sizeof values, RVIT_BUFFER_DEVICE, &buffer));
    assert_non_null(((rvit_cu_stream *)stream)->done);
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, 0}, values, sizeof values));
    expect_ok(rvit_stream_synchronize(stream));
    expect_ok(rvit_stream_read(stream, (rvit_view){buffer, 0}, found, sizeof found));
    assert_memory_equal(found, values, sizeof values);
    rvit_buffer_destroy(buffer);
    rvit_stream_destroy(stream);
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    assert_null(((rvit_cu_stream *)stream)->done);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
}

SUITE(interop_suite, TEST(wrapped), TEST(sleeping_waits), TEST(every_allocation), TEST(captured_by_the_caller), TEST(context_is_left_alone),
      TEST(unusable_context), TEST(statuses_of_results), TEST(misuse));

int main(int argc, char **argv)
{
    const suite *const suites[] = {&variants_suite, &gemm_suite, &hopper_suite, &e4m3_suite, &interop_suite, &external_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof suites[0]);
}
