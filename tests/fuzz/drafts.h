/* Ops with random arguments: mostly small shapes that match, sometimes values out of range. */
#ifndef RVIT_TESTS_FUZZ_DRAFTS_H
#define RVIT_TESTS_FUZZ_DRAFTS_H

#include "core/contract/backend.h"
#include "fuzz.h"
#include "tests/op_table.h"

enum { MAX_VIEWS = RVIT_OP_MAX_ACCESSES };

typedef struct draft {
    rvit_op op;
    rvit_view *views[MAX_VIEWS]; /* the views of op to fill in; all are empty */
    int n_views;
} draft;

void draft_op(draft *d, rvit_op_type type, choices *c);

#endif
