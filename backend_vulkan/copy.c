/* The copy op: a transfer command, not a kernel. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_copy(rvit_vk_recorder *recorder, const rvit_copy_args *args)
{
    if (args->size == 0)
        return RVIT_OK;
    recorder->copies++;
    if (recorder->commands == VK_NULL_HANDLE)
        return RVIT_OK;
    const VkBufferCopy region = {(VkDeviceSize)rvit_vk_at(args->source), (VkDeviceSize)rvit_vk_at(args->destination),
                                 (VkDeviceSize)args->size};
    recorder->device->vk.vkCmdCopyBuffer(recorder->commands, ((const rvit_vk_buffer *)args->source.buffer)->handle,
                                         ((const rvit_vk_buffer *)args->destination.buffer)->handle, 1, &region);
    return RVIT_OK;
}
