#include "core/model/config/timm_names.h"

#include <stdlib.h>
#include <string.h>

typedef enum colours { COLOURS_UNKNOWN, COLOURS_IMAGENET, COLOURS_HALF, COLOURS_CLIP } colours;

typedef struct group {
    int32_t dim, depth, patch_size, heads; /* 0: unknown */
    rvit_activation activation;
    double eps;
    rvit_pooling pooling;
    rvit_position position;
    int32_t rms_norm;
    rvit_block_kind block;
    colours colours;
    const char *names; /* separated by spaces */
} group;

/* clang-format off */
static const group groups[] = {
#define PLAIN(...)
#define NAFLEX(...)
#define PART(...)
#define PREFIX(...)
#define MAP(...)
#define ROTARY(...)
#define TIMM(dim, depth, patch, heads, activation, eps, pooling, position, rms_norm, block, colours, names)                     \
    {dim, depth, patch, heads, RVIT_ACTIVATION_##activation, eps, RVIT_POOLING_##pooling, RVIT_POSITION_##position, rms_norm,      \
     RVIT_BLOCK_##block, COLOURS_##colours, names},
#include "core/model/config/timm_architectures.def"
#undef TIMM
};

static const struct {
    rvit_rope_config rope;
    const char *names;
} rotations[] = {
#define TIMM(...)
#undef ROTARY
#define ROTARY(base, coordinates, order, offset, reference, layout, names) \
    {{RVIT_ROPE_##coordinates, RVIT_ROPE_##order, RVIT_ROPE_##layout, base, offset, {reference, reference}}, names},
#include "core/model/config/timm_architectures.def"
#undef ROTARY
};

/* Parts that differ from `defaults`. */
static const struct {
    rvit_fact fact;
    int32_t value;
    const char *names;
} parts[] = {
#define ROTARY(...)
#undef PART
#define PART(fact, value, names) {RVIT_FACT_##fact, value, names},
#include "core/model/config/timm_architectures.def"
#undef PART
};

/* How NaFlexViT position tables are resampled. */
static const struct {
    rvit_resample how;
    int32_t aspect;
    const char *names;
} resamples[] = {
#define PART(...)
#undef NAFLEX
#define NAFLEX(how, aspect, names) {RVIT_RESAMPLE_##how, aspect, names},
#include "core/model/config/timm_architectures.def"
#undef NAFLEX
};

/* Models whose attention pooling reads prefix tokens too. */
static const char prefix[] =
#define NAFLEX(...)
#undef PREFIX
#define PREFIX(names) names
#include "core/model/config/timm_architectures.def"
#undef PREFIX
    ;

static const struct {
    int32_t heads; /* 0: as in the blocks */
    const char *names;
} pools[] = {
#define PREFIX(...)
#undef MAP
#define MAP(heads, names) {heads, names},
#include "core/model/config/timm_architectures.def"
#undef MAP
};

static const struct {
    rvit_plain_shape shape;
    int32_t heads;
} plain[] = {
#define MAP(...)
#undef PLAIN
#define PLAIN(dim, depth, mlp, patch, distilled, registers, scale, heads) {{dim, depth, mlp, patch, distilled, registers, scale}, heads},
#include "core/model/config/timm_architectures.def"
#undef PLAIN
#undef MAP
#undef PREFIX
#undef NAFLEX
#undef PART
#undef ROTARY
#undef TIMM
};
/* clang-format on */

static void set_colours(rvit_facts *facts, colours which, const char *where)
{
    static const double values[][2][3] = {
        [COLOURS_IMAGENET] = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
        [COLOURS_HALF] = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
        [COLOURS_CLIP] = {{0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}},
    };
    if (which == COLOURS_UNKNOWN)
        return;
    rvit_facts_set_several(facts, RVIT_FACT_MEAN, values[which][0], 3, where);
    rvit_facts_set_several(facts, RVIT_FACT_STD, values[which][1], 3, where);
}

static void set_group(rvit_facts *facts, const group *g, const char *where)
{
    if (facts == NULL)
        return;
    const struct {
        rvit_fact fact;
        int32_t value;
    } extents[] = {{RVIT_FACT_DIM, g->dim}, {RVIT_FACT_DEPTH, g->depth}, {RVIT_FACT_PATCH, g->patch_size}, {RVIT_FACT_HEADS, g->heads}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i].value > 0)
            rvit_facts_set(facts, extents[i].fact, extents[i].value, where);
    rvit_facts_set(facts, RVIT_FACT_ACTIVATION, g->activation, where);
    /* In timm a model is gated if and only if it uses SiLU. */
    rvit_facts_set(facts, RVIT_FACT_GATED, g->activation == RVIT_ACTIVATION_SILU, where);
    rvit_facts_set(facts, RVIT_FACT_EPS, g->eps, where);
    rvit_facts_set(facts, RVIT_FACT_POOLING, g->pooling, where);
    rvit_facts_set(facts, RVIT_FACT_POSITION, g->position, where);
    rvit_facts_set(facts, RVIT_FACT_RMS_NORM, g->rms_norm, where);
    rvit_facts_set(facts, RVIT_FACT_BLOCK, g->block, where);
    set_colours(facts, g->colours, where);
}

/* The text after the name in a list: " ", "@" or the end; NULL: the name is not in the list. */
static const char *find_in(const char *list, const char *name, size_t length)
{
    for (const char *at = list; *at != '\0';) {
        const size_t word = strcspn(at, " @");
        if (word == length && memcmp(at, name, length) == 0)
            return at + word;
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    return NULL;
}

/* Parts that tensors show too; a difference means that a file lost them or that the model has other arguments. Whether there is a norm
   after pooling depends on the pooling, so it is known only if the pooling is the name's and not set by the caller. */
static void set_parts(rvit_facts *facts, const group *g, const char *name, size_t length, const char *where)
{
    static const struct {
        rvit_fact fact;
        int32_t value;
    } defaults[] = {{RVIT_FACT_CLS, 1},     {RVIT_FACT_REGISTERS, 0}, {RVIT_FACT_PATCH_NORM, 0},  {RVIT_FACT_NORM_PRE, 0},
                    {RVIT_FACT_FC_NORM, 0}, {RVIT_FACT_QKV_BIAS, 1},  {RVIT_FACT_LAYER_SCALE, 0}, {RVIT_FACT_FINAL_NORM, 1}};
    const int own_pooling =
        rvit_facts_integer(facts, RVIT_FACT_POOLING) == (int32_t)g->pooling && strcmp(facts->of[RVIT_FACT_POOLING].where, "given") != 0;
    for (size_t k = 0; k < sizeof defaults / sizeof *defaults; k++) {
        int32_t value = defaults[k].value;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (parts[i].fact == defaults[k].fact && find_in(parts[i].names, name, length) != NULL)
                value = parts[i].value;
        if (defaults[k].fact != RVIT_FACT_FC_NORM || own_pooling)
            rvit_facts_set(facts, defaults[k].fact, value, where);
    }
}

static void set_resampling(rvit_facts *facts, const char *name, size_t length, const char *where)
{
    for (size_t i = 0; i < sizeof resamples / sizeof *resamples; i++)
        if (find_in(resamples[i].names, name, length) != NULL) {
            rvit_facts_set(facts, RVIT_FACT_RESAMPLE, resamples[i].how, where);
            rvit_facts_set(facts, RVIT_FACT_ASPECT, resamples[i].aspect, where);
        }
}

/* Attention pooling in timm's EVA class has its own number of heads and exact GELU, and reads all rows. In other classes it has those of
   the blocks, and reads the patches. */
static void set_map(rvit_facts *facts, const char *name, size_t length, const char *where)
{
    int32_t heads = 0, own = 0;
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        if (find_in(pools[i].names, name, length) != NULL) {
            heads = pools[i].heads;
            own = 1;
        }
    if (heads > 0)
        rvit_facts_set(facts, RVIT_FACT_MAP_HEADS, heads, where);
    else if (facts->of[RVIT_FACT_HEADS].known)
        rvit_facts_set(facts, RVIT_FACT_MAP_HEADS, facts->of[RVIT_FACT_HEADS].value[0], where);
    rvit_facts_set(facts, RVIT_FACT_POOL_PREFIX, own || find_in(prefix, name, length) != NULL, where);
    if (own)
        rvit_facts_set(facts, RVIT_FACT_MAP_ACTIVATION, RVIT_ACTIVATION_GELU, where);
    else if (facts->of[RVIT_FACT_ACTIVATION].known)
        rvit_facts_set(facts, RVIT_FACT_MAP_ACTIVATION, facts->of[RVIT_FACT_ACTIVATION].value[0], where);
}

static void set_rotation(rvit_facts *facts, const char *name, size_t length, const char *where)
{
    for (size_t i = 0; facts != NULL && i < sizeof rotations / sizeof *rotations; i++)
        if (find_in(rotations[i].names, name, length) != NULL)
            rvit_facts_set_rotation(facts, &rotations[i].rope, where);
}

int32_t rvit_timm_name_facts(const char *name, rvit_facts *facts, const char *where)
{
    const size_t length = strcspn(name, ".");
    static const group vit = {
        0, 0, 0, 0, RVIT_ACTIVATION_GELU, 1e-6, RVIT_POOLING_CLS, RVIT_POSITION_TABLE, 0, RVIT_BLOCK_PRE_NORM, COLOURS_UNKNOWN, ""};
    if (strcmp(name, "vit") == 0) {
        set_group(facts, &vit, where);
        return 1;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const char *end = find_in(groups[i].names, name, length);
        if (end == NULL)
            continue;
        set_group(facts, &groups[i], where);
        if (facts != NULL) {
            set_parts(facts, &groups[i], name, length, where);
            set_map(facts, name, length, where);
            set_resampling(facts, name, length, where);
        }
        set_rotation(facts, name, length, where);
        if (*end == '@' && facts != NULL) {
            const double edge = strtod(end + 1, NULL), size[2] = {edge, edge};
            rvit_facts_set_several(facts, RVIT_FACT_IMAGE, size, 2, where);
        }
        return 1;
    }
    return 0;
}

int32_t rvit_plain_heads(const rvit_plain_shape *shape)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (memcmp(&plain[i].shape, shape, sizeof *shape) == 0)
            return plain[i].heads;
    return 0;
}
