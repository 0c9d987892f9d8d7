// Resizes images into patch rows; a workgroup makes a tile of a patch. Its input is processed in blocks of lines: the first resize pass
// makes lines of the tile's width, rounded to 8 bits, and the second adds them up. The image descriptors are untrusted: their values are
// clamped to the actual sizes.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_images.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_PREPROCESS_FLAGS) const uint FLAGS = 0;

#if OUT_F16
#define PAIR uint
#define encode_pair(value) half_pair(value.x, value.y, OUT_BF16)
#define decode_pair(word) half4_decode(uvec2(word, 0u), OUT_BF16).xy
#else
#define PAIR vec2
#define encode_pair(value) (value)
#define decode_pair(value) (value)
#endif

layout(binding = 0) readonly buffer Words { uint words[]; };
layout(binding = 1) readonly buffer Pixels { uint pixel_words[]; };
layout(binding = 2) writeonly buffer Out { PAIR out_pairs[]; };
layout(binding = 3) writeonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 4) writeonly buffer Grids { int grids[]; };
layout(push_constant) uniform Push { rvit_preprocess_push push; };

const uint TILE = RVIT_PREPROCESS_TILE;
const uint LINES = RVIT_PREPROCESS_LINES;
const uint PIXELS = TILE * TILE / RVIT_MAX_THREADS; // per thread

shared uint lines[LINES][TILE]; // three 8-bit values each
shared uint made[TILE][TILE];

uint word(uint at)
{
    return words[uint(push.words_at) + at];
}

int row_start(uint image)
{
    return clamp(int(word(RVIT_TABLE_ROW_STARTS + image)), 0, push.rows);
}

// The current image.
uint entry_at;
bool on_device;
uint offset, plane; // bytes
int read, width, height, stride, pixel_size;
ivec3 channels;
int left, right, top, bottom, down_first;
int grid_width, grid_height;

int entry(uint i)
{
    return int(word(entry_at + i));
}

void load_grid(uint image)
{
    entry_at = uint(push.entries_at) + image * RVIT_TABLE_ENTRY_WORDS;
    grid_width = clamp(entry(RVIT_ENTRY_GRID_WIDTH), 1, 1 << 14);
    grid_height = clamp(entry(RVIT_ENTRY_GRID_HEIGHT), 1, 1 << 14);
}

// a += b; false if the sum has more than 32 bits.
bool add(inout uint a, uint b)
{
    uint carry;
    a = uaddCarry(a, b, carry);
    return carry == 0;
}

// a += b * c
bool add_product(inout uint a, uint b, uint c)
{
    uint high, low;
    umulExtended(b, c, high, low);
    return high == 0 && add(a, low);
}

// Loads the other fields of the image. Returns false if not all of its pixels are inside their memory.
bool load_image()
{
    read = entry(RVIT_ENTRY_READ);
    on_device = entry(RVIT_ENTRY_ON_DEVICE) != 0;
    offset = uint(entry(RVIT_ENTRY_OFFSET_LOW));
    plane = uint(entry(RVIT_ENTRY_PLANE_LOW));
    width = entry(RVIT_ENTRY_WIDTH);
    height = entry(RVIT_ENTRY_HEIGHT);
    stride = entry(RVIT_ENTRY_STRIDE);
    pixel_size = entry(RVIT_ENTRY_PIXEL_SIZE);
    channels = ivec3(entry(RVIT_ENTRY_RED), entry(RVIT_ENTRY_GREEN), entry(RVIT_ENTRY_BLUE));
    right = clamp(entry(RVIT_ENTRY_RIGHT), 0, grid_width * push.patch_size);
    bottom = clamp(entry(RVIT_ENTRY_BOTTOM), 0, grid_height * push.patch_size);
    left = clamp(entry(RVIT_ENTRY_LEFT), 0, right);
    top = clamp(entry(RVIT_ENTRY_TOP), 0, bottom);
    down_first = entry(RVIT_ENTRY_DOWN_FIRST);
    if (entry(RVIT_ENTRY_OFFSET_HIGH) != 0 || width < 1 || width > RVIT_TABLE_SIDE || height < 1 || height > RVIT_TABLE_SIDE ||
        stride < 0 || pixel_size < 1 || pixel_size > 4 || read < 0 || read > RVIT_READ_F16)
        return false;
    uint end = 0;
    bool fits = add_product(end, uint(stride), uint(height - 1)) && add_product(end, uint(width), uint(pixel_size));
    if (read == RVIT_READ_NV12) {
        uint second = plane;
        fits = fits && entry(RVIT_ENTRY_PLANE_HIGH) == 0 && add_product(second, uint(stride), uint((height + 1) / 2 - 1)) &&
               add(second, uint((width + 1) / 2 * 2));
        end = max(end, second);
    } else if (read != RVIT_READ_PACKED) {
        const int size = read == RVIT_READ_F16 ? 2 : 4;
        fits = fits && entry(RVIT_ENTRY_PLANE_HIGH) == 0 && add_product(end, plane, 2) && pixel_size == size &&
               ((offset | plane | uint(stride)) & uint(size - 1)) == 0;
    } else if (any(lessThan(channels, ivec3(0))) || any(greaterThanEqual(channels, ivec3(pixel_size)))) {
        return false;
    }
    return fits && add(end, offset) && end <= (on_device ? uint(push.pixels_size) : uint(push.n_words) * 4);
}

uint load_word(uint at)
{
    return on_device ? pixel_words[uint(push.pixels_at) + at / 4] : word(at / 4);
}

uint load_byte(uint at)
{
    return load_word(at) >> (at & 3u) * 8u & 255u;
}

uint to_byte(uint sum, int bits)
{
    return uint(clamp(int(sum) >> bits, 0, 255));
}

uint pack(uvec3 sums, int bits)
{
    return to_byte(sums.x, bits) | to_byte(sums.y, bits) << 8 | to_byte(sums.z, bits) << 16;
}

uvec3 unpack(uint value)
{
    return uvec3(value & 255u, value >> 8 & 255u, value >> 16);
}

uvec3 load_nv12(int x, int y)
{
    const uint luma_at = offset + uint(y) * uint(stride) + uint(x);
    const uint chroma_at = offset + plane + uint(y / 2) * uint(stride) + uint(x / 2 * 2);
    const uint luma =
        (load_byte(luma_at) - uint(entry(RVIT_ENTRY_LUMA_ZERO))) * uint(entry(RVIT_ENTRY_LUMA_GAIN)) + 32768u;
    const uint cb = load_byte(chroma_at) - 128u, cr = load_byte(chroma_at + 1) - 128u;
    return uvec3(to_byte(luma + cr * uint(entry(RVIT_ENTRY_RED_CR)), 16),
                 to_byte(luma + cb * uint(entry(RVIT_ENTRY_GREEN_CB)) + cr * uint(entry(RVIT_ENTRY_GREEN_CR)), 16),
                 to_byte(luma + cb * uint(entry(RVIT_ENTRY_BLUE_CB)), 16));
}

uvec3 load_packed(int x, int y)
{
    const uint at = offset + uint(y) * uint(stride) + uint(x * pixel_size);
    return uvec3(load_byte(at + uint(channels.x)), load_byte(at + uint(channels.y)), load_byte(at + uint(channels.z)));
}

// Outputs begin .. begin + n of one axis.
struct axis {
    uint at, n_axis;
    int begin, n, in_size, bits;
};

struct taps {
    int first, count;
    uint weights; // n_axis apart
};

bool find_axis(int at, int n_axis, int begin, int n, int in_size, int bits, out axis found)
{
    found = axis(uint(at), uint(n_axis), begin, n, in_size, clamp(bits, 1, 30));
    return at >= 0 && n_axis >= 1 && uint(at) < uint(push.n_words) && uint(n_axis) <= (uint(push.n_words) - uint(at)) / 2;
}

taps find_taps(axis a, int i)
{
    const uint here = a.at + uint(a.begin + i), begin = here + 2 * a.n_axis;
    const uint available = begin < uint(push.n_words) ? (uint(push.n_words) - begin + a.n_axis - 1) / a.n_axis : 0;
    const int first = clamp(int(word(here)), 0, a.in_size - 1);
    const int count = clamp(int(word(here + a.n_axis)), 0, a.in_size - first);
    return taps(first, int(min(available, uint(count))), begin);
}

// The first pass over lines block .. stop, which are columns if the vertical pass comes first.
void sum_block(axis a, int block, int stop)
{
    const int i = int(gl_LocalInvocationIndex % TILE);
    if (i >= a.n)
        return;
    const taps t = find_taps(a, i);
    for (int line = block + int(gl_LocalInvocationIndex / TILE); line < stop; line += int(THREADS / TILE)) {
        uvec3 sums = uvec3(1u << (a.bits - 1));
        for (int k = 0; k < t.count; k++) {
            const int x = down_first != 0 ? line : t.first + k, y = down_first != 0 ? t.first + k : line;
            sums += word(t.weights + uint(k) * a.n_axis) * (read == RVIT_READ_NV12 ? load_nv12(x, y) : load_packed(x, y));
        }
        lines[line - block][i] = pack(sums, a.bits);
    }
}

// Writes the part of the tile at (x, y) that the image covers into `made`.
void resize_tile(int x, int y, int across, int down)
{
    const int x0 = max(x, left), x1 = min(x + across, right), y0 = max(y, top), y1 = min(y + down, bottom);
    axis a, b;
    if (x0 >= x1 || y0 >= y1 ||
        !find_axis(entry(RVIT_ENTRY_X_AXIS), right - left, x0 - left, x1 - x0, width, entry(RVIT_ENTRY_X_BITS), a) ||
        !find_axis(entry(RVIT_ENTRY_Y_AXIS), bottom - top, y0 - top, y1 - y0, height, entry(RVIT_ENTRY_Y_BITS), b))
        return;
    if (down_first != 0) {
        const axis swapped = a;
        a = b;
        b = swapped;
    }
    const taps last = find_taps(b, b.n - 1);
    const int begin = find_taps(b, 0).first, end = last.first + last.count;
    const int i = int(gl_LocalInvocationIndex % TILE), j0 = int(gl_LocalInvocationIndex / TILE);
    uvec3 sums[PIXELS];
    for (uint p = 0; p < PIXELS; p++)
        sums[p] = uvec3(1u << (b.bits - 1));
    for (int block = begin; block < end; block += int(LINES)) {
        const int stop = min(end, block + int(LINES));
        sum_block(a, block, stop);
        barrier();
        for (uint p = 0; p < PIXELS; p++) {
            const int j = j0 + int(p * (RVIT_MAX_THREADS / TILE));
            if (i >= a.n || j >= b.n)
                continue;
            const taps t = find_taps(b, j);
            for (int line = max(block, t.first); line < min(stop, t.first + t.count); line++)
                sums[p] += word(t.weights + uint(line - t.first) * b.n_axis) * unpack(lines[line - block][i]);
        }
        barrier();
    }
    for (uint p = 0; p < PIXELS; p++) {
        const int j = j0 + int(p * (RVIT_MAX_THREADS / TILE));
        if (i >= a.n || j >= b.n)
            continue;
        const int row = down_first != 0 ? i : j, column = down_first != 0 ? j : i;
        made[y0 - y + row][x0 - x + column] = pack(sums[p], b.bits);
    }
}

float load_planar(int c, int x, int y)
{
    const uint at = offset + uint(c) * plane + uint(y) * uint(stride) + uint(x * pixel_size), value = load_word(at);
    return read == RVIT_READ_F32 ? uintBitsToFloat(value) : (at & 2u) == 0 ? unpackHalf2x16(value).x : unpackHalf2x16(value).y;
}

float pixel(bool planar, bool there, int c, int x, int y, uint value)
{
    if (planar)
        return there && x < width && y < height ? load_planar(c, x, y) : 0.0;
    return uintBitsToFloat(word(RVIT_TABLE_LEVELS + uint(c) * 256 + (value >> 8 * c & 255u)));
}

// The last image that begins at or before the row.
uint image_of(int n_images, int row)
{
    int low = 0, high = n_images - 1;
    while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        if (row_start(uint(middle)) <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return uint(low);
}

void write_layout(int n_images)
{
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    if (at > uint(push.n_images))
        return;
    if ((FLAGS & RVIT_PREPROCESS_HAS_CU_SEQLENS) != 0)
        cu_seqlens[uint(push.cu_seqlens_at) + at] = row_start(min(at, uint(n_images)));
    if ((FLAGS & RVIT_PREPROCESS_HAS_GRIDS) != 0 && at < uint(push.n_images)) {
        load_grid(at);
        grids[uint(push.grids_at) + 2 * at] = at < uint(n_images) ? grid_height : 0;
        grids[uint(push.grids_at) + 2 * at + 1] = at < uint(n_images) ? grid_width : 0;
    }
}

void main()
{
    const int n_images = clamp(int(word(RVIT_TABLE_LIVE_IMAGES)), 0, push.n_images), edge = push.patch_size;
    const int side = (edge + int(TILE) - 1) / int(TILE), tiles = side * side, row = int(group_index() / uint(tiles));
    write_layout(n_images);
    if (n_images == 0 || row >= row_start(uint(n_images)))
        return;
    const uint image = image_of(n_images, row);
    load_grid(image);
    const int tile = int(group_index() % uint(tiles)), start = row_start(image);
    const int patches = grid_width * grid_height, number = row - start - (row_start(image + 1) - start - patches);
    const bool present = number >= 0 && number < patches;
    const uint out_at = uint(push.out_at) + uint(row) * uint(push.out_stride / 2);
    if (tile == 0)
        for (uint i = gl_LocalInvocationIndex; i < uint(push.out_stride / 2); i += THREADS)
            if (!present || i % uint(push.part / 2) >= uint(3 * edge * edge / 2))
                out_pairs[out_at + i] = encode_pair(vec2(0.0));
    if (!present)
        return;

    const bool there = load_image(), planar = read == RVIT_READ_F32 || read == RVIT_READ_F16;
    const int in_x = tile % side * int(TILE), in_y = tile / side * int(TILE);
    const int x = number % grid_width * edge + in_x, y = number / grid_width * edge + in_y;
    const int across = min(edge - in_x, int(TILE)), down = min(edge - in_y, int(TILE));
    for (uint i = gl_LocalInvocationIndex; i < TILE * TILE; i += THREADS)
        made[i / TILE][i % TILE] = uint(entry(RVIT_ENTRY_FILL));
    barrier();
    if (there && !planar)
        resize_tile(x, y, across, down);
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < 3 * TILE * TILE / 2; i += THREADS) {
        const int c = int(i / (TILE * TILE / 2)), row_in = int(i % (TILE * TILE / 2) / (TILE / 2)), column = int(i % (TILE / 2)) * 2;
        if (column >= across || row_in >= down)
            continue;
        const vec2 value = vec2(pixel(planar, there, c, x + column, y + row_in, made[row_in][column]),
                                pixel(planar, there, c, x + column + 1, y + row_in, made[row_in][column + 1]));
        const uint at = out_at + uint(((c * edge + in_y + row_in) * edge + in_x + column) / 2);
        const PAIR stored = encode_pair(value);
        out_pairs[at] = stored;
        if (push.part < push.out_stride) // the lo part: the rounding error of the hi part
            out_pairs[at + uint(push.part / 2)] = encode_pair((value - decode_pair(stored)));
    }
}
