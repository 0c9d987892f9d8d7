/* The grid_layout op: the rows of each image, from its patch grid. */
#include "backend_cpu/cpu.h"

/* The size of an image in patches and in merge groups. */
typedef struct grid {
    int64_t height, width, group_height, group_width;
} grid;

/* The grid of image i, clamped: the array may hold garbage. */
static grid grid_of(const rvit_grid_layout_args *a, const int32_t *grids, int64_t i)
{
    const int64_t height = rvit_cpu_clamp(grids[2 * i], 0, RVIT_CPU_MAX_SIDE) / a->merge,
                  width = rvit_cpu_clamp(grids[2 * i + 1], 0, RVIT_CPU_MAX_SIDE) / a->merge;
    return (grid){height * a->merge, width * a->merge, height, width};
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The position (y, x) of a merge group, from its index in the row order. */
static void position_of_group(const rvit_grid_layout_args *a, grid g, int64_t group, int64_t *y, int64_t *x)
{
    const int64_t w = a->window;
    *y = group / g.group_width;
    *x = group % g.group_width;
    if (w == 0)
        return;
    const int64_t top = group / (w * g.group_width) * w, lines = min(w, g.group_height - top), in_band = group - top * g.group_width;
    const int64_t left = in_band / (lines * w) * w, columns = min(w, g.group_width - left), inner = in_band - left * lines;
    *y = top + inner / columns;
    *x = left + inner % columns;
}

/* The inverse of position_of_group. */
static int64_t group_at(const rvit_grid_layout_args *a, grid g, int64_t y, int64_t x)
{
    const int64_t w = a->window;
    if (w == 0)
        return y * g.group_width + x;
    const int64_t top = y / w * w, left = x / w * w, lines = min(w, g.group_height - top), columns = min(w, g.group_width - left);
    return top * g.group_width + left * lines + (y - top) * columns + x - left;
}

static void fill_token_map(const rvit_grid_layout_args *a, grid g, int64_t image, int64_t patch_row, int64_t begin, int64_t end,
                           int32_t *token_map)
{
    const int64_t m = a->merge;
    for (int64_t row = begin; row < end; row++) {
        const int64_t patch = row - begin - a->n_prefix;
        int32_t *entry = token_map + 4 * row;
        entry[0] = (int32_t)(-1 - (row - begin));
        entry[1] = (int32_t)image;
        entry[2] = 0;
        entry[3] = (int32_t)(g.height << 16 | g.width);
        if (patch < 0)
            continue;
        const int64_t inner = patch % (m * m);
        int64_t group_y, group_x;
        position_of_group(a, g, patch / (m * m), &group_y, &group_x);
        const int64_t y = group_y * m + inner / m, x = group_x * m + inner % m;
        const int64_t in_image = a->patch_merge == 1 ? y * g.width + x : (group_y * g.group_width + group_x) * m * m + inner;
        entry[0] = (int32_t)(patch_row + in_image);
        entry[2] = (int32_t)(y << 16 | x);
    }
}

/* For an image with merge groups begin .. end - 1 of the batch. */
static void fill_group_rows(const rvit_grid_layout_args *a, grid g, int64_t begin, int64_t end, int32_t *group_rows)
{
    for (int64_t i = begin; i < end; i++)
        group_rows[i] = (int32_t)min(begin + group_at(a, g, (i - begin) / g.group_width, (i - begin) % g.group_width), end - 1);
}

/* For an image with rows begin .. end - 1 and `window` as the index of its first window. Returns its number of windows. */
static int64_t fill_windows(const rvit_grid_layout_args *a, grid g, int64_t window, int64_t begin, int64_t end, int32_t *window_cu_seqlens)
{
    const int64_t w = a->window, down = (g.group_height + w - 1) / w, across = (g.group_width + w - 1) / w, n = down * across;
    for (int64_t i = 0; i < n && window + i <= a->max_windows; i++) {
        const int64_t group = group_at(a, g, i / across * w, i % across * w);
        window_cu_seqlens[window + i] = (int32_t)min(begin + group * a->merge * a->merge, end);
    }
    return n;
}

void rvit_cpu_grid_layout(rvit_cpu_device *device, const rvit_grid_layout_args *a)
{
    (void)device;
    const int32_t *live = rvit_cpu_at(a->live_images), *grids = rvit_cpu_at(a->grids);
    const int64_t n_images = live == NULL ? a->n_images : rvit_cpu_clamp(*live, 0, a->n_images), area = (int64_t)a->merge * a->merge;
    int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens), *patch_cu_seqlens = rvit_cpu_at(a->patch_cu_seqlens),
            *token_map = rvit_cpu_at(a->token_map);
    int32_t *group_cu_seqlens = rvit_cpu_at(a->group_cu_seqlens), *window_cu_seqlens = rvit_cpu_at(a->window_cu_seqlens),
            *group_rows = rvit_cpu_at(a->group_rows);
    int64_t row = 0, patch_row = 0, window = 0;
    for (int64_t i = 0; i <= a->n_images; i++) {
        cu_seqlens[i] = (int32_t)row;
        if (patch_cu_seqlens != NULL)
            patch_cu_seqlens[i] = (int32_t)patch_row;
        if (group_cu_seqlens != NULL)
            group_cu_seqlens[i] = (int32_t)(row / area);
        if (i >= n_images)
            continue;
        const grid g = grid_of(a, grids, i);
        const int64_t patches = g.height * g.width, tokens = patches == 0 ? 0 : a->n_prefix + patches;
        const int64_t end = rvit_cpu_clamp(row + rvit_cpu_clamp(tokens, 0, a->max_len), 0, a->rows);
        if (token_map != NULL)
            fill_token_map(a, g, i, patch_row, row, end, token_map);
        if (group_rows != NULL)
            fill_group_rows(a, g, row / area, end / area, group_rows);
        if (window_cu_seqlens != NULL)
            window += fill_windows(a, g, window, row, end, window_cu_seqlens);
        row = end;
        patch_row = rvit_cpu_clamp(patch_row + patches, 0, a->patch_rows);
    }
    for (; window_cu_seqlens != NULL && window <= a->max_windows; window++)
        window_cu_seqlens[window] = (int32_t)row;
}
