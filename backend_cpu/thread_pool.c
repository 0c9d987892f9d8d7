/* A thread pool that lives as long as the device. A parallel region (one parallel loop) is split into chunks, and each thread has a share
   of them, in the order of the thread's index. A thread therefore processes the same rows in successive ops, while they are still in its
   cache. A thread that has finished its share takes chunks of others. The caller works too and waits only for chunks that other threads
   have taken, so a thread that sleeps through a region delays nothing. In the child of a fork the threads do not exist: the caller runs
   every chunk, and no thread is woken or joined. */
#include <stdatomic.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/spin.h"
#include "core/base/os.h"

struct rvit_cpu_thread_pool {
    /* The current region, which the caller writes while no chunk is left. A thread reads it between taking a chunk and counting it as
       done. */
    rvit_cpu_range_fn fn;
    void *context;
    int64_t n, grain;
    int32_t n_chunks;
    atomic_uint regions; /* so far */

    _Alignas(64) atomic_int unfinished; /* chunks that are not done */
    atomic_int caller_sleeps;
    _Alignas(64) atomic_int sleepers;
    atomic_int stop;
    rvit_mutex mutex;
    rvit_condition finished;
    int n_threads;   /* including the caller */
    int64_t process; /* the process that the threads belong to */
    struct rvit_cpu_worker {
        _Alignas(64) atomic_int remaining; /* chunks of its share that no thread has taken; 0 or less: none */
        int32_t end;                       /* of its share */
        int32_t asleep;                    /* guarded by the mutex */
        rvit_cpu_thread_pool *pool;
        rvit_condition work;
        rvit_thread thread;
        int index;
        rvit_cpu_spin spin;
    } workers[]; /* the first is the caller */
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    /* A few dozen clocks; `yield` takes none on most processors, and `wfe` needs somebody who wakes it. */
    __asm__ volatile("isb" : : : "memory");
#else
    rvit_thread_yield();
#endif
}

enum { LOOKS = 32 };

/* Pauses before the next check; returns 0 if the thread should sleep instead. looks: checks since the wait began. Reading the clock can
   take longer than a check, so only one in LOOKS checks reads it. */
static int may_look_again(rvit_cpu_spin *spin, int *looks)
{
    if ((*looks)++ % LOOKS == 0) {
        if (!rvit_cpu_spin_goes_on(spin, rvit_nanoseconds()))
            return 0;
    }
    pause_briefly();
    return 1;
}

/* Takes and runs chunks of a thread's share until none is left; returns how many. */
static int run_share(rvit_cpu_thread_pool *pool, struct rvit_cpu_worker *owner, int thread)
{
    int done = 0;
    /* Checking first keeps the counter from falling without limit, and its cache line shared. */
    while (atomic_load_explicit(&owner->remaining, memory_order_relaxed) > 0) {
        const int remaining = atomic_fetch_sub(&owner->remaining, 1);
        if (remaining <= 0)
            break;
        const int64_t begin = (int64_t)(owner->end - remaining) * pool->grain;
        const int64_t end = begin + pool->grain < pool->n ? begin + pool->grain : pool->n;
        pool->fn(pool->context, begin, end, thread);
        done++;
    }
    return done;
}

/* Runs the thread's share, then chunks of others; 0 if its share was empty. On the caller's thread, all chunks are taken afterwards. */
static int run_chunks(rvit_cpu_thread_pool *pool, int thread)
{
    int done = run_share(pool, &pool->workers[thread], thread);
    if (done == 0 && thread != 0)
        return 0;
    /* Shares of one chunk are already taken, unless their threads sleep. */
    if (thread == 0 || pool->n_chunks > pool->n_threads)
        for (int i = 1; i < pool->n_threads; i++)
            done += run_share(pool, &pool->workers[(thread + i) % pool->n_threads], thread);
    if (atomic_fetch_sub(&pool->unfinished, done) == done && atomic_load(&pool->caller_sleeps)) {
        rvit_mutex_lock(&pool->mutex);
        rvit_condition_signal(&pool->finished);
        rvit_mutex_unlock(&pool->mutex);
    }
    return done;
}

static void *worker_main(void *argument)
{
    struct rvit_cpu_worker *worker = argument;
    rvit_cpu_thread_pool *pool = worker->pool;
    rvit_cpu_spin spin = worker->spin; /* a local copy: no cache line shared with other threads */
    for (;;) {
        int looks = 0;
        unsigned regions = 0;
        do {
            for (; run_chunks(pool, worker->index); looks = 0)
                rvit_cpu_spin_found(&spin);
            /* Small regions may have no chunk for this thread. It keeps spinning as long as new regions start. */
            if (looks % LOOKS == 0 && regions != atomic_load_explicit(&pool->regions, memory_order_relaxed)) {
                regions = atomic_load_explicit(&pool->regions, memory_order_relaxed);
                spin.start = -1;
            }
        } while (may_look_again(&spin, &looks));
        rvit_mutex_lock(&pool->mutex);
        worker->asleep = 1;
        atomic_fetch_add(&pool->sleepers, 1);
        while (atomic_load(&worker->remaining) <= 0 && !atomic_load(&pool->stop))
            rvit_condition_wait(&worker->work, &pool->mutex);
        atomic_fetch_sub(&pool->sleepers, 1);
        worker->asleep = 0;
        rvit_mutex_unlock(&pool->mutex);
        if (atomic_load(&pool->stop))
            return NULL;
    }
}

/* Rounded up, so that the caller has a chunk of every region. */
static int32_t share_begin(const rvit_cpu_thread_pool *pool, int thread)
{
    return (int32_t)(((int64_t)thread * pool->n_chunks + pool->n_threads - 1) / pool->n_threads);
}

/* Wakes the sleepers that have a share. */
static void wake(rvit_cpu_thread_pool *pool)
{
    rvit_mutex_lock(&pool->mutex);
    for (int i = 1; i < pool->n_threads; i++)
        if (pool->workers[i].asleep && atomic_load(&pool->workers[i].remaining) > 0)
            rvit_condition_signal(&pool->workers[i].work);
    rvit_mutex_unlock(&pool->mutex);
}

void rvit_cpu_pool_run(rvit_cpu_thread_pool *pool, int64_t n, int64_t grain, rvit_cpu_range_fn fn, void *context)
{
    if (n <= 0)
        return;
    const int64_t min = n / INT32_MAX + 1;
    if (grain < min)
        grain = min;
    if (pool->n_threads == 1 || n <= grain) {
        for (int64_t begin = 0; begin < n; begin += grain)
            fn(context, begin, begin + grain < n ? begin + grain : n, 0);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    pool->n = n;
    pool->grain = grain;
    pool->n_chunks = (int32_t)((n + grain - 1) / grain);
    atomic_fetch_add_explicit(&pool->regions, 1, memory_order_relaxed);
    atomic_store(&pool->unfinished, pool->n_chunks);
    /* The last store, to the caller's own share, is sequentially consistent with the read of `sleepers`. */
    for (int i = pool->n_threads - 1; i >= 0; i--) {
        struct rvit_cpu_worker *worker = &pool->workers[i];
        const int32_t begin = share_begin(pool, i), end = share_begin(pool, i + 1);
        if (begin == end)
            continue;
        worker->end = end;
        atomic_store_explicit(&worker->remaining, end - begin, i > 0 ? memory_order_release : memory_order_seq_cst);
    }
    if (atomic_load(&pool->sleepers) > 0 && pool->process == rvit_process_id())
        wake(pool);
    run_chunks(pool, 0);
    rvit_cpu_spin *spin = &pool->workers[0].spin;
    int looks = 0;
    do {
        if (atomic_load(&pool->unfinished) == 0) {
            rvit_cpu_spin_found(spin);
            return;
        }
    } while (may_look_again(spin, &looks));
    rvit_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, 1);
    while (atomic_load(&pool->unfinished) > 0)
        rvit_condition_wait(&pool->finished, &pool->mutex);
    atomic_store(&pool->caller_sleeps, 0);
    rvit_mutex_unlock(&pool->mutex);
}

int64_t rvit_cpu_grain(const rvit_cpu_thread_pool *pool, int64_t n, int64_t min)
{
    const int64_t n_threads = pool->n_threads;
    int64_t chunks = n / min;
    if (chunks > 8 * n_threads)
        chunks = 8 * n_threads;
    if (chunks <= 1 || n_threads == 1)
        return n > min ? n : min;
    if (chunks > n_threads)
        chunks -= chunks % n_threads;
    return (n + chunks - 1) / chunks;
}

int rvit_cpu_pool_threads(const rvit_cpu_thread_pool *pool)
{
    return pool->n_threads;
}

rvit_status rvit_cpu_pool_create(rvit_alloc *alloc, int n_threads, int usable, rvit_cpu_thread_pool **out_pool)
{
    rvit_cpu_thread_pool *pool = rvit_alloc_new(alloc, sizeof *pool + (size_t)n_threads * sizeof pool->workers[0]);
    RVIT_TRY_MEMORY(pool);
    rvit_mutex_init(&pool->mutex);
    rvit_condition_init(&pool->finished);
    rvit_cpu_spin_init(&pool->workers[0].spin, n_threads, usable);
    pool->n_threads = 1;
    pool->process = rvit_process_id();
    for (int i = 1; i < n_threads; i++) {
        struct rvit_cpu_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i;
        rvit_condition_init(&worker->work);
        rvit_cpu_spin_init(&worker->spin, n_threads, usable);
        if (rvit_thread_start(&worker->thread, worker_main, worker) != 0) {
            rvit_log(RVIT_LOG_WARNING, "cpu: the system refused more threads; continuing with %d of %d", i, n_threads);
            break;
        }
        pool->n_threads = i + 1;
    }
    *out_pool = pool;
    return RVIT_OK;
}

static void end_threads(rvit_cpu_thread_pool *pool)
{
    rvit_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, 1);
    for (int i = 1; i < pool->n_threads; i++)
        rvit_condition_signal(&pool->workers[i].work);
    rvit_mutex_unlock(&pool->mutex);
    for (int i = 1; i < pool->n_threads; i++) {
        rvit_thread_join(pool->workers[i].thread);
        rvit_condition_destroy(&pool->workers[i].work);
    }
    rvit_condition_destroy(&pool->finished);
    rvit_mutex_destroy(&pool->mutex);
}

void rvit_cpu_pool_destroy(rvit_alloc *alloc, rvit_cpu_thread_pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->process == rvit_process_id())
        end_threads(pool);
    rvit_alloc_free(alloc, pool);
}
