/* Memory and semaphores shared with other APIs by file descriptor, and waiting for semaphores (include/raggedvit/vulkan.h). */
#include <fcntl.h>
#include <unistd.h>

#include "backend_vulkan/vulkan.h"
#include "core/base/args.h"
#include "core/base/entry.h"

#define MEMORY_TYPE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define SEMAPHORE_TYPE VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT

struct rvit_vulkan_semaphore {
    rvit_vk_device *device;
    VkSemaphore handle;
    int timeline, shared, is_external;
};

/* Duplicates a file descriptor: the driver may take ownership of the copy, and the caller's stays valid until everything has succeeded. */
static rvit_status copy_fd(const char *what, int fd, int *out_copy)
{
    *out_copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*out_copy < 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: fd %d is not open, or the process has too many open files", what, fd);
    return RVIT_OK;
}

static rvit_status check_enabled(const char *function, const rvit_vk_device *device, uint32_t feature)
{
    if ((device->enabled & feature) == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s on %s", function, rvit_vk_feature_missing(feature), device->base.info.name);
    return RVIT_OK;
}

static rvit_status check_memory_feature(const char *function, const rvit_vk_device *device, VkExternalMemoryFeatureFlags needed)
{
    RVIT_TRY(check_enabled(function, device, RVIT_VK_EXT_MEMORY_FD));
    const VkPhysicalDeviceExternalBufferInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO, .usage = RVIT_VK_BUFFER_USAGE, .handleType = MEMORY_TYPE};
    VkExternalBufferProperties found = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    device->instance.get_external_buffer(device->physical.handle, &info, &found);
    const VkExternalMemoryFeatureFlags offered = found.externalMemoryProperties.externalMemoryFeatures;
    if ((offered & needed) != needed || (offered & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s does not %s the memory of buffers by opaque file descriptor", function,
                         device->base.info.name, needed == VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT ? "export" : "import");
    return RVIT_OK;
}

/* Creates the VkBuffer and queries its memory requirements. */
static rvit_status open_shared(rvit_vk_device *device, int64_t size, rvit_vk_buffer *buffer, VkMemoryRequirements *out_requirements)
{
    const VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                       .handleTypes = MEMORY_TYPE};
    const VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                       .pNext = &external,
                                       .size = ((VkDeviceSize)size + RVIT_VK_SIZE_ROUND - 1) / RVIT_VK_SIZE_ROUND * RVIT_VK_SIZE_ROUND,
                                       .usage = RVIT_VK_BUFFER_USAGE};
    buffer->usage = create.usage;
    RVIT_VK_TRY(device->vk, vkCreateBuffer, (device->handle, &create, NULL, &buffer->handle));
    device->vk.vkGetBufferMemoryRequirements(device->handle, buffer->handle, out_requirements);
    return RVIT_OK;
}

static rvit_status allocate_exported(rvit_vk_device *device, int64_t size, rvit_vk_buffer *buffer)
{
    VkMemoryRequirements requirements;
    RVIT_TRY(open_shared(device, size, buffer, &requirements));
    const int32_t type = rvit_vk_choose_memory(device, requirements.memoryTypeBits, RVIT_BUFFER_DEVICE);
    if (type < 0)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: the device has no memory for shared buffers");
    const VkExportMemoryAllocateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO, .handleTypes = MEMORY_TYPE};
    const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = &exported,
                                           .allocationSize = requirements.size,
                                           .memoryTypeIndex = (uint32_t)type};
    RVIT_TRY(rvit_vk_allocate(device, &allocate, &buffer->memory));
    RVIT_VK_TRY(device->vk, vkBindBufferMemory, (device->handle, buffer->handle, buffer->memory, 0));
    buffer->shared = 1;
    buffer->memory_size = (int64_t)requirements.size;
    buffer->memory_type = (uint32_t)type;
    return RVIT_OK;
}

static rvit_status allocate_imported(rvit_vk_device *device, const rvit_vulkan_memory *memory, int64_t size, rvit_vk_buffer *buffer)
{
    VkMemoryRequirements requirements;
    RVIT_TRY(open_shared(device, size, buffer, &requirements));
    if (memory->memory_type >= device->physical.memory.memoryTypeCount || (requirements.memoryTypeBits >> memory->memory_type & 1u) == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan memory: memory_type is %u, which the device does not use for buffers",
                         (unsigned)memory->memory_type);
    if (memory->offset < 0 || memory->offset % (int64_t)requirements.alignment != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan memory: offset is %lld, expected a multiple of %llu", (long long)memory->offset,
                         (unsigned long long)requirements.alignment);
    if (memory->memory_size < memory->offset || (uint64_t)(memory->memory_size - memory->offset) < requirements.size)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "vulkan memory: memory_size is %lld, too small for a buffer that takes %llu from offset %lld",
                         (long long)memory->memory_size, (unsigned long long)requirements.size, (long long)memory->offset);
    int fd;
    RVIT_TRY(copy_fd("vulkan memory", memory->fd, &fd));
    const VkImportMemoryFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, .handleType = MEMORY_TYPE, .fd = fd};
    const VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = &import,
                                           .allocationSize = (VkDeviceSize)memory->memory_size,
                                           .memoryTypeIndex = memory->memory_type};
    const VkResult result = device->vk.vkAllocateMemory(device->handle, &allocate, NULL, &buffer->memory);
    if (result != VK_SUCCESS) {
        (void)close(fd);
        return rvit_vk_fail(result, "vkAllocateMemory with the fd");
    }
    RVIT_VK_TRY(device->vk, vkBindBufferMemory, (device->handle, buffer->handle, buffer->memory, (VkDeviceSize)memory->offset));
    (void)close(memory->fd);
    return RVIT_OK;
}

/* from: memory to import; NULL: allocates memory that can be exported. */
static rvit_status make_buffer(rvit_device *base, const rvit_vulkan_memory *from, int64_t size, rvit_buffer **out_buffer)
{
    rvit_vk_device *device = rvit_vk_device_of(base);
    rvit_vk_buffer *buffer = rvit_alloc_new(&base->alloc, sizeof *buffer);
    RVIT_TRY_MEMORY(buffer);
    const rvit_status status = from != NULL ? allocate_imported(device, from, size, buffer) : allocate_exported(device, size, buffer);
    if (status != RVIT_OK) {
        rvit_vk_buffer_close(device, buffer);
        rvit_alloc_free(&base->alloc, buffer);
        return status;
    }
    buffer->base.device = base;
    buffer->base.size = size;
    buffer->base.type = RVIT_BUFFER_DEVICE;
    if (from == NULL) {
        buffer->base.counted = size;
        atomic_fetch_add(&base->device_allocations, 1);
        atomic_fetch_add(&base->buffer_size[RVIT_BUFFER_DEVICE], size);
    }
    rvit_device_retain(base);
    *out_buffer = &buffer->base;
    return RVIT_OK;
}

rvit_status rvit_vulkan_buffer_create_shared(rvit_device *device, int64_t size, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_vulkan_buffer_create_shared";
    RVIT_TRY(rvit_check_owner(function, "device", device, RVIT_BACKEND_VULKAN));
    if (out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: out_buffer is NULL", function);
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected at least 1", function, (long long)size);
    RVIT_TRY(check_memory_feature(function, rvit_vk_device_of(device), VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT));
    return make_buffer(device, NULL, size, out_buffer);
}

rvit_status rvit_vulkan_buffer_export(const rvit_buffer *base, rvit_vulkan_memory *out_memory)
{
    RVIT_ENTRY;
    if (base == NULL || out_memory == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_buffer_export: buffer or out_memory is NULL");
    const rvit_vk_buffer *buffer = (const rvit_vk_buffer *)base;
    if (base->device->api != &rvit_backend_vulkan || !buffer->shared)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_buffer_export: buffer was not created by rvit_vulkan_buffer_create_shared");
    const rvit_vk_device *device = rvit_vk_device_of(base->device);
    const VkMemoryGetFdInfoKHR get = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = buffer->memory, .handleType = MEMORY_TYPE};
    rvit_vulkan_memory memory = {.memory_type = buffer->memory_type, .memory_size = buffer->memory_size};
    RVIT_TRY(rvit_args_return(out_memory, &memory, sizeof memory, "vulkan memory"));
    RVIT_VK_TRY(device->vk, vkGetMemoryFdKHR, (device->handle, &get, &memory.fd));
    return rvit_args_return(out_memory, &memory, sizeof memory, "vulkan memory");
}

rvit_status rvit_vulkan_buffer_import(rvit_device *device, const rvit_vulkan_memory *given, int64_t size, rvit_buffer **out_buffer)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_vulkan_buffer_import";
    RVIT_TRY(rvit_check_owner(function, "device", device, RVIT_BACKEND_VULKAN));
    if (out_buffer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: out_buffer is NULL", function);
    if (size < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected at least 1", function, (long long)size);
    rvit_vulkan_memory memory;
    RVIT_TRY(rvit_args_copy(&memory, sizeof memory, given, "vulkan memory"));
    RVIT_TRY(check_memory_feature(function, rvit_vk_device_of(device), VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT));
    return make_buffer(device, &memory, size, out_buffer);
}

static rvit_status check_semaphore_feature(const char *function, const rvit_vk_device *device, int timeline, int shared,
                                           VkExternalSemaphoreFeatureFlags needed)
{
    if (timeline)
        RVIT_TRY(check_enabled(function, device, RVIT_VK_TIMELINE));
    if (!shared)
        return RVIT_OK;
    RVIT_TRY(check_enabled(function, device, RVIT_VK_EXT_SEMAPHORE_FD));
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkPhysicalDeviceExternalSemaphoreInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO, .pNext = timeline ? &type : NULL, .handleType = SEMAPHORE_TYPE};
    VkExternalSemaphoreProperties found = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    device->instance.get_external_semaphore(device->physical.handle, &info, &found);
    if ((found.externalSemaphoreFeatures & needed) != needed)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s does not %s %s semaphores by opaque file descriptor", function, device->base.info.name,
                         needed == VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT ? "export" : "import", timeline ? "timeline" : "binary");
    return RVIT_OK;
}

static rvit_status make_semaphore(rvit_device *base, int timeline, rvit_vulkan_semaphore **out_semaphore)
{
    rvit_vulkan_semaphore *semaphore = rvit_alloc_new(&base->alloc, sizeof *semaphore);
    RVIT_TRY_MEMORY(semaphore);
    semaphore->device = rvit_vk_device_of(base);
    semaphore->timeline = timeline;
    rvit_device_retain(base);
    *out_semaphore = semaphore;
    return RVIT_OK;
}

static rvit_status open_semaphore(rvit_vulkan_semaphore *semaphore, int shared)
{
    const rvit_vk_device *device = semaphore->device;
    const VkExportSemaphoreCreateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO, .handleTypes = SEMAPHORE_TYPE};
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .pNext = shared ? &exported : NULL,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo create = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                          .pNext = semaphore->timeline ? &type : type.pNext};
    RVIT_VK_TRY(device->vk, vkCreateSemaphore, (device->handle, &create, NULL, &semaphore->handle));
    semaphore->shared = shared;
    return RVIT_OK;
}

static rvit_status import_semaphore(const rvit_vulkan_semaphore *semaphore, int given)
{
    const rvit_vk_device *device = semaphore->device;
    int fd;
    RVIT_TRY(copy_fd("rvit_vulkan_semaphore_import", given, &fd));
    const VkImportSemaphoreFdInfoKHR import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR, .semaphore = semaphore->handle, .handleType = SEMAPHORE_TYPE, .fd = fd};
    const VkResult result = device->vk.vkImportSemaphoreFdKHR(device->handle, &import);
    if (result != VK_SUCCESS) {
        (void)close(fd);
        return rvit_vk_fail(result, "vkImportSemaphoreFdKHR");
    }
    (void)close(given);
    return RVIT_OK;
}

static rvit_status check_semaphore_args(const char *function, const rvit_device *device, int32_t timeline, int32_t shared,
                                        rvit_vulkan_semaphore *const *out_semaphore)
{
    RVIT_TRY(rvit_check_owner(function, "device", device, RVIT_BACKEND_VULKAN));
    if (out_semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: out_semaphore is NULL", function);
    if (timeline < 0 || timeline > 1 || shared < 0 || shared > 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: timeline is %d, shared %d, expected 0 or 1", function, (int)timeline, (int)shared);
    return RVIT_OK;
}

rvit_status rvit_vulkan_semaphore_create(rvit_device *device, int32_t timeline, int32_t shared, rvit_vulkan_semaphore **out_semaphore)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_vulkan_semaphore_create";
    RVIT_TRY(check_semaphore_args(function, device, timeline, shared, out_semaphore));
    RVIT_TRY(check_semaphore_feature(function, rvit_vk_device_of(device), timeline, shared, VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT));
    rvit_vulkan_semaphore *semaphore;
    RVIT_TRY(make_semaphore(device, timeline, &semaphore));
    const rvit_status status = open_semaphore(semaphore, shared);
    if (status != RVIT_OK) {
        rvit_vulkan_semaphore_destroy(semaphore);
        return status;
    }
    *out_semaphore = semaphore;
    return RVIT_OK;
}

rvit_status rvit_vulkan_semaphore_wrap(rvit_device *device, uint64_t handle, int32_t timeline, rvit_vulkan_semaphore **out_semaphore)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_vulkan_semaphore_wrap";
    RVIT_TRY(check_semaphore_args(function, device, timeline, 0, out_semaphore));
    RVIT_TRY(check_semaphore_feature(function, rvit_vk_device_of(device), timeline, 0, 0));
    if (handle == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: semaphore is NULL", function);
    rvit_vulkan_semaphore *semaphore;
    RVIT_TRY(make_semaphore(device, timeline, &semaphore));
    semaphore->handle = RVIT_VK_HANDLE(VkSemaphore, handle);
    semaphore->is_external = 1;
    *out_semaphore = semaphore;
    return RVIT_OK;
}

rvit_status rvit_vulkan_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline, rvit_vulkan_semaphore **out_semaphore)
{
    RVIT_ENTRY;
    static const char function[] = "rvit_vulkan_semaphore_import";
    RVIT_TRY(check_semaphore_args(function, device, timeline, 0, out_semaphore));
    RVIT_TRY(check_semaphore_feature(function, rvit_vk_device_of(device), timeline, 1, VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT));
    rvit_vulkan_semaphore *semaphore;
    RVIT_TRY(make_semaphore(device, timeline, &semaphore));
    rvit_status status = open_semaphore(semaphore, 0);
    if (status == RVIT_OK)
        status = import_semaphore(semaphore, fd);
    if (status != RVIT_OK) {
        rvit_vulkan_semaphore_destroy(semaphore);
        return status;
    }
    *out_semaphore = semaphore;
    return RVIT_OK;
}

rvit_status rvit_vulkan_semaphore_export(const rvit_vulkan_semaphore *semaphore, int32_t *out_fd)
{
    RVIT_ENTRY;
    if (semaphore == NULL || out_fd == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_semaphore_export: semaphore or out_fd is NULL");
    if (!semaphore->shared)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_semaphore_export: the semaphore was not created shared");
    const VkSemaphoreGetFdInfoKHR get = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, .semaphore = semaphore->handle, .handleType = SEMAPHORE_TYPE};
    int fd = -1;
    RVIT_VK_TRY(semaphore->device->vk, vkGetSemaphoreFdKHR, (semaphore->device->handle, &get, &fd));
    *out_fd = fd;
    return RVIT_OK;
}

rvit_status rvit_vulkan_semaphore_handle(const rvit_vulkan_semaphore *semaphore, uint64_t *out_semaphore)
{
    RVIT_ENTRY;
    if (semaphore == NULL || out_semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_vulkan_semaphore_handle: semaphore or out_semaphore is NULL");
    *out_semaphore = RVIT_VK_NUMBER(semaphore->handle);
    return RVIT_OK;
}

void rvit_vulkan_semaphore_destroy(rvit_vulkan_semaphore *semaphore)
{
    RVIT_ENTRY;
    if (semaphore == NULL)
        return;
    rvit_vk_device *device = semaphore->device;
    if (!semaphore->is_external)
        device->vk.vkDestroySemaphore(device->handle, semaphore->handle, NULL);
    rvit_alloc_free(&device->base.alloc, semaphore);
    rvit_device_destroy(&device->base);
}

static rvit_status use_semaphore(const char *function, rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, int signals,
                                 uint64_t value)
{
    if (stream == NULL || semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream or semaphore is NULL", function);
    if (stream->device != &semaphore->device->base)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream and semaphore belong to different devices", function);
    if (stream->recording || stream->deferred)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: the stream %s", function,
                         stream->recording ? "is recording" : "records into a command buffer, which the caller submits");
    return rvit_vk_stream_semaphore(stream, semaphore->handle, signals, semaphore->timeline, value);
}

rvit_status rvit_vulkan_stream_wait(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value)
{
    RVIT_ENTRY;
    return use_semaphore("rvit_vulkan_stream_wait", stream, semaphore, 0, value);
}

rvit_status rvit_vulkan_stream_signal(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value)
{
    RVIT_ENTRY;
    return use_semaphore("rvit_vulkan_stream_signal", stream, semaphore, 1, value);
}
