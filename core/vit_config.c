#include "core/vit_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

enum {
    SHOWN_NAME = 96,
    SHOWN_SHAPE = 192,
    MAX_EXTENT = 1 << 20,
    MAX_CHANNELS = 64,
    MAX_PATCH = 256,
    MAX_IMAGE = 1 << 14,
    MAX_REGISTERS = 256
};

/* The extents that tensors are made of. */
typedef enum extent {
    ONE,
    TWO,
    REGISTERS,
    POSITIONS,
    CHANNELS,
    PATCH,
    PATCH_VALUES, /* channels * patch^2 */
    DIM,
    DIM2,
    DIM3,
    HALF_DIM,
    QUARTER_DIM,
    MLP,
    FC1_ROWS, /* MLP; twice that where they hold the gate too */
    CLASSES,
    HEAD_IN, /* columns of the head */
    MAP_MLP, /* width of the MLP of attention pooling */
    EXTENT_COUNT
} extent;

/* The parts that not every model has. */
typedef enum part {
    ALWAYS,
    CLS_TOKEN,
    DIST_TOKEN,
    REGISTER_TOKENS,
    POSITION_TABLE,
    PATCH_BIAS,
    NORM_PRE,
    NORM_BETA,
    NORM_PRE_BETA,
    QKV_BIAS,
    PROJ_BIAS,
    MLP_BIAS,
    ATTENTION_NORM,
    ATTENTION_NORM_BETA,
    MLP_NORM,
    MLP_NORM_BETA,
    FINAL_NORM,
    FINAL_NORM_BETA,
    FC_NORM,
    FC_NORM_BETA,
    MAP,
    MAP_NORM_BETA,
    HEAD,
    DIST_HEAD,
    LAYER_SCALE,
    PART_COUNT
} part;

typedef struct role_shape {
    part part;
    int32_t rank;
    extent shape[4];
} role_shape;

static const role_shape shapes[RVIT_ROLE_COUNT] = {
    [RVIT_ROLE_CLS] = {CLS_TOKEN, 3, {ONE, ONE, DIM}},
    [RVIT_ROLE_DIST] = {DIST_TOKEN, 3, {ONE, ONE, DIM}},
    [RVIT_ROLE_REGISTERS] = {REGISTER_TOKENS, 3, {ONE, REGISTERS, DIM}},
    [RVIT_ROLE_POSITION] = {POSITION_TABLE, 3, {ONE, POSITIONS, DIM}},
    [RVIT_ROLE_PATCH_WEIGHT] = {ALWAYS, 4, {DIM, CHANNELS, PATCH, PATCH}},
    [RVIT_ROLE_PATCH_BIAS] = {PATCH_BIAS, 1, {DIM}},
    [RVIT_ROLE_NORM_PRE_GAMMA] = {NORM_PRE, 1, {DIM}},
    [RVIT_ROLE_NORM_PRE_BETA] = {NORM_PRE_BETA, 1, {DIM}},
    [RVIT_ROLE_NORM_GAMMA] = {FINAL_NORM, 1, {DIM}},
    [RVIT_ROLE_NORM_BETA] = {FINAL_NORM_BETA, 1, {DIM}},
    [RVIT_ROLE_HEAD_WEIGHT] = {HEAD, 2, {CLASSES, HEAD_IN}},
    [RVIT_ROLE_HEAD_BIAS] = {HEAD, 1, {CLASSES}},
    [RVIT_ROLE_HEAD_DIST_WEIGHT] = {DIST_HEAD, 2, {CLASSES, DIM}},
    [RVIT_ROLE_HEAD_DIST_BIAS] = {DIST_HEAD, 1, {CLASSES}},
    [RVIT_ROLE_FC_NORM_GAMMA] = {FC_NORM, 1, {DIM}},
    [RVIT_ROLE_FC_NORM_BETA] = {FC_NORM_BETA, 1, {DIM}},
    [RVIT_ROLE_MAP_LATENT] = {MAP, 3, {ONE, ONE, DIM}},
    [RVIT_ROLE_MAP_QKV_WEIGHT] = {MAP, 2, {DIM3, DIM}},
    [RVIT_ROLE_MAP_QKV_BIAS] = {MAP, 1, {DIM3}},
    [RVIT_ROLE_MAP_Q_WEIGHT] = {MAP, 2, {DIM, DIM}},
    [RVIT_ROLE_MAP_Q_BIAS] = {MAP, 1, {DIM}},
    [RVIT_ROLE_MAP_KV_WEIGHT] = {MAP, 2, {DIM2, DIM}},
    [RVIT_ROLE_MAP_KV_BIAS] = {MAP, 1, {DIM2}},
    [RVIT_ROLE_MAP_PROJ_WEIGHT] = {MAP, 2, {DIM, DIM}},
    [RVIT_ROLE_MAP_PROJ_BIAS] = {MAP, 1, {DIM}},
    [RVIT_ROLE_MAP_NORM_GAMMA] = {MAP, 1, {DIM}},
    [RVIT_ROLE_MAP_NORM_BETA] = {MAP_NORM_BETA, 1, {DIM}},
    [RVIT_ROLE_MAP_FC1_WEIGHT] = {MAP, 2, {MAP_MLP, DIM}},
    [RVIT_ROLE_MAP_FC1_BIAS] = {MAP, 1, {MAP_MLP}},
    [RVIT_ROLE_MAP_FC2_WEIGHT] = {MAP, 2, {DIM, MAP_MLP}},
    [RVIT_ROLE_MAP_FC2_BIAS] = {MAP, 1, {DIM}},

    [RVIT_ROLE_NORM1_GAMMA] = {ALWAYS, 1, {DIM}},
    [RVIT_ROLE_NORM1_BETA] = {NORM_BETA, 1, {DIM}},
    [RVIT_ROLE_QKV_WEIGHT] = {ALWAYS, 2, {DIM3, DIM}},
    [RVIT_ROLE_QKV_BIAS] = {QKV_BIAS, 1, {DIM3}},
    [RVIT_ROLE_Q_WEIGHT] = {ALWAYS, 2, {DIM, DIM}},
    [RVIT_ROLE_Q_BIAS] = {QKV_BIAS, 1, {DIM}},
    [RVIT_ROLE_K_WEIGHT] = {ALWAYS, 2, {DIM, DIM}},
    [RVIT_ROLE_K_BIAS] = {QKV_BIAS, 1, {DIM}},
    [RVIT_ROLE_V_WEIGHT] = {ALWAYS, 2, {DIM, DIM}},
    [RVIT_ROLE_V_BIAS] = {QKV_BIAS, 1, {DIM}},
    [RVIT_ROLE_ATTENTION_NORM_GAMMA] = {ATTENTION_NORM, 1, {DIM}},
    [RVIT_ROLE_ATTENTION_NORM_BETA] = {ATTENTION_NORM_BETA, 1, {DIM}},
    [RVIT_ROLE_PROJ_WEIGHT] = {ALWAYS, 2, {DIM, DIM}},
    [RVIT_ROLE_PROJ_BIAS] = {PROJ_BIAS, 1, {DIM}},
    [RVIT_ROLE_SCALE1] = {LAYER_SCALE, 1, {DIM}},
    [RVIT_ROLE_NORM2_GAMMA] = {ALWAYS, 1, {DIM}},
    [RVIT_ROLE_NORM2_BETA] = {NORM_BETA, 1, {DIM}},
    [RVIT_ROLE_FC1_WEIGHT] = {ALWAYS, 2, {FC1_ROWS, DIM}},
    [RVIT_ROLE_FC1_BIAS] = {MLP_BIAS, 1, {FC1_ROWS}},
    [RVIT_ROLE_GATE_WEIGHT] = {ALWAYS, 2, {MLP, DIM}},
    [RVIT_ROLE_GATE_BIAS] = {MLP_BIAS, 1, {MLP}},
    [RVIT_ROLE_MLP_NORM_GAMMA] = {MLP_NORM, 1, {MLP}},
    [RVIT_ROLE_MLP_NORM_BETA] = {MLP_NORM_BETA, 1, {MLP}},
    [RVIT_ROLE_FC2_WEIGHT] = {ALWAYS, 2, {DIM, MLP}},
    [RVIT_ROLE_FC2_BIAS] = {MLP_BIAS, 1, {DIM}},
    [RVIT_ROLE_SCALE2] = {LAYER_SCALE, 1, {DIM}},

    [RVIT_ROLE_PREDICTOR_NORM_GAMMA] = {ALWAYS, 1, {DIM}},
    [RVIT_ROLE_PREDICTOR_NORM_BETA] = {ALWAYS, 1, {DIM}},
    [RVIT_ROLE_PREDICTOR_IN_WEIGHT] = {ALWAYS, 2, {DIM, DIM}},
    [RVIT_ROLE_PREDICTOR_IN_BIAS] = {ALWAYS, 1, {DIM}},
    [RVIT_ROLE_PREDICTOR_OUT0_WEIGHT] = {ALWAYS, 2, {HALF_DIM, DIM}},
    [RVIT_ROLE_PREDICTOR_OUT0_BIAS] = {ALWAYS, 1, {HALF_DIM}},
    [RVIT_ROLE_PREDICTOR_OUT1_WEIGHT] = {ALWAYS, 2, {QUARTER_DIM, HALF_DIM}},
    [RVIT_ROLE_PREDICTOR_OUT1_BIAS] = {ALWAYS, 1, {QUARTER_DIM}},
    [RVIT_ROLE_PREDICTOR_KEEP_WEIGHT] = {ALWAYS, 2, {TWO, QUARTER_DIM}},
    [RVIT_ROLE_PREDICTOR_KEEP_BIAS] = {ALWAYS, 1, {TWO}},
};

/* The old form of the patch weight: the same values, flat. */
static const role_shape flat_patch_weight = {ALWAYS, 2, {DIM, PATCH_VALUES}};
/* Of families that are RVIT_FAMILY_FLAT, RVIT_FAMILY_HEAD_TRANSPOSED. */
static const role_shape flat_cls = {ALWAYS, 1, {DIM}}, flat_position = {ALWAYS, 2, {POSITIONS, DIM}};
static const role_shape transposed_head = {HEAD, 2, {HEAD_IN, CLASSES}};

enum {
    N_MODEL_ROLES = RVIT_FIRST_BLOCK_ROLE,
    N_BLOCK_ROLES = RVIT_FIRST_PREDICTOR_ROLE - RVIT_FIRST_BLOCK_ROLE,
};

typedef struct geometry {
    const rvit_tensor_set *set;
    const char *path;
    const rvit_family *family;
    int32_t has[PART_COUNT];
    int32_t depth;
    int32_t packed; /* 1: fc1 has the rows of a gate too */
    int64_t extents[EXTENT_COUNT];
    int64_t position_prefix, grid; /* grid: 0 if the positions make no square */
    int64_t choices[2];            /* of position_prefix */
} geometry;

/* The tensor in this role; NULL if it is not there. Its name, "" if the family has none, is left in name. */
static const rvit_file_tensor *find(const geometry *g, rvit_role role, int32_t index, char name[RVIT_NAME_SIZE])
{
    name[0] = '\0';
    if (rvit_family_name(g->family, role, index, name) == NULL)
        return NULL;
    const int32_t found = rvit_tensor_set_find(g->set, name);
    return found < 0 ? NULL : rvit_tensor_set_tensor(g->set, found);
}

static int is_there(const geometry *g, rvit_role role)
{
    char name[RVIT_NAME_SIZE];
    return find(g, role, 0, name) != NULL;
}

/* The i-th tensor that this model must have: its role and, in *out_block, its block; -1: it does not have the i-th. */
static int expected(const geometry *g, int64_t i, int32_t *out_block)
{
    const int64_t in_blocks = i - N_MODEL_ROLES;
    const int role = (int)(i < N_MODEL_ROLES ? i : N_MODEL_ROLES + in_blocks % N_BLOCK_ROLES);
    *out_block = in_blocks < 0 ? 0 : (int32_t)(in_blocks / N_BLOCK_ROLES);
    return g->has[shapes[role].part] && g->family->names[role] != NULL ? role : -1;
}

static int64_t n_expected(const geometry *g)
{
    return N_MODEL_ROLES + (int64_t)g->depth * N_BLOCK_ROLES;
}

static void format_shape(char out[SHOWN_SHAPE], int32_t rank, const int64_t *shape)
{
    int at = snprintf(out, SHOWN_SHAPE, "[");
    for (int32_t i = 0; i < rank; i++)
        at += snprintf(out + at, (size_t)(SHOWN_SHAPE - at), i == 0 ? "%" PRId64 : ", %" PRId64, shape[i]);
    snprintf(out + at, (size_t)(SHOWN_SHAPE - at), "]");
}

/* The distillation token and its head come together, but that some of Hugging Face's models have the token without the head. */
static rvit_status check_distillation(const geometry *g, int has_head)
{
    char token[RVIT_NAME_SIZE], weight[RVIT_NAME_SIZE], bias[RVIT_NAME_SIZE];
    const int has_token = find(g, RVIT_ROLE_DIST, 0, token) != NULL;
    const int has_weight = find(g, RVIT_ROLE_HEAD_DIST_WEIGHT, 0, weight) != NULL;
    const int has_bias = find(g, RVIT_ROLE_HEAD_DIST_BIAS, 0, bias) != NULL;
    if ((has_weight || has_bias) && !has_token)
        return rvit_fail(RVIT_BAD_FILE, "%s: a distilled head ('%s') without its token: tensor '%s' is missing", g->path,
                         has_weight ? weight : bias, token);
    if (has_token && has_head && weight[0] != '\0' && !has_weight && !has_bias)
        return rvit_fail(RVIT_BAD_FILE, "%s: a distillation token ('%s') without its head: tensor '%s' is missing", g->path, token, weight);
    return RVIT_OK;
}

/* Whether any block has the tensor. */
static int is_in_blocks(const geometry *g, rvit_role role)
{
    char name[RVIT_NAME_SIZE];
    for (int32_t block = 0; g->family->names[role] != NULL && block < g->depth; block++)
        if (find(g, role, block, name) != NULL)
            return 1;
    return 0;
}

static int has_flag(const geometry *g, int32_t flag)
{
    return (g->family->flags & flag) != 0;
}

static int64_t integer_root(int64_t n)
{
    int64_t root = (int64_t)sqrt((double)n);
    while (root * root > n)
        root--;
    while ((root + 1) * (root + 1) <= n)
        root++;
    return root;
}

static int is_square(int64_t n)
{
    return n > 1 && integer_root(n) * integer_root(n) == n;
}

/* One tensor's word on an extent; -1 if it has not this rank. */
static int64_t vote(const geometry *g, rvit_role role, int32_t rank, int32_t axis)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *tensor = find(g, role, 0, name);
    return tensor != NULL && tensor->rank == rank ? tensor->shape[axis] : -1;
}

static int64_t n_positions(const geometry *g)
{
    return has_flag(g, RVIT_FAMILY_FLAT) ? vote(g, RVIT_ROLE_POSITION, 2, 0) : vote(g, RVIT_ROLE_POSITION, 3, 1);
}

/* Neither the token is there, nor its row in a table for square images: it is not missing. Of models without a table those with registers
   may do without it. */
static int lacks_cls(const geometry *g)
{
    if (g->family->names[RVIT_ROLE_CLS] == NULL)
        return 1;
    if (is_there(g, RVIT_ROLE_CLS) || is_there(g, RVIT_ROLE_DIST))
        return 0;
    const int64_t n = n_positions(g), n_registers = vote(g, RVIT_ROLE_REGISTERS, 3, 1);
    if (!is_there(g, RVIT_ROLE_POSITION))
        return n_registers > 0;
    return n > 0 && !is_square(n - 1 - (n_registers > 0 && !has_flag(g, RVIT_FAMILY_FREE_REGISTERS) ? n_registers : 0));
}

static rvit_status find_parts(geometry *g)
{
    g->has[ALWAYS] = 1;
    /* A model without them is one whose configuration says so: rvit_describe. */
    g->has[CLS_TOKEN] = !lacks_cls(g);
    g->has[FINAL_NORM] = is_there(g, RVIT_ROLE_NORM_GAMMA) || is_there(g, RVIT_ROLE_NORM_BETA);
    g->has[FC_NORM] = is_there(g, RVIT_ROLE_FC_NORM_GAMMA) || is_there(g, RVIT_ROLE_FC_NORM_BETA);
    for (int role = RVIT_ROLE_MAP_LATENT; role <= (int)RVIT_ROLE_MAP_FC2_BIAS; role++)
        g->has[MAP] |= is_there(g, (rvit_role)role);
    g->has[DIST_TOKEN] = has_flag(g, RVIT_FAMILY_ALWAYS_DIST) || is_there(g, RVIT_ROLE_DIST);
    g->has[NORM_PRE] = is_there(g, RVIT_ROLE_NORM_PRE_GAMMA) || is_there(g, RVIT_ROLE_NORM_PRE_BETA);
    g->has[NORM_BETA] = is_in_blocks(g, RVIT_ROLE_NORM1_BETA) || is_in_blocks(g, RVIT_ROLE_NORM2_BETA) ||
                        is_there(g, RVIT_ROLE_NORM_BETA) || is_there(g, RVIT_ROLE_NORM_PRE_BETA) || is_there(g, RVIT_ROLE_FC_NORM_BETA) ||
                        is_there(g, RVIT_ROLE_MAP_NORM_BETA);
    g->has[FINAL_NORM_BETA] = g->has[FINAL_NORM] && g->has[NORM_BETA];
    g->has[FC_NORM_BETA] = g->has[FC_NORM] && g->has[NORM_BETA];
    g->has[MAP_NORM_BETA] = g->has[MAP] && g->has[NORM_BETA];
    g->has[NORM_PRE_BETA] = g->has[NORM_PRE] && g->has[NORM_BETA];
    g->has[ATTENTION_NORM] = is_in_blocks(g, RVIT_ROLE_ATTENTION_NORM_GAMMA) || is_in_blocks(g, RVIT_ROLE_ATTENTION_NORM_BETA);
    g->has[ATTENTION_NORM_BETA] = g->has[ATTENTION_NORM] && g->has[NORM_BETA];
    g->has[MLP_NORM] = is_in_blocks(g, RVIT_ROLE_MLP_NORM_GAMMA) || is_in_blocks(g, RVIT_ROLE_MLP_NORM_BETA);
    g->has[MLP_NORM_BETA] = g->has[MLP_NORM] && g->has[NORM_BETA];
    /* Models that normalise the embedding have no use for it. */
    g->has[PATCH_BIAS] = is_there(g, RVIT_ROLE_PATCH_BIAS) || !g->has[NORM_PRE];
    g->has[QKV_BIAS] = is_in_blocks(g, RVIT_ROLE_QKV_BIAS) || is_in_blocks(g, RVIT_ROLE_Q_BIAS) || is_in_blocks(g, RVIT_ROLE_K_BIAS) ||
                       is_in_blocks(g, RVIT_ROLE_V_BIAS);
    g->has[PROJ_BIAS] = is_in_blocks(g, RVIT_ROLE_PROJ_BIAS);
    g->has[MLP_BIAS] = is_in_blocks(g, RVIT_ROLE_FC1_BIAS) || is_in_blocks(g, RVIT_ROLE_GATE_BIAS) || is_in_blocks(g, RVIT_ROLE_FC2_BIAS);
    /* Hugging Face writes an empty one where there are none. */
    g->has[REGISTER_TOKENS] = is_there(g, RVIT_ROLE_REGISTERS) && vote(g, RVIT_ROLE_REGISTERS, 3, 1) != 0;
    /* Models with rotary positions may do without; all of them scale what their blocks add. */
    g->has[POSITION_TABLE] =
        g->family->names[RVIT_ROLE_POSITION] != NULL && (is_there(g, RVIT_ROLE_POSITION) || !is_in_blocks(g, RVIT_ROLE_SCALE1));
    g->has[DIST_HEAD] = is_there(g, RVIT_ROLE_HEAD_DIST_WEIGHT) || is_there(g, RVIT_ROLE_HEAD_DIST_BIAS);
    g->has[HEAD] = g->has[DIST_HEAD] || is_there(g, RVIT_ROLE_HEAD_WEIGHT) || is_there(g, RVIT_ROLE_HEAD_BIAS);
    g->has[LAYER_SCALE] = is_there(g, RVIT_ROLE_SCALE1) || is_there(g, RVIT_ROLE_SCALE2);
    return check_distillation(g, g->has[HEAD]);
}

/* The number of a "blocks.<index>." name without leading zeros; -1 if it is none. Saturates. */
static int64_t block_index(const char *prefix, const char *name)
{
    const size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return -1;
    const char *digit = name + length;
    if (*digit < '0' || *digit > '9' || (digit[0] == '0' && digit[1] != '.'))
        return -1;
    int64_t index = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        index = index > MAX_EXTENT ? index : index * 10 + (*digit - '0');
    return *digit == '.' ? index : -1;
}

static rvit_status count_blocks(geometry *g)
{
    char prefix[RVIT_NAME_SIZE];
    for (;; g->depth++) {
        snprintf(prefix, sizeof prefix, "%s%s%d.", g->family->prefix, g->family->blocks, (int)g->depth);
        if (rvit_tensor_set_find_prefix(g->set, prefix) < 0)
            break;
    }
    snprintf(prefix, sizeof prefix, "%s%s", g->family->prefix, g->family->blocks);
    for (int32_t i = 0; i < rvit_tensor_set_count(g->set); i++) {
        const char *name = rvit_tensor_set_tensor(g->set, i)->name;
        if (block_index(prefix, name) > g->depth) {
            char shown[SHOWN_NAME];
            rvit_printable(shown, sizeof shown, name);
            return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is there, but every tensor of block %d is missing", g->path, shown,
                             (int)g->depth);
        }
    }
    return RVIT_OK;
}

static rvit_status check_missing(const geometry *g)
{
    char first[RVIT_NAME_SIZE] = "";
    int64_t n_missing = 0;
    for (int64_t i = 0; i < n_expected(g); i++) {
        char name[RVIT_NAME_SIZE];
        int32_t block;
        const int role = expected(g, i, &block);
        if (role < 0 || find(g, (rvit_role)role, block, name) != NULL)
            continue;
        if (n_missing++ == 0)
            memcpy(first, name, sizeof first);
    }
    if (n_missing != 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing (%" PRId64 " missing in all)", g->path, first, n_missing);
    if (g->depth == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing: the model has no blocks", g->path,
                         rvit_family_name(g->family, RVIT_ROLE_NORM1_GAMMA, 0, first));
    return RVIT_OK;
}

/* What two of three say, else the first that says anything: so that one misshaped tensor is the one that is named. */
static int64_t majority(int64_t a, int64_t b, int64_t c)
{
    if (a >= 0 && (a == b || a == c))
        return a;
    if (b >= 0 && b == c)
        return b;
    return a >= 0 ? a : b >= 0 ? b : c;
}

static rvit_status set_extent(geometry *g, extent which, int64_t value, int64_t max, const char *what, rvit_role role)
{
    char name[RVIT_NAME_SIZE];
    rvit_family_name(g->family, role, 0, name);
    if (value < 1)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': its shape does not give the %s", g->path, name, what);
    if (value > max)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: tensor '%s': the %s %" PRId64 " is above %" PRId64, g->path, name, what, value, max);
    g->extents[which] = value;
    return RVIT_OK;
}

static rvit_status infer_width(geometry *g)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *patch = find(g, RVIT_ROLE_PATCH_WEIGHT, 0, name);
    const int64_t dim =
        majority(vote(g, RVIT_ROLE_PATCH_BIAS, 1, 0), patch->rank > 0 ? patch->shape[0] : -1, vote(g, RVIT_ROLE_NORM_GAMMA, 1, 0));
    RVIT_TRY(set_extent(g, DIM, dim, MAX_EXTENT, "width", RVIT_ROLE_PATCH_WEIGHT));
    g->extents[DIM2] = 2 * dim;
    g->extents[DIM3] = 3 * dim;
    g->extents[HALF_DIM] = dim / 2;
    g->extents[QUARTER_DIM] = dim / 4;
    return RVIT_OK;
}

static rvit_status infer_patch(geometry *g)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *tensor = find(g, RVIT_ROLE_PATCH_WEIGHT, 0, name);
    int64_t channels = 3, patch = -1;
    if (tensor->rank == 4 && tensor->shape[2] == tensor->shape[3]) {
        channels = tensor->shape[1];
        patch = tensor->shape[2];
    } else if (tensor->rank == 2 && tensor->shape[1] % 3 == 0) {
        const int64_t root = integer_root(tensor->shape[1] / 3);
        patch = root * root * 3 == tensor->shape[1] ? root : -1;
    }
    if (patch < 1) {
        char shape[SHOWN_SHAPE];
        format_shape(shape, tensor->rank, tensor->shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape [%" PRId64 ", channels, patch, patch], found %s", g->path,
                         name, g->extents[DIM], shape);
    }
    RVIT_TRY(set_extent(g, CHANNELS, channels, MAX_CHANNELS, "number of channels", RVIT_ROLE_PATCH_WEIGHT));
    RVIT_TRY(set_extent(g, PATCH, patch, MAX_PATCH, "patch size", RVIT_ROLE_PATCH_WEIGHT));
    g->extents[PATCH_VALUES] = channels * patch * patch;
    return RVIT_OK;
}

/* The position table has a row for every patch, and for all prefix tokens, none of them, or those that are no registers. */
static rvit_status infer_grid(geometry *g, int32_t n_prefix)
{
    char name[RVIT_NAME_SIZE];
    const int64_t rows = n_positions(g), n_registers = g->extents[REGISTERS];
    rvit_family_name(g->family, RVIT_ROLE_POSITION, 0, name);
    RVIT_TRY(set_extent(g, POSITIONS, rows, MAX_EXTENT, "number of positions", RVIT_ROLE_POSITION));
    int64_t choices[2] = {n_prefix, n_prefix};
    if (has_flag(g, RVIT_FAMILY_FREE_REGISTERS))
        choices[0] = choices[1] = n_prefix - n_registers;
    else if (!has_flag(g, RVIT_FAMILY_HF))
        choices[n_registers == 0] = 0;
    for (int i = 0; i < 2; i++)
        g->choices[i] = choices[i];
    for (int i = 0; i < 2; i++) {
        const int64_t patches = rows - choices[i], grid = patches > 0 ? integer_root(patches) : 0;
        if (grid < 1 || grid * grid != patches)
            continue;
        if (grid * g->extents[PATCH] > MAX_IMAGE)
            return rvit_fail(RVIT_UNSUPPORTED, "%s: the image size %" PRId64 " is above %d", g->path, grid * g->extents[PATCH], MAX_IMAGE);
        g->position_prefix = choices[i];
        g->grid = grid;
        return RVIT_OK;
    }
    return RVIT_OK; /* images may not be square: rvit_describe */
}

/* Whether fc1 has a gate's rows and, after them, as many for the values. */
static int is_packed(const geometry *g)
{
    const int64_t rows = vote(g, RVIT_ROLE_FC1_WEIGHT, 2, 0), bias = vote(g, RVIT_ROLE_FC1_BIAS, 1, 0);
    const int64_t columns = vote(g, RVIT_ROLE_FC2_WEIGHT, 2, 1);
    return g->family->names[RVIT_ROLE_GATE_WEIGHT] == NULL && columns > 0 &&
           (rows == 2 * columns || (rows != columns && bias == 2 * columns));
}

static rvit_status infer_mlp(geometry *g)
{
    const int64_t rows = vote(g, RVIT_ROLE_FC1_WEIGHT, 2, 0), bias = vote(g, RVIT_ROLE_FC1_BIAS, 1, 0);
    const int64_t parts = g->packed ? 2 : 1;
    const int64_t mlp = majority(rows < 0 ? rows : rows / parts, bias < 0 ? bias : bias / parts, vote(g, RVIT_ROLE_FC2_WEIGHT, 2, 1));
    RVIT_TRY(set_extent(g, MLP, mlp, MAX_EXTENT, "width of the MLP", RVIT_ROLE_FC1_WEIGHT));
    g->extents[FC1_ROWS] = parts * mlp;
    if (!g->has[MAP])
        return RVIT_OK;
    const int64_t pooling =
        majority(vote(g, RVIT_ROLE_MAP_FC1_WEIGHT, 2, 0), vote(g, RVIT_ROLE_MAP_FC1_BIAS, 1, 0), vote(g, RVIT_ROLE_MAP_FC2_WEIGHT, 2, 1));
    return set_extent(g, MAP_MLP, pooling, MAX_EXTENT, "width of the pooling's MLP", RVIT_ROLE_MAP_FC1_WEIGHT);
}

static rvit_status infer(geometry *g)
{
    g->extents[ONE] = 1;
    g->extents[TWO] = 2;
    RVIT_TRY(infer_width(g));
    RVIT_TRY(infer_patch(g));
    if (g->has[REGISTER_TOKENS])
        RVIT_TRY(
            set_extent(g, REGISTERS, vote(g, RVIT_ROLE_REGISTERS, 3, 1), MAX_REGISTERS, "number of register tokens", RVIT_ROLE_REGISTERS));
    if (g->has[POSITION_TABLE])
        RVIT_TRY(infer_grid(g, g->has[CLS_TOKEN] + g->has[DIST_TOKEN] + (int32_t)g->extents[REGISTERS]));
    RVIT_TRY(infer_mlp(g));
    if (!g->has[HEAD])
        return RVIT_OK;
    const int32_t transposed = has_flag(g, RVIT_FAMILY_HEAD_TRANSPOSED);
    g->extents[HEAD_IN] = g->extents[DIM];
    if (vote(g, RVIT_ROLE_HEAD_WEIGHT, 2, !transposed) == 2 * g->extents[DIM] && strcmp(g->family->name, "hf-dinov2") == 0)
        g->extents[HEAD_IN] = 2 * g->extents[DIM];
    const int64_t classes = majority(vote(g, RVIT_ROLE_HEAD_WEIGHT, 2, transposed), vote(g, RVIT_ROLE_HEAD_BIAS, 1, 0),
                                     vote(g, RVIT_ROLE_HEAD_DIST_WEIGHT, 2, 0));
    return set_extent(g, CLASSES, classes, MAX_EXTENT, "number of classes", RVIT_ROLE_HEAD_WEIGHT);
}

/* The shape that a role's tensor must have; 1 if it has it. */
static int shape_of(const geometry *g, rvit_role role, const rvit_file_tensor *tensor, int32_t *out_rank, int64_t out_shape[4])
{
    const role_shape *wanted = role == RVIT_ROLE_PATCH_WEIGHT && tensor->rank == 2 ? &flat_patch_weight : &shapes[role];
    if (has_flag(g, RVIT_FAMILY_FLAT) && (role == RVIT_ROLE_CLS || role == RVIT_ROLE_POSITION))
        wanted = role == RVIT_ROLE_CLS ? &flat_cls : &flat_position;
    if (has_flag(g, RVIT_FAMILY_HEAD_TRANSPOSED) && role == RVIT_ROLE_HEAD_WEIGHT)
        wanted = &transposed_head;
    int same = tensor->rank == wanted->rank;
    *out_rank = wanted->rank;
    for (int32_t i = 0; i < wanted->rank; i++) {
        out_shape[i] = g->extents[wanted->shape[i]];
        same = same && tensor->shape[i] == out_shape[i];
    }
    return same;
}

/* Checks one tensor against its place and marks it. */
static rvit_status check_tensor(const geometry *g, rvit_role role, int32_t block, uint8_t *used, int64_t *n_parameters)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *tensor = find(g, role, block, name);
    int32_t rank;
    int64_t shape[4];
    if (!shape_of(g, role, tensor, &rank, shape)) {
        char want[SHOWN_SHAPE], found[SHOWN_SHAPE];
        format_shape(want, rank, shape);
        format_shape(found, tensor->rank, tensor->shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape %s, found %s", g->path, name, want, found);
    }
    if (tensor->dtype < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype %s; weights are F32, F16 or BF16", g->path, name, tensor->dtype_name);
    used[rvit_tensor_set_find(g->set, name)] = 1;
    *n_parameters += tensor->n_elements;
    return RVIT_OK;
}

/* Counts the predictors that are complete; the name of the tensor that ends the count goes to missing. */
static int32_t count_predictors(const geometry *g, char missing[RVIT_NAME_SIZE])
{
    /* Their linears take features in fours. */
    const int narrow = g->extents[DIM] % 16 != 0;
    for (int32_t i = 0; i < RVIT_MAX_PREDICTORS; i++)
        for (int role = (int)RVIT_FIRST_PREDICTOR_ROLE; role < (int)RVIT_ROLE_COUNT; role++) {
            int32_t rank;
            int64_t shape[4];
            const rvit_file_tensor *tensor = find(g, (rvit_role)role, i, missing);
            if (narrow || tensor == NULL || tensor->dtype < 0 || !shape_of(g, (rvit_role)role, tensor, &rank, shape))
                return i;
        }
    missing[0] = '\0';
    return RVIT_MAX_PREDICTORS;
}

static int ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static int begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Tensors that belong to nothing here, but often come along: pruning predictors, the mask of the training, a head of the training, the text
   half of CLIP and of SigLIP. */
static int ignorable(const geometry *g, const char *name)
{
    static const char *const text[] = {"text_model.",      "text_projection",      "logit_scale", "logit_bias",
                                       "token_embedding.", "positional_embedding", "ln_final.",   "transformer."};
    if (begins_with(name, "score_predictor.") || ends_with(name, "mask_token") || ends_with(name, "pooler.dense.weight") ||
        ends_with(name, "pooler.dense.bias") || ends_with(name, "position_ids"))
        return 1;
    if (strcmp(g->family->name, "hf-clip") != 0 && strcmp(g->family->name, "hf-siglip") != 0 && !begins_with(g->family->prefix, "visual."))
        return 0;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (begins_with(name, text[i]))
            return 1;
    return 0;
}

/* An unknown tensor in a block, among the embedding or under the family's own prefix belongs to the computation: leaving it out would
 * change the results. */
static int belongs(const geometry *g, const char *name)
{
    static const char *const computed[] = {"embeddings.",  "patch_embed.", "pos_embed",       "norm.",     "layernorm.",
                                           "visual.head.", "attn_pool.",   "head.attention.", "head.mlp.", "fc_norm."};
    char blocks[RVIT_NAME_SIZE];
    snprintf(blocks, sizeof blocks, "%s%s", g->family->prefix, g->family->blocks);
    if (begins_with(name, blocks) || (g->family->prefix[0] != '\0' && begins_with(name, g->family->prefix)))
        return 1;
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (begins_with(name, computed[i]))
            return 1;
    return 0;
}

static rvit_status count_tensors(const geometry *g, int32_t lenient, const uint8_t *used, rvit_model_info *info)
{
    const char *first = NULL, *needed = NULL;
    int32_t n_errors = 0;
    for (int32_t i = 0; i < info->n_tensors; i++) {
        const rvit_file_tensor *tensor = rvit_tensor_set_tensor(g->set, i);
        if (used[i])
            continue;
        info->n_unknown++;
        if (ignorable(g, tensor->name) || tensor->n_elements == 0)
            continue;
        if (n_errors++ == 0)
            first = tensor->name;
        if (needed == NULL && belongs(g, tensor->name))
            needed = tensor->name;
    }
    char shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, needed != NULL ? needed : first != NULL ? first : "");
    if (needed != NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is unknown (%d unknown in all), and belongs to what the model computes", g->path,
                         shown, (int)n_errors);
    if (lenient || n_errors == 0)
        return RVIT_OK;
    return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is unknown (%d unknown in all); a lenient reader may pass over them", g->path, shown,
                     (int)n_errors);
}

void rvit_vit_name(rvit_vit_config *config)
{
    static const struct {
        const char *name;
        int32_t dim, depth;
    } sizes[] = {{"tiny", 192, 12}, {"small", 384, 12}, {"base", 768, 12}, {"large", 1024, 24}};
    rvit_model_info *info = &config->info;
    char *name = info->architecture;
    const size_t room = sizeof info->architecture;
    snprintf(name, room, "vit_d%d_h%d_l%d", (int)info->dim, (int)info->n_heads, (int)info->depth);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].dim == info->dim && sizes[i].depth == info->depth && info->mlp_dim == 4 * info->dim)
            snprintf(name, room, "%s_%s", i == 3 || config->layer_scale || info->n_registers > 0 ? "vit" : "deit", sizes[i].name);
    size_t at = strlen(name);
    at += (size_t)snprintf(name + at, room - at, "%s_patch%d", info->n_prefix - info->n_registers == 2 ? "_distilled" : "",
                           (int)info->patch_size);
    if (info->n_registers > 0)
        at += (size_t)snprintf(name + at, room - at, "_reg%d", (int)info->n_registers);
    if (info->image_size > 0)
        snprintf(name + at, room - at, "_%d", (int)info->image_size);
    else
        snprintf(name + at, room - at, "_%dx%d", (int)info->image_height, (int)info->image_width);
}

/* Parts that tensors show only together. */
static void find_together(const geometry *g, rvit_obstacles *obstacles)
{
    if (is_there(g, RVIT_ROLE_DIST) && is_there(g, RVIT_ROLE_REGISTERS))
        rvit_obstacles_feature(obstacles, RVIT_FEATURE_DISTILLED_REGISTERS, "both are there");
}

static void count_dtypes(const geometry *g, rvit_model_info *info)
{
    info->n_tensors = rvit_tensor_set_count(g->set);
    info->n_files = rvit_tensor_set_n_files(g->set);
    for (int32_t i = 0; i < info->n_tensors; i++) {
        const rvit_file_tensor *tensor = rvit_tensor_set_tensor(g->set, i);
        if (tensor->dtype >= 0)
            info->n_by_dtype[tensor->dtype]++;
    }
}

static void fill_info(const geometry *g, rvit_model_info *info)
{
    info->patch_size = (int32_t)g->extents[PATCH];
    info->image_size = info->trained_size = (int32_t)g->grid * info->patch_size;
    info->channels = (int32_t)g->extents[CHANNELS];
    info->dim = (int32_t)g->extents[DIM];
    info->depth = g->depth;
    info->mlp_dim = (int32_t)g->extents[MLP];
    info->n_registers = (int32_t)g->extents[REGISTERS];
    info->n_prefix = g->has[CLS_TOKEN] + g->has[DIST_TOKEN] + info->n_registers;
    info->tokens = info->n_prefix + (int32_t)(g->grid * g->grid);
    info->n_classes = (int32_t)g->extents[CLASSES];
    info->distilled = g->has[DIST_HEAD];
    info->norm_pre = g->has[NORM_PRE];
    info->final_norm = g->has[FINAL_NORM];
}

/* Shapes of a model all of whose parts are known. */
static rvit_status check_shapes(geometry *g, int32_t lenient, uint8_t *used, rvit_vit_config *config)
{
    RVIT_TRY(check_missing(g));
    RVIT_TRY(infer(g));
    for (int64_t i = 0; i < n_expected(g); i++) {
        int32_t block;
        const int role = expected(g, i, &block);
        if (role >= 0)
            RVIT_TRY(check_tensor(g, (rvit_role)role, block, used, &config->info.n_parameters));
    }
    RVIT_TRY(count_tensors(g, lenient, used, &config->info));
    fill_info(g, &config->info);
    config->layer_scale = g->has[LAYER_SCALE];
    config->qkv_bias = g->has[QKV_BIAS];
    config->proj_bias = g->has[PROJ_BIAS];
    config->mlp_bias = g->has[MLP_BIAS];
    config->info.gated = g->packed || g->family->names[RVIT_ROLE_GATE_WEIGHT] != NULL;
    config->attention_norm = g->has[ATTENTION_NORM];
    config->mlp_norm = g->has[MLP_NORM];
    config->norm_beta = g->has[NORM_BETA];
    config->patch_bias = g->has[PATCH_BIAS];
    config->no_table = !g->has[POSITION_TABLE];
    config->position_prefix = (int32_t)g->position_prefix;
    config->position_rows = (int32_t)g->extents[POSITIONS];
    for (int i = 0; i < 2; i++) {
        config->position_choices[i] = (int32_t)g->choices[i];
        config->trained[i] = (int32_t)g->grid;
    }
    config->cls_and_mean = g->extents[HEAD_IN] > g->extents[DIM];
    config->cls = g->has[CLS_TOKEN];
    config->fc_norm = g->has[FC_NORM];
    config->map_mlp = g->has[MAP] ? (int32_t)g->extents[MAP_MLP] : 0;
    config->measured = 1;
    config->info.n_predictors = count_predictors(g, config->missing_predictor);
    return RVIT_OK;
}

rvit_status rvit_vit_config_infer(const rvit_tensor_set *set, int32_t lenient, uint8_t *used, rvit_vit_config *config,
                                  rvit_obstacles *obstacles)
{
    geometry g = {.set = set, .path = rvit_tensor_set_path(set)};
    RVIT_TRY(rvit_family_detect(set, &g.family));
    memset(config, 0, sizeof *config);
    config->family = g.family;
    config->info.struct_size = sizeof config->info;
    snprintf(config->info.family, sizeof config->info.family, "%s", g.family->name);
    count_dtypes(&g, &config->info);
    RVIT_TRY(count_blocks(&g));
    config->info.depth = g.depth;
    rvit_family_features(set, g.family, obstacles);
    find_together(&g, obstacles);
    g.packed = is_packed(&g);
    config->info.gated = g.packed || obstacles->seen[RVIT_FEATURE_GATED];
    if (obstacles->n > 0)
        return RVIT_OK;
    RVIT_TRY(find_parts(&g));
    return check_shapes(&g, lenient, used, config);
}
