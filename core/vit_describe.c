#include "core/vit_describe.h"

#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/status.h"
#include "core/timm_names.h"

static const char weights[] = "the weights";

/* Of a fact that contradicts the tensors. */
static rvit_status wrong(const rvit_fact_value *fact)
{
    return strncmp(fact->where, "given", 5) == 0 ? RVIT_INVALID_ARGUMENT : RVIT_BAD_FILE;
}

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

/* Extents that both tensors and files tell. */
static rvit_status check_extents(const char *path, const rvit_model_info *info, rvit_facts *facts)
{
    const struct {
        rvit_fact fact;
        int32_t value;
        const char *what;
    } extents[] = {{RVIT_FACT_DIM, info->dim, "a width"},
                   {RVIT_FACT_DEPTH, info->depth, "a number of blocks"},
                   {RVIT_FACT_MLP, info->mlp_dim, "an MLP width"},
                   {RVIT_FACT_PATCH, info->patch_size, "a patch size"},
                   {RVIT_FACT_CHANNELS, info->channels, "a number of channels"},
                   {RVIT_FACT_REGISTERS, info->n_registers, "a number of registers"},
                   {RVIT_FACT_CLASSES, info->n_classes, "a number of classes"}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        rvit_fact_value *f = &facts->of[extents[i].fact];
        const int headless = extents[i].fact == RVIT_FACT_CLASSES && info->n_classes == 0;
        if (f->given && !headless && f->value[0] != extents[i].value)
            return rvit_fail(wrong(f), "%s: the tensors have %s of %d, but it is %s in %s", path, extents[i].what, (int)extents[i].value,
                             f->text, f->where);
        f->given = 0;
        rvit_facts_set(facts, extents[i].fact, extents[i].value, weights);
    }
    return RVIT_OK;
}

static rvit_status check_gate(const char *path, const rvit_model_info *info, rvit_facts *facts)
{
    rvit_fact_value *gated = &facts->of[RVIT_FACT_GATED];
    if (gated->given && (int32_t)gated->value[0] != info->gated)
        return rvit_fail(wrong(gated), "%s: the tensors have MLPs with%s a gate (SwiGLU), but they have %s in %s", path,
                         info->gated ? "" : "out", info->gated ? "none" : "one", gated->where);
    gated->given = 0;
    rvit_facts_set(facts, RVIT_FACT_GATED, info->gated, weights);
    return RVIT_OK;
}

/* RMS norms have no bias. A norm without one may still be a LayerNorm: the tensors do not tell. */
static rvit_status check_norms(const char *path, const rvit_vit_config *config, rvit_facts *facts)
{
    const rvit_fact_value *rms = &facts->of[RVIT_FACT_RMS_NORM];
    if (rms->given && (int32_t)rms->value[0] == config->norm_beta)
        return rvit_fail(wrong(rms), "%s: the norms have %s bias, but they are of the kind %s in %s", path, config->norm_beta ? "a" : "no",
                         rms->text, rms->where);
    if (config->norm_beta)
        rvit_facts_set(facts, RVIT_FACT_RMS_NORM, 0, weights);
    return RVIT_OK;
}

/* The tensors tell the number of patches alone. A square is taken for granted where nothing says otherwise. */
static rvit_status check_image(const char *path, rvit_model_info *info, rvit_facts *facts, rvit_obstacles *obstacles)
{
    rvit_fact_value *image = &facts->of[RVIT_FACT_IMAGE];
    const double own[2] = {info->image_size, info->image_size};
    const int32_t patches = info->tokens - info->n_prefix;
    if (!image->given)
        rvit_facts_set_several(facts, RVIT_FACT_IMAGE, own, 2, "the weights, if images are square");
    const int32_t height = (int32_t)image->value[0], width = (int32_t)image->value[1], p = info->patch_size;
    if ((int64_t)(height / p) * (width / p) != patches)
        return rvit_fail(wrong(image), "%s: the position table is for %d patches, but images are of %d x %d pixels in %s", path,
                         (int)patches, (int)height, (int)width, image->where);
    if (height != width)
        rvit_obstacles_feature(obstacles, RVIT_FEATURE_NOT_SQUARE, image->where);
    if (height % p != 0 || width % p != 0)
        rvit_obstacles_feature(obstacles, RVIT_FEATURE_NOT_MULTIPLE, image->where);
    return RVIT_OK;
}

/* What all published models with these tensors have. */
static int assume(const rvit_vit_config *config, rvit_facts *facts)
{
    const rvit_model_info *info = &config->info;
    const rvit_family *family = config->family;
    const char *where = "assumed: so are all published models with these tensors";
    int32_t heads = 0;
    if (info->gated || !config->norm_beta || config->attention_norm || config->mlp_norm)
        return 0;
    if (strcmp(family->name, "torchvision") == 0) {
        heads = info->dim == 1024 || info->dim == 1280 ? 16 : info->dim == 768 ? 12 : 0;
        where = "torchvision's VisionTransformer";
    } else if ((strcmp(family->name, "timm") == 0 || strcmp(family->name, "dinov2") == 0) && config->qkv_bias && !info->norm_pre &&
               facts->of[RVIT_FACT_ARCHITECTURE].given == 0) {
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

/* The facts without which nothing can be computed. */
static void note_unknown(const rvit_vit_config *config, const rvit_facts *facts, rvit_obstacles *obstacles)
{
    static const struct {
        rvit_fact fact;
        const char *what, *option;
    } needed[] = {{RVIT_FACT_HEADS, "the number of heads", "--heads"},
                  {RVIT_FACT_ACTIVATION, "the activation", "--activation"},
                  {RVIT_FACT_RMS_NORM, "whether norms without a bias are RMS norms", "--architecture"},
                  {RVIT_FACT_EPS, "the eps of the norms", "--eps"},
                  {RVIT_FACT_POOLING, "what the head reads", "--pool"},
                  {RVIT_FACT_POSITION, "whether positions are rotary", "--position"}};
    char what[240] = "", options[96] = "";
    size_t at = 0, used = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const int unread = (needed[i].fact == RVIT_FACT_POOLING && config->measured && config->info.n_classes == 0) ||
                           (needed[i].fact == RVIT_FACT_RMS_NORM && !config->measured);
        if (facts->of[needed[i].fact].given || unread)
            continue;
        at += (size_t)snprintf(what + at, sizeof what - at, "%s%s", at > 0 ? ", " : "", needed[i].what);
        used += (size_t)snprintf(options + used, sizeof options - used, "%s%s", used > 0 ? ", " : "", needed[i].option);
    }
    if (at == 0)
        return;
    const rvit_fact_value *name = &facts->of[RVIT_FACT_ARCHITECTURE];
    rvit_obstacles_add(obstacles,
                       "neither the weights nor a file beside them tell %s: give %s, or timm's name (--architecture), or put the "
                       "model's config.json beside it%s%s%s",
                       what, options, name->given ? " (the name '" : "", name->given ? name->text : "",
                       name->given ? "' does not tell)" : "");
}

static void note_features(const rvit_vit_config *config, const rvit_facts *facts, rvit_obstacles *obstacles)
{
    const struct {
        rvit_fact fact;
        int32_t value;
        rvit_feature feature;
    } features[] = {
        {RVIT_FACT_BLOCK, RVIT_BLOCK_POST_NORM, RVIT_FEATURE_POST_NORM}, {RVIT_FACT_BLOCK, RVIT_BLOCK_PARALLEL, RVIT_FEATURE_PARALLEL},
        {RVIT_FACT_BLOCK, RVIT_BLOCK_OTHER, RVIT_FEATURE_OTHER_BLOCK},   {RVIT_FACT_POSITION, RVIT_POSITION_ROPE, RVIT_FEATURE_ROPE},
        {RVIT_FACT_POSITION, RVIT_POSITION_BOTH, RVIT_FEATURE_ROPE},     {RVIT_FACT_POSITION, RVIT_POSITION_NONE, RVIT_FEATURE_NO_POSITION},
        {RVIT_FACT_POOLING, RVIT_POOLING_MEAN, RVIT_FEATURE_MEAN},       {RVIT_FACT_POOLING, RVIT_POOLING_MEAN_NORM, RVIT_FEATURE_FC_NORM},
        {RVIT_FACT_POOLING, RVIT_POOLING_MEAN_RAW, RVIT_FEATURE_MEAN},   {RVIT_FACT_POOLING, RVIT_POOLING_CLS_MEAN, RVIT_FEATURE_CLS_MEAN},
        {RVIT_FACT_POOLING, RVIT_POOLING_MAP, RVIT_FEATURE_MAP}};
    const int has_head = config->info.n_classes > 0;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        const rvit_fact_value *f = &facts->of[features[i].fact];
        /* Where there is no head, the rows themselves are the result. */
        if (features[i].fact == RVIT_FACT_POOLING && config->measured && !has_head)
            continue;
        if (f->given && (int32_t)f->value[0] == features[i].value)
            rvit_obstacles_feature(obstacles, features[i].feature, f->where);
    }
}

static rvit_status settle_heads(const char *path, rvit_model_info *info, const rvit_facts *facts, rvit_obstacles *obstacles)
{
    const rvit_fact_value *heads = &facts->of[RVIT_FACT_HEADS];
    if (!heads->given)
        return RVIT_OK;
    info->n_heads = (int32_t)heads->value[0];
    if (info->n_heads < 1 || info->dim % info->n_heads != 0)
        return rvit_fail(wrong(heads), "%s: the width %d cannot be cut into %s heads (%s)", path, (int)info->dim, heads->text,
                         heads->where);
    info->head_dim = info->dim / info->n_heads;
    if (info->head_dim > 128 || info->head_dim % 8 != 0)
        rvit_obstacles_feature(obstacles, RVIT_FEATURE_HEAD_DIM, heads->where);
    return RVIT_OK;
}

/* The pooling of a head, as far as the tensors say more than a file does. */
static void settle_pooling(const rvit_vit_config *config, rvit_facts *facts, const rvit_obstacles *obstacles)
{
    rvit_fact_value *pooling = &facts->of[RVIT_FACT_POOLING];
    if (pooling->given && (int32_t)pooling->value[0] == RVIT_POOLING_MEAN && obstacles->seen[RVIT_FEATURE_FC_NORM]) {
        pooling->given = 0;
        rvit_facts_set(facts, RVIT_FACT_POOLING, RVIT_POOLING_MEAN_NORM, weights);
    }
    if (config->cls_and_mean) {
        pooling->given = 0;
        rvit_facts_set(facts, RVIT_FACT_POOLING, RVIT_POOLING_CLS_MEAN, weights);
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
    info->filter = (rvit_filter)rvit_facts_integer(facts, RVIT_FACT_FILTER);
    info->fit = (rvit_fit)rvit_facts_integer(facts, RVIT_FACT_FIT);
    info->crop = (float)facts->of[RVIT_FACT_CROP].value[0];
    info->image_height = rvit_facts_integer(facts, RVIT_FACT_IMAGE);
    info->image_width = (int32_t)facts->of[RVIT_FACT_IMAGE].value[1];
    for (int i = 0; i < 3; i++) {
        info->mean[i] = (float)facts->of[RVIT_FACT_MEAN].value[i];
        info->std[i] = (float)facts->of[RVIT_FACT_STD].value[i];
    }
}

/* What no file contradicts and no published model has otherwise. */
static void set_usual(const rvit_vit_config *config, rvit_facts *facts)
{
    const int hf = (config->family->flags & RVIT_FAMILY_HF) != 0;
    rvit_facts_set(facts, RVIT_FACT_RESAMPLE, hf ? RVIT_RESAMPLE_BICUBIC : RVIT_RESAMPLE_TIMM, "the code that these names belong to");
    rvit_facts_set(facts, RVIT_FACT_BLOCK, RVIT_BLOCK_PRE_NORM, "assumed");
}

rvit_status rvit_describe(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_obstacles *obstacles)
{
    rvit_model_info *info = &config->info;
    int assumed = 0;
    if (config->measured) {
        RVIT_TRY(check_extents(path, info, facts));
        RVIT_TRY(check_gate(path, info, facts));
        RVIT_TRY(check_norms(path, config, facts));
        assumed = assume(config, facts);
        RVIT_TRY(check_image(path, info, facts, obstacles));
        RVIT_TRY(settle_heads(path, info, facts, obstacles));
        if (info->patch_size % 2 != 0)
            rvit_obstacles_feature(obstacles, RVIT_FEATURE_PATCH_ODD, weights);
    }
    set_usual(config, facts);
    settle_pooling(config, facts, obstacles);
    note_unknown(config, facts, obstacles);
    note_features(config, facts, obstacles);
    fill_info(info, facts);
    if (config->measured)
        rvit_vit_name(config);
    if (assumed && obstacles->n == 0)
        rvit_log(RVIT_LOG_INFO, "%s: no file tells its heads, activation, eps and pooling: as all published models with these tensors",
                 path);
    return RVIT_OK;
}
