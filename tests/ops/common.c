/* What the op tests share. */
#include "ops.h"

array *array_live(int32_t value)
{
    array *a = array_input("live", 4);
    memcpy(a->host, &value, 4);
    return a;
}

const char *type_feature(rvit_dtype dtype)
{
    return rvit_dtype_name(dtype);
}
