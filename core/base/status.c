#include "core/base/printable.h"
#include "core/base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local rvit_detail detail;

rvit_status rvit_fail(rvit_status status, const char *format, ...)
{
    va_list arguments;
    char text[4096]; /* not into detail: the arguments may point into it */
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rvit_printable(detail.text, sizeof detail.text, text);
    return status;
}

const char *rvit_status_detail(void)
{
    return detail.text;
}

rvit_detail rvit_detail_keep(void)
{
    return detail;
}

rvit_status rvit_detail_restore(const rvit_detail *kept, rvit_status status)
{
    if (status == RVIT_OK)
        detail = *kept;
    return status;
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
