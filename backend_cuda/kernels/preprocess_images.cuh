/* The staging buffer of preprocess: image descriptors, axes, pixel and row addresses. Its contents are not trusted: all values are
   clamped to what exists. */
#ifndef RVIT_PREPROCESS_IMAGES_CUH
#define RVIT_PREPROCESS_IMAGES_CUH

#include "elements.cuh"

#include "core/contract/image_descriptor.h"

/* Outputs are made in tiles of TILE_WIDTH columns and up to TILE_HEIGHT rows. RGB_ROWS of them at a time are stored as interleaved RGB
   bytes. */
enum {
    TILE_WIDTH = RVIT_CU_PREPROCESS_WIDTH,
    TILE_HEIGHT = RVIT_CU_PREPROCESS_HEIGHT,
    RGB_ROWS = 32,
    RGB_PITCH = 3 * TILE_WIDTH + 8, /* a multiple of 4, for which a warp's stores of 8 columns of 8 rows have no bank conflict */
    PREPROCESS_THREADS = RVIT_CU_PREPROCESS_THREADS
};

/* Outputs begin .. begin + n of an axis, whose words start at index `at`. */
struct image_axis {
    int at, n_axis, begin, n, in_size, bits;
};

struct image_taps {
    int first, count;
    int weights; /* index of the first; n_axis apart */
};

RVIT_DEVICE image_taps taps_of(const rvit_cu_preprocess_params &params, const image_axis &axis, int i)
{
    const int here = axis.at + axis.begin + i, left = params.n_words - here - 2 * axis.n_axis;
    image_taps taps;
    taps.first = min(max(params.words[here], 0), axis.in_size - 1);
    taps.count = min(max(params.words[here + axis.n_axis], 0), axis.in_size - taps.first);
    if ((long long)(taps.count - 1) * axis.n_axis >= left) /* the table is truncated */
        taps.count = left <= 0 ? 0 : min(taps.count, (left - 1) / axis.n_axis + 1);
    taps.weights = here + 2 * axis.n_axis;
    return taps;
}

/* Whether the axis' words exist. */
RVIT_DEVICE bool axis_of(const rvit_cu_preprocess_params &params, int at, int n_axis, int begin, int n, int in_size, int bits,
                         image_axis &out)
{
    out = {at, n_axis, begin, n, in_size, min(max(bits, 1), 30)};
    return at >= 0 && n_axis >= 1 && at < params.n_words && 2ll * n_axis <= params.n_words - at;
}

/* The first pixel of an image whose pixels are all within their memory, otherwise null. limit: the end of that memory. */
RVIT_DEVICE const uint8_t *pixels_of(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, long long &plane,
                                     const uint8_t *&limit)
{
    const long long max_plane = 1ll << 40;
    const long long begin = (long long)((unsigned long long)e.offset_high << 32 | e.offset_low);
    const long long size = e.on_device ? params.pixels_size : 4ll * params.n_words;
    const uint8_t *memory = e.on_device ? params.pixels : reinterpret_cast<const uint8_t *>(params.words);
    plane = (long long)((unsigned long long)e.plane_high << 32 | e.plane_low);
    if (memory == nullptr || begin < 0 || begin > size || plane < 0 || plane > max_plane || e.width < 1 || e.height < 1 ||
        e.width > RVIT_IMAGE_ENTRY_SIDE || e.height > RVIT_IMAGE_ENTRY_SIDE || e.stride < 0 || e.pixel_size < 1 || e.pixel_size > 4)
        return nullptr;
    long long end = (long long)e.stride * (e.height - 1) + (long long)e.width * e.pixel_size;
    if (e.read == RVIT_IMAGE_READ_NV12) {
        end = max(end, plane + (long long)e.stride * ((e.height + 1) / 2 - 1) + (e.width + 1) / 2 * 2);
    } else if (e.read == RVIT_IMAGE_READ_F32 || e.read == RVIT_IMAGE_READ_F16) {
        end += 2 * plane;
        if (e.pixel_size != (e.read == RVIT_IMAGE_READ_F16 ? 2 : 4) || (begin | plane | e.stride) % e.pixel_size != 0)
            return nullptr;
    } else if (e.read != RVIT_IMAGE_READ_PACKED || (unsigned)e.red >= (unsigned)e.pixel_size ||
               (unsigned)e.green >= (unsigned)e.pixel_size || (unsigned)e.blue >= (unsigned)e.pixel_size) {
        return nullptr;
    }
    limit = memory + size;
    return end <= size - begin ? memory + begin : nullptr;
}

RVIT_DEVICE int image_row_start(const rvit_cu_preprocess_params &params, int image)
{
    return min(max(params.words[RVIT_IMAGE_ROW_STARTS + image], 0), params.rows);
}

RVIT_DEVICE void clamp_entry(rvit_image_entry &e, int patch)
{
    e.grid_width = min(max(e.grid_width, 1), 1 << 14);
    e.grid_height = min(max(e.grid_height, 1), 1 << 14);
    e.right = min(max(e.right, 0), e.grid_width * patch);
    e.bottom = min(max(e.bottom, 0), e.grid_height * patch);
    e.left = min(max(e.left, 0), e.right);
    e.top = min(max(e.top, 0), e.bottom);
}

/* The image of a CTA's slot, and its tiles: tile, tile + step ... */
struct slot_image {
    rvit_image_entry e;
    const uint8_t *memory, *limit; /* of the pixels; memory is null if there are none */
    long long plane;
    long long first_row; /* the row of the first patch */
    int tile, tiles, step, across_tiles;
};

struct image_tile {
    int x, y, width, height;
    int x0, x1, y0, y1; /* the part that the image covers; x1 == x0: none */
    image_axis across, down;
};

RVIT_DEVICE image_tile tile_of(const rvit_cu_preprocess_params &params, const slot_image &p, int tile)
{
    const rvit_image_entry &e = p.e;
    image_tile t;
    t.across = t.down = {0, 0, 0, 0, 0, 0};
    t.y = tile / p.across_tiles;
    t.x = (tile - t.y * p.across_tiles) * TILE_WIDTH;
    t.y *= params.tile_height;
    t.width = min(e.grid_width * params.patch_size - t.x, (int)TILE_WIDTH);
    t.height = min(e.grid_height * params.patch_size - t.y, params.tile_height);
    t.x0 = max(t.x, e.left);
    t.x1 = min(t.x + t.width, e.right);
    t.y0 = max(t.y, e.top);
    t.y1 = min(t.y + t.height, e.bottom);
    if (t.x0 >= t.x1 || t.y0 >= t.y1 ||
        !axis_of(params, e.x_axis, e.right - e.left, t.x0 - e.left, t.x1 - t.x0, e.width, e.x_bits, t.across) ||
        !axis_of(params, e.y_axis, e.bottom - e.top, t.y0 - e.top, t.y1 - t.y0, e.height, e.y_bits, t.down))
        t.x1 = t.x0;
    return t;
}

RVIT_DEVICE const rvit_image_entry *image_entries(const rvit_cu_preprocess_params &params)
{
    return reinterpret_cast<const rvit_image_entry *>(params.words + RVIT_IMAGE_ENTRIES(params.n_images));
}

/* Recomputed at each use, because keeping derived values through the loops would need too many registers. */
RVIT_DEVICE int thread_number()
{
    return recompute((int)threadIdx.x);
}

/* Work is divided into slots. An image has one slot per tile area (a power of two) of its rows, plus one, and its tiles are dealt to
   them round-robin. So the number of slots before an image follows from the rows before it. */
RVIT_DEVICE long long image_slots_before(const rvit_cu_preprocess_params &params, int image)
{
    return ((long long)image_row_start(params, image) * (params.patch_size * params.patch_size) >> params.slot_bits) + image;
}

/* The last image that starts at or before the slot. All lanes of a warp must pass the same slot. */
RVIT_DEVICE int image_of_slot(const rvit_cu_preprocess_params &params, int n_images, long long slot)
{
    const int lane = (int)threadIdx.x % 32;
    int low = 0;
    for (int count = n_images, step; count > 1; count = min(step, n_images - low)) {
        step = (count + 31) / 32;
        const bool begins = lane * step < count && image_slots_before(params, low + lane * step) <= slot;
        low += max(bit_count(warp_ballot(begins)) - 1, 0) * step;
    }
    return low;
}

RVIT_DEVICE void write_image_layout(const rvit_cu_preprocess_params &params, int n_images)
{
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i <= params.n_images; i += step) {
        if (params.cu_seqlens != nullptr)
            params.cu_seqlens[i] = image_row_start(params, min((int)i, n_images));
        if (params.grids != nullptr && i < params.n_images) {
            rvit_image_entry e = image_entries(params)[i];
            clamp_entry(e, params.patch_size);
            params.grids[2 * i] = i < n_images ? e.grid_height : 0;
            params.grids[2 * i + 1] = i < n_images ? e.grid_width : 0;
        }
    }
}

#endif
