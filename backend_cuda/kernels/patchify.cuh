/* Cuts images into rows of patches. A CTA takes one channel of one line of patches, so that the image, which may lie in the host's memory,
   is read line by line. */
#ifndef RVIT_PATCHIFY_CUH
#define RVIT_PATCHIFY_CUH

#include "elements.cuh"

RVIT_DEVICE void store_2(float *p, float2 x)
{
    *reinterpret_cast<float2 *>(p) = x;
}

template <typename T> RVIT_DEVICE void store_2(T *p, float2 x)
{
    *reinterpret_cast<uint32_t *>(p) = element<T>::pack(x.x, x.y);
}

template <typename T> RVIT_DEVICE void patchify(const rvit_cu_patchify_params &params)
{
    const int n = params.live_images == nullptr ? params.n_images : min(max(*params.live_images, 0), params.n_images);
    const int size = params.image_size, patch = params.patch_size, tokens = params.n_prefix + params.grid * params.grid;
    const int width = params.channels * patch * patch, tasks = params.channels * params.grid;
    if (params.cu_seqlens != nullptr) {
        const long long step = (long long)gridDim.x * blockDim.x;
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i <= params.n_images; i += step)
            params.cu_seqlens[i] = min((int)i, n) * tokens;
    }
    for (long long task = blockIdx.x; task < (long long)n * tasks; task += gridDim.x) {
        const int image = (int)(task / tasks), channel = (int)(task % tasks) / params.grid, line = (int)(task % tasks) % params.grid;
        const float *pixels = params.images + (((long long)image * params.channels + channel) * size + line * patch) * size;
        T *out = static_cast<T *>(params.out) + ((long long)image * tokens + params.n_prefix + line * params.grid) * width +
                 channel * patch * patch;
        if (patch % 4 == 0) {
            for (int i = threadIdx.x * 4; i < patch * size; i += blockDim.x * 4) {
                const int y = i / size, x = i - y * size, column = x / patch;
                store_4(out + (long long)column * width + y * patch + (x - column * patch), load_4(pixels + i));
            }
        } else {
            for (int i = threadIdx.x * 2; i < patch * size; i += blockDim.x * 2) {
                const int y = i / size, x = i - y * size, column = x / patch;
                store_2(out + (long long)column * width + y * patch + (x - column * patch), *reinterpret_cast<const float2 *>(pixels + i));
            }
        }
        if (channel == 0 && line == 0) {
            T *prefix = static_cast<T *>(params.out) + (long long)image * tokens * width;
            for (long long i = threadIdx.x * 2; i < (long long)params.n_prefix * width; i += blockDim.x * 2)
                store_2(prefix + i, make_float2(0.0f, 0.0f));
        }
    }
}

#endif
