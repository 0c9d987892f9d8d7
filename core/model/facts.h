/* What is known about a model, and from where. Tensors tell most of it; the rest leaves no trace in them. */
#ifndef RVIT_CORE_MODEL_FACTS_H
#define RVIT_CORE_MODEL_FACTS_H

#include <raggedvit/vit.h>

#include "core/model/rope_table.h"

typedef enum rvit_fact {
    RVIT_FACT_ARCHITECTURE, /* only text, as the next */
    RVIT_FACT_PREFIX,       /* of the names of all tensors, which are read without it */
    RVIT_FACT_HEADS,
    RVIT_FACT_ACTIVATION, /* rvit_activation */
    RVIT_FACT_EPS,
    RVIT_FACT_POOLING, /* rvit_pooling */
    /* Of attention pooling. */
    RVIT_FACT_MAP_HEADS,
    RVIT_FACT_MAP_ACTIVATION,
    RVIT_FACT_POOL_PREFIX, /* 1: attention pooling reads prefix rows too; of a mean, 0 unless told */
    RVIT_FACT_POSITION,    /* rvit_position */
    /* Of rotary positions. */
    RVIT_FACT_ROPE_BASE,
    RVIT_FACT_ROPE_COORDINATES, /* rvit_rope_coordinates */
    RVIT_FACT_ROPE_ORDER,       /* rvit_rope_order */
    RVIT_FACT_ROPE_OFFSET,
    RVIT_FACT_ROPE_REFERENCE, /* height, width of a grid; 0: none */
    RVIT_FACT_ROPE_LAYOUT,    /* rvit_rope_layout */
    RVIT_FACT_RMS_NORM,
    RVIT_FACT_FINAL_NORM, /* 0: there is none after the last block */
    RVIT_FACT_BLOCK,      /* rvit_block_kind */
    RVIT_FACT_RESAMPLE,   /* rvit_resample */
    RVIT_FACT_ASPECT,     /* 1: the position table keeps its shape while it is resampled, whatever the grid's */
    RVIT_FACT_ROWS,       /* 1: a patch is a row of (y, x, channel), not of (channel, y, x) */
    RVIT_FACT_IMAGE,      /* height, width */
    RVIT_FACT_INPUT,      /* the same from where a position table knows better */
    RVIT_FACT_MEAN,       /* of three channels */
    RVIT_FACT_STD,
    RVIT_FACT_FILTER,    /* rvit_filter */
    RVIT_FACT_FIT,       /* rvit_fit */
    RVIT_FACT_CROP,      /* share; Hugging Face: also the edge that is resized, and what is cut out of it */
    RVIT_FACT_PROCESSOR, /* rvit_processor */
    RVIT_FACT_FILL,
    RVIT_FACT_PROCESSED,   /* height, width of what a processor makes */
    RVIT_FACT_PIXELS,      /* at least, at most: of pictures whose size follows from their own */
    RVIT_FACT_MAX_PATCHES, /* of a picture, NaFlex */
    /* What tensors tell too. */
    RVIT_FACT_DIM,
    RVIT_FACT_DEPTH,
    RVIT_FACT_MLP,
    RVIT_FACT_GATED, /* 1: the MLPs multiply by a gate */
    RVIT_FACT_PATCH,
    RVIT_FACT_CHANNELS,
    RVIT_FACT_CLASSES,
    RVIT_FACT_REGISTERS,
    RVIT_FACT_CLS,        /* 1: there is a CLS token */
    RVIT_FACT_PATCH_NORM, /* 1: there is a norm of the patches before their positions */
    RVIT_FACT_NORM_PRE,   /* 1: there is a norm before the first block */
    RVIT_FACT_FC_NORM,    /* 1: the norm after the last block is one of what is pooled */
    RVIT_FACT_LAYER_SCALE,
    RVIT_FACT_QKV_BIAS,
    /* Of towers that merge squares of patches. */
    RVIT_FACT_MERGE,       /* patches a side of such a square */
    RVIT_FACT_MERGED,      /* width of what becomes of one */
    RVIT_FACT_FRAMES,      /* of a patch */
    RVIT_FACT_WINDOW,      /* pixels a side of the windows of attention; 0: there are none */
    RVIT_FACT_FULL_BLOCKS, /* those whose attention is over the whole image: rvit_facts.full_blocks */
    RVIT_FACT_DEEPSTACK,   /* those whose rows are merged too: rvit_facts.deepstack */
    RVIT_FACT_COUNT
} rvit_fact;

/* How a block is put together. */
typedef enum rvit_block_kind {
    RVIT_BLOCK_UNKNOWN,
    RVIT_BLOCK_PRE_NORM,  /* x + f(norm(x)) */
    RVIT_BLOCK_POST_NORM, /* x + norm(f(x)) */
    RVIT_BLOCK_PARALLEL,  /* attention and MLP side by side */
    RVIT_BLOCK_OTHER
} rvit_block_kind;

enum { RVIT_FACT_TEXT = 72, RVIT_FACT_WHERE = 112 };

typedef struct rvit_fact_value {
    int32_t given;
    double value[3];
    char text[RVIT_FACT_TEXT];   /* the value, for people */
    char where[RVIT_FACT_WHERE]; /* "config.json: hidden_act" */
} rvit_fact_value;

/* Numbers of blocks, from 0, in ascending order. */
enum { RVIT_BLOCK_LIST = 64 };
typedef struct rvit_block_list {
    int32_t n, blocks[RVIT_BLOCK_LIST];
} rvit_block_list;

typedef struct rvit_facts {
    rvit_fact_value of[RVIT_FACT_COUNT];
    rvit_block_list full_blocks, deepstack;
} rvit_facts;

/* The first that says something about a fact is believed: whoever is to be believed most speaks first. */
void rvit_facts_set(rvit_facts *facts, rvit_fact fact, double value, const char *where);
void rvit_facts_set_several(rvit_facts *facts, rvit_fact fact, const double *values, int32_t n, const char *where);
void rvit_facts_set_text(rvit_facts *facts, rvit_fact fact, const char *text, const char *where);
/* fact: FULL_BLOCKS or DEEPSTACK. */
void rvit_facts_set_blocks(rvit_facts *facts, rvit_fact fact, const rvit_block_list *list, const char *where);
/* All facts of how queries and keys turn. */
void rvit_facts_set_rotation(rvit_facts *facts, const rvit_rope_config *rope, const char *where);
/* Takes over what `facts` lacks. */
void rvit_facts_join(rvit_facts *facts, const rvit_facts *others);
/* 0 if it is not given. */
int32_t rvit_facts_integer(const rvit_facts *facts, rvit_fact fact);
/* The status of a fact that contradicts the tensors: INVALID_ARGUMENT of one that the caller gave, else BAD_FILE. */
rvit_status rvit_fact_wrong(const rvit_fact_value *fact);
/* "heads" */
const char *rvit_fact_name(rvit_fact fact);

#endif
