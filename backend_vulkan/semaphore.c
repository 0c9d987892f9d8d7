/* Semaphores, which other APIs share by handle. */
#include "backend_vulkan/handles.h"

#define HANDLE_TYPE RVIT_VK_SEMAPHORE_HANDLE_TYPE

/* needed 0: the semaphore is neither exported nor imported. */
static rvit_status check_features(const rvit_vk_device *device, int timeline, VkExternalSemaphoreFeatureFlags needed)
{
    if (timeline)
        RVIT_TRY(rvit_vk_check_enabled(device, RVIT_VK_TIMELINE));
    if (needed == 0)
        return RVIT_OK;
    RVIT_TRY(rvit_vk_check_enabled(device, RVIT_VK_EXT_SEMAPHORE_HANDLE));
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkPhysicalDeviceExternalSemaphoreInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO, .pNext = timeline ? &type : NULL, .handleType = HANDLE_TYPE};
    VkExternalSemaphoreProperties found = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    device->instance.get_external_semaphore(device->physical.handle, &info, &found);
    if ((found.externalSemaphoreFeatures & needed) != needed)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: %s does not %s %s semaphores by " RVIT_VK_HANDLE_KIND, device->base.info.name,
                         needed == VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT ? "export" : "import", timeline ? "timeline" : "binary");
    return RVIT_OK;
}

static rvit_status create(const rvit_vk_device *device, int timeline, int shared, VkSemaphore *out_handle)
{
    const VkExportSemaphoreCreateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO, .handleTypes = HANDLE_TYPE};
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .pNext = shared ? &exported : NULL,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = timeline ? &type : type.pNext};
    RVIT_VK_TRY(device->vk, vkCreateSemaphore, (device->handle, &info, NULL, out_handle));
    return RVIT_OK;
}

static rvit_status import(const rvit_vk_device *device, VkSemaphore handle, const rvit_semaphore_desc *desc)
{
    intptr_t copy;
    RVIT_TRY(rvit_handle_copy("semaphore desc", desc->handle_type, desc->handle, &copy));
    const rvit_status status = rvit_vk_semaphore_set_handle(device, handle, copy);
    rvit_handle_copy_end(copy, status == RVIT_OK);
    if (status == RVIT_OK)
        rvit_os_handle_close(desc->handle);
    return status;
}

rvit_status rvit_vk_semaphore_open(rvit_semaphore *semaphore, const rvit_semaphore_desc *desc)
{
    const rvit_vk_device *device = rvit_vk_device_of(semaphore->device);
    const int imports = desc->handle_type != RVIT_HANDLE_NONE;
    RVIT_TRY(check_features(device, desc->timeline,
                            imports        ? VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT
                            : desc->shared ? VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT
                                           : 0u));
    if (semaphore->wrapped)
        return RVIT_OK;
    VkSemaphore handle = VK_NULL_HANDLE;
    RVIT_TRY(create(device, desc->timeline, desc->shared, &handle));
    const rvit_status status = imports ? import(device, handle, desc) : RVIT_OK;
    if (status != RVIT_OK) {
        device->vk.vkDestroySemaphore(device->handle, handle, NULL);
        return status;
    }
    semaphore->native = RVIT_VK_NUMBER(handle);
    return RVIT_OK;
}

void rvit_vk_semaphore_close(rvit_semaphore *semaphore)
{
    const rvit_vk_device *device = rvit_vk_device_of(semaphore->device);
    device->vk.vkDestroySemaphore(device->handle, RVIT_VK_HANDLE(VkSemaphore, semaphore->native), NULL);
}

rvit_status rvit_vk_semaphore_export(const rvit_semaphore *semaphore, rvit_handle_type *out_type, intptr_t *out_handle)
{
    const rvit_vk_device *device = rvit_vk_device_of(semaphore->device);
    RVIT_TRY(rvit_vk_semaphore_get_handle(device, RVIT_VK_HANDLE(VkSemaphore, semaphore->native), out_handle));
    *out_type = RVIT_HANDLE_OF_SYSTEM;
    return RVIT_OK;
}
