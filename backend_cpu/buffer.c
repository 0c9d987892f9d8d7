/* Buffers of every type are host memory. */
#include "backend_cpu/cpu.h"

static void point(rvit_buffer *buffer, void *host)
{
    buffer->memory = RVIT_ADDRESS_SPACE;
    buffer->address = (uint64_t)(uintptr_t)host;
}

rvit_status rvit_cpu_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer)
{
    rvit_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    void *memory = (uint64_t)size > SIZE_MAX ? NULL : rvit_alloc_new(&device->alloc, (size_t)size);
    if (memory == NULL) {
        rvit_alloc_free(&device->alloc, buffer);
        return rvit_fail(RVIT_OUT_OF_DEVICE_MEMORY, "no memory for a buffer of %lld bytes: %s", (long long)size,
                         (uint64_t)size > SIZE_MAX ? "more than the address space" : rvit_status_detail());
    }
    buffer->host = type == RVIT_BUFFER_DEVICE ? NULL : memory;
    point(buffer, memory);
    *out_buffer = buffer;
    return RVIT_OK;
}

void rvit_cpu_buffer_destroy(rvit_buffer *buffer)
{
    rvit_alloc *alloc = &buffer->device->alloc;
    if (!buffer->wrapped)
        rvit_alloc_free(alloc, (void *)(uintptr_t)buffer->address);
    rvit_alloc_free(alloc, buffer);
}

rvit_status rvit_cpu_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer)
{
    rvit_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    point(buffer, memory->address);
    buffer->size = memory->size;
    buffer->wrapped = 1;
    *out_buffer = buffer;
    return RVIT_OK;
}
