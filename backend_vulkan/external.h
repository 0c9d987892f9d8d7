/* What the files behind include/raggedvit/vulkan.h share. */
#ifndef RVIT_BACKEND_VULKAN_EXTERNAL_H
#define RVIT_BACKEND_VULKAN_EXTERNAL_H

#include "backend_vulkan/vulkan.h"

/* Handles that are not dispatchable are pointers or integers, by the platform. */
#define RVIT_VK_HANDLE(type, number) ((type)(number))
#define RVIT_VK_NUMBER(handle) ((uint64_t)(handle))

rvit_status rvit_vk_check_device(const char *function, const rvit_device *device);
/* As core does for an object it creates: the child keeps its device alive. */
void rvit_vk_retain(rvit_device *device);

#endif
