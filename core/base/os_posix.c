#include "core/base/os.h"

#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#if defined(__ANDROID_API__) && __ANDROID_API__ < 28
#error "raggedvit needs Android API 28 (Android 9), which has aligned_alloc: ANDROID_PLATFORM=android-28"
#endif

void rvit_mutex_init(rvit_mutex *mutex)
{
    (void)pthread_mutex_init(mutex, NULL);
}

void rvit_mutex_lock(rvit_mutex *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

void rvit_mutex_unlock(rvit_mutex *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

void rvit_mutex_destroy(rvit_mutex *mutex)
{
    (void)pthread_mutex_destroy(mutex);
}

void rvit_condition_init(rvit_condition *condition)
{
    (void)pthread_cond_init(condition, NULL);
}

void rvit_condition_wait(rvit_condition *condition, rvit_mutex *mutex)
{
    (void)pthread_cond_wait(condition, mutex);
}

void rvit_condition_signal(rvit_condition *condition)
{
    (void)pthread_cond_signal(condition);
}

void rvit_condition_broadcast(rvit_condition *condition)
{
    (void)pthread_cond_broadcast(condition);
}

void rvit_condition_destroy(rvit_condition *condition)
{
    (void)pthread_cond_destroy(condition);
}

void rvit_once_run(rvit_once *once, void (*run)(void))
{
    (void)pthread_once(once, run);
}

void rvit_thread_join(rvit_thread thread)
{
    (void)pthread_join(thread, NULL);
}

void rvit_thread_yield(void)
{
    (void)sched_yield();
}

rvit_signals rvit_signals_block(void)
{
    /* A fault whose signal is blocked ends the process even if there is a handler. */
    static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    return before;
}

void rvit_signals_restore(const rvit_signals *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int64_t rvit_process_id(void)
{
    return getpid();
}

int64_t rvit_nanoseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void *rvit_aligned_alloc(size_t size, size_t alignment)
{
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void rvit_aligned_free(void *pointer)
{
    free(pointer);
}

void rvit_stderr_write(const char *text, size_t size)
{
    const ssize_t written = write(STDERR_FILENO, text, size);
    (void)written;
}

double rvit_strtod(const char *text)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* allocates nothing in glibc and musl */
    if (c == (locale_t)0)
        return strtod(text, NULL);
    const double value = strtod_l(text, NULL, c);
    freelocale(c);
    return value;
}

int rvit_os_handle_copy(intptr_t handle, intptr_t *out_copy)
{
    *out_copy = handle < 0 || handle > INT_MAX ? -1 : fcntl((int)handle, F_DUPFD_CLOEXEC, 0);
    return *out_copy >= 0;
}

void rvit_os_handle_close(intptr_t handle)
{
    (void)close((int)handle);
}
