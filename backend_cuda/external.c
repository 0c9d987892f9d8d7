/* Memory and semaphores that other APIs export by file descriptor (include/raggedvit/cuda.h). */
#include <fcntl.h>
#include <unistd.h>

#include <raggedvit/cuda.h>

#include "backend_cuda/cu.h"
#include "core/base/entry.h"

struct rvit_cuda_semaphore {
    rvit_cu_device *device;
    CUexternalSemaphore handle;
};

/* Duplicates fd, because the driver takes over the descriptor that it imports. The caller keeps fd until the import has succeeded. */
static rvit_status copy_fd(const char *function, int fd, int *out_copy)
{
    *out_copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*out_copy < 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "%s: fd is %d, which cannot be duplicated: it is not open, or the process has too many descriptors", function, fd);
    return RVIT_OK;
}

/* Drivers differ in the result they give for a wrong kind of descriptor. */
static rvit_status import_failed(const rvit_cu_driver *driver, CUresult result, const char *call, int fd)
{
    const char *name = NULL;
    if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_UNKNOWN &&
        result != CUDA_ERROR_OPERATING_SYSTEM)
        return rvit_cu_fail(driver, result, call);
    (void)driver->cuGetErrorName(result, &name);
    return rvit_fail(RVIT_INVALID_ARGUMENT, "%s failed: %s: fd %d is not a matching export, or belongs to another device", call,
                     name != NULL ? name : "unknown result", fd);
}

/* Needs the device's context to be current. */
static rvit_status map_memory(const rvit_cu_device *device, int fd, int64_t memory_size, int64_t offset, int64_t size,
                              rvit_cu_buffer *buffer)
{
    const rvit_cu_driver *driver = device->driver;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = (unsigned long long)memory_size};
    RVIT_TRY(copy_fd("rvit_cuda_buffer_import", fd, &desc.handle.fd));
    CUresult result = driver->cuImportExternalMemory(&buffer->memory, &desc);
    if (result != CUDA_SUCCESS) {
        (void)close(desc.handle.fd);
        return import_failed(driver, result, "cuImportExternalMemory", fd);
    }
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC range = {.offset = (unsigned long long)offset, .size = (unsigned long long)size};
    result = driver->cuExternalMemoryGetMappedBuffer(&buffer->pointer, buffer->memory, &range);
    if (result != CUDA_SUCCESS) {
        (void)driver->cuDestroyExternalMemory(buffer->memory);
        return rvit_cu_fail(driver, result, "cuExternalMemoryGetMappedBuffer");
    }
    rvit_cu_buffer_point(buffer, buffer->pointer);
    (void)close(fd);
    return RVIT_OK;
}

rvit_status rvit_cuda_buffer_import(rvit_device *device, int32_t fd, int64_t memory_size, int64_t offset, int64_t size,
                                    rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_cuda_buffer_import";
    RVIT_TRY(rvit_check_owner(function, "device", device, RVIT_BACKEND_CUDA));
    if (out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: out_buffer is NULL", function);
    if (offset < 0 || offset % 256 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: offset is %lld, expected a multiple of 256", function, (long long)offset);
    if (size < 1 || memory_size < offset || size > memory_size - offset)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld at offset %lld, expected at least 1 and an end within memory_size, %lld",
                         function, (long long)size, (long long)offset, (long long)memory_size);
    rvit_cu_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    const rvit_cu_device *cu = rvit_cu_device_of(device);
    int entered = 0;
    rvit_status status = rvit_cu_enter(cu, &entered);
    if (status == RVIT_OK)
        status = map_memory(cu, fd, memory_size, offset, size, buffer);
    rvit_cu_leave(cu, entered);
    if (status != RVIT_OK) {
        rvit_alloc_free(&device->alloc, buffer);
        return status;
    }
    buffer->base.device = device;
    buffer->base.size = size;
    buffer->base.type = RVIT_BUFFER_DEVICE;
    rvit_device_retain(device);
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

/* Needs the device's context to be current. */
static rvit_status open_semaphore(const rvit_cu_device *device, int fd, int timeline, rvit_cuda_semaphore *semaphore)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {.type = timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
                                                                 : CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD};
    RVIT_TRY(copy_fd("rvit_cuda_semaphore_import", fd, &desc.handle.fd));
    const CUresult result = device->driver->cuImportExternalSemaphore(&semaphore->handle, &desc);
    if (result != CUDA_SUCCESS) {
        (void)close(desc.handle.fd);
        return import_failed(device->driver, result, "cuImportExternalSemaphore", fd);
    }
    (void)close(fd);
    return RVIT_OK;
}

rvit_status rvit_cuda_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline, rvit_cuda_semaphore **out_semaphore)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_cuda_semaphore_import";
    RVIT_TRY(rvit_check_owner(function, "device", device, RVIT_BACKEND_CUDA));
    if (out_semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: out_semaphore is NULL", function);
    if (timeline < 0 || timeline > 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: timeline is %d, expected 0 or 1", function, (int)timeline);
    rvit_cuda_semaphore *semaphore = rvit_alloc_new(&device->alloc, sizeof *semaphore);
    RVIT_TRY_MEMORY(semaphore);
    semaphore->device = rvit_cu_device_of(device);
    int entered = 0;
    rvit_status status = rvit_cu_enter(semaphore->device, &entered);
    if (status == RVIT_OK)
        status = open_semaphore(semaphore->device, fd, timeline, semaphore);
    rvit_cu_leave(semaphore->device, entered);
    if (status != RVIT_OK) {
        rvit_alloc_free(&device->alloc, semaphore);
        return status;
    }
    rvit_device_retain(device);
    *out_semaphore = semaphore;
    return RVIT_OK;
}

void rvit_cuda_semaphore_destroy(rvit_cuda_semaphore *semaphore)
{
    RVIT_ENTRY;
    if (semaphore == NULL)
        return;
    rvit_cu_device *device = semaphore->device;
    int entered = 0;
    if (rvit_cu_enter(device, &entered) == RVIT_OK) {
        (void)device->driver->cuDestroyExternalSemaphore(semaphore->handle);
        rvit_cu_leave(device, entered);
    }
    rvit_alloc_free(&device->base.alloc, semaphore);
    rvit_device_destroy(&device->base);
}

static rvit_status check_use(const char *function, const rvit_stream *stream, const rvit_cuda_semaphore *semaphore)
{
    if (stream == NULL || semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream or semaphore is NULL", function);
    if (stream->device != &semaphore->device->base)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream and semaphore belong to different devices", function);
    if (stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: the stream is recording", function);
    return RVIT_OK;
}

rvit_status rvit_cuda_stream_wait(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value)
{
    RVIT_ENTRY;
    RVIT_TRY(check_use("rvit_cuda_stream_wait", stream, semaphore));
    const rvit_cu_driver *driver = semaphore->device->driver;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = value};
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(semaphore->device, &entered));
    const CUresult result =
        driver->cuWaitExternalSemaphoresAsync(&semaphore->handle, &params, 1, ((const rvit_cu_stream *)stream)->queue.stream);
    rvit_cu_leave(semaphore->device, entered);
    return result == CUDA_SUCCESS ? RVIT_OK : rvit_cu_fail(driver, result, "cuWaitExternalSemaphoresAsync");
}

rvit_status rvit_cuda_stream_signal(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value)
{
    RVIT_ENTRY;
    RVIT_TRY(check_use("rvit_cuda_stream_signal", stream, semaphore));
    const rvit_cu_driver *driver = semaphore->device->driver;
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(semaphore->device, &entered));
    const CUresult result =
        driver->cuSignalExternalSemaphoresAsync(&semaphore->handle, &params, 1, ((const rvit_cu_stream *)stream)->queue.stream);
    rvit_cu_leave(semaphore->device, entered);
    return result == CUDA_SUCCESS ? RVIT_OK : rvit_cu_fail(driver, result, "cuSignalExternalSemaphoresAsync");
}
