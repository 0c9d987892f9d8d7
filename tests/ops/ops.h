/* The suites of test_ops, one file an op. */
#ifndef RVIT_TESTS_OPS_H
#define RVIT_TESTS_OPS_H

#include "harness.h"

/* Of each op, in NAME.c. */
#define RVIT_OP(TYPE, name) extern const suite name##_suite;
#include "core/ops.def"
extern const suite attention_vectors_suite, score_suite, select_vectors_suite, sample_suite, fuse_suite, prune_vectors_suite,
    predictor_vectors_suite, tome_vectors_suite, memory_suite, activation_vectors_suite, embed_vectors_suite, grid_windows_suite;

/* An array with one int32, for a live count. */
array *array_live(int32_t value);

static const rvit_dtype stored_types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
#define N_STORED_TYPES 3

/* The name under which expectations.c lists what a type needs. */
const char *type_feature(rvit_dtype dtype);

#endif
