/* Sessions: a recorded forward, and its runs. */
#include "core/vit_session.h"

#include <string.h>
#include <time.h>

#include "core/args.h"
#include "core/entry.h"

static rvit_status record(rvit_session *s)
{
    RVIT_TRY(rvit_record_begin(s->stream));
    rvit_status status = rvit_forward_record(s);
    if (status == RVIT_OK)
        status = rvit_record_end(s->stream, &s->program);
    s->stream->recording = 0;
    if (s->stream != s->desc.stream)
        rvit_stream_forget(s->stream);
    return status;
}

static rvit_status build(rvit_session *s)
{
    if (s->desc.stream != NULL)
        s->stream = s->desc.stream;
    else
        RVIT_TRY(rvit_stream_create(s->model->device, &s->stream));
    RVIT_TRY(rvit_session_plan_memory(s));
    return record(s);
}

static rvit_status check_desc(const rvit_model *model, const rvit_session_desc *desc)
{
    if (desc->max_images < 1 || desc->max_images > 1 << 20)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_images is %d, expected 1..%d", (int)desc->max_images, 1 << 20);
    const int64_t rows = (int64_t)desc->max_images * model->info.tokens;
    if (rows > INT32_MAX - 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_images is %d, which at %d tokens an image is more than %d rows",
                         (int)desc->max_images, (int)model->info.tokens, INT32_MAX - 1);
    if ((desc->outputs & ~(RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_CLS_ATTENTION)) != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: outputs is %d, which has unknown parts", (int)desc->outputs);
    if (desc->stream != NULL && desc->stream->device != model->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: stream belongs to another device");
    if (desc->stream != NULL && desc->stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: stream is recording");
    return RVIT_OK;
}

static rvit_status check_predictors(const rvit_model *model, const rvit_prune_schedule *schedule)
{
    if (schedule->n_stages == 0 || schedule->policy->merges || schedule->policy->score != RVIT_SCORE_PREDICTOR ||
        schedule->n_stages <= model->info.n_predictors)
        return RVIT_OK;
    if (model->info.n_predictors == RVIT_MAX_PREDICTORS)
        return rvit_fail(RVIT_UNSUPPORTED, "%s needs %d predictors, at most %d of a checkpoint are read", schedule->policy->info.name,
                         (int)schedule->n_stages, RVIT_MAX_PREDICTORS);
    return rvit_fail(RVIT_UNSUPPORTED, "%s needs %d predictors, the checkpoint has %d: tensor '%s' is missing", schedule->policy->info.name,
                     (int)schedule->n_stages, (int)model->info.n_predictors, model->missing_predictor);
}

static rvit_status create(rvit_model *model, const rvit_session_desc *desc, const rvit_prune_schedule *schedule, rvit_session **out_session)
{
    rvit_alloc *alloc = &model->device->alloc;
    rvit_session *session = rvit_alloc_new(alloc, sizeof *session);
    if (session == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    session->model = model;
    rvit_model_retain(model);
    session->desc = *desc;
    session->schedule = *schedule;
    session->max_images = desc->max_images;
    session->info = (rvit_session_info)RVIT_SESSION_INFO_INIT;
    session->info.n_stages = schedule->n_stages;
    const rvit_status status = build(session);
    if (status != RVIT_OK) {
        rvit_session_destroy(session);
        return status;
    }
    *out_session = session;
    return RVIT_OK;
}

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* The fastest of a few runs over noise; the first also warms up. */
static rvit_status time_session(rvit_session *session, double *out_us)
{
    enum { RUNS = 6 };
    const rvit_model_info *info = &session->model->info;
    const int64_t n = (int64_t)session->max_images * info->channels * info->image_size * info->image_size;
    float *images = rvit_session_input(session);
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        images[i] = (float)(state >> 8) * (4.0f / 16777216.0f) - 2.0f;
    }
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = session->max_images;
    for (int run = 0; run < RUNS; run++) {
        const double begin = microseconds();
        RVIT_TRY(rvit_session_run(session, &args, NULL));
        const double took = microseconds() - begin;
        if (run == 0 || took < *out_us)
            *out_us = took;
    }
    return RVIT_OK;
}

/* Of the sessions that are timed: nothing of the caller's takes part. */
static rvit_session_desc timed_desc(const rvit_session_desc *given)
{
    rvit_session_desc desc = *given;
    desc.trace = desc.outputs = 0;
    desc.stream = NULL;
    desc.images = desc.logits = (rvit_view){NULL, 0};
    return desc;
}

static rvit_status measure(rvit_model *model, const rvit_session_desc *given, const rvit_prune_schedule *schedule, double *out_us)
{
    const rvit_session_desc desc = timed_desc(given);
    rvit_session *session = NULL;
    RVIT_TRY(create(model, &desc, schedule, &session));
    const rvit_status status = time_session(session, out_us);
    rvit_session_destroy(session);
    return status;
}

/* Takes the prune stages out of the schedule if they do not pay. */
static rvit_status fall_back(rvit_model *model, const rvit_session_desc *desc, rvit_prune_schedule *schedule, rvit_session_info *info)
{
    rvit_prune_schedule dense = *schedule;
    dense.n_stages = 0;
    const rvit_status status = measure(model, desc, schedule, &info->pruned_us);
    if (status == RVIT_INVALID_ARGUMENT) {
        /* The policy cannot judge noise with these weights; that says nothing of the caller's images. */
        info->pruned_us = 0.0;
        return RVIT_OK;
    }
    RVIT_TRY(status);
    RVIT_TRY(measure(model, desc, &dense, &info->dense_us));
    info->fell_back = info->dense_us <= info->pruned_us;
    if (info->fell_back)
        *schedule = dense;
    return RVIT_OK;
}

/* The caller's desc, complete and checked, and the schedule that follows from it. */
static rvit_status resolve(const rvit_model *model, const rvit_session_desc *given, rvit_session_desc *desc, rvit_prune_schedule *schedule)
{
    *desc = (rvit_session_desc)RVIT_SESSION_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(desc, sizeof *desc, given, "session desc"));
    RVIT_TRY(check_desc(model, desc));
    RVIT_TRY(rvit_prune_resolve(&desc->prune, model->info.depth, model->info.tokens - model->info.n_prefix, schedule));
    return check_predictors(model, schedule);
}

/* A mask that the caller gives is no less work to honour for being measured. */
static int may_fall_back(const rvit_session_desc *desc, const rvit_prune_schedule *schedule)
{
    return desc->dense_fallback && schedule->n_stages > 0 && schedule->select != RVIT_SELECT_MASK;
}

rvit_status rvit_session_create(rvit_model *model, const rvit_session_desc *given, rvit_session **out_session)
{
    RVIT_ENTRY;
    if (model == NULL || out_session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_create: model or out_session is NULL");
    rvit_session_desc desc;
    rvit_prune_schedule schedule;
    RVIT_TRY(resolve(model, given, &desc, &schedule));
    rvit_session_info info = RVIT_SESSION_INFO_INIT;
    if (may_fall_back(&desc, &schedule))
        RVIT_TRY(fall_back(model, &desc, &schedule, &info));
    rvit_session *session = NULL;
    RVIT_TRY(create(model, &desc, &schedule, &session));
    info.n_stages = schedule.n_stages;
    session->info = info;
    *out_session = session;
    return RVIT_OK;
}

/* Raises *most to what a session of this desc and schedule takes. */
static rvit_status measure_memory(rvit_model *model, const rvit_session_desc *desc, const rvit_prune_schedule *schedule,
                                  rvit_memory_info *most)
{
    rvit_alloc *alloc = &model->device->alloc;
    rvit_session *session = rvit_alloc_new(alloc, sizeof *session);
    if (session == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    session->model = model;
    session->desc = *desc;
    session->schedule = *schedule;
    session->max_images = desc->max_images;
    rvit_memory_info memory;
    const rvit_status status = rvit_session_measure(session, &memory);
    rvit_alloc_free(alloc, session);
    RVIT_TRY(status);
    const int64_t sizes[] = {memory.device_size, memory.upload_size, memory.readback_size, memory.trace_size, memory.host_size};
    int64_t *const raised[] = {&most->device_size, &most->upload_size, &most->readback_size, &most->trace_size, &most->host_size};
    for (int i = 0; i < 5; i++)
        if (*raised[i] < sizes[i])
            *raised[i] = sizes[i];
    return RVIT_OK;
}

rvit_status rvit_session_memory(rvit_model *model, const rvit_session_desc *given, rvit_memory_info *out_memory)
{
    RVIT_ENTRY;
    if (model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_memory: model is NULL");
    rvit_session_desc desc;
    rvit_prune_schedule schedule;
    RVIT_TRY(resolve(model, given, &desc, &schedule));
    rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
    RVIT_TRY(measure_memory(model, &desc, &schedule, &memory));
    if (may_fall_back(&desc, &schedule)) {
        const rvit_session_desc timed = timed_desc(&desc);
        rvit_prune_schedule dense = schedule;
        dense.n_stages = 0;
        RVIT_TRY(measure_memory(model, &desc, &dense, &memory));
        RVIT_TRY(measure_memory(model, &timed, &schedule, &memory));
        RVIT_TRY(measure_memory(model, &timed, &dense, &memory));
    }
    return rvit_args_return(out_memory, &memory, sizeof memory, "memory info");
}

void rvit_session_destroy(rvit_session *session)
{
    RVIT_ENTRY;
    if (session == NULL)
        return;
    rvit_model *model = session->model;
    if (session->stream != NULL && rvit_stream_synchronize(session->stream) != RVIT_OK)
        rvit_log(RVIT_LOG_ERROR, "a session ended with a run that failed: %s", rvit_status_detail());
    rvit_program_destroy(session->program);
    if (session->stream != session->desc.stream)
        rvit_stream_destroy(session->stream);
    rvit_session_free_memory(session);
    rvit_alloc_free(&model->device->alloc, session);
    rvit_model_destroy(model);
}

rvit_status rvit_session_get_info(const rvit_session *session, rvit_session_info *out_info)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_info: session is NULL");
    return rvit_args_return(out_info, &session->info, sizeof session->info, "session info");
}

static rvit_status check_masks(const rvit_session *s, const rvit_run_args *args)
{
    const int32_t tokens = s->model->info.tokens, n_prefix = s->model->info.n_prefix;
    if (args->keep == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep is NULL, the session prunes by a given mask");
    for (int32_t i = 0; i < s->schedule.n_stages; i++)
        for (int32_t image = 0; image < args->n_images; image++)
            for (int32_t t = 0; t < n_prefix; t++)
                if (args->keep[((int64_t)i * args->n_images + image) * tokens + t] == 0)
                    return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep of stage %d drops prefix token %d of image %d", (int)i, (int)t,
                                     (int)image);
    return RVIT_OK;
}

/* A stage's mask is over the tokens that the stages before it left. */
static void write_masks(rvit_session *s, const rvit_run_args *args)
{
    const int32_t tokens = s->model->info.tokens;
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        uint8_t *packed = (uint8_t *)s->upload->host + s->stages[i].keep_in.offset;
        for (int32_t image = 0; image < args->n_images; image++) {
            for (int32_t t = 0; t < tokens; t++) {
                int present = 1;
                for (int32_t before = 0; before < i && present; before++)
                    present = args->keep[((int64_t)before * args->n_images + image) * tokens + t] != 0;
                if (present)
                    *packed++ = args->keep[((int64_t)i * args->n_images + image) * tokens + t] != 0;
            }
        }
    }
}

rvit_status rvit_session_enqueue(rvit_session *session, const rvit_run_args *given)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: session is NULL");
    rvit_run_args args;
    RVIT_TRY(rvit_args_copy(&args, sizeof args, given, "run args"));
    const int masked = session->schedule.n_stages > 0 && session->schedule.select == RVIT_SELECT_MASK;
    /* A pending run still reads what the host hands over; there is nothing of it where all comes from the device. */
    const int hands_over = masked || !session->desc.fixed_batch || session->desc.images.buffer == NULL;
    if (session->pending && hands_over)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: the run before has not been waited for");
    if (args.n_images < 0 || args.n_images > session->max_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: n_images is %d, the session's capacity is %d", (int)args.n_images,
                         (int)session->max_images);
    if (session->desc.fixed_batch && args.n_images != session->max_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: n_images is %d, the session was created for batches of exactly %d",
                         (int)args.n_images, (int)session->max_images);
    if (args.images != NULL && session->desc.images.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: images is given, but the session takes them from session desc's images");
    if (masked && args.n_images > 0)
        RVIT_TRY(check_masks(session, &args));
    if (!masked && args.keep != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep is given, but the session does not prune by a given mask");
    if (session->stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: the session's stream is recording");
    uint8_t *host = session->upload->host;
    if (hands_over)
        memcpy(host + session->live_images.offset, &args.n_images, sizeof args.n_images);
    const rvit_model_info *info = &session->model->info;
    if (args.images != NULL)
        memcpy(host + session->images.offset, args.images,
               (size_t)args.n_images * (size_t)info->channels * (size_t)info->image_size * (size_t)info->image_size * sizeof(float));
    if (masked)
        write_masks(session, &args);
    RVIT_TRY(rvit_program_launch(session->program, session->stream));
    session->n_images = args.n_images;
    session->has_results = session->has_kept = 0;
    session->pending = 1;
    return RVIT_OK;
}

/* What the stages reported, of which the first is told, and forgets it. */
static rvit_status take_errors(rvit_session *s)
{
    static const char *const errors[3] = {"a score is NaN", "the given mask drops a prefix token",
                                          "scores are negative, infinite or all zero, and cannot be added up"};
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < s->schedule.n_stages && !s->schedule.policy->merges; i++) {
        const int32_t error = *s->stages[i].host_error;
        if (error != 0 && status == RVIT_OK)
            status = rvit_fail(RVIT_INVALID_ARGUMENT, "image %d: %s at prune stage %d (block %d)", (int)(error - 1) / 3,
                               errors[(error - 1) % 3], (int)i, (int)s->schedule.blocks[i]);
        *s->stages[i].host_error = 0;
    }
    return status;
}

rvit_status rvit_session_wait(rvit_session *session)
{
    RVIT_ENTRY;
    if (session == NULL || !session->pending)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_wait: session is NULL, or nothing is enqueued");
    session->pending = 0;
    RVIT_TRY(rvit_stream_synchronize(session->stream));
    RVIT_TRY(take_errors(session));
    session->has_results = 1;
    return RVIT_OK;
}

rvit_status rvit_session_run(rvit_session *session, const rvit_run_args *args, float *out_logits)
{
    RVIT_ENTRY;
    if (session != NULL && out_logits != NULL && (session->model->info.n_classes == 0 || session->desc.logits.buffer != NULL))
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_run: out_logits is given, but %s",
                         session->model->info.n_classes == 0 ? "the model has no head"
                                                             : "the session leaves them at session desc's logits");
    RVIT_TRY(rvit_session_enqueue(session, args));
    RVIT_TRY(rvit_session_wait(session));
    if (out_logits != NULL && session->n_images > 0)
        memcpy(out_logits, rvit_session_logits(session),
               (size_t)session->n_images * (size_t)session->model->info.n_classes * sizeof *out_logits);
    return RVIT_OK;
}
