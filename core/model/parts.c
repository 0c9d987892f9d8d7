/* Finds out which parts a model has from the names of its tensors. */
#include "core/model/shapes.h"

#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"

enum { MAX_BLOCKS = 1 << 20 };

/* A distillation head needs a distillation token, and the reverse, except that some Hugging Face models have only the token. */
static rvit_status check_distillation(const rvit_geometry *g, int has_head)
{
    char token[RVIT_NAME_SIZE], weight[RVIT_NAME_SIZE], bias[RVIT_NAME_SIZE];
    const int has_token = rvit_geometry_find(g, RVIT_ROLE_DIST, 0, token) != NULL;
    const int has_weight = rvit_geometry_find(g, RVIT_ROLE_HEAD_DIST_WEIGHT, 0, weight) != NULL;
    const int has_bias = rvit_geometry_find(g, RVIT_ROLE_HEAD_DIST_BIAS, 0, bias) != NULL;
    if ((has_weight || has_bias) && !has_token)
        return rvit_fail(RVIT_BAD_FILE, "%s: distillation head ('%s') without its token: tensor '%s' is missing", g->path,
                         has_weight ? weight : bias, token);
    if (has_token && has_head && weight[0] != '\0' && !has_weight && !has_bias)
        return rvit_fail(RVIT_BAD_FILE, "%s: distillation token ('%s') without its head: tensor '%s' is missing", g->path, token, weight);
    return RVIT_OK;
}

static int is_square(int64_t n)
{
    return n > 1 && rvit_integer_root(n) * rvit_integer_root(n) == n;
}

/* The model has no CLS token if both the token and its row in a position table for square images are absent. Without a table, models with
   registers may lack it. */
static int lacks_cls(const rvit_geometry *g)
{
    if (g->family->names[RVIT_ROLE_CLS] == NULL)
        return 1;
    if (rvit_geometry_has(g, RVIT_ROLE_CLS) || rvit_geometry_has(g, RVIT_ROLE_DIST))
        return 0;
    if (rvit_geometry_flag(g, RVIT_FAMILY_GRID))
        return 1; /* the table never has a row for it */
    const int64_t n = rvit_geometry_positions(g), n_registers = rvit_geometry_vote(g, RVIT_ROLE_REGISTERS, 3, 1);
    if (!rvit_geometry_has(g, RVIT_ROLE_POSITION))
        return n_registers > 0;
    return n > 0 && !is_square(n - 1 - (n_registers > 0 && !rvit_geometry_flag(g, RVIT_FAMILY_FREE_REGISTERS) ? n_registers : 0));
}

rvit_status rvit_geometry_find_parts(rvit_geometry *g)
{
    g->has[RVIT_PART_ALWAYS] = 1;
    /* rvit_describe checks that the configuration agrees if one of these is absent. */
    g->has[RVIT_PART_CLS_TOKEN] = !lacks_cls(g);
    g->has[RVIT_PART_FINAL_NORM] = rvit_geometry_has(g, RVIT_ROLE_NORM_GAMMA) || rvit_geometry_has(g, RVIT_ROLE_NORM_BETA);
    g->has[RVIT_PART_FC_NORM] = rvit_geometry_has(g, RVIT_ROLE_FC_NORM_GAMMA) || rvit_geometry_has(g, RVIT_ROLE_FC_NORM_BETA);
    for (int role = RVIT_ROLE_MAP_LATENT; role <= (int)RVIT_ROLE_MAP_FC2_BIAS; role++)
        g->has[RVIT_PART_MAP] |= rvit_geometry_has(g, (rvit_role)role);
    g->has[RVIT_PART_DIST_TOKEN] = rvit_geometry_flag(g, RVIT_FAMILY_ALWAYS_DIST) || rvit_geometry_has(g, RVIT_ROLE_DIST);
    g->has[RVIT_PART_NORM_PRE] = rvit_geometry_has(g, RVIT_ROLE_NORM_PRE_GAMMA) || rvit_geometry_has(g, RVIT_ROLE_NORM_PRE_BETA);
    g->has[RVIT_PART_NORM_BETA] = rvit_geometry_in_blocks(g, RVIT_ROLE_NORM1_BETA) || rvit_geometry_in_blocks(g, RVIT_ROLE_NORM2_BETA) ||
                                  rvit_geometry_has(g, RVIT_ROLE_NORM_BETA) || rvit_geometry_has(g, RVIT_ROLE_NORM_PRE_BETA) ||
                                  rvit_geometry_has(g, RVIT_ROLE_FC_NORM_BETA) || rvit_geometry_has(g, RVIT_ROLE_MAP_NORM_BETA);
    g->has[RVIT_PART_MAP_KV_BIAS] = rvit_geometry_has(g, RVIT_ROLE_MAP_K_BIAS) || rvit_geometry_has(g, RVIT_ROLE_MAP_V_BIAS);
    g->has[RVIT_PART_PATCH_NORM] = rvit_geometry_has(g, RVIT_ROLE_PATCH_NORM_GAMMA) || rvit_geometry_has(g, RVIT_ROLE_PATCH_NORM_BETA);
    g->has[RVIT_PART_ATTENTION_NORM] =
        rvit_geometry_in_blocks(g, RVIT_ROLE_ATTENTION_NORM_GAMMA) || rvit_geometry_in_blocks(g, RVIT_ROLE_ATTENTION_NORM_BETA);
    g->has[RVIT_PART_MLP_NORM] =
        rvit_geometry_in_blocks(g, RVIT_ROLE_MLP_NORM_GAMMA) || rvit_geometry_in_blocks(g, RVIT_ROLE_MLP_NORM_BETA);
    /* Models that normalise the embedding do not need it. */
    g->has[RVIT_PART_PATCH_BIAS] =
        g->family->names[RVIT_ROLE_PATCH_BIAS] != NULL && (rvit_geometry_has(g, RVIT_ROLE_PATCH_BIAS) || !g->has[RVIT_PART_NORM_PRE]);
    g->has[RVIT_PART_QKV_BIAS] = rvit_geometry_in_blocks(g, RVIT_ROLE_QKV_BIAS) || rvit_geometry_in_blocks(g, RVIT_ROLE_Q_BIAS) ||
                                 rvit_geometry_in_blocks(g, RVIT_ROLE_K_BIAS) || rvit_geometry_in_blocks(g, RVIT_ROLE_V_BIAS);
    g->has[RVIT_PART_PROJ_BIAS] = rvit_geometry_in_blocks(g, RVIT_ROLE_PROJ_BIAS);
    g->has[RVIT_PART_MLP_BIAS] = rvit_geometry_in_blocks(g, RVIT_ROLE_FC1_BIAS) || rvit_geometry_in_blocks(g, RVIT_ROLE_GATE_BIAS) ||
                                 rvit_geometry_in_blocks(g, RVIT_ROLE_FC2_BIAS);
    /* Hugging Face writes an empty tensor if there are none. */
    g->has[RVIT_PART_REGISTER_TOKENS] = rvit_geometry_has(g, RVIT_ROLE_REGISTERS) && rvit_geometry_vote(g, RVIT_ROLE_REGISTERS, 3, 1) != 0;
    /* Models with rotary positions may lack a table; all of those have layer scales. */
    const int always = !rvit_geometry_in_blocks(g, RVIT_ROLE_SCALE1) && !rvit_geometry_flag(g, RVIT_FAMILY_MAY_LACK_TABLE);
    g->has[RVIT_PART_POSITION_TABLE] = g->family->names[RVIT_ROLE_POSITION] != NULL && (rvit_geometry_has(g, RVIT_ROLE_POSITION) || always);
    g->has[RVIT_PART_DIST_HEAD] = rvit_geometry_has(g, RVIT_ROLE_HEAD_DIST_WEIGHT) || rvit_geometry_has(g, RVIT_ROLE_HEAD_DIST_BIAS);
    g->has[RVIT_PART_HEAD] =
        g->has[RVIT_PART_DIST_HEAD] || rvit_geometry_has(g, RVIT_ROLE_HEAD_WEIGHT) || rvit_geometry_has(g, RVIT_ROLE_HEAD_BIAS);
    g->has[RVIT_PART_MERGER] = g->family->names[RVIT_ROLE_MERGER_FC1_WEIGHT] != NULL;
    g->has[RVIT_PART_DEEPSTACK] = g->n_deepstack > 0;
    g->has[RVIT_PART_LAYER_SCALE] = rvit_geometry_has(g, RVIT_ROLE_SCALE1) || rvit_geometry_has(g, RVIT_ROLE_SCALE2);
    return check_distillation(g, g->has[RVIT_PART_HEAD]);
}

/* The index in a name "blocks.<index>.", without leading zeros; -1 for other names. Saturates. */
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
        index = index > MAX_BLOCKS ? index : index * 10 + (*digit - '0');
    return *digit == '.' ? index : -1;
}

rvit_status rvit_geometry_count_blocks(rvit_geometry *g)
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
        if (block_index(prefix, name) > g->depth)
            return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is present, but every tensor of block %d is missing", g->path,
                             rvit_shown(name).text, (int)g->depth);
    }
    return RVIT_OK;
}

void rvit_geometry_count_deepstack(rvit_geometry *g)
{
    char prefix[RVIT_NAME_SIZE];
    for (;; g->n_deepstack++) {
        snprintf(prefix, sizeof prefix, "%s" RVIT_DEEPSTACK_NAME "%d.", g->family->prefix, (int)g->n_deepstack);
        if (g->family->names[RVIT_ROLE_DEEPSTACK_FC1_WEIGHT] == NULL || rvit_tensor_set_find_prefix(g->set, prefix) < 0)
            break;
    }
}

/* Whether fc1 holds the rows of a gate followed by as many rows of values. */
int rvit_geometry_is_packed(const rvit_geometry *g)
{
    const int64_t rows = rvit_geometry_vote(g, RVIT_ROLE_FC1_WEIGHT, 2, 0), bias = rvit_geometry_vote(g, RVIT_ROLE_FC1_BIAS, 1, 0);
    const int64_t columns = rvit_geometry_vote(g, RVIT_ROLE_FC2_WEIGHT, 2, 1);
    return g->family->names[RVIT_ROLE_GATE_WEIGHT] == NULL && columns > 0 &&
           (rows == 2 * columns || (rows != columns && bias == 2 * columns));
}
