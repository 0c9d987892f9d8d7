#include "core/model/geometry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/file/quantized_tensors.h"
#include "core/model/layers.h"
#include "core/model/shapes.h"

static rvit_status check_missing(const rvit_geometry *g)
{
    char first[RVIT_NAME_SIZE] = "";
    int64_t n_missing = 0;
    for (int64_t i = 0; i < rvit_geometry_n_expected(g); i++) {
        char name[RVIT_NAME_SIZE];
        int32_t block;
        const int role = rvit_geometry_expected(g, i, &block);
        if (role < 0 || rvit_geometry_find(g, (rvit_role)role, block, name) != NULL)
            continue;
        if (n_missing++ == 0)
            memcpy(first, name, sizeof first);
    }
    if (n_missing != 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing (%" PRId64 " in total)", g->path, first, n_missing);
    if (g->depth == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing: the model has no blocks", g->path,
                         rvit_family_name(g->family, RVIT_ROLE_NORM1_GAMMA, 0, first));
    return RVIT_OK;
}

static rvit_status check_dtype(const rvit_geometry *g, rvit_role role, const rvit_file_tensor *tensor, uint8_t *used,
                               int32_t *quantized_dtype)
{
    if (tensor->dtype >= 0)
        return RVIT_OK;
    if (!rvit_role_may_be_quantized(role))
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype is %s, expected F32, F16 or BF16%s", g->path, tensor->name,
                         tensor->dtype_name,
                         tensor->quantized_dtype != 0 ? ": only weights of linear layers in blocks may have 8 bits" : "");
    if (tensor->quantized_dtype == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype is %s, expected F32, F16, BF16, I8 or F8_E4M3", g->path, tensor->name,
                         tensor->dtype_name);
    if (*quantized_dtype != 0 && *quantized_dtype != tensor->quantized_dtype)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': mixed 8-bit weights: this tensor is %s, earlier ones are %s", g->path,
                         tensor->name, tensor->dtype_name, *quantized_dtype == RVIT_I8 ? "I8" : "F8_E4M3");
    *quantized_dtype = tensor->quantized_dtype;
    return rvit_quantized_check(g->set, tensor->name, used);
}

/* Checks one tensor and marks it as used. */
static rvit_status check_tensor(const rvit_geometry *g, rvit_role role, int32_t block, uint8_t *used, rvit_vit_config *config)
{
    char name[RVIT_NAME_SIZE];
    const rvit_file_tensor *tensor = rvit_geometry_find(g, role, block, name);
    int32_t rank;
    int64_t shape[RVIT_MAX_RANK];
    if (!rvit_geometry_shape(g, role, tensor, &rank, shape)) {
        char want[RVIT_SHOWN_SHAPE], found[RVIT_SHOWN_SHAPE];
        rvit_format_shape(want, rank, shape);
        rvit_format_shape(found, tensor->rank, tensor->shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape %s, found %s", g->path, name, want, found);
    }
    RVIT_TRY(check_dtype(g, role, tensor, used, &config->quantized_dtype));
    used[rvit_tensor_set_find(g->set, name)] = 1;
    config->files.n_parameters += tensor->n_elements;
    return RVIT_OK;
}

/* Counts the complete predictors; missing: the name of the tensor that ends the count. */
static int32_t count_predictors(const rvit_geometry *g, char missing[RVIT_NAME_SIZE])
{
    /* The features of the last linear, a quarter of the width, must be a multiple of 4. */
    const int narrow = g->extents[RVIT_EXTENT_DIM] % 16 != 0;
    for (int32_t i = 0; i < RVIT_MAX_PREDICTORS; i++)
        for (int role = (int)RVIT_FIRST_PREDICTOR_ROLE; role < (int)RVIT_ROLE_COUNT; role++) {
            int32_t rank;
            int64_t shape[RVIT_MAX_RANK];
            const rvit_file_tensor *tensor = rvit_geometry_find(g, (rvit_role)role, i, missing);
            if (narrow || tensor == NULL || tensor->dtype < 0 || !rvit_geometry_shape(g, (rvit_role)role, tensor, &rank, shape))
                return i;
        }
    missing[0] = '\0';
    return RVIT_MAX_PREDICTORS;
}

static int begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* An unknown tensor in a block, in the embedding or under the family's prefix is part of the computation: ignoring it would change the
   results. */
static int belongs(const rvit_geometry *g, const char *name)
{
    static const char *const computed[] = {"embeddings.", "embeds.",      "patch_embed.",     "pos_embed",       "norm.",
                                           "layernorm.",  "visual.head.", "attn_pool.",       "head.attention.", "head.mlp.",
                                           "fc_norm.",    "merger.",      RVIT_DEEPSTACK_NAME};
    char blocks[RVIT_NAME_SIZE];
    snprintf(blocks, sizeof blocks, "%s%s", g->family->prefix, g->family->blocks);
    if (begins_with(name, blocks) || (g->family->prefix[0] != '\0' && begins_with(name, g->family->prefix)))
        return 1;
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (begins_with(name, computed[i]))
            return 1;
    return 0;
}

static rvit_status count_tensors(const rvit_geometry *g, int32_t lenient, const uint8_t *used, rvit_checkpoint_info *files)
{
    const char *first = NULL, *needed = NULL;
    int32_t n_errors = 0;
    for (int32_t i = 0; i < files->n_tensors; i++) {
        const rvit_file_tensor *tensor = rvit_tensor_set_tensor(g->set, i);
        if (used[i])
            continue;
        files->n_unknown++;
        if (rvit_family_ignores(g->family, tensor->name) || tensor->n_elements == 0)
            continue;
        if (n_errors++ == 0)
            first = tensor->name;
        if (needed == NULL && belongs(g, tensor->name))
            needed = tensor->name;
    }
    if (needed != NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s: unknown tensor '%s' (%d in total), which is part of the model's computation", g->path,
                         rvit_shown(needed).text, (int)n_errors);
    if (lenient || n_errors == 0)
        return RVIT_OK;
    return rvit_fail(RVIT_BAD_FILE, "%s: unknown tensor '%s' (%d in total); set `lenient` (--lenient) to ignore them", g->path,
                     rvit_shown(first).text, (int)n_errors);
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

/* Finds features that only several tensors together show. */
static void find_together(const rvit_geometry *g, rvit_unsupported *unsupported)
{
    if (rvit_geometry_has(g, RVIT_ROLE_DIST) && rvit_geometry_has(g, RVIT_ROLE_REGISTERS))
        rvit_unsupported_feature(unsupported, RVIT_FEATURE_DISTILLED_REGISTERS, "both are present");
}

static void count_dtypes(const rvit_geometry *g, rvit_checkpoint_info *files)
{
    files->n_tensors = rvit_tensor_set_count(g->set);
    files->n_files = rvit_tensor_set_n_files(g->set);
    for (int32_t i = 0; i < files->n_tensors; i++) {
        const rvit_file_tensor *tensor = rvit_tensor_set_tensor(g->set, i);
        if (tensor->dtype >= 0)
            files->n_by_dtype[tensor->dtype]++;
    }
}

static void fill_info(const rvit_geometry *g, rvit_model_info *info)
{
    info->patch_size = (int32_t)g->extents[RVIT_EXTENT_PATCH];
    info->image_size = (int32_t)g->grid * info->patch_size;
    info->channels = (int32_t)g->extents[RVIT_EXTENT_CHANNELS];
    info->dim = (int32_t)g->extents[RVIT_EXTENT_DIM];
    info->depth = g->depth;
    info->mlp_dim = (int32_t)g->extents[RVIT_EXTENT_MLP];
    info->n_registers = (int32_t)g->extents[RVIT_EXTENT_REGISTERS];
    info->n_prefix = g->has[RVIT_PART_CLS_TOKEN] + g->has[RVIT_PART_DIST_TOKEN] + info->n_registers;
    info->tokens = info->n_prefix + (int32_t)(g->grid * g->grid);
    info->n_classes = (int32_t)g->extents[RVIT_EXTENT_CLASSES];
    info->distilled = g->has[RVIT_PART_DIST_HEAD];
    info->norm_pre = g->has[RVIT_PART_NORM_PRE];
    info->final_norm = g->has[RVIT_PART_FINAL_NORM];
}

/* Whether patches are rows of (y, x, channel). */
static int has_patch_rows(const rvit_geometry *g)
{
    const rvit_patch_order order = g->family->patches;
    return order == RVIT_PATCHES_ROWS || (order == RVIT_PATCHES_BY_RANK && rvit_geometry_vote(g, RVIT_ROLE_PATCH_WEIGHT, 2, 1) > 0);
}

/* Checks the shapes of a model whose parts are all supported. */
static rvit_status check_shapes(rvit_geometry *g, int32_t lenient, uint8_t *used, rvit_vit_config *config)
{
    RVIT_TRY(check_missing(g));
    RVIT_TRY(rvit_geometry_infer(g));
    for (int64_t i = 0; i < rvit_geometry_n_expected(g); i++) {
        int32_t block;
        const int role = rvit_geometry_expected(g, i, &block);
        if (role >= 0)
            RVIT_TRY(check_tensor(g, (rvit_role)role, block, used, config));
    }
    RVIT_TRY(count_tensors(g, lenient, used, &config->files));
    fill_info(g, &config->info);
    config->files.trained_size = config->info.image_size;
    config->layer_scale = g->has[RVIT_PART_LAYER_SCALE];
    config->qkv_bias = g->has[RVIT_PART_QKV_BIAS];
    config->proj_bias = g->has[RVIT_PART_PROJ_BIAS];
    config->mlp_bias = g->has[RVIT_PART_MLP_BIAS];
    config->info.gated = g->packed || g->family->names[RVIT_ROLE_GATE_WEIGHT] != NULL;
    config->attention_norm = g->has[RVIT_PART_ATTENTION_NORM];
    config->mlp_norm = g->has[RVIT_PART_MLP_NORM];
    config->norm_beta = g->has[RVIT_PART_NORM_BETA];
    config->patch_bias = g->has[RVIT_PART_PATCH_BIAS];
    config->patch_rows = has_patch_rows(g);
    config->no_table = !g->has[RVIT_PART_POSITION_TABLE];
    config->position_prefix = (int32_t)g->position_prefix;
    config->position_rows = (int32_t)g->extents[RVIT_EXTENT_POSITIONS];
    for (int i = 0; i < 2; i++) {
        config->position_choices[i] = (int32_t)g->choices[i];
        config->trained[i] = (int32_t)g->grid;
    }
    config->cls_and_mean = g->extents[RVIT_EXTENT_HEAD_IN] > g->extents[RVIT_EXTENT_DIM];
    config->cls = g->has[RVIT_PART_CLS_TOKEN];
    config->fc_norm = g->has[RVIT_PART_FC_NORM];
    config->map = g->has[RVIT_PART_MAP];
    config->map_mlp = (int32_t)g->extents[RVIT_EXTENT_MAP_MLP];
    config->map_bias = g->has[RVIT_PART_MAP_KV_BIAS];
    config->patch_norm = g->has[RVIT_PART_PATCH_NORM];
    config->merges = g->has[RVIT_PART_MERGER];
    config->frames = (int32_t)g->extents[RVIT_EXTENT_FRAMES];
    config->group_dim = (int32_t)g->extents[RVIT_EXTENT_GROUP];
    config->info.merged_dim = (int32_t)g->extents[RVIT_EXTENT_MERGED];
    config->info.n_deepstack = g->n_deepstack;
    config->measured = 1;
    config->files.n_predictors = count_predictors(g, config->missing_predictor);
    return RVIT_OK;
}

rvit_status rvit_vit_config_infer(const rvit_tensor_set *set, const rvit_family *family, int32_t lenient, uint8_t *used,
                                  rvit_vit_config *config, rvit_unsupported *unsupported)
{
    rvit_geometry g = {.set = set, .path = rvit_tensor_set_path(set), .family = family};
    memset(config, 0, sizeof *config);
    config->family = g.family;
    config->info.struct_size = sizeof config->info;
    config->files.struct_size = sizeof config->files;
    config->recipe.struct_size = sizeof config->recipe;
    snprintf(config->info.family, sizeof config->info.family, "%s", g.family->name);
    count_dtypes(&g, &config->files);
    RVIT_TRY(rvit_geometry_count_blocks(&g));
    rvit_geometry_count_deepstack(&g);
    config->info.depth = g.depth;
    rvit_family_features(set, g.family, unsupported);
    find_together(&g, unsupported);
    g.packed = rvit_geometry_is_packed(&g);
    config->info.gated = g.packed || unsupported->seen[RVIT_FEATURE_GATED];
    if (unsupported->n > 0)
        return RVIT_OK;
    RVIT_TRY(rvit_geometry_find_parts(&g));
    return check_shapes(&g, lenient, used, config);
}
