/* Makes patch rows of pictures. A CTA takes a tile of 16 x 16 pixels of a patch. Its inputs go by in blocks of lines: the first pass of the
   resize makes lines of the tile's width, rounded to 8 bits, in shared memory, the second adds them up, a pixel a thread. The table is not
   trusted: what it says is clamped to what there is. */
#ifndef RVIT_PREPROCESS_CUH
#define RVIT_PREPROCESS_CUH

#include "elements.cuh"

#include "core/image_table.h"

/* The part of the region that is used. */
RVIT_DEVICE void fetch_units(const rvit_cu_fetch_params &params)
{
    const uint4 *from = static_cast<const uint4 *>(params.source);
    uint4 *to = static_cast<uint4 *>(params.destination);
    const int32_t live = static_cast<const int32_t *>(params.source)[RVIT_IMAGE_LIVE_UNITS];
    const long long n = min((long long)max(live, 0), (long long)params.units), step = (long long)gridDim.x * blockDim.x;
    enum { AHEAD = 4 };
    for (long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x; first < n; first += step * AHEAD) {
        uint4 piece[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * step < n)
                piece[i] = from[first + i * step];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * step < n)
                to[first + i * step] = piece[i];
    }
}

enum { PREPROCESS_TILE = 16, PREPROCESS_THREADS = 256, PREPROCESS_LINES = 64 };

/* Outputs begin .. begin + n of one axis, whose words begin at number at. */
struct image_axis {
    int at, n_axis, begin, n, in_size, bits;
};

struct image_taps {
    int first, count;
    int weights; /* words, n_axis apart */
};

RVIT_DEVICE image_taps taps_of(const rvit_cu_preprocess_params &params, const image_axis &axis, int i)
{
    const int here = axis.at + axis.begin + i, left = params.n_words - here - 2 * axis.n_axis;
    image_taps taps;
    taps.first = min(max(params.words[here], 0), axis.in_size - 1);
    const int held = left <= 0 ? 0 : (left - 1) / axis.n_axis + 1;
    taps.count = min(max(params.words[here + axis.n_axis], 0), min(held, axis.in_size - taps.first));
    taps.weights = here + 2 * axis.n_axis;
    return taps;
}

/* Whether its words are there. */
RVIT_DEVICE bool axis_of(const rvit_cu_preprocess_params &params, int at, int n_axis, int begin, int n, int in_size, int bits,
                         image_axis &out)
{
    out = {at, n_axis, begin, n, in_size, min(max(bits, 1), 30)};
    return at >= 0 && n_axis >= 1 && at < params.n_words && n_axis <= (params.n_words - at) / 2;
}

/* The first pixel of a picture whose pixels lie inside of their memory, else null. */
RVIT_DEVICE const uint8_t *pixels_of(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, long long &plane)
{
    const long long most = 1ll << 40;
    const long long begin = (long long)((unsigned long long)e.offset_high << 32 | e.offset_low);
    const long long size = e.on_device ? params.pixels_size : 4ll * params.n_words;
    const uint8_t *memory = e.on_device ? params.pixels : reinterpret_cast<const uint8_t *>(params.words);
    plane = (long long)((unsigned long long)e.plane_high << 32 | e.plane_low);
    if (memory == nullptr || begin < 0 || begin > size || plane < 0 || plane > most || e.width < 1 || e.height < 1 ||
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
    return end <= size - begin ? memory + begin : nullptr;
}

RVIT_DEVICE unsigned image_byte(unsigned sum, int bits)
{
    return (unsigned)min(max((int)sum >> bits, 0), 255);
}

/* Three 8-bit values in a word. */
RVIT_DEVICE unsigned load_nv12(const rvit_image_entry &e, const uint8_t *memory, long long plane, int x, int y)
{
    const uint8_t *chroma = memory + plane + (long long)(y / 2) * e.stride + x / 2 * 2;
    const unsigned luma = ((unsigned)memory[(long long)y * e.stride + x] - (unsigned)e.luma_zero) * (unsigned)e.luma_gain + 32768u;
    const unsigned cb = (unsigned)chroma[0] - 128u, cr = (unsigned)chroma[1] - 128u;
    return image_byte(luma + cr * (unsigned)e.red_cr, 16) |
           image_byte(luma + cb * (unsigned)e.green_cb + cr * (unsigned)e.green_cr, 16) << 8 |
           image_byte(luma + cb * (unsigned)e.blue_cb, 16) << 16;
}

/* The first pass over lines block .. stop; with the vertical pass first, `lines` are columns. A thread makes an output of EACH lines at a
   time, so that it reads a weight once for them. */
template <bool NV12, int EACH>
RVIT_DEVICE void sum_block(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, const uint8_t *memory, long long plane,
                           const image_axis &axis, int block, int stop, uint32_t (*lines)[PREPROCESS_TILE])
{
    enum { STEP = PREPROCESS_THREADS / PREPROCESS_TILE };
    const int i = (int)threadIdx.x % PREPROCESS_TILE;
    if (i >= axis.n)
        return;
    const image_taps taps = taps_of(params, axis, i);
    const bool down = e.down_first != 0;
    const int step = down ? e.stride : e.pixel_size, red = e.red, green = e.green, blue = e.blue;
    const long long across = down ? e.pixel_size : e.stride, far = across * STEP;
    for (int line = block + (int)threadIdx.x / PREPROCESS_TILE; line < stop; line += EACH * STEP) {
        const uint8_t *pixel = memory + line * across + (long long)taps.first * step;
        const int32_t *at = params.words + taps.weights;
        unsigned sums[EACH][3];
#pragma unroll
        for (int r = 0; r < EACH; r++)
            sums[r][0] = sums[r][1] = sums[r][2] = 1u << (axis.bits - 1);
#pragma unroll 1
        for (int k = 0; k < taps.count; k++, at += axis.n_axis, pixel += step) {
            const unsigned weight = (unsigned)*at;
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                if (line + r * STEP >= stop)
                    continue;
                if (NV12) {
                    const int here = taps.first + k, there = line + r * STEP;
                    const unsigned value = load_nv12(e, memory, plane, down ? there : here, down ? here : there);
                    sums[r][0] += weight * (value & 255u);
                    sums[r][1] += weight * (value >> 8 & 255u);
                    sums[r][2] += weight * (value >> 16);
                } else {
                    const uint8_t *p = pixel + r * far;
                    sums[r][0] += weight * p[red];
                    sums[r][1] += weight * p[green];
                    sums[r][2] += weight * p[blue];
                }
            }
        }
#pragma unroll
        for (int r = 0; r < EACH; r++)
            if (line + r * STEP < stop)
                lines[line + r * STEP - block][i] =
                    image_byte(sums[r][0], axis.bits) | image_byte(sums[r][1], axis.bits) << 8 | image_byte(sums[r][2], axis.bits) << 16;
    }
}

/* Writes what the picture covers of the tile at (x, y) into made. Every thread calls it. */
RVIT_DEVICE void resize_tile(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, int x, int y, int width, int height,
                             uint32_t (*lines)[PREPROCESS_TILE], uint32_t (*made)[PREPROCESS_TILE])
{
    const int x0 = max(x, e.left), x1 = min(x + width, e.right), y0 = max(y, e.top), y1 = min(y + height, e.bottom);
    long long plane;
    const uint8_t *memory = pixels_of(params, e, plane);
    image_axis across, down;
    if (memory == nullptr || x0 >= x1 || y0 >= y1 ||
        !axis_of(params, e.x_axis, e.right - e.left, x0 - e.left, x1 - x0, e.width, e.x_bits, across) ||
        !axis_of(params, e.y_axis, e.bottom - e.top, y0 - e.top, y1 - y0, e.height, e.y_bits, down))
        return;
    const bool turned = e.down_first != 0;
    const image_axis first = turned ? down : across, second = turned ? across : down;
    const int i = (int)threadIdx.x % PREPROCESS_TILE, j = (int)threadIdx.x / PREPROCESS_TILE;
    const bool mine = i < first.n && j < second.n;
    const image_taps last = taps_of(params, second, second.n - 1);
    const int begin = taps_of(params, second, 0).first, end = last.first + last.count;
    unsigned sums[3] = {1u << (second.bits - 1), 1u << (second.bits - 1), 1u << (second.bits - 1)};
    for (int block = begin; block < end; block += PREPROCESS_LINES) {
        const int stop = min(end, block + (int)PREPROCESS_LINES);
        if (e.read == RVIT_IMAGE_READ_NV12)
            sum_block<true, 1>(params, e, memory, plane, first, block, stop, lines);
        else
            sum_block<false, 4>(params, e, memory, plane, first, block, stop, lines);
        block_sync();
        /* Looked up anew for each block, so that it takes no registers through the first pass. */
        const image_taps taps = taps_of(params, second, min(j, second.n - 1));
        const int32_t *at = params.words + taps.weights + (long long)(max(block, taps.first) - taps.first) * second.n_axis;
        const int until = mine ? min(stop, taps.first + taps.count) : 0;
        for (int line = max(block, taps.first); line < until; line++, at += second.n_axis) {
            const unsigned weight = (unsigned)*at, value = lines[line - block][i];
            sums[0] += weight * (value & 255u);
            sums[1] += weight * (value >> 8 & 255u);
            sums[2] += weight * (value >> 16);
        }
        block_sync();
    }
    if (mine) {
        const int row = turned ? i : j, column = turned ? j : i;
        made[y0 - y + row][x0 - x + column] =
            image_byte(sums[0], second.bits) | image_byte(sums[1], second.bits) << 8 | image_byte(sums[2], second.bits) << 16;
    }
}

template <typename T> RVIT_DEVICE void store_1(T *p, float x)
{
    p->bits = (uint16_t)element<T>::pack(x, 0.0f);
}

RVIT_DEVICE void store_1(float *p, float x)
{
    *p = x;
}

/* Pixel (x, y) of channel c of a planar picture, 0 beyond it. */
RVIT_DEVICE float load_planar(const rvit_image_entry &e, const uint8_t *memory, long long plane, int c, int x, int y)
{
    if (memory == nullptr || x >= e.width || y >= e.height)
        return 0.0f;
    const uint8_t *p = memory + c * plane + (long long)y * e.stride + (long long)x * e.pixel_size;
    if (e.read == RVIT_IMAGE_READ_F16)
        return f16_float(*reinterpret_cast<const uint16_t *>(p));
    return *reinterpret_cast<const float *>(p);
}

RVIT_DEVICE int image_row_start(const rvit_cu_preprocess_params &params, int image)
{
    return min(max(params.words[RVIT_IMAGE_ROW_STARTS + image], 0), params.rows);
}

/* The last image that begins at or before the row. */
RVIT_DEVICE int image_of_row(const rvit_cu_preprocess_params &params, int n_images, int row)
{
    int low = 0, high = n_images - 1;
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (image_row_start(params, middle) <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
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

RVIT_DEVICE const rvit_image_entry *image_entries(const rvit_cu_preprocess_params &params)
{
    return reinterpret_cast<const rvit_image_entry *>(params.words + RVIT_IMAGE_ENTRIES(params.n_images));
}

RVIT_DEVICE void write_image_layout(const rvit_cu_preprocess_params &params, int n_images)
{
    const long long step = (long long)gridDim.x * blockDim.x;
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

template <typename T> RVIT_DEVICE void preprocess_tiles(const rvit_cu_preprocess_params &params)
{
    RVIT_SHARED uint32_t lines[PREPROCESS_LINES][PREPROCESS_TILE];
    RVIT_SHARED uint32_t made[PREPROCESS_TILE][PREPROCESS_TILE];
    RVIT_SHARED rvit_image_entry e;
    const int tid = threadIdx.x, patch = params.patch_size, side = (patch + PREPROCESS_TILE - 1) / PREPROCESS_TILE, tiles = side * side;
    const int n_images = min(max(params.words[RVIT_IMAGE_LIVE_IMAGES], 0), params.n_images);
    const int rows = n_images == 0 ? 0 : image_row_start(params, n_images);
    const int width = 3 * patch * patch, x = tid % PREPROCESS_TILE, y = tid / PREPROCESS_TILE;
    write_image_layout(params, n_images);
    for (long long item = blockIdx.x; item < (long long)rows * tiles; item += gridDim.x) {
        const int row = (int)(item / tiles), tile = (int)(item - (long long)row * tiles);
        const int image = image_of_row(params, n_images, row), start = image_row_start(params, image);
        if (tid == 0) {
            e = image_entries(params)[image];
            clamp_entry(e, patch);
        }
        block_sync();
        const long long patches = (long long)e.grid_width * e.grid_height;
        const long long number = row - start - (image_row_start(params, image + 1) - start - patches);
        const bool present = number >= 0 && number < patches;
        T *out = static_cast<T *>(params.out) + (long long)row * params.out_stride;
        for (int i = (present ? width : 0) + 2 * tid; tile == 0 && i < params.out_stride; i += 2 * (int)blockDim.x)
            store_2(out + i, make_float2(0.0f, 0.0f));
        if (present) {
            const int in_x = tile % side * PREPROCESS_TILE, in_y = tile / side * PREPROCESS_TILE;
            const int left = (int)(number % e.grid_width) * patch + in_x, top = (int)(number / e.grid_width) * patch + in_y;
            const int across = min(patch - in_x, (int)PREPROCESS_TILE), down = min(patch - in_y, (int)PREPROCESS_TILE);
            const bool planar = e.read == RVIT_IMAGE_READ_F32 || e.read == RVIT_IMAGE_READ_F16;
            long long plane = 0;
            const uint8_t *memory = planar ? pixels_of(params, e, plane) : nullptr;
            made[y][x] = e.fill;
            block_sync();
            if (!planar)
                resize_tile(params, e, left, top, across, down, lines, made);
            block_sync();
            const unsigned value = made[y][x];
            for (int c = 0; c < 3 && x < across && y < down; c++) {
                const float *levels = reinterpret_cast<const float *>(params.words + RVIT_IMAGE_LEVELS + 256 * c);
                store_1(out + (c * patch + in_y + y) * patch + in_x + x,
                        planar ? load_planar(e, memory, plane, c, left + x, top + y) : levels[value >> 8 * c & 255u]);
            }
        }
        block_sync();
    }
}

#endif
