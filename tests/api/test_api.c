/* The public functions: their refusals and messages, and their guarantees about memory, devices and recordings. */
#include "api.h"

int main(int argc, char **argv)
{
    const suite *const suites[] = {&bad_views_suite, &bad_values_suite, &bad_lengths_suite, &misuse_suite,
                                   &device_suite,    &status_suite,     &allocation_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof suites[0]);
}
