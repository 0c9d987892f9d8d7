/* The public interop functions (include/raggedvit/cuda.h). */
#include <raggedvit/cuda.h>

#include "backend_cuda/cu.h"
#include "core/base/entry.h"
#include "core/base/process.h"

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

rvit_status rvit_cuda_device_context(const rvit_device *device, void **out_context)
{
    RVIT_ENTRY;
    RVIT_TRY(rvit_check_owner("rvit_cuda_device_context", "device", device, RVIT_BACKEND_CUDA));
    if (out_context == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_device_context: out_context is NULL");
    *out_context = rvit_cu_device_of(device)->context;
    return RVIT_OK;
}

rvit_status rvit_cuda_stream_wrap(rvit_device *device, void *cu_stream, rvit_stream **out_stream)
{
    RVIT_ENTRY;
    RVIT_TRY(rvit_check_owner("rvit_cuda_stream_wrap", "device", device, RVIT_BACKEND_CUDA));
    if (out_stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_stream_wrap: out_stream is NULL");
    rvit_cu_stream *stream = rvit_alloc_new(&device->alloc, sizeof *stream);
    RVIT_TRY_MEMORY(stream);
    stream->queue.device = rvit_cu_device_of(device);
    stream->queue.stream = cu_stream;
    stream->external = 1;
    stream->base.device = device;
    rvit_device_retain(device);
    *out_stream = &stream->base;
    return RVIT_OK;
}

static rvit_status check_stream(const char *function, const rvit_stream *stream)
{
    return rvit_check_owner(function, "stream", stream == NULL ? NULL : stream->device, RVIT_BACKEND_CUDA);
}

rvit_status rvit_cuda_stream_set(rvit_stream *base, void *cu_stream)
{
    RVIT_ENTRY;
    RVIT_TRY(check_stream("rvit_cuda_stream_set", base));
    rvit_cu_stream *stream = (rvit_cu_stream *)base;
    if (!stream->external)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_stream_set: stream is not a wrapped one");
    if (base->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_stream_set: stream is recording");
    stream->queue.stream = cu_stream;
    return RVIT_OK;
}

static rvit_status check_memory(const char *function, uint64_t address, int64_t size)
{
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected at least 1", function, (long long)size);
    if (address == 0 || address % 16 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: address is 0x%llx, expected a multiple of 16", function, (unsigned long long)address);
    return RVIT_OK;
}

rvit_status rvit_cuda_stream_set_workspace(rvit_stream *base, uint64_t address, int64_t size)
{
    RVIT_ENTRY;
    RVIT_TRY(check_stream("rvit_cuda_stream_set_workspace", base));
    rvit_cu_stream *stream = (rvit_cu_stream *)base;
    if (!stream->external)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_stream_set_workspace: stream is not a wrapped one");
    if (size != 0)
        RVIT_TRY(check_memory("rvit_cuda_stream_set_workspace", address, size));
    stream->queue.caller_workspace = (rvit_cu_scratch){(CUdeviceptr)address, (size_t)size};
    return RVIT_OK;
}

int64_t rvit_cuda_select_workspace(int32_t n_images, int64_t rows)
{
    if (n_images < 0 || rows < 0)
        return 0;
    return (int64_t)rvit_cu_layout_size(n_images) + rows * (int64_t)sizeof(unsigned long long);
}

rvit_status rvit_cuda_stream_handle(const rvit_stream *stream, void **out_cu_stream)
{
    RVIT_ENTRY;
    RVIT_TRY(check_stream("rvit_cuda_stream_handle", stream));
    if (out_cu_stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_stream_handle: out_cu_stream is NULL");
    *out_cu_stream = ((const rvit_cu_stream *)stream)->queue.stream;
    return RVIT_OK;
}

/* Checks that the device's context can access the memory. */
static rvit_status check_reach(const rvit_cu_device *device, uint64_t address)
{
    CUcontext context = NULL;
    unsigned type = 0;
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(device, &entered));
    CUresult result = device->driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)address);
    if (result == CUDA_SUCCESS)
        result = device->driver->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)address);
    rvit_cu_leave(device, entered);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_buffer_wrap: address 0x%llx is unknown to the driver",
                         (unsigned long long)address);
    if (result != CUDA_SUCCESS)
        return rvit_cu_fail(device->driver, result, "cuPointerGetAttribute");
    /* Every context can access host memory; pool memory has no context. */
    if (type == CU_MEMORYTYPE_DEVICE && context != NULL && context != device->context)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_buffer_wrap: address 0x%llx belongs to another context",
                         (unsigned long long)address);
    return RVIT_OK;
}

rvit_status rvit_cuda_buffer_wrap(rvit_device *device, uint64_t address, int64_t size, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    RVIT_TRY(rvit_check_owner("rvit_cuda_buffer_wrap", "device", device, RVIT_BACKEND_CUDA));
    if (out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_buffer_wrap: out_buffer is NULL");
    RVIT_TRY(check_memory("rvit_cuda_buffer_wrap", address, size));
    RVIT_TRY(check_reach(rvit_cu_device_of(device), address));
    rvit_cu_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    buffer->base.device = device;
    buffer->base.size = size;
    buffer->base.type = RVIT_BUFFER_DEVICE;
    rvit_cu_buffer_point(buffer, (CUdeviceptr)address);
    buffer->external = 1;
    rvit_device_retain(device);
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

static rvit_status check_buffer(const char *function, const rvit_buffer *buffer)
{
    return rvit_check_owner(function, "buffer", buffer == NULL ? NULL : buffer->device, RVIT_BACKEND_CUDA);
}

rvit_status rvit_cuda_buffer_set(rvit_buffer *base, uint64_t address, int64_t size)
{
    RVIT_ENTRY;
    RVIT_TRY(check_buffer("rvit_cuda_buffer_set", base));
    RVIT_TRY(check_memory("rvit_cuda_buffer_set", address, size));
    rvit_cu_buffer *buffer = (rvit_cu_buffer *)base;
    if (!buffer->external)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_buffer_set: buffer is not a wrapped one");
    rvit_cu_buffer_point(buffer, (CUdeviceptr)address);
    base->size = size;
    return RVIT_OK;
}

rvit_status rvit_cuda_buffer_address(const rvit_buffer *buffer, uint64_t *out_address)
{
    RVIT_ENTRY;
    RVIT_TRY(check_buffer("rvit_cuda_buffer_address", buffer));
    if (out_address == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_cuda_buffer_address: out_address is NULL");
    *out_address = (uint64_t)((const rvit_cu_buffer *)buffer)->pointer;
    return RVIT_OK;
}
