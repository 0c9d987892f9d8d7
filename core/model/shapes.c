#include "core/model/shapes.h"

#include <math.h>

typedef struct role_shape {
    rvit_part part;
    int32_t rank;
    rvit_extent shape[RVIT_MAX_RANK];
    int32_t is_beta; /* 1: present only if the model's norms have betas */
} role_shape;

/* clang-format off */
#define OF1(part, a) RVIT_PART_##part, 1, {RVIT_EXTENT_##a}
#define OF2(part, a, b) RVIT_PART_##part, 2, {RVIT_EXTENT_##a, RVIT_EXTENT_##b}
#define OF3(part, a, b, c) RVIT_PART_##part, 3, {RVIT_EXTENT_##a, RVIT_EXTENT_##b, RVIT_EXTENT_##c}
#define OF4(part, a, b, c, d) RVIT_PART_##part, 4, {RVIT_EXTENT_##a, RVIT_EXTENT_##b, RVIT_EXTENT_##c, RVIT_EXTENT_##d}

static const role_shape shapes[RVIT_ROLE_COUNT] = {
#define RVIT_ROLE1(role, part, a) [RVIT_ROLE_##role] = {OF1(part, a), 0},
#define RVIT_ROLE3(role, part, a, b, c) [RVIT_ROLE_##role] = {OF3(part, a, b, c), 0},
#define RVIT_ROLE4(role, part, a, b, c, d) [RVIT_ROLE_##role] = {OF4(part, a, b, c, d), 0},
#define RVIT_NORM_ROLES(role, part, width) \
    [RVIT_ROLE_##role##_GAMMA] = {OF1(part, width), 0}, [RVIT_ROLE_##role##_BETA] = {OF1(part, width), 1},
#define RVIT_LINEAR_ROLES(role, part, bias_part, rows, columns) \
    [RVIT_ROLE_##role##_WEIGHT] = {OF2(part, rows, columns), 0}, [RVIT_ROLE_##role##_BIAS] = {OF1(bias_part, rows), 0},
#include "core/model/roles.def"
};
/* clang-format on */

/* The patch weight as a matrix, an older form. */
static const role_shape flat_patch_weight = {OF2(ALWAYS, DIM, PATCH_VALUES), 0};
/* The patch weight of a convolution that includes time. */
static const role_shape deep_patch_weight = {
    RVIT_PART_ALWAYS, 5, {RVIT_EXTENT_DIM, RVIT_EXTENT_CHANNELS, RVIT_EXTENT_FRAMES, RVIT_EXTENT_PATCH, RVIT_EXTENT_PATCH}, 0};
/* For RVIT_FAMILY_FLAT, RVIT_FAMILY_GRID and RVIT_FAMILY_HEAD_TRANSPOSED. */
static const role_shape flat_cls = {OF1(ALWAYS, DIM), 0}, flat_position = {OF2(ALWAYS, POSITIONS, DIM), 0};
static const role_shape grid_position = {OF4(POSITION_TABLE, ONE, GRID, GRID, DIM), 0};
static const role_shape transposed_head = {OF2(HEAD, HEAD_IN, CLASSES), 0};

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
    const int has = g->has[shapes[role].part] && (g->has[RVIT_PART_NORM_BETA] || !shapes[role].is_beta);
    return has && g->family->names[role] != NULL ? (int)role : -1;
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
