/* Checks and enqueues the runs of a session, and waits for them. */
#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"
#include "core/session/input.h"
#include "core/session/variable_resolution.h"
#include "core/session/results.h"

/* The layout of the unpruned images, which is that of the masks. */
static const int32_t *run_layout(const rvit_session *s)
{
    return rvit_session_host(s, s->plan->desc.variable_resolution ? s->plan->run_cu_seqlens : s->plan->host_cu_seqlens);
}

/* The masks of a stage, image after image. */
static const uint8_t *mask_of(const rvit_session *s, const rvit_run_args *args, int32_t stage)
{
    return args->keep + (int64_t)stage * run_layout(s)[args->n_images];
}

/* Whether the masks of stages 0..stage keep a token. */
static int is_kept(const rvit_session *s, const rvit_run_args *args, int32_t stage, int32_t token)
{
    for (int32_t i = 0; i <= stage; i++)
        if (mask_of(s, args, i)[token] == 0)
            return 0;
    return 1;
}

/* Without prefix tokens, masks could drop all tokens of an image. */
static rvit_status check_not_empty(const rvit_session *s, const rvit_run_args *args)
{
    const int32_t *cu = run_layout(s), n_stages = s->plan->schedule.n_stages;
    for (int32_t image = 0; image < args->n_images; image++) {
        int32_t left = 0;
        for (int32_t t = cu[image]; t < cu[image + 1] && !left; t++)
            left = is_kept(s, args, n_stages - 1, t);
        if (!left)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep leaves no token of image %d", (int)image);
    }
    return RVIT_OK;
}

/* RVIT_TRACE_GIVEN: the masks must keep no more than the policy could, because the memory of the stages is planned for that. */
static rvit_status check_capacity(const rvit_session *s, const rvit_run_args *args)
{
    const int32_t *cu = run_layout(s);
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++) {
        const rvit_segment *left = &s->plan->segments[i + 1];
        int64_t rows = 0;
        for (int32_t image = 0; image < args->n_images; image++) {
            int32_t n = 0;
            for (int32_t t = cu[image]; t < cu[image + 1]; t++)
                n += is_kept(s, args, i, t);
            rows += n;
            if (n > left->max_len || rows > left->rows)
                return rvit_fail(RVIT_INVALID_ARGUMENT,
                                 "run args: keep leaves image %d %d tokens after stage %d, where %s leaves %d at most, and %lld in the "
                                 "whole batch",
                                 (int)image, (int)n, (int)i, rvit_policy_name(s->plan->schedule.policy), (int)left->max_len,
                                 (long long)left->rows);
        }
    }
    return RVIT_OK;
}

static rvit_status check_masks(const rvit_session *s, const rvit_run_args *args)
{
    const int32_t *cu = run_layout(s), n_prefix = s->model->info.n_prefix;
    if (args->keep == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep is NULL, the session prunes by a mask of the caller");
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++)
        for (int32_t image = 0; image < args->n_images; image++)
            for (int32_t t = 0; t < n_prefix; t++)
                if (mask_of(s, args, i)[cu[image] + t] == 0)
                    return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep of stage %d drops prefix token %d of image %d", (int)i, (int)t,
                                     (int)image);
    if (s->plan->schedule.given)
        RVIT_TRY(check_capacity(s, args));
    return n_prefix > 0 ? RVIT_OK : check_not_empty(s, args);
}

/* The mask of a stage covers the tokens that earlier stages left, so masks are compacted. */
static void write_masks(const rvit_session *s, const rvit_run_args *args)
{
    const int32_t tokens = run_layout(s)[args->n_images];
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++) {
        uint8_t *packed = rvit_session_host(s, s->plan->stages[i].keep_in);
        for (int32_t t = 0; t < tokens; t++)
            if (is_kept(s, args, i - 1, t))
                *packed++ = mask_of(s, args, i)[t] != 0;
    }
}

/* Checks the arguments and lays out the run; images are written to the staging buffer. */
static rvit_status check_run(rvit_session *s, const rvit_run_args *args, int masked)
{
    const rvit_session_desc *desc = &s->plan->desc;
    if (args->n_images < 0 || args->n_images > desc->max_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: n_images is %d, the session's capacity is %d", (int)args->n_images,
                         (int)desc->max_images);
    if (desc->fixed_batch && args->n_images != desc->max_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: n_images is %d, the session was created for batches of exactly %d",
                         (int)args->n_images, (int)desc->max_images);
    RVIT_TRY(rvit_session_input_check(s, args));
    if (desc->input == RVIT_INPUT_IMAGES)
        RVIT_TRY(rvit_session_input_write_images(s, args));
    if (desc->variable_resolution)
        RVIT_TRY(rvit_variable_lay_out(s, args));
    if (masked && args->n_images > 0)
        RVIT_TRY(check_masks(s, args));
    if (!masked && args->keep != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep is given, but the session does not prune by a mask of the caller");
    if (s->stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: the session's stream is recording");
    return RVIT_OK;
}

/* The patchify op of a run. It lays out the rows of the whole capacity. */
static rvit_status patchify_of(const rvit_session *s, const rvit_run_args *args, rvit_op *out_op)
{
    rvit_op op = {.type = RVIT_OP_PATCHIFY, .patchify = s->patchify};
    op.patchify.images = args->input.view;
    const int variable = s->plan->desc.variable_resolution;
    if (!s->plan->desc.fixed_batch && !variable)
        op.patchify.live_images.offset += 4 * (int64_t)args->n_images;
    /* The op reads only this run's images, and the view may hold no more: check it for their number, not for the capacity. */
    if (!s->stream->device->binds_capacity)
        op.patchify.n_images = variable ? rvit_variable_patches(s, args->n_images) : args->n_images;
    RVIT_TRY(rvit_op_check(s->stream->device, &op));
    op.patchify.n_images = s->patchify.n_images;
    *out_op = op;
    return RVIT_OK;
}

static rvit_status head_of(const rvit_session *s, const rvit_run_args *args, rvit_op *out_op)
{
    *out_op = (rvit_op){.type = RVIT_OP_HEAD, .head = s->head};
    out_op->head.n_images = args->n_images;
    out_op->head.logits = args->logits;
    return rvit_op_check(s->stream->device, out_op);
}

/* For RVIT_INPUT_RUN; n_images > 0. */
static rvit_status launch_with_views(const rvit_session *s, const rvit_run_args *args)
{
    const rvit_backend_api *api = s->stream->device->api;
    const int has_head = s->model->info.n_classes > 0;
    rvit_op ops[2];
    RVIT_TRY(patchify_of(s, args, &ops[0]));
    if (has_head)
        RVIT_TRY(head_of(s, args, &ops[1]));
    if (s->stream->device->takes_ops)
        return api->program_launch(s->program, s->stream, ops);
    RVIT_TRY(api->stream_enqueue(s->stream, &ops[0], 1));
    RVIT_TRY(api->program_launch(s->program, s->stream, NULL));
    return has_head ? api->stream_enqueue(s->stream, &ops[1], 1) : RVIT_OK;
}

static rvit_status launch(const rvit_session *s, const rvit_run_args *args)
{
    RVIT_TRY(rvit_session_input_send(s));
    if (s->plan->desc.input_memory != RVIT_INPUT_RUN)
        return rvit_program_launch(s->program, s->stream);
    if (args->n_images > 0)
        return launch_with_views(s, args);
    /* Nothing to compute: n_images is 0, and so is the only entry of each layout. */
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++)
        *(int32_t *)rvit_session_host(s, s->plan->stages[i].cu_seqlens) = 0;
    return RVIT_OK;
}

rvit_status rvit_session_enqueue(rvit_session *session, const rvit_run_args *given)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: session is NULL");
    rvit_run_args args;
    RVIT_TRY(rvit_args_copy(&args, sizeof args, given, "run args"));
    const rvit_session_plan *plan = session->plan;
    const rvit_session_desc *desc = &plan->desc;
    const int masked = rvit_prune_takes_mask(&plan->schedule);
    /* A pending run still reads the session's host memory, unless its whole input is on the device. */
    const int is_on_device = desc->input_memory == RVIT_INPUT_RUN || (desc->input_memory == RVIT_INPUT_FIXED && desc->fixed_batch);
    const int reads_host = masked || desc->variable_resolution || !is_on_device;
    if (session->pending && reads_host)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: the previous run has not been waited for");
    RVIT_TRY(check_run(session, &args, masked));
    int32_t *live_images = rvit_session_host(session, plan->live_images);
    if (reads_host && live_images != NULL)
        *live_images = args.n_images;
    const rvit_model_info *info = &session->model->info;
    if (desc->input == RVIT_INPUT_TENSOR && args.input.data != NULL)
        memcpy(rvit_session_host(session, plan->input), args.input.data,
               (size_t)args.n_images * (size_t)info->channels * (size_t)info->image_height * (size_t)info->image_width * sizeof(float));
    if (desc->variable_resolution)
        rvit_variable_write_input(session, &args);
    if (masked)
        write_masks(session, &args);
    RVIT_TRY(launch(session, &args));
    session->n_images = args.n_images;
    session->has_results = session->has_kept = session->has_normalized = 0;
    session->pending = 1;
    return RVIT_OK;
}

rvit_status rvit_session_wait(rvit_session *session)
{
    RVIT_ENTRY;
    if (session == NULL || !session->pending)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_wait: session is NULL, or nothing is enqueued");
    session->pending = 0;
    RVIT_TRY(rvit_stream_synchronize(session->stream));
    uint32_t *saturated = rvit_session_host(session, session->plan->saturated);
    if (saturated != NULL) {
        session->saturated += *saturated;
        *saturated = 0;
    }
    RVIT_TRY(rvit_session_check_results(session));
    session->has_results = 1;
    return rvit_session_take_errors(session);
}

rvit_status rvit_session_run(rvit_session *session, const rvit_run_args *args, float *out_logits)
{
    RVIT_ENTRY;
    if (session != NULL && out_logits != NULL &&
        (session->model->info.n_classes == 0 || session->plan->desc.logits.buffer != NULL ||
         session->plan->desc.input_memory == RVIT_INPUT_RUN))
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_run: out_logits is given, but %s",
                         session->model->info.n_classes == 0                  ? "the model has no head"
                         : session->plan->desc.input_memory == RVIT_INPUT_RUN ? "the session writes them to run args' logits"
                                                                              : "the session writes them to session desc's logits");
    RVIT_TRY(rvit_session_enqueue(session, args));
    RVIT_TRY(rvit_session_wait(session));
    if (out_logits != NULL && session->n_images > 0)
        memcpy(out_logits, rvit_session_host(session, session->plan->logits),
               (size_t)session->n_images * (size_t)session->model->info.n_classes * sizeof *out_logits);
    return RVIT_OK;
}
