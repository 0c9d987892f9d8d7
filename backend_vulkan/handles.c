/* Both kinds of handles are compiled on every system. */
#include "backend_vulkan/handles.h"

void rvit_vk_memory_import_init(rvit_vk_memory_import *import, intptr_t handle)
{
    if (RVIT_OS_HANDLES_ARE_FDS)
        import->fd = (VkImportMemoryFdInfoKHR){
            .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, .handleType = RVIT_VK_MEMORY_HANDLE_TYPE, .fd = (int)handle};
    else
        import->win32 = (rvit_vk_import_memory_win32){.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_WIN32_HANDLE_INFO_KHR,
                                                      .handleType = RVIT_VK_MEMORY_HANDLE_TYPE,
                                                      .handle = (void *)handle};
}

rvit_status rvit_vk_memory_get_handle(const rvit_vk_device *device, VkDeviceMemory memory, intptr_t *out_handle)
{
    if (RVIT_OS_HANDLES_ARE_FDS) {
        const VkMemoryGetFdInfoKHR get = {
            .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = memory, .handleType = RVIT_VK_MEMORY_HANDLE_TYPE};
        int fd = -1;
        RVIT_VK_TRY(device->vk, vkGetMemoryFdKHR, (device->handle, &get, &fd));
        *out_handle = fd;
        return RVIT_OK;
    }
    const rvit_vk_get_memory_win32 get = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_WIN32_HANDLE_INFO_KHR, .memory = memory, .handleType = RVIT_VK_MEMORY_HANDLE_TYPE};
    void *handle = NULL;
    RVIT_VK_TRY(device->vk, vkGetMemoryWin32HandleKHR, (device->handle, &get, &handle));
    *out_handle = (intptr_t)handle;
    return RVIT_OK;
}

rvit_status rvit_vk_semaphore_set_handle(const rvit_vk_device *device, VkSemaphore semaphore, intptr_t handle)
{
    if (RVIT_OS_HANDLES_ARE_FDS) {
        const VkImportSemaphoreFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
                                                   .semaphore = semaphore,
                                                   .handleType = RVIT_VK_SEMAPHORE_HANDLE_TYPE,
                                                   .fd = (int)handle};
        RVIT_VK_TRY(device->vk, vkImportSemaphoreFdKHR, (device->handle, &import));
        return RVIT_OK;
    }
    const rvit_vk_import_semaphore_win32 import = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_WIN32_HANDLE_INFO_KHR,
                                                   .semaphore = semaphore,
                                                   .handleType = RVIT_VK_SEMAPHORE_HANDLE_TYPE,
                                                   .handle = (void *)handle};
    RVIT_VK_TRY(device->vk, vkImportSemaphoreWin32HandleKHR, (device->handle, &import));
    return RVIT_OK;
}

rvit_status rvit_vk_semaphore_get_handle(const rvit_vk_device *device, VkSemaphore semaphore, intptr_t *out_handle)
{
    if (RVIT_OS_HANDLES_ARE_FDS) {
        const VkSemaphoreGetFdInfoKHR get = {
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, .semaphore = semaphore, .handleType = RVIT_VK_SEMAPHORE_HANDLE_TYPE};
        int fd = -1;
        RVIT_VK_TRY(device->vk, vkGetSemaphoreFdKHR, (device->handle, &get, &fd));
        *out_handle = fd;
        return RVIT_OK;
    }
    const rvit_vk_get_semaphore_win32 get = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_WIN32_HANDLE_INFO_KHR,
                                             .semaphore = semaphore,
                                             .handleType = RVIT_VK_SEMAPHORE_HANDLE_TYPE};
    void *handle = NULL;
    RVIT_VK_TRY(device->vk, vkGetSemaphoreWin32HandleKHR, (device->handle, &get, &handle));
    *out_handle = (intptr_t)handle;
    return RVIT_OK;
}

int rvit_vk_has_memory_handles(const rvit_vk_device *device)
{
    return RVIT_OS_HANDLES_ARE_FDS ? device->vk.vkGetMemoryFdKHR != NULL : device->vk.vkGetMemoryWin32HandleKHR != NULL;
}

int rvit_vk_has_semaphore_handles(const rvit_vk_device *device)
{
    return RVIT_OS_HANDLES_ARE_FDS ? device->vk.vkGetSemaphoreFdKHR != NULL && device->vk.vkImportSemaphoreFdKHR != NULL
                                   : device->vk.vkGetSemaphoreWin32HandleKHR != NULL && device->vk.vkImportSemaphoreWin32HandleKHR != NULL;
}
