/* The public functions of buffers. */
#include <stdint.h>

#include "core/base/entry.h"
#include "core/device/device.h"

rvit_status rvit_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    if (device == NULL || out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_create: device or out_buffer is NULL");
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_create: size is %lld, expected at least 1", (long long)size);
    if ((int)type < RVIT_BUFFER_DEVICE || type > RVIT_BUFFER_READBACK)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_create: type: %d is not a valid buffer type", (int)type);
    rvit_buffer *buffer = NULL;
    RVIT_TRY(device->api->buffer_create(device, size, type, &buffer));
    buffer->device = device;
    buffer->size = size;
    buffer->type = type;
    buffer->counted = size;
    atomic_fetch_add(&device->device_allocations, 1);
    atomic_fetch_add(&device->buffer_size[type], size);
    rvit_device_retain(device);
    *out_buffer = buffer;
    return RVIT_OK;
}

static rvit_status check_host(const char *function, const void *host, int64_t size)
{
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected at least 1", function, (long long)size);
    if (host == NULL || (uintptr_t)host % 16 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: host is %p, expected a multiple of 16", function, host);
    return RVIT_OK;
}

rvit_status rvit_buffer_wrap(rvit_device *device, void *host, int64_t size, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    if (device == NULL || out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_wrap: device or out_buffer is NULL");
    if (device->api->buffer_wrap == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_buffer_wrap: only the CPU device can wrap host memory, not %s", device->info.name);
    RVIT_TRY(check_host("rvit_buffer_wrap", host, size));
    rvit_buffer *buffer = NULL;
    RVIT_TRY(device->api->buffer_wrap(device, host, &buffer));
    buffer->device = device;
    buffer->size = size;
    buffer->type = RVIT_BUFFER_DEVICE;
    rvit_device_retain(device);
    *out_buffer = buffer;
    return RVIT_OK;
}

rvit_status rvit_buffer_set(rvit_buffer *buffer, void *host, int64_t size)
{
    RVIT_ENTRY;
    if (buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_set: buffer is NULL");
    if (buffer->device->api->buffer_set == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_buffer_set: only the CPU device can wrap host memory, not %s", buffer->device->info.name);
    RVIT_TRY(check_host("rvit_buffer_set", host, size));
    RVIT_TRY(buffer->device->api->buffer_set(buffer, host));
    buffer->size = size;
    return RVIT_OK;
}

void rvit_buffer_destroy(rvit_buffer *buffer)
{
    RVIT_ENTRY;
    if (buffer == NULL)
        return;
    rvit_device *device = buffer->device;
    atomic_fetch_sub(&device->buffer_size[buffer->type], buffer->counted);
    device->api->buffer_destroy(buffer);
    rvit_device_destroy(device);
}

void *rvit_buffer_host(const rvit_buffer *buffer)
{
    return buffer == NULL ? NULL : buffer->host;
}

int64_t rvit_buffer_size(const rvit_buffer *buffer)
{
    return buffer == NULL ? 0 : buffer->size;
}
