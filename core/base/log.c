#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rvit_log_fn log_fn;
static void *log_user;

void rvit_log_set(rvit_log_fn fn, void *user)
{
    log_fn = fn;
    log_user = user;
}

void rvit_log(rvit_log_level level, const char *format, ...)
{
    if (log_fn == NULL)
        return;
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    log_fn(log_user, level, message);
}

static const char *const level_names[] = {"", "error", "warning", "info", "debug"};

void rvit_log_stderr(void *user, rvit_log_level level, const char *message)
{
    (void)user;
    const char *wanted = getenv("RVIT_LOG");
    int threshold = RVIT_LOG_WARNING;
    for (int i = RVIT_LOG_ERROR; wanted != NULL && i <= RVIT_LOG_DEBUG; i++)
        if (strcmp(wanted, level_names[i]) == 0)
            threshold = i;
    /* Callers may pass any integer as the enum. */
    if ((int)level < RVIT_LOG_ERROR || (int)level > threshold)
        return;
    char shown[1100], line[1200];
    rvit_printable(shown, sizeof shown, message);
    const int n = snprintf(line, sizeof line, "raggedvit: %s: %s\n", level_names[level], shown);
    rvit_stderr_write(line, (size_t)n);
}
