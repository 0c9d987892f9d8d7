/* The suites of test_cuda: what only the CUDA backend has. */
#ifndef RVIT_TESTS_CUDA_TESTS_H
#define RVIT_TESTS_CUDA_TESTS_H

#include "harness.h"

extern const suite variants_suite, products_suite, hopper_suite, e4m3_suite, interop_suite, external_suite;

#endif
