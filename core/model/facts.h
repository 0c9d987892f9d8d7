/* Facts about a model and their sources. Tensors show most of them; the others come from files or the caller. */
#ifndef RVIT_CORE_MODEL_FACTS_H
#define RVIT_CORE_MODEL_FACTS_H

#include <raggedvit/session.h>

#include "core/model/rope_table.h"

typedef enum rvit_fact {
#define RVIT_FACT(fact, ...) RVIT_FACT_##fact,
#include "core/model/facts.def"
    RVIT_FACT_COUNT
} rvit_fact;

/* The structure of a block. */
typedef enum rvit_block_kind {
    RVIT_BLOCK_UNKNOWN,
    RVIT_BLOCK_PRE_NORM,  /* x + f(norm(x)) */
    RVIT_BLOCK_POST_NORM, /* x + norm(f(x)) */
    RVIT_BLOCK_PARALLEL,  /* attention and MLP side by side */
    RVIT_BLOCK_OTHER
} rvit_block_kind;

enum { RVIT_FACT_TEXT = 72, RVIT_FACT_WHERE = 112 };

typedef struct rvit_fact_value {
    int32_t known;
    double value[3];
    char text[RVIT_FACT_TEXT];   /* the value as text */
    char where[RVIT_FACT_WHERE]; /* its source: "config.json: hidden_act" */
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

/* The first writer wins, so set facts from the most trusted source first. */
void rvit_facts_set(rvit_facts *facts, rvit_fact fact, double value, const char *where);
void rvit_facts_set_several(rvit_facts *facts, rvit_fact fact, const double *values, int32_t n, const char *where);
void rvit_facts_set_text(rvit_facts *facts, rvit_fact fact, const char *text, const char *where);
/* fact: FULL_BLOCKS or DEEPSTACK. */
void rvit_facts_set_blocks(rvit_facts *facts, rvit_fact fact, const rvit_block_list *list, const char *where);
/* Sets all facts of rotary positions. */
void rvit_facts_set_rotation(rvit_facts *facts, const rvit_rope_config *rope, const char *where);
/* Copies the facts that `facts` lacks from `others`. */
void rvit_facts_join(rvit_facts *facts, const rvit_facts *others);
/* 0 if the fact is unknown. */
int32_t rvit_facts_integer(const rvit_facts *facts, rvit_fact fact);
/* The status for a fact that contradicts the tensors: INVALID_ARGUMENT if the caller set it, else BAD_FILE. */
rvit_status rvit_fact_conflict(const rvit_fact_value *fact);
/* "heads" */
const char *rvit_fact_name(rvit_fact fact);

#endif
