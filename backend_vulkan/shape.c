/* Tile sizes, as pure functions of the sizes that the host knows and of the device. They do not change results, except for rounding in
   attention, where they set the key blocks. */
#include "backend_vulkan/vulkan.h"

int rvit_vk_uses_subgroups(const rvit_vk_device *device)
{
    return device->base.info.tier >= RVIT_TIER_SUBGROUP;
}

int rvit_vk_uses_dot(const rvit_vk_device *device)
{
    return rvit_vk_uses_subgroups(device) && (device->enabled & RVIT_VK_DOT) != 0;
}

uint32_t rvit_vk_row_teams(const rvit_vk_device *device)
{
    const uint32_t lanes = device->physical.subgroup_size;
    return !rvit_vk_uses_subgroups(device) ? 4 : lanes < RVIT_MAX_THREADS ? RVIT_MAX_THREADS / lanes : 1;
}

/* Software devices fetch texels as whole vectors but other loads lane by lane: large register tiles fed from texel buffers are several
   times faster there than tiles staged in shared memory. The scalar tier always uses staged tiles. n: number of texels (four elements
   each). */
static int direct_fits(const rvit_vk_device *device, int64_t n)
{
    return device->base.info.is_software && rvit_vk_uses_subgroups(device) && n <= (int64_t)device->physical.limits.maxTexelBufferElements;
}

static int has_texels(rvit_view view)
{
    return view.buffer == NULL || (((const rvit_vk_buffer *)view.buffer)->usage & VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT) != 0;
}

/* Whether the device has matrices of this type. */
static int has_matrices(const rvit_vk_device *device, rvit_dtype dtype)
{
    const rvit_vk_matrix *matrix = &device->physical.matrix;
    return device->base.info.tier == RVIT_TIER_MATRIX &&
           (dtype == RVIT_F16 || (dtype == RVIT_BF16 && matrix->has_bf16) || (dtype == RVIT_I8 && matrix->i8_m != 0));
}

/* Whether the device can run a workgroup of the matrix tier with this size and this many bytes of shared memory. */
static int matrix_group_fits(const rvit_vk_device *device, uint32_t subgroups, uint32_t shared_size)
{
    const VkPhysicalDeviceLimits *limits = &device->physical.limits;
    const uint32_t threads = subgroups * device->physical.matrix.subgroup;
    return threads <= limits->maxComputeWorkGroupSize[0] && threads <= limits->maxComputeWorkGroupInvocations &&
           shared_size <= limits->maxComputeSharedMemorySize;
}

/* A tile of linear_matrix.comp. costs[i]: time of a multiprocessor that runs i + 1 workgroups concurrently, in tenths of a microsecond,
   measured on an H200 with 768 features; 0: the registers do not suffice for that many. Lists end with a tile of no subgroups. */
typedef struct matrix_tile {
    uint32_t subgroups_m, subgroups_n, rows, columns, tile_k; /* tile_k: for 16-bit types; 8-bit types have twice that */
    int64_t costs[4];
} matrix_tile;

static const matrix_tile half_tiles[] = {
    {3, 4, 4, 2, 64, {205}},
    {2, 4, 4, 2, 64, {150}},
    {2, 2, 4, 4, 64, {230, 255}},
    {2, 2, 4, 3, 64, {160, 195}},
    {2, 2, 3, 3, 64, {128, 155}},
    {2, 2, 3, 2, 64, {100, 140, 185}},
    {2, 2, 2, 2, 64, {75, 126, 150, 180}},
    {2, 4, 4, 2, 32, {195}},
    {2, 2, 2, 2, 32, {95, 160, 190, 230}},
    {2, 2, 1, 2, 128, {62, 95, 125}},
    {0},
};

/* Small ones were not measured: they are 0.65 of the costs above, as the others are. */
static const matrix_tile i8_tiles[] = {
    {3, 4, 4, 2, 64, {136}},
    {2, 4, 4, 2, 64, {100}},
    {2, 2, 4, 4, 64, {156, 172}},
    {2, 2, 4, 3, 64, {125, 137}},
    {2, 2, 3, 3, 64, {85, 109}},
    {2, 2, 3, 2, 64, {65, 91, 120}},
    {2, 2, 2, 2, 64, {49, 82, 93, 106}},
    {2, 4, 4, 2, 32, {127}},
    {2, 2, 2, 2, 32, {62, 104, 124, 150}},
    {2, 2, 1, 2, 128, {40, 62, 81}},
    {0},
};

/* Tiles of linear_direct_matrix.comp. Small ones prefetch further ahead, because few workgroups read weights from far memory and have
   the registers for it. Their costs are set so that DeiT-B with one image gets the tiles that were measured to be fastest. */
static const matrix_tile arranged_tiles[] = {
    {2, 2, 3, 4, 0, {128, 146}},       {2, 2, 3, 2, 0, {101, 117, 145}}, {2, 1, 2, 4, 0, {88, 92, 112, 124}},
    {2, 1, 1, 4, 0, {72, 84, 90, 93}}, {2, 2, 1, 2, 0, {62, 80, 110}},   {0},
};

/* The time of the busiest multiprocessor. */
static int64_t cost_of(const matrix_tile *tile, int64_t groups, uint32_t processors)
{
    const int64_t share = (groups + processors - 1) / processors;
    int64_t n = 4;
    while (tile->costs[n - 1] == 0)
        n--;
    return share / n * tile->costs[n - 1] + (share % n > 0 ? tile->costs[share % n - 1] : 0);
}

/* Larger tiles load less per GEMM; smaller ones leave fewer multiprocessors idle at the end. */
static int shape_linear_matrix(const rvit_vk_device *device, const rvit_linear_args *args, int arranged, rvit_vk_linear_shape *out_shape)
{
    const rvit_vk_matrix *matrix = &device->physical.matrix;
    const int is_i8 = args->dtype == RVIT_I8;
    const uint32_t m = is_i8 ? matrix->i8_m : matrix->m, n = is_i8 ? matrix->i8_n : matrix->n;
    if (!has_matrices(device, args->dtype) || args->in_features % 8 != 0 || args->out_features % 8 != 0)
        return 0;
    int64_t best_cost = INT64_MAX;
    for (const matrix_tile *tile = arranged ? arranged_tiles : is_i8 ? i8_tiles : half_tiles; tile->subgroups_m > 0; tile++) {
        if (arranged && args->gated && tile->columns < 4)
            continue;
        const uint32_t subgroups = tile->subgroups_m * tile->subgroups_n;
        const uint32_t tile_m = tile->subgroups_m * tile->rows * m, tile_n = tile->subgroups_n * tile->columns * n;
        const uint32_t tile_k = is_i8 ? tile->tile_k / matrix->k * matrix->i8_k : tile->tile_k; /* the same number of steps */
        const uint32_t units = is_i8 ? tile_k / 16 : tile_k / 8,
                       copies = is_i8 && matrix->i8_k < 16 ? 2 : 1; /* linear_matrix.comp: HALVES */
        const uint32_t staged = copies * (tile_m + tile_n) * (units + 1) * 16, sums = subgroups * m * (tile->columns * n + 4) * 4;
        if (!matrix_group_fits(device, subgroups, arranged ? 0 : (staged > sums ? staged : sums) + tile_n * 4))
            continue;
        const int64_t groups = (args->rows.capacity + tile_m - 1) / tile_m * ((rvit_linear_columns(args) + tile_n - 1) / tile_n);
        const int64_t cost = cost_of(tile, groups, matrix->processors);
        if (cost >= best_cost)
            continue;
        best_cost = cost;
        *out_shape = (rvit_vk_linear_shape){.matrix = 1,
                                            .direct_matrix = arranged,
                                            .small_m = arranged && args->rows.capacity < tile->rows * m,
                                            .tight = !arranged && tile->rows * tile->columns > 4,
                                            .threads = subgroups * matrix->subgroup,
                                            .rows = tile->rows,
                                            .columns = tile->columns,
                                            .tile_m = tile_m,
                                            .tile_n = tile_n,
                                            .tile_k = arranged ? (uint32_t)args->in_features : tile_k};
    }
    return best_cost < INT64_MAX;
}

rvit_vk_linear_shape rvit_vk_shape_linear(const rvit_vk_device *device, const rvit_linear_args *args, int arranged)
{
    rvit_vk_linear_shape matrix;
    if (shape_linear_matrix(device, args, arranged, &matrix))
        return matrix;
    const int64_t in4 = args->in_features / 4, columns = rvit_linear_columns(args);
    const uint32_t longer = args->dtype == RVIT_I8 ? 4 : 1; /* of TILE_K: as many bytes as f32 */
    if (args->dtype != RVIT_I8 && direct_fits(device, args->rows.capacity * in4) && direct_fits(device, columns * in4) &&
        has_texels(args->x) && has_texels(args->weight))
        return args->rows.capacity < 64
                   ? (rvit_vk_linear_shape){.direct = 1, .threads = 8, .rows = 8, .columns = 2, .tile_m = 8, .tile_n = 64}
                   : (rvit_vk_linear_shape){.direct = 1, .threads = 8, .rows = 16, .columns = 2, .tile_m = 16, .tile_n = 64};
    /* Small GEMMs need more workgroups than large tiles give. */
    const int64_t large_tiles = (args->rows.capacity + 63) / 64 * ((columns + 63) / 64);
    if (large_tiles >= 64)
        return (rvit_vk_linear_shape){.threads = 128, .rows = 8, .columns = 1, .tile_m = 64, .tile_n = 64, .tile_k = 16 * longer};
    return (rvit_vk_linear_shape){.threads = 64, .rows = 4, .columns = 1, .tile_m = 32, .tile_n = 32, .tile_k = 32 * longer};
}

/* Whether subgroups of attention_rows.comp take two matrices of queries. Keys and values are then read half as often, but only two, not
   three, workgroups run on a multiprocessor: small batches leave less idle with one matrix. Larger heads would not fit the registers. */
static int takes_two_rows(const rvit_vk_matrix *matrix, const rvit_attention_args *args)
{
    const int64_t queries = 4 * (int64_t)matrix->m,
                  groups = (int64_t)args->n_images * args->n_heads * ((args->max_len + queries - 1) / queries);
    return args->head_dim <= 64 && groups > 3 * (int64_t)matrix->processors;
}

/* Tiles of attention_matrix.comp and attention_rows.comp: up to 4 subgroups, as many as short images, shared memory and the workgroup
   size allow. The key blocks are always the same, so that the bits of an image do not depend on this. */
static int shape_attention_matrix(const rvit_vk_device *device, const rvit_attention_args *args, rvit_vk_attention_shape *out_shape)
{
    const rvit_vk_matrix *matrix = &device->physical.matrix;
    const uint32_t head_dim = (uint32_t)args->head_dim;
    const uint32_t keys = matrix->n >= 16 ? 2 * matrix->n : matrix->k > matrix->n ? matrix->k : matrix->n;
    const int rounds_itself = args->dtype == RVIT_BF16; /* through shared memory instead of f16 accumulators */
    if (!has_matrices(device, args->dtype) || (!rounds_itself && !matrix->has_half_sums) || head_dim % matrix->n != 0 ||
        head_dim % matrix->k != 0 || keys % matrix->k != 0 || args->q_stride % 8 != 0 || args->k_stride % 8 != 0 || args->v_stride % 8 != 0)
        return 0;
    const int in_rows = matrix->in_rows && matrix->has_narrow_sums && !rounds_itself;
    const uint32_t rows = in_rows && takes_two_rows(matrix, args) ? 2 : 1, m = rows * matrix->m;
    for (uint32_t subgroups = 4; subgroups > 0; subgroups--) {
        const uint32_t queries = subgroups * m, staged = queries > 4 * keys ? queries : 4 * keys;
        const uint32_t sums = m * (matrix->n / 4 + 1), weights = m * (keys / 8 + 1);
        const uint32_t own = in_rows ? 0 : rounds_itself ? sums + weights : sums > weights ? sums : weights;
        const uint32_t shared_size = staged * (head_dim + 8) * 2 + subgroups * own * 16 + queries * 4 + keys * 8 + 4;
        if ((subgroups > 1 && args->max_len <= (int32_t)(queries - m)) || !matrix_group_fits(device, subgroups, shared_size))
            continue;
        *out_shape = (rvit_vk_attention_shape){
            .matrix = 1, .in_rows = in_rows, .rows = rows, .threads = subgroups * matrix->subgroup, .queries = queries, .keys = keys};
        return 1;
    }
    return 0;
}

/* Bytes of shared memory that attention.comp uses. */
static uint32_t attention_shared(uint32_t d4, uint32_t units, const rvit_vk_attention_shape *shape)
{
    const uint32_t passed = shape->lines ? shape->columns : shape->keys;
    const uint32_t vectors = shape->queries * (d4 | 1) + 2 * shape->keys * (units | 1) + passed * (shape->queries / 4 | 1);
    return vectors * 16 + shape->keys * 4;
}

/* Tiles of attention.comp: the largest that fit into shared memory, with fewer queries for short images. Each line has four queries:
   with eight, fewer workgroups fit, and a single image leaves most of the device idle. The key blocks of an image must not depend on
   max_len, because its bits must not depend on the other images of its batch; only a block that holds the whole image may be shorter. */
static rvit_vk_attention_shape shape_attention_lines(const rvit_vk_device *device, const rvit_attention_args *args)
{
    static const struct {
        uint32_t queries, keys;
    } tiles[] = {{64, 40}, {32, 40}, {32, 24}, {32, 16}, {16, 16}, {8, 8}};
    enum { N = sizeof tiles / sizeof tiles[0], LINE_QUERIES = 4 };
    const uint32_t d4 = (uint32_t)args->head_dim / 4, units = rvit_vk_is_half(args->dtype) ? d4 / 2 : d4;
    const uint32_t columns = units <= 4 ? 4 : 8, len = args->max_len > 0 ? (uint32_t)args->max_len : 1;
    rvit_vk_attention_shape shape = {.lines = rvit_vk_uses_subgroups(device) && device->physical.subgroup_size >= columns,
                                     .columns = columns};
    for (int i = 0; i < N; i++) {
        shape.queries = tiles[i].queries;
        shape.keys = tiles[i].keys;
        if (attention_shared(d4, units, &shape) <= device->physical.limits.maxComputeSharedMemorySize)
            break;
    }
    while (shape.queries > tiles[N - 1].queries && len <= shape.queries / 2)
        shape.queries /= 2;
    if (len < shape.keys)
        shape.keys = (len + columns - 1) / columns * columns;
    shape.threads = shape.queries / LINE_QUERIES * columns;
    return shape;
}

rvit_vk_attention_shape rvit_vk_shape_attention(const rvit_vk_device *device, const rvit_attention_args *args)
{
    rvit_vk_attention_shape matrix;
    if (shape_attention_matrix(device, args, &matrix))
        return matrix;
    const int64_t widest = args->k_stride > args->v_stride ? args->k_stride : args->v_stride;
    const uint32_t lanes = device->physical.subgroup_size;
    if (direct_fits(device, args->rows * (widest > args->q_stride ? widest : args->q_stride) / 4) && lanes >= 4 && lanes <= 16 &&
        has_texels(args->q) && has_texels(args->k) && has_texels(args->v))
        return (rvit_vk_attention_shape){.direct = 1, .threads = lanes, .queries = 8, .keys = 4 * lanes};
    return shape_attention_lines(device, args);
}
