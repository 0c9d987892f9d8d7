/* Launch shapes of attention, its gradient and received attention. */
#include "backend_cuda/divide.h"
#include "backend_cuda/tile.h"

typedef struct attention_shape {
    int32_t head_dim, warps, warp_rows, ctas, large_smem_ctas, stages;
} attention_shape;

static const attention_shape attention_shapes[] = {
#define SHAPE(name, dim, row_tiles, warps, ctas, large_smem_ctas, bias_stats) \
    [RVIT_CU_ATTENTION_##name] = {dim, warps, 16 * (row_tiles), ctas, large_smem_ctas, RVIT_CU_STAGES_D##dim},
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

/* Bytes of the pipeline. It has no more stages than the longest image fills. */
static int32_t ring_of(const attention_shape *s, int32_t len)
{
    return smaller(s->stages, divide_up(len, 2 * RVIT_CU_ATTENTION_KEYS)) * 4 * RVIT_CU_ATTENTION_KEYS *
           RVIT_CU_ATTENTION_PITCH(s->head_dim);
}

/* Waves of CTAs for the rows of all heads. */
static int64_t waves(const rvit_cu_machine *machine, const attention_shape *s, int64_t heads, int32_t len)
{
    const int32_t fit = machine->sm_shared / (ring_of(s, len) + 1024);
    const int32_t max_ctas = machine->sm_shared >= RVIT_CU_LARGE_SMEM ? s->large_smem_ctas : s->ctas;
    return divide_up(heads * divide_up(len, s->warps * s->warp_rows), (int64_t)machine->n_sms * (fit < 1 ? 1 : smaller(fit, max_ctas)));
}

/* If most images are much shorter than the longest, tiles with 32 rows per warp would have too many idle rows. */
static int are_mostly_short(const rvit_cu_attention_size *size, int32_t len)
{
    return 5 * size->rows < 4 * size->n_images * len && size->rows < 192 * size->n_images;
}

/* Whether 32 rows per warp are faster. They read keys and values half as often, but a CTA takes 1.3 to 1.4 times as long (measured on an
   H200). */
static int prefers_32_rows(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    const int64_t heads = size->n_images * size->n_heads;
    return !are_mostly_short(size, len) && 13 * waves(machine, &attention_shapes[RVIT_CU_ATTENTION_d64_32_rows], heads, len) <
                                               10 * waves(machine, &attention_shapes[RVIT_CU_ATTENTION_d64], heads, len);
}

/* Warps per CTA of the direct kernels: 2, or 3 if that balances the SMs better; 0: another kernel runs. The direct kernels are for so
   few short images that all warps of 8 rows run at once. Beyond these limits, loading keys and values once per warp takes longer
   (measured on an H200). */
static int32_t direct_warps(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    const int64_t heads = size->n_images * size->n_heads, tiles = divide_up(len, RVIT_CU_DIRECT_ROWS);
    if (size->bias_stats || len > 48 || heads * tiles > (int64_t)machine->n_sms * (len <= 32 ? 6 : 3))
        return 0;
    return tiles % 3 == 0 && heads * divide_up(tiles, 2) > machine->n_sms ? RVIT_CU_DIRECT_WARPS : 2;
}

/* For heads of 33 to 64 channels that no direct kernel runs. */
static rvit_cu_attention_shape shape_d64(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    /* With few rows or few tiles, more CTAs save more than sharing keys and values. */
    if (len <= 32 || size->n_images * size->n_heads * divide_up(len, 32) <= machine->n_sms)
        return size->bias_stats ? RVIT_CU_ATTENTION_d64_bias_stats_2_warps : RVIT_CU_ATTENTION_d64_2_warps;
    if (len <= 48)
        return size->bias_stats ? RVIT_CU_ATTENTION_d64_bias_stats_3_warps : RVIT_CU_ATTENTION_d64_3_warps;
    if (size->bias_stats)
        return RVIT_CU_ATTENTION_d64_bias_stats;
    return prefers_32_rows(machine, size, len) ? RVIT_CU_ATTENTION_d64_32_rows : RVIT_CU_ATTENTION_d64;
}

/* CTAs of the busiest SM. */
static int64_t rounds(const rvit_cu_machine *machine, rvit_cu_attention_shape shape, const rvit_cu_attention_size *size, int32_t len)
{
    const attention_shape *s = &attention_shapes[shape];
    return divide_up(size->n_images * size->n_heads * divide_up(len, s->warps * s->warp_rows), machine->n_sms);
}

/* For heads of 65 to 80 channels. An SM fits as many rows with 32 rows per warp as with 16; such a CTA takes 1.8 times as long (measured
   on an H200). That is worth it unless there are too few CTAs for every SM. */
static rvit_cu_attention_shape shape_d80(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    if (size->bias_stats)
        return RVIT_CU_ATTENTION_d80;
    const int is_faster =
        18 * rounds(machine, RVIT_CU_ATTENTION_d80_32_rows, size, len) < 10 * rounds(machine, RVIT_CU_ATTENTION_d80_plain, size, len);
    return is_faster && !are_mostly_short(size, len) ? RVIT_CU_ATTENTION_d80_32_rows : RVIT_CU_ATTENTION_d80_plain;
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
    const int32_t n_direct_warps = tile.shape == RVIT_CU_ATTENTION_d64 ? direct_warps(machine, size, len) : 0;
    if (n_direct_warps > 0) {
        tile.shape = len <= 32 ? RVIT_CU_ATTENTION_d64_direct_32 : RVIT_CU_ATTENTION_d64_direct_48;
        tile.threads = n_direct_warps * 32;
        tile.row_blocks = (int32_t)divide_up(len, n_direct_warps * RVIT_CU_DIRECT_ROWS);
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

/* If every tile of 64 rows gets its own SM, split the keys too. */
static rvit_cu_attention_hopper_tile tile_split(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t head_dim;
        rvit_cu_attention_hopper_tile tile;
    } of[] = {
#define SPLIT_KV(name, dim, stages) \
    {dim,                           \
     {.shape = RVIT_CU_ATTENTION_##name, .threads = RVIT_CU_SPLIT_KV_THREADS, .shared = 1024 + 2 * RVIT_CU_SPLIT_KV_HALF(dim, stages)}},
        RVIT_CU_ATTENTION_SPLIT_KV(SPLIT_KV)
#undef SPLIT_KV
    };
    const int64_t row_blocks = divide_up(size->len, 64);
    rvit_cu_attention_hopper_tile tile = {.shape = RVIT_CU_N_ATTENTION_HOPPER};
    if (!size->fixed_images || size->len < RVIT_CU_ATTENTION_HOPPER_MIN_ROWS || size->head_dim <= 32 ||
        size->n_images * size->n_heads * row_blocks > machine->n_sms)
        return tile;
    for (int i = 0; i < (int)(sizeof of / sizeof of[0]) && tile.shape == RVIT_CU_N_ATTENTION_HOPPER; i++)
        if (size->head_dim <= of[i].head_dim)
            tile = of[i].tile;
    tile.row_blocks = (int32_t)row_blocks;
    return tile;
}

rvit_cu_attention_hopper_tile rvit_cu_tile_attention_hopper(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t head_dim, min_dim, rows, min_len;
        rvit_cu_attention_hopper_tile tile;
    } of[] = {
#define SHAPE(name, dim, groups, is_persistent, block, stages, large_block, large_stages)                        \
    {dim,                                                                                                        \
     (dim) == 128  ? 97                                                                                          \
     : (dim) == 80 ? 65                                                                                          \
                   : 33,                                                                                         \
     (groups)*64,                                                                                                \
     (block) == (large_block) ? RVIT_CU_ATTENTION_HOPPER_MIN_ROWS : RVIT_CU_ATTENTION_LARGE_BLOCK_MIN_ROWS(dim), \
     {.shape = RVIT_CU_ATTENTION_##name,                                                                         \
      .persistent = is_persistent,                                                                               \
      .threads = RVIT_CU_ATTENTION_HOPPER_THREADS(groups, is_persistent),                                        \
      .shared = RVIT_CU_ATTENTION_HOPPER_SHARED(dim, groups, block, stages, large_block)}},
        RVIT_CU_ATTENTION_HOPPER(SHAPE)
#undef SHAPE
    };
    if (!machine->wgmma || size->element_size != 2 || size->bias_stats)
        return (rvit_cu_attention_hopper_tile){.shape = RVIT_CU_N_ATTENTION_HOPPER};
    const rvit_cu_attention_hopper_tile split = tile_split(machine, size);
    if (split.shape != RVIT_CU_N_ATTENTION_HOPPER)
        return split;
    for (int i = 0; i < (int)(sizeof of / sizeof of[0]); i++)
        if (size->len >= of[i].min_len && size->head_dim >= of[i].min_dim && size->head_dim <= of[i].head_dim) {
            rvit_cu_attention_hopper_tile tile = of[i].tile;
            tile.row_blocks = (int32_t)divide_up(size->len, of[i].rows);
            return tile;
        }
    return (rvit_cu_attention_hopper_tile){.shape = RVIT_CU_N_ATTENTION_HOPPER};
}

typedef struct backward_shape {
    int32_t head_dim, row_tiles, stage_rows, warps, bias_stats;
} backward_shape;

static const backward_shape backward_shapes[] = {
#define SHAPE(name, dim, row_tiles, rows, threads, ctas, bias_stats) \
    [RVIT_CU_BACKWARD_##name] = {dim, row_tiles, rows, (threads) / 32, bias_stats},
    RVIT_CU_BACKWARD_SHAPES(SHAPE)
#undef SHAPE
};

/* Balances tasks over warps: the fewest warps that take no more rounds than `max_warps` warps would. */
static int32_t share_tasks(int32_t tasks, int32_t max_warps)
{
    return (int32_t)divide_up(tasks, divide_up(tasks, max_warps));
}

/* Bytes of one head of an image: 4 arrays, two numbers per query, one number per key. */
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
        /* With half the warps, two CTAs fit an SM if their shared memory does. */
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

/* 32 rows per warp read the other rows half as often, but fill fewer warps. */
static rvit_cu_backward_shape choose_backward(const rvit_cu_machine *machine, const rvit_cu_attention_size *size, int32_t len)
{
    if (size->head_dim <= 32)
        return is_held(machine, RVIT_CU_BACKWARD_d32_held, len) ? RVIT_CU_BACKWARD_d32_held : RVIT_CU_BACKWARD_d32;
    if (size->head_dim > 64)
        return RVIT_CU_BACKWARD_d128;
    const int held = is_held(machine, RVIT_CU_BACKWARD_d64_held, len);
    if (size->bias_stats)
        return held ? RVIT_CU_BACKWARD_d64_held : RVIT_CU_BACKWARD_d64;
    if (len <= 64)
        return RVIT_CU_BACKWARD_d64_held_plain;
    if (!held)
        return RVIT_CU_BACKWARD_d64_32_rows;
    /* A few heads use the device better in smaller tiles. */
    if (len > 96 && 2 * (int64_t)size->n_images * size->n_heads <= machine->n_sms)
        return RVIT_CU_BACKWARD_d64_plain;
    return len > 160 ? RVIT_CU_BACKWARD_d64_held_32_rows : RVIT_CU_BACKWARD_d64_held_plain;
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

rvit_cu_attention_received_tile rvit_cu_tile_attention_received(const rvit_cu_machine *machine, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t head_dim, tile_rows, stage_rows, warps;
    } of[] = {
#define SHAPE(name, dim, row_tiles, rows, threads, ctas) \
    [RVIT_CU_ATTENTION_RECEIVED_##name] = {dim, 16 * (row_tiles), rows, (threads) / 32},
        RVIT_CU_ATTENTION_RECEIVED_SHAPES(SHAPE)
#undef SHAPE
    };
    const int32_t len = size->len < 1 ? 1 : size->len;
    if (size->element_size == 4)
        return (rvit_cu_attention_received_tile){
            .threads = 128, .row_blocks = (int32_t)divide_up(len, 32), .shared = 2 * 32 * (size->head_dim + 4) * 4};
    rvit_cu_attention_received_tile tile = {0};
    while (of[tile.shape].head_dim < size->head_dim)
        tile.shape++;
    const int32_t tiles = (int32_t)divide_up(len, of[tile.shape].tile_rows);
    int32_t warps = share_tasks(tiles, of[tile.shape].warps);
    /* A few heads use the device better in smaller tiles. */
    while (warps > 1 && size->n_images * size->n_heads * divide_up(tiles, warps) * 2 <= machine->n_sms)
        warps = (int32_t)divide_up(warps, 2);
    tile.threads = warps * 32;
    tile.row_blocks = (int32_t)divide_up(tiles, warps);
    tile.shared = 2 * of[tile.shape].stage_rows * (RVIT_CU_ATTENTION_PITCH(of[tile.shape].head_dim) + 4);
    return tile;
}
