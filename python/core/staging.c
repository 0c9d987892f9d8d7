/* Transfers batches from the host to the device: several threads copy a batch to pinned memory in chunks, and the caller enqueues the
   device's copy of each chunk as soon as it and all earlier ones are there. The same threads copy images, piece by piece. */
#include "bindings.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/os_module.h"
#include "core/base/system.h"

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
    atomic_llong next; /* the next chunk to take; it may exceed n_chunks */
    rvit_mutex lock;   /* of `done` and n_done: which chunks are copied, and how many */
    rvit_condition copied;
    int64_t n_done;
    uint8_t done[MAX_CHUNKS];
    struct job *behind; /* this and the following fields are under the lock of the list */
    int workers;        /* that work on it */
    rvit_condition left;
} job;

static rvit_mutex list_lock;
static rvit_condition more;
static job *jobs;
static int64_t owner; /* the process that has the workers */

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
    rvit_mutex_lock(&work->lock);
    work->done[index] = 1;
    work->n_done++;
    rvit_condition_signal(&work->copied);
    rvit_mutex_unlock(&work->lock);
    return 1;
}

static void *worker(void *unused)
{
    (void)unused;
    rvit_mutex_lock(&list_lock);
    for (;;) {
        job *work = jobs;
        while (work != NULL && atomic_load(&work->next) >= work->n_chunks)
            work = work->behind;
        if (work == NULL) {
            rvit_condition_wait(&more, &list_lock);
            continue;
        }
        work->workers++;
        rvit_mutex_unlock(&list_lock);
        while (copy_next(work))
            continue;
        rvit_mutex_lock(&list_lock);
        if (--work->workers == 0)
            rvit_condition_signal(&work->left);
    }
    return NULL;
}

/* Starts workers, and leaves one processor to the caller. A forked child has none of its parent's. The list's lock is held. */
static void start_workers(void)
{
    const int processors = rvit_usable_processors("");
    for (int n = 0; n < MAX_WORKERS && n < processors - 1; n++) {
        rvit_thread thread; /* never joined */
        if (rvit_thread_start(&thread, worker, NULL) != 0)
            break; /* the caller copies the rest */
    }
    owner = rvit_process_id();
}

/* At the start too. */
static void forked(void)
{
    rvit_mutex_init(&list_lock);
    rvit_condition_init(&more);
    jobs = NULL;
}

static rvit_once once = RVIT_ONCE_INIT;

static void watch_forks(void)
{
    forked();
    rvit_fork_watch(forked);
}

/* Gives the job to the workers and returns whether it did; the caller copies a single chunk itself. */
static int begin(job *work)
{
    rvit_mutex_init(&work->lock);
    rvit_condition_init(&work->copied);
    rvit_condition_init(&work->left);
    if (work->n_chunks < 2)
        return 0;
    rvit_once_run(&once, watch_forks);
    rvit_mutex_lock(&list_lock);
    if (owner != rvit_process_id())
        start_workers();
    job **last = &jobs;
    while (*last != NULL)
        last = &(*last)->behind;
    *last = work;
    rvit_condition_broadcast(&more);
    rvit_mutex_unlock(&list_lock);
    return 1;
}

/* Ends a finished job. handed: the result of begin. */
static void end(job *work, int handed)
{
    if (handed) {
        rvit_mutex_lock(&list_lock);
        job **last = &jobs;
        while (*last != work)
            last = &(*last)->behind;
        *last = work->behind;
        while (work->workers > 0) /* they may still look for a chunk */
            rvit_condition_wait(&work->left, &list_lock);
        rvit_mutex_unlock(&list_lock);
    }
    rvit_condition_destroy(&work->left);
    rvit_condition_destroy(&work->copied);
    rvit_mutex_destroy(&work->lock);
}

/* Copies all pieces of the job. */
static void gather(job *work)
{
    const int handed = begin(work);
    while (copy_next(work))
        continue;
    rvit_mutex_lock(&work->lock);
    while (work->n_done < work->n_chunks)
        rvit_condition_wait(&work->copied, &work->lock);
    rvit_mutex_unlock(&work->lock);
    end(work, handed);
}

/* Returns the first chunk from `sent` on that is not copied. Copies a chunk first or, if all are taken, waits for chunk `sent`. */
static int64_t copied_until(job *work, int64_t sent)
{
    const int any = copy_next(work);
    rvit_mutex_lock(&work->lock);
    while (!any && !work->done[sent])
        rvit_condition_wait(&work->copied, &work->lock);
    int64_t stop = sent;
    while (stop < work->n_chunks && work->done[stop])
        stop++;
    rvit_mutex_unlock(&work->lock);
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
