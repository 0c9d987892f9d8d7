/* The suites of test_cuda (features that only CUDA has) and of test_cuda_tile (the choice of kernels). */
#ifndef RVIT_TESTS_CUDA_TESTS_H
#define RVIT_TESTS_CUDA_TESTS_H

#include "harness.h"

extern const suite variants_suite, gemm_suite, hopper_suite, e4m3_suite, interop_suite, external_suite;
extern const suite choose_suite;

#endif
