/* Tests whole models: compares forwards with float64, and checks the guarantees of sessions. */
#include "model.h"
#include "tools/cli/session_results.h"

static rvit_checkpoint *checkpoints[32];
static rvit_model *models[32];
static rvit_session *sessions[128];
static int n_checkpoints, n_models, n_sessions;

rvit_checkpoint *open_checkpoint(const toy *m, const char *file_name)
{
    assert_true(n_checkpoints < 32);
    expect_ok(rvit_checkpoint_open(toy_write(m, file_name), NULL, &checkpoints[n_checkpoints]));
    return checkpoints[n_checkpoints++];
}

rvit_model *open_model(const toy *m, rvit_dtype dtype)
{
    return open_quantized(m, dtype, RVIT_QUANTIZATION_NONE);
}

rvit_model *open_quantized(const toy *m, rvit_dtype dtype, rvit_quantization quantization)
{
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = dtype;
    desc.quantization = quantization;
    assert_true(n_models < 32);
    expect_ok(rvit_model_create(H.device[DEVICE], open_checkpoint(m, "toy.safetensors"), &desc, &models[n_models]));
    return models[n_models++];
}

rvit_session *open_session(rvit_model *model, const rvit_session_desc *desc)
{
    assert_true(n_sessions < 128);
    expect_ok(rvit_session_create(model, desc, &sessions[n_sessions]));
    return sessions[n_sessions++];
}

int model_teardown(void **state)
{
    while (n_sessions > 0) {
        rvit_session_destroy(sessions[--n_sessions]);
        sessions[n_sessions] = NULL;
    }
    while (n_models > 0) {
        rvit_model_destroy(models[--n_models]);
        models[n_models] = NULL;
    }
    while (n_checkpoints > 0) {
        rvit_checkpoint_destroy(checkpoints[--n_checkpoints]);
        checkpoints[n_checkpoints] = NULL;
    }
    return harness_teardown(state);
}

float *run_session(rvit_session *session, const toy *m, const float *images, int32_t n_images, const uint8_t *keep)
{
    float *logits = scratch((size_t)n_images * (size_t)m->spec.n_classes * sizeof *logits + 4);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n_images;
    args.input.data = images;
    args.keep = keep;
    expect_ok(rvit_session_run(session, &args, logits));
    return logits;
}

float *run_with_bad_image(rvit_session *session, const toy *m, const float *images, int32_t n_images, const uint8_t *keep, int32_t bad)
{
    const size_t size = (size_t)n_images * (size_t)m->spec.n_classes * sizeof(float);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n_images;
    args.input.data = images;
    args.keep = keep;
    expect_status(rvit_session_run(session, &args, NULL), RVIT_INVALID_ARGUMENT, "its pixels are NaN");
    for (int32_t i = 0; i < n_images; i++)
        assert_int_equal(rvit_session_image_status(session, i), i == bad ? RVIT_INVALID_ARGUMENT : RVIT_OK);
    return memcpy(scratch(size), session_floats(session, RVIT_RESULT_LOGITS), size);
}

int main(int argc, char **argv)
{
    const suite *const suites[] = {&forward_suite,      &session_suite,     &outputs_suite,       &session_properties_suite,
                                   &plan_suite,         &memory_suite,      &model_misuse_suite,  &model_allocation_suite,
                                   &model_thread_suite, &model_fault_suite, &environment_suite,   &run_views_suite,
                                   &families_suite,     &hiprune_suite,     &named_outputs_suite, &images_suite,
                                   &quantized_suite,    &neighbours_suite,  &finite_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof suites[0]);
}
