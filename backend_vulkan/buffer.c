/* Buffers: one allocation each; host-visible ones stay mapped. */
#include "backend_vulkan/handles.h"

#include <stdio.h>

typedef struct memory_preference {
    VkMemoryPropertyFlags required, preferred, avoided;
    int is_small;
} memory_preference;

/* Indexed by buffer type. Host-visible memory is always coherent, so nothing needs to be flushed. */
static const memory_preference preferences[] = {
    {0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 0},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, 0},
    {0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 0},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 1},
};

/* Rates a memory type; negative: unusable. */
static int rate(const rvit_vk_device *device, uint32_t type, const memory_preference *preference)
{
    const VkPhysicalDeviceMemoryProperties *memory = &device->physical.memory;
    const VkMemoryPropertyFlags flags = memory->memoryTypes[type].propertyFlags;
    const VkMemoryPropertyFlags unusable =
        VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    if ((flags & preference->required) != preference->required || (flags & unusable) != 0)
        return -1;
    int score = (flags & preference->avoided) == 0 ? 1 : 0;
    if ((flags & preference->preferred) == preference->preferred)
        score += 2;
    /* If only a small part of device memory is host-visible, do not use it for uploads. */
    const uint32_t heap = memory->memoryTypes[type].heapIndex;
    if (preference->required != 0 && !preference->is_small && (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0 &&
        (int64_t)memory->memoryHeaps[heap].size * 2 < device->physical.info.memory_size)
        score = 0;
    return score;
}

int32_t rvit_vk_choose_memory(const rvit_vk_device *device, uint32_t allowed, int type)
{
    int32_t best = -1;
    int best_score = -1;
    for (uint32_t i = 0; i < device->physical.memory.memoryTypeCount; i++) {
        const int score = (allowed >> i & 1u) != 0 ? rate(device, i, &preferences[type]) : -1;
        if (score > best_score) {
            best = (int32_t)i;
            best_score = score;
        }
    }
    return best;
}

/* The failure of an allocation; the detail has the sizes. */
static rvit_status no_memory(const rvit_vk_device *device, VkResult result, const char *call, int64_t size)
{
    char with[96];
    (void)snprintf(with, sizeof with, "%s failed: VK_ERROR_OUT_OF_%s_MEMORY", call,
                   result == VK_ERROR_OUT_OF_HOST_MEMORY ? "HOST" : "DEVICE");
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
        return rvit_device_no_memory(&device->base, with, size);
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY)
        return rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "%s: no %lld bytes", with, (long long)size);
    return result == VK_SUCCESS ? RVIT_OK : rvit_vk_fail(result, call);
}

rvit_status rvit_vk_allocate(const rvit_vk_device *device, const VkMemoryAllocateInfo *info, VkDeviceMemory *out_memory)
{
    const VkResult result = device->vk.vkAllocateMemory(device->handle, info, NULL, out_memory);
    return no_memory(device, result, "vkAllocateMemory", (int64_t)info->allocationSize);
}

rvit_status rvit_vk_check_memory_handles(const rvit_vk_device *device, VkExternalMemoryFeatureFlags needed)
{
    RVIT_TRY(rvit_vk_check_enabled(device, RVIT_VK_EXT_MEMORY_HANDLE));
    const VkPhysicalDeviceExternalBufferInfo info = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
                                                     .usage = RVIT_VK_BUFFER_USAGE,
                                                     .handleType = RVIT_VK_MEMORY_HANDLE_TYPE};
    VkExternalBufferProperties found = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    device->instance.get_external_buffer(device->physical.handle, &info, &found);
    const VkExternalMemoryFeatureFlags offered = found.externalMemoryProperties.externalMemoryFeatures;
    if ((offered & needed) != needed || (offered & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: %s does not %s the memory of buffers by " RVIT_VK_HANDLE_KIND, device->base.info.name,
                         needed == VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT ? "export" : "import");
    return RVIT_OK;
}

rvit_status rvit_vk_buffer_new(rvit_vk_device *device, int64_t size, int external, rvit_vk_buffer *buffer,
                               VkMemoryRequirements *out_requirements)
{
    const VkExternalMemoryBufferCreateInfo handles = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                      .handleTypes = RVIT_VK_MEMORY_HANDLE_TYPE};
    const VkBufferCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = external ? &handles : NULL,
        .size = ((VkDeviceSize)size + RVIT_VK_SIZE_ROUND - 1) / RVIT_VK_SIZE_ROUND * RVIT_VK_SIZE_ROUND,
        .usage = RVIT_VK_BUFFER_USAGE,
    };
    buffer->usage = create.usage;
    RVIT_TRY(no_memory(device, device->vk.vkCreateBuffer(device->handle, &create, NULL, &buffer->handle), "vkCreateBuffer", size));
    device->vk.vkGetBufferMemoryRequirements(device->handle, buffer->handle, out_requirements);
    return RVIT_OK;
}

static rvit_status open_buffer(rvit_vk_device *device, int64_t size, int type, rvit_vk_buffer *buffer)
{
    VkMemoryRequirements requirements;
    RVIT_TRY(rvit_vk_buffer_new(device, size, type == RVIT_BUFFER_SHARED, buffer, &requirements));
    const int32_t memory_type = rvit_vk_choose_memory(device, requirements.memoryTypeBits, type);
    if (memory_type < 0)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: the device has no memory for buffers of type %d", type);
    buffer->memory_size = (int64_t)requirements.size;
    buffer->memory_type = (uint32_t)memory_type;
    const VkExportMemoryAllocateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                                 .handleTypes = RVIT_VK_MEMORY_HANDLE_TYPE};
    const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = type == RVIT_BUFFER_SHARED ? &exported : NULL,
                                           .allocationSize = requirements.size,
                                           .memoryTypeIndex = (uint32_t)memory_type};
    RVIT_TRY(rvit_vk_allocate(device, &allocate, &buffer->memory));
    RVIT_VK_TRY(device->vk, vkBindBufferMemory, (device->handle, buffer->handle, buffer->memory, 0));
    if (type != RVIT_BUFFER_DEVICE && type != RVIT_BUFFER_SHARED)
        RVIT_VK_TRY(device->vk, vkMapMemory, (device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->base.host));
    return RVIT_OK;
}

rvit_status rvit_vk_buffer_open(rvit_vk_device *device, int64_t size, int type, rvit_vk_buffer *out_buffer)
{
    const rvit_status status = open_buffer(device, size, type, out_buffer);
    if (status != RVIT_OK)
        rvit_vk_buffer_close(device, out_buffer);
    return status;
}

void rvit_vk_buffer_close(rvit_vk_device *device, rvit_vk_buffer *buffer)
{
    device->vk.vkDestroyBuffer(device->handle, buffer->handle, NULL);
    device->vk.vkFreeMemory(device->handle, buffer->memory, NULL);
    buffer->handle = VK_NULL_HANDLE;
    buffer->memory = VK_NULL_HANDLE;
}

rvit_status rvit_vk_buffer_create(rvit_device *base, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer)
{
    rvit_vk_device *device = rvit_vk_device_of(base);
    if (type == RVIT_BUFFER_SHARED)
        RVIT_TRY(rvit_vk_check_memory_handles(device, VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT));
    rvit_vk_buffer *buffer = rvit_alloc_new(&base->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    const rvit_status status = rvit_vk_buffer_open(device, size, type, buffer);
    if (status != RVIT_OK) {
        rvit_alloc_free(&base->alloc, buffer);
        return status;
    }
    buffer->base.memory = RVIT_VK_NUMBER(buffer->handle);
    buffer->base.address = (uint64_t)buffer->offset;
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

void rvit_vk_buffer_destroy(rvit_buffer *base)
{
    rvit_vk_buffer *buffer = (rvit_vk_buffer *)base;
    if (!base->wrapped)
        rvit_vk_buffer_close(rvit_vk_device_of(base->device), buffer);
    rvit_alloc_free(&base->device->alloc, buffer);
}
