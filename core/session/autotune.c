/* dense_fallback: times a full batch through the pruned and through the dense forward. The cost of the stages and the gain from fewer rows
   depend on device, model, batch and policy, so they are measured.

   The two sessions exist one after the other, so peak memory is that of one. They use none of the caller's resources: the images are noise,
   the stream is the session's own, and logits are the only output. Each session runs RUNS times and the host waits for each run. The
   fastest run counts, because disturbances only slow a run down; the first run also warms up.

   The dense forward is chosen if it is not slower. If the model fails on noise (unusable scores, results that are not finite), this says
   nothing about the caller's images, and the session prunes as requested. With RVIT_PRUNE_MASK nothing is measured: the caller's mask must
   be applied in any case. */
#include "core/base/os.h"
#include "core/session/autotune.h"

enum { RUNS = 6 };

/* Indices of out_descs. */
enum { TIMED_PRUNED, TIMED_DENSE, DENSE };

static rvit_session_desc dense_desc(const rvit_session_desc *given)
{
    rvit_session_desc desc = *given;
    desc.prune = NULL;
    return desc;
}

static rvit_session_desc timed_desc(const rvit_session_desc *given)
{
    rvit_session_desc desc = *given;
    desc.trace = desc.outputs = 0;
    desc.stream = NULL;
    desc.input = RVIT_INPUT_TENSOR;
    desc.input_memory = RVIT_INPUT_HOST;
    desc.input_bytes = 0;
    desc.recipe = NULL;
    desc.input_view = desc.logits = (rvit_view){NULL, 0};
    return desc;
}

rvit_status rvit_autotune_sessions(const rvit_model *model, const rvit_session_desc *desc,
                                   rvit_session_desc out_descs[RVIT_AUTOTUNE_SESSIONS], int32_t *out_n)
{
    *out_n = 0;
    if (!desc->dense_fallback)
        return RVIT_OK;
    const rvit_session_plan *plan = NULL;
    RVIT_TRY(rvit_session_plan_create(model, desc, &plan));
    const int is_tuned = plan->schedule.n_stages > 0 && !rvit_prune_takes_mask(&plan->schedule);
    rvit_session_plan_destroy(model, plan);
    if (!is_tuned)
        return RVIT_OK;
    out_descs[TIMED_PRUNED] = timed_desc(desc);
    out_descs[DENSE] = dense_desc(desc);
    out_descs[TIMED_DENSE] = timed_desc(&out_descs[DENSE]);
    *out_n = RVIT_AUTOTUNE_SESSIONS;
    return RVIT_OK;
}

static double microseconds(void)
{
    return (double)rvit_nanoseconds() * 1e-3;
}

static void fill_with_noise(rvit_session *session)
{
    const rvit_model_info *info = &session->model->info;
    const int64_t n = (int64_t)session->plan->desc.max_images * info->channels * info->image_height * info->image_width;
    float *images = rvit_session_host(session, session->plan->input);
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        images[i] = (float)(state >> 8) * (4.0f / 16777216.0f) - 2.0f;
    }
}

static rvit_status time_session(rvit_session *session, double *out_us)
{
    fill_with_noise(session);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = session->plan->desc.max_images;
    for (int run = 0; run < RUNS; run++) {
        const double begin = microseconds();
        RVIT_TRY(rvit_session_run(session, &args, NULL));
        const double took = microseconds() - begin;
        if (run == 0 || took < *out_us)
            *out_us = took;
    }
    return RVIT_OK;
}

static rvit_status measure(rvit_model *model, const rvit_session_desc *desc, double *out_us)
{
    rvit_session *session = NULL;
    RVIT_TRY(rvit_session_open(model, desc, &session));
    const rvit_status status = time_session(session, out_us);
    rvit_session_destroy(session);
    return status;
}

rvit_status rvit_autotune(rvit_model *model, rvit_session_desc *desc, rvit_session_info *info)
{
    rvit_session_desc descs[RVIT_AUTOTUNE_SESSIONS];
    int32_t n;
    RVIT_TRY(rvit_autotune_sessions(model, desc, descs, &n));
    if (n == 0)
        return RVIT_OK;
    rvit_status status = measure(model, &descs[TIMED_PRUNED], &info->pruned_us);
    if (status == RVIT_OK)
        status = measure(model, &descs[TIMED_DENSE], &info->dense_us);
    if (status == RVIT_INVALID_ARGUMENT || status == RVIT_NOT_FINITE) {
        info->pruned_us = info->dense_us = 0.0;
        return RVIT_OK;
    }
    RVIT_TRY(status);
    info->fell_back = info->dense_us <= info->pruned_us;
    if (info->fell_back)
        *desc = descs[DENSE];
    return RVIT_OK;
}
