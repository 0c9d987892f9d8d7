#include "answer.h"

#include <string.h>
#include <time.h>

#include "failure.h"
#include "rank.h"
#include "session_results.h"

enum { MAX_TOP = 100, RANKED = 1 << OUTPUT_CLASSES | 1 << OUTPUT_SCORES | 1 << OUTPUT_LABELS };

uint64_t answer_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* The data of the outputs of a request. */
struct results {
    const struct model *model;
    const rvit_session *session;
    int32_t first, n;      /* images of the request in the run */
    const float *logits;   /* of the images of the request */
    const int32_t *ranked; /* [n, top] */
};

/* Bytes of an output for all images. */
static uint64_t size_of(const struct results *self, enum output_kind kind)
{
    const struct names *names = &self->model->names;
    const uint64_t n = (uint64_t)self->n * (uint64_t)self->model->tensors.width[kind];
    uint64_t size = 0;
    if (kind != OUTPUT_LABELS)
        return tensors_outputs[kind].type == TRITONSERVER_TYPE_UINT8 ? n : 4 * n;
    for (uint64_t i = 0; i < n; i++)
        size += names->starts[self->ranked[i] + 1] - names->starts[self->ranked[i]];
    return size;
}

static void write_labels(const struct results *self, uint8_t *out)
{
    const struct names *names = &self->model->names;
    for (int64_t i = 0; i < (int64_t)self->n * self->model->top; i++) {
        const uint32_t begin = names->starts[self->ranked[i]], size = names->starts[self->ranked[i] + 1] - begin;
        memcpy(out, names->bytes + begin, size);
        out += size;
    }
}

static void write_scores(const struct results *self, uint8_t *out)
{
    const int32_t n_classes = self->model->info.n_classes, top = self->model->top;
    double scores[MAX_TOP];
    for (int64_t i = 0; i < self->n; i++) {
        rank_scores(self->logits + i * n_classes, n_classes, self->ranked + i * top, top, scores);
        for (int32_t k = 0; k < top; k++, out += 4)
            memcpy(out, &(float){(float)scores[k]}, 4);
    }
}

/* Copies the float32 rows of the images. */
static TRITONSERVER_Error *write_rows(const struct results *self, const float *rows, int64_t width, uint8_t *out)
{
    if (!rows)
        return failure(TRITONSERVER_ERROR_INTERNAL, "the run has no such result");
    memcpy(out, rows + self->first * width, (size_t)(self->n * width) * sizeof *rows);
    return NULL;
}

static TRITONSERVER_Error *write_masks(const struct results *self, uint8_t *out)
{
    const int32_t stage = session_n_stages(self->session) - 1;
    const int64_t width = self->model->tensors.width[OUTPUT_MASK];
    for (int32_t i = 0; i < self->n; i++, out += width) {
        if (stage < 0) {
            memset(out, 1, (size_t)width);
            continue;
        }
        const rvit_status status = rvit_session_keep_mask(self->session, stage, self->first + i, out);
        if (status != RVIT_OK)
            return failure_of_status(status, NULL);
    }
    return NULL;
}

static TRITONSERVER_Error *write_tokens(const struct results *self, uint8_t *out)
{
    const int32_t *cu = session_cu_seqlens(self->session, session_n_stages(self->session) - 1);
    if (!cu)
        return failure(TRITONSERVER_ERROR_INTERNAL, "the run has no token counts");
    for (int32_t i = self->first; i < self->first + self->n; i++, out += 4) {
        const int32_t n = cu[i + 1] - cu[i];
        memcpy(out, &n, 4);
    }
    return NULL;
}

static TRITONSERVER_Error *write_output(const struct results *self, enum output_kind kind, uint8_t *out)
{
    const int64_t width = self->model->tensors.width[kind];
    rvit_result_view pooled;
    switch (kind) {
    case OUTPUT_LOGITS:
        return write_rows(self, session_floats(self->session, RVIT_RESULT_LOGITS), width, out);
    case OUTPUT_EMBEDDING:
        return write_rows(self, session_floats(self->session, RVIT_RESULT_PROJECTED), width, out);
    case OUTPUT_POOLED:
        pooled = session_result(self->session, RVIT_RESULT_POOLED, 0);
        return write_rows(self, pooled.width == width ? pooled.data : NULL, width, out);
    case OUTPUT_MASK:
        return write_masks(self, out);
    case OUTPUT_TOKENS:
        return write_tokens(self, out);
    case OUTPUT_CLASSES:
        memcpy(out, self->ranked, 4 * (size_t)self->n * (size_t)width);
        return NULL;
    case OUTPUT_SCORES:
        write_scores(self, out);
        return NULL;
    case OUTPUT_LABELS:
        write_labels(self, out);
        return NULL;
    case N_OUTPUTS:
        break;
    }
    return failure(TRITONSERVER_ERROR_INTERNAL, "there is no such output");
}

static TRITONSERVER_Error *add_output(const struct results *self, enum output_kind kind, TRITONBACKEND_Response *response)
{
    const int64_t shape[2] = {self->n, self->model->tensors.width[kind]};
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    TRITONBACKEND_Output *output = NULL;
    int64_t memory_id = 0;
    void *buffer = NULL;
    const uint64_t size = size_of(self, kind);
    TRY(TRITONBACKEND_ResponseOutput(response, &output, tensors_outputs[kind].name, tensors_outputs[kind].type, shape, 2));
    TRY(TRITONBACKEND_OutputBuffer(output, &buffer, size, &memory, &memory_id));
    if (memory == TRITONSERVER_MEMORY_GPU)
        return failure(TRITONSERVER_ERROR_UNSUPPORTED, "%s was requested in the memory of GPU %lld; only host memory is supported",
                       tensors_outputs[kind].name, (long long)memory_id);
    return write_output(self, kind, buffer);
}

static TRITONSERVER_Error *add_outputs(const struct instance *instance, const struct request *request, rvit_session *session,
                                       TRITONBACKEND_Response *response)
{
    const struct model *model = instance->model;
    struct results results = {.model = model, .session = session, .first = request->run_first, .n = request->n, .ranked = instance->ranked};
    const float *logits = session_floats(session, RVIT_RESULT_LOGITS);
    if (logits)
        results.logits = logits + (int64_t)request->run_first * model->info.n_classes;
    for (int64_t i = 0; request->outputs & RANKED && i < request->n; i++)
        rank_classes(results.logits + i * model->info.n_classes, model->info.n_classes, model->top, instance->ranked + i * model->top);
    for (int kind = 0; kind < N_OUTPUTS; kind++)
        if (request->outputs & 1U << kind)
            TRY(add_output(&results, (enum output_kind)kind, response));
    return NULL;
}

void answer_request(const struct instance *instance, struct request *request, rvit_session *session, const struct answer_times *times)
{
    TRITONBACKEND_Response *response = NULL;
    TRITONSERVER_Error *failed = TRITONBACKEND_ResponseNew(&response, request->handle);
    if (!failed && !request->error)
        request->error = add_outputs(instance, request, session, response);
    if (!failed)
        failed = TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, request->error);
    failure_log(failed, "a request was not answered");
    failure_log(TRITONBACKEND_ModelInstanceReportStatistics(instance->handle, request->handle, !request->error, times->begin,
                                                            times->compute_begin, times->compute_end, answer_now()),
                "statistics are lost");
    metrics_add(&instance->model->metrics, request->error ? METRIC_FAILED_IMAGES : METRIC_IMAGES, request->n > 0 ? request->n : 1);
    if (request->error)
        TRITONSERVER_ErrorDelete(request->error);
    request->error = NULL;
    request->is_answered = true;
    failure_log(TRITONBACKEND_RequestRelease(request->handle, TRITONSERVER_REQUEST_RELEASE_ALL), "a request was not released");
}
