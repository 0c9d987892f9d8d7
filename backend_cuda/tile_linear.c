/* Launch shapes of the GEMMs, but for that for few rows (tile_few.c), and which of them runs. */
#include "backend_cuda/divide.h"
#include "backend_cuda/tile.h"

typedef struct linear_shape {
    int32_t rows, columns, threads, shared, roomy_shared, ctas, cost;
    int32_t is_single; /* for few rows, all of whose tiles are made at once */
} linear_shape;

static const linear_shape shapes[] = {
#define SHAPE(name, rows, columns, warp_rows, warp_columns, depth, stages, roomy_depth, roomy_stages, ctas, chunk, cost) \
    [RVIT_CU_LINEAR_##name] = {rows,                                                                                     \
                               columns,                                                                                  \
                               RVIT_CU_LINEAR_THREADS(rows, columns, warp_rows, warp_columns),                           \
                               (stages) * ((rows) + (columns)) * (depth)*2,                                              \
                               (roomy_stages) * ((rows) + (columns)) * (roomy_depth)*2,                                  \
                               ctas,                                                                                     \
                               cost,                                                                                     \
                               0},
    RVIT_CU_LINEAR_SHAPES(SHAPE)
#undef SHAPE
#define SINGLE(name, rows, columns, warp_rows, warp_columns, stages, ctas, cost)               \
    [RVIT_CU_LINEAR_##name] = {rows,                                                           \
                               columns,                                                        \
                               RVIT_CU_SINGLE_THREADS(rows, columns, warp_rows, warp_columns), \
                               (stages) * ((rows) + (columns)) * 128,                          \
                               (stages) * ((rows) + (columns)) * 128,                          \
                               ctas,                                                           \
                               cost,                                                           \
                               1},
        RVIT_CU_LINEAR_SINGLES(SINGLE)
#undef SINGLE
};

static const linear_shape shape_f32 = {64, 64, 256, 0, 0, RVIT_CU_CTAS_F32, 0, 0};
static const linear_shape shape_e4m3 = {64, 64, 128, 3 * 128 * 128, 3 * 128 * 128, RVIT_CU_CTAS_E4M3, 0, 0};

static int32_t shared_of(const rvit_cu_machine *machine, const linear_shape *s)
{
    return machine->sm_shared >= RVIT_CU_ROOMY ? s->roomy_shared : s->shared;
}

/* CTAs on an SM: the fewer of what registers and shared memory have room for. The system takes 1 KiB
   of each CTA. */
static int32_t residency(const rvit_cu_machine *machine, const linear_shape *s)
{
    const int32_t fit = machine->sm_shared / (shared_of(machine, s) + 1024);
    return fit < 1 ? 1 : least(fit, s->ctas);
}

static int64_t tiles_of(const linear_shape *s, int64_t rows, int32_t out_features)
{
    return divide_up(rows, s->rows) * divide_up(out_features, s->columns);
}

/* The time of the busiest SM, in fifths of a tile. A tile that shares its SM takes 5, a last tile that
   is alone on its SM 6. */
static int64_t time_of(const rvit_cu_machine *machine, const linear_shape *s, int64_t tiles)
{
    const int64_t ctas = (int64_t)machine->n_sms * residency(machine, s), last = divide_up(tiles % ctas, machine->n_sms);
    const int64_t fifths = tiles / ctas * residency(machine, s) * 5 + (last == 1 ? 6 : last * 5);
    return fifths * s->rows * s->columns * s->cost;
}

/* The same for a shape of one tile a CTA. One tile on an SM takes 5 fifths, two take 9. INT64_MAX: the
   tiles do not fit the device at once. */
static int64_t time_of_single(const rvit_cu_machine *machine, const linear_shape *s, int64_t tiles)
{
    const int64_t most = divide_up(tiles, machine->n_sms);
    if (most > residency(machine, s))
        return INT64_MAX;
    return (most <= 1 ? 5 : most * 9 / 2) * s->cost;
}

static rvit_cu_linear_shape choose_shape(const rvit_cu_machine *machine, int64_t rows, int32_t out_features)
{
    int best = RVIT_CU_LINEAR_64x64;
    int64_t least_time = INT64_MAX;
    for (int shape = 0; shape < RVIT_CU_N_LINEAR_SHAPES; shape++) {
        if (shape == RVIT_CU_LINEAR_odd)
            continue;
        const linear_shape *s = &shapes[shape];
        const int64_t tiles = tiles_of(s, rows, out_features);
        const int64_t time = s->is_single ? time_of_single(machine, s, tiles) : time_of(machine, s, tiles);
        if (time < least_time) {
            least_time = time;
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
        tile.shape = is_general ? RVIT_CU_LINEAR_odd : RVIT_CU_LINEAR_64x64;
        s = &shape_e4m3;
    } else if (element_size == 2) {
        tile.shape = in_features % 8 != 0 || is_general ? RVIT_CU_LINEAR_odd : choose_shape(machine, rows, out_features);
        s = &shapes[tile.shape];
    }
    tile.threads = s->threads;
    tile.shared = shared_of(machine, s);
    const int64_t tiles = tiles_of(s, rows, out_features), most = (int64_t)machine->n_sms * residency(machine, s);
    tile.ctas = tiles < 1 ? 1 : least(tiles, most);
    return tile;
}

rvit_cu_gemm_kind rvit_cu_tile_kind(int32_t in_features, int32_t out_features, int32_t out_size, int32_t adds_pass)
{
    if (out_size == 4)
        return in_features > out_features ? RVIT_CU_GEMM_NARROWING : RVIT_CU_GEMM_WIDE;
    return adds_pass ? RVIT_CU_GEMM_ACTIVATED : RVIT_CU_GEMM_PLAIN;
}

/* The limits were measured on an H100 (bench/notes/cuda-hopper-products.md). Of few rounds of tiles the last is mostly idle, and cuBLASLt
   has tiles that fill it. */
int32_t rvit_cu_tile_takes_hopper(const rvit_cu_machine *machine, int32_t element_size, int64_t rows, int32_t in_features,
                                  int32_t out_features, int32_t out_size, int32_t adds_pass, int32_t for_lt)
{
    if (!machine->warpgroups || machine->hopper_macs == 0 || rows == 0)
        return 0;
    const int64_t tiles = divide_up(rows, RVIT_CU_HOPPER_ROWS) * divide_up(out_features, RVIT_CU_HOPPER_COLUMNS(out_size));
    const rvit_cu_gemm_kind kind = rvit_cu_tile_kind(in_features, out_features, out_size, adds_pass);
    if (element_size == 1)
        return !for_lt || ((machine->e4m3_kinds >> kind & 1) && tiles >= machine->e4m3_tiles);
    if (!for_lt)
        return (double)rows * in_features * out_features >= (double)machine->hopper_macs;
    return (adds_pass || machine->hopper_kinds >> kind & 1) && tiles >= 3 * (int64_t)machine->n_sms;
}

int32_t rvit_cu_tile_makes_spare_rows(const rvit_cu_machine *machine, int32_t element_size, int64_t rows, int32_t in_features,
                                      int32_t out_features, int32_t out_size)
{
    const int64_t tiles = divide_up(rows, RVIT_CU_HOPPER_ROWS) * divide_up(out_features, RVIT_CU_HOPPER_COLUMNS(out_size));
    const rvit_cu_gemm_kind kind = rvit_cu_tile_kind(in_features, out_features, out_size, 0);
    if (element_size == 1 && !machine->warpgroups) /* the backend's kernel is so slow that rows that are not there cost less */
        return 1;
    if (element_size == 1)
        return tiles * 100 <= (int64_t)machine->spare_e4m3_tiles[kind] * machine->n_sms;
    return element_size == 2 && kind == RVIT_CU_GEMM_NARROWING && tiles * 100 > (int64_t)machine->spare_tiles[0] * machine->n_sms &&
           tiles * 100 <= (int64_t)machine->spare_tiles[1] * machine->n_sms;
}

int32_t rvit_cu_tile_makes_bytes(const rvit_cu_machine *machine, int64_t rows, int32_t out_features)
{
    const int64_t tiles = divide_up(rows, RVIT_CU_HOPPER_ROWS) * divide_up(out_features, RVIT_CU_HOPPER_COLUMNS(1));
    return machine->warpgroups && machine->bytes_tiles > 0 && tiles >= machine->bytes_tiles;
}

int32_t rvit_cu_tile_hopper(const rvit_cu_machine *machine, int64_t rows, int32_t out_features, int32_t out_size)
{
    enum { CLUSTER = RVIT_CU_HOPPER_CLUSTER };
    const int64_t halves = divide_up(rows, RVIT_CU_HOPPER_ROWS / 2 * CLUSTER) * divide_up(out_features, RVIT_CU_HOPPER_COLUMNS(out_size));
    const int32_t most = machine->n_sms / CLUSTER;
    return least(halves < 1 ? 1 : halves, most < 1 ? 1 : most) * CLUSTER;
}

/* Whether the backend's kernel, launched early, is at least as fast as cuBLASLt. The limits were
   measured on an H200 in whole forwards (bench/notes/cuda-products.md). */
static int is_for_few(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features, int32_t out_size,
                      int32_t has_activation)
{
    const double most_macs = has_activation ? 5e8 : out_size == 4 ? 6e7 : 1.8e8;
    return machine->early && in_features % 8 == 0 && in_features <= 768 && (double)rows * in_features * out_features <= most_macs &&
           shapes[choose_shape(machine, rows, out_features)].is_single;
}

rvit_cu_gemm_path rvit_cu_tile_gemm(const rvit_cu_machine *machine, int32_t element_size, int64_t rows, int32_t in_features,
                                    int32_t out_features, int32_t out_size, int32_t adds_bias, int32_t has_activation)
{
    if (element_size == 2 && is_for_few(machine, rows, in_features, out_features, out_size, has_activation))
        return RVIT_CU_GEMM_OWN;
    if (adds_bias && !has_activation)
        return RVIT_CU_GEMM_LT;
    if (out_features * (int64_t)out_size % 16 != 0) /* the epilogue kernel takes 16 bytes of a row at a time */
        return RVIT_CU_GEMM_OWN;
    /* A float32 output loses no precision in the epilogue kernel. */
    const int is_large = machine->epilogue_macs > 0 && (double)rows * in_features * out_features >= machine->epilogue_macs;
    return is_large || out_size == 4 || element_size == 1 ? RVIT_CU_GEMM_LT_EPILOGUE : RVIT_CU_GEMM_OWN;
}
