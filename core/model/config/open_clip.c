/* open_clip's open_clip_config.json. */
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/read.h"
#include "core/model/config/timm_names.h"

enum { SHOWN_NAME = 64 };

/* open_clip's own vision encoder. A field that is not in the list may change the computation. */
static rvit_status read_encoder(const rvit_config_reader *r, const rvit_json *vision, int32_t quick)
{
    static const char *const known[] = {"layers",     "width",     "head_width",    "patch_size",
                                        "image_size", "mlp_ratio", "ls_init_value", "patch_dropout"};
    char where[RVIT_FACT_WHERE];
    int64_t width = 0, head_width = 64;
    for (const rvit_json *value = rvit_json_first(vision); value != NULL; value = rvit_json_next(vision, value)) {
        int found = value->type == RVIT_JSON_NULL || value->type == RVIT_JSON_FALSE;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(known[i], value->key) == 0;
        if (!found)
            rvit_config_unsupported(r, value->key);
    }
    RVIT_TRY(rvit_config_integer(r, vision, "width", 1, 1 << 20, &width));
    RVIT_TRY(rvit_config_integer(r, vision, "head_width", 1, 1 << 16, &head_width));
    if (width > 0 && width % head_width != 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: %shead_width is %lld, expected a divisor of the width %lld", r->path, r->section,
                         (long long)head_width, (long long)width);
    if (width > 0)
        rvit_facts_set(r->facts, RVIT_FACT_HEADS, (double)(width / head_width), rvit_config_where(r, "head_width", where));
    RVIT_TRY(rvit_config_integer_fact(r, vision, "width", RVIT_FACT_DIM));
    RVIT_TRY(rvit_config_integer_fact(r, vision, "layers", RVIT_FACT_DEPTH));
    RVIT_TRY(rvit_config_integer_fact(r, vision, "patch_size", RVIT_FACT_PATCH));
    RVIT_TRY(rvit_config_size_fact(r, vision, "image_size", RVIT_FACT_IMAGE));
    snprintf(where, sizeof where, "%s: model_cfg.quick_gelu", r->name);
    rvit_facts_set(r->facts, RVIT_FACT_ACTIVATION, quick ? RVIT_ACTIVATION_QUICK_GELU : RVIT_ACTIVATION_GELU, where);
    snprintf(where, sizeof where, "%s: true of all open_clip vision encoders", r->name);
    rvit_facts_set(r->facts, RVIT_FACT_EPS, 1e-5, where);
    rvit_facts_set(r->facts, RVIT_FACT_POOLING, RVIT_POOLING_CLS, where);
    rvit_facts_set(r->facts, RVIT_FACT_POSITION, RVIT_POSITION_TABLE, where);
    rvit_facts_set(r->facts, RVIT_FACT_RMS_NORM, 0, where);
    rvit_facts_set(r->facts, RVIT_FACT_GATED, 0, where);
    rvit_facts_set(r->facts, RVIT_FACT_CLS, 1, where);
    rvit_facts_set(r->facts, RVIT_FACT_BLOCK, RVIT_BLOCK_PRE_NORM, where);
    rvit_facts_set(r->facts, RVIT_FACT_RESAMPLE, RVIT_RESAMPLE_TIMM, where);
    return RVIT_OK;
}

/* A timm vision encoder, which ignores quick_gelu. */
static rvit_status read_timm_encoder(const rvit_config_reader *r, const rvit_json *vision, const char *architecture)
{
    char where[RVIT_FACT_WHERE], shown[SHOWN_NAME];
    const char *pool = NULL;
    rvit_printable(shown, sizeof shown, architecture);
    snprintf(where, sizeof where, "%s: timm_model_name '%s'", r->name, shown);
    rvit_facts_set_text(r->facts, RVIT_FACT_ARCHITECTURE, shown, where);
    RVIT_TRY(rvit_config_string(r, vision, "timm_pool", &pool));
    if (pool != NULL && strcmp(pool, "avg") == 0)
        rvit_facts_set(r->facts, RVIT_FACT_POOLING, RVIT_POOLING_MEAN, where);
    (void)rvit_timm_name_facts(architecture, r->facts, where);
    return RVIT_OK;
}

static rvit_status read_preprocessing(const rvit_config_reader *reader, const rvit_json *cfg)
{
    rvit_config_reader r = *reader;
    char where[RVIT_FACT_WHERE];
    const char *name = NULL, *mode = NULL;
    r.section = "preprocess_cfg.";
    RVIT_TRY(rvit_config_colours_fact(&r, cfg, "mean", 0, RVIT_FACT_MEAN));
    RVIT_TRY(rvit_config_colours_fact(&r, cfg, "std", 1e-3, RVIT_FACT_STD));
    RVIT_TRY(rvit_config_string(&r, cfg, "interpolation", &name));
    RVIT_TRY(rvit_config_string(&r, cfg, "resize_mode", &mode));
    /* Absent fields have open_clip's defaults. */
    rvit_facts_set(r.facts, RVIT_FACT_FILTER,
                   name == NULL || strcmp(name, "bicubic") == 0 ? RVIT_FILTER_BICUBIC
                   : strcmp(name, "bilinear") == 0              ? RVIT_FILTER_BILINEAR
                                                                : RVIT_FILTER_OTHER,
                   rvit_config_where_default(&r, cfg, "interpolation", where));
    rvit_facts_set(r.facts, RVIT_FACT_FIT,
                   mode == NULL || strcmp(mode, "shortest") == 0 ? RVIT_FIT_CROP
                   : strcmp(mode, "squash") == 0                 ? RVIT_FIT_SQUASH
                   : strcmp(mode, "longest") == 0                ? RVIT_FIT_BORDER
                                                                 : RVIT_FIT_OTHER,
                   rvit_config_where_default(&r, cfg, "resize_mode", where));
    rvit_facts_set(r.facts, RVIT_FACT_CROP, 1, rvit_config_where_default(&r, cfg, "resize_mode", where));
    int64_t fill = 0;
    RVIT_TRY(rvit_config_integer(&r, cfg, "fill_color", 0, 255, &fill));
    const double colour[3] = {(double)fill, (double)fill, (double)fill};
    if (rvit_facts_integer(r.facts, RVIT_FACT_FIT) == RVIT_FIT_BORDER)
        rvit_facts_set_several(r.facts, RVIT_FACT_FILL, colour, 3, rvit_config_where_default(&r, cfg, "fill_color", where));
    rvit_facts_set(r.facts, RVIT_FACT_PROCESSOR, RVIT_PROCESSOR_TIMM, r.name);
    return RVIT_OK;
}

rvit_status rvit_config_open_clip(const rvit_config_reader *reader, const rvit_json *root)
{
    rvit_config_reader r = *reader;
    const rvit_json *model = NULL, *vision = NULL, *preprocess = NULL;
    const char *architecture = NULL;
    int32_t quick = 0;
    RVIT_TRY(rvit_config_object(&r, root, "model_cfg", &model));
    RVIT_TRY(rvit_config_object(&r, root, "preprocess_cfg", &preprocess));
    if (model == NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s: model_cfg is missing", r.path);
    r.section = "model_cfg.";
    RVIT_TRY(rvit_config_object(&r, model, "vision_cfg", &vision));
    RVIT_TRY(rvit_config_bool(&r, model, "quick_gelu", &quick));
    if (vision == NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s: model_cfg.vision_cfg is missing", r.path);
    r.section = "model_cfg.vision_cfg.";
    RVIT_TRY(rvit_config_string(&r, vision, "timm_model_name", &architecture));
    RVIT_TRY(architecture != NULL ? read_timm_encoder(&r, vision, architecture) : read_encoder(&r, vision, quick));
    return preprocess == NULL ? RVIT_OK : read_preprocessing(reader, preprocess);
}
