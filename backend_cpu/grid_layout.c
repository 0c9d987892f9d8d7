/* Grid layout: the rows of each image, from its grid. */
#include "backend_cpu/cpu.h"

typedef struct grid {
    int64_t height, width;
} grid;

/* Of image i, whatever the array holds. */
static grid grid_of(const rvit_grid_layout_args *a, const int32_t *grids, int64_t i)
{
    const int64_t height = rvit_cpu_clamp(grids[2 * i], 0, RVIT_CPU_MAX_SIDE),
                  width = rvit_cpu_clamp(grids[2 * i + 1], 0, RVIT_CPU_MAX_SIDE);
    return (grid){height - height % a->merge, width - width % a->merge};
}

static void fill_cells(const rvit_grid_layout_args *a, grid g, int64_t image, int64_t patch_row, int64_t begin, int64_t end, int32_t *cells)
{
    const int64_t m = a->merge;
    for (int64_t row = begin; row < end; row++) {
        const int64_t patch = row - begin - a->n_prefix;
        int32_t *cell = cells + 4 * row;
        cell[0] = (int32_t)(patch < 0 ? -1 - (row - begin) : patch_row + patch);
        cell[1] = (int32_t)image;
        cell[2] = 0;
        cell[3] = (int32_t)(g.height << 16 | g.width);
        if (patch >= 0) {
            const int64_t block = patch / (m * m), inner = patch % (m * m), blocks = g.width / m;
            cell[2] = (int32_t)((block / blocks * m + inner / m) << 16 | (block % blocks * m + inner % m));
        }
    }
}

void rvit_cpu_grid_layout(rvit_cpu_device *device, const rvit_grid_layout_args *a)
{
    (void)device;
    const int32_t *live = rvit_cpu_at(a->live_images), *grids = rvit_cpu_at(a->grids);
    const int64_t n_images = live == NULL ? a->n_images : rvit_cpu_clamp(*live, 0, a->n_images);
    int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens), *patch_cu_seqlens = rvit_cpu_at(a->patch_cu_seqlens), *cells = rvit_cpu_at(a->cells);
    int64_t row = 0, patch_row = 0;
    for (int64_t i = 0; i <= a->n_images; i++) {
        cu_seqlens[i] = (int32_t)row;
        if (patch_cu_seqlens != NULL)
            patch_cu_seqlens[i] = (int32_t)patch_row;
        if (i >= n_images)
            continue;
        const grid g = grid_of(a, grids, i);
        const int64_t patches = g.height * g.width, tokens = patches == 0 ? 0 : a->n_prefix + patches;
        const int64_t end = rvit_cpu_clamp(row + rvit_cpu_clamp(tokens, 0, a->max_len), 0, a->rows);
        if (cells != NULL)
            fill_cells(a, g, i, patch_row, row, end, cells);
        row = end;
        patch_row = rvit_cpu_clamp(patch_row + patches, 0, a->patch_rows);
    }
}
