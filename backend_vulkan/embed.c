#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_embed(rvit_vk_recorder *recorder, const rvit_embed_args *args)
{
    (void)recorder, (void)args;
    return rvit_fail(RVIT_INTERNAL, "embed: not supported");
}
