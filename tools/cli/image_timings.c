/* Measures decoding and the rest separately, for classify --timings. */
#include "classify_batch.h"

#include <stdlib.h>

#include "progress.h"

#define MIN_SECONDS 1.0

/* Restarts at the first image with the same threads and memory. */
static int open_again(struct classify *self)
{
    image_queue_destroy(self->queue);
    return image_queue_create(&self->inputs, &self->plan, self->sessions, CLASSIFY_SESSIONS, self->options->threads, true, false,
                              &self->queue);
}

static int measure_decoding(struct classify *self)
{
    struct image_batch *batch;
    int64_t n = 0;
    const double begin = now();
    int code = open_again(self);
    while (code == EXIT_OK && image_queue_next(self->queue, true, &batch) == INPUT_READY) {
        for (int32_t i = 0; i < batch->n_items; i++)
            n += !batch->items[i].work.is_bad;
        image_queue_release(self->queue, batch);
    }
    self->report.decoded_per_second = (double)n / (now() - begin);
    return code;
}

/* A batch that is already decoded. */
struct decoded {
    rvit_session *session;
    rvit_image *images;
    int32_t n;
};

static int run_decoded(struct classify *self, const struct decoded *batches, int32_t n_batches)
{
    int64_t n = 0, n_pending = 0;
    rvit_status status = RVIT_OK;
    const double begin = now();
    for (int64_t i = 0; status == RVIT_OK && n_batches > 0; i++) {
        const struct decoded *batch = &batches[i % n_batches];
        const bool ends = now() - begin >= MIN_SECONDS && n >= self->report.n_images;
        if (n_pending == n_batches || ends) { /* wait for the previous run of this session */
            if (n_pending == 0)
                break;
            status = rvit_session_wait(batch->session);
            status = is_of_images(status) ? RVIT_OK : status; /* failures of single images, already reported */
            n_pending--;
        }
        if (status != RVIT_OK || ends)
            continue;
        rvit_run_args run = RVIT_RUN_ARGS_INIT;
        run.n_images = batch->n;
        run.input.kind = RVIT_INPUT_IMAGES;
        run.input.data = batch->images;
        status = rvit_session_enqueue(batch->session, &run);
        n_pending++;
        n += batch->n;
    }
    self->report.undecoded_per_second = (double)n / (now() - begin);
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}

static int measure_without_decoding(struct classify *self)
{
    struct decoded batches[CLASSIFY_SESSIONS];
    struct image_batch *batch;
    int32_t n = 0;
    int code = open_again(self);
    while (code == EXIT_OK && n < CLASSIFY_SESSIONS && image_queue_next(self->queue, true, &batch) == INPUT_READY) {
        rvit_image *images = allocate((size_t)self->plan.max_images, sizeof *images);
        if (!images)
            code = EXIT_FAULT;
        else
            batches[n++] = (struct decoded){batch->session, images, image_batch_images(batch, images)};
    }
    if (code == EXIT_OK)
        code = run_decoded(self, batches, n);
    for (int32_t i = 0; i < n; i++)
        free(batches[i].images);
    return code;
}

int image_timings_measure(struct classify *self)
{
    int code = measure_decoding(self);
    if (code == EXIT_OK)
        code = measure_without_decoding(self);
    return code;
}
