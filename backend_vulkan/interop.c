/* The public interop functions (include/raggedvit/vulkan.h), except those that share memory and semaphores (external.c). */
#include "backend_vulkan/vulkan.h"
#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/process.h"

static rvit_status check_vulkan_desc(const rvit_vulkan_device_desc *desc)
{
    if (desc->instance == NULL || desc->physical_device == NULL || desc->device == NULL || desc->queue == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: instance, physical_device, device or queue is NULL");
    if (desc->api_version != 0 && desc->api_version < VK_API_VERSION_1_1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: api_version is %u.%u, 1.1 is needed",
                         VK_API_VERSION_MAJOR(desc->api_version), VK_API_VERSION_MINOR(desc->api_version));
    if ((desc->lock_queue == NULL) != (desc->unlock_queue == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: needs both lock_queue and unlock_queue, or neither");
    if (desc->n_extensions > 0 && desc->extensions == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: extensions is NULL, n_extensions is %u", desc->n_extensions);
    for (uint32_t i = 0; i < desc->n_extensions; i++)
        if (desc->extensions[i] == NULL)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: extensions[%u] is NULL", i);
    return RVIT_OK;
}

rvit_status rvit_vulkan_device_create(const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *given, rvit_device **out_device)
{
    RVIT_ENTRY;
    RVIT_SIGNALS_BLOCKED;
    if (out_device == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_device_create: out_device is NULL");
    rvit_vulkan_device_desc external;
    rvit_device_desc desc;
    RVIT_TRY(rvit_args_copy(&external, sizeof external, vulkan, "vulkan device desc"));
    RVIT_TRY(check_vulkan_desc(&external));
    RVIT_TRY(rvit_device_desc_take(given, &desc));
    if ((desc.backend != RVIT_BACKEND_AUTO && desc.backend != RVIT_BACKEND_VULKAN) || desc.index != -1)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "device desc: backend must be AUTO or VULKAN and index -1, because the caller provides the device");
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, desc.allocator);
    rvit_device *device = NULL;
    RVIT_TRY(rvit_vk_device_create_on(&external, &desc, &alloc, &device));
    device->api = &rvit_backend_vulkan;
    device->debug_checks = desc.debug_checks;
    atomic_init(&device->references, 1);
    rvit_log(RVIT_LOG_INFO, "vulkan: the caller's device: %s", device->info.name);
    *out_device = device;
    return RVIT_OK;
}

rvit_status rvit_vulkan_stream_wrap(rvit_device *device, void *command_buffer, rvit_stream **out_stream)
{
    RVIT_ENTRY;
    RVIT_TRY(rvit_check_owner("rvit_vulkan_stream_wrap", "device", device, RVIT_BACKEND_VULKAN));
    if (out_stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_stream_wrap: out_stream is NULL");
    RVIT_TRY(rvit_vk_commands_create(rvit_vk_device_of(device), command_buffer, out_stream));
    rvit_device_retain(device);
    return RVIT_OK;
}

rvit_status rvit_vulkan_stream_set(rvit_stream *stream, void *command_buffer)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_stream_set: stream is NULL");
    if (stream->device->api != &rvit_backend_vulkan || !stream->deferred)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_stream_set: stream is not one that records into a command buffer");
    if (stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_stream_set: stream is recording");
    rvit_vk_commands_set(stream, command_buffer);
    return RVIT_OK;
}

/* Checks what Vulkan can report about a VkBuffer: its memory requirement is at least its size. */
static rvit_status check_buffer_desc(const rvit_vk_device *device, const rvit_vulkan_buffer_desc *desc, int64_t size)
{
    if ((desc->usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan buffer desc: usage is 0x%x, which lacks VK_BUFFER_USAGE_STORAGE_BUFFER_BIT",
                         (unsigned)desc->usage);
    if (desc->offset < 0 || desc->offset % RVIT_VK_SIZE_ROUND != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan buffer desc: offset is %lld, expected a multiple of %d", (long long)desc->offset,
                         RVIT_VK_SIZE_ROUND);
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan buffer desc: size is %lld, expected at least 1", (long long)size);
    const int64_t room = desc->buffer_size - desc->offset;
    if (room < size || (size - 1) / RVIT_VK_SIZE_ROUND > room / RVIT_VK_SIZE_ROUND - 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "vulkan buffer desc: the VkBuffer has %lld bytes, too small for %lld (rounded up to %d) from offset %lld",
                         (long long)desc->buffer_size, (long long)size, RVIT_VK_SIZE_ROUND, (long long)desc->offset);
    VkMemoryRequirements requirements;
    device->vk.vkGetBufferMemoryRequirements(device->handle, RVIT_VK_HANDLE(VkBuffer, desc->buffer), &requirements);
    if ((uint64_t)desc->buffer_size > requirements.size)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan buffer desc: buffer_size is %lld, but the VkBuffer takes %llu bytes of memory",
                         (long long)desc->buffer_size, (unsigned long long)requirements.size);
    return RVIT_OK;
}

rvit_status rvit_vulkan_buffer_wrap(rvit_device *device, const rvit_vulkan_buffer_desc *given, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    RVIT_TRY(rvit_check_owner("rvit_vulkan_buffer_wrap", "device", device, RVIT_BACKEND_VULKAN));
    if (out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_buffer_wrap: out_buffer is NULL");
    rvit_vulkan_buffer_desc desc;
    RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "vulkan buffer desc"));
    if (desc.buffer == 0 || desc.buffer_size < 0 || desc.size < 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan buffer desc: buffer is NULL, or buffer_size or size negative");
    const int64_t size = desc.size != 0 ? desc.size : (desc.buffer_size - desc.offset) / RVIT_VK_SIZE_ROUND * RVIT_VK_SIZE_ROUND;
    RVIT_TRY(check_buffer_desc(rvit_vk_device_of(device), &desc, size));
    rvit_vk_buffer *buffer = rvit_alloc_new(&device->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    buffer->handle = RVIT_VK_HANDLE(VkBuffer, desc.buffer);
    buffer->offset = desc.offset;
    buffer->usage = desc.usage;
    buffer->is_external = 1;
    buffer->base.memory = desc.buffer;
    buffer->base.address = (uint64_t)desc.offset;
    buffer->base.device = device;
    buffer->base.size = size;
    buffer->base.type = RVIT_BUFFER_DEVICE;
    rvit_device_retain(device);
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

rvit_status rvit_vulkan_buffer_handle(const rvit_buffer *buffer, uint64_t *out_buffer, int64_t *out_offset)
{
    RVIT_ENTRY;
    if (buffer == NULL || out_buffer == NULL || out_offset == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_buffer_handle: buffer, out_buffer or out_offset is NULL");
    RVIT_TRY(rvit_check_owner("rvit_vulkan_buffer_handle", "buffer", buffer->device, RVIT_BACKEND_VULKAN));
    *out_buffer = RVIT_VK_NUMBER(((const rvit_vk_buffer *)buffer)->handle);
    *out_offset = ((const rvit_vk_buffer *)buffer)->offset;
    return RVIT_OK;
}
