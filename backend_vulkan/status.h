/* The Vulkan types, and the conversion of VkResult. */
#ifndef RVIT_BACKEND_VULKAN_STATUS_H
#define RVIT_BACKEND_VULKAN_STATUS_H

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include "vulkan_names.h"

#include <volk.h>

#include "core/base/status.h"

/* Converts a VkResult to a status; the detail names the call. */
rvit_status rvit_vk_fail(VkResult result, const char *call);
#define RVIT_VK_TRY(table, call, arguments)                 \
    do {                                                    \
        const VkResult try_result = (table).call arguments; \
        if (try_result != VK_SUCCESS)                       \
            return rvit_vk_fail(try_result, #call);         \
    } while (0)

#endif
