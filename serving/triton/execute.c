/* Runs the requests of a batch. A failing request never affects others. A batch becomes one or more runs, each with requests of one setting
   in order, as long as images, tokens and bytes fit. This thread and the worker pool write images directly to the session's memory, so the
   library copies nothing. */
#include "answer.h"
#include "failure.h"

#include <string.h>

#include "cli.h"
#include "session_results.h"

/* SHARED_COPY: bytes from which the worker pool helps to copy. One thread takes an estimated 100 us for them, far more than
   waking the pool. */
enum { ALIGNMENT = 64, SHARED_COPY = 1 << 20 };

/* Requests of a batch that run together. */
struct run {
    struct instance *instance;
    struct request *requests; /* of the whole batch */
    uint32_t n_requests;
    uint32_t first, last; /* the run has those of first..last for which is_in is true */
    int32_t setting;
    const struct lane *lane;
    int32_t n_requested; /* including bad images */
    int32_t n_images;    /* images that run */
    int64_t tokens, bytes;
    struct answer_times times;
};

static bool is_in(const struct run *self, const struct request *request)
{
    return !request->is_answered && !request->error && request->setting == self->setting;
}

static bool fits(const struct run *self, const struct request *request)
{
    const struct image_plan *plan = &self->instance->model->plan;
    return self->n_requested + request->n <= plan->max_images && self->tokens + request->tokens <= plan->max_tokens &&
           self->bytes + request->bytes <= plan->memory;
}

/* Collects the next run, from request self->first on. Requests of other settings in between stay for later runs. */
static void gather(struct run *self)
{
    struct request *first = &self->requests[self->first];
    self->setting = first->setting;
    self->n_requested = self->n_images = 0;
    self->tokens = self->bytes = 0;
    for (uint32_t i = self->first; i < self->n_requests; i++) {
        struct request *request = &self->requests[i];
        if (!is_in(self, request))
            continue;
        if (self->n_requested > 0 && (!fits(self, request) || request->separate || first->separate))
            break;
        self->n_requested += request->n;
        self->tokens += request->tokens;
        self->bytes += request->bytes;
        self->last = i;
    }
    const struct lane *small = &self->instance->small[self->setting];
    const bool is_small = small->session && self->n_requested <= small->plan->max_images && self->tokens <= small->plan->max_tokens &&
                          self->bytes <= small->plan->memory;
    self->lane = is_small ? small : &self->instance->lanes[self->setting];
}

/* Calls work for each request of the run. */
static void for_each(struct run *self, void (*work)(struct run *self, struct request *request))
{
    for (uint32_t i = self->first; i <= self->last; i++)
        if (is_in(self, &self->requests[i]))
            work(self, &self->requests[i]);
}

static void assign_memory(struct run *self, struct request *request)
{
    uint8_t *memory = self->lane->memory;
    struct batch_image *images = &self->instance->batch_images.list[request->first];
    for (int32_t i = 0; i < request->n; i++) {
        images[i].image.data = memory + self->bytes;
        self->bytes += (images[i].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (images[i].source)
            self->instance->filling[self->instance->job.n++] = (struct filling){.image = &images[i]};
    }
}

static void copy(struct run *self, struct request *request)
{
    request_copy(request, &self->instance->batch_images.list[request->first]);
}

static void share(struct run *self, struct request *request)
{
    if (!self->instance->batch_images.list[request->first].source)
        self->instance->filling[self->instance->job.n++] = (struct filling){.request = request};
}

static void fill_one(void *user, int32_t index)
{
    const struct instance *instance = user;
    const struct filling *filling = &instance->filling[index];
    if (filling->image)
        batch_image_fill(filling->image);
    else
        request_copy(filling->request, &instance->batch_images.list[filling->request->first]);
}

static void note_bad(struct run *self, struct request *request)
{
    const struct batch_image *images = &self->instance->batch_images.list[request->first];
    for (int32_t i = 0; i < request->n && !request->error; i++)
        if (images[i].is_bad)
            request->error = invalid("%s: image %d: %s", tensors_inputs[request->input.kind].name, i, images[i].error.text);
}

/* Writes all images to the session's memory. */
static void fill(struct run *self)
{
    struct instance *instance = self->instance;
    instance->job.work = fill_one;
    instance->job.user = instance;
    instance->job.n = 0;
    self->bytes = 0;
    for_each(self, assign_memory);
    const bool is_shared = self->bytes >= SHARED_COPY;
    if (is_shared)
        for_each(self, share);
    worker_pool_start(instance->model->workers, &instance->job);
    if (!is_shared)
        for_each(self, copy);
    worker_pool_finish(instance->model->workers, &instance->job);
    double seconds = 0;
    for (int32_t i = 0; i < instance->job.n; i++)
        seconds += instance->filling[i].image ? instance->filling[i].image->seconds : 0;
    metrics_add(&instance->model->metrics, METRIC_DECODE_SECONDS, seconds);
    for_each(self, note_bad);
}

static void list_images(struct run *self, struct request *request)
{
    const struct batch_image *images = &self->instance->batch_images.list[request->first];
    request->run_first = self->n_images;
    for (int32_t i = 0; i < request->n; i++)
        self->instance->images[self->n_images++] = images[i].image;
    self->tokens += request->tokens;
}

/* Runs the request again on its own, so that it gets its own error message. */
static void isolate(struct run *self, struct request *request)
{
    (void)self;
    request->separate = true;
}

/* Replaces the number of the image in the run, which is in the library's message, by that in the request. */
static void note_status(struct request *request, int32_t image, rvit_status status)
{
    const char *detail = rvit_status_detail(), *why = strstr(detail, ": ");
    if (status != RVIT_OK)
        request->error =
            failure(failure_code(status), "%s: image %d: %s", tensors_inputs[request->input.kind].name, image, why ? why + 2 : detail);
}

static void answer(struct run *self, struct request *request)
{
    rvit_session *session = self->lane->session;
    for (int32_t i = 0; i < request->n && !request->error; i++)
        note_status(request, i, rvit_session_image_status(session, request->run_first + i));
    answer_request(self->instance, request, session, &self->times);
}

static void fail_all(struct run *self, rvit_status status)
{
    TRITONSERVER_Error *error = failure_of_status(status, NULL);
    for (uint32_t i = self->first; i <= self->last; i++)
        if (is_in(self, &self->requests[i]))
            self->requests[i].error = failure(TRITONSERVER_ErrorCode(error), "%s", TRITONSERVER_ErrorMessage(error));
    TRITONSERVER_ErrorDelete(error);
}

static void count(const struct run *self, const rvit_session *session)
{
    const struct metrics *metrics = &self->instance->model->metrics;
    const int32_t *cu = session_cu_seqlens(session, session_n_stages(session) - 1);
    metrics_add(metrics, METRIC_RUNS, 1);
    metrics_add(metrics, METRIC_RUN_IMAGES, self->n_images);
    metrics_add(metrics, METRIC_TOKENS, (double)self->tokens);
    if (cu)
        metrics_add(metrics, METRIC_TOKENS_KEPT, cu[self->n_images]);
}

static void report(const struct run *self)
{
    failure_log(TRITONBACKEND_ModelInstanceReportBatchStatistics(self->instance->handle, (uint64_t)self->n_images, self->times.begin,
                                                                 self->times.compute_begin, self->times.compute_end, answer_now()),
                "statistics of a batch are lost");
}

static void do_run(struct run *self)
{
    rvit_session *session = self->lane->session;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    fill(self);
    self->tokens = 0;
    for_each(self, list_images);
    self->times.compute_begin = self->times.compute_end = answer_now();
    if (self->n_images == 0)
        return;
    args.n_images = self->n_images;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = self->instance->images;
    rvit_status status = rvit_session_enqueue(session, &args);
    const bool is_enqueued = status == RVIT_OK;
    if (!is_enqueued && self->first != self->last) {
        for_each(self, isolate);
        return;
    }
    if (is_enqueued)
        status = rvit_session_wait(session);
    self->times.compute_end = answer_now();
    if (status != RVIT_OK && (!is_enqueued || !is_of_images(status))) {
        fail_all(self, status);
        return;
    }
    count(self, session);
    for_each(self, answer);
    report(self);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *handle, TRITONBACKEND_Request **requests,
                                                       uint32_t n_requests)
{
    void *state = NULL;
    TRY(TRITONBACKEND_ModelInstanceState(handle, &state));
    struct instance *instance = state;
    struct run run = {.instance = instance, .n_requests = n_requests, .times = {.begin = answer_now()}};
    if (!instance_reserve(instance, n_requests))
        return failure_out_of_memory();
    run.requests = instance->requests;
    instance->batch_images.n = 0;
    for (uint32_t i = 0; i < n_requests; i++)
        request_open(&run.requests[i], requests[i], instance->model, &instance->batch_images);
    run.times.compute_begin = run.times.compute_end = answer_now();
    for (uint32_t i = 0; i < n_requests; i++) {
        run.first = run.last = i;
        while (!run.requests[i].is_answered) {
            if (run.requests[i].error) {
                answer_request(instance, &run.requests[i], NULL, &run.times);
                break;
            }
            gather(&run);
            do_run(&run);
        }
    }
    for (uint32_t i = 0; i < n_requests; i++)
        request_trim(&run.requests[i]);
    return NULL;
}
