#include "verify_select.h"

#include <string.h>

#include <raggedvit/experimental.h>
#include "session_results.h"

bool selector_knows(const rvit_session *session)
{
    for (int32_t s = 0; s < session_n_stages(session); s++) {
        const rvit_select_args *args = session_select(session, s);
        if (!args || args->mode == RVIT_SELECT_MASK)
            return false;
    }
    return true;
}

int selector_open(const struct engine *engine, int32_t max_images, struct selector *out)
{
    const int32_t tokens = engine->model_info.tokens;
    const int64_t rows = (int64_t)max_images * tokens, layout = ((int64_t)max_images + 1) * 4;
    *out = (struct selector){0};
    const struct {
        int64_t size;
        rvit_buffer_type use;
        rvit_buffer **buffer;
    } buffers[] = {{((int64_t)tokens + 1) * 4, RVIT_BUFFER_UPLOAD, &out->counts},
                   {rows * 4, RVIT_BUFFER_UPLOAD, &out->scores},
                   {layout, RVIT_BUFFER_UPLOAD, &out->cu_seqlens},
                   {rows, RVIT_BUFFER_READBACK, &out->keep},
                   {layout, RVIT_BUFFER_READBACK, &out->out_cu_seqlens},
                   {rows * 4, RVIT_BUFFER_READBACK, &out->src_rows}};
    rvit_status status = rvit_stream_create(engine->device, &out->stream);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers && status == RVIT_OK; i++)
        status = rvit_buffer_create(engine->device, buffers[i].size, buffers[i].use, buffers[i].buffer);
    if (status == RVIT_OK)
        return EXIT_OK;
    const int code = complain_status(NULL, status);
    selector_close(out);
    return code;
}

void selector_close(struct selector *self)
{
    rvit_buffer *const buffers[] = {self->counts, self->scores, self->cu_seqlens, self->keep, self->out_cu_seqlens, self->src_rows};
    rvit_stream_destroy(self->stream);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        rvit_buffer_destroy(buffers[i]);
    *self = (struct selector){0};
}

/* Whether the output of the device is valid for this batch, because it will be used as indices. */
static bool is_selection(const struct selection *found, const int32_t *cu_seqlens, int32_t n_images)
{
    bool is = found->cu_seqlens[0] == 0;
    for (int32_t i = 0; i < n_images && is; i++) {
        const int32_t begin = found->cu_seqlens[i], end = found->cu_seqlens[i + 1];
        is = end >= begin && end <= cu_seqlens[i + 1];
        for (int32_t row = begin; row < end && is; row++)
            is = found->src_rows[row] >= cu_seqlens[i] && found->src_rows[row] < cu_seqlens[i + 1];
    }
    return is;
}

int selector_run(struct selector *self, const rvit_session *session, int32_t stage, const float *scores, const int32_t *cu_seqlens,
                 int32_t n_images, struct selection *out)
{
    const rvit_select_args *recorded = session_select(session, stage);
    if (!recorded)
        return fail_with(EXIT_FAULT, NULL, "%s", rvit_status_detail());
    rvit_select_args args = *recorded;
    const int32_t *counts = session_result(session, RVIT_TRACE_COUNTS, stage).data;
    if (counts) {
        memcpy(rvit_buffer_host(self->counts), counts, ((size_t)args.max_len + 1) * sizeof *counts);
        args.counts.buffer = self->counts;
    }
    args.score = RVIT_SCORE_GIVEN;
    args.n_images = n_images;
    args.scores.buffer = self->scores;
    args.cu_seqlens.buffer = self->cu_seqlens;
    args.keep.buffer = self->keep;
    args.out_cu_seqlens.buffer = self->out_cu_seqlens;
    args.src_rows.buffer = self->src_rows;
    memcpy(rvit_buffer_host(self->scores), scores, (size_t)cu_seqlens[n_images] * sizeof *scores);
    memcpy(rvit_buffer_host(self->cu_seqlens), cu_seqlens, ((size_t)n_images + 1) * sizeof *cu_seqlens);
    rvit_status status = rvit_select(self->stream, &args);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(self->stream);
    *out = (struct selection){rvit_buffer_host(self->keep), rvit_buffer_host(self->out_cu_seqlens), rvit_buffer_host(self->src_rows)};
    if (status != RVIT_OK)
        return complain_status(NULL, status);
    if (is_selection(out, cu_seqlens, n_images))
        return EXIT_OK;
    return fail_with(EXIT_FAULT, NULL, "the device computed a wrong result: a repeated selection has rows that do not exist");
}
