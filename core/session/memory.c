/* Allocates the arrays of a session's plan and initialises those that the first run needs. */
#include <string.h>

#include "core/session/memory.h"

static rvit_status create_arenas(rvit_session *s)
{
    static const rvit_buffer_type types[RVIT_N_BUFFERS] = {[RVIT_ARENA_DEVICE] = RVIT_BUFFER_DEVICE,
                                                           [RVIT_ARENA_UPLOAD] = RVIT_BUFFER_UPLOAD,
                                                           [RVIT_ARENA_READBACK] = RVIT_BUFFER_READBACK,
                                                           [RVIT_ARENA_TRACE] = RVIT_BUFFER_READBACK};
    const rvit_session_plan *plan = s->plan;
    for (int i = RVIT_ARENA_DEVICE; i < RVIT_N_BUFFERS; i++) {
        if (plan->sizes[i] == 0)
            continue;
        RVIT_TRY(rvit_buffer_create(s->model->device, plan->sizes[i], types[i], &s->arenas[i].view.buffer));
        if (types[i] != RVIT_BUFFER_DEVICE)
            s->arenas[i].host = rvit_buffer_host(s->arenas[i].view.buffer);
    }
    s->arenas[RVIT_ARENA_HOST].host = rvit_alloc_new(&s->model->device->alloc, (size_t)plan->sizes[RVIT_ARENA_HOST]);
    RVIT_TRY_MEMORY(s->arenas[RVIT_ARENA_HOST].host);
    s->arenas[RVIT_ARENA_TABLES].view = rvit_session_view(s, plan->tables);
    s->arenas[RVIT_ARENA_TABLES].host = rvit_session_host(s, plan->tables_upload);
    s->arenas[RVIT_ARENA_RESULTS].view = rvit_session_view(s, plan->results);
    s->arenas[RVIT_ARENA_RESULTS].host = rvit_session_host(s, plan->results_readback);
    return RVIT_OK;
}

static rvit_status copy_and_wait(rvit_stream *stream, const rvit_copy_args *args)
{
    RVIT_TRY(rvit_copy(stream, args));
    return rvit_stream_synchronize(stream);
}

/* Copies the tables to the device through the upload buffer. */
static rvit_status write_tables(const rvit_session *s)
{
    const rvit_session_plan *plan = s->plan;
    if (plan->tables.size == 0)
        return RVIT_OK;
    int32_t *live_counts = rvit_session_host(s, plan->live_counts);
    float *frequencies = rvit_session_host(s, plan->frequencies);
    if (frequencies != NULL)
        RVIT_TRY(rvit_rope_frequencies(s->model->rope.coordinates, s->model->rope.base, s->model->info.head_dim, frequencies));
    for (int32_t n = 0; live_counts != NULL && n <= plan->desc.max_images; n++)
        live_counts[n] = n;
    int32_t *anchor_counts = rvit_session_host(s, plan->anchor_counts);
    if (anchor_counts != NULL)
        RVIT_TRY(rvit_prune_anchor_counts(&plan->schedule, s->model->info.tokens, anchor_counts));
    for (int32_t i = 0; i < plan->schedule.n_stages; i++) {
        const rvit_stage_plan *stage = &plan->stages[i];
        if (stage->count_table != NULL)
            memcpy(rvit_session_host(s, stage->counts), stage->count_table, (size_t)stage->counts.size);
        float *position_scores = rvit_session_host(s, stage->position_scores);
        if (position_scores != NULL)
            rvit_prune_random_scores(&plan->schedule, i, plan->segments[i].max_len, position_scores);
    }
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = rvit_session_view(s, plan->tables_upload);
    args.destination = rvit_session_view(s, plan->tables);
    args.size = plan->tables.size;
    if (!s->stream->deferred)
        return copy_and_wait(s->stream, &args);
    /* The library cannot wait for the caller's stream. */
    rvit_stream *stream = NULL;
    RVIT_TRY(rvit_stream_create(s->model->device, &stream));
    const rvit_status status = copy_and_wait(stream, &args);
    rvit_stream_destroy(stream);
    return status;
}

void rvit_session_forget_errors(const rvit_session *s)
{
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++) {
        int32_t *error = rvit_session_host(s, s->plan->stages[i].error);
        if (error != NULL)
            memset(error, 0, (size_t)s->plan->stages[i].error.size);
    }
}

rvit_status rvit_session_allocate(rvit_session *s)
{
    const rvit_session_plan *plan = s->plan;
    RVIT_TRY(create_arenas(s));
    int32_t *cu_seqlens = rvit_session_host(s, plan->host_cu_seqlens);
    for (int32_t i = 0; i <= plan->desc.max_images; i++)
        cu_seqlens[i] = plan->desc.variable_resolution ? 0 : i * s->model->info.tokens;
    memset(rvit_session_host(s, plan->image_errors), 0, (size_t)plan->image_errors.size);
    int32_t *saturated = rvit_session_host(s, plan->saturated);
    if (saturated != NULL)
        *saturated = 0;
    rvit_session_forget_errors(s);
    return write_tables(s);
}

void rvit_session_free(rvit_session *s)
{
    for (int i = RVIT_ARENA_DEVICE; i < RVIT_N_BUFFERS; i++)
        rvit_buffer_destroy(s->arenas[i].view.buffer);
    rvit_alloc_free(&s->model->device->alloc, s->arenas[RVIT_ARENA_HOST].host);
}
