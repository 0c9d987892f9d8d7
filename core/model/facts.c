#include "core/model/facts.h"

#include <stdio.h>
#include <string.h>

static const char *const names[RVIT_FACT_COUNT] = {[RVIT_FACT_ARCHITECTURE] = "name",
                                                   [RVIT_FACT_PREFIX] = "prefix",
                                                   [RVIT_FACT_HEADS] = "heads",
                                                   [RVIT_FACT_ACTIVATION] = "activation",
                                                   [RVIT_FACT_EPS] = "eps",
                                                   [RVIT_FACT_POOLING] = "pooling",
                                                   [RVIT_FACT_MAP_HEADS] = "pooling heads",
                                                   [RVIT_FACT_MAP_ACTIVATION] = "pooling activation",
                                                   [RVIT_FACT_POOL_PREFIX] = "pooling of prefix",
                                                   [RVIT_FACT_POSITION] = "position",
                                                   [RVIT_FACT_ROPE_BASE] = "rotary base",
                                                   [RVIT_FACT_ROPE_COORDINATES] = "rotary coordinates",
                                                   [RVIT_FACT_ROPE_ORDER] = "rotary axes",
                                                   [RVIT_FACT_ROPE_OFFSET] = "rotary offset",
                                                   [RVIT_FACT_ROPE_REFERENCE] = "rotary reference",
                                                   [RVIT_FACT_ROPE_LAYOUT] = "rotary pairs",
                                                   [RVIT_FACT_RMS_NORM] = "norm",
                                                   [RVIT_FACT_FINAL_NORM] = "final norm",
                                                   [RVIT_FACT_BLOCK] = "block",
                                                   [RVIT_FACT_RESAMPLE] = "resample",
                                                   [RVIT_FACT_ASPECT] = "shape of the table kept",
                                                   [RVIT_FACT_ROWS] = "channels last",
                                                   [RVIT_FACT_IMAGE] = "image",
                                                   [RVIT_FACT_INPUT] = "input",
                                                   [RVIT_FACT_MEAN] = "mean",
                                                   [RVIT_FACT_STD] = "std",
                                                   [RVIT_FACT_FILTER] = "filter",
                                                   [RVIT_FACT_FIT] = "fit",
                                                   [RVIT_FACT_CROP] = "crop",
                                                   [RVIT_FACT_PROCESSOR] = "processor",
                                                   [RVIT_FACT_FILL] = "fill",
                                                   [RVIT_FACT_PROCESSED] = "processed",
                                                   [RVIT_FACT_MAX_PATCHES] = "most patches",
                                                   [RVIT_FACT_PIXELS] = "pixels",
                                                   [RVIT_FACT_DIM] = "width",
                                                   [RVIT_FACT_DEPTH] = "depth",
                                                   [RVIT_FACT_MLP] = "mlp",
                                                   [RVIT_FACT_GATED] = "gate",
                                                   [RVIT_FACT_PATCH] = "patch",
                                                   [RVIT_FACT_CHANNELS] = "channels",
                                                   [RVIT_FACT_CLASSES] = "classes",
                                                   [RVIT_FACT_REGISTERS] = "registers",
                                                   [RVIT_FACT_CLS] = "CLS token",
                                                   [RVIT_FACT_PATCH_NORM] = "norm of the patches",
                                                   [RVIT_FACT_NORM_PRE] = "norm before the blocks",
                                                   [RVIT_FACT_FC_NORM] = "norm of what is pooled",
                                                   [RVIT_FACT_LAYER_SCALE] = "layer scale",
                                                   [RVIT_FACT_QKV_BIAS] = "bias of qkv",
                                                   [RVIT_FACT_MERGE] = "merge",
                                                   [RVIT_FACT_MERGED] = "merged width",
                                                   [RVIT_FACT_FRAMES] = "frames of a patch",
                                                   [RVIT_FACT_WINDOW] = "window",
                                                   [RVIT_FACT_FULL_BLOCKS] = "full attention",
                                                   [RVIT_FACT_DEEPSTACK] = "deepstack blocks"};

static const char *const activations[] = {"none", "GELU", "GELU (tanh)", "quick GELU", "SiLU"};
static const char *const poolings[] = {"unknown",
                                       "CLS row",
                                       "mean of the patches",
                                       "norm of the mean of the patches",
                                       "mean of the patches, no norm",
                                       "CLS row and mean",
                                       "attention pooling",
                                       "none"};
static const char *const positions[] = {"unknown", "table", "rotary", "table and rotary", "none"};
static const char *const coordinates[] = {"row and column", "centre, from -1 to 1"};
static const char *const orders[] = {"y, x", "x, y"};
static const char *const layouts[] = {"halves", "interleaved"};
static const char *const norms[] = {"LayerNorm", "RMSNorm"};
static const char *const answers[] = {"no", "yes"};
static const char *const final_norms[] = {"none", "after the last block"};
static const char *const blocks[] = {"unknown", "norm before", "norm after", "parallel", "of another kind"};
static const char *const resamples[] = {
    "default", "bicubic", "bilinear", "bicubic, antialiased", "bilinear, antialiased", "bilinear, corners aligned", "nearest"};
static const char *const filters[] = {"unknown", "bilinear", "bicubic", "another"};
static const char *const fits[] = {"unknown", "shorter edge, centre crop", "squash", "longer edge, border", "another"};
static const char *const processors[] = {"unknown", "timm's, on Pillow", "transformers', on torchvision",
                                         "transformers', on torchvision, in float32"};

/* The words for the values 0, 1, ... of a fact. */
static const char *const *words_of(rvit_fact fact, int32_t *out_n)
{
#define WORDS(list)                                     \
    {                                                   \
        *out_n = (int32_t)(sizeof list / sizeof *list); \
        return list;                                    \
    }
    switch (fact) {
    case RVIT_FACT_ACTIVATION:
    case RVIT_FACT_MAP_ACTIVATION:
        WORDS(activations);
    case RVIT_FACT_POOLING:
        WORDS(poolings);
    case RVIT_FACT_POSITION:
        WORDS(positions);
    case RVIT_FACT_GATED:
    case RVIT_FACT_CLS:
    case RVIT_FACT_POOL_PREFIX:
    case RVIT_FACT_PATCH_NORM:
    case RVIT_FACT_NORM_PRE:
    case RVIT_FACT_FC_NORM:
    case RVIT_FACT_LAYER_SCALE:
    case RVIT_FACT_QKV_BIAS:
    case RVIT_FACT_ASPECT:
    case RVIT_FACT_ROWS:
        WORDS(answers);
    case RVIT_FACT_ROPE_COORDINATES:
        WORDS(coordinates);
    case RVIT_FACT_ROPE_ORDER:
        WORDS(orders);
    case RVIT_FACT_ROPE_LAYOUT:
        WORDS(layouts);
    case RVIT_FACT_RMS_NORM:
        WORDS(norms);
    case RVIT_FACT_FINAL_NORM:
        WORDS(final_norms);
    case RVIT_FACT_BLOCK:
        WORDS(blocks);
    case RVIT_FACT_RESAMPLE:
        WORDS(resamples);
    case RVIT_FACT_FILTER:
        WORDS(filters);
    case RVIT_FACT_FIT:
        WORDS(fits);
    case RVIT_FACT_PROCESSOR:
        WORDS(processors);
    default:
        return NULL;
    }
#undef WORDS
}

void rvit_facts_set_several(rvit_facts *facts, rvit_fact fact, const double *values, int32_t n, const char *where)
{
    rvit_fact_value *f = &facts->of[fact];
    if (f->given)
        return;
    f->given = 1;
    size_t at = 0;
    for (int32_t i = 0; i < n && i < 3; i++) {
        f->value[i] = values[i];
        at += (size_t)snprintf(f->text + at, sizeof f->text - at, i == 0 ? "%.9g" : ", %.9g", values[i]);
    }
    int32_t n_words = 0;
    const char *const *words = words_of(fact, &n_words);
    if (words != NULL && values[0] >= 0 && values[0] < n_words)
        snprintf(f->text, sizeof f->text, "%s", words[(int32_t)values[0]]);
    snprintf(f->where, sizeof f->where, "%s", where);
}

void rvit_facts_set(rvit_facts *facts, rvit_fact fact, double value, const char *where)
{
    rvit_facts_set_several(facts, fact, &value, 1, where);
}

void rvit_facts_set_text(rvit_facts *facts, rvit_fact fact, const char *text, const char *where)
{
    rvit_fact_value *f = &facts->of[fact];
    if (f->given)
        return;
    f->given = 1;
    snprintf(f->text, sizeof f->text, "%s", text);
    snprintf(f->where, sizeof f->where, "%s", where);
}

static rvit_block_list *list_of(rvit_facts *facts, rvit_fact fact)
{
    return fact == RVIT_FACT_FULL_BLOCKS ? &facts->full_blocks : fact == RVIT_FACT_DEEPSTACK ? &facts->deepstack : NULL;
}

void rvit_facts_set_blocks(rvit_facts *facts, rvit_fact fact, const rvit_block_list *list, const char *where)
{
    char text[RVIT_FACT_TEXT] = "none";
    size_t at = 0;
    if (facts->of[fact].given)
        return;
    for (int32_t i = 0; i < list->n && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, i == 0 ? "%d" : ", %d", (int)list->blocks[i]);
    rvit_facts_set_text(facts, fact, text, where);
    *list_of(facts, fact) = *list;
}

void rvit_facts_set_rotation(rvit_facts *facts, const rvit_rope_config *rope, const char *where)
{
    rvit_facts_set(facts, RVIT_FACT_ROPE_BASE, rope->base, where);
    rvit_facts_set(facts, RVIT_FACT_ROPE_COORDINATES, rope->coordinates, where);
    rvit_facts_set(facts, RVIT_FACT_ROPE_ORDER, rope->order, where);
    rvit_facts_set(facts, RVIT_FACT_ROPE_OFFSET, rope->offset, where);
    rvit_facts_set_several(facts, RVIT_FACT_ROPE_REFERENCE, rope->reference, 2, where);
    rvit_facts_set(facts, RVIT_FACT_ROPE_LAYOUT, rope->layout, where);
}

void rvit_facts_join(rvit_facts *facts, const rvit_facts *others)
{
    for (int i = 0; i < RVIT_FACT_COUNT; i++) {
        if (facts->of[i].given)
            continue;
        facts->of[i] = others->of[i];
        if (i == RVIT_FACT_FULL_BLOCKS)
            facts->full_blocks = others->full_blocks;
        if (i == RVIT_FACT_DEEPSTACK)
            facts->deepstack = others->deepstack;
    }
}

int32_t rvit_facts_integer(const rvit_facts *facts, rvit_fact fact)
{
    return facts->of[fact].given ? (int32_t)facts->of[fact].value[0] : 0;
}

const char *rvit_fact_name(rvit_fact fact)
{
    return names[fact];
}

rvit_status rvit_fact_wrong(const rvit_fact_value *fact)
{
    return strncmp(fact->where, "given", 5) == 0 ? RVIT_INVALID_ARGUMENT : RVIT_BAD_FILE;
}
