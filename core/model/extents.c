/* Infers the extents of a model's parts from the shapes of its tensors. */
#include "core/model/shapes.h"

#include <inttypes.h>

#include "core/base/status.h"

enum { MAX_EXTENT = 1 << 20, MAX_CHANNELS = 64, MAX_PATCH = 256, MAX_IMAGE = 1 << 14, MAX_REGISTERS = 256, MAX_FRAMES = 16 };

/* The value that two of three agree on, otherwise the first known one, so that an error names the misshaped tensor. */
static int64_t majority(int64_t a, int64_t b, int64_t c)
{
    if (a >= 0 && (a == b || a == c))
        return a;
    if (b >= 0 && b == c)
        return b;
    return a >= 0 ? a : b >= 0 ? b : c;
}

static rvit_status set_extent(rvit_geometry *g, rvit_extent which, int64_t value, int64_t max, const char *what, rvit_role role)
{
    char name[RVIT_NAME_SIZE];
    rvit_family_name(g->family, role, 0, name);
    if (value < 1)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': cannot infer the %s from its shape", g->path, name, what);
    if (value > max)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: tensor '%s': the %s %" PRId64 " is above %" PRId64, g->path, name, what, value, max);
    g->extents[which] = value;
    return RVIT_OK;
}

static rvit_status infer_width(rvit_geometry *g)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *patch = rvit_geometry_find(g, RVIT_ROLE_PATCH_WEIGHT, 0, name);
    const int64_t dim = majority(rvit_geometry_vote(g, RVIT_ROLE_PATCH_BIAS, 1, 0), patch->rank > 0 ? patch->shape[0] : -1,
                                 rvit_geometry_vote(g, RVIT_ROLE_NORM_GAMMA, 1, 0));
    RVIT_TRY(set_extent(g, RVIT_EXTENT_DIM, dim, MAX_EXTENT, "width", RVIT_ROLE_PATCH_WEIGHT));
    g->extents[RVIT_EXTENT_DIM2] = 2 * dim;
    g->extents[RVIT_EXTENT_DIM3] = 3 * dim;
    g->extents[RVIT_EXTENT_HALF_DIM] = dim / 2;
    g->extents[RVIT_EXTENT_QUARTER_DIM] = dim / 4;
    return RVIT_OK;
}

static rvit_status infer_patch(rvit_geometry *g)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *tensor = rvit_geometry_find(g, RVIT_ROLE_PATCH_WEIGHT, 0, name);
    int64_t channels = 3, patch = -1, frames = 1;
    if (g->has[RVIT_PART_MERGER]) {
        if (tensor->rank == 5 && tensor->shape[3] == tensor->shape[4]) {
            channels = tensor->shape[1];
            frames = tensor->shape[2];
            patch = tensor->shape[3];
        }
    } else if (tensor->rank == 4 && tensor->shape[2] == tensor->shape[3]) {
        channels = tensor->shape[1];
        patch = tensor->shape[2];
    } else if (tensor->rank == 2 && tensor->shape[1] % 3 == 0) {
        const int64_t root = rvit_integer_root(tensor->shape[1] / 3);
        patch = root * root * 3 == tensor->shape[1] ? root : -1;
    }
    if (patch < 1) {
        char shape[RVIT_SHOWN_SHAPE];
        rvit_format_shape(shape, tensor->rank, tensor->shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape [%" PRId64 ", channels,%s patch, patch], found %s", g->path,
                         name, g->extents[RVIT_EXTENT_DIM], g->has[RVIT_PART_MERGER] ? " frames," : "", shape);
    }
    RVIT_TRY(set_extent(g, RVIT_EXTENT_CHANNELS, channels, MAX_CHANNELS, "number of channels", RVIT_ROLE_PATCH_WEIGHT));
    RVIT_TRY(set_extent(g, RVIT_EXTENT_FRAMES, frames, MAX_FRAMES, "number of frames of a patch", RVIT_ROLE_PATCH_WEIGHT));
    RVIT_TRY(set_extent(g, RVIT_EXTENT_PATCH, patch, MAX_PATCH, "patch size", RVIT_ROLE_PATCH_WEIGHT));
    g->extents[RVIT_EXTENT_PATCH_VALUES] = channels * patch * patch;
    return RVIT_OK;
}

/* The position table has a row for every patch, and for all prefix tokens, for none, or for all but registers. */
static rvit_status infer_grid(rvit_geometry *g, int32_t n_prefix)
{
    char name[RVIT_NAME_SIZE];
    const int64_t rows = rvit_geometry_positions(g), n_registers = g->extents[RVIT_EXTENT_REGISTERS];
    rvit_family_name(g->family, RVIT_ROLE_POSITION, 0, name);
    RVIT_TRY(set_extent(g, RVIT_EXTENT_POSITIONS, rows, MAX_EXTENT, "number of positions", RVIT_ROLE_POSITION));
    int64_t choices[2] = {n_prefix, n_prefix};
    if (rvit_geometry_flag(g, RVIT_FAMILY_GRID)) {
        choices[0] = choices[1] = 0;
        g->extents[RVIT_EXTENT_GRID] = rvit_integer_root(rows);
    } else if (rvit_geometry_flag(g, RVIT_FAMILY_FREE_REGISTERS))
        choices[0] = choices[1] = n_prefix - n_registers;
    else if (!rvit_geometry_flag(g, RVIT_FAMILY_HF))
        choices[n_registers == 0] = 0;
    for (int i = 0; i < 2; i++)
        g->choices[i] = choices[i];
    for (int i = 0; i < 2; i++) {
        const int64_t patches = rows - choices[i], grid = patches > 0 ? rvit_integer_root(patches) : 0;
        if (grid < 1 || grid * grid != patches)
            continue;
        if (grid * g->extents[RVIT_EXTENT_PATCH] > MAX_IMAGE)
            return rvit_fail(RVIT_UNSUPPORTED, "%s: the image size %" PRId64 " is above %d", g->path, grid * g->extents[RVIT_EXTENT_PATCH],
                             MAX_IMAGE);
        g->position_prefix = choices[i];
        g->grid = grid;
        return RVIT_OK;
    }
    return RVIT_OK; /* rvit_describe handles images that are not square */
}

static rvit_status infer_mlp(rvit_geometry *g)
{
    const int64_t rows = rvit_geometry_vote(g, RVIT_ROLE_FC1_WEIGHT, 2, 0), bias = rvit_geometry_vote(g, RVIT_ROLE_FC1_BIAS, 1, 0);
    const int64_t parts = g->packed ? 2 : 1;
    const int64_t mlp =
        majority(rows < 0 ? rows : rows / parts, bias < 0 ? bias : bias / parts, rvit_geometry_vote(g, RVIT_ROLE_FC2_WEIGHT, 2, 1));
    RVIT_TRY(set_extent(g, RVIT_EXTENT_MLP, mlp, MAX_EXTENT, "width of the MLP", RVIT_ROLE_FC1_WEIGHT));
    g->extents[RVIT_EXTENT_FC1_ROWS] = parts * mlp;
    if (!g->has[RVIT_PART_MAP] || g->family->names[RVIT_ROLE_MAP_FC1_WEIGHT] == NULL)
        return RVIT_OK;
    const int64_t pooling =
        majority(rvit_geometry_vote(g, RVIT_ROLE_MAP_FC1_WEIGHT, 2, 0), rvit_geometry_vote(g, RVIT_ROLE_MAP_FC1_BIAS, 1, 0),
                 rvit_geometry_vote(g, RVIT_ROLE_MAP_FC2_WEIGHT, 2, 1));
    return set_extent(g, RVIT_EXTENT_MAP_MLP, pooling, MAX_EXTENT, "width of the pooling's MLP", RVIT_ROLE_MAP_FC1_WEIGHT);
}

static rvit_status infer_merger(rvit_geometry *g)
{
    if (!g->has[RVIT_PART_MERGER])
        return RVIT_OK;
    const int64_t group =
        majority(rvit_geometry_vote(g, RVIT_ROLE_MERGER_FC1_WEIGHT, 2, 0), rvit_geometry_vote(g, RVIT_ROLE_MERGER_FC1_BIAS, 1, 0),
                 rvit_geometry_vote(g, RVIT_ROLE_MERGER_FC2_WEIGHT, 2, 1));
    const int64_t merged =
        majority(rvit_geometry_vote(g, RVIT_ROLE_MERGER_FC2_WEIGHT, 2, 0), rvit_geometry_vote(g, RVIT_ROLE_MERGER_FC2_BIAS, 1, 0), -1);
    RVIT_TRY(set_extent(g, RVIT_EXTENT_GROUP, group, MAX_EXTENT, "width of a merge group", RVIT_ROLE_MERGER_FC1_WEIGHT));
    return set_extent(g, RVIT_EXTENT_MERGED, merged, MAX_EXTENT, "width of merged rows", RVIT_ROLE_MERGER_FC2_WEIGHT);
}

rvit_status rvit_geometry_infer(rvit_geometry *g)
{
    g->extents[RVIT_EXTENT_ONE] = 1;
    g->extents[RVIT_EXTENT_TWO] = 2;
    RVIT_TRY(infer_width(g));
    RVIT_TRY(infer_patch(g));
    if (g->has[RVIT_PART_REGISTER_TOKENS])
        RVIT_TRY(set_extent(g, RVIT_EXTENT_REGISTERS, rvit_geometry_vote(g, RVIT_ROLE_REGISTERS, 3, 1), MAX_REGISTERS,
                            "number of register tokens", RVIT_ROLE_REGISTERS));
    if (g->has[RVIT_PART_POSITION_TABLE])
        RVIT_TRY(infer_grid(g, g->has[RVIT_PART_CLS_TOKEN] + g->has[RVIT_PART_DIST_TOKEN] + (int32_t)g->extents[RVIT_EXTENT_REGISTERS]));
    RVIT_TRY(infer_mlp(g));
    RVIT_TRY(infer_merger(g));
    if (!g->has[RVIT_PART_HEAD])
        return RVIT_OK;
    const int32_t transposed = rvit_geometry_flag(g, RVIT_FAMILY_HEAD_TRANSPOSED);
    g->extents[RVIT_EXTENT_HEAD_IN] = g->extents[RVIT_EXTENT_DIM];
    if (rvit_geometry_vote(g, RVIT_ROLE_HEAD_WEIGHT, 2, !transposed) == 2 * g->extents[RVIT_EXTENT_DIM] &&
        rvit_geometry_flag(g, RVIT_FAMILY_WIDE_HEAD))
        g->extents[RVIT_EXTENT_HEAD_IN] = 2 * g->extents[RVIT_EXTENT_DIM];
    const int64_t classes =
        majority(rvit_geometry_vote(g, RVIT_ROLE_HEAD_WEIGHT, 2, transposed), rvit_geometry_vote(g, RVIT_ROLE_HEAD_BIAS, 1, 0),
                 rvit_geometry_vote(g, RVIT_ROLE_HEAD_DIST_WEIGHT, 2, 0));
    return set_extent(g, RVIT_EXTENT_CLASSES, classes, MAX_EXTENT, "number of classes", RVIT_ROLE_HEAD_WEIGHT);
}
