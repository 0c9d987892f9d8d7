/* Finds loops that a driver would cut short. Mesa's software driver silently ends every loop of a shader once an invocation has made
   65,535 iterations in all its loops together. This file computes an upper bound: every image has its maximum length, and one workgroup
   processes as many images as any may. Loops count as unrolled if they request it, or if they are short with a constant trip count; this
   driver treats the number of subgroups of a workgroup as such a constant. */
#include "backend_vulkan/vulkan.h"

#include <math.h>

#define MAX_ITERATIONS 65535.0
#define THREADS ((double)RVIT_MAX_THREADS)
#define DIGIT_SHARE 2.0 /* digit counters of kth.glsl per thread, of 256 */

/* Iterations of a loop over n items in steps, including the final test. */
static double steps(double n, double step)
{
    return ceil(n / step) + 1.0;
}

/* group_exclusive_add(): doubles distances, or uses subgroups. */
static double scan(const rvit_vk_device *device)
{
    return device->base.info.tier == RVIT_TIER_SCALAR ? 8.0 : 1.0;
}

/* find_kth(): four digits; items in global memory are read 16 at a time. */
static double kth(double n_items, int is_long, double scan_once)
{
    return 4.0 * (steps(256.0, THREADS) + steps(n_items, THREADS * (is_long ? 16.0 : 1.0)) + 2.0 * (DIGIT_SHARE + 1.0) + scan_once + 1.0);
}

static double match_partners(double n_items, double n_b, double group_size, double d4)
{
    return steps(n_items, THREADS) * (32.0 + steps(n_b, 8.0) * (1.0 + group_size * (2.0 + steps(8.0 * d4, THREADS) + d4) + 9.0));
}

static double match_image(const rvit_vk_device *device, const rvit_bipartite_match_args *a, double len)
{
    const double group_size = a->group_size, n = (len / group_size + 1.0) / 2.0, d4 = a->head_dim / 4, team = (a->head_dim / 4 + 7) / 8 + 1;
    const double blocks = steps(n, 1024.0), s = scan(device), words = steps(len / 4.0 + 1.0, THREADS);
    const int is_long = a->max_len > RVIT_NEAR_KEYS;
    double sum = words + steps(len, THREADS / 8.0) * (1.0 + team * (2.0 + a->n_heads) + 9.0 + team);
    sum += match_partners(n, n, group_size, d4) * (is_long && n > 1024.0 ? 2.0 : 1.0) + 2.0 * blocks;
    sum += kth(n, is_long, s) + steps(n, THREADS) * (1.0 + 2.0 * s);
    sum += steps(len, THREADS) + blocks + steps(n, THREADS) + steps(n, THREADS) * (n + 2.0 * blocks);
    return sum + 2.0 * steps(len, THREADS) + steps(n, THREADS) * (1.0 + s);
}

static double bipartite_match_loops(const rvit_vk_device *device, const rvit_bipartite_match_args *a)
{
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows);
    const double share = rvit_vk_bipartite_match_share(a);
    /* A thread counts the merges of its images window by window. */
    const double images = steps(a->n_images, THREADS) + 2.0 * share,
                 windows = a->window_cu_seqlens.buffer == NULL ? 0.0 : len / a->group_size + 32.0;
    return share * (1.0 + match_image(device, a, len)) + images * (1.0 + windows) + 4.0 * scan(device);
}

static double score_loops(const rvit_select_args *a, double len)
{
    switch (a->score) {
    case RVIT_SCORE_GIVEN:
        return 0.0;
    case RVIT_SCORE_CLS_ATTENTION:
    case RVIT_SCORE_POSITION:
        return steps(len, THREADS) * (1.0 + (1.0 + a->n_heads) * a->group_size);
    case RVIT_SCORE_L2:
        if (a->group_size > 1)
            return steps(len / a->group_size + 1.0, THREADS / 8.0) *
                   (1.0 + 2.0 * a->group_size + a->group_size * (steps(a->dim / 4, 96.0) + 5.0));
        /* fall through */
    default:
        return steps(len, THREADS / 8.0) * (1.0 + steps(a->dim / 4, 96.0) + 5.0 + a->n_heads);
    }
}

/* sample_items(), per block: its boundary, its collection, a bitonic sort (10 widths, 45 more distances), and one binary search for each
   rank of a thread plus one. */
static double sample_loops(const rvit_select_args *a, double len, int is_long, double scan_once)
{
    const double pass = 1.0 + (is_long ? steps(512.0, THREADS * 4.0) : steps(512.0, THREADS)), ranks = 1024.0 / THREADS;
    const double collect = steps(1024.0, THREADS) + steps(len, THREADS * 32.0) * (1.0 + scan_once);
    const double search = 2.0 + ceil(log2((double)a->n_samples + 1.0));
    const double block = 55.0 * pass + 10.0 + 2.0 * (ranks + 1.0) + (ranks + 1.0) * search + 1.0 + 2.0 * scan_once;
    return steps(len, 1024.0) + ceil(len / 1024.0) * (block + (is_long ? kth(len, 1, scan_once) + collect : ranks + 1.0));
}

static double select_image(const rvit_vk_device *device, const rvit_select_args *a, double len)
{
    const int is_long = a->max_len > RVIT_NEAR_KEYS;
    const double s = scan(device), words = steps(len / 4.0 + 1.0, THREADS), far = steps(len, THREADS * (is_long ? 16.0 : 1.0));
    if (a->mode == RVIT_SELECT_MASK)
        return words;
    double sum = score_loops(a, len) + steps(RVIT_NEAR_KEYS, THREADS) + far + words * (1.0 + s) + words;
    switch (a->mode) {
    case RVIT_SELECT_THRESHOLD:
        sum += steps(len, THREADS) + s;
        break;
    case RVIT_SELECT_MASS:
        sum += far + 2.0 * s + 18.0 + 4.0 * s;
        break;
    case RVIT_SELECT_SAMPLE:
        sum += far + 2.0 * s + sample_loops(a, len, is_long, s);
        break;
    default:
        break;
    }
    if (a->mode != RVIT_SELECT_SAMPLE)
        sum += kth(len, is_long, s);
    if (a->fuse_x.buffer != NULL)
        sum += steps(a->fuse_dim / 4, THREADS) * (words * (2.0 + s) + len);
    return sum;
}

/* lay_out(): run by one workgroup. Each thread processes an image or a segment of one. */
static double layout_loops(const rvit_vk_device *device, const rvit_select_args *a, double len)
{
    double segments = 1.0;
    while (segments * 2.0 * a->n_images <= THREADS && segments < THREADS)
        segments *= 2.0;
    const double words = ceil((len / 4.0 + 1.0) / segments);
    const double chunk = words / 4.0 + 2.0 + words + 2.0 + scan(device);
    return 8.0 + steps(a->n_images * segments, THREADS) * chunk;
}

static double select_loops(const rvit_vk_device *device, const rvit_select_args *a)
{
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows);
    const double max_groups = device->physical.limits.maxComputeWorkGroupCount[0];
    const double images = a->n_images <= max_groups ? 1.0 : steps(a->n_images, max_groups);
    return images * (1.0 + select_image(device, a, len)) + layout_loops(device, a, len) + 4.0 * scan(device);
}

static double attention_loops(const rvit_vk_device *device, const rvit_attention_args *a)
{
    const rvit_vk_attention_shape shape = rvit_vk_shape_attention(device, a);
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows), d4 = a->head_dim / 4, keys = shape.keys;
    const double loads = 2.0 * steps(keys * d4, shape.threads);
    const double block = 1.0 + loads + d4 + keys + 4.0 * (keys / 4.0 + 2.0) + 4.0 * steps(keys, shape.threads);
    return steps(a->n_images, 1.0e9) + 64.0 + steps(len, keys) * block + steps(shape.queries * d4, shape.threads);
}

static double attention_received_loops(const rvit_attention_received_args *a)
{
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows);
    return steps(len, RVIT_ATTENTION_RECEIVED_QUERIES) * (1.0 + steps(a->head_dim / 4, 8.0));
}

/* Table entries per axis that contribute to a line of a grid; with antialiasing the number depends on the grid. */
static double taps_of(const rvit_embed_args *a, double side)
{
    const int grows = a->resample == RVIT_RESAMPLE_TIMM || a->resample == RVIT_RESAMPLE_BILINEAR_ANTIALIAS;
    return grows || side < 4.0 ? side : 4.0;
}

static double embed_loops(const rvit_embed_args *a)
{
    const double columns = steps(a->dim / 4, THREADS);
    if (a->table.buffer == NULL)
        return columns;
    const double down = taps_of(a, a->table_height), across = taps_of(a, a->table_width);
    const double weights = steps(down, THREADS) * (2.0 + down) + steps(across, THREADS) * (2.0 + across);
    return weights + columns * (1.0 + down * (1.0 + across));
}

static double grid_layout_loops(const rvit_grid_layout_args *a)
{
    const double per_group = floor(a->n_images / (double)RVIT_GRID_LAYOUT_MAX_GROUPS) + 1.0;
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows),
                 tokens = a->token_map.buffer != NULL ? steps(len, THREADS) : 0.0;
    const double group_rows = a->group_rows.buffer != NULL ? steps(len / (a->merge * a->merge), THREADS) : 0.0;
    const double windows = a->window_cu_seqlens.buffer != NULL ? steps(a->max_windows + 1.0, THREADS) : 0.0;
    return steps(a->n_images, THREADS) + 9.0 + per_group * (1.0 + tokens + group_rows + windows);
}

static double pixelprune_loops(const rvit_pixelprune_args *a)
{
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows), area = a->merge * (double)a->merge;
    const double teams = THREADS / RVIT_PIXELPRUNE_TEAM, groups = ceil(len / area);
    const double group = 1.0 + area * (1.0 + steps(a->columns / 4, RVIT_PIXELPRUNE_TEAM)), prefix = steps(a->n_prefix, THREADS);
    if (!rvit_pixelprune_reconstructs(a))
        return prefix + (RVIT_PIXELPRUNE_TURNS + 1.0) * group;
    /* A line of patches has as many diagonals as merge groups. */
    return prefix + 2.0 * groups + (groups + steps(groups, teams)) * group;
}

static double pool_loops(const rvit_vk_device *device, const rvit_pool_args *a)
{
    const double len = a->mode == RVIT_POOL_FIRST ? 1.0 : (double)(a->max_len < a->rows ? a->max_len : a->rows);
    const double teams = rvit_vk_row_teams(device), lanes = THREADS / teams;
    double block = 1.0 + steps(RVIT_POOL_ROWS, THREADS / RVIT_POOL_PLAIN_COLUMNS);
    if (a->gamma.buffer != NULL)
        block = 1.0 + steps(RVIT_POOL_ROWS, 1.0) + steps(RVIT_POOL_ROWS, teams) * (1.0 + 2.0 * (steps(a->dim / 4, lanes) + 8.0));
    return steps(len, RVIT_POOL_ROWS) * block + THREADS / RVIT_POOL_PLAIN_COLUMNS;
}

static double attention_pool_loops(const rvit_vk_device *device, const rvit_attention_pool_args *a)
{
    const double len = (double)(a->max_len < a->rows ? a->max_len : a->rows);
    const double teams = rvit_vk_row_teams(device), lanes = THREADS / teams;
    const double projection = steps(a->head_dim, teams) * (1.0 + steps(RVIT_ATTENTION_POOL_COLUMNS, lanes) + 8.0);
    const double stretch = 1.0 + steps(len, THREADS / RVIT_ATTENTION_POOL_COLUMNS) + THREADS / RVIT_ATTENTION_POOL_COLUMNS + projection;
    return 3.0 * steps(len, THREADS) + 16.0 + steps(a->dim / 4, RVIT_ATTENTION_POOL_COLUMNS) * stretch + 2.0 * steps(a->head_dim, THREADS);
}

const char *rvit_vk_loops_fit(const rvit_vk_device *device, const rvit_op *op)
{
    if (device->physical.driver.id != VK_DRIVER_ID_MESA_LLVMPIPE)
        return NULL;
    double n = 0.0;
    if (op->type == RVIT_OP_BIPARTITE_MATCH)
        n = bipartite_match_loops(device, &op->bipartite_match);
    else if (op->type == RVIT_OP_SELECT)
        n = select_loops(device, &op->select);
    else if (op->type == RVIT_OP_ATTENTION)
        n = attention_loops(device, &op->attention);
    else if (op->type == RVIT_OP_ATTENTION_RECEIVED)
        n = attention_received_loops(&op->attention_received);
    else if (op->type == RVIT_OP_GRID_LAYOUT)
        n = grid_layout_loops(&op->grid_layout);
    else if (op->type == RVIT_OP_EMBED)
        n = embed_loops(&op->embed);
    else if (op->type == RVIT_OP_PIXELPRUNE)
        n = pixelprune_loops(&op->pixelprune);
    else if (op->type == RVIT_OP_POOL)
        n = pool_loops(device, &op->pool);
    else if (op->type == RVIT_OP_ATTENTION_POOL)
        n = attention_pool_loops(device, &op->attention_pool);
    return n <= MAX_ITERATIONS ? NULL : "this driver ends loops after 65,535 iterations in all, and images this long could need more";
}
