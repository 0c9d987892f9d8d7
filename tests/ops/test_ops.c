/* The op tests of a backend: every op, every variant, against the oracle and against plain code. */
#include "ops.h"

array *array_live(int32_t value)
{
    array *a = array_input("live", 4);
    memcpy(a->host, &value, 4);
    return a;
}

const char *type_feature(rvit_dtype dtype)
{
    return rvit_dtype_name(dtype);
}

int main(int argc, char **argv)
{
    const suite *const suites[] = {&copy_suite,           &patchify_suite,
                                   &linear_suite,         &layernorm_suite,
                                   &attention_suite,      &attention_vectors_suite,
                                   &score_suite,          &select_suite,
                                   &sample_suite,         &fuse_suite,
                                   &select_vectors_suite, &prune_vectors_suite,
                                   &mean_suite,           &predictor_vectors_suite,
                                   &match_suite,          &merge_suite,
                                   &tome_vectors_suite,   &pack_suite,
                                   &unpack_suite,         &head_suite,
                                   &memory_suite};
    return harness_main(argc, argv, 1, suites, sizeof suites / sizeof suites[0]);
}
