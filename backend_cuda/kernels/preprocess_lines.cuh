/* The first pass of a resize: what of a picture a tile needs goes through shared memory, a pixel a word, and is summed up along lines. */
#ifndef RVIT_PREPROCESS_LINES_CUH
#define RVIT_PREPROCESS_LINES_CUH

#include "elements.cuh"

#include "core/image_table.h"

enum {
    PREPROCESS_TILE = 16,
    PREPROCESS_THREADS = 256,
    PREPROCESS_LINES = 64,
    PREPROCESS_STAGE = 4096,  /* pixels in shared memory */
    PREPROCESS_COLUMNS = 192, /* of a line that goes there, at most */
};

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

/* Where a picture's pixels are. */
struct image_pixels {
    const uint8_t *memory; /* the first one */
    const uint8_t *end;    /* of all the memory that it lies in */
    long long plane;
};

/* Whether they lie inside of their memory. */
RVIT_DEVICE bool pixels_of(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, image_pixels &out)
{
    const long long most = 1ll << 40;
    const long long begin = (long long)((unsigned long long)e.offset_high << 32 | e.offset_low);
    const long long size = e.on_device ? params.pixels_size : 4ll * params.n_words;
    const uint8_t *memory = e.on_device ? params.pixels : reinterpret_cast<const uint8_t *>(params.words);
    const long long plane = (long long)((unsigned long long)e.plane_high << 32 | e.plane_low);
    out = {nullptr, nullptr, plane};
    if (memory == nullptr || begin < 0 || begin > size || plane < 0 || plane > most || e.width < 1 || e.height < 1 ||
        e.width > RVIT_IMAGE_ENTRY_SIDE || e.height > RVIT_IMAGE_ENTRY_SIDE || e.stride < 0 || e.pixel_size < 1 || e.pixel_size > 4)
        return false;
    long long end = (long long)e.stride * (e.height - 1) + (long long)e.width * e.pixel_size;
    if (e.read == RVIT_IMAGE_READ_NV12) {
        end = max(end, plane + (long long)e.stride * ((e.height + 1) / 2 - 1) + (e.width + 1) / 2 * 2);
    } else if (e.read == RVIT_IMAGE_READ_F32 || e.read == RVIT_IMAGE_READ_F16) {
        end += 2 * plane;
        if (e.pixel_size != (e.read == RVIT_IMAGE_READ_F16 ? 2 : 4) || (begin | plane | e.stride) % e.pixel_size != 0)
            return false;
    } else if (e.read != RVIT_IMAGE_READ_PACKED || (unsigned)e.red >= (unsigned)e.pixel_size ||
               (unsigned)e.green >= (unsigned)e.pixel_size || (unsigned)e.blue >= (unsigned)e.pixel_size) {
        return false;
    }
    out = {memory + begin, memory + size, plane};
    return end <= size - begin;
}

RVIT_DEVICE unsigned image_byte(unsigned sum, int bits)
{
    return (unsigned)min(max((int)sum >> bits, 0), 255);
}

/* Three 8-bit values in a word. */
RVIT_DEVICE unsigned load_nv12(const rvit_image_entry &e, const image_pixels &from, int x, int y)
{
    const uint8_t *chroma = from.memory + from.plane + (long long)(y / 2) * e.stride + x / 2 * 2;
    const unsigned luma = ((unsigned)from.memory[(long long)y * e.stride + x] - (unsigned)e.luma_zero) * (unsigned)e.luma_gain + 32768u;
    const unsigned cb = (unsigned)chroma[0] - 128u, cr = (unsigned)chroma[1] - 128u;
    return image_byte(luma + cr * (unsigned)e.red_cr, 16) |
           image_byte(luma + cb * (unsigned)e.green_cb + cr * (unsigned)e.green_cr, 16) << 8 |
           image_byte(luma + cb * (unsigned)e.blue_cb, 16) << 16;
}

/* The first pass over lines block .. stop; with the vertical pass first, `lines` are columns. A thread makes an output of EACH lines at a
   time, so that it reads a weight once for them. */
template <bool NV12, int EACH>
RVIT_DEVICE void sum_block(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, const image_pixels &from,
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
        const uint8_t *pixel = from.memory + line * across + (long long)taps.first * step;
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
                    const unsigned value = load_nv12(e, from, down ? there : here, down ? here : there);
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

/* Three 8-bit values in a word. */
RVIT_DEVICE unsigned load_pixel(const rvit_image_entry &e, const uint8_t *pixel)
{
    return (unsigned)pixel[e.red] | (unsigned)pixel[e.green] << 8 | (unsigned)pixel[e.blue] << 16;
}

RVIT_DEVICE unsigned funnel(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> shift);
}

/* Four pixels of three bytes each, by whole words of memory, which reach up to four bytes beyond them. */
RVIT_DEVICE void load_4(const uint8_t *pixel, bool swapped, unsigned out[4])
{
    const unsigned off = (unsigned)((uintptr_t)pixel & 3u), shift = 8 * off;
    const uint32_t *words = reinterpret_cast<const uint32_t *>(pixel - off);
    const unsigned w0 = words[0], w1 = words[1], w2 = words[2], w3 = words[3];
    const unsigned low = funnel(w0, w1, shift), middle = funnel(w1, w2, shift), high = funnel(w2, w3, shift);
    out[0] = low & 0xffffffu;
    out[1] = low >> 24 | (middle & 0xffffu) << 8;
    out[2] = middle >> 16 | (high & 0xffu) << 16;
    out[3] = high >> 8;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (swapped)
            out[i] = out[i] >> 16 | (out[i] & 0xff00u) | (out[i] & 0xffu) << 16;
}

/* Brings `columns` pixels from `column` on, of lines block .. stop, to shared memory, lines `pitch` pixels apart, a multiple of 4. */
RVIT_DEVICE void stage_block(const rvit_image_entry &e, const image_pixels &from, int column, int columns, int pitch, int block, int stop,
                             uint4 *stage)
{
    enum { ACROSS = 16, DOWN = PREPROCESS_THREADS / ACROSS, EACH = 4 };
    const int first = (int)threadIdx.x % ACROSS * EACH;
    const bool nv12 = e.read == RVIT_IMAGE_READ_NV12, by_words = !nv12 && e.pixel_size == 3 && e.green == 1 && e.red + e.blue == 2;
    for (int line = block + (int)threadIdx.x / ACROSS; line < stop; line += DOWN) {
        const uint8_t *pixels = from.memory + (long long)line * e.stride + (long long)column * e.pixel_size;
        uint4 *to = stage + (line - block) * (pitch / EACH);
        for (int x = first; x < columns; x += ACROSS * EACH) {
            unsigned values[EACH] = {0, 0, 0, 0};
            const int n = min(columns - x, (int)EACH);
            if (by_words && from.end - (pixels + 3 * x) >= 16) {
                load_4(pixels + 3 * x, e.red == 2, values);
            } else {
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    if (i < n)
                        values[i] = nv12 ? load_nv12(e, from, column + x + i, line) : load_pixel(e, pixels + (x + i) * e.pixel_size);
            }
            to[x / EACH] = make_uint4(values[0], values[1], values[2], values[3]);
        }
    }
}

/* The first pass over what stage_block has brought, EACH lines a thread. */
template <int EACH>
RVIT_DEVICE void sum_lines(const rvit_cu_preprocess_params &params, const image_axis &axis, int column, int columns, int pitch, int n_lines,
                           const uint32_t *stage, uint32_t (*lines)[PREPROCESS_TILE])
{
    enum { STEP = PREPROCESS_THREADS / PREPROCESS_TILE };
    const int i = (int)threadIdx.x % PREPROCESS_TILE, line = (int)threadIdx.x / PREPROCESS_TILE;
    if (i >= axis.n)
        return;
    const image_taps taps = taps_of(params, axis, i);
    const int first = min(max(taps.first - column, 0), columns - 1), count = min(taps.count, columns - first);
    const int32_t *at = params.words + taps.weights;
    const uint32_t *from[EACH];
    unsigned sums[EACH][3];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        from[r] = stage + min(line + r * STEP, n_lines - 1) * pitch + first;
        sums[r][0] = sums[r][1] = sums[r][2] = 1u << (axis.bits - 1);
    }
#pragma unroll 2
    for (int k = 0; k < count; k++, at += axis.n_axis) {
        const unsigned weight = (unsigned)*at;
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            const unsigned value = from[r][k];
            sums[r][0] += weight * (value & 255u);
            sums[r][1] += weight * (value >> 8 & 255u);
            sums[r][2] += weight * (value >> 16);
        }
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
        if (line + r * STEP < n_lines)
            lines[line + r * STEP][i] =
                image_byte(sums[r][0], axis.bits) | image_byte(sums[r][1], axis.bits) << 8 | image_byte(sums[r][2], axis.bits) << 16;
}

RVIT_DEVICE void sum_staged(const rvit_cu_preprocess_params &params, const image_axis &axis, int column, int columns, int pitch, int block,
                            int stop, const uint4 *staged, uint32_t (*lines)[PREPROCESS_TILE])
{
    const uint32_t *stage = reinterpret_cast<const uint32_t *>(staged);
    const int n_lines = stop - block, each = (n_lines + PREPROCESS_TILE - 1) / PREPROCESS_TILE;
    if (each <= 1)
        sum_lines<1>(params, axis, column, columns, pitch, n_lines, stage, lines);
    else if (each == 2)
        sum_lines<2>(params, axis, column, columns, pitch, n_lines, stage, lines);
    else if (each == 3)
        sum_lines<3>(params, axis, column, columns, pitch, n_lines, stage, lines);
    else
        sum_lines<4>(params, axis, column, columns, pitch, n_lines, stage, lines);
}

#endif
