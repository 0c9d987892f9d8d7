/* The public interop functions (include/raggedvit/cuda.h). */
#include <raggedvit/cuda.h>

#include "backend_cuda/cu.h"
#include "core/base/entry.h"
#include "core/base/os.h"

rvit_status rvit_cuda_device_create(void *context, const rvit_allocator *allocator, rvit_device **out_device)
{
    RVIT_ENTRY;
    RVIT_SIGNALS_BLOCKED;
    if (out_device == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_device_create: out_device is NULL");
    if (allocator != NULL && (allocator->allocate == NULL || allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_device_create: allocator needs both allocate and release");
    const rvit_cu_driver *driver = NULL;
    RVIT_TRY(rvit_cu_driver_open(&driver));
    CUcontext current = context;
    if (current == NULL)
        RVIT_CU_TRY(driver, cuCtxGetCurrent, (&current));
    if (current == NULL)
        return rvit_fail(RVIT_UNAVAILABLE, "rvit_cuda_device_create: the calling thread has no current context");
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, allocator);
    rvit_device *device = NULL;
    RVIT_TRY(rvit_cu_device_create_on(current, &alloc, &device));
    device->api = &rvit_backend_cuda;
    atomic_init(&device->references, 1);
    *out_device = device;
    return RVIT_OK;
}

static rvit_status check_backend(const char *function, const char *what, const rvit_device *device)
{
    if (device == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
    if (device->api != &rvit_backend_cuda)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s does not belong to the CUDA backend", function, what);
    return RVIT_OK;
}

rvit_status rvit_cuda_device_context(const rvit_device *device, void **out_context)
{
    RVIT_ENTRY;
    RVIT_TRY(check_backend("rvit_cuda_device_context", "device", device));
    if (out_context == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_device_context: out_context is NULL");
    *out_context = rvit_cu_device_of(device)->context;
    return RVIT_OK;
}

rvit_status rvit_cuda_stream_set_workspace(rvit_stream *stream, void *address, int64_t size)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_cuda_stream_set_workspace";
    RVIT_TRY(check_backend(function, "stream", stream == NULL ? NULL : stream->device));
    if (!stream->wrapped)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream is not a wrapped one", function);
    if (size < 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected at least 0", function, (long long)size);
    if (size != 0 && (address == NULL || (uintptr_t)address % 16 != 0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: address is %p, expected a multiple of 16", function, address);
    ((rvit_cu_stream *)stream)->queue.caller_workspace = (rvit_cu_scratch){(CUdeviceptr)(uintptr_t)address, (size_t)size};
    return RVIT_OK;
}

int64_t rvit_cuda_workspace_size(int32_t n_images, int64_t rows)
{
    if (n_images < 0 || rows < 0)
        return 0;
    return (int64_t)rvit_cu_layout_size(n_images) + rows * (int64_t)sizeof(unsigned long long);
}
