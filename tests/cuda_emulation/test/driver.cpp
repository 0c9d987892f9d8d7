/* Tests the driver: memory, streams, graphs, and the failures that environment variables cause. */
#include "session.h"

namespace
{
void memory()
{
    session s;
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, 1000) == CUDA_SUCCESS && p % 256 == 0);
    char host[1000] = {1};
    CHECK(cuMemcpyHtoD(p, host, 1000) == CUDA_SUCCESS);
    CHECK(cuMemcpyHtoD(p, host, 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(host, p + 1, 1000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD8Async(p + 10, 7, 990, s.stream) == CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(p + 10, 7, 991, s.stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD32Async(p, 0x01020304, 2, s.stream) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(host, p, 1000) == CUDA_SUCCESS && host[0] == 4 && host[3] == 1);
    CHECK(host[10] == 7 && host[999] == 7);
    CUcontext context = nullptr;
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p + 999) == CUDA_SUCCESS && context == s.context);
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p + 1000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)host) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyAsync(p, p + 500, 500, nullptr) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuMemFree(p + 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(p) == CUDA_SUCCESS);
    CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    void *mapped = nullptr;
    CHECK(cuMemHostAlloc(&mapped, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
    CHECK(cuMemHostGetDevicePointer(&p, mapped, 0) == CUDA_SUCCESS && p != 0);
    CHECK(cuMemFreeHost(mapped) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&p, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);
    CUcontext other = nullptr;
    CHECK(cuCtxCreate(&other, nullptr, 0, 0) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&p, 4) == CUDA_SUCCESS);
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p) == CUDA_SUCCESS && context == other);
    CHECK(cuCtxDestroy(other) == CUDA_SUCCESS);
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p) == CUDA_ERROR_INVALID_VALUE);
}

void contexts()
{
    session s;
    CUcontext popped = nullptr, current = nullptr;
    CUdeviceptr p = 0;
    CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped == s.context);
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == nullptr);
    CHECK(cuMemAlloc(&p, 4) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxPopCurrent(&popped) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxPushCurrent(s.context) == CUDA_SUCCESS);
}

/* A graph copies the parameters and runs when launched. Forbidden calls invalidate a capture. */
void graphs()
{
    session s;
    test_params p = {};
    const std::vector<float> in(128, 2.0f);
    p.in = s.device(in);
    p.out = s.device(std::vector<float>(1, 0.0f));
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CHECK(cuStreamBeginCapture(s.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    CHECK(s.launch("sum", 1, 128, 512, p) == CUDA_SUCCESS);
    CHECK(cuMemsetD32Async((CUdeviceptr)p.in, 0, 1, s.stream) == CUDA_SUCCESS);
    CHECK(cuStreamEndCapture(s.stream, &graph) == CUDA_SUCCESS);
    size_t n = 0;
    CHECK(cuGraphGetNodes(graph, nullptr, &n) == CUDA_SUCCESS && n == 2);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    CHECK(s.host(static_cast<float *>(p.out), 1)[0] == 0.0f);
    for (float expected : {256.0f, 254.0f}) {
        CHECK(cuGraphLaunch(executable, s.stream) == CUDA_SUCCESS);
        CHECK(cuStreamSynchronize(s.stream) == CUDA_SUCCESS);
        CHECK(s.host(static_cast<float *>(p.out), 1)[0] == expected);
    }
    CHECK(cuGraphExecDestroy(executable) == CUDA_SUCCESS);
    for (int what = 0; what < 2; what++) {
        CUdeviceptr more = 0;
        CHECK(cuStreamBeginCapture(s.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
        CHECK((what ? cuStreamSynchronize(s.stream) : cuMemAlloc(&more, 4)) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CHECK(s.launch("nothing", 1, 32, 0, p) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        CHECK(cuStreamEndCapture(s.stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && graph == nullptr);
    }
}

/* Parameters of a kernel in an executable graph can change for later launches, as long as the source graph exists. */
void changes_of_graphs()
{
    session s;
    setenv("RVIT_EMU_LATE", "1", 1);
    test_params p = {};
    const std::vector<float> in(128, 2.0f);
    p.in = s.device(in);
    test_params other = p;
    p.out = s.device(std::vector<float>(1, 0.0f));
    other.out = s.device(std::vector<float>(1, 0.0f));
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *last = nullptr;
    size_t n_last = 0;
    CHECK(cuStreamBeginCapture(s.stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(s.launch("sum", 1, 128, 512, p) == CUDA_SUCCESS);
    CHECK(cuStreamGetCaptureInfo(s.stream, &status, nullptr, nullptr, &last, nullptr, &n_last) == CUDA_SUCCESS && n_last == 1);
    const CUgraphNode node = *last;
    CHECK(cuStreamEndCapture(s.stream, &graph) == CUDA_SUCCESS);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
    CHECK(cuGraphLaunch(executable, s.stream) == CUDA_SUCCESS);
    void *arguments[] = {&other};
    CUDA_KERNEL_NODE_PARAMS params = {};
    params.func = s.function("sum");
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 128;
    params.sharedMemBytes = 512;
    params.kernelParams = arguments;
    CHECK(cuGraphExecKernelNodeSetParams(executable, node, &params) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(s.stream) == CUDA_SUCCESS);
    CHECK(s.host(static_cast<float *>(p.out), 1)[0] == 256.0f && s.host(static_cast<float *>(other.out), 1)[0] == 0.0f);
    CHECK(cuGraphLaunch(executable, s.stream) == CUDA_SUCCESS && cuStreamSynchronize(s.stream) == CUDA_SUCCESS);
    CHECK(s.host(static_cast<float *>(other.out), 1)[0] == 256.0f);
    const int before = rvit_emulation_reports();
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    CHECK(cuGraphExecKernelNodeSetParams(executable, node, &params) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(rvit_emulation_reports() == before + 1);
    CHECK(cuGraphExecDestroy(executable) == CUDA_SUCCESS);
    unsetenv("RVIT_EMU_LATE");
}

/* With RVIT_EMU_LATE nothing happens before the host waits. */
void lateness()
{
    session s;
    setenv("RVIT_EMU_LATE", "1", 1);
    CUdeviceptr p = 0;
    unsigned *mapped = nullptr, pageable = 5, waits = 0;
    CHECK(cuMemAlloc(&p, 4) == CUDA_SUCCESS);
    CHECK(cuMemHostAlloc((void **)&mapped, 4, 0) == CUDA_SUCCESS);
    CHECK(cuMemcpyHtoDAsync(p, &pageable, 4, s.stream) == CUDA_SUCCESS);
    pageable = 6; /* has been read */
    CHECK(cuMemcpyDtoHAsync(mapped, p, 4, s.stream) == CUDA_SUCCESS);
    CHECK(*mapped != 5);
    waits -= (unsigned)rvit_emulation_calls("cuStreamSynchronize");
    CHECK(cuStreamSynchronize(s.stream) == CUDA_SUCCESS);
    CHECK(*mapped == 5);
    CHECK(waits + (unsigned)rvit_emulation_calls("cuStreamSynchronize") == 1);
    CHECK(cuMemFree(p) == CUDA_SUCCESS && cuMemFreeHost(mapped) == CUDA_SUCCESS);
    unsetenv("RVIT_EMU_LATE");
}

void faults()
{
    CUdeviceptr p = 0;
    setenv("RVIT_EMU_NO_DEVICE", "1", 1);
    CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
    unsetenv("RVIT_EMU_NO_DEVICE");
    int version = 0;
    setenv("RVIT_EMU_OLD", "11020", 1);
    CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 11020);
    unsetenv("RVIT_EMU_OLD");
    {
        session s;
        set("RVIT_EMU_FAIL_ALLOC", 2);
        CHECK(cuMemAlloc(&p, 4) == CUDA_SUCCESS && cuMemFree(p) == CUDA_SUCCESS);
        CHECK(cuMemAlloc(&p, 4) == CUDA_ERROR_OUT_OF_MEMORY);
        CHECK(cuMemAlloc(&p, 4) == CUDA_SUCCESS && cuMemFree(p) == CUDA_SUCCESS);
        unsetenv("RVIT_EMU_FAIL_ALLOC");
        set("RVIT_EMU_LOST", 2);
        CHECK(s.run("nothing", 1, 32, 0, {}) == CUDA_SUCCESS);
        CHECK(s.run("nothing", 1, 32, 0, {}) == CUDA_ERROR_ILLEGAL_ADDRESS);
        unsetenv("RVIT_EMU_LOST");
        CHECK(cuStreamSynchronize(s.stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    {
        session s; /* works again */
        CHECK(s.run("nothing", 1, 32, 0, {}) == CUDA_SUCCESS);
        CHECK(s.run("nothing", 1, 32, 49 << 10, {}) == CUDA_ERROR_INVALID_VALUE);
        CHECK(cuFuncSetAttribute(s.function("nothing"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 99 << 10) == CUDA_SUCCESS);
        CHECK(cuFuncSetAttribute(s.function("nothing"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10) ==
              CUDA_ERROR_INVALID_VALUE);
        CHECK(s.run("nothing", 1, 32, 49 << 10, {}) == CUDA_SUCCESS);
        CHECK(s.run("nothing", 0, 32, 0, {}) == CUDA_ERROR_INVALID_VALUE);
        CHECK(s.run("nothing", 1, 1056, 0, {}) == CUDA_ERROR_INVALID_VALUE);
        set("RVIT_EMU_ARCH", 75);
        CUmodule module = nullptr;
        CHECK(cuModuleLoadData(&module, ".version 8.0") == CUDA_ERROR_NO_BINARY_FOR_GPU);
        unsetenv("RVIT_EMU_ARCH");
        CHECK(cuModuleLoadData(&module, "nonsense") == CUDA_ERROR_INVALID_IMAGE);
    }
    const int before = rvit_emulation_reports();
    {
        session s;
        CHECK(cuMemAlloc(&p, 4) == CUDA_SUCCESS);
    }
    CHECK(rvit_emulation_reports() == before + 1); /* the leak */
    const char *name = nullptr;
    CHECK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS && strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
}
} // namespace

void test_driver()
{
    memory();
    contexts();
    graphs();
    changes_of_graphs();
    lateness();
    faults();
}
