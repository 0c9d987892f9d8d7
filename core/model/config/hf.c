/* Hugging Face's config.json. Published files leave out what equals the default of the model's class. */
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/read.h"
#include "core/model/rope_table.h"

enum { SHOWN_NAME = 64 };

/* 0: the class has no default, or none that can be believed. */
typedef struct model_type {
    const char *name, *outer; /* outer: the type of a model that holds it as vision_config; NULL: none */
    int32_t dim, mlp, depth, heads, image, patch;
    rvit_activation activation;
    double eps;
    rvit_pooling pooling; /* of the head that its files have */
    rvit_position position;
    int32_t rms_norm;
    rvit_resample resample;
} model_type;

static const model_type types[] = {
    {"vit", NULL, 768, 3072, 12, 12, 224, 16, RVIT_ACTIVATION_GELU, 1e-12, RVIT_POOLING_CLS, RVIT_POSITION_TABLE, 0, RVIT_RESAMPLE_BICUBIC},
    {"deit", NULL, 768, 3072, 12, 12, 224, 16, RVIT_ACTIVATION_GELU, 1e-12, RVIT_POOLING_CLS, RVIT_POSITION_TABLE, 0,
     RVIT_RESAMPLE_BICUBIC},
    {"clip_vision_model", "clip", 768, 3072, 12, 12, 224, 32, RVIT_ACTIVATION_QUICK_GELU, 1e-5, RVIT_POOLING_CLS, RVIT_POSITION_TABLE, 0,
     RVIT_RESAMPLE_BICUBIC},
    {"siglip_vision_model", "siglip", 768, 3072, 12, 12, 224, 16, RVIT_ACTIVATION_GELU_TANH, 1e-6, RVIT_POOLING_MAP, RVIT_POSITION_TABLE, 0,
     RVIT_RESAMPLE_BICUBIC},
    {"siglip2_vision_model", "siglip2", 768, 3072, 12, 12, 0, 16, RVIT_ACTIVATION_GELU_TANH, 1e-6, RVIT_POOLING_MAP, RVIT_POSITION_TABLE, 0,
     RVIT_RESAMPLE_BILINEAR_ANTIALIAS},
    {"dinov2", NULL, 768, 0, 12, 12, 224, 14, RVIT_ACTIVATION_GELU, 1e-6, RVIT_POOLING_CLS_MEAN, RVIT_POSITION_TABLE, 0,
     RVIT_RESAMPLE_BICUBIC},
    {"dinov2_with_registers", NULL, 768, 0, 12, 12, 224, 14, RVIT_ACTIVATION_GELU, 1e-6, RVIT_POOLING_CLS_MEAN, RVIT_POSITION_TABLE, 0,
     RVIT_RESAMPLE_TIMM},
    {"dinov3_vit", NULL, 384, 1536, 12, 6, 224, 16, RVIT_ACTIVATION_GELU, 1e-5, RVIT_POOLING_CLS, RVIT_POSITION_ROPE, 0,
     RVIT_RESAMPLE_DEFAULT},
    {"aimv2_vision_model", "aimv2", 1024, 2816, 24, 8, 224, 14, RVIT_ACTIVATION_SILU, 1e-5, RVIT_POOLING_MAP, RVIT_POSITION_TABLE, 1,
     RVIT_RESAMPLE_BICUBIC},
    /* The class of the first says 3584 columns; no published tower has them. */
    {"qwen2_5_vl_vision", "qwen2_5_vl", 0, 3420, 32, 16, 0, 14, RVIT_ACTIVATION_SILU, 1e-6, RVIT_POOLING_NONE, RVIT_POSITION_ROPE, 1,
     RVIT_RESAMPLE_DEFAULT},
    {"qwen3_vl_vision", "qwen3_vl", 1152, 4304, 27, 16, 0, 16, RVIT_ACTIVATION_GELU_TANH, 1e-6, RVIT_POOLING_NONE, RVIT_POSITION_BOTH, 0,
     RVIT_RESAMPLE_ALIGN_CORNERS},
    {"qwen3_vl_moe_vision", "qwen3_vl_moe", 1152, 4304, 27, 16, 0, 16, RVIT_ACTIVATION_GELU_TANH, 1e-6, RVIT_POOLING_NONE,
     RVIT_POSITION_BOTH, 0, RVIT_RESAMPLE_ALIGN_CORNERS},
};

static const model_type *find_type(const char *name, int outer)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *own = outer ? types[i].outer : types[i].name;
        if (own != NULL && strcmp(own, name) == 0)
            return &types[i];
    }
    return NULL;
}

static void set_default(const rvit_config_reader *r, rvit_fact fact, double value, const char *where)
{
    if (value > 0)
        rvit_facts_set(r->facts, fact, value, where);
}

static void set_defaults(const rvit_config_reader *r, const model_type *type)
{
    char where[RVIT_FACT_WHERE];
    const double image[2] = {type->image, type->image};
    snprintf(where, sizeof where, "%s: the default of model_type '%s'", r->name, type->name);
    set_default(r, RVIT_FACT_DIM, type->dim, where);
    set_default(r, RVIT_FACT_MLP, type->mlp, where);
    set_default(r, RVIT_FACT_DEPTH, type->depth, where);
    set_default(r, RVIT_FACT_HEADS, type->heads, where);
    set_default(r, RVIT_FACT_PATCH, type->patch, where);
    if (type->image > 0)
        rvit_facts_set_several(r->facts, RVIT_FACT_IMAGE, image, 2, where);
    set_default(r, RVIT_FACT_ACTIVATION, type->activation, where);
    set_default(r, RVIT_FACT_EPS, type->eps, where);
    set_default(r, RVIT_FACT_RESAMPLE, type->resample, where);
    /* These are the class's own, which no field changes. */
    set_default(r, RVIT_FACT_POOLING, type->pooling, where);
    rvit_facts_set(r->facts, RVIT_FACT_POSITION, type->position, where);
    rvit_facts_set(r->facts, RVIT_FACT_RMS_NORM, type->rms_norm, where);
    rvit_facts_set(r->facts, RVIT_FACT_GATED, strcmp(type->name, "aimv2_vision_model") == 0 || strcmp(type->name, "qwen2_5_vl_vision") == 0,
                   where);
    rvit_facts_set(r->facts, RVIT_FACT_PATCH_NORM, strcmp(type->name, "aimv2_vision_model") == 0, where);
    rvit_facts_set(r->facts, RVIT_FACT_CLS, type->pooling != RVIT_POOLING_MAP && type->pooling != RVIT_POOLING_NONE, where);
    rvit_facts_set(r->facts, RVIT_FACT_BLOCK, RVIT_BLOCK_PRE_NORM, where);
    rvit_facts_set(r->facts, RVIT_FACT_ROWS, strcmp(type->name, "siglip2_vision_model") == 0, where);
}

/* DINOv3's are rotated so; rope_theta alone is the file's. Qwen's have fields of their own. */
static rvit_status read_rotation(const rvit_config_reader *r, const rvit_json *vision, const model_type *type)
{
    static const double none[2];
    char where[RVIT_FACT_WHERE];
    if (rvit_config_is_qwen(type->name))
        return rvit_config_qwen(r, vision, type->name);
    if (type->position != RVIT_POSITION_ROPE)
        return RVIT_OK;
    RVIT_TRY(rvit_config_number_fact(r, vision, "rope_theta", RVIT_FACT_ROPE_BASE));
    snprintf(where, sizeof where, "%s: the default of model_type '%s'", r->name, type->name);
    rvit_facts_set(r->facts, RVIT_FACT_ROPE_BASE, 100, where);
    rvit_facts_set(r->facts, RVIT_FACT_ROPE_COORDINATES, RVIT_ROPE_CENTRED, where);
    rvit_facts_set(r->facts, RVIT_FACT_ROPE_ORDER, RVIT_ROPE_YX, where);
    rvit_facts_set(r->facts, RVIT_FACT_ROPE_OFFSET, 0, where);
    rvit_facts_set_several(r->facts, RVIT_FACT_ROPE_REFERENCE, none, 2, where);
    rvit_facts_set(r->facts, RVIT_FACT_ROPE_LAYOUT, RVIT_ROPE_HALF, where);
    return RVIT_OK;
}

/* SigLIP2's and Qwen3-VL's tell the patches of the position table, which is a square, in place of an image size. */
static rvit_status read_num_patches(const rvit_config_reader *r, const rvit_json *vision, const model_type *type)
{
    char where[RVIT_FACT_WHERE];
    const int siglip = strcmp(type->name, "siglip2_vision_model") == 0, qwen = type->resample == RVIT_RESAMPLE_ALIGN_CORNERS;
    const char *field = siglip ? "num_patches" : "num_position_embeddings";
    int64_t n = siglip ? 256 : 2304, edge = 1;
    if (!siglip && !qwen)
        return RVIT_OK;
    RVIT_TRY(rvit_config_integer(r, vision, field, 1, 1 << 20, &n));
    while (edge < 1 << 12 && edge * edge < n)
        edge++;
    if (edge * edge != n)
        return rvit_fail(RVIT_BAD_FILE, "%s: %s%s is %d, expected a square", r->path, r->section, field, (int)n);
    const double patch = r->facts->of[RVIT_FACT_PATCH].given ? r->facts->of[RVIT_FACT_PATCH].value[0] : type->patch;
    const double size[2] = {(double)edge * patch, (double)edge * patch};
    rvit_facts_set_several(r->facts, RVIT_FACT_IMAGE, size, 2, rvit_config_where_default(r, vision, field, where));
    return RVIT_OK;
}

/* Fields that the classes of several types share, some under two names. */
static rvit_status read_common(const rvit_config_reader *r, const rvit_json *vision, const model_type *type)
{
    static const struct {
        const char *key;
        rvit_fact fact;
    } integers[] = {
        {"hidden_size", RVIT_FACT_DIM},           {"intermediate_size", RVIT_FACT_MLP},    {"num_hidden_layers", RVIT_FACT_DEPTH},
        {"num_attention_heads", RVIT_FACT_HEADS}, {"num_channels", RVIT_FACT_CHANNELS},    {"in_chans", RVIT_FACT_CHANNELS},
        {"patch_size", RVIT_FACT_PATCH},          {"spatial_patch_size", RVIT_FACT_PATCH}, {"num_register_tokens", RVIT_FACT_REGISTERS}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        /* DINOv2's class has a mlp_ratio; an intermediate_size in its file means nothing to it. */
        if (type->mlp == 0 && integers[i].fact == RVIT_FACT_MLP)
            continue;
        if (integers[i].fact == RVIT_FACT_REGISTERS && strcmp(type->name, "dinov2_with_registers") != 0 &&
            strcmp(type->name, "dinov3_vit") != 0)
            continue;
        RVIT_TRY(rvit_config_integer_fact(r, vision, integers[i].key, integers[i].fact));
    }
    RVIT_TRY(read_num_patches(r, vision, type));
    if (rvit_config_is_qwen(type->name))
        return RVIT_OK; /* which have neither */
    RVIT_TRY(rvit_config_size_fact(r, vision, "image_size", RVIT_FACT_IMAGE));
    return rvit_config_number_fact(r, vision, type->rms_norm ? "rms_norm_eps" : "layer_norm_eps", RVIT_FACT_EPS);
}

/* Fields that change what a class computes. */
static rvit_status read_special(const rvit_config_reader *r, const rvit_json *vision, const model_type *type)
{
    char where[RVIT_FACT_WHERE];
    int32_t gated = 0, has_head = 1, native = 0;
    RVIT_TRY(rvit_config_bool(r, vision, "use_swiglu_ffn", &gated));
    if (gated && strncmp(type->name, "dinov2", 6) == 0) {
        rvit_facts_set(r->facts, RVIT_FACT_ACTIVATION, RVIT_ACTIVATION_SILU, rvit_config_where(r, "use_swiglu_ffn", where));
        rvit_facts_set(r->facts, RVIT_FACT_GATED, 1, where);
    }
    gated = 0;
    RVIT_TRY(rvit_config_bool(r, vision, "use_gated_mlp", &gated));
    if (gated && strcmp(type->name, "dinov3_vit") == 0)
        rvit_facts_set(r->facts, RVIT_FACT_GATED, 1, rvit_config_where(r, "use_gated_mlp", where));
    const int aimv2 = strcmp(type->name, "aimv2_vision_model") == 0;
    const char *use_head = aimv2 ? "use_head" : "vision_use_head";
    RVIT_TRY(rvit_config_bool(r, vision, use_head, &has_head));
    if (!has_head)
        rvit_facts_set(r->facts, RVIT_FACT_POOLING, RVIT_POOLING_NONE, rvit_config_where(r, use_head, where));
    RVIT_TRY(rvit_config_bool(r, vision, "is_native", &native));
    if (aimv2 && native) {
        rvit_obstacles_feature(r->obstacles, RVIT_FEATURE_SINES, rvit_config_where(r, "is_native", where));
        rvit_facts_set(r->facts, RVIT_FACT_POSITION, RVIT_POSITION_NONE, where);
    }
    return rvit_config_activation_fact(r, vision, "hidden_act", RVIT_FACT_ACTIVATION);
}

/* A classifier on top of CLIP or SigLIP averages; the weights say whether there is one. */
static rvit_status read_classes(const rvit_config_reader *r, const rvit_json *root)
{
    char where[RVIT_FACT_WHERE];
    const rvit_json *classes = rvit_config_get(root, "architectures"), *first = classes;
    if (classes == NULL)
        return RVIT_OK;
    if (classes->type == RVIT_JSON_ARRAY)
        first = rvit_json_first(classes);
    if (first == NULL || first->type != RVIT_JSON_STRING)
        return rvit_fail(RVIT_BAD_FILE, "%s: architectures is not a list of names", r->path);
    char shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, first->string);
    rvit_facts_set_text(r->facts, RVIT_FACT_ARCHITECTURE, shown, rvit_config_where(r, "architectures", where));
    if (strcmp(first->string, "CLIPForImageClassification") == 0)
        rvit_facts_set(r->facts, RVIT_FACT_POOLING, RVIT_POOLING_MEAN_RAW, where);
    if (strcmp(first->string, "SiglipForImageClassification") == 0 || strcmp(first->string, "Siglip2ForImageClassification") == 0)
        rvit_facts_set(r->facts, RVIT_FACT_POOLING, RVIT_POOLING_MEAN, where);
    return RVIT_OK;
}

rvit_status rvit_config_hf(const rvit_config_reader *reader, const rvit_json *root)
{
    rvit_config_reader r = *reader;
    const char *name = NULL, *own = NULL;
    const rvit_json *vision = NULL;
    RVIT_TRY(rvit_config_string(&r, root, "model_type", &name));
    RVIT_TRY(rvit_config_object(&r, root, "vision_config", &vision));
    if (name == NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s: model_type is missing", r.path);
    const model_type *type = find_type(name, 1);
    if (vision != NULL) {
        r.section = "vision_config.";
        RVIT_TRY(rvit_config_string(&r, vision, "model_type", &own));
        if (own != NULL && type == NULL)
            type = find_type(own, 0);
        if (own != NULL && type == NULL)
            type = find_type(own, 1); /* older files name both alike */
    } else {
        vision = root;
        if (type == NULL)
            type = find_type(name, 0);
    }
    if (type == NULL) {
        char shown[SHOWN_NAME];
        rvit_printable(shown, sizeof shown, own != NULL ? own : name);
        rvit_obstacles_add(r.obstacles, "%s: model_type '%s' is not known here", r.name, shown);
        return RVIT_OK;
    }
    RVIT_TRY(read_classes(reader, root));
    RVIT_TRY(read_special(&r, vision, type));
    RVIT_TRY(read_common(&r, vision, type));
    RVIT_TRY(read_rotation(&r, vision, type));
    set_defaults(&r, type);
    return RVIT_OK;
}
