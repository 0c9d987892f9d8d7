/* The suites of test_laws. */
#ifndef RVIT_TESTS_LAWS_H
#define RVIT_TESTS_LAWS_H

#include "pipeline.h"

extern const suite batch_suite, replay_suite, cost_suite, many_images_suite, many_images_prune_suite, garbage_suite, thread_suite,
    programs_suite, grids_suite;

#endif
