/* The suites of test_api. */
#ifndef RVIT_TESTS_API_H
#define RVIT_TESTS_API_H

#include "harness.h"

extern const suite bad_views_suite, bad_values_suite, bad_lengths_suite, misuse_suite, device_suite, status_suite, allocation_suite;

#endif
