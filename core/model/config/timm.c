/* timm's config.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/read.h"
#include "core/model/config/timm_names.h"
#include "core/model/rope_table.h"

enum { SHOWN_NAME = 64 };

static int is_one_of(const char *key, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, key) == 0)
            return 1;
    return 0;
}

static int is_field(const char *key, const rvit_config_word *fields)
{
    while (fields->word != NULL && strcmp(fields->word, key) != 0)
        fields++;
    return fields->word != NULL;
}

static rvit_status read_pooling(const rvit_config_reader *r, const rvit_json *object)
{
    static const rvit_config_word words[] = {
        {"token", RVIT_POOLING_CLS}, {"avg", RVIT_POOLING_MEAN}, {"map", RVIT_POOLING_MAP}, {"", RVIT_POOLING_NONE}, {NULL, 0}};
    const char *name = NULL;
    RVIT_TRY(rvit_config_string(r, object, "global_pool", &name));
    if (r->facts->of[RVIT_FACT_POOLING].known)
        return RVIT_OK;
    return rvit_config_word_fact(r, object, "global_pool", RVIT_FACT_POOLING, words, 1);
}

/* EVA's gated MLP always uses SiLU, even if act_layer differs. */
static rvit_status read_gate(const rvit_config_reader *r, const rvit_json *args)
{
    char where[RVIT_FACT_WHERE];
    int32_t gated = -1;
    RVIT_TRY(rvit_config_bool(r, args, "swiglu_mlp", &gated));
    if (gated < 0)
        return RVIT_OK;
    rvit_facts_set(r->facts, RVIT_FACT_GATED, gated, rvit_config_where(r, "swiglu_mlp", where));
    if (gated)
        rvit_facts_set(r->facts, RVIT_FACT_ACTIVATION, RVIT_ACTIVATION_SILU, where);
    return RVIT_OK;
}

static rvit_status read_rotation(const rvit_config_reader *r, const rvit_json *args)
{
    static const rvit_config_word orders[] = {{"ij", RVIT_ROPE_YX}, {"xy", RVIT_ROPE_XY}, {NULL, 0}};
    static const rvit_config_word coordinates[] = {{"cat", RVIT_ROPE_INDEX}, {"dinov3", RVIT_ROPE_CENTRED}, {NULL, 0}};
    static const double none[2];
    char where[RVIT_FACT_WHERE];
    int32_t half = -1;
    const rvit_json *reference = rvit_json_get(args, "ref_feat_shape");
    RVIT_TRY(rvit_config_number_fact(r, args, "rope_temperature", RVIT_FACT_ROPE_BASE));
    RVIT_TRY(rvit_config_integer_fact(r, args, "rope_grid_offset", RVIT_FACT_ROPE_OFFSET));
    RVIT_TRY(rvit_config_size_fact(r, args, "ref_feat_shape", RVIT_FACT_ROPE_REFERENCE));
    if (reference != NULL && reference->type == RVIT_JSON_NULL)
        rvit_facts_set_several(r->facts, RVIT_FACT_ROPE_REFERENCE, none, 2, rvit_config_where(r, "ref_feat_shape", where));
    RVIT_TRY(rvit_config_bool(r, args, "rope_rotate_half", &half));
    if (half >= 0)
        rvit_facts_set(r->facts, RVIT_FACT_ROPE_LAYOUT, half ? RVIT_ROPE_HALF : RVIT_ROPE_INTERLEAVED,
                       rvit_config_where(r, "rope_rotate_half", where));
    RVIT_TRY(rvit_config_word_fact(r, args, "rope_grid_indexing", RVIT_FACT_ROPE_ORDER, orders, 0));
    return rvit_config_word_fact(r, args, "rope_type", RVIT_FACT_ROPE_COORDINATES, coordinates, 0);
}

/* Whether a part exists: a boolean; for layer scale, its initial value or null. A null fc_norm is timm's default, the same as an absent
   one. */
static rvit_status read_part(const rvit_config_reader *r, const rvit_json *args, const char *key, rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    const rvit_json *value = rvit_json_get(args, key);
    int32_t present = -1;
    if (value == NULL || (value->type == RVIT_JSON_NULL && fact != RVIT_FACT_LAYER_SCALE))
        return RVIT_OK;
    if (fact == RVIT_FACT_LAYER_SCALE)
        present = value->type == RVIT_JSON_INTEGER || value->type == RVIT_JSON_REAL;
    else
        RVIT_TRY(rvit_config_bool(r, args, key, &present));
    rvit_facts_set(r->facts, fact, present, rvit_config_where(r, key, where));
    return RVIT_OK;
}

/* Arguments that override those of the architecture. One that is in none of the lists may change the computation. */
static rvit_status read_model_args(const rvit_config_reader *reader, const rvit_json *args)
{
    static const rvit_config_word norms[] = {{"layernorm", 0}, {"rmsnorm", 1}, {NULL, 0}};
    static const rvit_config_word positions[] = {
        {"table", RVIT_POSITION_TABLE}, {"rope", RVIT_POSITION_ROPE}, {"both", RVIT_POSITION_BOTH}, {NULL, 0}};
    static const rvit_config_word integers[] = {{"num_heads", RVIT_FACT_HEADS},
                                                {"embed_dim", RVIT_FACT_DIM},
                                                {"depth", RVIT_FACT_DEPTH},
                                                {"in_chans", RVIT_FACT_CHANNELS},
                                                {"num_classes", RVIT_FACT_CLASSES},
                                                {"reg_tokens", RVIT_FACT_REGISTERS},
                                                {"patch_size", RVIT_FACT_PATCH},
                                                {"num_reg_tokens", RVIT_FACT_REGISTERS},
                                                {"attn_pool_num_heads", RVIT_FACT_MAP_HEADS},
                                                {NULL, 0}};
    static const rvit_config_word parts[] = {{"class_token", RVIT_FACT_CLS},         {"pool_include_prefix", RVIT_FACT_POOL_PREFIX},
                                             {"fc_norm", RVIT_FACT_FC_NORM},         {"final_norm", RVIT_FACT_FINAL_NORM},
                                             {"pre_norm", RVIT_FACT_NORM_PRE},       {"qkv_bias", RVIT_FACT_QKV_BIAS},
                                             {"init_values", RVIT_FACT_LAYER_SCALE}, {NULL, 0}};
    /* Shown by the tensors, read elsewhere, or relevant only in training. */
    static const char *const others[] = {"img_size",
                                         "act_layer",
                                         "global_pool",
                                         "mlp_ratio",
                                         "no_embed_class",
                                         "drop_rate",
                                         "drop_path_rate",
                                         "pos_drop_rate",
                                         "proj_drop_rate",
                                         "attn_drop_rate",
                                         "patch_drop_rate",
                                         "weight_init",
                                         "fix_init",
                                         "dynamic_img_size",
                                         "strict_img_size",
                                         "qk_norm",
                                         "scale_mlp",
                                         "scale_attn_inner",
                                         "norm_layer",
                                         "pos_embed_grid_size",
                                         "qkv_fused",
                                         "swiglu_mlp",
                                         "swiglu_align_to",
                                         "attn_pool_act_layer",
                                         "norm_eps",
                                         "position",
                                         "attn_pool_mlp_ratio",
                                         "rope_temperature",
                                         "rope_grid_offset",
                                         "ref_feat_shape",
                                         "rope_rotate_half",
                                         "rope_grid_indexing",
                                         "rope_type",
                                         "rope_shift_coords",
                                         "rope_jitter_coords",
                                         "rope_rescale_coords",
                                         NULL};
    rvit_config_reader r = *reader;
    r.section = "model_args.";
    for (const rvit_config_word *field = integers; field->word != NULL; field++)
        RVIT_TRY(rvit_config_integer_fact(&r, args, field->word, (rvit_fact)field->value));
    RVIT_TRY(rvit_config_size_fact(&r, args, "img_size", RVIT_FACT_IMAGE));
    RVIT_TRY(read_gate(&r, args));
    RVIT_TRY(rvit_config_word_fact(&r, args, "norm_layer", RVIT_FACT_RMS_NORM, norms, 0));
    RVIT_TRY(rvit_config_activation_fact(&r, args, "act_layer", RVIT_FACT_ACTIVATION));
    /* Not a timm argument: the Python package writes it for a module. */
    RVIT_TRY(rvit_config_activation_fact(&r, args, "attn_pool_act_layer", RVIT_FACT_MAP_ACTIVATION));
    for (const rvit_config_word *field = parts; field->word != NULL; field++)
        RVIT_TRY(read_part(&r, args, field->word, (rvit_fact)field->value));
    /* Not timm arguments either. */
    RVIT_TRY(rvit_config_number_fact(&r, args, "norm_eps", RVIT_FACT_EPS));
    RVIT_TRY(rvit_config_word_fact(&r, args, "position", RVIT_FACT_POSITION, positions, 0));
    RVIT_TRY(read_pooling(&r, args));
    RVIT_TRY(read_rotation(&r, args));
    for (const rvit_json *value = rvit_json_first(args); value != NULL; value = rvit_json_next(args, value))
        if (!is_field(value->key, integers) && !is_field(value->key, parts) && !is_one_of(value->key, others) &&
            value->type != RVIT_JSON_NULL)
            rvit_config_unsupported(&r, value->key);
    return RVIT_OK;
}

/* Absent fields have timm's defaults. */
static rvit_status read_filter(const rvit_config_reader *r, const rvit_json *object)
{
    char where[RVIT_FACT_WHERE];
    const char *name = NULL;
    RVIT_TRY(rvit_config_string(r, object, "interpolation", &name));
    rvit_facts_set(r->facts, RVIT_FACT_FILTER,
                   name == NULL || strcmp(name, "bicubic") == 0 ? RVIT_FILTER_BICUBIC
                   : strcmp(name, "bilinear") == 0              ? RVIT_FILTER_BILINEAR
                                                                : RVIT_FILTER_OTHER,
                   rvit_config_where_default(r, object, "interpolation", where));
    if (name != NULL && rvit_facts_integer(r->facts, RVIT_FACT_FILTER) == RVIT_FILTER_OTHER)
        rvit_printable(r->facts->of[RVIT_FACT_FILTER].text, RVIT_FACT_TEXT, name);
    name = NULL;
    RVIT_TRY(rvit_config_string(r, object, "crop_mode", &name));
    rvit_facts_set(r->facts, RVIT_FACT_FIT,
                   name == NULL || strcmp(name, "center") == 0 ? RVIT_FIT_CROP
                   : strcmp(name, "squash") == 0               ? RVIT_FIT_SQUASH
                   : strcmp(name, "border") == 0               ? RVIT_FIT_BORDER
                                                               : RVIT_FIT_OTHER,
                   rvit_config_where_default(r, object, "crop_mode", where));
    double crop = 0, fill[3];
    RVIT_TRY(rvit_config_number(r, object, "crop_pct", &crop));
    if (crop > 1)
        return rvit_fail(RVIT_BAD_FILE, "%s: %scrop_pct is %g, expected at most 1", r->path, r->section, crop);
    rvit_facts_set(r->facts, RVIT_FACT_CROP, crop > 0 ? crop : 0.875, rvit_config_where_default(r, object, "crop_pct", where));
    if (rvit_facts_integer(r->facts, RVIT_FACT_FIT) == RVIT_FIT_BORDER) {
        for (int i = 0; i < 3; i++)
            fill[i] = rint(255 * r->facts->of[RVIT_FACT_MEAN].value[i]);
        rvit_facts_set_several(r->facts, RVIT_FACT_FILL, fill, 3, rvit_config_where(r, "mean", where));
    }
    rvit_facts_set(r->facts, RVIT_FACT_PROCESSOR, RVIT_PROCESSOR_TIMM, r->name);
    return RVIT_OK;
}

/* Some weights were trained with quick GELU although their architecture's name implies exact GELU; notes and tags say so. */
static rvit_status read_notes(const rvit_config_reader *r, const rvit_json *cfg, const char *architecture)
{
    char where[RVIT_FACT_WHERE];
    const char *tag = NULL;
    const rvit_json *notes = rvit_config_get(cfg, "notes");
    int quick = 0;
    if (notes != NULL && notes->type == RVIT_JSON_STRING)
        quick = strstr(notes->string, "QuickGELU") != NULL;
    else if (notes != NULL && notes->type == RVIT_JSON_ARRAY)
        for (const rvit_json *note = rvit_json_first(notes); note != NULL; note = rvit_json_next(notes, note))
            quick |= note->type == RVIT_JSON_STRING && strstr(note->string, "QuickGELU") != NULL;
    RVIT_TRY(rvit_config_string(r, cfg, "tag", &tag));
    if (strstr(architecture, "_clip_") == NULL)
        return RVIT_OK;
    if (quick)
        rvit_facts_set(r->facts, RVIT_FACT_ACTIVATION, RVIT_ACTIVATION_QUICK_GELU, rvit_config_where(r, "notes", where));
    else if (tag != NULL && strstr(tag, "dfn2b") != NULL && strstr(tag, "s39b") == NULL)
        rvit_facts_set(r->facts, RVIT_FACT_ACTIVATION, RVIT_ACTIVATION_QUICK_GELU, rvit_config_where(r, "tag", where));
    return RVIT_OK;
}

/* timm's NaFlexViT models are used with the number of patches of their input size; no file has another number. */
static void set_max_patches(const rvit_config_reader *r, const double size[2], const char *architecture)
{
    char where[RVIT_FACT_WHERE];
    const char *named = strstr(architecture, "_patch");
    double patch = named != NULL ? strtod(named + strlen("_patch"), NULL) : 0;
    if (r->facts->of[RVIT_FACT_PATCH].known)
        patch = r->facts->of[RVIT_FACT_PATCH].value[0];
    if (strncmp(architecture, "naflexvit_", strlen("naflexvit_")) == 0 && patch >= 1 && size[0] >= patch && size[1] >= patch)
        rvit_facts_set(r->facts, RVIT_FACT_MAX_PATCHES, floor(size[0] / patch) * floor(size[1] / patch),
                       rvit_config_where(r, "input_size", where));
}

static rvit_status read_pretrained(const rvit_config_reader *reader, const rvit_json *cfg, const char *architecture)
{
    rvit_config_reader r = *reader;
    char where[RVIT_FACT_WHERE];
    double size[2];
    int32_t given;
    r.section = "pretrained_cfg.";
    RVIT_TRY(rvit_config_colours_fact(&r, cfg, "mean", 0, RVIT_FACT_MEAN));
    RVIT_TRY(rvit_config_colours_fact(&r, cfg, "std", 1e-3, RVIT_FACT_STD));
    RVIT_TRY(read_filter(&r, cfg));
    RVIT_TRY(rvit_config_size(&r, cfg, "input_size", size, &given));
    /* Models fine-tuned at another size keep the old input_size; if it is square, the tensors are more trustworthy. */
    if (given)
        rvit_facts_set_several(r.facts, size[0] != size[1] ? RVIT_FACT_IMAGE : RVIT_FACT_INPUT, size, 2,
                               rvit_config_where(&r, "input_size", where));
    if (given)
        set_max_patches(&r, size, architecture);
    return read_notes(&r, cfg, architecture);
}

rvit_status rvit_config_timm(const rvit_config_reader *r, const rvit_json *root)
{
    char where[RVIT_FACT_WHERE], shown[SHOWN_NAME];
    const char *architecture = NULL;
    const rvit_json *args = NULL, *cfg = NULL;
    RVIT_TRY(rvit_config_string(r, root, "architecture", &architecture));
    RVIT_TRY(rvit_config_object(r, root, "model_args", &args));
    RVIT_TRY(rvit_config_object(r, root, "pretrained_cfg", &cfg));
    if (architecture == NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s: architecture is missing", r->path);
    rvit_printable(shown, sizeof shown, architecture);
    rvit_facts_set_text(r->facts, RVIT_FACT_ARCHITECTURE, shown, rvit_config_where(r, "architecture", where));
    if (args != NULL)
        RVIT_TRY(read_model_args(r, args));
    RVIT_TRY(read_pooling(r, root));
    RVIT_TRY(rvit_config_integer_fact(r, root, "num_classes", RVIT_FACT_CLASSES));
    if (cfg != NULL)
        RVIT_TRY(read_pretrained(r, cfg, architecture));
    snprintf(where, sizeof where, "%s: architecture '%s'", r->name, shown);
    (void)rvit_timm_name_facts(architecture, r->facts, where);
    return RVIT_OK;
}
