/* A select op with all its arrays, and the same selection by sorting. */
#ifndef RVIT_TESTS_SELECT_RUN_H
#define RVIT_TESTS_SELECT_RUN_H

#include "ops.h"

typedef struct select_case {
    rvit_select_mode mode;
    batch b;
    int32_t max_len; /* 0: that of b */
    int32_t n_prefix, prefix_competes;
    float threshold;
    const int32_t *counts;  /* [max_len + 1] */
    const float *scores;    /* [live] */
    const uint8_t *keep_in; /* [live] */
    int no_error_view;
} select_case;

typedef struct select_result {
    uint8_t *keep;     /* [live] */
    int32_t *cu;       /* [n_images + 1] */
    int32_t *src_rows; /* [cu[n_images]] */
    int32_t error;
} select_result;

/* What select must give, found by sorting. */
select_result select_by_sorting(const select_case *c);
/* Runs the case on every side and compares each with select_by_sorting, bit for bit, and what must stay untouched. */
void select_check(const select_case *c);

#endif
