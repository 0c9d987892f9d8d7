/* The suites of test_laws. */
#ifndef RVIT_TESTS_LAWS_H
#define RVIT_TESTS_LAWS_H

#include "pipeline.h"

/* The types that pipelines are run in, and how many of them the device has. */
static const rvit_dtype law_types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
static inline int n_law_types(void)
{
    return lacks("bf16") ? 2 : 3;
}

extern const suite batch_suite, replay_suite, cost_suite, many_images_suite, many_images_prune_suite, garbage_suite, thread_suite,
    programs_suite;

#endif
