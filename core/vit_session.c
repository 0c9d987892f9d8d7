/* Sessions: planned memory, a recorded forward, runs and their results. */
#include "core/vit_session.h"

#include <string.h>

#include "core/args.h"

/* Places arrays one after another in a buffer that is created once its size is known: every plan runs twice, first to measure. */
typedef struct region {
    rvit_buffer *buffer;
    int64_t size;
} region;

static rvit_view take(region *r, int64_t size)
{
    const rvit_view view = {r->buffer, r->size};
    r->size += (size + 255) / 256 * 256;
    return view;
}

static void plan_upload(rvit_session *s, region *r)
{
    const rvit_model_info *info = &s->model->info;
    s->live_images = take(r, 4);
    s->images = take(r, (int64_t)s->max_images * info->channels * info->image_size * info->image_size * 4);
    for (int32_t i = 0; i < s->plan.n_stages && s->plan.policy->select == RVIT_SELECT_MASK; i++)
        s->stages[i].keep_in = take(r, s->stages[i].rows);
}

/* The wide array holds, in turn, what is never needed at once: the cut patches, qkv, the MLP's hidden layer. The normalised rows make
   room for the attention's output once qkv is computed. The second residual array is for the rows a prune stage leaves. */
static void plan_activations(rvit_session *s, region *r)
{
    const rvit_model *model = s->model;
    const rvit_model_info *info = &model->info;
    const int64_t rows = (int64_t)s->max_images * info->tokens;
    const int64_t x_size = info->dim * rvit_dtype_size(model->x_dtype), element = rvit_dtype_size(model->dtype);
    int64_t width = (int64_t)info->channels * info->patch_size * info->patch_size;
    if (width < 3 * (int64_t)info->dim)
        width = 3 * (int64_t)info->dim;
    if (width < info->mlp_dim)
        width = info->mlp_dim;
    s->x[0] = take(r, rows * x_size);
    s->x[1] = take(r, s->plan.n_stages == 0 ? 0 : s->stages[0].rows_after * x_size);
    s->normed = take(r, rows * info->dim * element);
    s->wide = take(r, rows * width * element);
    s->cu_seqlens = take(r, ((int64_t)s->max_images + 1) * 4);
    if (s->plan.n_stages > 0 && s->plan.policy->score == RVIT_SCORE_CLS_ATTENTION)
        s->cls_probs = take(r, rows * info->n_heads * 4);
}

static void plan_stages(rvit_session *s, region *r)
{
    for (int32_t i = 0; i < s->plan.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->counts = take(r, ((int64_t)stage->max_len + 1) * 4);
        stage->scores = take(r, stage->rows * 4);
        stage->src_rows = take(r, stage->rows * 4);
    }
    const int64_t begin = r->size;
    s->results = take(r, 0);
    for (int32_t i = 0; i < s->plan.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->keep = take(r, stage->rows);
        stage->cu_seqlens = take(r, ((int64_t)s->max_images + 1) * 4);
        stage->error = take(r, 4);
    }
    s->results_size = r->size - begin;
}

static void plan_readback(rvit_session *s, region *r)
{
    s->logits = take(r, (int64_t)s->max_images * s->model->info.n_classes * 4);
    s->host_results = take(r, s->results_size);
    if (r->buffer == NULL)
        return;
    const uint8_t *host = (const uint8_t *)rvit_buffer_host(r->buffer) + s->host_results.offset;
    for (int32_t i = 0; i < s->plan.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->host_keep = host + (stage->keep.offset - s->results.offset);
        stage->host_cu_seqlens = (const int32_t *)(host + (stage->cu_seqlens.offset - s->results.offset));
        stage->host_error = (const int32_t *)(host + (stage->error.offset - s->results.offset));
    }
}

static void plan_trace(rvit_session *s, region *r)
{
    const rvit_model *model = s->model;
    const int64_t size = (int64_t)s->max_images * model->info.tokens * model->info.dim * rvit_dtype_size(model->x_dtype);
    for (int32_t i = 0; i <= model->info.depth; i++)
        s->trace_blocks[i] = take(r, size);
    for (int32_t i = 0; i < s->plan.n_stages; i++)
        s->trace_scores[i] = take(r, s->stages[i].rows * 4);
}

static rvit_status create_region(rvit_session *s, rvit_buffer **buffer, rvit_buffer_type type, void (*plan)(rvit_session *, region *))
{
    region r = {NULL, 0};
    plan(s, &r);
    RVIT_TRY(rvit_buffer_create(s->model->device, r.size, type, buffer));
    r = (region){*buffer, 0};
    plan(s, &r);
    return RVIT_OK;
}

static void plan_arena(rvit_session *s, region *r)
{
    plan_activations(s, r);
    plan_stages(s, r);
}

/* How many tokens of an image each stage can leave at most follows from the count rule alone. */
static rvit_status plan_capacities(rvit_session *s)
{
    const rvit_policy *policy = s->plan.policy;
    const int32_t n_prefix = s->model->info.n_prefix;
    rvit_alloc *alloc = &s->model->device->alloc;
    int32_t len = s->model->info.tokens;
    int32_t *counts = rvit_alloc_array(alloc, (size_t)len + 1, sizeof *counts);
    if (counts == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < s->plan.n_stages && status == RVIT_OK; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->max_len = len;
        stage->rows = (int64_t)s->max_images * len;
        if (policy->select == RVIT_SELECT_TOP_K) {
            status = rvit_count_table(policy->count, s->plan.keep, policy->k_min, len, counts);
            const int32_t competing = policy->prefix_competes ? len : len - n_prefix;
            const int32_t most = counts[competing] + n_prefix;
            len = most < len ? most : len;
        }
        stage->max_len_after = len;
        stage->rows_after = (int64_t)s->max_images * len;
    }
    rvit_alloc_free(alloc, counts);
    return status;
}

static rvit_status write_counts(rvit_session *s)
{
    const rvit_policy *policy = s->plan.policy;
    if (s->plan.n_stages == 0 || policy->select != RVIT_SELECT_TOP_K)
        return RVIT_OK;
    rvit_alloc *alloc = &s->model->device->alloc;
    int32_t *counts = rvit_alloc_array(alloc, (size_t)s->model->info.tokens + 1, sizeof *counts);
    if (counts == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < s->plan.n_stages && status == RVIT_OK; i++) {
        const rvit_stage *stage = &s->stages[i];
        status = rvit_count_table(policy->count, s->plan.keep, policy->k_min, stage->max_len, counts);
        if (status == RVIT_OK)
            status = rvit_stream_write(s->stream, stage->counts, counts, ((int64_t)stage->max_len + 1) * 4);
    }
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(s->stream);
    rvit_alloc_free(alloc, counts);
    return status;
}

static rvit_status create_kept(rvit_session *s)
{
    for (int32_t i = 0; i < s->plan.n_stages; i++) {
        s->stages[i].kept = rvit_alloc_array(&s->model->device->alloc, (size_t)s->stages[i].rows_after, sizeof(int32_t));
        if (s->stages[i].kept == NULL)
            return RVIT_OUT_OF_HOST_MEMORY;
    }
    return RVIT_OK;
}

static rvit_status build(rvit_session *s)
{
    rvit_device *device = s->model->device;
    RVIT_TRY(plan_capacities(s));
    RVIT_TRY(rvit_stream_create(device, &s->stream));
    RVIT_TRY(create_region(s, &s->arena, RVIT_BUFFER_DEVICE, plan_arena));
    RVIT_TRY(create_region(s, &s->upload, RVIT_BUFFER_UPLOAD, plan_upload));
    RVIT_TRY(create_region(s, &s->readback, RVIT_BUFFER_READBACK, plan_readback));
    if (s->trace) {
        s->trace_blocks = rvit_alloc_array(&device->alloc, (size_t)s->model->info.depth + 1, sizeof *s->trace_blocks);
        if (s->trace_blocks == NULL)
            return RVIT_OUT_OF_HOST_MEMORY;
        RVIT_TRY(create_region(s, &s->traced, RVIT_BUFFER_READBACK, plan_trace));
    }
    RVIT_TRY(create_kept(s));
    RVIT_TRY(write_counts(s));
    RVIT_TRY(rvit_record_begin(s->stream));
    const rvit_status status = rvit_forward_record(s);
    const rvit_status ended = rvit_record_end(s->stream, &s->program);
    return status != RVIT_OK ? status : ended;
}

rvit_status rvit_session_create(rvit_model *model, const rvit_session_desc *given, rvit_session **out_session)
{
    if (model == NULL || out_session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_create: model or out_session is NULL");
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "session desc"));
    if (desc.max_images < 1 || desc.max_images > 1 << 20)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_images is %d, expected 1..%d", (int)desc.max_images, 1 << 20);
    rvit_prune_plan plan;
    RVIT_TRY(rvit_prune_resolve(&desc.prune, model->info.depth, &plan));
    rvit_alloc *alloc = &model->device->alloc;
    rvit_session *session = rvit_alloc_new(alloc, sizeof *session);
    if (session == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    session->model = model;
    rvit_model_retain(model);
    session->plan = plan;
    session->max_images = desc.max_images;
    session->trace = desc.trace != 0;
    const rvit_status status = build(session);
    if (status != RVIT_OK) {
        rvit_session_destroy(session);
        return status;
    }
    *out_session = session;
    return RVIT_OK;
}

void rvit_session_destroy(rvit_session *session)
{
    if (session == NULL)
        return;
    rvit_model *model = session->model;
    rvit_alloc *alloc = &model->device->alloc;
    if (session->stream != NULL && rvit_stream_synchronize(session->stream) != RVIT_OK)
        rvit_log(RVIT_LOG_ERROR, "a session ended with a run that failed: %s", rvit_status_detail());
    rvit_program_destroy(session->program);
    rvit_stream_destroy(session->stream);
    rvit_buffer_destroy(session->upload);
    rvit_buffer_destroy(session->arena);
    rvit_buffer_destroy(session->readback);
    rvit_buffer_destroy(session->traced);
    for (int32_t i = 0; i < session->plan.n_stages; i++)
        rvit_alloc_free(alloc, session->stages[i].kept);
    rvit_alloc_free(alloc, session->trace_blocks);
    rvit_alloc_free(alloc, session);
    rvit_model_destroy(model);
}

static rvit_status check_masks(const rvit_session *s, const rvit_run_args *args)
{
    const int32_t tokens = s->model->info.tokens, n_prefix = s->model->info.n_prefix;
    if (args->keep == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep is NULL, the session prunes by a given mask");
    for (int32_t i = 0; i < s->plan.n_stages; i++)
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
    for (int32_t i = 0; i < s->plan.n_stages; i++) {
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
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: session is NULL");
    rvit_run_args args;
    RVIT_TRY(rvit_args_copy(&args, sizeof args, given, "run args"));
    if (session->pending)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_enqueue: the run before has not been waited for");
    if (args.n_images < 0 || args.n_images > session->max_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: n_images is %d, the session's capacity is %d", (int)args.n_images,
                         (int)session->max_images);
    const int masked = session->plan.n_stages > 0 && session->plan.policy->select == RVIT_SELECT_MASK;
    if (masked && args.n_images > 0)
        RVIT_TRY(check_masks(session, &args));
    if (!masked && args.keep != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "run args: keep is given, but the session does not prune by a given mask");
    session->has_results = session->has_kept = 0;
    uint8_t *host = session->upload->host;
    memcpy(host + session->live_images.offset, &args.n_images, sizeof args.n_images);
    const rvit_model_info *info = &session->model->info;
    if (args.images != NULL)
        memcpy(host + session->images.offset, args.images,
               (size_t)args.n_images * (size_t)info->channels * (size_t)info->image_size * (size_t)info->image_size * sizeof(float));
    if (masked)
        write_masks(session, &args);
    RVIT_TRY(rvit_program_launch(session->program, session->stream));
    session->n_images = args.n_images;
    session->pending = 1;
    return RVIT_OK;
}

rvit_status rvit_session_wait(rvit_session *session)
{
    if (session == NULL || !session->pending)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_wait: session is NULL, or nothing is enqueued");
    session->pending = 0;
    RVIT_TRY(rvit_stream_synchronize(session->stream));
    for (int32_t i = 0; i < session->plan.n_stages; i++) {
        const int32_t error = *session->stages[i].host_error;
        if (error != 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "image %d: %s at prune stage %d (block %d)", (int)(error - 1) / 2,
                             error % 2 == 1 ? "a score is NaN" : "the given mask drops a prefix token", (int)i,
                             (int)session->plan.blocks[i]);
    }
    session->has_results = 1;
    return RVIT_OK;
}

rvit_status rvit_session_run(rvit_session *session, const rvit_run_args *args, float *out_logits)
{
    RVIT_TRY(rvit_session_enqueue(session, args));
    RVIT_TRY(rvit_session_wait(session));
    if (out_logits != NULL && session->n_images > 0)
        memcpy(out_logits, rvit_session_logits(session),
               (size_t)session->n_images * (size_t)session->model->info.n_classes * sizeof *out_logits);
    return RVIT_OK;
}

float *rvit_session_input(rvit_session *session)
{
    return session == NULL ? NULL : (float *)((uint8_t *)session->upload->host + session->images.offset);
}

const float *rvit_session_logits(const rvit_session *session)
{
    if (session == NULL || !session->has_results)
        return NULL;
    return (const float *)((const uint8_t *)session->readback->host + session->logits.offset);
}

int32_t rvit_session_n_stages(const rvit_session *session)
{
    return session == NULL ? 0 : session->plan.n_stages;
}

const int32_t *rvit_session_cu_seqlens(const rvit_session *session, int32_t stage)
{
    if (session == NULL || !session->has_results || stage < 0 || stage >= session->plan.n_stages)
        return NULL;
    return session->stages[stage].host_cu_seqlens;
}

/* Follows each kept row back to the unpruned image, stage by stage. */
static void compose_kept(rvit_session *s)
{
    for (int32_t i = 0; i < s->plan.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        const rvit_stage *before = i == 0 ? NULL : &s->stages[i - 1];
        int32_t n = 0;
        for (int32_t image = 0; image < s->n_images; image++) {
            const int32_t tokens = s->model->info.tokens;
            const int32_t begin = before == NULL ? image * tokens : before->host_cu_seqlens[image];
            const int32_t end = before == NULL ? begin + tokens : before->host_cu_seqlens[image + 1];
            for (int32_t row = begin; row < end; row++)
                if (stage->host_keep[row] != 0)
                    stage->kept[n++] = before == NULL ? row - begin : before->kept[row];
        }
    }
}

const int32_t *rvit_session_kept(const rvit_session *session, int32_t stage, int32_t image)
{
    if (session == NULL || !session->has_results || stage < 0 || stage >= session->plan.n_stages || image < 0 || image >= session->n_images)
        return NULL;
    if (!session->has_kept) {
        /* A result computed when first asked for: the session belongs to one thread at a time. */
        rvit_session *writable = (rvit_session *)(uintptr_t)session;
        compose_kept(writable);
        writable->has_kept = 1;
    }
    return session->stages[stage].kept + session->stages[stage].host_cu_seqlens[image];
}

rvit_status rvit_session_get_stats(const rvit_session *session, rvit_stats *out_stats)
{
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_stats: session is NULL");
    return rvit_stream_get_stats(session->stream, out_stats);
}

/* Rows alive in the output of block `block`, -1 for the embedding: a stage inside a block shows in its output, one after it does not. */
static int64_t traced_rows(const rvit_session *s, int32_t block)
{
    int64_t rows = (int64_t)s->n_images * s->model->info.tokens;
    for (int32_t i = 0; i < s->plan.n_stages; i++)
        if (s->plan.blocks[i] < block || (s->plan.blocks[i] == block && s->plan.policy->site == RVIT_SITE_AFTER_ATTENTION))
            rows = s->stages[i].host_cu_seqlens[s->max_images];
    return rows;
}

rvit_status rvit_session_trace(const rvit_session *session, rvit_trace what, int32_t index, const void **out_data, rvit_dtype *out_dtype,
                               int64_t *out_rows)
{
    if (session == NULL || out_data == NULL || out_dtype == NULL || out_rows == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: an argument is NULL");
    if (!session->trace)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_trace: the session was created without trace");
    if (!session->has_results)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: there is no finished run");
    const rvit_prune_plan *plan = &session->plan;
    const uint8_t *host = session->traced->host;
    if (what == RVIT_TRACE_EMBEDDING || what == RVIT_TRACE_BLOCK) {
        const int32_t block = what == RVIT_TRACE_EMBEDDING ? -1 : index;
        if (what == RVIT_TRACE_BLOCK && (index < 0 || index >= session->model->info.depth))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: block %d, the model has blocks 0..%d", (int)index,
                             (int)session->model->info.depth - 1);
        *out_data = host + session->trace_blocks[block + 1].offset;
        *out_dtype = session->model->x_dtype;
        *out_rows = traced_rows(session, block);
        return RVIT_OK;
    }
    if (what != RVIT_TRACE_SCORES || index < 0 || index >= plan->n_stages || plan->policy->select == RVIT_SELECT_MASK)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: the session has no scores of stage %d", (int)index);
    *out_data = host + session->trace_scores[index].offset;
    *out_dtype = RVIT_F32;
    *out_rows = index == 0 ? (int64_t)session->n_images * session->model->info.tokens
                           : session->stages[index - 1].host_cu_seqlens[session->max_images];
    return RVIT_OK;
}
