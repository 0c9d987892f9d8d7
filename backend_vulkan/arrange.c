/* Rearranges weights into the order in which linear_direct_matrix.comp reads them. linear.c records the dispatch. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_arrange_weight(rvit_stream *stream, rvit_op *op)
{
    const rvit_vk_device *device = rvit_vk_device_of(stream->device);
    const rvit_linear_args *args = &op->linear;
    if (device->base.info.tier != RVIT_TIER_MATRIX || !device->physical.matrix.in_rows || args->dtype != RVIT_F16 ||
        args->in_features % 64 != 0 || rvit_linear_columns(args) % 64 != 0)
        return RVIT_OK;
    rvit_op arranging = *op;
    arranging.hints.arranged = RVIT_VK_ARRANGING;
    RVIT_TRY(rvit_vk_stream_enqueue(stream, &arranging, 1));
    op->hints.arranged = 1;
    return RVIT_OK;
}
