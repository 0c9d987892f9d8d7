/* The resize of packed images on tensor cores. Both passes multiply bytes by a band matrix of weights. The three bytes of a weight are
   multiplied separately; 32-bit integer sums are the same in any order. resize_any.cuh does what this does not support.

   The first pass takes lines as stored, with interleaved channels. Its outputs are the columns of a tile, three per pixel; each warp has
   a group of 8. The weights of a column are placed where the bytes of its channel are. It stores the lines of each column for the second
   pass, whose groups are 8 rows. */
#ifndef RVIT_RESIZE_PACKED_CUH
#define RVIT_RESIZE_PACKED_CUH

#include "preprocess_images.cuh"

enum {
    PACKED_WARPS = PREPROCESS_THREADS / 32,
    PACKED_PLANES = 3,
    PACKED_STEPS = 4,   /* maximum per group, of 32 bytes each */
    PACKED_LINES = 128, /* resized horizontally before rows are made from them */
    PACKED_PITCH = PACKED_LINES + 16,
    PACKED_X_BAND = 100, /* bytes per plane of a band: 8 zeros, weights, at least 8 zeros; 4 times an odd number, to avoid bank conflicts */
    PACKED_Y_BAND = 52
};

/* The bytes of the image's lines that a tile needs. */
struct packed_lines {
    const uint8_t *pixels, *limit; /* the first byte of line 0; the end of the memory */
    int before, bytes;             /* before the first pixel; in total */
    int pitch, stride;             /* between lines: in shared memory, in the image */
    int capacity;                  /* that fit into raw, a multiple of 16 */
    bool aligned, whole;           /* lines start at multiples of 16 bytes; so does the end of the memory */
};

/* Rows of a tile that are made together: n rows from covered row `first` on, from lines starting at `top`. */
struct packed_part {
    int first, n, top, lines;
};

struct packed_memory {
    alignas(16) uint8_t columns[3 * TILE_WIDTH * PACKED_PITCH + 32]; /* horizontally resized lines, transposed: the lines of each column */
    alignas(16) uint8_t x_bands[TILE_WIDTH * 4 * PACKED_X_BAND];     /* four bytes of each plane, then four unused */
    alignas(16) uint8_t y_bands[TILE_HEIGHT * 4 * PACKED_Y_BAND];
    int32_t x_first[TILE_WIDTH], x_count[TILE_WIDTH], y_first[TILE_HEIGHT], y_count[TILE_HEIGHT];
    int32_t windows[PACKED_WARPS], steps[PACKED_WARPS]; /* for each group of columns: its first byte in a line, its steps */
    int32_t unsupported[PACKED_WARPS];
    packed_lines lines;
    packed_part parts[TILE_HEIGHT / 8];
};

/* The weights of a warp: of[step][plane]. */
template <int STEPS> struct packed_weights {
    uint32_t of[STEPS][PACKED_PLANES][2];
};

/* Called by threads begin .. PREPROCESS_THREADS - 1. */
template <int N> RVIT_DEVICE void clear_bytes(uint8_t (&bytes)[N], int begin)
{
#pragma unroll 1
    for (int i = thread_number() - begin; i < N / 16; i += PREPROCESS_THREADS - begin)
        reinterpret_cast<uint4 *>(bytes)[i] = make_uint4(0, 0, 0, 0);
}

RVIT_DEVICE void store_taps(const rvit_cu_preprocess_params &params, const image_axis &axis, int i, int32_t *first, int32_t *count)
{
    if (i < 0 || i >= axis.n)
        return;
    const image_taps taps = taps_of(params, axis, i);
    first[i] = taps.first;
    count[i] = taps.count;
}

/* Stores the weights of an axis with at most MOST outputs, `step` bytes apart. False: too many or too large. */
template <int BAND, int MOST>
RVIT_DEVICE bool fill_bands(const rvit_cu_preprocess_params &params, const image_axis &axis, const int32_t *counts, int step,
                            uint8_t *bands)
{
    const int tid = thread_number(), i = tid % MOST;
    bool fits = true;
    if (i < axis.n) {
        const int32_t *at = params.words + axis.at + axis.begin + i + 2 * axis.n_axis;
        uint8_t *band = bands + i * 4 * BAND + 4 * 8;
        const int count = counts[i];
        fits = count * step <= BAND - 16;
#pragma unroll 1
        for (int k = tid / MOST; k < count && k * step < (int)BAND - 16; k += PREPROCESS_THREADS / MOST) {
            const int weight = at[(long long)k * axis.n_axis];
            fits = fits && weight >= -(1 << 23) && weight < 1 << 23;
#pragma unroll
            for (int p = 0; p < PACKED_PLANES; p++)
                band[k * step / 4 * 16 + 4 * p + k * step % 4] = (uint8_t)(weight >> 8 * p);
        }
    }
    return fits;
}

/* The lane's share of a band whose first weight applies to byte `first` of the group. */
template <int BAND, int STEPS> RVIT_DEVICE void load_weights(const uint8_t *band, int first, packed_weights<STEPS> &weights)
{
    const int begin = 4 * (thread_number() % 4) - first, shift = (begin & 3) * 8;
#pragma unroll
    for (int i = 0; i < 2 * STEPS; i++) {
        if (i == 4)
            warp_sync(); /* limits the loads in flight to the registers available */
        const int at = min(max((begin & ~3) + 16 * i, -8), BAND - 16);
        const uint4 *words = reinterpret_cast<const uint4 *>(band + 4 * (at + 8));
        const uint4 low = words[0], high = words[1];
        weights.of[i / 2][0][i % 2] = shift_pair(low.x, high.x, shift);
        weights.of[i / 2][1][i % 2] = shift_pair(low.y, high.y, shift);
        weights.of[i / 2][2][i % 2] = shift_pair(low.z, high.z, shift);
    }
}

/* Where the lane's share of 16 lines of bytes starts. */
RVIT_DEVICE uint32_t lines_address(const uint8_t *lines, int pitch)
{
    const int lane = thread_number() % 32;
    return shared_address(lines + lane % 16 * pitch + lane / 16 * 16);
}

/* 16 lines times 8 outputs. With t = lane % 4 and g = lane / 4, a lane has outputs 2 t and 2 t + 1 of lines g and g + 8. outputs[0] has the
   first output of both lines, outputs[1] the second. */
template <int STEPS> RVIT_DEVICE void multiply_lines(uint32_t lines, const packed_weights<STEPS> &weights, int bits, uint32_t (&outputs)[2])
{
    const int round = 1 << (bits - 1);
    int low[4] = {round, round, round, round}, middle[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0}, sums[4];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        uint32_t a[4];
        load_matrix_x4(a, lines + 32 * s);
        mma_u8<false>(low, a, weights.of[s][0][0], weights.of[s][0][1]);
        mma_u8<false>(middle, a, weights.of[s][1][0], weights.of[s][1][1]);
        mma_u8<true>(high, a, weights.of[s][2][0], weights.of[s][2][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[i] = (int)((uint32_t)low[i] + ((uint32_t)middle[i] << 8) + ((uint32_t)high[i] << 16)) >> bits;
    outputs[0] = saturate_u8x2(sums[0], sums[2]);
    outputs[1] = saturate_u8x2(sums[1], sums[3]);
}

RVIT_DEVICE packed_part part_from(const packed_memory &s, int first, int rows)
{
    packed_part part = {first, min(rows - first, (int)RGB_ROWS), s.y_first[first], 0};
    while (part.lines = s.y_first[first + part.n - 1] + s.y_count[first + part.n - 1] - part.top, part.n > 8 && part.lines > PACKED_LINES)
        part.n = (part.n + 15) / 16 * 8;
    return part;
}

RVIT_DEVICE packed_lines lines_of(const rvit_cu_preprocess_params &params, const slot_image &p, int columns, const packed_memory &s)
{
    packed_lines l;
    const int first = s.x_first[0], size = p.e.pixel_size;
    const uint8_t *pixels = p.memory + (long long)first * size;
    l.stride = p.e.stride;
    l.aligned = l.stride % 16 == 0;
    l.whole = l.aligned && (unsigned long long)p.limit % 16 == 0;
    l.before = l.aligned ? (int)((unsigned long long)pixels % 16) : 0;
    l.pixels = pixels - l.before;
    l.limit = p.limit;
    l.bytes = l.before + (s.x_first[columns - 1] + s.x_count[columns - 1] - first) * size;
    l.pitch = (max(l.bytes, 0) + 127) / 128 * 128 + 16;
    l.capacity = (int)((unsigned)params.raw_size / (16 * (unsigned)l.pitch)) * 16;
    return l;
}

/* Prepares weights and the bytes that each group of columns needs. False: this resize does not support the tile. */
RVIT_DEVICE bool prepare_packed(const rvit_cu_preprocess_params &params, const slot_image &p, const image_tile &t, const packed_lines &l,
                                packed_memory &s)
{
    const int tid = thread_number(), size = p.e.pixel_size, n = 3 * t.across.n;
    bool fits = l.bytes > l.before && l.capacity > 0;
    if (tid < (t.down.n + 7) / 8) { /* a part may start at any multiple of 8 rows, and have only these */
        const packed_part part = part_from(s, 8 * tid, min(8 * tid + 8, t.down.n));
        fits = fits && part.lines >= 1 && part.lines <= PACKED_LINES;
    }
    const int group = tid - 32;
    if (group >= 0 && group < PACKED_WARPS) {
        const int start = l.before - s.x_first[0] * size, column = min(8 * group, n - 1), last = min(8 * group + 7, n - 1) / 3;
        const int begin = (start + s.x_first[column / 3] * size) & ~15, end = start + (s.x_first[last] + s.x_count[last]) * size;
        s.windows[group] = begin;
        s.steps[group] = 8 * group < n ? (end - begin + 31) / 32 : 0;
        fits = fits && begin >= 0 && end <= l.bytes && end - begin <= 32 * PACKED_STEPS;
    }
    if (tid == 64) {
        s.lines = l;
        for (int i = 0, first = 0; first < t.down.n; first += s.parts[i++].n)
            s.parts[i] = part_from(s, first, t.down.n);
    }
    fits = fill_bands<PACKED_X_BAND, TILE_WIDTH>(params, t.across, s.x_count, size, s.x_bands) && fits;
    fits = fill_bands<PACKED_Y_BAND, TILE_HEIGHT>(params, t.down, s.y_count, 1, s.y_bands) && fits;
    const bool unsupported = warp_any(!fits);
    if (tid % 32 == 0)
        s.unsupported[tid / 32] = unsupported;
    copy_wait<0>();
    block_sync();
    return !warp_any(tid % 32 < PACKED_WARPS && s.unsupported[min(tid % 32, PACKED_WARPS - 1)] != 0);
}

/* Copies 16 bytes of a line to shared memory. Reads whole words, but not beyond limit. */
RVIT_DEVICE void stage_chunk(const uint8_t *from, const uint8_t *limit, bool aligned, uint8_t *to)
{
    const int shift = (int)((unsigned long long)from % 4);
    const uint32_t *words = reinterpret_cast<const uint32_t *>(from - shift);
    if (aligned && limit - from >= 16)
        copy_async_16(shared_address(to), from, true);
    else if (!aligned && limit - from >= 20)
        *reinterpret_cast<uint4 *>(to) = make_uint4(shift_pair(words[0], words[1], 8 * shift), shift_pair(words[1], words[2], 8 * shift),
                                                    shift_pair(words[2], words[3], 8 * shift), shift_pair(words[3], words[4], 8 * shift));
    else
#pragma unroll 1
        for (int i = 0; i < 16 && from + i < limit; i++)
            to[i] = from[i];
}

/* Stages lines top .. top + n - 1. Of each 16, the even ones come first, so that a lane of multiply_lines has two adjacent lines. */
RVIT_DEVICE void stage_lines(const packed_lines &l, int top, int n, uint8_t *raw)
{
    const int chunks = (l.bytes + 15) >> 4, bits = chunks <= 16 ? 4 : 5, begin = thread_number() & ((1 << bits) - 1);
    const int step = PREPROCESS_THREADS >> bits, pitch = l.pitch;
    const bool aligned = l.aligned, whole = l.whole;
    int line = thread_number() >> bits;
    const uint8_t *from = l.pixels + (long long)(top + line) * l.stride + 16 * begin, *limit = l.limit;
    const long long far = (long long)step * l.stride;
#pragma unroll 1
    for (; line < n; line += step, from += far) {
        uint8_t *to = raw + ((line & ~15) + (line & 1) * 8 + (line >> 1 & 7)) * pitch + 16 * begin;
#pragma unroll 1
        for (int i = 0; begin + i < chunks; i += 1 << bits)
            if (whole)
                copy_async_16(shared_address(to + 16 * i), from + 16 * i, true);
            else
                stage_chunk(from + 16 * i, limit, aligned, to + 16 * i);
    }
    copy_commit();
}

/* Resizes lines in raw horizontally; the first one is line `line` of s.columns. */
template <int STEPS>
RVIT_DEVICE void resize_lines(const slot_image &p, int n_columns, int bits, packed_memory &s, const uint8_t *raw, int line, int n)
{
    const int tid = thread_number(), column = min(tid / 4, n_columns - 1), x = column / 3, channel = column - 3 * x;
    const int byte = channel == 0 ? p.e.red : channel == 1 ? p.e.green : p.e.blue, base = s.windows[tid / 32], pitch = s.lines.pitch;
    packed_weights<STEPS> weights;
    load_weights<PACKED_X_BAND>(s.x_bands + x * 4 * PACKED_X_BAND,
                                s.lines.before + (s.x_first[x] - s.x_first[0]) * p.e.pixel_size + byte - base, weights);
    uint32_t lines = lines_address(raw + base, pitch);
    uint8_t *to = s.columns + (8 * (tid / 32) + 2 * (tid % 4)) * PACKED_PITCH + line + 2 * (tid % 32 / 4);
#pragma unroll 1
    for (int i = 0; i < n; i += 16, lines += 16 * pitch, to += 16) {
        uint32_t bytes[2];
        multiply_lines(lines, weights, bits, bytes);
        *reinterpret_cast<uint16_t *>(to) = (uint16_t)bytes[0];
        *reinterpret_cast<uint16_t *>(to + PACKED_PITCH) = (uint16_t)bytes[1];
    }
}

/* The same with as many steps as the warp's columns need. */
RVIT_DEVICE void resize_lines_of(const slot_image &p, int n_columns, int bits, packed_memory &s, const uint8_t *raw, int line, int n)
{
    const int steps = s.steps[thread_number() / 32];
    if (steps == 0)
        return;
    if (steps <= 2)
        resize_lines<2>(p, n_columns, bits, s, raw, line, n);
    else if (steps == 3)
        resize_lines<3>(p, n_columns, bits, s, raw, line, n);
    else
        resize_lines<4>(p, n_columns, bits, s, raw, line, n);
}

/* How warps share the groups of 8 rows of a part: each has one group, and every step-th block of 16 columns from begin on. */
struct packed_share {
    int y, begin, step;
};

RVIT_DEVICE packed_share share_of(int rows)
{
    const int warp = thread_number() / 32, groups = (rows + 7) / 8;
    const int inverse = groups == 3 ? 86 : 256 >> (groups >> 1); /* 256 / groups, rounded up */
    const int begin = warp * inverse >> 8;
    return {8 * (warp - begin * groups), 16 * begin, 16 * (PACKED_WARPS * inverse >> 8)};
}

/* Makes the rows of a part from s.columns, as bytes. Bytes after them are undefined. */
template <int STEPS>
RVIT_DEVICE void make_rows(const packed_memory &s, const packed_part &part, const packed_share &share, int base, int columns, int bits,
                           uint8_t *rgb)
{
    const int lane = thread_number() % 32, row = part.first + min(share.y + lane / 4, part.n - 1);
    packed_weights<STEPS> weights;
    load_weights<PACKED_Y_BAND>(s.y_bands + row * 4 * PACKED_Y_BAND, s.y_first[row] - part.top - base, weights);
    uint32_t lines = lines_address(s.columns + share.begin * PACKED_PITCH + base, PACKED_PITCH);
    uint8_t *to = rgb + (share.y + 2 * (lane % 4)) * RGB_PITCH + share.begin + lane / 4;
    const int step = share.step;
#pragma unroll 1
    for (int rest = columns - share.begin; rest > 0; rest -= step, lines += step * PACKED_PITCH, to += step) {
        const int left = rest - lane / 4;
        uint32_t bytes[2];
        multiply_lines(lines, weights, bits, bytes);
        if (left > 0) {
            to[0] = (uint8_t)bytes[0];
            to[RGB_PITCH] = (uint8_t)bytes[1];
        }
        if (left > 8) {
            to[8] = (uint8_t)(bytes[0] >> 8);
            to[RGB_PITCH + 8] = (uint8_t)(bytes[1] >> 8);
        }
    }
}

RVIT_DEVICE void make_rows_of(const packed_memory &s, const packed_part &part, int columns, int bits, uint8_t *rgb)
{
    const packed_share share = share_of(part.n);
    const int last = part.first + min(share.y + 7, part.n - 1);
    const int base = (s.y_first[part.first + share.y] - part.top) & ~15, end = s.y_first[last] + s.y_count[last] - part.top;
    if (base < 0 || end > part.lines)
        return;
    if (end - base <= 64)
        make_rows<2>(s, part, share, base, columns, bits, rgb);
    else
        make_rows<4>(s, part, share, base, columns, bits, rgb);
}

#endif
