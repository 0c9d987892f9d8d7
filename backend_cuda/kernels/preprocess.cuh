/* Makes patch rows from images. A CTA makes tiles of an image, which may span patches: first as RGB bytes, then as elements of the
   patch rows. */
#ifndef RVIT_PREPROCESS_CUH
#define RVIT_PREPROCESS_CUH

#include "resize_any.cuh"
#include "resize_packed.cuh"

/* Copies the used part of the staging buffer. */
RVIT_DEVICE void fetch_staging(const rvit_cu_fetch_params &params)
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

/* Pixel (x, y) of channel c of a planar image, 0 outside. */
RVIT_DEVICE float load_planar(const rvit_image_entry &e, const uint8_t *memory, long long plane, int c, int x, int y)
{
    if (memory == nullptr || x >= e.width || y >= e.height)
        return 0.0f;
    const uint8_t *p = memory + c * plane + (long long)y * e.stride + (long long)x * e.pixel_size;
    if (e.read == RVIT_IMAGE_READ_F16)
        return f16_float(*reinterpret_cast<const uint16_t *>(p));
    return *reinterpret_cast<const float *>(p);
}

struct preprocess_memory {
    packed_memory packed;
    slot_image image;
    image_tile tile;
    long long y_elements[TILE_HEIGHT]; /* where the tile's rows and columns start in out */
    int32_t x_elements[TILE_WIDTH];
    alignas(16) float levels[3 * 256];
    alignas(16) uint8_t rgb[RGB_ROWS * RGB_PITCH]; /* rows of the tile */
    alignas(16) uint8_t raw[32];                   /* params.raw_size further bytes follow */
};
static_assert(sizeof(preprocess_memory) == RVIT_CU_PREPROCESS_SHARED, "the host requests a different amount of shared memory");

/* Computes where the tile's rows and columns are in out, with TILE_HEIGHT + TILE_WIDTH threads. */
RVIT_DEVICE void find_elements(const rvit_cu_preprocess_params &params, int tile, int i, preprocess_memory &m)
{
    const int line = tile / m.image.across_tiles, column = tile - line * m.image.across_tiles, patch = params.patch_size;
    const int begin = i < TILE_HEIGHT ? line * params.tile_height + i : column * TILE_WIDTH + i - TILE_HEIGHT;
    const int number = begin / patch, rest = begin - number * patch;
    if (i < TILE_HEIGHT)
        m.y_elements[i] = (m.image.first_row + (long long)number * m.image.e.grid_width) * params.out_stride + rest * patch;
    else
        m.x_elements[i - TILE_HEIGHT] = number * params.out_stride + rest;
}

/* Converts `rows` rows of uint8 to elements of the tile's rows from `first` on, RUN pixels at a time: 4 if patch size and rows allow it,
   else 2. */
template <typename T, int RUN>
RVIT_DEVICE void write_rows(const rvit_cu_preprocess_params &params, const preprocess_memory &m, int first, int rows)
{
    enum { RUNS = TILE_WIDTH / RUN };
    const int plane = params.patch_size * params.patch_size;
#pragma unroll 1
    for (int i = thread_number(); i < rows * RUNS; i += PREPROCESS_THREADS) {
        const int x = i % RUNS * RUN, y = i / RUNS;
        if (x >= m.tile.width)
            continue;
        const uint8_t *bytes = m.rgb + y * RGB_PITCH + 3 * x;
        T *to = static_cast<T *>(params.out) + m.y_elements[first + y] + m.x_elements[x];
        if (RUN == 4) {
            const uint32_t *words = reinterpret_cast<const uint32_t *>(bytes);
            const uint32_t a = words[0], b = words[1], c = words[2];
            const float *red = m.levels, *green = m.levels + 256, *blue = m.levels + 512;
            store_split(to, params.low_offset, make_float4(red[a & 255], red[a >> 24], red[b >> 16 & 255], red[c >> 8 & 255]));
            store_split(to + plane, params.low_offset,
                        make_float4(green[a >> 8 & 255], green[b & 255], green[b >> 24], green[c >> 16 & 255]));
            store_split(to + 2 * plane, params.low_offset,
                        make_float4(blue[a >> 16 & 255], blue[b >> 8 & 255], blue[c & 255], blue[c >> 24]));
        } else {
            for (int c = 0; c < 3; c++)
                store_split(to + c * plane, params.low_offset, make_float2(m.levels[256 * c + bytes[c]], m.levels[256 * c + bytes[3 + c]]));
        }
    }
}

template <typename T> RVIT_DEVICE void write_rgb(const rvit_cu_preprocess_params &params, const preprocess_memory &m, int first, int rows)
{
    if ((params.patch_size | params.out_stride | params.low_offset) % 4 == 0)
        write_rows<T, 4>(params, m, first, rows);
    else
        write_rows<T, 2>(params, m, first, rows);
}

/* Writes a tile of a planar image, which is not resized. */
template <typename T> RVIT_DEVICE void write_planar(const rvit_cu_preprocess_params &params, const preprocess_memory &m)
{
    const image_tile &t = m.tile;
    const slot_image &p = m.image;
#pragma unroll 1
    for (int i = thread_number(); i < 3 * TILE_HEIGHT * (TILE_WIDTH / 2); i += PREPROCESS_THREADS) {
        const int x = i % (TILE_WIDTH / 2) * 2, y = i / (TILE_WIDTH / 2) % TILE_HEIGHT, c = i / (TILE_WIDTH / 2 * TILE_HEIGHT);
        if (x < t.width && y < t.height)
            store_split(static_cast<T *>(params.out) + m.y_elements[y] + m.x_elements[x] + c * params.patch_size * params.patch_size,
                        params.low_offset,
                        make_float2(load_planar(p.e, p.memory, p.plane, c, t.x + x, t.y + y),
                                    load_planar(p.e, p.memory, p.plane, c, t.x + x + 1, t.y + y)));
    }
}

RVIT_DEVICE void fill_rgb(uint8_t *rgb, uint32_t fill)
{
#pragma unroll 1
    for (int i = thread_number(); i < 3 * RGB_ROWS * TILE_WIDTH; i += PREPROCESS_THREADS)
        rgb[i / (3 * TILE_WIDTH) * RGB_PITCH + i % (3 * TILE_WIDTH)] = (uint8_t)(fill >> i % 3 * 8);
}

/* A range of an axis' outputs, relative to those that the image covers. */
RVIT_DEVICE image_axis subrange(const image_axis &axis, int begin, int n)
{
    image_axis part = axis;
    part.begin += begin;
    part.n = n;
    return part;
}

/* Makes the rows of a tile that the image covers; the other columns are filled already. The first lines have been staged; later ones are
   copied while rows are made and written. */
template <typename T> RVIT_DEVICE void make_packed(const rvit_cu_preprocess_params &params, preprocess_memory &m)
{
    const image_tile &t = m.tile;
    packed_memory &s = m.packed;
#pragma unroll 1
    for (int i = 0, line = 0;;) {
        resize_lines_of(m.image, 3 * t.across.n, t.across.bits, s, m.raw, line, min(s.parts[i].lines - line, s.lines.capacity));
        block_sync();
        line += s.lines.capacity;
        const bool whole = line >= s.parts[i].lines, last = s.parts[i].first + s.parts[i].n >= t.down.n;
        if (!(whole && last)) {
            const packed_part &next = s.parts[whole ? i + 1 : i];
            line = whole ? 0 : line;
            stage_lines(s.lines, next.top + line, min(next.lines - line, s.lines.capacity), m.raw);
        }
        if (whole) {
            make_rows_of(s, s.parts[i], 3 * t.across.n, t.down.bits, m.rgb + 3 * (t.x0 - t.x));
            block_sync();
            write_rgb<T>(params, m, t.y0 - t.y + s.parts[i].first, s.parts[i].n);
            if (last)
                return;
            i++;
        }
        copy_wait<0>();
        block_sync();
    }
}

/* The same with the general resize. */
template <typename T> RVIT_DEVICE void make_any(const rvit_cu_preprocess_params &params, preprocess_memory &m)
{
    const image_tile &t = m.tile;
    const slot_image &p = m.image;
    const int width = p.e.down_first ? ANY_ROWS : ANY_WIDTH, height = p.e.down_first ? ANY_WIDTH : ANY_ROWS;
    uint8_t *rgb = m.rgb + 3 * (t.x0 - t.x);
#pragma unroll 1
    for (int y = 0; y < t.down.n; y += height) {
#pragma unroll 1
        for (int x = 0; x < t.across.n; x += width)
            resize_any(params, p.e, p.memory, p.plane, subrange(t.across, x, min(t.across.n - x, width)),
                       subrange(t.down, y, min(t.down.n - y, height)), reinterpret_cast<uint32_t(*)[ANY_WIDTH]>(m.raw), rgb + 3 * x);
        block_sync();
        write_rgb<T>(params, m, t.y0 - t.y + y, min(t.down.n - y, height));
        block_sync();
    }
}

/* Fills the rest of a tile. */
template <typename T> RVIT_DEVICE void fill_rest(const rvit_cu_preprocess_params &params, preprocess_memory &m)
{
    const image_tile &t = m.tile;
    const bool covered = t.x0 < t.x1;
    const int begin = covered ? t.y0 - t.y : t.height, end = covered ? t.y1 - t.y : t.height;
    fill_rgb(m.rgb, m.image.e.fill);
    block_sync();
    for (int y = 0; y < begin; y += RGB_ROWS)
        write_rgb<T>(params, m, y, min(begin - y, (int)RGB_ROWS));
    for (int y = end; y < t.height; y += RGB_ROWS)
        write_rgb<T>(params, m, y, min(t.height - y, (int)RGB_ROWS));
    block_sync();
}

/* Makes a tile of the slot's image. */
template <typename T> RVIT_DEVICE void make_tile(const rvit_cu_preprocess_params &params, int tile, preprocess_memory &m)
{
    slot_image &p = m.image;
    packed_memory &s = m.packed;
    const bool planar = p.e.read == RVIT_IMAGE_READ_F32 || p.e.read == RVIT_IMAGE_READ_F16;
    const bool packed = p.e.read == RVIT_IMAGE_READ_PACKED && p.e.down_first == 0;
    const int tid = thread_number();
    if (tid < TILE_WIDTH + TILE_HEIGHT) {
        const image_tile t = tile_of(params, p, tile);
        if (tid == 0)
            m.tile = t;
        if (packed && t.x0 < t.x1) {
            if (tid < TILE_WIDTH)
                store_taps(params, t.across, tid, s.x_first, s.x_count);
            else
                store_taps(params, t.down, tid - TILE_WIDTH, s.y_first, s.y_count);
        }
    } else if (tid < 2 * (TILE_WIDTH + TILE_HEIGHT)) {
        find_elements(params, tile, tid - (TILE_WIDTH + TILE_HEIGHT), m);
    } else {
        if (tid == 2 * (TILE_WIDTH + TILE_HEIGHT))
            p.memory = pixels_of(params, p.e, p.plane, p.limit);
        if (packed) {
            clear_bytes(s.x_bands, 2 * (TILE_WIDTH + TILE_HEIGHT));
            clear_bytes(s.y_bands, 2 * (TILE_WIDTH + TILE_HEIGHT));
        }
    }
    block_sync();
    const image_tile &t = m.tile;
    if (planar) {
        write_planar<T>(params, m);
        return;
    }
    const bool covered = t.x0 < t.x1 && p.memory != nullptr;
    if (!covered || t.x1 - t.x0 < t.width || t.y1 - t.y0 < t.height)
        fill_rest<T>(params, m);
    if (!covered)
        return;
    if (packed) {
        const packed_lines l = lines_of(params, p, t.across.n, s);
        const packed_part part = part_from(s, 0, t.down.n);
        if (l.capacity > 0 && l.bytes > l.before && part.lines <= PACKED_LINES)
            stage_lines(l, part.top, min(part.lines, l.capacity), m.raw);
        if (prepare_packed(params, p, t, l, s)) {
            make_packed<T>(params, m);
            return;
        }
        block_sync();
    }
    make_any<T>(params, m);
}

/* One warp finds the slot's image. Images of equal size have equally many slots, so the estimate is off by at most one then. */
RVIT_DEVICE void find_image(const rvit_cu_preprocess_params &params, slot_image &p)
{
    const int lane = thread_number(), patch = params.patch_size,
              n_images = min(max(params.words[RVIT_IMAGE_LIVE_IMAGES], 0), params.n_images);
    const long long slot = blockIdx.x;
    const rvit_image_entry *entries = image_entries(params);
    int image = min((int)((float)blockIdx.x * params.images_per_slot), params.n_images - 1);
    const int last = min(image + 1, params.n_images - 1);
    int32_t word = reinterpret_cast<const int32_t *>(entries + image)[lane];
    const int32_t other = reinterpret_cast<const int32_t *>(entries + last)[lane];
    if (last > image && image_slots_before(params, last) <= slot) {
        image = last;
        word = other;
    }
    long long first = image_slots_before(params, image), end = image_slots_before(params, image + 1);
    if (slot < first || slot >= end) {
        image = image_of_slot(params, n_images, slot);
        first = image_slots_before(params, image);
        end = image_slots_before(params, image + 1);
        word = reinterpret_cast<const int32_t *>(entries + image)[lane];
    }
    reinterpret_cast<int32_t *>(&p.e)[lane] = word;
    warp_sync();
    if (lane == 0) {
        clamp_entry(p.e, patch);
        const int begin = image_row_start(params, image), stop = image_row_start(params, image + 1);
        const long long patches = (long long)p.e.grid_width * p.e.grid_height, tile = slot - first;
        p.across_tiles = (p.e.grid_width * patch + TILE_WIDTH - 1) / TILE_WIDTH;
        p.tiles = p.across_tiles * ((p.e.grid_height * patch + params.tile_height - 1) / params.tile_height);
        p.tile = image < n_images && tile >= 0 && slot < end && patches <= stop - begin && tile < p.tiles ? (int)tile : p.tiles;
        p.step = (int)max(min(end - first, (long long)p.tiles), 1ll);
        p.first_row = stop - patches;
        p.memory = nullptr;
    }
}

/* Makes the tiles of the CTA's slot. */
template <typename T> RVIT_DEVICE void make_tiles(const rvit_cu_preprocess_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    preprocess_memory &m = *reinterpret_cast<preprocess_memory *>(memory);
    const int tid = thread_number();
    if (params.n_images == 0)
        return;
    if (tid < 32)
        find_image(params, m.image);
    else if (tid - 32 < 3 * 256 / 4)
        reinterpret_cast<uint4 *>(m.levels)[tid - 32] = reinterpret_cast<const uint4 *>(params.words + RVIT_IMAGE_LEVELS)[tid - 32];
    block_sync();
#pragma unroll 1
    while (m.image.tile < m.image.tiles) {
        make_tile<T>(params, m.image.tile, m);
        block_sync();
        if (thread_number() == 0)
            m.image.tile += m.image.step;
        block_sync();
    }
}

template <typename T> RVIT_DEVICE void clear_elements(T *row, int begin, int end)
{
#pragma unroll 1
    for (int i = begin + 2 * thread_number(); i < end; i += 2 * PREPROCESS_THREADS)
        store_2(row + i, make_float2(0.0f, 0.0f));
}

/* Zeros the rows of prefix tokens and the padding of rows. */
template <typename T> RVIT_DEVICE void clear_rest(const rvit_cu_preprocess_params &params, int n_images)
{
    T *out = static_cast<T *>(params.out);
    const int width = 3 * params.patch_size * params.patch_size, rows = n_images == 0 ? 0 : image_row_start(params, n_images);
    const int parts = params.low_offset > 0 ? 2 : 1, part = params.low_offset > 0 ? params.low_offset : params.out_stride;
#pragma unroll 1
    for (long long row = blockIdx.x; row < rows * parts && width < part; row += gridDim.x)
        clear_elements(out + row * part, width, part);
#pragma unroll 1
    for (long long image = blockIdx.x; image < n_images; image += gridDim.x) {
        const rvit_image_entry &e = image_entries(params)[image];
        const long long patches = (long long)min(max(e.grid_width, 1), 1 << 14) * min(max(e.grid_height, 1), 1 << 14);
        const long long end = image_row_start(params, (int)image + 1) - patches;
#pragma unroll 1
        for (long long row = image_row_start(params, (int)image); row < end; row++)
            for (int i = 0; i < parts; i++)
                clear_elements(out + row * params.out_stride + i * part, 0, width);
    }
}

template <typename T> RVIT_DEVICE void preprocess_tiles(const rvit_cu_preprocess_params &params)
{
    make_tiles<T>(params);
    if ((int)blockIdx.x > params.n_images &&
        (params.low_offset > 0 ? params.low_offset : params.out_stride) == 3 * params.patch_size * params.patch_size)
        return;
    const int n_images = min(max(params.words[RVIT_IMAGE_LIVE_IMAGES], 0), params.n_images);
    write_image_layout(params, n_images);
    clear_rest<T>(params, n_images);
}

#endif
