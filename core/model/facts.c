#include "core/model/facts.h"

#include <stdio.h>
#include <string.h>

static const char *const activations[] = {"none", "GELU", "GELU (tanh)", "quick GELU", "SiLU", NULL};
static const char *const poolings[] = {"unknown",
                                       "CLS row",
                                       "mean of the patches",
                                       "norm of the mean of the patches",
                                       "mean of the patches, no norm",
                                       "CLS row and mean",
                                       "attention pooling",
                                       "none",
                                       NULL};
static const char *const positions[] = {"unknown", "table", "rotary", "table and rotary", "none", NULL};
static const char *const coordinates[] = {"row and column", "centre, from -1 to 1", NULL};
static const char *const orders[] = {"y, x", "x, y", NULL};
static const char *const layouts[] = {"halves", "interleaved", NULL};
static const char *const norms[] = {"LayerNorm", "RMSNorm", NULL};
static const char *const answers[] = {"no", "yes", NULL};
static const char *const final_norms[] = {"none", "after the last block", NULL};
static const char *const blocks[] = {"unknown", "norm before", "norm after", "parallel", "other", NULL};
static const char *const resamples[] = {
    "default", "bicubic", "bilinear", "bicubic, antialiased", "bilinear, antialiased", "bilinear, corners aligned", "nearest", NULL};
static const char *const filters[] = {"unknown", "bilinear", "bicubic", "other", NULL};
static const char *const fits[] = {"unknown", "shorter edge, centre crop", "squash", "longer edge, border", "other", NULL};
static const char *const processors[] = {"unknown", "timm's, on Pillow", "transformers', on torchvision",
                                         "transformers', on torchvision, in float32", NULL};

static const struct {
    const char *name;
    const char *const *words; /* NULL-terminated */
} table[RVIT_FACT_COUNT] = {
#define RVIT_FACT(fact, name, words) {name, words},
#include "core/model/facts.def"
};

/* The word for a value of a fact; NULL: the fact has no words. */
static const char *word_of(rvit_fact fact, double value)
{
    const char *const *words = table[fact].words;
    if (words == NULL || !(value >= 0))
        return NULL;
    int32_t i = 0;
    while (words[i] != NULL && i + 1 <= value)
        i++;
    return words[i];
}

void rvit_facts_set_several(rvit_facts *facts, rvit_fact fact, const double *values, int32_t n, const char *where)
{
    rvit_fact_value *f = &facts->of[fact];
    if (f->known)
        return;
    f->known = 1;
    size_t at = 0;
    for (int32_t i = 0; i < n && i < 3; i++) {
        f->value[i] = values[i];
        at += (size_t)snprintf(f->text + at, sizeof f->text - at, i == 0 ? "%.9g" : ", %.9g", values[i]);
    }
    const char *word = word_of(fact, values[0]);
    if (word != NULL)
        snprintf(f->text, sizeof f->text, "%s", word);
    snprintf(f->where, sizeof f->where, "%s", where);
}

void rvit_facts_set(rvit_facts *facts, rvit_fact fact, double value, const char *where)
{
    rvit_facts_set_several(facts, fact, &value, 1, where);
}

void rvit_facts_set_text(rvit_facts *facts, rvit_fact fact, const char *text, const char *where)
{
    rvit_fact_value *f = &facts->of[fact];
    if (f->known)
        return;
    f->known = 1;
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
    if (facts->of[fact].known)
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
        if (facts->of[i].known)
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
    return facts->of[fact].known ? (int32_t)facts->of[fact].value[0] : 0;
}

const char *rvit_fact_name(rvit_fact fact)
{
    return table[fact].name;
}

rvit_status rvit_fact_conflict(const rvit_fact_value *fact)
{
    return strncmp(fact->where, "given", 5) == 0 ? RVIT_INVALID_ARGUMENT : RVIT_BAD_FILE;
}
