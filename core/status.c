#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[1024];

rvit_status rvit_fail(rvit_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    return status;
}

const char *rvit_status_detail(void)
{
    return detail;
}

const char *rvit_status_name(rvit_status status)
{
    switch (status) {
    case RVIT_OK:
        return "OK";
    case RVIT_INVALID_ARGUMENT:
        return "INVALID_ARGUMENT";
    case RVIT_UNSUPPORTED:
        return "UNSUPPORTED";
    case RVIT_UNAVAILABLE:
        return "UNAVAILABLE";
    case RVIT_OUT_OF_HOST_MEMORY:
        return "OUT_OF_HOST_MEMORY";
    case RVIT_OUT_OF_DEVICE_MEMORY:
        return "OUT_OF_DEVICE_MEMORY";
    case RVIT_DEVICE_LOST:
        return "DEVICE_LOST";
    case RVIT_BAD_FILE:
        return "BAD_FILE";
    case RVIT_NOT_FINITE:
        return "NOT_FINITE";
    case RVIT_INTERNAL:
        return "INTERNAL";
    }
    return "UNKNOWN";
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *rvit_version(void)
{
    return TEXT(RVIT_VERSION_MAJOR) "." TEXT(RVIT_VERSION_MINOR) "." TEXT(RVIT_VERSION_PATCH);
}
