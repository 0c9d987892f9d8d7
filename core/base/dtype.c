/* The names and sizes of element types. */
#include <raggedvit/ragged.h>

int64_t rvit_dtype_size(rvit_dtype dtype)
{
    switch (dtype) {
    case RVIT_F32:
        return 4;
    case RVIT_F16:
    case RVIT_BF16:
        return 2;
    case RVIT_I8:
    case RVIT_E4M3:
        return 1;
    }
    return 0;
}

const char *rvit_dtype_name(rvit_dtype dtype)
{
    switch (dtype) {
    case RVIT_F32:
        return "f32";
    case RVIT_F16:
        return "f16";
    case RVIT_BF16:
        return "bf16";
    case RVIT_I8:
        return "int8";
    case RVIT_E4M3:
        return "e4m3";
    }
    return "unknown dtype";
}
