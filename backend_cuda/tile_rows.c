/* Launch shapes of the ops on rows and images: layernorm, quantize, head, select, bipartite_match, preprocess. */
#include "backend_cuda/divide.h"
#include "backend_cuda/params.h"
#include "backend_cuda/tile.h"

int32_t rvit_cu_tile_ctas(const rvit_cu_machine *machine, int64_t items, int32_t per_cta, int32_t per_sm)
{
    const int64_t ctas = divide_up(items, per_cta), max_ctas = (int64_t)machine->n_sms * per_sm;
    return ctas < 1 ? 1 : smaller(ctas, max_ctas);
}

rvit_cu_quantize_tile rvit_cu_tile_quantize(const rvit_cu_machine *machine, int64_t rows, int32_t columns)
{
    const int64_t warps = divide_up(columns, 8 * RVIT_CU_QUANTIZE_CHUNKS * 32);
    rvit_cu_quantize_tile tile = {.threads = smaller(warps * 32, RVIT_CU_QUANTIZE_THREADS)};
    tile.held = warps * 32 <= RVIT_CU_QUANTIZE_THREADS;
    const int32_t per_sm = RVIT_CU_QUANTIZE_THREADS * RVIT_CU_CTAS_QUANTIZE / tile.threads;
    tile.ctas = rvit_cu_tile_ctas(machine, rows, 1, per_sm < 32 ? per_sm : 32);
    return tile;
}

/* Measured on an H100: bench/notes/image-input.md. The general resize relies on the L1 cache, which shares its memory with shared memory.
 */
rvit_cu_preprocess_tile rvit_cu_tile_preprocess(const rvit_cu_machine *machine, int64_t pixels, int64_t bytes)
{
    enum { WIDTH = RVIT_CU_PREPROCESS_WIDTH_BITS, BYTES_OF_PACKED = 256 };
    static const int32_t raw_sizes[] = {21760, 21760, 43520, 60000}; /* for tiles of 8, 16, 32, 64 rows */
    _Static_assert(1 << 6 == RVIT_CU_PREPROCESS_HEIGHT, "a tile may be higher");
    rvit_cu_preprocess_tile tile = {.slot_bits = WIDTH + 6};
    while (tile.slot_bits > WIDTH + 4 && pixels >> tile.slot_bits < 4 * (int64_t)machine->n_sms)
        tile.slot_bits--;
    if (pixels >> tile.slot_bits < machine->n_sms)
        tile.slot_bits--;
    if (bytes / BYTES_OF_PACKED > pixels && tile.slot_bits > WIDTH + 5) /* downscaled so much that it takes the general resize */
        tile.slot_bits = WIDTH + 5;
    const int32_t wanted = bytes / BYTES_OF_PACKED > pixels ? raw_sizes[0] : raw_sizes[tile.slot_bits - WIDTH - 3];
    const int32_t half = (machine->sm_shared / 2 - 1024 - RVIT_CU_PREPROCESS_SHARED) / 16 * 16; /* for two CTAs per SM, with 1 KiB of
                                                                                                   overhead each */
    tile.raw_size = half < raw_sizes[0] ? raw_sizes[0] : half < wanted ? half : wanted;
    return tile;
}

/* Prefetching, measured on an H200: bench/notes/cuda-forward.md. The weights of wider models take longer to load than a layernorm runs. */
#define PREFETCH_ELEMENTS (600 * 768)
#define PREFETCH_DIM 768

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
    /* A small batch gets smaller CTAs, so that it uses more SMs. */
    const int32_t warps = rows <= 4 * (int64_t)machine->n_sms ? 2 : 4;
    tile.threads = warps * 32;
    tile.ctas = rvit_cu_tile_ctas(machine, rows, warps, norms[tile.shape].ctas);
    /* More CTAs would delay the rows. */
    tile.prefetch_ctas = dim <= PREFETCH_DIM && rows * dim <= PREFETCH_ELEMENTS ? machine->n_sms / 4 : 0;
    return tile;
}

/* CTAs per image: enough for `per_sm` on every SM, if each warp gets a row. */
static int32_t parts_of(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t warps, int32_t per_sm)
{
    if (n_images < 1)
        return 1;
    const int64_t wanted = (int64_t)machine->n_sms * per_sm / n_images, max_parts = divide_up(len, warps);
    return wanted < 1 || max_parts < 1 ? 1 : smaller(wanted, max_parts);
}

rvit_cu_image_tile rvit_cu_tile_select(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t reads_rows)
{
    rvit_cu_image_tile tile = {0};
    tile.parts = reads_rows ? parts_of(machine, n_images, len, 8, 3) : 1;
    tile.threads = len <= 32 && !reads_rows ? 32 : len >= 256 || reads_rows ? 256 : (int32_t)divide_up(len, 32) * 32;
    return tile;
}

rvit_cu_image_tile rvit_cu_tile_bipartite_match(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t head_dim,
                                                int32_t group_size)
{
    rvit_cu_image_tile tile = {0};
    tile.threads = RVIT_CU_BIPARTITE_MATCH_THREADS;
    const int64_t groups = len / group_size, metrics = groups * (group_size * head_dim + 4) * 4,
                  room = machine->max_shared - RVIT_CU_BIPARTITE_MATCH_FIXED;
    tile.splits = metrics > room;
    tile.held_rows = tile.splits ? 0 : (int32_t)groups;
    tile.shared = RVIT_CU_BIPARTITE_MATCH_FIXED + (tile.splits ? RVIT_CU_BIPARTITE_MATCH_STAGED : (int32_t)metrics);
    tile.parts = tile.splits ? parts_of(machine, n_images, (int32_t)(groups + 1) / 2, RVIT_CU_BIPARTITE_MATCH_TILE, 1)
                             : parts_of(machine, n_images, len, RVIT_CU_BIPARTITE_MATCH_THREADS / 32, 1);
    return tile;
}

int32_t rvit_cu_tile_head(const rvit_cu_machine *machine, int64_t n_images, int32_t n_classes)
{
    const int64_t ctas = n_images * divide_up(n_classes, RVIT_CU_HEAD_WARPS);
    return n_images == 1 || ctas <= 2 * (int64_t)machine->n_sms ? 1 : RVIT_CU_HEAD_IMAGES;
}
