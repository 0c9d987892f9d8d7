/* Status values and their detail text, logging, and the version of the library. */
#ifndef RAGGEDVIT_STATUS_H
#define RAGGEDVIT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(RVIT_BUILDING) && defined(__GNUC__)
#define RVIT_API __attribute__((visibility("default")))
#else
#define RVIT_API
#endif

#if defined(__GNUC__)
#define RVIT_NODISCARD __attribute__((warn_unused_result))
#else
#define RVIT_NODISCARD
#endif

/* Args and descs begin with their size, so that later versions can append fields. Initialise each
   with its RVIT_..._INIT, then set the fields you need. Zero means the default, or absent, unless a
   field says otherwise. */
#ifdef __cplusplus
template <class T> inline T rvit_init_struct()
{
    T value = {};
    value.struct_size = sizeof(T);
    return value;
}
#define RVIT_INIT(type) rvit_init_struct<type>()
#else
/* clang-format off */
#define RVIT_INIT(type) {.struct_size = sizeof(type)}
/* clang-format on */
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RVIT_VERSION_MAJOR 0
#define RVIT_VERSION_MINOR 3
#define RVIT_VERSION_PATCH 0

/* Calls may come from any thread with a stack of 64 KiB or more (CPU backend; a GPU driver may need
   more) and in any floating-point environment. Inside a call the environment is the default one
   (round to nearest, no traps, subnormals kept), also for the caller's allocator and logger. On
   return the caller's environment is restored, flags included. */

/* The result of a function. The values are part of the ABI. A call that fails changes nothing: it
   writes no output and enqueues nothing, and the next call works. */
typedef enum rvit_status {
    RVIT_OK = 0,
    RVIT_INVALID_ARGUMENT = 10, /* an argument breaks its documented rule */
    RVIT_UNSUPPORTED = 20,      /* legal, but not on this device or in this build */
    RVIT_UNAVAILABLE = 30,      /* no such driver, library or device on this machine */
    RVIT_OUT_OF_HOST_MEMORY = 40,
    RVIT_OUT_OF_DEVICE_MEMORY = 41,
    RVIT_DEVICE_LOST = 50, /* destroy the device and its children, then create them again */
    RVIT_BAD_FILE = 60,    /* unreadable, malformed, or not of the type that its name says */
    RVIT_NOT_FINITE = 70,  /* what a model computes is NaN or infinite: its weights are, or it overflows its dtype */
    RVIT_INTERNAL = 90     /* a defect in the library or in a driver */
} rvit_status;

/* The name of a status ("INVALID_ARGUMENT"); never NULL. */
RVIT_API const char *rvit_status_name(rvit_status status);

/* One sentence on the last failure in the calling thread: which argument or file, what was expected
   and what was found. Never NULL; empty if nothing has failed. Valid until the next call of this
   library in the same thread. */
RVIT_API const char *rvit_status_detail(void);

/* "0.3.0" */
RVIT_API const char *rvit_version(void);

typedef enum rvit_log_level { RVIT_LOG_ERROR = 1, RVIT_LOG_WARNING = 2, RVIT_LOG_INFO = 3, RVIT_LOG_DEBUG = 4 } rvit_log_level;

/* Receives one line, without a newline. May be called from any thread that calls the library. */
typedef void (*rvit_log_fn)(void *user, rvit_log_level level, const char *message);

/* Sets the process-wide log callback; NULL (the default) silences the library. Do not call this
   while other threads are inside the library. */
RVIT_API void rvit_log_set(rvit_log_fn fn, void *user);

/* A ready-made callback that writes to standard error. It writes messages up to the level in the
   environment variable RVIT_LOG (error, warning, info, debug; warning if unset). The library reads
   no other environment variable. */
RVIT_API void rvit_log_stderr(void *user, rvit_log_level level, const char *message);

#ifdef __cplusplus
}
#endif
#endif
