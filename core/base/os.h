/* What the library asks of the operating system: locks, threads, clocks, files, shared libraries. os_posix.c and os_windows.c, and the
   files named after them, are the only ones with code for one system; system.h has what is specific to Linux, macOS or Windows. windows.h
   is not included here, because its macros redefine ordinary words. */
#ifndef RVIT_CORE_BASE_OS_H
#define RVIT_CORE_BASE_OS_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
/* As large as SRWLOCK, CONDITION_VARIABLE, INIT_ONCE and HANDLE. */
typedef struct rvit_mutex {
    void *lock;
} rvit_mutex;
typedef struct rvit_condition {
    void *variable;
} rvit_condition;
typedef struct rvit_once {
    void *once;
} rvit_once;
typedef void *rvit_thread;
typedef int rvit_signals; /* there are none */
#define RVIT_OS_HANDLES_ARE_FDS 0
#define RVIT_OS_HANDLE_NAME "HANDLE"
#define RVIT_OS_LIBRARY(elf, macos, windows) windows
#define RVIT_ONCE_INIT \
    {                  \
        0              \
    }
#else
#include <pthread.h>
#include <signal.h>
typedef pthread_mutex_t rvit_mutex;
typedef pthread_cond_t rvit_condition;
typedef pthread_once_t rvit_once;
typedef pthread_t rvit_thread;
typedef sigset_t rvit_signals;
#define RVIT_OS_HANDLES_ARE_FDS 1
#define RVIT_OS_HANDLE_NAME "fd"
#if defined(__APPLE__)
#define RVIT_OS_LIBRARY(elf, macos, windows) macos
#else
#define RVIT_OS_LIBRARY(elf, macos, windows) elf
#endif
#define RVIT_ONCE_INIT PTHREAD_ONCE_INIT
#endif

void rvit_mutex_init(rvit_mutex *mutex);
void rvit_mutex_lock(rvit_mutex *mutex);
void rvit_mutex_unlock(rvit_mutex *mutex);
void rvit_mutex_destroy(rvit_mutex *mutex);

void rvit_condition_init(rvit_condition *condition);
void rvit_condition_wait(rvit_condition *condition, rvit_mutex *mutex);
void rvit_condition_signal(rvit_condition *condition);
void rvit_condition_broadcast(rvit_condition *condition);
void rvit_condition_destroy(rvit_condition *condition);

/* Runs the function once in the life of the process; other threads wait for its end. */
void rvit_once_run(rvit_once *once, void (*run)(void));

/* Until the end of its scope the calling thread handles no signals of the application. Threads started in that scope never do; drivers
   start some. A thread's faults still reach their handlers. */
#define RVIT_SIGNALS_BLOCKED \
    __attribute__((cleanup(rvit_signals_restore), unused)) const rvit_signals rvit_signals_before = rvit_signals_block()
rvit_signals rvit_signals_block(void);
void rvit_signals_restore(const rvit_signals *before);

/* Starts a thread that handles no signals of the application. From then on the code stays loaded until the process ends, even if
   somebody closes the library or the plugin that contains it. Returns 0 or an error number. */
int rvit_thread_start(rvit_thread *out_thread, void *(*run)(void *argument), void *argument);
void rvit_thread_join(rvit_thread thread);
/* Lets other threads run. */
void rvit_thread_yield(void);
/* Differs in the child of a fork. */
int64_t rvit_process_id(void);

/* A monotonic clock. */
int64_t rvit_nanoseconds(void);

/* alignment: a power of two. Free the result with rvit_aligned_free. NULL: out of memory. */
void *rvit_aligned_alloc(size_t size, size_t alignment);
void rvit_aligned_free(void *pointer);

void rvit_stderr_write(const char *text, size_t size);

/* As strtod in the C locale, whatever locale the application has chosen. */
double rvit_strtod(const char *text);

/* RVIT_OS_LIBRARY: a library's name on this system. Opens the first of `files` (NULL-terminated) that exists and looks up `symbols` [n]
   into functions [n]. The first `needed` symbols are required; the others are NULL if absent. The library stays open until the process
   ends, since drivers keep threads. Returns the file's name, or NULL with the reason in why_not [size]. */
const char *rvit_library_open(const char *const *files, const char *const *symbols, int needed, int n, void **functions, char *why_not,
                              size_t size);

/* Files, by paths in UTF-8 (POSIX: in any bytes). */
typedef enum rvit_os_error {
    RVIT_OS_OK,
    RVIT_OS_NOT_FOUND,
    RVIT_OS_LOOP, /* of symbolic links */
    RVIT_OS_DENIED,
    RVIT_OS_TOO_MANY_FILES,
    RVIT_OS_NOT_UTF8, /* the path, on Windows */
    RVIT_OS_OTHER
} rvit_os_error;

typedef enum rvit_os_kind { RVIT_OS_REGULAR, RVIT_OS_FOLDER, RVIT_OS_LINK, RVIT_OS_PIPE, RVIT_OS_SPECIAL } rvit_os_kind;

typedef struct rvit_os_file_info {
    rvit_os_kind kind;
    int64_t size;
    int64_t modified;            /* changes with each modification; in units of the system */
    uint64_t volume, id;         /* the same only for two paths of one file */
    uint32_t mode, owner, group; /* POSIX permissions; 0 on Windows */
} rvit_os_file_info;

#define RVIT_OS_CLOSED ((intptr_t)-1)
/* For reading. Opening a pipe does not block. *out_number: the system's error number, in messages. */
rvit_os_error rvit_os_open(const char *path, intptr_t *out_file, int *out_number);
void rvit_os_close(intptr_t file);
/* Returns 0 or the system's error number. */
int rvit_os_get_info(intptr_t file, rvit_os_file_info *out_info);
/* Returns the bytes read from `offset` on, up to size; 0 at the end; -1 with the system's error number. */
int64_t rvit_os_read(intptr_t file, int64_t offset, int64_t size, void *out_bytes, int *out_number);
/* What is at the path, without opening it. follows_links: if it is a symbolic link, what the link leads to. */
rvit_os_error rvit_os_look(const char *path, int follows_links, rvit_os_file_info *out_info, int *out_number);
/* Whether the path exists, even as a dangling link. */
int rvit_os_exists(const char *path);
/* The part of a path after its last folder. */
const char *rvit_os_name_of(const char *path);

/* Handles of external memory and semaphores: file descriptors, or HANDLEs on Windows. Copies one for an import; returns 0 if it is not
 * open, or nothing more can be. */
int rvit_os_handle_copy(intptr_t handle, intptr_t *out_copy);
void rvit_os_handle_close(intptr_t handle);

#endif
