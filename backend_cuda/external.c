/* Memory and semaphores that other APIs export by file descriptor or HANDLE. */
#include "backend_cuda/cu.h"

/* Drivers differ in the result they give for a wrong kind of handle. */
static rvit_status import_failed(const rvit_cu_driver *driver, CUresult result, const char *call, intptr_t handle)
{
    const char *name = NULL;
    if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_UNKNOWN &&
        result != CUDA_ERROR_OPERATING_SYSTEM)
        return rvit_cu_fail(driver, result, call);
    (void)driver->cuGetErrorName(result, &name);
    return rvit_fail(RVIT_INVALID_ARGUMENT,
                     "%s failed: %s: " RVIT_OS_HANDLE_NAME " %lld is not a matching export, or belongs to another device", call,
                     name != NULL ? name : "unknown result", (long long)handle);
}

rvit_status rvit_cu_import_memory(const rvit_cu_device *device, const rvit_external_memory *memory, int64_t size, rvit_cu_buffer *buffer)
{
    const rvit_cu_driver *driver = device->driver;
    if (memory->offset % 256 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "external memory: offset is %lld, expected a multiple of 256", (long long)memory->offset);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = (unsigned long long)memory->size};
    intptr_t copy;
    RVIT_TRY(rvit_handle_copy("external memory", memory->handle_type, memory->handle, &copy));
    if (RVIT_OS_HANDLES_ARE_FDS) {
        desc.handle.fd = (int)copy;
    } else {
        desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
        desc.handle.win32.handle = (void *)copy;
    }
    CUresult result = driver->cuImportExternalMemory(&buffer->external, &desc);
    rvit_handle_copy_end(copy, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS)
        return import_failed(driver, result, "cuImportExternalMemory", memory->handle);
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC range = {.offset = (unsigned long long)memory->offset, .size = (unsigned long long)size};
    CUdeviceptr pointer = 0;
    result = driver->cuExternalMemoryGetMappedBuffer(&pointer, buffer->external, &range);
    if (result != CUDA_SUCCESS) {
        (void)driver->cuDestroyExternalMemory(buffer->external);
        return rvit_cu_fail(driver, result, "cuExternalMemoryGetMappedBuffer");
    }
    buffer->base.address = pointer;
    rvit_os_handle_close(memory->handle);
    return RVIT_OK;
}

/* Needs the device's context to be current. */
static rvit_status import_semaphore(const rvit_cu_device *device, const rvit_semaphore_desc *requested, uint64_t *out_native)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {.type = requested->timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
                                                                            : CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD};
    intptr_t copy;
    RVIT_TRY(rvit_handle_copy("semaphore desc", requested->handle_type, requested->handle, &copy));
    if (RVIT_OS_HANDLES_ARE_FDS) {
        desc.handle.fd = (int)copy;
    } else {
        desc.type = requested->timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32
                                        : CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32;
        desc.handle.win32.handle = (void *)copy;
    }
    CUexternalSemaphore semaphore = NULL;
    const CUresult result = device->driver->cuImportExternalSemaphore(&semaphore, &desc);
    rvit_handle_copy_end(copy, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS)
        return import_failed(device->driver, result, "cuImportExternalSemaphore", requested->handle);
    *out_native = (uint64_t)(uintptr_t)semaphore;
    rvit_os_handle_close(requested->handle);
    return RVIT_OK;
}

static CUexternalSemaphore handle_of(const rvit_semaphore *semaphore)
{
    return (CUexternalSemaphore)(uintptr_t)semaphore->native;
}

rvit_status rvit_cu_semaphore_open(rvit_semaphore *semaphore, const rvit_semaphore_desc *desc)
{
    if (desc->handle_type == RVIT_HANDLE_NONE)
        return rvit_fail(RVIT_UNSUPPORTED, "semaphore desc: CUDA devices only import semaphores, and handle_type is 0");
    const rvit_cu_device *device = rvit_cu_device_of(semaphore->device);
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(device, &entered));
    const rvit_status status = import_semaphore(device, desc, &semaphore->native);
    rvit_cu_leave(device, entered);
    return status;
}

void rvit_cu_semaphore_close(rvit_semaphore *semaphore)
{
    const rvit_cu_device *device = rvit_cu_device_of(semaphore->device);
    int entered = 0;
    if (rvit_cu_enter(device, &entered) == RVIT_OK) {
        (void)device->driver->cuDestroyExternalSemaphore(handle_of(semaphore));
        rvit_cu_leave(device, entered);
    }
}

rvit_status rvit_cu_stream_semaphore(rvit_stream *stream, const rvit_semaphore *semaphore, int signals, uint64_t value)
{
    const rvit_cu_device *device = rvit_cu_device_of(stream->device);
    const CUexternalSemaphore handle = handle_of(semaphore);
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = value};
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = value};
    CUstream const queue = ((const rvit_cu_stream *)stream)->queue.stream;
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(device, &entered));
    const CUresult result = signals ? device->driver->cuSignalExternalSemaphoresAsync(&handle, &signal, 1, queue)
                                    : device->driver->cuWaitExternalSemaphoresAsync(&handle, &wait, 1, queue);
    rvit_cu_leave(device, entered);
    return result == CUDA_SUCCESS
               ? RVIT_OK
               : rvit_cu_fail(device->driver, result, signals ? "cuSignalExternalSemaphoresAsync" : "cuWaitExternalSemaphoresAsync");
}
