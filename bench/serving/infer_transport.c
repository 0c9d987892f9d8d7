#include "infer_transport.h"

#include <stdarg.h>
#include <stdio.h>

infer_result infer_fail(infer_client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(client->error, sizeof client->error, format, arguments);
    va_end(arguments);
    return INFER_FAILED;
}
