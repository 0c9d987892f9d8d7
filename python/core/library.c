/* Looks up the library's functions, and turns their failures into errors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/os_module.h"

#include "core.h"

core_library rv;

int core_fail(core_error *error, rvit_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->status = status;
    return -1;
}

int core_checked(core_error *error, rvit_status status)
{
    return status == RVIT_OK ? 0 : core_fail(error, status, "%s", rv.rvit_status_detail());
}

int core_library_open(void *handle, core_error *error)
{
    core_library found;
#define X(name)                                                                                                      \
    {                                                                                                                \
        void *const symbol = rvit_library_symbol(handle, #name);                                                     \
        if (symbol == NULL)                                                                                          \
            return core_fail(error, RVIT_UNAVAILABLE, "the library has no %s: it is older than the package", #name); \
        memcpy(&found.name, &symbol, sizeof symbol);                                                                 \
    }
    CORE_FUNCTIONS(X)
#undef X
    rv = found;
    return 0;
}
