/* The vision_config of Qwen2.5-VL and Qwen3-VL: the fields that other vision encoders lack. */
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"
#include "core/model/config/model_type.h"

/* Sets a fact to a list of block numbers; default_value: the default. */
static rvit_status read_blocks(const rvit_config_reader *r, const rvit_json *vision, const char *field,
                               const rvit_block_list *default_value, rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    const rvit_json *value = rvit_config_get(vision, field);
    rvit_block_list list = {0};
    rvit_config_where_default(r, vision, field, where);
    if (value == NULL) {
        rvit_facts_set_blocks(r->facts, fact, default_value, where);
        return RVIT_OK;
    }
    if (value->type != RVIT_JSON_ARRAY)
        return rvit_fail(RVIT_BAD_FILE, "%s: %s%s is not a list of blocks", r->path, r->section, field);
    if (value->n > RVIT_BLOCK_LIST)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s%s lists %d blocks, but at most %d are supported", r->path, r->section, field,
                         (int)value->n, RVIT_BLOCK_LIST);
    for (const rvit_json *item = rvit_json_first(value); item != NULL; item = rvit_json_next(value, item)) {
        if (item->type != RVIT_JSON_INTEGER || item->integer < 0 || item->integer > 1 << 20)
            return rvit_fail(RVIT_BAD_FILE, "%s: %s%s is not a list of blocks", r->path, r->section, field);
        list.blocks[list.n++] = (int32_t)item->integer;
    }
    rvit_facts_set_blocks(r->facts, fact, &list, where);
    return RVIT_OK;
}

static rvit_status read_number(const rvit_config_reader *r, const rvit_json *vision, const char *field, int32_t default_value,
                               rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    int64_t value = default_value;
    RVIT_TRY(rvit_config_integer(r, vision, field, 1, 1 << 20, &value));
    rvit_facts_set(r->facts, fact, (double)value, rvit_config_where_default(r, vision, field, where));
    return RVIT_OK;
}

/* Rotary coordinates are the line and the column, independent of the grid. */
static rvit_status read_rotation(const rvit_config_reader *r, const rvit_json *vision, const char *model_type)
{
    char where[RVIT_FACT_WHERE];
    const rvit_json *rope = NULL;
    const char *kind = NULL;
    RVIT_TRY(rvit_config_object(r, vision, "rope_parameters", &rope));
    if (rope != NULL) {
        char section[64];
        rvit_config_reader inner = *r;
        snprintf(section, sizeof section, "%srope_parameters.", r->section);
        inner.section = section;
        RVIT_TRY(rvit_config_number_fact(&inner, rope, "rope_theta", RVIT_FACT_ROPE_BASE));
        RVIT_TRY(rvit_config_string(&inner, rope, "rope_type", &kind));
        if (kind != NULL && strcmp(kind, "axial") != 0 && strcmp(kind, "default") != 0)
            rvit_config_unsupported(&inner, "rope_type");
    }
    RVIT_TRY(rvit_config_number_fact(r, vision, "rope_theta", RVIT_FACT_ROPE_BASE));
    snprintf(where, sizeof where, "%s: the default of model_type '%s'", r->name, model_type);
    rvit_facts_set_rotation(
        r->facts, &(rvit_rope_config){.base = 10000, .coordinates = RVIT_ROPE_INDEX, .order = RVIT_ROPE_YX, .layout = RVIT_ROPE_HALF},
        where);
    return RVIT_OK;
}

rvit_status rvit_config_qwen(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type)
{
    static const double any[2] = {448, 448};
    char where[RVIT_FACT_WHERE];
    RVIT_TRY(rvit_config_integer_fact(r, vision, "depth", RVIT_FACT_DEPTH));
    RVIT_TRY(rvit_config_integer_fact(r, vision, "num_heads", RVIT_FACT_HEADS));
    RVIT_TRY(rvit_config_integer_fact(r, vision, "in_channels", RVIT_FACT_CHANNELS));
    RVIT_TRY(read_number(r, vision, "spatial_merge_size", 2, RVIT_FACT_MERGE));
    RVIT_TRY(read_number(r, vision, "temporal_patch_size", 2, RVIT_FACT_FRAMES));
    RVIT_TRY(read_number(r, vision, "out_hidden_size", 3584, RVIT_FACT_MERGED));
    snprintf(where, sizeof where, "%s: the default of model_type '%s'", r->name, type->name);
    if (type->window > 0) {
        RVIT_TRY(read_number(r, vision, "window_size", type->window, RVIT_FACT_WINDOW));
        RVIT_TRY(read_blocks(r, vision, "fullatt_block_indexes", &type->full_blocks, RVIT_FACT_FULL_BLOCKS));
        rvit_facts_set_several(r->facts, RVIT_FACT_IMAGE, any, 2, "any; this is only the default of a session's capacity");
    } else {
        rvit_facts_set(r->facts, RVIT_FACT_WINDOW, 0, where);
    }
    if (type->deepstack.n > 0)
        RVIT_TRY(read_blocks(r, vision, "deepstack_visual_indexes", &type->deepstack, RVIT_FACT_DEEPSTACK));
    else
        rvit_facts_set_blocks(r->facts, RVIT_FACT_DEEPSTACK, &type->deepstack, where);
    return read_rotation(r, vision, type->name);
}
