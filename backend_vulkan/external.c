/* Buffers on memory that the library did not allocate, and memory that it exports (include/raggedvit/vulkan.h). */
#include "backend_vulkan/handles.h"

/* Checks what Vulkan can report about a VkBuffer: its memory requirement is at least its size. */
static rvit_status check_range(const rvit_vk_device *device, const rvit_memory_desc *desc, int64_t size)
{
    if ((desc->vk_usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: vk_usage is 0x%x, which lacks VK_BUFFER_USAGE_STORAGE_BUFFER_BIT",
                         (unsigned)desc->vk_usage);
    if (desc->offset < 0 || desc->offset % RVIT_VK_SIZE_ROUND != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: offset is %lld, expected a multiple of %d", (long long)desc->offset,
                         RVIT_VK_SIZE_ROUND);
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: size is %lld, expected at least 1", (long long)size);
    const int64_t room = desc->vk_buffer_size - desc->offset;
    if (room < size || (size - 1) / RVIT_VK_SIZE_ROUND > room / RVIT_VK_SIZE_ROUND - 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "memory desc: the VkBuffer has %lld bytes, too small for %lld (rounded up to %d) from offset %lld",
                         (long long)desc->vk_buffer_size, (long long)size, RVIT_VK_SIZE_ROUND, (long long)desc->offset);
    VkMemoryRequirements requirements;
    device->vk.vkGetBufferMemoryRequirements(device->handle, RVIT_VK_HANDLE(VkBuffer, desc->vk_buffer), &requirements);
    if ((uint64_t)desc->vk_buffer_size > requirements.size)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: vk_buffer_size is %lld, but the VkBuffer takes %llu bytes of memory",
                         (long long)desc->vk_buffer_size, (unsigned long long)requirements.size);
    return RVIT_OK;
}

static rvit_status wrap(const rvit_vk_device *device, const rvit_memory_desc *desc, rvit_vk_buffer *buffer)
{
    if (desc->vk_buffer == 0 || desc->vk_buffer_size < 0 || desc->size < 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "memory desc: vk_buffer is NULL, or vk_buffer_size or size negative");
    const int64_t size = desc->size != 0 ? desc->size : (desc->vk_buffer_size - desc->offset) / RVIT_VK_SIZE_ROUND * RVIT_VK_SIZE_ROUND;
    RVIT_TRY(check_range(device, desc, size));
    buffer->handle = RVIT_VK_HANDLE(VkBuffer, desc->vk_buffer);
    buffer->offset = desc->offset;
    buffer->usage = desc->vk_usage;
    buffer->base.size = size;
    buffer->base.wrapped = 1;
    return RVIT_OK;
}

static rvit_status allocate_imported(rvit_vk_device *device, const rvit_external_memory *memory, int64_t size, rvit_vk_buffer *buffer)
{
    VkMemoryRequirements requirements;
    RVIT_TRY(rvit_vk_buffer_new(device, size, 1, buffer, &requirements));
    if (memory->memory_type >= device->physical.memory.memoryTypeCount || (requirements.memoryTypeBits >> memory->memory_type & 1u) == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "external memory: memory_type is %u, which the device does not use for buffers",
                         (unsigned)memory->memory_type);
    if (memory->offset % (int64_t)requirements.alignment != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "external memory: offset is %lld, expected a multiple of %llu", (long long)memory->offset,
                         (unsigned long long)requirements.alignment);
    if ((uint64_t)(memory->size - memory->offset) < requirements.size)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "external memory: size is %lld, too small for a buffer that takes %llu from offset %lld",
                         (long long)memory->size, (unsigned long long)requirements.size, (long long)memory->offset);
    intptr_t copy;
    RVIT_TRY(rvit_handle_copy("external memory", memory->handle_type, memory->handle, &copy));
    rvit_vk_memory_import import;
    rvit_vk_memory_import_init(&import, copy);
    const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = &import,
                                           .allocationSize = (VkDeviceSize)memory->size,
                                           .memoryTypeIndex = memory->memory_type};
    const VkResult result = device->vk.vkAllocateMemory(device->handle, &allocate, NULL, &buffer->memory);
    rvit_handle_copy_end(copy, result == VK_SUCCESS);
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkAllocateMemory with the " RVIT_OS_HANDLE_NAME);
    RVIT_VK_TRY(device->vk, vkBindBufferMemory, (device->handle, buffer->handle, buffer->memory, (VkDeviceSize)memory->offset));
    rvit_os_handle_close(memory->handle);
    buffer->base.size = size;
    return RVIT_OK;
}

static rvit_status import(rvit_vk_device *device, const rvit_memory_desc *desc, rvit_vk_buffer *buffer)
{
    RVIT_TRY(rvit_vk_check_memory_handles(device, VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT));
    const rvit_status status = allocate_imported(device, desc->external, desc->size, buffer);
    if (status != RVIT_OK)
        rvit_vk_buffer_close(device, buffer);
    return status;
}

rvit_status rvit_vk_buffer_wrap(rvit_device *base, const rvit_memory_desc *desc, rvit_buffer **out_buffer)
{
    rvit_vk_device *device = rvit_vk_device_of(base);
    rvit_vk_buffer *buffer = rvit_alloc_new(&base->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    const rvit_status status = desc->type == RVIT_MEMORY_VULKAN ? wrap(device, desc, buffer) : import(device, desc, buffer);
    if (status != RVIT_OK) {
        rvit_alloc_free(&base->alloc, buffer);
        return status;
    }
    buffer->base.memory = RVIT_VK_NUMBER(buffer->handle);
    buffer->base.address = (uint64_t)buffer->offset;
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

rvit_status rvit_vk_buffer_export(const rvit_buffer *base, rvit_external_memory *out_memory)
{
    const rvit_vk_buffer *buffer = (const rvit_vk_buffer *)base;
    const rvit_vk_device *device = rvit_vk_device_of(base->device);
    RVIT_TRY(rvit_vk_memory_get_handle(device, buffer->memory, &out_memory->handle));
    out_memory->handle_type = RVIT_HANDLE_OF_SYSTEM;
    out_memory->memory_type = buffer->memory_type;
    out_memory->size = buffer->memory_size;
    return RVIT_OK;
}
