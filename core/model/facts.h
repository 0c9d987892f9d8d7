/* What is known about a model, and from where. Tensors tell most of it; the rest leaves no trace in them. */
#ifndef RVIT_CORE_MODEL_FACTS_H
#define RVIT_CORE_MODEL_FACTS_H

#include <raggedvit/session.h>

#include "core/model/rope_table.h"

typedef enum rvit_fact {
#define RVIT_FACT(fact, ...) RVIT_FACT_##fact,
#include "core/model/facts.def"
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
