#include "core/model/describe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/model/config/timm_names.h"
#include "core/model/merging.h"
#include "core/model/pooling.h"

enum { MAX_SIDE = 1 << 14, MAX_RESIZED = 1 << 24 };

static const char weights[] = "the weights";

void rvit_describe_options(const rvit_checkpoint_desc *desc, rvit_facts *facts)
{
    static const char where[] = "given";
    if (desc->n_heads > 0)
        rvit_facts_set(facts, RVIT_FACT_HEADS, desc->n_heads, where);
    if (desc->activation != RVIT_ACTIVATION_NONE)
        rvit_facts_set(facts, RVIT_FACT_ACTIVATION, desc->activation, where);
    if (desc->eps > 0)
        rvit_facts_set(facts, RVIT_FACT_EPS, (double)desc->eps, where);
    if (desc->pooling != RVIT_POOLING_UNKNOWN)
        rvit_facts_set(facts, RVIT_FACT_POOLING, desc->pooling, where);
    if (desc->position != RVIT_POSITION_UNKNOWN)
        rvit_facts_set(facts, RVIT_FACT_POSITION, desc->position, where);
    if (desc->resample != RVIT_RESAMPLE_DEFAULT)
        rvit_facts_set(facts, RVIT_FACT_RESAMPLE, desc->resample, where);
    if (desc->architecture == NULL)
        return;
    char from[RVIT_FACT_WHERE];
    snprintf(from, sizeof from, "given: architecture '%s'", desc->architecture);
    rvit_facts_set_text(facts, RVIT_FACT_ARCHITECTURE, desc->architecture, where);
    (void)rvit_timm_name_facts(desc->architecture, facts, from);
}

/* Compares extents that are in both the tensors and the files. */
static rvit_status check_extents(const char *path, const rvit_model_info *info, rvit_facts *facts)
{
    const struct {
        rvit_fact fact;
        int32_t value;
        const char *what;
    } extents[] = {{RVIT_FACT_DIM, info->dim, "width"},
                   {RVIT_FACT_DEPTH, info->depth, "number of blocks"},
                   {RVIT_FACT_MLP, info->mlp_dim, "width of the MLP"},
                   {RVIT_FACT_PATCH, info->patch_size, "patch size"},
                   {RVIT_FACT_CHANNELS, info->channels, "number of channels"},
                   {RVIT_FACT_REGISTERS, info->n_registers, "number of register tokens"},
                   {RVIT_FACT_CLASSES, info->n_classes, "number of classes"}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        rvit_fact_value *f = &facts->of[extents[i].fact];
        const int headless = extents[i].fact == RVIT_FACT_CLASSES && info->n_classes == 0;
        if (f->known && !headless && f->value[0] != extents[i].value)
            return rvit_fail(rvit_fact_conflict(f), "%s: the %s is %d in the tensors, but should be %s (%s)", path, extents[i].what,
                             (int)extents[i].value, f->text, f->where);
        f->known = 0;
        rvit_facts_set(facts, extents[i].fact, extents[i].value, weights);
    }
    return RVIT_OK;
}

/* Compares the presence of a position table with the facts. */
static rvit_status check_position(const char *path, const rvit_vit_config *config, const rvit_facts *facts)
{
    const rvit_fact_value *position = &facts->of[RVIT_FACT_POSITION];
    const int32_t value = rvit_facts_integer(facts, RVIT_FACT_POSITION);
    const int wants_table = value == RVIT_POSITION_TABLE || value == RVIT_POSITION_BOTH;
    char name[RVIT_NAME_SIZE] = "";
    const int32_t block = rvit_facts_integer(facts, RVIT_FACT_BLOCK);
    if (!position->known || wants_table == !config->no_table)
        return RVIT_OK;
    if (block != RVIT_BLOCK_UNKNOWN && block != RVIT_BLOCK_PRE_NORM)
        return RVIT_OK; /* such a block is refused elsewhere, and where its model has positions is unknown */
    if (rvit_family_name(config->family, RVIT_ROLE_POSITION, 0, name) == NULL)
        return rvit_fail(rvit_fact_conflict(position), "%s: a model with these tensors has no position table, but positions are '%s' (%s)",
                         path, position->text, position->where);
    return rvit_fail(rvit_fact_conflict(position), "%s: tensor '%s' is %s, but positions are '%s' (%s)", path, name,
                     wants_table ? "missing" : "present", position->text, position->where);
}

/* Compares the presence of a part with the facts. A file that lost the part would look like another model. */
static rvit_status check_part(const char *path, const rvit_vit_config *config, rvit_facts *facts, rvit_fact fact, int32_t there,
                              rvit_role role, const char *what)
{
    rvit_fact_value *f = &facts->of[fact];
    char name[RVIT_NAME_SIZE] = "";
    const int32_t block = rvit_facts_integer(facts, RVIT_FACT_BLOCK);
    const int plain = block == RVIT_BLOCK_UNKNOWN || block == RVIT_BLOCK_PRE_NORM; /* other blocks are refused elsewhere */
    if (plain && f->known && (int32_t)f->value[0] != there) {
        if (rvit_family_name(config->family, role, 0, name) == NULL)
            return rvit_fail(rvit_fact_conflict(f), "%s: a model with these tensors has no %s, but this one should (%s)", path, what,
                             f->where);
        return rvit_fail(rvit_fact_conflict(f), "%s: tensor '%s' is %s, but the model has %s %s (%s)", path, name,
                         there ? "present" : "missing", there ? "no" : "a", what, f->where);
    }
    f->known = 0;
    rvit_facts_set(facts, fact, there, weights);
    return RVIT_OK;
}

static rvit_status check_parts(const char *path, const rvit_vit_config *config, rvit_facts *facts)
{
    const struct {
        rvit_fact fact;
        int32_t there;
        rvit_role role;
        const char *what;
    } parts[] = {{RVIT_FACT_CLS, config->cls, RVIT_ROLE_CLS, "CLS token"},
                 {RVIT_FACT_PATCH_NORM, config->patch_norm, RVIT_ROLE_PATCH_NORM_GAMMA, "patch norm"},
                 {RVIT_FACT_FC_NORM, config->fc_norm, RVIT_ROLE_FC_NORM_GAMMA, "norm after pooling"},
                 {RVIT_FACT_NORM_PRE, config->info.norm_pre, RVIT_ROLE_NORM_PRE_GAMMA, "norm before the first block"},
                 {RVIT_FACT_LAYER_SCALE, config->layer_scale, RVIT_ROLE_SCALE1, "layer scale"},
                 {RVIT_FACT_QKV_BIAS, config->qkv_bias, RVIT_ROLE_QKV_BIAS, "qkv bias"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        RVIT_TRY(check_part(path, config, facts, parts[i].fact, parts[i].there, parts[i].role, parts[i].what));
    return RVIT_OK;
}

/* In a family with both orders of patch values, the rank of the weight shows which one the file has. */
static rvit_status check_rows(const char *path, const rvit_vit_config *config, rvit_facts *facts)
{
    rvit_fact_value *rows = &facts->of[RVIT_FACT_ROWS];
    char name[RVIT_NAME_SIZE] = "";
    if (rows->known && (int32_t)rows->value[0] != config->patch_rows)
        return rvit_fail(rvit_fact_conflict(rows), "%s: tensor '%s' belongs to a %s, but the model has a %s (%s)", path,
                         rvit_family_name(config->family, RVIT_ROLE_PATCH_WEIGHT, 0, name),
                         config->patch_rows ? "linear layer" : "convolution", config->patch_rows ? "convolution" : "linear layer",
                         rows->where);
    rows->known = 0;
    rvit_facts_set(facts, RVIT_FACT_ROWS, config->patch_rows, weights);
    return RVIT_OK;
}

static rvit_status check_gate(const char *path, const rvit_model_info *info, rvit_facts *facts)
{
    rvit_fact_value *gated = &facts->of[RVIT_FACT_GATED];
    if (gated->known && (int32_t)gated->value[0] != info->gated)
        return rvit_fail(rvit_fact_conflict(gated), "%s: the tensors have MLPs with%s a gate (SwiGLU), but the model has %s (%s)", path,
                         info->gated ? "" : "out", info->gated ? "none" : "one", gated->where);
    gated->known = 0;
    rvit_facts_set(facts, RVIT_FACT_GATED, info->gated, weights);
    return RVIT_OK;
}

/* RMS norms have no bias. A norm without a bias may still be a LayerNorm; the tensors do not show which. */
static rvit_status check_norms(const char *path, const rvit_vit_config *config, rvit_facts *facts)
{
    const rvit_fact_value *rms = &facts->of[RVIT_FACT_RMS_NORM];
    if (rms->known && (int32_t)rms->value[0] == config->norm_beta)
        return rvit_fail(rvit_fact_conflict(rms), "%s: the norms have %s bias, but they are %s (%s)", path, config->norm_beta ? "a" : "no",
                         rms->text, rms->where);
    if (config->norm_beta)
        rvit_facts_set(facts, RVIT_FACT_RMS_NORM, 0, weights);
    return RVIT_OK;
}

/* Pixels past the last whole patch are ignored. */
static void set_image(rvit_vit_config *config, int32_t height, int32_t width)
{
    rvit_model_info *info = &config->info;
    config->trained[0] = height / info->patch_size;
    config->trained[1] = width / info->patch_size;
    info->tokens = info->n_prefix + config->trained[0] * config->trained[1];
    info->image_size = config->files.trained_size = height == width ? height : 0;
}

/* The image size of a model without a position table. */
static rvit_status resolve_image_without_table(const char *path, rvit_vit_config *config, rvit_facts *facts)
{
    rvit_fact_value *image = &facts->of[RVIT_FACT_IMAGE];
    if (!image->known)
        *image = facts->of[RVIT_FACT_INPUT];
    if (!image->known)
        return RVIT_OK; /* note_unknown reports it */
    const int32_t height = (int32_t)image->value[0], width = (int32_t)image->value[1], p = config->info.patch_size;
    if (height < p || width < p || height > MAX_SIDE || width > MAX_SIDE)
        return rvit_fail(rvit_fact_conflict(image), "%s: images have %d x %d pixels (%s), expected sides of %d..%d", path, (int)height,
                         (int)width, image->where, (int)p, MAX_SIDE);
    set_image(config, height, width);
    return RVIT_OK;
}

/* The tensors show only the number of patches. Images are assumed to be square unless a fact says otherwise. */
static rvit_status resolve_image(const char *path, rvit_vit_config *config, rvit_facts *facts)
{
    rvit_model_info *info = &config->info;
    rvit_fact_value *image = &facts->of[RVIT_FACT_IMAGE];
    if (config->no_table)
        return resolve_image_without_table(path, config, facts);
    const double own[2] = {info->image_size, info->image_size};
    char name[RVIT_NAME_SIZE] = "";
    if (!image->known && info->image_size == 0)
        return rvit_fail(
            RVIT_BAD_FILE,
            "%s: tensor '%s': its %d rows, with or without %d for prefix tokens, do not form a square grid, and the image size "
            "is unknown",
            path, rvit_family_name(config->family, RVIT_ROLE_POSITION, 0, name), (int)config->position_rows, (int)info->n_prefix);
    if (!image->known)
        rvit_facts_set_several(facts, RVIT_FACT_IMAGE, own, 2, "the weights, if images are square");
    const int32_t height = (int32_t)image->value[0], width = (int32_t)image->value[1], p = info->patch_size;
    const int64_t patches = (int64_t)(height / p) * (width / p);
    int found = -1;
    for (int i = 1; i >= 0; i--)
        if (patches > 0 && config->position_rows - config->position_choices[i] == patches)
            found = i;
    if (found < 0)
        return rvit_fail(rvit_fact_conflict(image), "%s: the position table is for %d patches, but images have %d x %d pixels (%s)", path,
                         info->image_size > 0 ? (int)(info->tokens - info->n_prefix) : (int)config->position_rows, (int)height, (int)width,
                         image->where);
    if (height > MAX_SIDE || width > MAX_SIDE)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: images have %d x %d pixels, but sides above %d are not supported", path, (int)height,
                         (int)width, MAX_SIDE);
    config->position_prefix = config->position_choices[found];
    set_image(config, height, width);
    return RVIT_OK;
}

/* Fills in what all published models with these tensors have in common. Returns 1 if it did. */
static int assume(const rvit_vit_config *config, rvit_facts *facts)
{
    const rvit_model_info *info = &config->info;
    const rvit_default_heads source = config->family->heads;
    const char *where = "assumed: true of all published models with these tensors";
    int32_t heads = 0;
    if (config->no_table || info->gated || !config->norm_beta || config->attention_norm || config->mlp_norm)
        return 0;
    if (source == RVIT_HEADS_TORCHVISION) {
        heads = info->dim == 1024 || info->dim == 1280 ? 16 : info->dim == 768 ? 12 : 0;
        where = "torchvision's VisionTransformer";
    } else if (source == RVIT_HEADS_PLAIN && info->final_norm && config->cls && !config->map && config->qkv_bias && !info->norm_pre &&
               facts->of[RVIT_FACT_ARCHITECTURE].known == 0) {
        const rvit_plain_shape shape = {.dim = info->dim,
                                        .depth = info->depth,
                                        .mlp_dim = info->mlp_dim,
                                        .patch_size = info->patch_size,
                                        .distilled = info->n_prefix - info->n_registers == 2,
                                        .n_registers = info->n_registers,
                                        .layer_scale = config->layer_scale};
        heads = rvit_plain_heads(&shape);
    }
    if (heads == 0)
        return 0;
    rvit_facts_set(facts, RVIT_FACT_HEADS, heads, where);
    (void)rvit_timm_name_facts("vit", facts, where);
    return 1;
}

static int is_rotary(const rvit_facts *facts)
{
    const int32_t position = rvit_facts_integer(facts, RVIT_FACT_POSITION);
    return position == RVIT_POSITION_ROPE || position == RVIT_POSITION_BOTH;
}

static int rotation_known(const rvit_facts *facts)
{
    int known = 1;
    for (int fact = RVIT_FACT_ROPE_BASE; fact <= RVIT_FACT_ROPE_LAYOUT; fact++)
        known = known && facts->of[fact].known;
    return known;
}

static rvit_status resolve_rotation(const char *path, const rvit_facts *facts, rvit_rope_config *rope)
{
    const rvit_fact_value *base = &facts->of[RVIT_FACT_ROPE_BASE], *reference = &facts->of[RVIT_FACT_ROPE_REFERENCE];
    if (!is_rotary(facts) || !rotation_known(facts))
        return RVIT_OK;
    if (!(base->value[0] >= 1 && base->value[0] <= 1e12))
        return rvit_fail(rvit_fact_conflict(base), "%s: the base of the rotary positions is %s (%s), expected 1 to 1e12", path, base->text,
                         base->where);
    rope->base = base->value[0];
    rope->coordinates = (rvit_rope_coordinates)rvit_facts_integer(facts, RVIT_FACT_ROPE_COORDINATES);
    rope->order = (rvit_rope_order)rvit_facts_integer(facts, RVIT_FACT_ROPE_ORDER);
    rope->layout = (rvit_rope_layout)rvit_facts_integer(facts, RVIT_FACT_ROPE_LAYOUT);
    rope->offset = facts->of[RVIT_FACT_ROPE_OFFSET].value[0];
    rope->reference[0] = reference->value[0];
    rope->reference[1] = reference->value[1];
    return RVIT_OK;
}

/* Adds the missing facts that the forward needs to the reasons. */
static void note_unknown(const rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported)
{
    static const struct {
        rvit_fact fact;
        const char *what, *option;
    } needed[] = {{RVIT_FACT_HEADS, "the number of heads", "--heads"},
                  {RVIT_FACT_ACTIVATION, "the activation", "--activation"},
                  {RVIT_FACT_RMS_NORM, "whether norms without a bias are RMS norms", "--architecture"},
                  {RVIT_FACT_EPS, "the eps of the norms", "--eps"},
                  {RVIT_FACT_POOLING, "the pooling before the head", "--pool"},
                  {RVIT_FACT_MAP_HEADS, "the number of heads of the attention pooling", "--architecture"},
                  {RVIT_FACT_MAP_ACTIVATION, "the activation of the attention pooling", "--architecture"},
                  {RVIT_FACT_POOL_PREFIX, "whether the attention pooling reads the prefix tokens", "--architecture"},
                  {RVIT_FACT_POSITION, "whether positions are rotary", "--position"},
                  {RVIT_FACT_IMAGE, "the image size", "--image-size"},
                  {RVIT_FACT_RESAMPLE, "how the position table is resampled", "--resample"},
                  {RVIT_FACT_MERGE, "how many patches are merged", NULL},
                  {RVIT_FACT_WINDOW, "the windows of attention", NULL},
                  {RVIT_FACT_FULL_BLOCKS, "the blocks without windows", NULL},
                  {RVIT_FACT_DEEPSTACK, "the deepstack blocks", NULL}};
    char what[480] = "", options[180] = "";
    size_t at = 0, used = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const int maps = config->measured && rvit_facts_integer(facts, RVIT_FACT_POOLING) == RVIT_POOLING_MAP;
        const int unread = (needed[i].fact == RVIT_FACT_POOLING && config->measured && config->info.n_classes == 0) ||
                           (needed[i].fact == RVIT_FACT_RMS_NORM && !config->measured) ||
                           (needed[i].fact == RVIT_FACT_MAP_HEADS && !maps) ||
                           (needed[i].fact == RVIT_FACT_POOL_PREFIX && !(maps && config->info.n_prefix > 0)) ||
                           (needed[i].fact == RVIT_FACT_MAP_ACTIVATION && !(maps && config->map_mlp > 0));
        const int in_table = needed[i].fact == RVIT_FACT_IMAGE && !(config->measured && config->no_table);
        const int unmerged =
            needed[i].option == NULL &&
            (!config->merges || (needed[i].fact == RVIT_FACT_FULL_BLOCKS && facts->of[RVIT_FACT_WINDOW].known && !config->merge.window));
        if (facts->of[needed[i].fact].known || unread || in_table || unmerged)
            continue;
        at += (size_t)snprintf(what + at, sizeof what - at, "%s%s", at > 0 ? ", " : "", needed[i].what);
        if (needed[i].option != NULL)
            used += (size_t)snprintf(options + used, sizeof options - used, "%s%s", used > 0 ? ", " : "", needed[i].option);
    }
    if (is_rotary(facts) && !rotation_known(facts) && !unsupported->seen[RVIT_FEATURE_MIXED_ROPE])
        at += (size_t)snprintf(what + at, sizeof what - at, "%sits rotary positions", at > 0 ? ", " : "");
    if (at == 0)
        return;
    const rvit_fact_value *name = &facts->of[RVIT_FACT_ARCHITECTURE];
    rvit_unsupported_add(
        unsupported,
        "cannot determine %s from the weights or the files next to them: set %s%sthe timm name (--architecture), or put the "
        "model's config.json beside it%s%s%s",
        what, options, used > 0 ? ", or " : "", name->known ? " (the name '" : "", name->known ? name->text : "",
        name->known ? "' does not say)" : "");
}

static void note_features(const rvit_facts *facts, rvit_unsupported *unsupported)
{
    const struct {
        rvit_fact fact;
        int32_t value;
        rvit_feature feature;
    } features[] = {{RVIT_FACT_BLOCK, RVIT_BLOCK_POST_NORM, RVIT_FEATURE_POST_NORM},
                    {RVIT_FACT_BLOCK, RVIT_BLOCK_PARALLEL, RVIT_FEATURE_PARALLEL},
                    {RVIT_FACT_BLOCK, RVIT_BLOCK_OTHER, RVIT_FEATURE_OTHER_BLOCK},
                    {RVIT_FACT_ASPECT, 1, RVIT_FEATURE_ASPECT}};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        const rvit_fact_value *f = &facts->of[features[i].fact];
        if (f->known && (int32_t)f->value[0] == features[i].value)
            rvit_unsupported_feature(unsupported, features[i].feature, f->where);
    }
}

static rvit_status resolve_heads(const char *path, rvit_model_info *info, const rvit_facts *facts, rvit_unsupported *unsupported)
{
    const rvit_fact_value *heads = &facts->of[RVIT_FACT_HEADS];
    if (!heads->known)
        return RVIT_OK;
    info->n_heads = (int32_t)heads->value[0];
    if (info->n_heads < 1 || info->dim % info->n_heads != 0)
        return rvit_fail(rvit_fact_conflict(heads), "%s: the width %d cannot be split into %s heads (%s)", path, (int)info->dim,
                         heads->text, heads->where);
    info->head_dim = info->dim / info->n_heads;
    if (info->head_dim > 128 || info->head_dim % 8 != 0)
        rvit_unsupported_feature(unsupported, RVIT_FEATURE_HEAD_DIM, heads->where);
    return RVIT_OK;
}

/* The length of a side after resizing, before it is cropped to `side` pixels. */
static int32_t resized(int32_t side, const rvit_fact_value *crop)
{
    double edge = side;
    if (crop->value[2] > 0)
        edge = side * crop->value[1] / crop->value[2];
    else if (crop->value[0] > 0)
        edge = side / crop->value[0];
    return (int32_t)fmin(floor(edge), MAX_RESIZED);
}

/* timm's rule for its models without a crop_pct. */
static double default_crop(const rvit_image_recipe *recipe)
{
    return recipe->height < 384 || recipe->width < 384 ? 0.9 : 1;
}

static void set_resize(rvit_image_recipe *recipe, const rvit_fact_value *crop, int fit_is_known)
{
    const double fraction = recipe->fit == RVIT_FIT_CROP ? default_crop(recipe) : 1;
    if (fit_is_known && (crop->known || recipe->fit == RVIT_FIT_SQUASH || recipe->fit == RVIT_FIT_BORDER)) {
        recipe->resize_height = resized(recipe->height, crop);
        recipe->resize_width = crop->value[2] > 0 && recipe->fit == RVIT_FIT_CROP ? recipe->resize_height : resized(recipe->width, crop);
    } else {
        recipe->resize_height = (int32_t)floor(recipe->height / fraction);
        recipe->resize_width = (int32_t)floor(recipe->width / fraction);
    }
}

void rvit_describe_recipe(rvit_vit_config *config, const rvit_facts *facts)
{
    rvit_image_recipe *recipe = &config->recipe;
    const rvit_fit fit = (rvit_fit)rvit_facts_integer(facts, RVIT_FACT_FIT);
    const rvit_filter filter = (rvit_filter)rvit_facts_integer(facts, RVIT_FACT_FILTER);
    const rvit_processor processor = (rvit_processor)rvit_facts_integer(facts, RVIT_FACT_PROCESSOR);
    recipe->fit = fit == RVIT_FIT_UNKNOWN ? RVIT_FIT_CROP : fit;
    recipe->filter = filter == RVIT_FILTER_UNKNOWN ? RVIT_FILTER_BICUBIC : filter;
    recipe->processor = processor == RVIT_PROCESSOR_UNKNOWN ? RVIT_PROCESSOR_TIMM : processor;
    recipe->height = config->info.image_height;
    recipe->width = config->info.image_width;
    set_resize(recipe, &facts->of[RVIT_FACT_CROP], fit != RVIT_FIT_UNKNOWN);
    recipe->patch_size = config->info.patch_size;
    recipe->merge = config->info.merge;
    recipe->processor_height = rvit_facts_integer(facts, RVIT_FACT_PROCESSED);
    recipe->processor_width = (int32_t)facts->of[RVIT_FACT_PROCESSED].value[1];
    recipe->max_patches = rvit_facts_integer(facts, RVIT_FACT_MAX_PATCHES);
    recipe->min_pixels = (int64_t)facts->of[RVIT_FACT_PIXELS].value[0];
    recipe->max_pixels = (int64_t)facts->of[RVIT_FACT_PIXELS].value[1];
    for (int i = 0; i < 3; i++) {
        recipe->mean[i] = (float)facts->of[RVIT_FACT_MEAN].value[i];
        recipe->std[i] = (float)facts->of[RVIT_FACT_STD].value[i];
        recipe->fill[i] = (int32_t)facts->of[RVIT_FACT_FILL].value[i];
    }
}

static void fill_info(rvit_model_info *info, const rvit_facts *facts)
{
    info->activation = (rvit_activation)rvit_facts_integer(facts, RVIT_FACT_ACTIVATION);
    info->eps = (float)facts->of[RVIT_FACT_EPS].value[0];
    info->pooling = (rvit_pooling)rvit_facts_integer(facts, RVIT_FACT_POOLING);
    info->position = (rvit_position)rvit_facts_integer(facts, RVIT_FACT_POSITION);
    info->rms_norm = rvit_facts_integer(facts, RVIT_FACT_RMS_NORM);
    info->resample = (rvit_resample)rvit_facts_integer(facts, RVIT_FACT_RESAMPLE);
    info->image_height = rvit_facts_integer(facts, RVIT_FACT_IMAGE);
    info->image_width = (int32_t)facts->of[RVIT_FACT_IMAGE].value[1];
}

/* Defaults that hold for every published model unless a file contradicts them. timm's NaFlexViT models differ in how they resample. */
static void set_family_defaults(const rvit_vit_config *config, rvit_facts *facts)
{
    const int hf = (config->family->flags & RVIT_FAMILY_HF) != 0;
    const rvit_resample resample = !hf ? RVIT_RESAMPLE_TIMM : config->patch_rows ? RVIT_RESAMPLE_BILINEAR_ANTIALIAS : RVIT_RESAMPLE_BICUBIC;
    if ((config->family->flags & RVIT_FAMILY_GRID) == 0)
        rvit_facts_set(facts, RVIT_FACT_RESAMPLE, resample, "the code that uses these tensor names");
    rvit_facts_set(facts, RVIT_FACT_BLOCK, RVIT_BLOCK_PRE_NORM, "assumed");
}

/* timm's tensor names do not distinguish a projection from a classifier's head. Its architectures that were trained with texts have a
   projection, unless they were fine-tuned on ImageNet: the head then has as many classes as one of its sets. */
static int is_timm_projection(const rvit_vit_config *config, const char *architecture)
{
    static const int32_t imagenet[] = {1000, 11821, 21841, 21843};
    if ((config->family->flags & RVIT_FAMILY_MAY_PROJECT) == 0 ||
        (strstr(architecture, "_clip_") == NULL && strstr(architecture, "_pe_core_") == NULL))
        return 0;
    for (size_t i = 0; i < sizeof imagenet / sizeof *imagenet; i++)
        if (config->info.n_classes == imagenet[i])
            return 0;
    return 1;
}

/* A SigLIP without its own head: the output of attention pooling is the embedding. Other models have a classifier after it. */
static int is_siglip(const rvit_vit_config *config, const char *architecture)
{
    return config->info.pooling == RVIT_POOLING_MAP && !config->own_head &&
           ((config->family->flags & RVIT_FAMILY_MAP_EMBEDS) != 0 || strstr(architecture, "siglip") != NULL);
}

/* The width of the embedding that is compared with those of texts. */
static int32_t embedding_dim(const rvit_vit_config *config, const rvit_facts *facts)
{
    const rvit_model_info *info = &config->info;
    const char *architecture = facts->of[RVIT_FACT_ARCHITECTURE].text;
    const int projects = (config->family->flags & RVIT_FAMILY_PROJECTS) != 0 || is_timm_projection(config, architecture);
    return projects || is_siglip(config, architecture) ? info->n_classes : 0;
}

rvit_status rvit_describe(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_unsupported *unsupported)
{
    rvit_model_info *info = &config->info;
    int assumed = 0;
    if (config->measured) {
        RVIT_TRY(check_extents(path, info, facts));
        RVIT_TRY(check_rows(path, config, facts));
        RVIT_TRY(check_gate(path, info, facts));
        RVIT_TRY(check_norms(path, config, facts));
        assumed = assume(config, facts);
        RVIT_TRY(check_position(path, config, facts));
        RVIT_TRY(resolve_image(path, config, facts));
        RVIT_TRY(resolve_heads(path, info, facts, unsupported));
        if (info->patch_size % 2 != 0)
            rvit_unsupported_feature(unsupported, RVIT_FEATURE_PATCH_ODD, weights);
        if (config->patch_norm && info->n_prefix > 0)
            rvit_unsupported_feature(unsupported, RVIT_FEATURE_PATCH_NORM, weights);
    }
    if (config->measured)
        RVIT_TRY(rvit_resolve_merge(path, config, facts, unsupported));
    facts->of[RVIT_FACT_INPUT].known = 0;
    RVIT_TRY(resolve_rotation(path, facts, &config->rope));
    set_family_defaults(config, facts);
    rvit_resolve_pooling(config, facts);
    if (config->measured) {
        RVIT_TRY(rvit_check_pooling(path, config, facts, unsupported));
        RVIT_TRY(check_parts(path, config, facts));
    }
    note_unknown(config, facts, unsupported);
    note_features(facts, unsupported);
    fill_info(info, facts);
    rvit_describe_recipe(config, facts);
    /* Without a head, the output of attention pooling is the result. */
    config->own_head = info->n_classes > 0;
    if (info->pooling == RVIT_POOLING_MAP && !config->own_head)
        info->n_classes = info->dim;
    info->embedding_dim = embedding_dim(config, facts);
    if (config->measured)
        rvit_vit_name(config);
    if (assumed && unsupported->n == 0)
        rvit_log(RVIT_LOG_INFO,
                 "%s: no file has its heads, activation, eps and pooling: assumed those of all published models with these tensors", path);
    return RVIT_OK;
}
