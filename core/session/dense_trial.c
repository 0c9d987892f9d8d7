/* The timing trial of dense_fallback.

   Question: is a full batch through the pruned forward faster, on this device as it is now, than through the same forward unpruned?
   Nothing cheaper answers it: what the stages cost, and what fewer rows save, depends on device, model, batch and policy.

   Method: a session of each kind, one after the other, so that no more memory is needed than for one. Nothing of the caller's takes part:
   the images are noise, copied by no run; the stream is the session's own; nothing is traced or given back but logits. Each does a few runs
   with the host waiting, and the fastest counts, because what disturbs a run only makes it slower; the first run also warms up.

   Decision: dense, if it is no slower. If the model makes nothing of noise (scores that cannot be used, results that are not finite), that
   says nothing of the caller's images, and the session prunes as asked. A mask that the caller gives is no less work to honour for
   being measured: there is no trial of it. */
#include "core/session/dense_trial.h"

#include <time.h>

enum { RUNS = 6 };

/* The places of out_descs. */
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

rvit_status rvit_dense_trial_sessions(const rvit_model *model, const rvit_session_desc *desc,
                                      rvit_session_desc out_descs[RVIT_DENSE_TRIAL_SESSIONS], int32_t *out_n)
{
    *out_n = 0;
    if (!desc->dense_fallback)
        return RVIT_OK;
    const rvit_session_plan *plan = NULL;
    RVIT_TRY(rvit_session_plan_create(model, desc, &plan));
    const int has_trial = plan->schedule.n_stages > 0 && !rvit_prune_takes_mask(&plan->schedule);
    rvit_session_plan_destroy(model, plan);
    if (!has_trial)
        return RVIT_OK;
    out_descs[TIMED_PRUNED] = timed_desc(desc);
    out_descs[DENSE] = dense_desc(desc);
    out_descs[TIMED_DENSE] = timed_desc(&out_descs[DENSE]);
    *out_n = RVIT_DENSE_TRIAL_SESSIONS;
    return RVIT_OK;
}

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
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

rvit_status rvit_dense_trial(rvit_model *model, rvit_session_desc *desc, rvit_session_info *info)
{
    rvit_session_desc descs[RVIT_DENSE_TRIAL_SESSIONS];
    int32_t n;
    RVIT_TRY(rvit_dense_trial_sessions(model, desc, descs, &n));
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
