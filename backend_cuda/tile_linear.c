/* Launch shapes of the GEMMs, except the small-M GEMM (tile_small_m.c). */
#include "backend_cuda/divide.h"
#include "backend_cuda/tile.h"

typedef struct linear_shape {
    int32_t rows, columns, threads, shared, large_smem_shared, ctas, cost;
    int32_t is_nonpersistent; /* for small problems: all tiles run at once */
} linear_shape;

static const linear_shape shapes[] = {
#define SHAPE(name, rows, columns, warp_rows, warp_columns, depth, stages, large_smem_depth, large_smem_stages, ctas, chunk, cost) \
    [RVIT_CU_LINEAR_##name] = {rows,                                                                                               \
                               columns,                                                                                            \
                               RVIT_CU_LINEAR_THREADS(rows, columns, warp_rows, warp_columns),                                     \
                               (stages) * ((rows) + (columns)) * (depth)*2,                                                        \
                               (large_smem_stages) * ((rows) + (columns)) * (large_smem_depth)*2,                                  \
                               ctas,                                                                                               \
                               cost,                                                                                               \
                               0},
    RVIT_CU_LINEAR_SHAPES(SHAPE)
#undef SHAPE
#define NONPERSISTENT(name, rows, columns, warp_rows, warp_columns, stages, ctas, cost)               \
    [RVIT_CU_LINEAR_##name] = {rows,                                                                  \
                               columns,                                                               \
                               RVIT_CU_NONPERSISTENT_THREADS(rows, columns, warp_rows, warp_columns), \
                               (stages) * ((rows) + (columns)) * 128,                                 \
                               (stages) * ((rows) + (columns)) * 128,                                 \
                               ctas,                                                                  \
                               cost,                                                                  \
                               1},
        RVIT_CU_LINEAR_NONPERSISTENT(NONPERSISTENT)
#undef NONPERSISTENT
};

static const linear_shape shape_f32 = {64, 64, 256, 0, 0, RVIT_CU_CTAS_F32, 0, 0};
static const linear_shape shape_e4m3 = {64, 64, 128, 3 * 128 * 128, 3 * 128 * 128, RVIT_CU_CTAS_E4M3, 0, 0};

static int32_t shared_of(const rvit_cu_machine *machine, const linear_shape *s)
{
    return machine->sm_shared >= RVIT_CU_LARGE_SMEM ? s->large_smem_shared : s->shared;
}

/* CTAs per SM by registers and shared memory. The system reserves 1 KiB of shared memory per CTA. */
static int32_t residency(const rvit_cu_machine *machine, const linear_shape *s)
{
    const int32_t fit = machine->sm_shared / (shared_of(machine, s) + 1024);
    return fit < 1 ? 1 : smaller(fit, s->ctas);
}

static int64_t tiles_of(const linear_shape *s, int64_t rows, int32_t out_features)
{
    return divide_up(rows, s->rows) * divide_up(out_features, s->columns);
}

/* The time of the busiest SM, in fifths of a tile. A tile takes 5 on a shared SM; a last tile alone on its SM takes 6. */
static int64_t time_of(const rvit_cu_machine *machine, const linear_shape *s, int64_t tiles)
{
    const int64_t ctas = (int64_t)machine->n_sms * residency(machine, s), last = divide_up(tiles % ctas, machine->n_sms);
    const int64_t fifths = tiles / ctas * residency(machine, s) * 5 + (last == 1 ? 6 : last * 5);
    return fifths * s->rows * s->columns * s->cost;
}

/* The same for one tile per CTA. One tile on an SM takes 5 fifths, two take 9. INT64_MAX: the tiles do not fit the device at once. */
static int64_t time_of_nonpersistent(const rvit_cu_machine *machine, const linear_shape *s, int64_t tiles)
{
    const int64_t per_sm = divide_up(tiles, machine->n_sms);
    if (per_sm > residency(machine, s))
        return INT64_MAX;
    return (per_sm <= 1 ? 5 : per_sm * 9 / 2) * s->cost;
}

static rvit_cu_linear_shape choose_shape(const rvit_cu_machine *machine, int64_t rows, int32_t out_features)
{
    int best = RVIT_CU_LINEAR_64x64;
    int64_t best_time = INT64_MAX;
    for (int shape = 0; shape < RVIT_CU_N_LINEAR_SHAPES; shape++) {
        if (shape == RVIT_CU_LINEAR_general)
            continue;
        const linear_shape *s = &shapes[shape];
        const int64_t tiles = tiles_of(s, rows, out_features);
        const int64_t time = s->is_nonpersistent ? time_of_nonpersistent(machine, s, tiles) : time_of(machine, s, tiles);
        if (time < best_time) {
            best_time = time;
            best = shape;
        }
    }
    return (rvit_cu_linear_shape)best;
}

rvit_cu_linear_tile rvit_cu_tile_linear(const rvit_cu_machine *machine, int32_t element_size, int64_t rows, int32_t in_features,
                                        int32_t out_features, int32_t is_general)
{
    rvit_cu_linear_tile tile = {RVIT_CU_LINEAR_64x64, 0, 0, 0};
    const linear_shape *s = &shape_f32;
    if (element_size == 1) {
        tile.shape = is_general ? RVIT_CU_LINEAR_general : RVIT_CU_LINEAR_64x64;
        s = &shape_e4m3;
    } else if (element_size == 2) {
        tile.shape = in_features % 8 != 0 || is_general ? RVIT_CU_LINEAR_general : choose_shape(machine, rows, out_features);
        s = &shapes[tile.shape];
    }
    tile.threads = s->threads;
    tile.shared = shared_of(machine, s);
    const int64_t tiles = tiles_of(s, rows, out_features), max_ctas = (int64_t)machine->n_sms * residency(machine, s);
    tile.ctas = tiles < 1 ? 1 : smaller(tiles, max_ctas);
    return tile;
}

int32_t rvit_cu_tile_is_nonpersistent(rvit_cu_linear_shape shape)
{
    return shapes[shape].is_nonpersistent;
}

int32_t rvit_cu_tile_hopper(const rvit_cu_machine *machine, int64_t rows, int32_t out_features, int32_t out_size)
{
    enum { CLUSTER = RVIT_CU_HOPPER_CLUSTER };
    const int64_t halves = divide_up(rows, RVIT_CU_HOPPER_ROWS / 2 * CLUSTER) * divide_up(out_features, RVIT_CU_HOPPER_COLUMNS(out_size));
    const int32_t max_clusters = machine->n_sms / CLUSTER;
    return smaller(halves < 1 ? 1 : halves, max_clusters < 1 ? 1 : max_clusters) * CLUSTER;
}
