/* The suites of test_ops, one file an op. */
#ifndef RVIT_TESTS_OPS_H
#define RVIT_TESTS_OPS_H

#include "harness.h"

/* Of each op, in NAME.c. */
#define RVIT_OP(TYPE, name) extern const suite name##_suite;
#include "core/contract/ops.def"
extern const suite attention_vectors_suite, score_suite, select_vectors_suite, sample_suite, fuse_suite, prune_vectors_suite,
    predictor_vectors_suite, tome_vectors_suite, memory_suite, activation_vectors_suite, embed_vectors_suite, grid_windows_suite,
    linear_e4m3_suite;

/* An array with one int32, for a live count. */
array *array_live(int32_t value);

static const rvit_dtype stored_types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
#define N_STORED_TYPES 3

static const rvit_dtype byte_types[] = {RVIT_I8, RVIT_E4M3};
/* Compares quantized rows that an op wrote with the exact values. Each may be off by half a quantization step and by what check_close
   allows. */
void check_quantized_rows(const char *what, rvit_dtype dtype, const uint8_t *bytes, const float *scales, const double *exact,
                          const float *plain, int64_t rows, int64_t columns);
/* The same with one scale for all rows; values may saturate. counted: how many the op says did; negative: it does not count. Returns the
   largest possible count. */
int64_t check_static_bytes(const char *what, rvit_dtype dtype, const uint8_t *bytes, double scale, const double *exact, const float *plain,
                           int64_t n, int64_t counted);
/* n random numbers of I8 or E4M3. */
void random_bytes(rvit_dtype dtype, uint8_t *out, int64_t n);

/* The name under which expectations.c lists what a type needs. */
const char *type_feature(rvit_dtype dtype);

#endif
