/* Calls of ops with arguments that are drawn: mostly of small shapes that fit together, now and then out of range. */
#ifndef RVIT_TESTS_FUZZ_DRAFTS_H
#define RVIT_TESTS_FUZZ_DRAFTS_H

#include "core/backend.h"
#include "fuzz.h"

enum { MAX_VIEWS = 16 };

typedef struct draft {
    rvit_op op;
    rvit_view *views[MAX_VIEWS]; /* of op, all of them empty */
    int n_views;
} draft;

void draft_op(draft *d, rvit_op_type type, choices *c);
/* The public function of the op. */
rvit_status draft_call(rvit_stream *stream, const rvit_op *op);

#endif
