/* The general resize, ANY_WIDTH x ANY_ROWS outputs at a time (transposed if the vertical pass is first), reading pixels in place. It
   streams blocks of lines: the first pass makes lines of the tile's width, rounded to 8 bits, in shared memory; the second accumulates
   them, one pixel per thread. resize_packed.cuh is faster for common images. */
#ifndef RVIT_RESIZE_ANY_CUH
#define RVIT_RESIZE_ANY_CUH

#include "preprocess_images.cuh"

enum { ANY_WIDTH = 32, ANY_ROWS = PREPROCESS_THREADS / ANY_WIDTH, ANY_LINES = 64 };

RVIT_DEVICE unsigned image_byte(unsigned sum, int bits)
{
    return (unsigned)min(max((int)sum >> bits, 0), 255);
}

/* Three bytes in a word. */
RVIT_DEVICE unsigned load_nv12(const rvit_image_entry &e, const uint8_t *memory, long long plane, int x, int y)
{
    const uint8_t *chroma = memory + plane + (long long)(y / 2) * e.stride + x / 2 * 2;
    const unsigned luma = ((unsigned)memory[(long long)y * e.stride + x] - (unsigned)e.luma_zero) * (unsigned)e.luma_gain + 32768u;
    const unsigned cb = (unsigned)chroma[0] - 128u, cr = (unsigned)chroma[1] - 128u;
    return image_byte(luma + cr * (unsigned)e.red_cr, 16) |
           image_byte(luma + cb * (unsigned)e.green_cb + cr * (unsigned)e.green_cr, 16) << 8 |
           image_byte(luma + cb * (unsigned)e.blue_cb, 16) << 16;
}

/* The first pass, over lines block .. stop - 1; with the vertical pass first, `lines` are columns. A thread makes one output of N_LINES
   lines at a time, so that it reads each weight once for them. */
template <bool NV12, int N_LINES>
RVIT_DEVICE void sum_block(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, const uint8_t *memory, long long plane,
                           const image_axis &axis, int block, int stop, uint32_t (*lines)[ANY_WIDTH])
{
    enum { STEP = ANY_ROWS };
    const int i = (int)threadIdx.x % ANY_WIDTH;
    if (i >= axis.n)
        return;
    const image_taps taps = taps_of(params, axis, i);
    const bool down = e.down_first != 0;
    const int step = down ? e.stride : e.pixel_size, red = e.red, green = e.green, blue = e.blue;
    const long long across = down ? e.pixel_size : e.stride, far = across * STEP;
    for (int line = block + (int)threadIdx.x / ANY_WIDTH; line < stop; line += N_LINES * STEP) {
        const uint8_t *pixel = memory + line * across + (long long)taps.first * step;
        const int32_t *at = params.words + taps.weights;
        unsigned sums[N_LINES][3];
#pragma unroll
        for (int r = 0; r < N_LINES; r++)
            sums[r][0] = sums[r][1] = sums[r][2] = 1u << (axis.bits - 1);
#pragma unroll 1
        for (int k = 0; k < taps.count; k++, at += axis.n_axis, pixel += step) {
            const unsigned weight = (unsigned)*at;
#pragma unroll
            for (int r = 0; r < N_LINES; r++) {
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
        for (int r = 0; r < N_LINES; r++)
            if (line + r * STEP < stop)
                lines[line + r * STEP - block][i] =
                    image_byte(sums[r][0], axis.bits) | image_byte(sums[r][1], axis.bits) << 8 | image_byte(sums[r][2], axis.bits) << 16;
    }
}

/* Writes the outputs of both axes to a tile's bytes. Every thread must call this. */
RVIT_DEVICE void resize_any(const rvit_cu_preprocess_params &params, const rvit_image_entry &e, const uint8_t *memory, long long plane,
                            const image_axis &across, const image_axis &down, uint32_t (*lines)[ANY_WIDTH], uint8_t *rgb)
{
    const bool transposed = e.down_first != 0;
    const image_axis first = transposed ? down : across, second = transposed ? across : down;
    const int i = (int)threadIdx.x % ANY_WIDTH, j = (int)threadIdx.x / ANY_WIDTH;
    const bool mine = i < first.n && j < second.n;
    const image_taps last = taps_of(params, second, second.n - 1);
    const int begin = taps_of(params, second, 0).first, end = last.first + last.count;
    unsigned sums[3] = {1u << (second.bits - 1), 1u << (second.bits - 1), 1u << (second.bits - 1)};
    for (int block = begin; block < end; block += ANY_LINES) {
        const int stop = min(end, block + (int)ANY_LINES);
        if (e.read == RVIT_IMAGE_READ_NV12)
            sum_block<true, 1>(params, e, memory, plane, first, block, stop, lines);
        else
            sum_block<false, 3>(params, e, memory, plane, first, block, stop, lines);
        block_sync();
        /* Looked up again for each block, to save registers in the first pass. */
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
    const int row = transposed ? i : j, column = transposed ? j : i;
    for (int c = 0; c < 3 && mine; c++)
        rgb[row * RGB_PITCH + 3 * column + c] = (uint8_t)image_byte(sums[c], second.bits);
}

#endif
