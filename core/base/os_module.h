/* What a module inside another program asks of the operating system beyond os.h: the ends of threads, forks, and libraries that the program
   has loaded. os_posix_module.c and os_windows_module.c, which are not part of the library. */
#ifndef RVIT_CORE_BASE_OS_MODULE_H
#define RVIT_CORE_BASE_OS_MODULE_H

#include "core/base/os.h"

#if defined(_WIN32)
typedef uint32_t rvit_thread_value;
#else
typedef pthread_key_t rvit_thread_value;
#endif

/* A pointer of each thread, NULL at first. When a thread ends whose pointer is not NULL, `ends` receives it. Returns 0 or an error number.
 */
int rvit_thread_value_create(rvit_thread_value *out_value, void (*ends)(void *pointer));
void rvit_thread_value_set(rvit_thread_value value, void *pointer);

/* Calls the function in each child of a fork. There are none on Windows. */
void rvit_fork_watch(void (*forked)(void));

/* The library of this name if the process has it loaded, else NULL. */
void *rvit_library_loaded(const char *name);
/* NULL: the library has no such symbol. */
void *rvit_library_symbol(void *library, const char *symbol);

#endif
