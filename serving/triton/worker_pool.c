#include "worker_pool.h"

#include <signal.h>
#include <stdlib.h>

#include "failure.h"

struct worker_pool {
    pthread_mutex_t lock; /* protects the fields below and the internal fields of jobs */
    pthread_cond_t arrived;
    struct worker_job *first, *last; /* jobs with parts that are not started */
    bool stops;
    int32_t n_threads;
    pthread_t threads[];
};

void worker_job_init(struct worker_job *job)
{
    *job = (struct worker_job){0};
    pthread_cond_init(&job->done, NULL);
}

void worker_job_destroy(struct worker_job *job)
{
    pthread_cond_destroy(&job->done);
}

/* Removes a job whose last part has started. */
static void remove_job(struct worker_pool *self, const struct worker_job *job)
{
    struct worker_job *before = NULL;
    for (struct worker_job *i = self->first; i != job; i = i->next_job)
        before = i;
    if (before)
        before->next_job = job->next_job;
    else
        self->first = job->next_job;
    if (self->last == job)
        self->last = before;
}

/* Runs the next part of a job. Called with the lock, which it releases meanwhile. */
static void do_next(struct worker_pool *self, struct worker_job *job)
{
    const int32_t index = job->next++;
    if (job->next == job->n)
        remove_job(self, job);
    pthread_mutex_unlock(&self->lock);
    job->work(job->user, index);
    pthread_mutex_lock(&self->lock);
    if (--job->n_pending == 0)
        pthread_cond_signal(&job->done);
}

static void *work(void *argument)
{
    struct worker_pool *self = argument;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (!self->first && !self->stops)
            pthread_cond_wait(&self->arrived, &self->lock);
        if (!self->first)
            break;
        do_next(self, self->first);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

TRITONSERVER_Error *worker_pool_create(int32_t n_threads, struct worker_pool **out)
{
    struct worker_pool *self = calloc(1, sizeof *self + (size_t)n_threads * sizeof self->threads[0]);
    sigset_t all, before;
    if (!self)
        return failure_out_of_memory();
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->arrived, NULL);
    /* The server's signals must not be delivered to these threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (self->n_threads < n_threads && pthread_create(&self->threads[self->n_threads], NULL, work, self) == 0)
        self->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (self->n_threads == 0) {
        worker_pool_destroy(self);
        return failure(TRITONSERVER_ERROR_UNAVAILABLE, "cannot start a thread to decode images");
    }
    *out = self;
    return NULL;
}

void worker_pool_destroy(struct worker_pool *self)
{
    if (!self)
        return;
    pthread_mutex_lock(&self->lock);
    self->stops = true;
    pthread_cond_broadcast(&self->arrived);
    pthread_mutex_unlock(&self->lock);
    for (int32_t i = 0; i < self->n_threads; i++)
        pthread_join(self->threads[i], NULL);
    pthread_cond_destroy(&self->arrived);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

void worker_pool_start(struct worker_pool *self, struct worker_job *job)
{
    job->next = 0;
    job->n_pending = job->n;
    job->next_job = NULL;
    if (job->n == 0)
        return;
    pthread_mutex_lock(&self->lock);
    if (self->first)
        self->last->next_job = job;
    else
        self->first = job;
    self->last = job;
    if (job->n == 1)
        pthread_cond_signal(&self->arrived);
    else
        pthread_cond_broadcast(&self->arrived);
    pthread_mutex_unlock(&self->lock);
}

void worker_pool_finish(struct worker_pool *self, struct worker_job *job)
{
    if (job->n == 0)
        return;
    pthread_mutex_lock(&self->lock);
    while (job->next < job->n)
        do_next(self, job);
    while (job->n_pending > 0)
        pthread_cond_wait(&job->done, &self->lock);
    pthread_mutex_unlock(&self->lock);
}
