/* Buffers. Mapped ones are pinned host memory that kernels access directly. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_allocate(const rvit_cu_device *device, size_t size, CUdeviceptr *out_pointer)
{
    const CUresult result = device->driver->cuMemAlloc(out_pointer, size);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return rvit_device_no_memory(&device->base, "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)", (int64_t)size);
    return result == CUDA_SUCCESS ? RVIT_OK : rvit_cu_fail(device->driver, result, "cuMemAlloc");
}

static rvit_status open_memory(rvit_cu_device *device, rvit_cu_buffer *buffer, int64_t size, rvit_buffer_type type)
{
    const rvit_cu_driver *driver = device->driver;
    if (type == RVIT_BUFFER_DEVICE)
        return rvit_cu_allocate(device, (size_t)size, &buffer->pointer);
    const CUresult result = driver->cuMemHostAlloc(&buffer->base.host, (size_t)size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (%d): no %lld bytes of pinned memory",
                         (int)result, (long long)size);
    if (result != CUDA_SUCCESS)
        return rvit_cu_fail(driver, result, "cuMemHostAlloc");
    const CUresult mapped = driver->cuMemHostGetDevicePointer(&buffer->pointer, buffer->base.host, 0);
    if (mapped != CUDA_SUCCESS) {
        (void)driver->cuMemFreeHost(buffer->base.host);
        buffer->base.host = NULL;
        return rvit_cu_fail(driver, mapped, "cuMemHostGetDevicePointer");
    }
    return RVIT_OK;
}

rvit_status rvit_cu_buffer_create(rvit_device *base, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer)
{
    rvit_cu_device *device = rvit_cu_device_of(base);
    rvit_cu_buffer *buffer = rvit_alloc_new(&base->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    int entered = 0;
    rvit_status status = rvit_cu_enter(device, &entered);
    if (status == RVIT_OK)
        status = open_memory(device, buffer, size, type);
    rvit_cu_leave(device, entered);
    if (status != RVIT_OK) {
        rvit_alloc_free(&base->alloc, buffer);
        return status;
    }
    rvit_cu_buffer_point(buffer, buffer->pointer);
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

void rvit_cu_buffer_destroy(rvit_buffer *base)
{
    rvit_cu_buffer *buffer = (rvit_cu_buffer *)base;
    rvit_cu_device *device = rvit_cu_device_of(base->device);
    int entered = 0;
    if (!buffer->external && rvit_cu_enter(device, &entered) == RVIT_OK) {
        if (base->host != NULL)
            (void)device->driver->cuMemFreeHost(base->host);
        else
            (void)device->driver->cuMemFree(buffer->pointer);
        if (buffer->memory != NULL)
            (void)device->driver->cuDestroyExternalMemory(buffer->memory);
        rvit_cu_leave(device, entered);
    }
    rvit_alloc_free(&base->device->alloc, buffer);
}
