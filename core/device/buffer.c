/* The public functions of buffers. */
#include <stdint.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/device/device.h"

rvit_status rvit_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    if (device == NULL || out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_create: device or out_buffer is NULL");
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_create: size is %lld, expected at least 1", (long long)size);
    if ((int)type < RVIT_BUFFER_DEVICE || type > RVIT_BUFFER_SHARED)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_create: type: %d is not a valid buffer type", (int)type);
    if (type == RVIT_BUFFER_SHARED && device->api->buffer_export == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_buffer_create: only Vulkan devices export memory (RVIT_BUFFER_SHARED), not %s",
                         device->info.name);
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

static rvit_status check_address(const char *what, const void *address, int64_t size)
{
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected at least 1", what, (long long)size);
    if (address == NULL || (uintptr_t)address % 16 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: address is %p, expected a multiple of 16", what, address);
    return RVIT_OK;
}

static rvit_status check_external(const rvit_external_memory *external, int64_t size)
{
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: size is %lld, expected at least 1", (long long)size);
    if (external->offset < 0 || external->size < external->offset || size > external->size - external->offset)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "external memory: a buffer of %lld bytes at offset %lld does not fit its size of %lld",
                         (long long)size, (long long)external->offset, (long long)external->size);
    return RVIT_OK;
}

rvit_status rvit_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    static const char *const types[] = {"HOST", "CUDA", "VULKAN", "EXTERNAL"};
    if (device == NULL || out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_wrap: device or out_buffer is NULL");
    rvit_memory_desc desc;
    rvit_external_memory external;
    RVIT_TRY(rvit_args_copy(&desc, sizeof desc, memory, "memory desc"));
    if ((int)desc.type < RVIT_MEMORY_HOST || desc.type > RVIT_MEMORY_EXTERNAL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: type: %d is not a valid memory type", (int)desc.type);
    if ((device->api->memory_types >> desc.type & 1) == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "memory desc: type is %s, which devices of the backend %s do not use", types[desc.type],
                         rvit_enum_name(RVIT_ENUM_BACKEND, device->api->backend));
    if (desc.type == RVIT_MEMORY_HOST || desc.type == RVIT_MEMORY_CUDA)
        RVIT_TRY(check_address("memory desc", desc.address, desc.size));
    if (desc.type == RVIT_MEMORY_EXTERNAL) {
        RVIT_TRY(rvit_args_copy(&external, sizeof external, desc.external, "external memory"));
        desc.external = &external;
        RVIT_TRY(check_external(&external, desc.size));
    }
    rvit_buffer *buffer = NULL;
    RVIT_TRY(device->api->buffer_wrap(device, &desc, &buffer));
    buffer->device = device;
    buffer->type = RVIT_BUFFER_DEVICE;
    rvit_device_retain(device);
    *out_buffer = buffer;
    return RVIT_OK;
}

rvit_status rvit_buffer_set(rvit_buffer *buffer, void *address, int64_t size)
{
    RVIT_ENTRY;
    if (buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_set: buffer is NULL");
    if (!buffer->wrapped)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_set: buffer is not wrapped");
    if (buffer->memory != RVIT_ADDRESS_SPACE)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_buffer_set: the VkBuffer of a wrapped buffer cannot be replaced");
    RVIT_TRY(check_address("rvit_buffer_set", address, size));
    buffer->address = (uint64_t)(uintptr_t)address;
    buffer->size = size;
    return RVIT_OK;
}

rvit_status rvit_buffer_handle(const rvit_buffer *buffer, uint64_t *out_handle, int64_t *out_offset)
{
    RVIT_ENTRY;
    if (buffer == NULL || out_handle == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_handle: buffer or out_handle is NULL");
    const int is_pointer = buffer->memory == RVIT_ADDRESS_SPACE;
    *out_handle = is_pointer ? buffer->address : buffer->memory;
    if (out_offset != NULL)
        *out_offset = is_pointer ? 0 : (int64_t)buffer->address;
    return RVIT_OK;
}

rvit_status rvit_buffer_export(const rvit_buffer *buffer, rvit_external_memory *out_memory)
{
    RVIT_ENTRY;
    if (buffer == NULL || out_memory == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_export: buffer or out_memory is NULL");
    if (buffer->type != RVIT_BUFFER_SHARED)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_buffer_export: buffer was not created with RVIT_BUFFER_SHARED");
    rvit_external_memory memory = RVIT_EXTERNAL_MEMORY_INIT;
    RVIT_TRY(rvit_args_return(out_memory, &memory, sizeof memory, "external memory")); /* check this before a handle exists */
    RVIT_TRY(buffer->device->api->buffer_export(buffer, &memory));
    return rvit_args_return(out_memory, &memory, sizeof memory, "external memory");
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
