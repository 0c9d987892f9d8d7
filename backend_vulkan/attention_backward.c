/* The gradient of attention, which is not supported: rvit_vk_supports rejects it. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_attention_backward(rvit_vk_recorder *recorder, const rvit_attention_backward_args *args)
{
    (void)recorder, (void)args;
    return rvit_fail(RVIT_INTERNAL, "vulkan: the gradient of attention is not supported");
}
