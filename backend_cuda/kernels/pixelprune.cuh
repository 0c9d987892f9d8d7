/* Marks the merge groups of an image that are not predicted by those to their left and above. */
#ifndef RVIT_PIXELPRUNE_CUH
#define RVIT_PIXELPRUNE_CUH

#include "grids.cuh"

RVIT_DEVICE float limit_of(const rvit_cu_pixelprune_params &params, int value)
{
    if (params.sources == nullptr)
        return 0.0f;
    const int channel = params.interleaved ? value % params.channels : value / (params.columns / params.channels);
    return channel == 0 ? params.limits[0] : channel == 1 ? params.limits[1] : channel == 2 ? params.limits[2] : params.limits[3];
}

RVIT_DEVICE bool value_differs(float x, float y, float limit)
{
    return !(x == y || fabsf(x - y) <= limit);
}

RVIT_DEVICE bool values_differ(float4 x, float4 y, const float (&limits)[4])
{
    return value_differs(x.x, y.x, limits[0]) || value_differs(x.y, y.y, limits[1]) || value_differs(x.z, y.z, limits[2]) ||
           value_differs(x.w, y.w, limits[3]);
}

#define CORNER_LEFT 1
#define CORNER_ABOVE 2
#define OWN_LEFT 4
#define OWN_ABOVE 8

/* Distances between the patch rows of an image's merge groups. */
struct patch_order {
    int line;        /* between lines of a group */
    int left, above; /* to the group on the left, above */
    int last_begin;  /* the last valid first patch row of a group; negative: none */
};

RVIT_DEVICE patch_order order_of(const rvit_cu_pixelprune_params &params, const patch_position &at)
{
    const int m = params.merge;
    patch_order order = {m, m * m, m * m * max(at.width / m, 1), params.patch_rows - m * m};
    if (params.patch_merge) {
        order.line = at.width, order.left = m, order.above = m * at.width;
        order.last_begin = params.patch_rows - (m - 1) * at.width - m;
    }
    return order;
}

/* A warp compares four pairs of groups, given by their first patch rows; returns a bit for each pair that differs. */
RVIT_DEVICE int differing(const rvit_cu_pixelprune_params &params, const patch_order &order, int own, int left, int above, int corner)
{
    const int area = params.merge * params.merge;
    int pairs = 0;
    for (int patch = 0; patch < area; patch++) {
        const long long row = (long long)(patch / params.merge) * order.line + patch % params.merge;
        const float *x = params.pixels + (own + row) * params.stride, *a = params.pixels + (left + row) * params.stride;
        const float *b = params.pixels + (above + row) * params.stride, *c = params.pixels + (corner + row) * params.stride;
        for (int i = (int)(threadIdx.x & 31) * 4; i < params.columns; i += 128) {
            const float limits[4] = {limit_of(params, i), limit_of(params, i + 1), limit_of(params, i + 2), limit_of(params, i + 3)};
            const float4 x4 = load_4(x + i), a4 = load_4(a + i), b4 = load_4(b + i), c4 = load_4(c + i);
            pairs |= (values_differ(c4, a4, limits) ? CORNER_LEFT : 0) | (values_differ(c4, b4, limits) ? CORNER_ABOVE : 0) |
                     (values_differ(x4, a4, limits) ? OWN_LEFT : 0) | (values_differ(x4, b4, limits) ? OWN_ABOVE : 0);
        }
    }
    for (int mask = 16; mask > 0; mask /= 2)
        pairs |= shuffle_xor(pairs, mask);
    return pairs;
}

/* The first patch row of the source of a reconstructed group. */
RVIT_DEVICE int reconstruction(const rvit_cu_pixelprune_params &params, const patch_order &order, int patch_row)
{
    const int at = min(max(patch_row, 0), order.last_begin);
    return params.sources == nullptr ? at : min(max(params.sources[at], 0), order.last_begin);
}

/* A warp marks the group whose first row is `row`, in an image that ends at `past`. */
RVIT_DEVICE void mark_group(const rvit_cu_pixelprune_params &params, int row, int past)
{
    const int merge = params.merge, area = merge * merge, lane = threadIdx.x & 31;
    const int4 entry = reinterpret_cast<const int4 *>(params.token_map)[row];
    const patch_position at = position_of(entry);
    const patch_order order = order_of(params, at);
    const bool has_pixels = order.last_begin >= 0;
    const int own = min(max(entry.x, 0), order.last_begin);
    const bool on_left = has_pixels && at.x >= merge, above = has_pixels && at.y >= merge;
    bool kept = true;
    if (on_left || above) {
        const int a = reconstruction(params, order, own - (on_left ? order.left : order.above));
        const int b = on_left && above ? reconstruction(params, order, own - order.above) : a;
        const int c = on_left && above ? reconstruction(params, order, own - order.above - order.left) : a;
        const int pairs = differing(params, order, own, a, b, c);
        const bool takes_b = (pairs & CORNER_LEFT) == 0 && (pairs & CORNER_ABOVE) != 0;
        kept = (pairs & (takes_b ? OWN_ABOVE : OWN_LEFT)) != 0;
        if (!kept && params.sources != nullptr && lane == 0)
            params.sources[own] = takes_b ? b : a;
    }
    if (kept && has_pixels && params.sources != nullptr && lane == 0)
        params.sources[own] = own;
    if (lane < area && row + lane < past)
        params.keep[row + lane] = kept;
}

/* The first row of a group from its number in line order. */
RVIT_DEVICE int row_of_group(const rvit_cu_pixelprune_params &params, int first, int past, int number)
{
    const int area = params.merge * params.merge, row = first + number * area;
    if (params.group_rows == nullptr || row / area >= params.rows / area)
        return row;
    const int group = min(max(params.group_rows[row / area], 0), params.rows / area);
    return min(max(group * area, first), past - 1);
}

RVIT_DEVICE void mark_groups(const rvit_cu_pixelprune_params &params)
{
    const int image = blockIdx.x / params.parts, part = blockIdx.x % params.parts, area = params.merge * params.merge;
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const image_rows rows = rows_of_image(params.cu_seqlens, image, params.rows, params.max_len);
    const int prefix = min(params.n_prefix, rows.len), first = rows.begin + prefix, past = rows.begin + rows.len;
    for (int row = rows.begin + (int)threadIdx.x; part == 0 && row < first; row += blockDim.x)
        params.keep[row] = 1;
    const int n = (past - first + area - 1) / area;
    if (n == 0)
        return;
    if (params.sources == nullptr) {
        for (int group = part * warps + warp; group < n; group += params.parts * warps)
            mark_group(params, first + group * area, past);
        return;
    }
    /* The groups of a diagonal depend on those of the two before it. */
    const patch_position at = position_of(reinterpret_cast<const int4 *>(params.token_map)[first]);
    const int columns = min(max(at.width / params.merge, 1), n), lines = (n + columns - 1) / columns;
    for (int diagonal = 0; diagonal < lines + columns - 1; diagonal++) {
        const int last = min(lines - 1, diagonal);
        for (int y = max(0, diagonal - columns + 1) + warp; y <= last; y += warps) {
            const int group = y * columns + diagonal - y;
            if (group < n)
                mark_group(params, row_of_group(params, first, past, group), past);
        }
        block_sync();
    }
}

#endif
