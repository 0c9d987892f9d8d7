/* The reference of rvit_select for given scores, by sorting and with wide integers. */
#ifndef RVIT_TESTS_SELECTION_H
#define RVIT_TESTS_SELECTION_H

#include <raggedvit/prune.h>

typedef struct selection_problem {
    rvit_select_mode mode;
    int32_t n_images, n_prefix, prefix_competes, k_min, n_samples, fused;
    float threshold;
    double mass;
    const int32_t *cu;      /* [n_images + 1] */
    const int32_t *counts;  /* [longest + 1] */
    const float *scores;    /* [rows] */
    const uint8_t *keep_in; /* [rows] */
} selection_problem;

typedef struct selection {
    uint8_t *keep;     /* [rows] */
    int32_t *cu;       /* [n_images + 1] */
    int32_t *src_rows; /* [rows] */
    int32_t error;
    int32_t *image_errors; /* [n_images] */
} selection;

/* Fills the arrays of out. */
void select_plainly(const selection_problem *p, selection *out);

#endif
