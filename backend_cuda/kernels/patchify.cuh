/* Cuts images into patch rows. A CTA takes one channel of one line of patches, so that images, which may be in host memory, are read
   line by line. */
#ifndef RVIT_PATCHIFY_CUH
#define RVIT_PATCHIFY_CUH

#include "elements.cuh"

RVIT_DEVICE float4 load_piece(const float *p, float4)
{
    return load_4(p);
}

RVIT_DEVICE float2 load_piece(const float *p, float2)
{
    return *reinterpret_cast<const float2 *>(p);
}

/* Two pixels without alignment. */
struct unaligned_2 {
    float x, y;
};

RVIT_DEVICE unaligned_2 load_piece(const float *p, unaligned_2)
{
    return {p[0], p[1]};
}

template <typename T> RVIT_DEVICE void store_split(T *p, int low_offset, unaligned_2 x)
{
    store_split(p, low_offset, make_float2(x.x, x.y));
}

/* Cuts a line of patches, `pitch` pixels from row to row; only the first `size` are read. A thread keeps its column and takes every
   n-th row of pixels, so that it divides only once. */
template <typename T, typename V>
RVIT_DEVICE void cut_line(const float *pixels, T *out, int pitch, int size, int patch, int stride, int low_offset)
{
    enum { EACH = sizeof(V) / sizeof(float), AHEAD = 4 };
    const int pieces = size / EACH, columns = min(pieces, (int)blockDim.x), lines = (int)blockDim.x / columns;
    const int first = (int)threadIdx.x / columns;
    if (first >= lines)
        return;
    for (int piece = (int)threadIdx.x - first * columns; piece < pieces; piece += columns) {
        const int x = piece * EACH, column = x / patch;
        const float *from = pixels + x;
        T *to = out + (long long)column * stride + (x - column * patch);
        for (int y = first; y < patch; y += lines * AHEAD) {
            V value[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (y + i * lines < patch)
                    value[i] = load_piece(from + (y + i * lines) * pitch, V());
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (y + i * lines < patch)
                    store_split(to + (y + i * lines) * patch, low_offset, value[i]);
        }
    }
}

/* Grid: channels and lines of patches, images. */
template <typename T> RVIT_DEVICE void patchify(const rvit_cu_patchify_params &params)
{
    const int n = params.live_images == nullptr ? params.n_images : min(max(*params.live_images, 0), params.n_images);
    const int patch = params.patch_size, size = params.grid_width * patch, pitch = params.width;
    const int tokens = params.n_prefix + params.grid_height * params.grid_width;
    const int width = params.channels * patch * patch, stride = params.out_stride, low_offset = params.low_offset;
    const int parts = low_offset > 0 ? 2 : 1, part = low_offset > 0 ? low_offset : stride;
    const int channel = (int)blockIdx.x / params.grid_height, line = (int)blockIdx.x % params.grid_height;
    if (params.cu_seqlens != nullptr && blockIdx.x == 0) {
        const long long step = (long long)gridDim.y * blockDim.x;
        for (long long i = (long long)blockIdx.y * blockDim.x + threadIdx.x; i <= params.n_images; i += step)
            params.cu_seqlens[i] = min((int)i, n) * tokens;
    }
    for (int image = blockIdx.y; image < n; image += gridDim.y) {
        const float *pixels = params.images + (((long long)image * params.channels + channel) * params.height + line * patch) * pitch;
        T *prefix = static_cast<T *>(params.out) + (long long)image * tokens * stride;
        T *out = prefix + (long long)(params.n_prefix + line * params.grid_width) * stride + channel * patch * patch;
        if (patch % 4 == 0 && pitch % 4 == 0 && part % 4 == 0)
            cut_line<T, float4>(pixels, out, pitch, size, patch, stride, low_offset);
        else if (pitch % 2 == 0)
            cut_line<T, float2>(pixels, out, pitch, size, patch, stride, low_offset);
        else
            cut_line<T, unaligned_2>(pixels, out, pitch, size, patch, stride, low_offset);
        if (blockIdx.x == 0)
            for (long long i = threadIdx.x * 2; i < (long long)params.n_prefix * stride; i += blockDim.x * 2)
                store_2(prefix + i, make_float2(0.0f, 0.0f));
        if (channel == 0)
            for (int i = threadIdx.x; i < params.grid_width * parts * (part - width) / 2; i += blockDim.x) {
                const int pairs = (part - width) / 2, number = i / pairs;
                store_2(out + (long long)number * part + width + (i - number * pairs) * 2, make_float2(0.0f, 0.0f));
            }
    }
}

#endif
