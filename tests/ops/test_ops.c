/* The op tests of a backend: every op, every variant, against the oracle and against plain code. */
#include "ops.h"

int main(int argc, char **argv)
{
    const suite *const suites[] = {
#define RVIT_OP(TYPE, name) &name##_suite,
#include "core/contract/ops.def"
        &attention_vectors_suite,
        &score_suite,
        &sample_suite,
        &fuse_suite,
        &select_vectors_suite,
        &prune_vectors_suite,
        &predictor_vectors_suite,
        &tome_vectors_suite,
        &memory_suite,
        &activation_vectors_suite,
        &embed_vectors_suite,
        &grid_windows_suite,
        &linear_e4m3_suite};
    return harness_main(argc, argv, 1, suites, sizeof suites / sizeof suites[0]);
}
