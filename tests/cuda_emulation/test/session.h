/* A context with a stream and the test kernels, and the check that the tests use. */
#ifndef EMU_TEST_SESSION_H
#define EMU_TEST_SESSION_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "kernels.h"

extern int failures;

#define CHECK(condition)                                                              \
    do                                                                                \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #condition); \
            failures++;                                                               \
        }                                                                             \
    while (0)

/* Declared here, because programs open the library at run time. */
extern "C" long long rvit_emulation_calls(const char *name);
extern "C" int rvit_emulation_reports(void);

inline void set(const char *variable, long value)
{
    char text[32];
    snprintf(text, sizeof(text), "%ld", value);
    setenv(variable, text, 1);
}

struct session {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUstream stream = nullptr;
    std::vector<CUdeviceptr> memory;

    session()
    {
        CHECK(cuInit(0) == CUDA_SUCCESS);
        CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
        CHECK(cuCtxPushCurrent(context) == CUDA_SUCCESS);
        CHECK(cuModuleLoadData(&module, ".version 8.0") == CUDA_SUCCESS);
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    }

    ~session()
    {
        for (CUdeviceptr p : memory)
            cuMemFree(p);
        cuStreamDestroy(stream);
        cuModuleUnload(module);
        cuCtxPopCurrent(nullptr);
        CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    }

    template <typename T> T *device(size_t n)
    {
        CUdeviceptr p = 0;
        CHECK(cuMemAlloc(&p, n * sizeof(T)) == CUDA_SUCCESS);
        memory.push_back(p);
        return reinterpret_cast<T *>(p);
    }

    template <typename T> T *device(const std::vector<T> &from)
    {
        T *p = device<T>(from.size());
        CHECK(cuMemcpyHtoD((CUdeviceptr)p, from.data(), from.size() * sizeof(T)) == CUDA_SUCCESS);
        return p;
    }

    template <typename T> std::vector<T> host(const T *p, size_t n)
    {
        std::vector<T> to(n);
        CHECK(cuMemcpyDtoH(to.data(), (CUdeviceptr)p, n * sizeof(T)) == CUDA_SUCCESS);
        return to;
    }

    CUfunction function(const char *name)
    {
        CUfunction f = nullptr;
        CHECK(cuModuleGetFunction(&f, module, name) == CUDA_SUCCESS);
        return f;
    }

    CUresult launch(const char *name, unsigned grid, unsigned block, unsigned shared, test_params params)
    {
        void *arguments[] = {&params};
        return cuLaunchKernel(function(name), grid, 1, 1, block, 1, 1, shared, stream, arguments, nullptr);
    }

    /* Launches with programmatic dependent launch. */
    CUresult launch_early(const char *name, unsigned grid, unsigned block, test_params params)
    {
        void *arguments[] = {&params};
        CUlaunchAttribute attribute = {};
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        CUlaunchConfig config = {};
        config.gridDimX = grid;
        config.blockDimX = block;
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
        config.hStream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        return cuLaunchKernelEx(&config, function(name), arguments, nullptr);
    }

    CUresult run_clusters(const char *name, unsigned grid, unsigned cluster, unsigned block, unsigned shared, test_params params)
    {
        void *arguments[] = {&params};
        CUlaunchAttribute attribute = {};
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = cluster;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        CUlaunchConfig config = {};
        config.gridDimX = grid;
        config.blockDimX = block;
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
        config.sharedMemBytes = shared;
        config.hStream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        const CUresult launched = cuLaunchKernelEx(&config, function(name), arguments, nullptr);
        const CUresult done = cuStreamSynchronize(stream);
        return launched != CUDA_SUCCESS ? launched : done;
    }

    CUresult run(const char *name, unsigned grid, unsigned block, unsigned shared, test_params params)
    {
        const CUresult launched = launch(name, grid, block, shared, params);
        const CUresult done = cuStreamSynchronize(stream);
        return launched != CUDA_SUCCESS ? launched : done;
    }
};

void test_machine();
void test_clusters(bool watches_races);
void test_mistakes();
void test_races(); /* for kernels compiled to report their accesses */
void test_driver();
void measure();

#endif
