/* Memory and semaphores that other APIs share: by file descriptor or by HANDLE, whichever the system has. */
#ifndef RVIT_BACKEND_VULKAN_HANDLES_H
#define RVIT_BACKEND_VULKAN_HANDLES_H

#include "backend_vulkan/vulkan.h"
#include "core/base/os.h"

#if RVIT_OS_HANDLES_ARE_FDS
#define RVIT_VK_MEMORY_HANDLE_EXTENSION "VK_KHR_external_memory_fd"
#define RVIT_VK_SEMAPHORE_HANDLE_EXTENSION "VK_KHR_external_semaphore_fd"
#define RVIT_VK_MEMORY_HANDLE_TYPE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define RVIT_VK_SEMAPHORE_HANDLE_TYPE VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT
#define RVIT_VK_HANDLE_KIND "opaque file descriptor"
#else
#define RVIT_VK_MEMORY_HANDLE_EXTENSION "VK_KHR_external_memory_win32"
#define RVIT_VK_SEMAPHORE_HANDLE_EXTENSION "VK_KHR_external_semaphore_win32"
#define RVIT_VK_MEMORY_HANDLE_TYPE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_BIT
#define RVIT_VK_SEMAPHORE_HANDLE_TYPE VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_BIT
#define RVIT_VK_HANDLE_KIND "opaque HANDLE"
#endif

/* Completes an import for VkMemoryAllocateInfo.pNext. */
typedef union rvit_vk_memory_import {
    VkImportMemoryFdInfoKHR fd;
    rvit_vk_import_memory_win32 win32;
} rvit_vk_memory_import;
void rvit_vk_memory_import_init(rvit_vk_memory_import *import, intptr_t handle);
rvit_status rvit_vk_memory_get_handle(const rvit_vk_device *device, VkDeviceMemory memory, intptr_t *out_handle);

rvit_status rvit_vk_semaphore_set_handle(const rvit_vk_device *device, VkSemaphore semaphore, intptr_t handle);
rvit_status rvit_vk_semaphore_get_handle(const rvit_vk_device *device, VkSemaphore semaphore, intptr_t *out_handle);

/* Whether the driver has the functions of the extension. */
int rvit_vk_has_memory_handles(const rvit_vk_device *device);
int rvit_vk_has_semaphore_handles(const rvit_vk_device *device);

#endif
