/* A device on the caller's VkDevice (include/raggedvit/vulkan.h). */
#include "backend_vulkan/vulkan.h"
#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/os.h"

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
