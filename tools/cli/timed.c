#include "timed.h"

#include <stdlib.h>
#include <string.h>

#include "progress.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct times *times, int32_t numerator, int32_t denominator)
{
    qsort(times->seconds, (size_t)times->n, sizeof *times->seconds, compare);
    return times->seconds[(times->n - 1) * numerator / denominator];
}

double times_median(struct times *self)
{
    return quantile(self, 1, 2);
}

json_t *times_to_json(struct times *self)
{
    return json_pack("{s:f, s:f, s:f, s:i}", "median", 1e3 * quantile(self, 1, 2), "p10", 1e3 * quantile(self, 1, 10), "p90",
                     1e3 * quantile(self, 9, 10), "count", self->n);
}

int timed_open(struct engine *engine, const rvit_prune_desc *prune, int32_t batch, const float *images, struct timed *out)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = out->batch = batch;
    desc.fixed_batch = 1;
    desc.prune = prune;
    const int code = engine_session_of(engine, &desc, &out->session);
    if (code != EXIT_OK)
        return code;
    memcpy(rvit_session_input_memory(out->session, NULL), images, (size_t)batch * (size_t)engine_image_length(engine) * sizeof *images);
    return EXIT_OK;
}

/* Runs from images in mapped memory to logits in mapped memory, with one wait. */
static int run_once(struct timed *self, bool counts)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = self->batch;
    const double start = now();
    const rvit_status status = rvit_session_run(self->session, &run, NULL);
    if (status != RVIT_OK)
        return complain_status(NULL, status);
    if (counts && self->times.n < MAX_SAMPLES)
        self->times.seconds[self->times.n++] = now() - start;
    return EXIT_OK;
}

int timed_measure(struct timed *a, struct timed *b, double seconds, int min, int warm_ups)
{
    struct timed *both[] = {a, b};
    int code = EXIT_OK;
    double end = 0;
    for (int turn = -warm_ups; code == EXIT_OK && turn < MAX_SAMPLES && (turn < min || now() < end); turn++) {
        if (turn == 0)
            end = now() + seconds;
        for (int i = 0; i < 2 && code == EXIT_OK; i++)
            if (both[i])
                code = run_once(both[i], turn >= 0);
    }
    return code;
}

int timed_count_launches(struct timed *self)
{
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    rvit_status status = rvit_session_get_stats(self->session, &before);
    const int code = run_once(self, false);
    if (status == RVIT_OK)
        status = rvit_session_get_stats(self->session, &after);
    self->launches = after.launches - before.launches;
    return code != EXIT_OK ? code : status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}
