/* The sizes of element types. */
#include <raggedvit/ops.h>

int64_t rvit_dtype_size(rvit_dtype dtype)
{
    static const int64_t sizes[] = {
#define RVIT_ELEMENT(TYPE, name, file_name, PRECISION, precision, size, scaled) [RVIT_##TYPE] = size,
#include "core/base/dtype.def"
        [RVIT_I32] = 4, [RVIT_U8] = 1, /* only results have these two */
    };
    /* Callers may pass any integer as the enum. */
    return (int)dtype >= 0 && (size_t)dtype < sizeof sizes / sizeof *sizes ? sizes[dtype] : 0;
}
