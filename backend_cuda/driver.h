/* The CUDA driver API, opened at run time: nothing links to libcuda. */
#ifndef RVIT_CU_DRIVER_H
#define RVIT_CU_DRIVER_H

#include <cuda.h>

#include "core/base/status.h"

#if CUDA_VERSION < 12000
CUresult cuCtxGetId(CUcontext context, unsigned long long *id);
#endif

/* Every driver function that the backend calls. cuda.h maps some names to versioned ones. The table is filled with the mapped names, and
   calls through it (driver->cuMemAlloc) are mapped the same way. */
#define RVIT_CU_FUNCTIONS(X)           \
    X(cuInit)                          \
    X(cuDriverGetVersion)              \
    X(cuGetErrorName)                  \
    X(cuGetErrorString)                \
    X(cuDeviceGetCount)                \
    X(cuDeviceGet)                     \
    X(cuDeviceGetName)                 \
    X(cuDeviceGetAttribute)            \
    X(cuDeviceGetUuid)                 \
    X(cuDeviceGetPCIBusId)             \
    X(cuDeviceTotalMem)                \
    X(cuDevicePrimaryCtxRetain)        \
    X(cuDevicePrimaryCtxRelease)       \
    X(cuCtxGetCurrent)                 \
    X(cuCtxGetDevice)                  \
    X(cuCtxPushCurrent)                \
    X(cuCtxPopCurrent)                 \
    X(cuModuleLoadData)                \
    X(cuModuleUnload)                  \
    X(cuModuleGetFunction)             \
    X(cuFuncGetAttribute)              \
    X(cuFuncSetAttribute)              \
    X(cuLaunchKernel)                  \
    X(cuMemAlloc)                      \
    X(cuMemFree)                       \
    X(cuMemGetInfo)                    \
    X(cuMemHostAlloc)                  \
    X(cuMemFreeHost)                   \
    X(cuMemHostGetDevicePointer)       \
    X(cuMemcpyAsync)                   \
    X(cuMemsetD8Async)                 \
    X(cuPointerGetAttribute)           \
    X(cuStreamCreate)                  \
    X(cuStreamDestroy)                 \
    X(cuStreamSynchronize)             \
    X(cuStreamIsCapturing)             \
    X(cuStreamBeginCapture)            \
    X(cuStreamEndCapture)              \
    X(cuEventCreate)                   \
    X(cuEventDestroy)                  \
    X(cuEventRecord)                   \
    X(cuEventSynchronize)              \
    X(cuGraphInstantiateWithFlags)     \
    X(cuGraphUpload)                   \
    X(cuGraphLaunch)                   \
    X(cuGraphDestroy)                  \
    X(cuGraphExecDestroy)              \
    X(cuImportExternalMemory)          \
    X(cuExternalMemoryGetMappedBuffer) \
    X(cuDestroyExternalMemory)         \
    X(cuImportExternalSemaphore)       \
    X(cuWaitExternalSemaphoresAsync)   \
    X(cuSignalExternalSemaphoresAsync) \
    X(cuDestroyExternalSemaphore)

/* Functions of newer drivers, or NULL: programmatic dependent launch (queue.c), context ids (device.c), updates of graph kernel nodes
   (nodes.c). */
#if CUDA_VERSION >= 13000
#define RVIT_CU_LATER_FUNCTIONS(X) \
    X(cuLaunchKernelEx)            \
    X(cuCtxGetId)                  \
    X(cuStreamGetCaptureInfo)      \
    X(cuGraphExecKernelNodeSetParams)
#else
#define RVIT_CU_LATER_FUNCTIONS(X) \
    X(cuLaunchKernelEx)            \
    X(cuCtxGetId)
#endif

/* Tensor maps for TMA (attention.c, linear_hopper.c). */
#if CUDA_VERSION >= 12000
#define RVIT_CU_MAP_FUNCTIONS(X) X(cuTensorMapEncodeTiled)
#else
#define RVIT_CU_MAP_FUNCTIONS(X)
#endif

#define RVIT_CU_DECLARE(name) __typeof__(name) *name;
typedef struct rvit_cu_driver {
    RVIT_CU_FUNCTIONS(RVIT_CU_DECLARE)
    RVIT_CU_LATER_FUNCTIONS(RVIT_CU_DECLARE)
    RVIT_CU_MAP_FUNCTIONS(RVIT_CU_DECLARE)
} rvit_cu_driver;
#undef RVIT_CU_DECLARE

/* The driver. The first call opens and initialises it. UNAVAILABLE: missing, too old, or no device. */
rvit_status rvit_cu_driver_open(const rvit_cu_driver **out_driver);

/* The status for a driver result. The detail names the call and the result. */
rvit_status rvit_cu_fail(const rvit_cu_driver *driver, CUresult result, const char *call);

#define RVIT_CU_TRY(driver, call, arguments)                  \
    do {                                                      \
        const CUresult try_result = (driver)->call arguments; \
        if (try_result != CUDA_SUCCESS)                       \
            return rvit_cu_fail(driver, try_result, #call);   \
    } while (0)

#endif
