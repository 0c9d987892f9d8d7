/* Property tests: they hold for every device and its kernels. See the first lines of each suite. */
#include "properties.h"

int main(int argc, char **argv)
{
    const suite *const suites[] = {&batch_suite,   &replay_suite,      &programs_suite,
                                   &cost_suite,    &many_images_suite, &many_images_prune_suite,
                                   &garbage_suite, &thread_suite,      &grids_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof suites[0]);
}
