/* The memory of a session: what lies where, and what the device needs before the first run. */
#include "core/vit_session.h"

#include <string.h>

/* Places arrays one after another in memory that is allocated once its size is known: every plan runs twice, first to measure, and
   rvit_session_memory runs it that first time alone. */
typedef struct region {
    rvit_buffer *buffer; /* NULL to measure, and of host arrays */
    uint8_t *host;       /* of host arrays; NULL to measure */
    int64_t size;
} region;

static int64_t rounded(int64_t size)
{
    return (size + 255) / 256 * 256;
}

static rvit_view take(region *r, int64_t size)
{
    const rvit_view view = {r->buffer, r->size};
    r->size += rounded(size);
    return view;
}

static void *take_host(region *r, int64_t size)
{
    void *array = r->host == NULL ? NULL : r->host + r->size;
    r->size += rounded(size);
    return array;
}

int rvit_session_scores_cls(const rvit_session *s)
{
    const rvit_policy *policy = s->schedule.policy;
    return s->schedule.n_stages > 0 && !policy->merges && s->schedule.select != RVIT_SELECT_MASK &&
           (policy->score == RVIT_SCORE_CLS_ATTENTION || policy->score == RVIT_SCORE_CLS_NORM);
}

static void plan_upload(rvit_session *s, region *r)
{
    const rvit_model_info *info = &s->model->info;
    s->live_images = take(r, 4);
    s->images = s->desc.images;
    if (s->images.buffer == NULL)
        s->images = take(r, (int64_t)s->max_images * info->channels * info->image_size * info->image_size * 4);
    for (int32_t i = 0; i < s->schedule.n_stages && s->schedule.select == RVIT_SELECT_MASK; i++)
        s->stages[i].keep_in = take(r, s->stages[i].rows);
    s->host_tables = take(r, s->tables_size);
}

/* The wide array holds, in turn, what is never needed at once: the cut patches, qkv, the MLP's hidden layer, a predictor's layers. The
   normalised rows make room for the attention's output once qkv is computed. The second residual array is for the rows a prune stage
   leaves. */
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
    s->x[1] = take(r, s->schedule.n_stages == 0 ? 0 : s->stages[0].rows_after * x_size);
    s->normed = take(r, rows * info->dim * element);
    s->wide = take(r, rows * width * element);
    s->cu_seqlens = take(r, ((int64_t)s->max_images + 1) * 4);
    if (rvit_session_scores_cls(s))
        s->cls_probs = take(r, rows * info->n_heads * 4);
    if (s->schedule.n_stages > 0 && s->schedule.policy->merges)
        s->metric = take(r, rows * info->head_dim * 4);
}

static void plan_stages(rvit_session *s, region *r)
{
    const rvit_policy *policy = s->schedule.policy;
    const int ranks = s->schedule.select == RVIT_SELECT_TOP_K && !policy->merges;
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->src_rows = take(r, stage->rows * 4);
        if (policy->merges) {
            stage->sizes = take(r, stage->rows_after * 4);
            stage->key_bias = take(r, stage->rows_after * 4);
        } else if (s->schedule.select != RVIT_SELECT_MASK) {
            stage->scores = take(r, stage->rows * 4);
        }
    }
    const int64_t tables = r->size;
    s->tables = take(r, 0);
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        if (ranks)
            stage->counts = take(r, ((int64_t)stage->max_len + 1) * 4);
        if (ranks && policy->score == RVIT_SCORE_POSITION)
            stage->position_scores = take(r, (int64_t)stage->max_len * 4);
    }
    s->tables_size = r->size - tables;
    const int64_t results = r->size;
    s->results = take(r, 0);
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->keep = take(r, stage->rows);
        stage->cu_seqlens = take(r, ((int64_t)s->max_images + 1) * 4);
        if (policy->merges)
            stage->next_rows = take(r, stage->rows * 4);
    }
    s->results_size = r->size - results;
}

static void plan_arena(rvit_session *s, region *r)
{
    plan_activations(s, r);
    plan_stages(s, r);
}

static void plan_readback(rvit_session *s, region *r)
{
    const rvit_model_info *info = &s->model->info;
    const int64_t rows = (int64_t)s->max_images * info->tokens;
    s->logits = s->desc.logits;
    if (s->logits.buffer == NULL)
        s->logits = take(r, (int64_t)s->max_images * info->n_classes * 4);
    const int64_t rows_left = s->schedule.n_stages == 0 ? rows : s->stages[s->schedule.n_stages - 1].rows_after;
    if (s->desc.outputs & RVIT_OUTPUT_FEATURES)
        s->features = take(r, rows_left * info->dim * 4);
    if (s->desc.outputs & RVIT_OUTPUT_CLS_ATTENTION)
        s->cls_attention = take(r, rows * info->n_heads * 4);
    s->host_results = take(r, s->results_size);
    for (int32_t i = 0; i < s->schedule.n_stages && !s->schedule.policy->merges; i++)
        s->stages[i].error = take(r, 4);
    if (r->buffer == NULL)
        return;
    uint8_t *mapped = rvit_buffer_host(r->buffer);
    const uint8_t *host = mapped + s->host_results.offset;
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->host_keep = host + (stage->keep.offset - s->results.offset);
        stage->host_cu_seqlens = (const int32_t *)(host + (stage->cu_seqlens.offset - s->results.offset));
        if (s->schedule.policy->merges) {
            stage->host_next_rows = (const int32_t *)(host + (stage->next_rows.offset - s->results.offset));
            continue;
        }
        stage->host_error = (int32_t *)(void *)(mapped + stage->error.offset);
        *stage->host_error = 0;
    }
}

static void plan_trace(rvit_session *s, region *r)
{
    const rvit_model *model = s->model;
    s->trace_stride = rounded((int64_t)s->max_images * model->info.tokens * model->info.dim * rvit_dtype_size(model->x_dtype));
    s->trace_blocks = take(r, (model->info.depth + 1) * s->trace_stride);
    for (int32_t i = 0; i < s->schedule.n_stages; i++)
        s->trace_scores[i] = take(r, s->stages[i].rows * 4);
}

static void plan_host(rvit_session *s, region *r)
{
    s->token_row = take_host(r, 2 * (int64_t)s->model->info.tokens * 4);
    s->host_cu_seqlens = take_host(r, ((int64_t)s->max_images + 1) * 4);
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->kept = take_host(r, stage->rows_after * 4);
        if (s->schedule.policy->merges)
            stage->kept_sizes = take_host(r, stage->rows_after * 4);
    }
}

static int64_t measured(rvit_session *s, void (*plan)(rvit_session *, region *))
{
    region r = {NULL, NULL, 0};
    plan(s, &r);
    return r.size > 0 ? r.size : 1;
}

static rvit_status create_region(rvit_session *s, int64_t size, rvit_buffer **buffer, rvit_buffer_type type,
                                 void (*plan)(rvit_session *, region *))
{
    RVIT_TRY(rvit_buffer_create(s->model->device, size, type, buffer));
    region r = {*buffer, NULL, 0};
    plan(s, &r);
    return RVIT_OK;
}

/* How many tokens a stage leaves an image that has `len`, at most; *exact is cleared if it may leave fewer. */
static int32_t tokens_left(const rvit_session *s, const rvit_stage *stage, int32_t len, int32_t *exact)
{
    const rvit_policy *policy = s->schedule.policy;
    const int32_t n_prefix = s->model->info.n_prefix, patches = len > n_prefix ? len - n_prefix : 0;
    if (policy->merges) {
        const int32_t merges = s->schedule.merges < patches / 2 ? s->schedule.merges : patches / 2;
        return len - merges;
    }
    if (s->schedule.select == RVIT_SELECT_TOP_K) {
        const int32_t competing = policy->prefix_competes ? len : patches;
        const int32_t k = stage->host_counts[competing];
        if (k == competing)
            return len;
        const int32_t left = k + n_prefix + policy->fuses;
        *exact &= !policy->prefix_competes;
        return left < len ? left : len;
    }
    *exact = 0;
    if (s->schedule.select == RVIT_SELECT_SAMPLE && patches > 1)
        return n_prefix + (s->schedule.n_samples < patches - 1 ? s->schedule.n_samples : patches - 1);
    return len;
}

/* Bytes of the stages' tables of counts, which the capacities follow from. */
static int64_t counts_size(const rvit_session *s)
{
    const int ranks = s->schedule.select == RVIT_SELECT_TOP_K && !s->schedule.policy->merges;
    return ranks ? s->schedule.n_stages * ((int64_t)s->model->info.tokens + 1) * 4 : 0;
}

/* Capacities follow from the rules alone. */
static rvit_status plan_capacities(rvit_session *s)
{
    int32_t len = s->model->info.tokens, exact = 1;
    const int64_t size = counts_size(s);
    if (size > 0) {
        s->counts = rvit_alloc_new(&s->model->device->alloc, (size_t)size);
        if (s->counts == NULL)
            return RVIT_OUT_OF_HOST_MEMORY;
    }
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        rvit_stage *stage = &s->stages[i];
        stage->max_len = len;
        stage->rows = (int64_t)s->max_images * len;
        if (s->counts != NULL) {
            stage->host_counts = s->counts + i * ((int64_t)s->model->info.tokens + 1);
            RVIT_TRY(rvit_prune_counts(&s->schedule, i, len, stage->host_counts));
        }
        len = tokens_left(s, stage, len, &exact);
        stage->max_len_after = len;
        stage->rows_after = (int64_t)s->max_images * len;
        stage->exact = exact;
    }
    return RVIT_OK;
}

/* The tables go to the device by way of the upload buffer, which is theirs until the first run. */
static rvit_status write_tables(rvit_session *s)
{
    if (s->tables_size == 0)
        return RVIT_OK;
    uint8_t *host = (uint8_t *)rvit_buffer_host(s->upload) + s->host_tables.offset - s->tables.offset;
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        const rvit_stage *stage = &s->stages[i];
        memcpy(host + stage->counts.offset, stage->host_counts, ((size_t)stage->max_len + 1) * sizeof *stage->host_counts);
        if (stage->position_scores.buffer != NULL)
            rvit_prune_random_scores(&s->schedule, i, stage->max_len, (float *)(host + stage->position_scores.offset));
    }
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = s->host_tables;
    args.destination = s->tables;
    args.size = s->tables_size;
    /* A stream of the caller's may be one that cannot be waited for. */
    rvit_stream *stream = s->stream;
    if (stream->deferred)
        RVIT_TRY(rvit_stream_create(stream->device, &stream));
    rvit_status status = rvit_copy(stream, &args);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(stream);
    if (stream != s->stream)
        rvit_stream_destroy(stream);
    return status;
}

/* Host memory that is not the session's own arrays: itself, and the counts that come before all measuring. */
static int64_t measured_host(rvit_session *s)
{
    return (int64_t)sizeof *s + counts_size(s) + measured(s, plan_host);
}

/* The order matters: readback and upload repeat what the arena holds of results and tables. */
static rvit_status measure(rvit_session *s, rvit_memory_info *memory)
{
    RVIT_TRY(plan_capacities(s));
    *memory = (rvit_memory_info)RVIT_MEMORY_INFO_INIT;
    memory->device_size = measured(s, plan_arena);
    memory->upload_size = measured(s, plan_upload);
    memory->readback_size = measured(s, plan_readback);
    if (s->desc.trace)
        memory->trace_size = measured(s, plan_trace);
    memory->host_size = measured_host(s);
    return RVIT_OK;
}

rvit_status rvit_session_measure(rvit_session *s, rvit_memory_info *out_memory)
{
    const rvit_status status = measure(s, out_memory);
    rvit_alloc_free(&s->model->device->alloc, s->counts);
    s->counts = NULL;
    return status;
}

rvit_status rvit_session_plan_memory(rvit_session *s)
{
    rvit_memory_info memory;
    RVIT_TRY(measure(s, &memory));
    RVIT_TRY(create_region(s, memory.device_size, &s->arena, RVIT_BUFFER_DEVICE, plan_arena));
    RVIT_TRY(create_region(s, memory.upload_size, &s->upload, RVIT_BUFFER_UPLOAD, plan_upload));
    RVIT_TRY(create_region(s, memory.readback_size, &s->readback, RVIT_BUFFER_READBACK, plan_readback));
    if (s->desc.trace)
        RVIT_TRY(create_region(s, memory.trace_size, &s->traced, RVIT_BUFFER_READBACK, plan_trace));
    s->host = rvit_alloc_new(&s->model->device->alloc, (size_t)measured(s, plan_host));
    if (s->host == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    region r = {NULL, s->host, 0};
    plan_host(s, &r);
    for (int32_t i = 0; i <= s->max_images; i++)
        s->host_cu_seqlens[i] = i * s->model->info.tokens;
    return write_tables(s);
}

void rvit_session_free_memory(rvit_session *s)
{
    rvit_alloc *alloc = &s->model->device->alloc;
    rvit_buffer_destroy(s->upload);
    rvit_buffer_destroy(s->arena);
    rvit_buffer_destroy(s->readback);
    rvit_buffer_destroy(s->traced);
    rvit_alloc_free(alloc, s->counts);
    rvit_alloc_free(alloc, s->host);
}
