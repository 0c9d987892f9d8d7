#include "core/model/shapes.h"

#include <math.h>

typedef struct role_shape {
    rvit_part part;
    int32_t rank;
    rvit_extent shape[RVIT_MAX_RANK];
} role_shape;

/* clang-format off */
#define OF1(part, a) {RVIT_PART_##part, 1, {RVIT_EXTENT_##a}}
#define OF2(part, a, b) {RVIT_PART_##part, 2, {RVIT_EXTENT_##a, RVIT_EXTENT_##b}}
#define OF3(part, a, b, c) {RVIT_PART_##part, 3, {RVIT_EXTENT_##a, RVIT_EXTENT_##b, RVIT_EXTENT_##c}}
#define OF4(part, a, b, c, d) {RVIT_PART_##part, 4, {RVIT_EXTENT_##a, RVIT_EXTENT_##b, RVIT_EXTENT_##c, RVIT_EXTENT_##d}}
#define SHAPE1(role, part, a) [RVIT_ROLE_##role] = OF1(part, a)
#define SHAPE2(role, part, a, b) [RVIT_ROLE_##role] = OF2(part, a, b)
#define SHAPE3(role, part, a, b, c) [RVIT_ROLE_##role] = OF3(part, a, b, c)
#define SHAPE4(role, part, a, b, c, d) [RVIT_ROLE_##role] = OF4(part, a, b, c, d)
/* clang-format on */

static const role_shape shapes[RVIT_ROLE_COUNT] = {
    SHAPE3(CLS, CLS_TOKEN, ONE, ONE, DIM),
    SHAPE3(DIST, DIST_TOKEN, ONE, ONE, DIM),
    SHAPE3(REGISTERS, REGISTER_TOKENS, ONE, REGISTERS, DIM),
    SHAPE3(POSITION, POSITION_TABLE, ONE, POSITIONS, DIM),
    SHAPE4(PATCH_WEIGHT, ALWAYS, DIM, CHANNELS, PATCH, PATCH),
    SHAPE1(PATCH_BIAS, PATCH_BIAS, DIM),
    SHAPE1(PATCH_NORM_GAMMA, PATCH_NORM, DIM),
    SHAPE1(PATCH_NORM_BETA, PATCH_NORM_BETA, DIM),
    SHAPE1(NORM_PRE_GAMMA, NORM_PRE, DIM),
    SHAPE1(NORM_PRE_BETA, NORM_PRE_BETA, DIM),
    SHAPE1(NORM_GAMMA, FINAL_NORM, DIM),
    SHAPE1(NORM_BETA, FINAL_NORM_BETA, DIM),
    SHAPE2(HEAD_WEIGHT, HEAD, CLASSES, HEAD_IN),
    SHAPE1(HEAD_BIAS, HEAD, CLASSES),
    SHAPE2(HEAD_DIST_WEIGHT, DIST_HEAD, CLASSES, DIM),
    SHAPE1(HEAD_DIST_BIAS, DIST_HEAD, CLASSES),
    SHAPE1(FC_NORM_GAMMA, FC_NORM, DIM),
    SHAPE1(FC_NORM_BETA, FC_NORM_BETA, DIM),
    SHAPE3(MAP_LATENT, MAP, ONE, ONE, DIM),
    SHAPE2(MAP_QKV_WEIGHT, MAP, DIM3, DIM),
    SHAPE1(MAP_QKV_BIAS, MAP, DIM3),
    SHAPE2(MAP_Q_WEIGHT, MAP, DIM, DIM),
    SHAPE1(MAP_Q_BIAS, MAP, DIM),
    SHAPE2(MAP_KV_WEIGHT, MAP, DIM2, DIM),
    SHAPE1(MAP_KV_BIAS, MAP, DIM2),
    SHAPE2(MAP_K_WEIGHT, MAP, DIM, DIM),
    SHAPE1(MAP_K_BIAS, MAP_KV_BIAS, DIM),
    SHAPE2(MAP_V_WEIGHT, MAP, DIM, DIM),
    SHAPE1(MAP_V_BIAS, MAP_KV_BIAS, DIM),
    SHAPE2(MAP_PROJ_WEIGHT, MAP, DIM, DIM),
    SHAPE1(MAP_PROJ_BIAS, MAP, DIM),
    SHAPE1(MAP_NORM_GAMMA, MAP, DIM),
    SHAPE1(MAP_NORM_BETA, MAP_NORM_BETA, DIM),
    SHAPE2(MAP_FC1_WEIGHT, MAP, MAP_MLP, DIM),
    SHAPE1(MAP_FC1_BIAS, MAP, MAP_MLP),
    SHAPE2(MAP_FC2_WEIGHT, MAP, DIM, MAP_MLP),
    SHAPE1(MAP_FC2_BIAS, MAP, DIM),
    SHAPE1(MERGER_NORM_GAMMA, MERGER, DIM),
    SHAPE1(MERGER_NORM_BETA, MERGER_NORM_BETA, DIM),
    SHAPE2(MERGER_FC1_WEIGHT, MERGER, UNIT, UNIT),
    SHAPE1(MERGER_FC1_BIAS, MERGER, UNIT),
    SHAPE2(MERGER_FC2_WEIGHT, MERGER, MERGED, UNIT),
    SHAPE1(MERGER_FC2_BIAS, MERGER, MERGED),

    SHAPE1(NORM1_GAMMA, ALWAYS, DIM),
    SHAPE1(NORM1_BETA, NORM_BETA, DIM),
    SHAPE2(QKV_WEIGHT, ALWAYS, DIM3, DIM),
    SHAPE1(QKV_BIAS, QKV_BIAS, DIM3),
    SHAPE2(Q_WEIGHT, ALWAYS, DIM, DIM),
    SHAPE1(Q_BIAS, QKV_BIAS, DIM),
    SHAPE2(K_WEIGHT, ALWAYS, DIM, DIM),
    SHAPE1(K_BIAS, QKV_BIAS, DIM),
    SHAPE2(V_WEIGHT, ALWAYS, DIM, DIM),
    SHAPE1(V_BIAS, QKV_BIAS, DIM),
    SHAPE1(ATTENTION_NORM_GAMMA, ATTENTION_NORM, DIM),
    SHAPE1(ATTENTION_NORM_BETA, ATTENTION_NORM_BETA, DIM),
    SHAPE2(PROJ_WEIGHT, ALWAYS, DIM, DIM),
    SHAPE1(PROJ_BIAS, PROJ_BIAS, DIM),
    SHAPE1(SCALE1, LAYER_SCALE, DIM),
    SHAPE1(NORM2_GAMMA, ALWAYS, DIM),
    SHAPE1(NORM2_BETA, NORM_BETA, DIM),
    SHAPE2(FC1_WEIGHT, ALWAYS, FC1_ROWS, DIM),
    SHAPE1(FC1_BIAS, MLP_BIAS, FC1_ROWS),
    SHAPE2(GATE_WEIGHT, ALWAYS, MLP, DIM),
    SHAPE1(GATE_BIAS, MLP_BIAS, MLP),
    SHAPE1(MLP_NORM_GAMMA, MLP_NORM, MLP),
    SHAPE1(MLP_NORM_BETA, MLP_NORM_BETA, MLP),
    SHAPE2(FC2_WEIGHT, ALWAYS, DIM, MLP),
    SHAPE1(FC2_BIAS, MLP_BIAS, DIM),
    SHAPE1(SCALE2, LAYER_SCALE, DIM),

    SHAPE1(DEEPSTACK_NORM_GAMMA, DEEPSTACK, UNIT),
    SHAPE1(DEEPSTACK_NORM_BETA, DEEPSTACK, UNIT),
    SHAPE2(DEEPSTACK_FC1_WEIGHT, DEEPSTACK, UNIT, UNIT),
    SHAPE1(DEEPSTACK_FC1_BIAS, DEEPSTACK, UNIT),
    SHAPE2(DEEPSTACK_FC2_WEIGHT, DEEPSTACK, MERGED, UNIT),
    SHAPE1(DEEPSTACK_FC2_BIAS, DEEPSTACK, MERGED),

    SHAPE1(PREDICTOR_NORM_GAMMA, ALWAYS, DIM),
    SHAPE1(PREDICTOR_NORM_BETA, ALWAYS, DIM),
    SHAPE2(PREDICTOR_IN_WEIGHT, ALWAYS, DIM, DIM),
    SHAPE1(PREDICTOR_IN_BIAS, ALWAYS, DIM),
    SHAPE2(PREDICTOR_OUT0_WEIGHT, ALWAYS, HALF_DIM, DIM),
    SHAPE1(PREDICTOR_OUT0_BIAS, ALWAYS, HALF_DIM),
    SHAPE2(PREDICTOR_OUT1_WEIGHT, ALWAYS, QUARTER_DIM, HALF_DIM),
    SHAPE1(PREDICTOR_OUT1_BIAS, ALWAYS, QUARTER_DIM),
    SHAPE2(PREDICTOR_KEEP_WEIGHT, ALWAYS, TWO, QUARTER_DIM),
    SHAPE1(PREDICTOR_KEEP_BIAS, ALWAYS, TWO),
};

/* The old form of the patch weight: the same values, flat. */
static const role_shape flat_patch_weight = OF2(ALWAYS, DIM, PATCH_VALUES);
/* That of a convolution over time too. */
static const role_shape deep_patch_weight = {
    RVIT_PART_ALWAYS, 5, {RVIT_EXTENT_DIM, RVIT_EXTENT_CHANNELS, RVIT_EXTENT_FRAMES, RVIT_EXTENT_PATCH, RVIT_EXTENT_PATCH}};
/* Of families that are RVIT_FAMILY_FLAT, RVIT_FAMILY_HEAD_TRANSPOSED. */
static const role_shape flat_cls = OF1(ALWAYS, DIM), flat_position = OF2(ALWAYS, POSITIONS, DIM);
/* Of families that are RVIT_FAMILY_GRID. */
static const role_shape grid_position = OF4(POSITION_TABLE, ONE, GRID, GRID, DIM);
static const role_shape transposed_head = OF2(HEAD, HEAD_IN, CLASSES);

enum {
    N_MODEL_ROLES = RVIT_FIRST_BLOCK_ROLE,
    N_BLOCK_ROLES = RVIT_FIRST_DEEPSTACK_ROLE - RVIT_FIRST_BLOCK_ROLE,
    N_DEEPSTACK_ROLES = RVIT_FIRST_PREDICTOR_ROLE - RVIT_FIRST_DEEPSTACK_ROLE,
};

const rvit_file_tensor *rvit_geometry_find(const rvit_geometry *g, rvit_role role, int32_t index, char name[RVIT_NAME_SIZE])
{
    name[0] = '\0';
    if (rvit_family_name(g->family, role, index, name) == NULL)
        return NULL;
    const int32_t found = rvit_tensor_set_find(g->set, name);
    return found < 0 ? NULL : rvit_tensor_set_tensor(g->set, found);
}

int rvit_geometry_has(const rvit_geometry *g, rvit_role role)
{
    char name[RVIT_NAME_SIZE];
    return rvit_geometry_find(g, role, 0, name) != NULL;
}

int rvit_geometry_in_blocks(const rvit_geometry *g, rvit_role role)
{
    char name[RVIT_NAME_SIZE];
    for (int32_t block = 0; g->family->names[role] != NULL && block < g->depth; block++)
        if (rvit_geometry_find(g, role, block, name) != NULL)
            return 1;
    return 0;
}

int rvit_geometry_flag(const rvit_geometry *g, int32_t flag)
{
    return (g->family->flags & flag) != 0;
}

int64_t rvit_geometry_vote(const rvit_geometry *g, rvit_role role, int32_t rank, int32_t axis)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *tensor = rvit_geometry_find(g, role, 0, name);
    return tensor != NULL && tensor->rank == rank ? tensor->shape[axis] : -1;
}

int64_t rvit_geometry_positions(const rvit_geometry *g)
{
    if (rvit_geometry_flag(g, RVIT_FAMILY_GRID)) {
        const int64_t edge = rvit_geometry_vote(g, RVIT_ROLE_POSITION, 4, 1);
        return edge < 0 || edge > 1 << 15 ? edge : edge * edge;
    }
    return rvit_geometry_flag(g, RVIT_FAMILY_FLAT) ? rvit_geometry_vote(g, RVIT_ROLE_POSITION, 2, 0)
                                                   : rvit_geometry_vote(g, RVIT_ROLE_POSITION, 3, 1);
}

int rvit_geometry_expected(const rvit_geometry *g, int64_t i, int32_t *out_block)
{
    const int64_t in_blocks = i - N_MODEL_ROLES, in_deepstack = in_blocks - (int64_t)g->depth * N_BLOCK_ROLES;
    int64_t role = i;
    *out_block = 0;
    if (in_deepstack >= 0) {
        role = RVIT_FIRST_DEEPSTACK_ROLE + in_deepstack % N_DEEPSTACK_ROLES;
        *out_block = (int32_t)(in_deepstack / N_DEEPSTACK_ROLES);
    } else if (in_blocks >= 0) {
        role = RVIT_FIRST_BLOCK_ROLE + in_blocks % N_BLOCK_ROLES;
        *out_block = (int32_t)(in_blocks / N_BLOCK_ROLES);
    }
    return g->has[shapes[role].part] && g->family->names[role] != NULL ? (int)role : -1;
}

int64_t rvit_geometry_n_expected(const rvit_geometry *g)
{
    return N_MODEL_ROLES + (int64_t)g->depth * N_BLOCK_ROLES + (int64_t)g->n_deepstack * N_DEEPSTACK_ROLES;
}

int rvit_geometry_shape(const rvit_geometry *g, rvit_role role, const rvit_file_tensor *tensor, int32_t *out_rank,
                        int64_t out_shape[RVIT_MAX_RANK])
{
    const role_shape *wanted = role == RVIT_ROLE_PATCH_WEIGHT && tensor->rank == 2 ? &flat_patch_weight : &shapes[role];
    if (role == RVIT_ROLE_PATCH_WEIGHT && g->has[RVIT_PART_MERGER])
        wanted = &deep_patch_weight;
    if (rvit_geometry_flag(g, RVIT_FAMILY_FLAT) && (role == RVIT_ROLE_CLS || role == RVIT_ROLE_POSITION))
        wanted = role == RVIT_ROLE_CLS ? &flat_cls : &flat_position;
    if (rvit_geometry_flag(g, RVIT_FAMILY_GRID) && role == RVIT_ROLE_POSITION)
        wanted = &grid_position;
    if (rvit_geometry_flag(g, RVIT_FAMILY_HEAD_TRANSPOSED) && role == RVIT_ROLE_HEAD_WEIGHT)
        wanted = &transposed_head;
    int same = tensor->rank == wanted->rank;
    *out_rank = wanted->rank;
    for (int32_t i = 0; i < wanted->rank; i++) {
        out_shape[i] = g->extents[wanted->shape[i]];
        same = same && tensor->shape[i] == out_shape[i];
    }
    return same;
}

int64_t rvit_integer_root(int64_t n)
{
    int64_t root = (int64_t)sqrt((double)n);
    while (root * root > n)
        root--;
    while ((root + 1) * (root + 1) <= n)
        root++;
    return root;
}
