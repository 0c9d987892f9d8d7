/* Uses the driver through its documented ABI; needs no CUDA header or library to build or run. */
#include "clock.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct functions {
    int (*cuInit)(unsigned);
    int (*cuDeviceGet)(int *, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuDevicePrimaryCtxRelease)(int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamDestroy)(void *);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamBeginCapture)(void *, int);
    int (*cuStreamEndCapture)(void *, void **);
    int (*cuEventCreate)(void **, unsigned);
    int (*cuEventDestroy)(void *);
    int (*cuEventRecord)(void *, void *);
    int (*cuEventSynchronize)(void *);
    int (*cuEventElapsedTime)(float *, void *, void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuModuleUnload)(void *);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long);
    int (*cuGraphLaunch)(void *, void *);
    int (*cuGraphDestroy)(void *);
    int (*cuGraphExecDestroy)(void *);
    int (*cuMemAlloc)(uint64_t *, size_t);
    int (*cuMemFree)(uint64_t);
    int (*cuMemcpyDtoDAsync)(uint64_t, uint64_t, size_t, void *);
} functions;

struct cuda_clock {
    void *library;
    functions cu;
    void *context, *stream, *event[2];
    void *module, *kernel, *graph, *executable;
    int device;
};

enum { STREAM_NON_BLOCKING = 1, CAPTURE_THREAD_LOCAL = 1 };

static const char EMPTY_KERNEL[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty_kernel()\n{\nret;\n}\n";

static void *symbol(void *library, const char *name)
{
    char versioned[64];
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    void *found = dlsym(library, versioned);
    return found != NULL ? found : dlsym(library, name);
}

static int load(cuda_clock *c, const char **reason)
{
    c->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (c->library == NULL) {
        *reason = "libcuda.so.1 cannot be opened";
        return 0;
    }
/* POSIX allows casting a pointer from dlsym to a function pointer. */
#define LOAD(name)                                                 \
    do {                                                           \
        *(void **)(void *)&c->cu.name = symbol(c->library, #name); \
        if (*(void **)(void *)&c->cu.name == NULL) {               \
            *reason = "the driver lacks " #name;                   \
            return 0;                                              \
        }                                                          \
    } while (0)
    LOAD(cuInit);
    LOAD(cuDeviceGet);
    LOAD(cuDevicePrimaryCtxRetain);
    LOAD(cuDevicePrimaryCtxRelease);
    LOAD(cuCtxSetCurrent);
    LOAD(cuStreamCreate);
    LOAD(cuStreamDestroy);
    LOAD(cuStreamSynchronize);
    LOAD(cuStreamBeginCapture);
    LOAD(cuStreamEndCapture);
    LOAD(cuEventCreate);
    LOAD(cuEventDestroy);
    LOAD(cuEventRecord);
    LOAD(cuEventSynchronize);
    LOAD(cuEventElapsedTime);
    LOAD(cuModuleLoadData);
    LOAD(cuModuleGetFunction);
    LOAD(cuModuleUnload);
    LOAD(cuLaunchKernel);
    LOAD(cuGraphInstantiateWithFlags);
    LOAD(cuGraphLaunch);
    LOAD(cuGraphDestroy);
    LOAD(cuGraphExecDestroy);
    LOAD(cuMemAlloc);
    LOAD(cuMemFree);
    LOAD(cuMemcpyDtoDAsync);
#undef LOAD
    return 1;
}

static void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "bench: %s: CUDA error %d\n", what, result);
    exit(1);
}

cuda_clock *cuda_clock_open(const char **reason)
{
    cuda_clock *c = calloc(1, sizeof *c);
    if (!load(c, reason)) {
        free(c);
        return NULL;
    }
    if (c->cu.cuInit(0) != 0 || c->cu.cuDeviceGet(&c->device, 0) != 0) {
        *reason = "the driver finds no device";
        free(c);
        return NULL;
    }
    check(c->cu.cuDevicePrimaryCtxRetain(&c->context, c->device), "cuDevicePrimaryCtxRetain");
    check(c->cu.cuCtxSetCurrent(c->context), "cuCtxSetCurrent");
    check(c->cu.cuStreamCreate(&c->stream, STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < 2; i++)
        check(c->cu.cuEventCreate(&c->event[i], 0), "cuEventCreate");
    return c;
}

void cuda_clock_close(cuda_clock *c)
{
    if (c == NULL)
        return;
    check(c->cu.cuStreamSynchronize(c->stream), "cuStreamSynchronize");
    if (c->executable != NULL)
        check(c->cu.cuGraphExecDestroy(c->executable), "cuGraphExecDestroy");
    if (c->graph != NULL)
        check(c->cu.cuGraphDestroy(c->graph), "cuGraphDestroy");
    if (c->module != NULL)
        check(c->cu.cuModuleUnload(c->module), "cuModuleUnload");
    for (int i = 0; i < 2; i++)
        check(c->cu.cuEventDestroy(c->event[i]), "cuEventDestroy");
    check(c->cu.cuStreamDestroy(c->stream), "cuStreamDestroy");
    check(c->cu.cuDevicePrimaryCtxRelease(c->device), "cuDevicePrimaryCtxRelease");
    free(c);
}

void *cuda_clock_context(const cuda_clock *c)
{
    return c->context;
}

void *cuda_clock_stream(const cuda_clock *c)
{
    return c->stream;
}

void cuda_clock_drain(void *user)
{
    cuda_clock *c = user;
    check(c->cu.cuStreamSynchronize(c->stream), "cuStreamSynchronize");
}

double cuda_clock_gpu(cuda_clock *c, const timed *work, int n)
{
    float milliseconds = 0;
    check(c->cu.cuEventRecord(c->event[0], c->stream), "cuEventRecord");
    for (int i = 0; i < n; i++)
        work->call(work->user);
    check(c->cu.cuEventRecord(c->event[1], c->stream), "cuEventRecord");
    check(c->cu.cuEventSynchronize(c->event[1]), "cuEventSynchronize");
    check(c->cu.cuEventElapsedTime(&milliseconds, c->event[0], c->event[1]), "cuEventElapsedTime");
    return 1e-3 * (double)milliseconds / n;
}

static void launch_empty(void *user)
{
    cuda_clock *c = user;
    check(c->cu.cuLaunchKernel(c->kernel, 1, 1, 1, 32, 1, 1, 0, c->stream, NULL, NULL), "cuLaunchKernel");
}

static void launch_empty_graph(void *user)
{
    cuda_clock *c = user;
    check(c->cu.cuGraphLaunch(c->executable, c->stream), "cuGraphLaunch");
}

cuda_floor cuda_clock_floor(cuda_clock *c)
{
    if (c->module == NULL && c->cu.cuModuleLoadData(&c->module, EMPTY_KERNEL) != 0)
        return (cuda_floor){NULL, NULL, "the driver does not compile the empty kernel"};
    if (c->kernel == NULL && c->cu.cuModuleGetFunction(&c->kernel, c->module, "empty_kernel") != 0)
        return (cuda_floor){NULL, NULL, "the driver does not find the empty kernel"};
    if (c->executable == NULL) {
        check(c->cu.cuStreamBeginCapture(c->stream, CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
        launch_empty(c);
        check(c->cu.cuStreamEndCapture(c->stream, &c->graph), "cuStreamEndCapture");
        check(c->cu.cuGraphInstantiateWithFlags(&c->executable, c->graph, 0), "cuGraphInstantiateWithFlags");
    }
    return (cuda_floor){launch_empty, launch_empty_graph, NULL};
}

typedef struct copy {
    cuda_clock *clock;
    uint64_t source, target;
    size_t size;
} copy;

static void enqueue_copy(void *user)
{
    const copy *job = user;
    check(job->clock->cu.cuMemcpyDtoDAsync(job->target, job->source, job->size, job->clock->stream), "cuMemcpyDtoDAsync");
}

double cuda_clock_copy(cuda_clock *c, long long size)
{
    copy job = {c, 0, 0, (size_t)size};
    double best = 0;
    if (c->cu.cuMemAlloc(&job.source, job.size) == 0 && c->cu.cuMemAlloc(&job.target, job.size) == 0) {
        const timed work = {enqueue_copy, cuda_clock_drain, &job};
        for (int i = 0; i < 5; i++) {
            const double took = cuda_clock_gpu(c, &work, 4);
            if (i > 0 && (best == 0 || took < best))
                best = took;
        }
    }
    if (job.source != 0)
        check(c->cu.cuMemFree(job.source), "cuMemFree");
    if (job.target != 0)
        check(c->cu.cuMemFree(job.target), "cuMemFree");
    return best > 0 ? 2.0 * (double)size / best : 0;
}
