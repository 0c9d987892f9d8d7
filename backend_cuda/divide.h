/* Integer helpers for launch shapes. */
#ifndef RVIT_CU_DIVIDE_H
#define RVIT_CU_DIVIDE_H

#include <stdint.h>

static inline int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static inline int32_t smaller(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

#endif
