#include "backend_cuda/tile.h"

#include "backend_cuda/params.h"

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int32_t least(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

typedef struct attention_shape {
    int32_t head_dim, warps, warp_rows, ctas, roomy_ctas, stages;
} attention_shape;

static const attention_shape attention_shapes[] = {
#define SHAPE(name, dim, row_tiles, warps, ctas, roomy_ctas, extras) \
    [RVIT_CU_ATTENTION_##name] = {dim, warps, 16 * (row_tiles), ctas, roomy_ctas, RVIT_CU_STAGES_D##dim},
    RVIT_CU_ATTENTION_SHAPES(SHAPE)
#undef SHAPE
};

static rvit_cu_attention_tile tile_f32(int32_t head_dim, int32_t len)
{
    rvit_cu_attention_tile tile = {0};
    tile.threads = 128;
    tile.row_blocks = (int32_t)divide_up(len, 32);
    tile.shared = (3 * 32 * (head_dim + 4) + 32 * 36) * 4;
    return tile;
}

/* Bytes of the ring. It has no more stages than the longest image fills. */
static int32_t ring_of(const attention_shape *s, int32_t len)
{
    return least(s->stages, divide_up(len, 2 * RVIT_CU_ATTENTION_KEYS)) * 4 * RVIT_CU_ATTENTION_KEYS * RVIT_CU_ATTENTION_PITCH(s->head_dim);
}

/* Waves of CTAs that the rows of all heads take. */
static int64_t waves(const rvit_cu_machine *machine, const attention_shape *s, int64_t heads, int32_t len)
{
    const int32_t fit = machine->sm_shared / (ring_of(s, len) + 1024);
    const int32_t most = machine->sm_shared >= RVIT_CU_ROOMY ? s->roomy_ctas : s->ctas;
    return divide_up(heads * divide_up(len, s->warps * s->warp_rows), (int64_t)machine->n_sms * (fit < 1 ? 1 : least(fit, most)));
}

/* Where most images are short and shorter than the longest may be, tall tiles have too many idle rows. */
static int are_short(const rvit_cu_attention_size *size, int32_t len)
{
    return 5 * size->rows < 4 * size->n_images * len && size->rows < 192 * size->n_images;
}

/* Whether the tall kernel takes less time. Warps of 32 rows read keys and values half as often, but a
   CTA takes 1.3 to 1.4 times as long (measured on an H200). */
static int is_tall(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    const int64_t heads = size->n_images * size->n_heads;
    return !are_short(size, len) && 13 * waves(machine, &attention_shapes[RVIT_CU_ATTENTION_d64_tall], heads, len) <
                                        10 * waves(machine, &attention_shapes[RVIT_CU_ATTENTION_d64], heads, len);
}

/* Warps of a CTA of the short kernels: 2, or 3 where that balances the SMs better; 0: another kernel
   serves. The short kernels are for short images, so few that all warps of 8 rows run at once. The
   limits are those of an H200: beyond them, loading keys and values for each warp takes longer. */
static int32_t short_warps(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    const int64_t heads = size->n_images * size->n_heads, tiles = divide_up(len, RVIT_CU_SHORT_ROWS);
    if (size->extras || len > 48 || heads * tiles > (int64_t)machine->n_sms * (len <= 32 ? 6 : 3))
        return 0;
    return tiles % 3 == 0 && heads * divide_up(tiles, 2) > machine->n_sms ? RVIT_CU_SHORT_WARPS : 2;
}

/* For heads of 33 to 64 channels, and images that the short kernels do not take. */
static rvit_cu_attention_shape shape_d64(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    /* Few rows; or few tiles, where more CTAs save more than shared copies of keys and values do. */
    if (len <= 32 || size->n_images * size->n_heads * divide_up(len, 32) <= machine->n_sms)
        return size->extras ? RVIT_CU_ATTENTION_d64_extras_2_warps : RVIT_CU_ATTENTION_d64_2_warps;
    if (len <= 48)
        return size->extras ? RVIT_CU_ATTENTION_d64_extras_3_warps : RVIT_CU_ATTENTION_d64_3_warps;
    if (size->extras)
        return RVIT_CU_ATTENTION_d64_extras;
    return is_tall(machine, size, len) ? RVIT_CU_ATTENTION_d64_tall : RVIT_CU_ATTENTION_d64;
}

/* CTAs of the busiest SM. */
static int64_t turns(const rvit_cu_machine *machine, rvit_cu_attention_shape shape, const rvit_cu_attention_size *size, int32_t len)
{
    const attention_shape *s = &attention_shapes[shape];
    return divide_up(size->n_images * size->n_heads * divide_up(len, s->warps * s->warp_rows), machine->n_sms);
}

/* For heads of 65 to 80 channels. As many rows fit an SM in tall CTAs as in others; a tall one takes 1.8 times as long (measured on an
   H200), which pays unless there are too few for every SM. */
static rvit_cu_attention_shape shape_d80(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    if (size->extras)
        return RVIT_CU_ATTENTION_d80;
    const int is_faster =
        18 * turns(machine, RVIT_CU_ATTENTION_d80_tall, size, len) < 10 * turns(machine, RVIT_CU_ATTENTION_d80_lean, size, len);
    return is_faster && !are_short(size, len) ? RVIT_CU_ATTENTION_d80_tall : RVIT_CU_ATTENTION_d80_lean;
}

rvit_cu_attention_tile rvit_cu_tile_attention(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const rvit_cu_attention_shape by_head_dim[] = {RVIT_CU_ATTENTION_d32, RVIT_CU_ATTENTION_d64, RVIT_CU_ATTENTION_d80,
                                                          RVIT_CU_ATTENTION_d96, RVIT_CU_ATTENTION_d128};
    const int32_t len = size->len < 1 ? 1 : size->len;
    if (size->element_size == 4)
        return tile_f32(size->head_dim, len);
    rvit_cu_attention_tile tile = {0};
    int i = 0;
    while (attention_shapes[by_head_dim[i]].head_dim < size->head_dim)
        i++;
    tile.shape = by_head_dim[i];
    const int32_t n_short_warps = tile.shape == RVIT_CU_ATTENTION_d64 ? short_warps(machine, size, len) : 0;
    if (n_short_warps > 0) {
        tile.shape = len <= 32 ? RVIT_CU_ATTENTION_d64_short_32 : RVIT_CU_ATTENTION_d64_short_48;
        tile.threads = n_short_warps * 32;
        tile.row_blocks = (int32_t)divide_up(len, n_short_warps * RVIT_CU_SHORT_ROWS);
        return tile;
    }
    if (tile.shape == RVIT_CU_ATTENTION_d64)
        tile.shape = shape_d64(machine, size, len);
    else if (tile.shape == RVIT_CU_ATTENTION_d80)
        tile.shape = shape_d80(machine, size, len);
    const attention_shape *s = &attention_shapes[tile.shape];
    tile.threads = s->warps * 32;
    tile.row_blocks = (int32_t)divide_up(len, s->warps * s->warp_rows);
    tile.shared = ring_of(s, len);
    return tile;
}

/* Where each tile of 64 rows has an SM for itself, keys are divided too. */
static rvit_cu_attention_long_tile tile_split(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t head_dim;
        rvit_cu_attention_long_tile tile;
    } of[] = {
#define SPLIT(name, dim, stages) \
    {dim, {.shape = RVIT_CU_ATTENTION_##name, .threads = RVIT_CU_SPLIT_THREADS, .shared = 1024 + 2 * RVIT_CU_SPLIT_PART(dim, stages)}},
        RVIT_CU_ATTENTION_SPLITS(SPLIT)
#undef SPLIT
    };
    const int64_t row_blocks = divide_up(size->len, 64);
    rvit_cu_attention_long_tile tile = {.shape = RVIT_CU_N_ATTENTION_LONGS};
    if (!size->fixed_images || size->len < RVIT_CU_LONG_ROWS || size->head_dim <= 32 ||
        size->n_images * size->n_heads * row_blocks > machine->n_sms)
        return tile;
    for (int i = 0; i < (int)(sizeof of / sizeof of[0]) && tile.shape == RVIT_CU_N_ATTENTION_LONGS; i++)
        if (size->head_dim <= of[i].head_dim)
            tile = of[i].tile;
    tile.row_blocks = (int32_t)row_blocks;
    return tile;
}

rvit_cu_attention_long_tile rvit_cu_tile_attention_long(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t head_dim, least_dim, rows, least_len;
        rvit_cu_attention_long_tile tile;
    } of[] = {
#define SHAPE(name, dim, groups, in_place, block, stages, tall_block, tall_stages) \
    {dim,                                                                          \
     (dim) == 128  ? 97                                                            \
     : (dim) == 80 ? 65                                                            \
                   : 33,                                                           \
     (groups)*64,                                                                  \
     (block) == (tall_block) ? RVIT_CU_LONG_ROWS : RVIT_CU_TALL_ROWS(dim),         \
     {.shape = RVIT_CU_ATTENTION_##name,                                           \
      .stays = in_place,                                                           \
      .threads = RVIT_CU_LONG_THREADS(groups, in_place),                           \
      .shared = RVIT_CU_LONG_SHARED(dim, groups, block, stages, tall_block)}},
        RVIT_CU_ATTENTION_LONGS(SHAPE)
#undef SHAPE
    };
    if (!machine->warpgroups || size->element_size != 2 || size->extras)
        return (rvit_cu_attention_long_tile){.shape = RVIT_CU_N_ATTENTION_LONGS};
    const rvit_cu_attention_long_tile split = tile_split(machine, size);
    if (split.shape != RVIT_CU_N_ATTENTION_LONGS)
        return split;
    for (int i = 0; i < (int)(sizeof of / sizeof of[0]); i++)
        if (size->len >= of[i].least_len && size->head_dim >= of[i].least_dim && size->head_dim <= of[i].head_dim) {
            rvit_cu_attention_long_tile tile = of[i].tile;
            tile.row_blocks = (int32_t)divide_up(size->len, of[i].rows);
            return tile;
        }
    return (rvit_cu_attention_long_tile){.shape = RVIT_CU_N_ATTENTION_LONGS};
}

typedef struct backward_shape {
    int32_t head_dim, row_tiles, stage_rows, warps, extras;
} backward_shape;

static const backward_shape backward_shapes[] = {
#define SHAPE(name, dim, row_tiles, rows, threads, ctas, extras) [RVIT_CU_BACKWARD_##name] = {dim, row_tiles, rows, (threads) / 32, extras},
    RVIT_CU_BACKWARD_SHAPES(SHAPE)
#undef SHAPE
};

/* Warps that share the tasks evenly: as few as take no more turns than `most` do. */
static int32_t share_tasks(int32_t tasks, int32_t most)
{
    return (int32_t)divide_up(tasks, divide_up(tasks, most));
}

/* Bytes of a head of an image: 4 arrays, a pair of numbers for each query, a number for each key. */
static int64_t held_shared(const backward_shape *s, int64_t rows)
{
    return rows * (4 * RVIT_CU_ATTENTION_PITCH(s->head_dim) + 12);
}

static rvit_cu_backward_tile tile_shape(const rvit_cu_machine *machine, rvit_cu_backward_shape shape, const rvit_cu_attention_size *size,
                                        int32_t len)
{
    const backward_shape *s = &backward_shapes[shape];
    const int32_t tile_rows = 16 * s->row_tiles, tiles = (int32_t)divide_up(len, tile_rows);
    rvit_cu_backward_tile tile = {.shape = shape};
    if (s->stage_rows > 0) {
        const int32_t warps = share_tasks(tiles, s->warps);
        tile.threads = warps * 32;
        tile.row_blocks = (int32_t)divide_up(tiles, warps);
        tile.shared = 2 * s->stage_rows * (2 * RVIT_CU_ATTENTION_PITCH(s->head_dim) + 8);
    } else {
        tile.held_rows = (int32_t)divide_up(len, 16) * 16;
        tile.shared = (int32_t)held_shared(s, tile.held_rows);
        /* With half the warps two CTAs fit an SM, if their memory does. */
        const int64_t heads = (int64_t)size->n_images * size->n_heads;
        const int fits_twice = 2 * ((int64_t)tile.shared + 1024) <= machine->sm_shared && heads > machine->n_sms;
        tile.threads = share_tasks(2 * tiles, fits_twice ? s->warps / 2 : s->warps) * 32;
    }
    return tile;
}

static int is_held(const rvit_cu_machine *machine, rvit_cu_backward_shape shape, int32_t len)
{
    const backward_shape *s = &backward_shapes[shape];
    return held_shared(s, divide_up(len, 16) * 16) <= machine->max_shared;
}

/* Tall tiles read the other rows half as often, but need more rows of their own. */
static rvit_cu_backward_shape choose_backward(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    if (size->head_dim <= 32)
        return is_held(machine, RVIT_CU_BACKWARD_d32_held, len) ? RVIT_CU_BACKWARD_d32_held : RVIT_CU_BACKWARD_d32;
    if (size->head_dim > 64)
        return RVIT_CU_BACKWARD_d128;
    const int held = is_held(machine, RVIT_CU_BACKWARD_d64_held, len);
    if (size->extras)
        return held ? RVIT_CU_BACKWARD_d64_held : RVIT_CU_BACKWARD_d64;
    if (len <= 64)
        return RVIT_CU_BACKWARD_d64_held_lean;
    if (!held)
        return RVIT_CU_BACKWARD_d64_tall;
    /* Few heads fill the device better in small parts. */
    if (len > 96 && 2 * (int64_t)size->n_images * size->n_heads <= machine->n_sms)
        return RVIT_CU_BACKWARD_d64_lean;
    return len > 160 ? RVIT_CU_BACKWARD_d64_held_tall : RVIT_CU_BACKWARD_d64_held_lean;
}

rvit_cu_backward_tile rvit_cu_tile_backward(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    const int32_t len = size->len < 1 ? 1 : size->len;
    rvit_cu_backward_tile tile = {.threads = 128};
    if (size->element_size != 4)
        return tile_shape(machine, choose_backward(machine, size, len), size, len);
    tile.row_blocks = (int32_t)divide_up(len, 32);
    tile.shared = (4 * 32 * (size->head_dim + 4) + 2 * 32 * 36) * 4;
    return tile;
}

rvit_cu_received_tile rvit_cu_tile_received(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t head_dim, tile_rows, stage_rows, warps;
    } of[] = {
#define SHAPE(name, dim, row_tiles, rows, threads, ctas) [RVIT_CU_RECEIVED_##name] = {dim, 16 * (row_tiles), rows, (threads) / 32},
        RVIT_CU_RECEIVED_SHAPES(SHAPE)
#undef SHAPE
    };
    const int32_t len = size->len < 1 ? 1 : size->len;
    if (size->element_size == 4)
        return (rvit_cu_received_tile){
            .threads = 128, .row_blocks = (int32_t)divide_up(len, 32), .shared = 2 * 32 * (size->head_dim + 4) * 4};
    rvit_cu_received_tile tile = {0};
    while (of[tile.shape].head_dim < size->head_dim)
        tile.shape++;
    const int32_t tiles = (int32_t)divide_up(len, of[tile.shape].tile_rows);
    int32_t warps = share_tasks(tiles, of[tile.shape].warps);
    /* Few heads fill the device better in small parts. */
    while (warps > 1 && size->n_images * size->n_heads * divide_up(tiles, warps) * 2 <= machine->n_sms)
        warps = (int32_t)divide_up(warps, 2);
    tile.threads = warps * 32;
    tile.row_blocks = (int32_t)divide_up(tiles, warps);
    tile.shared = 2 * of[tile.shape].stage_rows * (RVIT_CU_ATTENTION_PITCH(of[tile.shape].head_dim) + 4);
    return tile;
}

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

int32_t rvit_cu_tile_ctas(const rvit_cu_machine *machine, int64_t items, int32_t per_cta, int32_t per_sm)
{
    const int64_t ctas = divide_up(items, per_cta), most = (int64_t)machine->n_sms * per_sm;
    return ctas < 1 ? 1 : least(ctas, most);
}

rvit_cu_quantize_tile rvit_cu_tile_quantize(const rvit_cu_machine *machine, int64_t rows, int32_t columns)
{
    const int64_t warps = divide_up(columns, 8 * RVIT_CU_QUANTIZE_CHUNKS * 32);
    rvit_cu_quantize_tile tile = {.threads = least(warps * 32, RVIT_CU_QUANTIZE_THREADS)};
    tile.held = warps * 32 <= RVIT_CU_QUANTIZE_THREADS;
    const int32_t per_sm = RVIT_CU_QUANTIZE_THREADS * RVIT_CU_CTAS_QUANTIZE / tile.threads;
    tile.ctas = rvit_cu_tile_ctas(machine, rows, 1, per_sm < 32 ? per_sm : 32);
    return tile;
}

/* Measured on an H100: bench/notes/pictures.md. The general way lives on the L1 cache, which shared memory takes its room from. */
rvit_cu_picture_tile rvit_cu_tile_picture(const rvit_cu_machine *machine, int64_t pixels, int64_t bytes)
{
    enum { WIDTH = RVIT_CU_PREPROCESS_WIDTH_BITS, BYTES_OF_PACKED = 256 };
    static const int32_t raw_sizes[] = {21760, 21760, 43520, 60000}; /* of tiles of 8, 16, 32, 64 rows */
    _Static_assert(1 << 6 == RVIT_CU_PREPROCESS_HEIGHT, "a tile may be higher");
    rvit_cu_picture_tile tile = {.slot_bits = WIDTH + 6};
    while (tile.slot_bits > WIDTH + 4 && pixels >> tile.slot_bits < 4 * (int64_t)machine->n_sms)
        tile.slot_bits--;
    if (pixels >> tile.slot_bits < machine->n_sms)
        tile.slot_bits--;
    if (bytes / BYTES_OF_PACKED > pixels && tile.slot_bits > WIDTH + 5) /* shrunk so much that it goes the general way */
        tile.slot_bits = WIDTH + 5;
    const int32_t wanted = bytes / BYTES_OF_PACKED > pixels ? raw_sizes[0] : raw_sizes[tile.slot_bits - WIDTH - 3];
    const int32_t half = (machine->sm_shared / 2 - 1024 - RVIT_CU_PREPROCESS_SHARED) / 16 * 16; /* of two CTAs; each costs 1 KiB more */
    tile.raw_size = half < raw_sizes[0] ? raw_sizes[0] : half < wanted ? half : wanted;
    return tile;
}

/* Measured on the H200: bench/notes/cuda-forward.md. Weights of wider models take longer to come than a layernorm lasts. */
#define AHEAD_ELEMENTS (600 * 768)
#define AHEAD_DIM 768

rvit_cu_norm_tile rvit_cu_tile_layernorm(const rvit_cu_machine *machine, int64_t rows, int32_t dim)
{
    static const struct norm_shape {
        int32_t dim, ctas;
    } norms[] = {
#define SHAPE(dim, ctas) [RVIT_CU_NORM_##dim] = {dim, ctas},
        RVIT_CU_NORM_SHAPES(SHAPE)
#undef SHAPE
            [RVIT_CU_NORM_any] = {INT32_MAX, RVIT_CU_CTAS_NORM_ANY},
    };
    rvit_cu_norm_tile tile = {0};
    while (norms[tile.shape].dim < dim)
        tile.shape++;
    /* Small CTAs spread a small batch over the device. */
    const int32_t warps = rows <= 4 * (int64_t)machine->n_sms ? 2 : 4;
    tile.threads = warps * 32;
    tile.ctas = rvit_cu_tile_ctas(machine, rows, warps, norms[tile.shape].ctas);
    /* More of them keep the rows waiting. */
    tile.ahead_ctas = dim <= AHEAD_DIM && rows * dim <= AHEAD_ELEMENTS ? machine->n_sms / 4 : 0;
    return tile;
}

/* CTAs that share an image: as many as give every SM `per_sm`, if each has work for all its warps, a row each. */
static int32_t parts_of(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t warps, int32_t per_sm)
{
    if (n_images < 1)
        return 1;
    const int64_t wanted = (int64_t)machine->n_sms * per_sm / n_images, most = divide_up(len, warps);
    return wanted < 1 || most < 1 ? 1 : least(wanted, most);
}

rvit_cu_image_tile rvit_cu_tile_select(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t reads_rows)
{
    rvit_cu_image_tile tile = {0};
    tile.parts = reads_rows ? parts_of(machine, n_images, len, 8, 3) : 1;
    tile.threads = len <= 32 && !reads_rows ? 32 : len >= 256 || reads_rows ? 256 : (int32_t)divide_up(len, 32) * 32;
    return tile;
}

rvit_cu_image_tile rvit_cu_tile_match(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t head_dim, int32_t unit)
{
    rvit_cu_image_tile tile = {0};
    tile.threads = RVIT_CU_MATCH_THREADS;
    const int64_t units = len / unit, metrics = units * (unit * head_dim + 4) * 4, room = machine->max_shared - RVIT_CU_MATCH_FIXED;
    tile.splits = metrics > room;
    tile.held_rows = tile.splits ? 0 : (int32_t)units;
    tile.shared = RVIT_CU_MATCH_FIXED + (tile.splits ? RVIT_CU_MATCH_STAGED : (int32_t)metrics);
    tile.parts = tile.splits ? parts_of(machine, n_images, (int32_t)(units + 1) / 2, RVIT_CU_MATCH_TILE, 1)
                             : parts_of(machine, n_images, len, RVIT_CU_MATCH_THREADS / 32, 1);
    return tile;
}

int32_t rvit_cu_tile_head(const rvit_cu_machine *machine, int64_t n_images, int32_t n_classes)
{
    const int64_t ctas = n_images * divide_up(n_classes, RVIT_CU_HEAD_WARPS);
    return n_images == 1 || ctas <= 2 * (int64_t)machine->n_sms ? 1 : RVIT_CU_HEAD_IMAGES;
}
