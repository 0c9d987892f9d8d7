/* The device functions that the backend calls; NULL for extensions that are not enabled. volk's table of all functions takes most of a
   millisecond to fill. */
#ifndef RVIT_BACKEND_VULKAN_FUNCTIONS_H
#define RVIT_BACKEND_VULKAN_FUNCTIONS_H

#include "backend_vulkan/status.h"

#define RVIT_VK_FUNCTIONS(F)          \
    F(vkAllocateCommandBuffers);      \
    F(vkAllocateDescriptorSets);      \
    F(vkAllocateMemory);              \
    F(vkBeginCommandBuffer);          \
    F(vkBindBufferMemory);            \
    F(vkCmdBindDescriptorSets);       \
    F(vkCmdBindPipeline);             \
    F(vkCmdCopyBuffer);               \
    F(vkCmdDispatch);                 \
    F(vkCmdDispatchIndirect);         \
    F(vkCmdPipelineBarrier);          \
    F(vkCmdPushConstants);            \
    F(vkCreateBuffer);                \
    F(vkCreateBufferView);            \
    F(vkCreateCommandPool);           \
    F(vkCreateComputePipelines);      \
    F(vkCreateDescriptorPool);        \
    F(vkCreateDescriptorSetLayout);   \
    F(vkCreateFence);                 \
    F(vkCreatePipelineCache);         \
    F(vkCreatePipelineLayout);        \
    F(vkCreateSemaphore);             \
    F(vkCreateShaderModule);          \
    F(vkDestroyBuffer);               \
    F(vkDestroyBufferView);           \
    F(vkDestroyCommandPool);          \
    F(vkDestroyDescriptorPool);       \
    F(vkDestroyDescriptorSetLayout);  \
    F(vkDestroyDevice);               \
    F(vkDestroyFence);                \
    F(vkDestroyPipeline);             \
    F(vkDestroyPipelineCache);        \
    F(vkDestroyPipelineLayout);       \
    F(vkDestroySemaphore);            \
    F(vkDestroyShaderModule);         \
    F(vkDeviceWaitIdle);              \
    F(vkEndCommandBuffer);            \
    F(vkFreeMemory);                  \
    F(vkGetBufferMemoryRequirements); \
    F(vkGetDeviceQueue);              \
    F(vkGetFenceStatus);              \
    F(vkGetPipelineCacheData);        \
    F(vkMapMemory);                   \
    F(vkQueueSubmit);                 \
    F(vkQueueWaitIdle);               \
    F(vkResetCommandPool);            \
    F(vkResetDescriptorPool);         \
    F(vkResetFences);                 \
    F(vkUpdateDescriptorSets);        \
    F(vkWaitForFences)

#define RVIT_VK_EXTENSION_FUNCTIONS(F) \
    F(vkGetMemoryFdKHR);               \
    F(vkGetSemaphoreFdKHR);            \
    F(vkImportSemaphoreFdKHR)

/* vulkan_win32.h needs windows.h, so what is used of it is declared here. */
typedef struct rvit_vk_import_memory_win32 {
    VkStructureType sType;
    const void *pNext;
    VkExternalMemoryHandleTypeFlagBits handleType;
    void *handle;
    const void *name;
} rvit_vk_import_memory_win32;
typedef struct rvit_vk_get_memory_win32 {
    VkStructureType sType;
    const void *pNext;
    VkDeviceMemory memory;
    VkExternalMemoryHandleTypeFlagBits handleType;
} rvit_vk_get_memory_win32;
typedef struct rvit_vk_import_semaphore_win32 {
    VkStructureType sType;
    const void *pNext;
    VkSemaphore semaphore;
    VkSemaphoreImportFlags flags;
    VkExternalSemaphoreHandleTypeFlagBits handleType;
    void *handle;
    const void *name;
} rvit_vk_import_semaphore_win32;
typedef struct rvit_vk_get_semaphore_win32 {
    VkStructureType sType;
    const void *pNext;
    VkSemaphore semaphore;
    VkExternalSemaphoreHandleTypeFlagBits handleType;
} rvit_vk_get_semaphore_win32;
typedef VkResult(VKAPI_PTR *rvit_PFN_vkGetMemoryWin32HandleKHR)(VkDevice device, const rvit_vk_get_memory_win32 *info, void **handle);
typedef VkResult(VKAPI_PTR *rvit_PFN_vkGetSemaphoreWin32HandleKHR)(VkDevice device, const rvit_vk_get_semaphore_win32 *info, void **handle);
typedef VkResult(VKAPI_PTR *rvit_PFN_vkImportSemaphoreWin32HandleKHR)(VkDevice device, const rvit_vk_import_semaphore_win32 *info);
#define RVIT_VK_WIN32_FUNCTIONS(F)   \
    F(vkGetMemoryWin32HandleKHR);    \
    F(vkGetSemaphoreWin32HandleKHR); \
    F(vkImportSemaphoreWin32HandleKHR)

#define RVIT_VK_MEMBER(name) PFN_##name name
#define RVIT_VK_WIN32_MEMBER(name) rvit_PFN_##name name
typedef struct rvit_vk_functions {
    RVIT_VK_FUNCTIONS(RVIT_VK_MEMBER);
    RVIT_VK_EXTENSION_FUNCTIONS(RVIT_VK_MEMBER);
    RVIT_VK_WIN32_FUNCTIONS(RVIT_VK_WIN32_MEMBER);
} rvit_vk_functions;

#endif
