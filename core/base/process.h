/* What the library shares with the rest of its process: signals, threads, its own code, and libraries of others. */
#ifndef RVIT_CORE_BASE_PROCESS_H
#define RVIT_CORE_BASE_PROCESS_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* To the end of its scope the calling thread handles no signal of the application, and threads that are started there never do: drivers
   start some of their own. Faults of a thread still reach their handlers. */
#define RVIT_SIGNALS_BLOCKED \
    __attribute__((cleanup(rvit_signals_restore), unused)) const sigset_t rvit_signals_before = rvit_signals_block()
sigset_t rvit_signals_block(void);
void rvit_signals_restore(const sigset_t *before);

/* Starts a thread that handles no signal of the application. From then on the code stays loaded to the end of the process, whoever closes
   the library or the plugin that it is part of. Returns 0, or an error number. */
int rvit_thread_start(pthread_t *out_thread, void *(*run)(void *argument), void *argument);

/* Opens the first of `files` (NULL ends them) that is there, and looks up `symbols`: functions [n]. The first `needed` must be there; the
   others are NULL if absent. The library stays open to the end of the process, since drivers keep threads of their own. Returns the file's
   name, or NULL with the reason in why_not [size]. */
const char *rvit_library_open(const char *const *files, const char *const *symbols, int needed, int n, void **functions, char *why_not,
                              size_t size);

#endif
