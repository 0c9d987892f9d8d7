/* Shared by the files of the oracle: float64 in, float64 out. */
#ifndef RVIT_CPU_ORACLE_H
#define RVIT_CPU_ORACLE_H

#include <math.h>

#include "backend_cpu/cpu.h"
#include "core/half.h"

static inline double load(const void *p, int64_t i, rvit_dtype dtype)
{
    return dtype == RVIT_F16 ? rvit_f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* Converts to float16 with a single rounding: the intermediate float32 is rounded to odd, so that the second rounding is correct. */
static inline uint16_t to_half(double value)
{
    float single = (float)value;
    uint32_t bits = rvit_float_bits(single);
    if ((double)single != value && !isnan(value) && !(bits & 1)) {
        if (fabs((double)single) > fabs(value))
            bits -= 1;
        else if (!isinf(single))
            bits += 1;
        single = rvit_bits_float(bits);
    }
    return rvit_f32_to_f16(single);
}

static inline void store(void *p, int64_t i, rvit_dtype dtype, double value)
{
    if (dtype == RVIT_F16)
        ((uint16_t *)p)[i] = to_half(value);
    else
        ((float *)p)[i] = (float)value;
}

typedef struct oracle_job {
    const void *args;
    int64_t rows;
} oracle_job;

#endif
