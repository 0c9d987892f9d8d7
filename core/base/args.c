#include "core/base/args.h"

#include <string.h>

#include "core/base/status.h"

static rvit_status check(const void *pointer, const char *name, size_t *out_size)
{
    if (pointer == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: NULL", name);
    memcpy(out_size, pointer, sizeof *out_size);
    if (*out_size <= sizeof(size_t) || *out_size > 1 << 16)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: struct_size is %zu: initialise the struct with its RVIT_..._INIT", name, *out_size);
    return RVIT_OK;
}

rvit_status rvit_args_copy(void *destination, size_t size, const void *source, const char *name)
{
    size_t given = 0;
    RVIT_TRY(check(source, name, &given));
    const unsigned char *bytes = source;
    for (size_t i = size; i < given; i++)
        if (bytes[i] != 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: byte %zu is set, but this version of the library has no such field", name, i);
    memset(destination, 0, size);
    memcpy(destination, source, given < size ? given : size);
    memcpy(destination, &size, sizeof size);
    return RVIT_OK;
}

rvit_status rvit_args_return(void *destination, const void *source, size_t size, const char *name)
{
    size_t given = 0;
    RVIT_TRY(check(destination, name, &given));
    memcpy((unsigned char *)destination + sizeof given, (const unsigned char *)source + sizeof given,
           (given < size ? given : size) - sizeof given);
    return RVIT_OK;
}
