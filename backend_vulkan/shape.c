/* Tile sizes: pure functions of an op's host-known sizes and of the device. No result depends on them but through rounding in attention,
   whose key blocks they set. */
#include "backend_vulkan/vulkan.h"

int rvit_vk_uses_subgroups(const rvit_vk_device *device)
{
    return device->base.info.tier == RVIT_TIER_SUBGROUP;
}

/* A software device fetches texels as whole vectors but gathers other loads lane by lane: large register tiles fed by texel buffers are
   several times as fast there as tiles staged in shared memory. The scalar tier keeps to the staged ones. n is the fours of elements. */
static int direct_fits(const rvit_vk_device *device, int64_t n)
{
    return device->base.info.is_software && rvit_vk_uses_subgroups(device) && n <= (int64_t)device->physical.limits.maxTexelBufferElements;
}

rvit_vk_linear_shape rvit_vk_shape_linear(const rvit_vk_device *device, const rvit_linear_args *args)
{
    const int64_t in4 = args->in_features / 4;
    if (direct_fits(device, args->rows.capacity * in4) && direct_fits(device, args->out_features * in4))
        return args->rows.capacity < 64
                   ? (rvit_vk_linear_shape){.direct = 1, .threads = 8, .rows = 8, .columns = 2, .tile_m = 8, .tile_n = 64}
                   : (rvit_vk_linear_shape){.direct = 1, .threads = 8, .rows = 16, .columns = 2, .tile_m = 16, .tile_n = 64};
    /* Small products need more groups than large tiles leave. */
    const int64_t large_tiles = (args->rows.capacity + 63) / 64 * ((args->out_features + 63) / 64);
    if (large_tiles >= 64)
        return (rvit_vk_linear_shape){.threads = 128, .rows = 8, .columns = 1, .tile_m = 64, .tile_n = 64, .tile_k = 16};
    return (rvit_vk_linear_shape){.threads = 64, .rows = 4, .columns = 1, .tile_m = 32, .tile_n = 32, .tile_k = 32};
}

/* Bytes of attention.comp's shared arrays. */
static uint32_t attention_shared(uint32_t head_dim, rvit_vk_attention_shape shape)
{
    const uint32_t vectors = head_dim / 4 * (shape.queries + 1 + shape.keys + 1) + shape.queries * (shape.keys / 4 + 1);
    return vectors * 16 + shape.queries * 12 + shape.threads * 4;
}

rvit_vk_attention_shape rvit_vk_shape_attention(const rvit_vk_device *device, const rvit_attention_args *args)
{
    static const rvit_vk_attention_shape shapes[] = {{0, 128, 32, 32}, {0, 128, 16, 32}, {0, 128, 16, 16}, {0, 64, 8, 16}};
    const int64_t widest = args->k_stride > args->v_stride ? args->k_stride : args->v_stride;
    const uint32_t lanes = device->physical.subgroup_size;
    if (direct_fits(device, args->rows * (widest > args->q_stride ? widest : args->q_stride) / 4) && lanes >= 4 && lanes <= 16)
        return (rvit_vk_attention_shape){.direct = 1, .threads = lanes, .queries = 8, .keys = 4 * lanes};
    const size_t n = sizeof shapes / sizeof shapes[0];
    const uint32_t most = device->physical.limits.maxComputeSharedMemorySize;
    size_t i = args->max_len <= 8 ? 3 : args->max_len <= 16 ? 2 : 0;
    while (i + 1 < n && attention_shared((uint32_t)args->head_dim, shapes[i]) > most)
        i++;
    return shapes[i];
}
