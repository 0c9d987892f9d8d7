/* Hugging Face's config.json. Published files omit values that equal the defaults of the model's class. */
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/model_type.h"

enum { SHOWN_NAME = 64 };

static const rvit_model_type types[] = {
#define RVIT_MODEL_TYPE(name, outer, ...) {name, outer, __VA_ARGS__},
#include "core/model/families.def"
};
enum { N_TYPES = sizeof types / sizeof *types };

const rvit_model_type *rvit_model_type_find(const char *name, int outer)
{
    for (int i = 0; i < N_TYPES; i++) {
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

static void set_defaults(const rvit_config_reader *r, const rvit_model_type *type)
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
    /* Properties of the class that no field changes. */
    set_default(r, RVIT_FACT_POOLING, type->pooling, where);
    rvit_facts_set(r->facts, RVIT_FACT_POSITION, type->position, where);
    rvit_facts_set(r->facts, RVIT_FACT_RMS_NORM, type->rms_norm, where);
    rvit_facts_set(r->facts, RVIT_FACT_GATED, type->gated, where);
    rvit_facts_set(r->facts, RVIT_FACT_PATCH_NORM, type->patch_norm, where);
    rvit_facts_set(r->facts, RVIT_FACT_CLS, type->pooling != RVIT_POOLING_MAP && type->pooling != RVIT_POOLING_NONE, where);
    rvit_facts_set(r->facts, RVIT_FACT_BLOCK, RVIT_BLOCK_PRE_NORM, where);
    rvit_facts_set(r->facts, RVIT_FACT_ROWS, type->patch_rows, where);
}

/* DINOv3's rotary positions; the file has only rope_theta. */
static rvit_status read_rotation(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type)
{
    char where[RVIT_FACT_WHERE];
    if (type->read != NULL)
        return type->read(r, vision, type);
    if (type->position != RVIT_POSITION_ROPE)
        return RVIT_OK;
    RVIT_TRY(rvit_config_number_fact(r, vision, "rope_theta", RVIT_FACT_ROPE_BASE));
    snprintf(where, sizeof where, "%s: the default of model_type '%s'", r->name, type->name);
    rvit_facts_set_rotation(
        r->facts, &(rvit_rope_config){.base = 100, .coordinates = RVIT_ROPE_CENTRED, .order = RVIT_ROPE_YX, .layout = RVIT_ROPE_HALF},
        where);
    return RVIT_OK;
}

/* Some classes have the number of patches of a square position table instead of an image size. */
static rvit_status read_num_patches(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type)
{
    char where[RVIT_FACT_WHERE];
    const char *field = type->positions_field;
    int64_t n = type->positions, edge = 1;
    if (field == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_config_integer(r, vision, field, 1, 1 << 20, &n));
    while (edge < 1 << 12 && edge * edge < n)
        edge++;
    if (edge * edge != n)
        return rvit_fail(RVIT_BAD_FILE, "%s: %s%s is %d, expected a square number", r->path, r->section, field, (int)n);
    const double patch = r->facts->of[RVIT_FACT_PATCH].known ? r->facts->of[RVIT_FACT_PATCH].value[0] : type->patch;
    const double size[2] = {(double)edge * patch, (double)edge * patch};
    rvit_facts_set_several(r->facts, RVIT_FACT_IMAGE, size, 2, rvit_config_where_default(r, vision, field, where));
    return RVIT_OK;
}

/* Fields that the classes of several types share, some under two names. */
static rvit_status read_common(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type)
{
    static const struct {
        const char *key;
        rvit_fact fact;
    } integers[] = {
        {"hidden_size", RVIT_FACT_DIM},           {"intermediate_size", RVIT_FACT_MLP},    {"num_hidden_layers", RVIT_FACT_DEPTH},
        {"num_attention_heads", RVIT_FACT_HEADS}, {"num_channels", RVIT_FACT_CHANNELS},    {"in_chans", RVIT_FACT_CHANNELS},
        {"patch_size", RVIT_FACT_PATCH},          {"spatial_patch_size", RVIT_FACT_PATCH}, {"num_register_tokens", RVIT_FACT_REGISTERS}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        /* DINOv2's class has mlp_ratio and ignores an intermediate_size in its file. */
        if (type->mlp == 0 && integers[i].fact == RVIT_FACT_MLP)
            continue;
        if (integers[i].fact == RVIT_FACT_REGISTERS && !type->registers)
            continue;
        RVIT_TRY(rvit_config_integer_fact(r, vision, integers[i].key, integers[i].fact));
    }
    RVIT_TRY(read_num_patches(r, vision, type));
    if (type->read != NULL)
        return RVIT_OK; /* such classes have no image_size and no eps */
    RVIT_TRY(rvit_config_size_fact(r, vision, "image_size", RVIT_FACT_IMAGE));
    return rvit_config_number_fact(r, vision, type->rms_norm ? "rms_norm_eps" : "layer_norm_eps", RVIT_FACT_EPS);
}

/* Fields that change what a class computes. */
static rvit_status read_special(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type)
{
    char where[RVIT_FACT_WHERE];
    int32_t gated = 0, has_head = 1, sines = 0;
    if (type->gate_field != NULL)
        RVIT_TRY(rvit_config_bool(r, vision, type->gate_field, &gated));
    if (gated) {
        rvit_facts_set(r->facts, RVIT_FACT_GATED, 1, rvit_config_where(r, type->gate_field, where));
        set_default(r, RVIT_FACT_ACTIVATION, type->gate_activation, where);
    }
    if (type->head_field != NULL)
        RVIT_TRY(rvit_config_bool(r, vision, type->head_field, &has_head));
    if (!has_head)
        rvit_facts_set(r->facts, RVIT_FACT_POOLING, RVIT_POOLING_NONE, rvit_config_where(r, type->head_field, where));
    if (type->sines_field != NULL)
        RVIT_TRY(rvit_config_bool(r, vision, type->sines_field, &sines));
    if (sines) {
        rvit_unsupported_feature(r->unsupported, RVIT_FEATURE_SINES, rvit_config_where(r, type->sines_field, where));
        rvit_facts_set(r->facts, RVIT_FACT_POSITION, RVIT_POSITION_NONE, where);
    }
    return rvit_config_activation_fact(r, vision, "hidden_act", RVIT_FACT_ACTIVATION);
}

/* A classifier class may pool in its own way. The weights show whether there is a head. */
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
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].classifier != NULL && strcmp(first->string, types[i].classifier) == 0)
            rvit_facts_set(r->facts, RVIT_FACT_POOLING, types[i].classifier_pooling, where);
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
    const rvit_model_type *type = rvit_model_type_find(name, 1);
    if (vision != NULL) {
        r.section = "vision_config.";
        RVIT_TRY(rvit_config_string(&r, vision, "model_type", &own));
        if (own != NULL && type == NULL)
            type = rvit_model_type_find(own, 0);
        if (own != NULL && type == NULL)
            type = rvit_model_type_find(own, 1); /* older files use the outer name for both */
    } else {
        vision = root;
        if (type == NULL)
            type = rvit_model_type_find(name, 0);
    }
    if (type == NULL) {
        char shown[SHOWN_NAME];
        rvit_printable(shown, sizeof shown, own != NULL ? own : name);
        rvit_unsupported_add(r.unsupported, "%s: model_type '%s' is not supported", r.name, shown);
        return RVIT_OK;
    }
    RVIT_TRY(read_classes(reader, root));
    RVIT_TRY(read_special(&r, vision, type));
    RVIT_TRY(read_common(&r, vision, type));
    RVIT_TRY(read_rotation(&r, vision, type));
    set_defaults(&r, type);
    return RVIT_OK;
}
