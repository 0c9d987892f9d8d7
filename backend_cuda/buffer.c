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
    CUdeviceptr pointer = 0;
    if (type == RVIT_BUFFER_DEVICE) {
        RVIT_TRY(rvit_cu_allocate(device, (size_t)size, &pointer));
        buffer->base.address = pointer;
        return RVIT_OK;
    }
    const CUresult result = driver->cuMemHostAlloc(&buffer->base.host, (size_t)size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (%d): no %lld bytes of pinned memory",
                         (int)result, (long long)size);
    if (result != CUDA_SUCCESS)
        return rvit_cu_fail(driver, result, "cuMemHostAlloc");
    const CUresult mapped = driver->cuMemHostGetDevicePointer(&pointer, buffer->base.host, 0);
    if (mapped != CUDA_SUCCESS) {
        (void)driver->cuMemFreeHost(buffer->base.host);
        buffer->base.host = NULL;
        return rvit_cu_fail(driver, mapped, "cuMemHostGetDevicePointer");
    }
    buffer->base.address = pointer;
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
    buffer->base.memory = RVIT_ADDRESS_SPACE;
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

void rvit_cu_buffer_destroy(rvit_buffer *base)
{
    rvit_cu_buffer *buffer = (rvit_cu_buffer *)base;
    rvit_cu_device *device = rvit_cu_device_of(base->device);
    int entered = 0;
    if (!base->wrapped && rvit_cu_enter(device, &entered) == RVIT_OK) {
        if (base->host != NULL)
            (void)device->driver->cuMemFreeHost(base->host);
        else
            (void)device->driver->cuMemFree((CUdeviceptr)base->address);
        if (buffer->external != NULL)
            (void)device->driver->cuDestroyExternalMemory(buffer->external);
        rvit_cu_leave(device, entered);
    }
    rvit_alloc_free(&base->device->alloc, buffer);
}

/* Checks that kernels can access the address. Needs the device's context to be current. */
static rvit_status check_reach(const rvit_cu_device *device, uint64_t address)
{
    CUcontext context = NULL;
    unsigned type = 0;
    CUresult result = device->driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)address);
    if (result == CUDA_SUCCESS)
        result = device->driver->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)address);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: address 0x%llx is in no memory the driver knows",
                         (unsigned long long)address);
    if (result != CUDA_SUCCESS)
        return rvit_cu_fail(device->driver, result, "cuPointerGetAttribute");
    /* Every context can access host memory. Memory of a pool belongs to no context. */
    if (type == CU_MEMORYTYPE_DEVICE && context != NULL && context != device->context)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: address 0x%llx is in memory of another context", (unsigned long long)address);
    return RVIT_OK;
}

static rvit_status wrap(const rvit_cu_device *device, const rvit_memory_desc *memory, rvit_cu_buffer *buffer)
{
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(device, &entered));
    rvit_status status = RVIT_OK;
    if (memory->type == RVIT_MEMORY_EXTERNAL) {
        status = rvit_cu_import_memory(device, memory->external, memory->size, buffer);
    } else {
        status = check_reach(device, (uint64_t)(uintptr_t)memory->address);
        buffer->base.address = (uint64_t)(uintptr_t)memory->address;
        buffer->base.wrapped = 1;
    }
    rvit_cu_leave(device, entered);
    return status;
}

rvit_status rvit_cu_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer)
{
    rvit_cu_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    buffer->base.size = memory->size;
    buffer->base.memory = RVIT_ADDRESS_SPACE;
    const rvit_status status = wrap(rvit_cu_device_of(device), memory, buffer);
    if (status != RVIT_OK) {
        rvit_alloc_free(&device->alloc, buffer);
        return status;
    }
    *out_buffer = &buffer->base;
    return RVIT_OK;
}
