/* Resources that the library shares with the rest of its process: signals, threads, loaded code. */
#ifndef RVIT_CORE_BASE_PROCESS_H
#define RVIT_CORE_BASE_PROCESS_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Until the end of its scope the calling thread handles no signals of the application. Threads started in that scope never do; drivers
   start some. A thread's faults still reach their handlers. */
#define RVIT_SIGNALS_BLOCKED \
    __attribute__((cleanup(rvit_signals_restore), unused)) const sigset_t rvit_signals_before = rvit_signals_block()
sigset_t rvit_signals_block(void);
void rvit_signals_restore(const sigset_t *before);

/* Starts a thread that handles no signals of the application. From then on the code stays loaded until the process ends, even if
   somebody closes the library or the plugin that contains it. Returns 0 or an error number. */
int rvit_thread_start(pthread_t *out_thread, void *(*run)(void *argument), void *argument);

/* Opens the first of `files` (NULL-terminated) that exists and looks up `symbols` [n] into functions [n]. The first `needed` symbols are
   required; the others are NULL if absent. The library stays open until the process ends, since drivers keep threads. Returns the file's
   name, or NULL with the reason in why_not [size]. */
const char *rvit_library_open(const char *const *files, const char *const *symbols, int needed, int n, void **functions, char *why_not,
                              size_t size);

#endif
