/* The names and sizes of element types. */
#include <raggedvit/ops.h>

static const struct {
    const char *name;
    int64_t size;
} types[] = {
#define RVIT_ELEMENT(TYPE, name, file_name, PRECISION, precision, size, scaled) [RVIT_##TYPE] = {name, size},
#include "core/base/dtype.def"
};

/* Callers may pass any integer as the enum. */
static int is_type(rvit_dtype dtype)
{
    return (int)dtype >= 0 && (size_t)dtype < sizeof types / sizeof *types;
}

int64_t rvit_dtype_size(rvit_dtype dtype)
{
    return is_type(dtype) ? types[dtype].size : 0;
}

const char *rvit_dtype_name(rvit_dtype dtype)
{
    return is_type(dtype) ? types[dtype].name : "unknown dtype";
}
