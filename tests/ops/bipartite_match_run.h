/* A match op with all its arrays, and the layout that follows from the pairs it chose. */
#ifndef RVIT_TESTS_MATCH_RUN_H
#define RVIT_TESTS_MATCH_RUN_H

#include "ops.h"

typedef struct match_case {
    rvit_dtype dtype;
    batch b;
    int32_t max_len; /* 0: that of b */
    int32_t n_prefix, n_heads, head_dim, merges;
    int64_t k_stride, k_column; /* k is part of wider rows; the rest is NaN; stride 0: k fills the rows */
    const float *k;             /* [live, n_heads, head_dim], rounded to dtype */
    int32_t unit;               /* 0: 1 */
    int32_t n_windows;
    const int32_t *windows; /* [n_windows + 1], or NULL */
} match_case;

typedef struct match_result {
    const float *metric; /* [live, head_dim] */
    const uint8_t *keep; /* [live] */
    const int32_t *cu, *src_rows, *next_rows;
} match_result;

/* Judges the pairs that a side chose. */
typedef void match_observer(const match_case *c, side s, const match_result *found);

/* Runs the case on every side. Checks the metric against plain code, the layout and the lists against the pairs, the number of merged
   rows, and what must stay untouched (src_rows has room for all rows before merging; an op may use it as scratch memory). Then the
   observer judges the pairs. */
void match_check(const match_case *c, match_observer *judge);

/* Units of an image: rows, unless the case has another unit. */
int32_t match_units(const match_case *c, int32_t image);
/* Whether unit `a` of an image may be merged into unit `b`, both counted from the image's first. */
int match_allows(const match_case *c, int32_t image, int32_t a, int32_t b);
/* The unit of B that each merged unit of an image went to, counted so; -1 for the others. */
int32_t *match_targets(const match_case *c, int32_t image, const match_result *found);
/* How many units of an image are merged. */
int32_t match_merges(const match_case *c, int32_t image);

#endif
