#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_grid_rope(rvit_vk_recorder *recorder, const rvit_grid_rope_args *args)
{
    (void)recorder, (void)args;
    return rvit_fail(RVIT_INTERNAL, "grid_rope: not supported");
}
