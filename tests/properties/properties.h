/* The suites of test_properties. */
#ifndef RVIT_TESTS_PROPERTIES_H
#define RVIT_TESTS_PROPERTIES_H

#include "pipeline.h"

extern const suite batch_suite, replay_suite, cost_suite, many_images_suite, many_images_prune_suite, garbage_suite, thread_suite,
    programs_suite, grids_suite;

#endif
