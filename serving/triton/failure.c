#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static _Thread_local char complaint[2048];

TRITONSERVER_Error *failure(TRITONSERVER_Error_Code code, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return TRITONSERVER_ErrorNew(code, text);
}

TRITONSERVER_Error *failure_out_of_memory(void)
{
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
}

TRITONSERVER_Error_Code failure_code(rvit_status status)
{
    switch (status) {
    case RVIT_INVALID_ARGUMENT:
    case RVIT_BAD_FILE:
        return TRITONSERVER_ERROR_INVALID_ARG;
    case RVIT_UNSUPPORTED:
        return TRITONSERVER_ERROR_UNSUPPORTED;
    case RVIT_NOT_FINITE:
    case RVIT_INTERNAL:
        return TRITONSERVER_ERROR_INTERNAL;
    default:
        return TRITONSERVER_ERROR_UNAVAILABLE;
    }
}

TRITONSERVER_Error *failure_of_status(rvit_status status, const char *what)
{
    const char *detail = rvit_status_detail();
    if (!detail[0])
        detail = rvit_status_name(status);
    return what ? failure(failure_code(status), "%s: %s", what, detail) : failure(failure_code(status), "%s", detail);
}

TRITONSERVER_Error *failure_of_complaint(const char *subject)
{
    return invalid("%s%s%s", subject ? subject : "", subject ? ": " : "", complaint);
}

void failure_note(const char *sentence)
{
    snprintf(complaint, sizeof complaint, "%s", sentence);
}

/* Keeps messages of code shared with the tool for failure_of_complaint. */
void complain(const char *subject, const char *format, ...)
{
    va_list arguments;
    int used = subject ? snprintf(complaint, sizeof complaint, "%s: ", subject) : 0;
    if (used < 0 || (size_t)used >= sizeof complaint)
        used = 0;
    va_start(arguments, format);
    vsnprintf(complaint + used, sizeof complaint - (size_t)used, format, arguments);
    va_end(arguments);
}

void *allocate(size_t n, size_t size)
{
    void *pointer = calloc(n ? n : 1, size);
    if (!pointer)
        complain(NULL, "out of memory");
    return pointer;
}

void failure_log(TRITONSERVER_Error *error, const char *what)
{
    if (!error)
        return;
    log_line(TRITONSERVER_LOG_ERROR, "%s: %s", what, TRITONSERVER_ErrorMessage(error));
    TRITONSERVER_ErrorDelete(error);
}

void log_line(TRITONSERVER_LogLevel level, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    if (!TRITONSERVER_LogIsEnabled(level))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    TRITONSERVER_Error *error = TRITONSERVER_LogMessage(level, __FILE__, __LINE__, text);
    if (error)
        TRITONSERVER_ErrorDelete(error);
}
