/* Rows of 8 bits are not supported: rvit_vk_supports refuses them. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_quantize(rvit_vk_recorder *recorder, const rvit_quantize_args *args)
{
    (void)recorder, (void)args;
    return rvit_fail(RVIT_INTERNAL, "vulkan: rows of 8 bits are not supported");
}
