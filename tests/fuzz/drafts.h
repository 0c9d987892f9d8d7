/* Calls of ops with arguments that are drawn: mostly of small shapes that fit together, now and then out of range. */
#ifndef RVIT_TESTS_FUZZ_DRAFTS_H
#define RVIT_TESTS_FUZZ_DRAFTS_H

#include "core/contract/backend.h"
#include "fuzz.h"
#include "tests/op_table.h"

enum { MAX_VIEWS = RVIT_OP_MAX_ACCESSES };

typedef struct draft {
    rvit_op op;
    rvit_view *views[MAX_VIEWS]; /* of op, those that it may have, all of them empty */
    int n_views;
} draft;

void draft_op(draft *d, rvit_op_type type, choices *c);

#endif
