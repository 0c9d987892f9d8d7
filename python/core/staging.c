/* Transfers batches from the host to the device: several threads copy a batch to pinned memory in chunks, and the caller enqueues the
   device's copy of each chunk as soon as it and all earlier ones are there. The same threads copy images, piece by piece. */
#include "bindings.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORKERS = 7, MAX_CHUNKS = 1024, LEAST_CHUNK = 1 << 20 };

/* A piece of memory to copy, as Python passes it: addresses and bytes. */
typedef struct piece {
    uint64_t to, from, size;
} piece;

/* One batch. A job takes the lock of the list only to begin and to end, so batches of several devices hardly delay each other. */
typedef struct job {
    char *to;
    const char *from;
    const piece *pieces; /* NULL: chunks are adjacent in to and from */
    int64_t size, chunk, n_chunks;
    atomic_llong next;    /* the next chunk to take; it may exceed n_chunks */
    pthread_mutex_t lock; /* of `done` and n_done: which chunks are copied, and how many */
    pthread_cond_t copied;
    int64_t n_done;
    uint8_t done[MAX_CHUNKS];
    struct job *behind; /* this and the following fields are under the lock of the list */
    int workers;        /* that work on it */
    pthread_cond_t left;
} job;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static job *jobs;
static pid_t owner; /* the process that has the workers */

/* Copies the job's next chunk; returns 0 if all are taken. */
static int copy_next(job *work)
{
    const int64_t index = atomic_fetch_add(&work->next, 1), at = index * work->chunk;
    if (index >= work->n_chunks)
        return 0;
    const int64_t n = work->size - at < work->chunk ? work->size - at : work->chunk;
    const piece *one = work->pieces == NULL ? NULL : &work->pieces[index];
    if (one != NULL)
        memcpy((void *)(uintptr_t)one->to, (const void *)(uintptr_t)one->from, (size_t)one->size);
    else
        memcpy(work->to + at, work->from + at, (size_t)n);
    pthread_mutex_lock(&work->lock);
    work->done[index] = 1;
    work->n_done++;
    pthread_cond_signal(&work->copied);
    pthread_mutex_unlock(&work->lock);
    return 1;
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&list_lock);
    for (;;) {
        job *work = jobs;
        while (work != NULL && atomic_load(&work->next) >= work->n_chunks)
            work = work->behind;
        if (work == NULL) {
            pthread_cond_wait(&more, &list_lock);
            continue;
        }
        work->workers++;
        pthread_mutex_unlock(&list_lock);
        while (copy_next(work))
            continue;
        pthread_mutex_lock(&list_lock);
        if (--work->workers == 0)
            pthread_cond_signal(&work->left);
    }
    return NULL;
}

/* Starts workers, and leaves one processor to the caller. A forked child has none of its parent's. The list's lock is held. */
static void start_workers(void)
{
#ifdef CPU_COUNT
    cpu_set_t usable;
    const int processors = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
#else
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int n = 0; n < MAX_WORKERS && n < processors - 1; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, NULL) != 0)
            break; /* the caller copies the rest */
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    owner = getpid();
}

static void forked(void)
{
    pthread_mutex_init(&list_lock, NULL);
    pthread_cond_init(&more, NULL);
    jobs = NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked);
}

/* Gives the job to the workers and returns whether it did; the caller copies a single chunk itself. */
static int begin(job *work)
{
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->copied, NULL);
    pthread_cond_init(&work->left, NULL);
    if (work->n_chunks < 2)
        return 0;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&list_lock);
    if (owner != getpid())
        start_workers();
    job **last = &jobs;
    while (*last != NULL)
        last = &(*last)->behind;
    *last = work;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&list_lock);
    return 1;
}

/* Ends a finished job. handed: the result of begin. */
static void end(job *work, int handed)
{
    if (handed) {
        pthread_mutex_lock(&list_lock);
        job **last = &jobs;
        while (*last != work)
            last = &(*last)->behind;
        *last = work->behind;
        while (work->workers > 0) /* they may still look for a chunk */
            pthread_cond_wait(&work->left, &list_lock);
        pthread_mutex_unlock(&list_lock);
    }
    pthread_cond_destroy(&work->left);
    pthread_cond_destroy(&work->copied);
    pthread_mutex_destroy(&work->lock);
}

/* Copies all pieces of the job. */
static void gather(job *work)
{
    const int handed = begin(work);
    while (copy_next(work))
        continue;
    pthread_mutex_lock(&work->lock);
    while (work->n_done < work->n_chunks)
        pthread_cond_wait(&work->copied, &work->lock);
    pthread_mutex_unlock(&work->lock);
    end(work, handed);
}

/* Returns the first chunk from `sent` on that is not copied. Copies a chunk first or, if all are taken, waits for chunk `sent`. */
static int64_t copied_until(job *work, int64_t sent)
{
    const int any = copy_next(work);
    pthread_mutex_lock(&work->lock);
    while (!any && !work->done[sent])
        pthread_cond_wait(&work->copied, &work->lock);
    int64_t stop = sent;
    while (stop < work->n_chunks && work->done[stop])
        stop++;
    pthread_mutex_unlock(&work->lock);
    return stop;
}

/* Copies the job, and enqueues the copies of its chunks from `args`' source to its destination on `stream`. */
static rvit_status stage(job *work, rvit_stream *stream, rvit_copy_args *args)
{
    rvit_status status = RVIT_OK;
    const int64_t base = args->source.offset;
    const int handed = begin(work);
    for (int64_t sent = 0; sent < work->n_chunks;) {
        const int64_t stop = copied_until(work, sent);
        if (stop == sent)
            continue;
        args->source.offset = args->destination.offset = base + sent * work->chunk;
        args->size = (stop == work->n_chunks ? work->size : stop * work->chunk) - sent * work->chunk;
        if (status == RVIT_OK) /* else only wait for the workers */
            status = rv.rvit_copy(stream, args);
        sent = stop;
    }
    end(work, handed);
    return status;
}

/* stage(stream, staging, images, host, source, size): copies `size` bytes, a multiple of 4, from address `source` to the buffer `staging`,
   whose memory is at `host`, and enqueues its copy to the buffer `images`. */
PyObject *core_stage(PyObject *module, PyObject *arguments)
{
    (void)module;
    unsigned long long stream, staging, images, host, source;
    long long size;
    if (!PyArg_ParseTuple(arguments, "KKKKKL", &stream, &staging, &images, &host, &source, &size))
        return NULL;
    job work = {.to = (char *)(uintptr_t)host, .from = (const char *)(uintptr_t)source, .size = size, .chunk = LEAST_CHUNK};
    while (size / work.chunk >= MAX_CHUNKS)
        work.chunk *= 2;
    work.n_chunks = (size + work.chunk - 1) / work.chunk;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source.buffer = (rvit_buffer *)(uintptr_t)staging;
    args.destination.buffer = (rvit_buffer *)(uintptr_t)images;
    core_error error;
    int failed;
    Py_BEGIN_ALLOW_THREADS failed = core_checked(&error, stage(&work, (rvit_stream *)(uintptr_t)stream, &args));
    Py_END_ALLOW_THREADS if (failed) return core_raise(&error);
    Py_RETURN_NONE;
}

/* gather(pieces, n): copies n pieces of memory, described at address `pieces`: uint64 [n, 3], to, from and bytes of each. */
PyObject *core_gather(PyObject *module, PyObject *arguments)
{
    (void)module;
    unsigned long long pieces;
    long long n;
    if (!PyArg_ParseTuple(arguments, "KL", &pieces, &n))
        return NULL;
    Py_BEGIN_ALLOW_THREADS for (int64_t at = 0; at < n; at += MAX_CHUNKS)
    {
        job work = {.pieces = (const piece *)(uintptr_t)pieces + at, .n_chunks = n - at < MAX_CHUNKS ? n - at : MAX_CHUNKS};
        gather(&work);
    }
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}
