/* Buffers of every type are host memory. */
#include "backend_cpu/cpu.h"

static void point(rvit_cpu_buffer *buffer, void *host)
{
    buffer->memory = host;
    buffer->base.memory = RVIT_MEMORY_POINTERS;
    buffer->base.address = (uint64_t)(uintptr_t)host;
}

rvit_status rvit_cpu_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer)
{
    rvit_cpu_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    buffer->memory = (uint64_t)size > SIZE_MAX ? NULL : rvit_alloc_new(&device->alloc, (size_t)size);
    if (buffer->memory == NULL) {
        rvit_alloc_free(&device->alloc, buffer);
        return rvit_fail(RVIT_OUT_OF_DEVICE_MEMORY, "no memory for a buffer of %lld bytes: %s", (long long)size,
                         (uint64_t)size > SIZE_MAX ? "more than the address space" : rvit_status_detail());
    }
    buffer->base.host = type == RVIT_BUFFER_DEVICE ? NULL : buffer->memory;
    point(buffer, buffer->memory);
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

void rvit_cpu_buffer_destroy(rvit_buffer *base)
{
    rvit_cpu_buffer *buffer = (rvit_cpu_buffer *)base;
    rvit_alloc *alloc = &base->device->alloc;
    if (!buffer->is_external)
        rvit_alloc_free(alloc, buffer->memory);
    rvit_alloc_free(alloc, buffer);
}

rvit_status rvit_cpu_buffer_wrap(rvit_device *device, void *host, rvit_buffer **out_buffer)
{
    rvit_cpu_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    point(buffer, host);
    buffer->is_external = 1;
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

rvit_status rvit_cpu_buffer_set(rvit_buffer *base, void *host)
{
    rvit_cpu_buffer *buffer = (rvit_cpu_buffer *)base;
    if (!buffer->is_external)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_set: buffer is the library's own, not a wrapped one");
    point(buffer, host);
    return RVIT_OK;
}
