/* Results that depend on the patch grids of a batch: layouts, embedded rows, rotary angles. */
#ifndef RVIT_GRIDS_CUH
#define RVIT_GRIDS_CUH

#include "elements.cuh"

#include "../tile.h"

struct image_size {
    int height, width, patches, tokens, windows;
};

/* Totals of a batch up to an image. */
struct batch_size {
    int rows, patch_rows, windows;
};

RVIT_DEVICE int grid_side(int value, int merge)
{
    const int side = min(max(value, 0), RVIT_CU_MAX_SIDE);
    return side - side % merge;
}

RVIT_DEVICE image_size size_of_image(const rvit_cu_grid_layout_params &params, int image)
{
    const int2 grid = *reinterpret_cast<const int2 *>(params.grids + 2LL * image);
    image_size size;
    size.height = grid_side(grid.x, params.merge), size.width = grid_side(grid.y, params.merge);
    const int patches = size.height * size.width;
    size.tokens = patches == 0 ? 0 : min(patches + params.n_prefix, params.max_len);
    size.patches = min(patches, params.patch_rows);
    size.windows = 0;
    if (params.window > 0) {
        const int side = params.merge * params.window;
        size.windows = ((size.height + side - 1) / side) * ((size.width + side - 1) / side);
    }
    return size;
}

RVIT_DEVICE batch_size add_image(const rvit_cu_grid_layout_params &params, batch_size before, int tokens, int patches, int windows)
{
    batch_size after;
    after.rows = saturating_add(before.rows, tokens, params.rows);
    after.patch_rows = saturating_add(before.patch_rows, patches, params.patch_rows);
    after.windows = saturating_add(before.windows, windows, params.max_windows + 1);
    return after;
}

/* The position of a merge group in an image of height x width groups, from its number in row order. */
RVIT_DEVICE int2 position_of_group(int window, int height, int width, int group)
{
    if (window == 0)
        return make_int2(group / width, group % width);
    const int top = group / width / window * window, lines = min(window, height - top), in_band = group - top * width;
    const int left = in_band / lines / window * window, columns = min(window, width - left), inner = in_band - left * lines;
    return make_int2(top + inner / columns, left + inner % columns);
}

/* The inverse. */
RVIT_DEVICE int group_at(int window, int height, int width, int y, int x)
{
    if (window == 0)
        return y * width + x;
    const int top = y / window * window, left = x / window * window;
    const int lines = min(window, height - top), columns = min(window, width - left);
    return top * width + left * lines + (y - top) * columns + x - left;
}

/* Writes the token map of rows begin .. end - 1, which are an image's. */
RVIT_DEVICE void fill_patches(const rvit_cu_grid_layout_params &params, image_size size, int image, int begin, int end, int patch_row)
{
    const int merge = params.merge, area = merge * merge, grid = size.height << 16 | size.width;
    const int height_in_groups = size.height / merge, width_in_groups = size.width / merge;
    for (int row = begin + (int)threadIdx.x; row < end; row += blockDim.x) {
        const int patch = row - begin - params.n_prefix;
        int4 entry = {-1 - (row - begin), image, 0, grid};
        if (patch >= 0) {
            const int group = patch / area, inner = patch - group * area, in_line = inner / merge;
            const int2 at = position_of_group(params.window, height_in_groups, width_in_groups, group);
            const int y = at.x * merge + in_line, x = at.y * merge + inner - in_line * merge;
            entry.x = patch_row + (params.line_by_line ? y * size.width + x : (at.x * width_in_groups + at.y) * area + inner);
            entry.z = y << 16 | x;
        }
        reinterpret_cast<int4 *>(params.token_map)[row] = entry;
    }
}

/* Writes the number in row order of each merge group, line by line, for an image with rows begin .. end - 1. */
RVIT_DEVICE void fill_group_rows(const rvit_cu_grid_layout_params &params, image_size size, int begin, int end)
{
    const int merge = params.merge, area = merge * merge, height_in_groups = size.height / merge, width_in_groups = size.width / merge;
    const int first = begin / area, past = end / area;
    for (int i = first + (int)threadIdx.x; i < past; i += blockDim.x) {
        const int y = (i - first) / width_in_groups, x = (i - first) - y * width_in_groups;
        params.group_rows[i] = min(first + group_at(params.window, height_in_groups, width_in_groups, y, x), past - 1);
    }
}

/* Writes the first row of each window of the image. `window` is the number of its first window. */
RVIT_DEVICE void fill_windows(const rvit_cu_grid_layout_params &params, image_size size, int window, int begin, int end)
{
    const int merge = params.merge, side = params.window, height_in_groups = size.height / merge, width_in_groups = size.width / merge;
    const int across = (width_in_groups + side - 1) / side, n_windows = min(size.windows, params.max_windows + 1 - window);
    for (int i = (int)threadIdx.x; i < n_windows; i += blockDim.x) {
        const int group = group_at(side, height_in_groups, width_in_groups, i / across * side, i % across * side);
        params.window_cu_seqlens[window + i] = (int)min(begin + (long long)group * merge * merge, (long long)end);
    }
}

/* Sums over the CTA. */
RVIT_DEVICE batch_size sum_sizes(const rvit_cu_grid_layout_params &params, batch_size own)
{
    RVIT_SHARED int4 sums[RVIT_CU_GRID_THREADS / 32];
    const int warp = threadIdx.x / 32;
    for (int mask = 16; mask > 0; mask /= 2)
        own = add_image(params, own, shuffle_xor(own.rows, mask), shuffle_xor(own.patch_rows, mask), shuffle_xor(own.windows, mask));
    if (threadIdx.x % 32 == 0)
        sums[warp] = make_int4(own.rows, own.patch_rows, own.windows, 0);
    block_sync();
    batch_size all = {0, 0, 0};
    for (int w = 0; w < RVIT_CU_GRID_THREADS / 32; w++)
        all = add_image(params, all, sums[w].x, sums[w].y, sums[w].z);
    return all;
}

/* A CTA takes some images and sums all images before them itself, which costs less than waiting for other CTAs. */
RVIT_DEVICE void lay_out_grids(const rvit_cu_grid_layout_params &params)
{
    const int n = params.live_images == nullptr ? params.n_images : min(max(*params.live_images, 0), params.n_images);
    const long long first = (long long)blockIdx.x * params.per_cta;
    batch_size at = {0, 0, 0};
    for (long long i = threadIdx.x; i < min(first, (long long)n); i += blockDim.x) {
        const image_size size = size_of_image(params, (int)i);
        at = add_image(params, at, size.tokens, size.patches, size.windows);
    }
    at = sum_sizes(params, at);
    const int past = (int)min(first + params.per_cta, params.n_images + 1LL);
    for (int image = (int)first; image < past; image++) {
        if (threadIdx.x == 0) {
            params.cu_seqlens[image] = at.rows;
            if (params.patch_cu_seqlens != nullptr)
                params.patch_cu_seqlens[image] = at.patch_rows;
            if (params.group_cu_seqlens != nullptr)
                params.group_cu_seqlens[image] = at.rows / (params.merge * params.merge);
        }
        if (image == params.n_images && params.window_cu_seqlens != nullptr)
            for (int i = at.windows + (int)threadIdx.x; i <= params.max_windows; i += blockDim.x)
                params.window_cu_seqlens[i] = at.rows;
        if (image >= n)
            continue;
        const image_size size = size_of_image(params, image);
        const batch_size after = add_image(params, at, size.tokens, size.patches, size.windows);
        if (params.token_map != nullptr)
            fill_patches(params, size, image, at.rows, after.rows, at.patch_rows);
        if (params.group_rows != nullptr)
            fill_group_rows(params, size, at.rows, after.rows);
        if (params.window_cu_seqlens != nullptr)
            fill_windows(params, size, at.windows, at.rows, after.rows);
        at = after;
    }
}

/* A patch's position, clamped to its grid. */
struct patch_position {
    int y, x, height, width;
};

RVIT_DEVICE patch_position position_of(int4 entry)
{
    patch_position at;
    at.height = min(max(entry.w >> 16, 1), RVIT_CU_MAX_SIDE), at.width = min(max(entry.w & 65535, 1), RVIT_CU_MAX_SIDE);
    at.y = min(max(entry.z >> 16, 0), at.height - 1), at.x = min(max(entry.z & 65535, 0), at.width - 1);
    return at;
}

/* The taps in one axis of a resampled position embedding: core/base/resample.h. */
struct table_taps {
    int how, side, first, n, at, step, unit;
    bool is_summed; /* weights are divided by their sum */
};

RVIT_DEVICE int floor_ratio(int a, int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

RVIT_DEVICE table_taps taps_of(int how, int side, int grid, int i)
{
    table_taps taps = {how, side, i, 1, 0, 1, 1, false};
    if (side == grid)
        return taps;
    if (how == RVIT_CU_NEAREST) {
        taps.first = i * side / grid;
        return taps;
    }
    if (how == RVIT_CU_BICUBIC_ANTIALIAS || how == RVIT_CU_BILINEAR_ANTIALIAS) {
        const int centre = (2 * i + 1) * side, support = (how == RVIT_CU_BICUBIC_ANTIALIAS ? 4 : 2) * max(side, grid);
        taps.first = max(floor_ratio(centre - support - grid, 2 * grid) + 1, 0);
        taps.n = min(-floor_ratio(grid - centre - support, 2 * grid), side) - taps.first;
        taps.at = centre - (2 * taps.first + 1) * grid;
        taps.step = 2 * grid;
        taps.unit = 2 * max(side, grid);
        taps.is_summed = true;
        return taps;
    }
    const bool aligned = how == RVIT_CU_ALIGN_CORNERS, wide = how == RVIT_CU_BICUBIC;
    int source = aligned ? i * (side - 1) : (2 * i + 1) * side - grid;
    taps.unit = taps.step = aligned ? max(grid - 1, 1) : 2 * grid;
    if (!wide)
        source = max(source, 0);
    const int below = floor_ratio(source, taps.unit), past = source - below * taps.unit;
    taps.first = wide ? below - 1 : below;
    taps.n = wide ? 4 : past > 0 ? 2 : 1;
    taps.at = wide ? past + taps.unit : past;
    return taps;
}

RVIT_DEVICE int tap_entry(const table_taps &taps, int tap)
{
    return min(max(taps.first + tap, 0), taps.side - 1);
}

/* The filter at a tap. A linear filter is multiplied by unit, which makes it an integer. */
RVIT_DEVICE float kernel_at(const table_taps &taps, int tap)
{
    const int distance = abs(taps.at - tap * taps.step);
    if (taps.how != RVIT_CU_BICUBIC && taps.how != RVIT_CU_BICUBIC_ANTIALIAS)
        return (float)max(taps.unit - distance, 0);
    const float x = (float)distance / (float)taps.unit, a = taps.how == RVIT_CU_BICUBIC ? -0.75f : -0.5f;
    if (x <= 1.0f)
        return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    return x < 2.0f ? a * (x - 1.0f) * (x - 2.0f) * (x - 2.0f) : 0.0f;
}

RVIT_DEVICE float tap_weight(const table_taps &taps, int tap)
{
    if (taps.n == 1)
        return 1.0f;
    float sum = taps.how == RVIT_CU_BICUBIC ? 1.0f : (float)taps.unit;
    if (taps.is_summed) {
        sum = 0.0f;
        for (int i = 0; i < taps.n; i++)
            sum += kernel_at(taps, i);
    }
    return kernel_at(taps, tap) / sum;
}

RVIT_DEVICE void add_weighted(float4 &sum, float weight, float4 x)
{
    sum.x += weight * x.x, sum.y += weight * x.y, sum.z += weight * x.z, sum.w += weight * x.w;
}

RVIT_DEVICE float4 times(float weight, float4 x)
{
    return make_float4(weight * x.x, weight * x.y, weight * x.z, weight * x.w);
}

/* Four columns of the resampled position embedding. */
RVIT_DEVICE float4 position_at(const rvit_cu_embed_params &params, const table_taps &down, const table_taps &across, const float *weights,
                               int column)
{
    const float *table = params.table + column;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = 0; i < down.n; i++) {
        const float *entries = table + (long long)tap_entry(down, i) * params.table_width * params.dim;
        float4 line = times(weights[RVIT_CU_MAX_TABLE], load_4(entries + (long long)tap_entry(across, 0) * params.dim));
        for (int j = 1; j < across.n; j++)
            add_weighted(line, weights[RVIT_CU_MAX_TABLE + j], load_4(entries + (long long)tap_entry(across, j) * params.dim));
        if (i == 0)
            sum = times(weights[0], line);
        else
            add_weighted(sum, weights[i], line);
    }
    return sum;
}

/* A CTA takes one row at a time. */
template <typename T> RVIT_DEVICE void embed_rows(const rvit_cu_embed_params &params)
{
    RVIT_SHARED float weights[2 * RVIT_CU_MAX_TABLE];
    const int rows = live_rows(params.rows), dim = params.dim;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const int4 entry = reinterpret_cast<const int4 *>(params.token_map)[row];
        float *out = params.out + row * dim;
        if (entry.x < 0 || params.patch_rows == 0) {
            const float *prefix = params.prefix + (long long)min(~entry.x, params.n_prefix - 1) * dim;
            const bool is_there = entry.x < 0 && params.n_prefix > 0;
            for (int column = (int)threadIdx.x * 4; column < dim; column += blockDim.x * 4)
                store_4(out + column, is_there ? load_4(prefix + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f));
            continue;
        }
        const patch_position at = position_of(entry);
        const table_taps down = taps_of(params.resample, params.table_height, at.height, at.y);
        const table_taps across = taps_of(params.resample, params.table_width, at.width, at.x);
        if (params.table != nullptr) {
            block_sync();
            for (int tap = threadIdx.x; tap < down.n + across.n; tap += blockDim.x) {
                if (tap < down.n)
                    weights[tap] = tap_weight(down, tap);
                else
                    weights[RVIT_CU_MAX_TABLE + tap - down.n] = tap_weight(across, tap - down.n);
            }
            block_sync();
        }
        const T *from = static_cast<const T *>(params.patches) + (long long)min(entry.x, params.patch_rows - 1) * dim;
        for (int column = (int)threadIdx.x * 4; column < dim; column += blockDim.x * 4) {
            float4 x = load_4(from + column);
            if (params.table != nullptr) {
                const float4 position = position_at(params, down, across, weights, column);
                x.x += position.x, x.y += position.y, x.z += position.z, x.w += position.w;
            }
            store_4(out + column, x);
        }
    }
}

/* Cosine and sine of (high + low) turns. The nearest quarter turn is subtracted first, exactly. */
RVIT_DEVICE float2 turn(float high, float low)
{
    const float rest = high - rintf(high), quarter = rintf(4.0f * rest);
    const float u = ((rest - 0.25f * quarter) + low) * 6.283185307f, square = u * u;
    const float sine =
        u + u * square * (-1.666666667e-1f + square * (8.333333333e-3f + square * (-1.984126984e-4f + square * 2.755731922e-6f)));
    const float cosine =
        1.0f +
        square * (-0.5f + square * (4.166666667e-2f + square * (-1.388888889e-3f + square * (2.480158730e-5f - square * 2.755731922e-7f))));
    if (quarter == 1.0f)
        return make_float2(-sine, cosine);
    if (quarter == -1.0f)
        return make_float2(sine, -cosine);
    return quarter == 0.0f ? make_float2(cosine, sine) : make_float2(-cosine, -sine);
}

/* A warp takes a row, a lane one pair at a time. Products and quotients are compensated for rounding. */
RVIT_DEVICE void fill_turns(const rvit_cu_grid_rope_params &params)
{
    const int rows = live_rows(params.rows), pairs = params.head_dim / 2, warps = (int)blockDim.x / 32;
    for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < rows; row += (long long)gridDim.x * warps) {
        const int4 entry = reinterpret_cast<const int4 *>(params.token_map)[row];
        const patch_position patch = position_of(entry);
        float *out = params.out + row * params.head_dim;
        for (int pair = threadIdx.x & 31; pair < pairs; pair += 32) {
            const bool is_second = pair >= pairs / 2, is_x = is_second != (params.xy != 0);
            const int i = is_x ? patch.x : patch.y, side = is_x ? patch.width : patch.height;
            const float reference = is_x ? params.reference_width : params.reference_height;
            float over = 1.0f, at = (float)i + params.offset, lost = 0.0f;
            if (params.centred)
                at = (float)(2 * i + 1 - side) + 2.0f * params.offset, over = (float)side;
            else if (reference > 0.0f) {
                const float index = at;
                at = index * reference, lost = fmaf(index, reference, -at), over = (float)side;
            }
            const float2 frequency = load_2(params.frequencies + 2 * (is_second ? pair - pairs / 2 : pair));
            const float high = at / over, low = (fmaf(-high, over, at) + lost) / over;
            const float turns = high * frequency.x;
            const float rest = fmaf(high, frequency.x, -turns) + (high * frequency.y + low * frequency.x);
            const float2 angle = entry.x < 0 ? make_float2(1.0f, 0.0f) : turn(turns, rest);
            out[pair] = angle.x;
            out[pair + pairs] = angle.y;
        }
    }
}

#endif
