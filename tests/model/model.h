/* The suites of test_model, and functions that they share. */
#ifndef RVIT_TESTS_MODEL_H
#define RVIT_TESTS_MODEL_H

#include "toy.h"

extern const suite forward_suite, session_suite, outputs_suite, session_properties_suite, memory_suite, model_misuse_suite,
    model_allocation_suite, model_thread_suite, model_fault_suite, environment_suite, plan_suite, run_views_suite, families_suite,
    hiprune_suite, named_outputs_suite, images_suite, quantized_suite, neighbours_suite, finite_suite;

/* All outputs that a toy supports. */
#define TOY_OUTPUTS \
    (RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_CLS_ATTENTION | RVIT_OUTPUT_POOLED | RVIT_OUTPUT_BLOCK_FEATURES | RVIT_OUTPUT_RECEIVED_ATTENTION)

/* These objects are destroyed when the test ends. */
rvit_checkpoint *open_checkpoint(const toy *m, const char *file_name);
rvit_model *open_model(const toy *m, rvit_dtype dtype);
rvit_model *open_quantized(const toy *m, rvit_dtype dtype, rvit_quantization quantization);
rvit_session *open_session(rvit_model *model, const rvit_session_desc *desc);
/* Destroys them; the teardown of every test of test_model. */
int model_teardown(void **state);
#define MODEL_TEST(function) TEST_OF(function, harness_setup, model_teardown)

/* A session for n images and a prune desc of one policy; n_blocks 0: the defaults. */
rvit_session_desc session_desc(int32_t max_images, rvit_prune_type type, double keep, const int32_t *blocks, int32_t n_blocks);
/* Loops over the policies that a model with a CLS token and predictors supports: all but map-probe. */
#define LAST_POLICY RVIT_PRUNE_HIPRUNE
static inline int next_policy(int policy)
{
    return policy + 1 + (policy + 1 == RVIT_PRUNE_MAP_PROBE);
}
/* A desc for any policy, with two stages after blocks 0 and 2 that drop many tokens; hiprune has only the latter. */
rvit_session_desc policy_desc(int policy, int32_t max_images);
/* Runs, and returns the logits in scratch memory. */
float *run_session(rvit_session *session, const toy *m, const float *images, int32_t n_images, const uint8_t *keep);
/* The same for a run in which image `bad` has no result because of its pixels. */
float *run_with_bad_image(rvit_session *session, const toy *m, const float *images, int32_t n_images, const uint8_t *keep, int32_t bad);
/* Checks a stage of a policy that keeps the k best tokens against the float64 scores: tokens clearly above the k-th best score are kept,
   tokens clearly below it are not, and the number of tokens is right. */
void expect_decision(const toy *m, const toy_stage *s, rvit_prune_type type, double keep, double margin);

#endif
