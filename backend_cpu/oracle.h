/* Declarations shared by the files of the oracle: float64 in, float64 out. */
#ifndef RVIT_CPU_ORACLE_H
#define RVIT_CPU_ORACLE_H

#include <math.h>

#include "backend_cpu/cpu.h"
#include "core/base/quantized.h"

static inline double load(const void *p, int64_t i, rvit_dtype dtype)
{
    if (dtype == RVIT_F32)
        return ((const float *)p)[i];
    if (rvit_is_quantized(dtype))
        return rvit_dequantize_value(((const uint8_t *)p)[i], dtype);
    return dtype == RVIT_F16 ? rvit_f16_to_f32(((const uint16_t *)p)[i]) : rvit_bf16_to_f32(((const uint16_t *)p)[i]);
}

/* Converts to 16 bits with a single rounding: the intermediate float32 is rounded to odd, so that the second rounding is correct. */
static inline uint16_t to_narrow(double value, rvit_dtype dtype)
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
    return dtype == RVIT_F16 ? rvit_f32_to_f16(single) : rvit_f32_to_bf16(single);
}

static inline void store(void *p, int64_t i, rvit_dtype dtype, double value)
{
    if (dtype == RVIT_F32)
        ((float *)p)[i] = (float)value;
    else
        ((uint16_t *)p)[i] = to_narrow(value, dtype);
}

/* The norm of a row. gamma NULL: no norm; beta may be NULL. */
typedef struct oracle_norm {
    const float *gamma, *beta;
    rvit_norm norm;
    int64_t features;
    double eps;
} oracle_norm;

typedef struct oracle_moments {
    double mean, scale;
} oracle_moments;

/* The moments of the row that begins at element `first`. */
static inline oracle_moments moments(const oracle_norm *norm, const void *x, int64_t first, rvit_dtype dtype)
{
    double mean = 0.0, variance = 0.0;
    if (norm->gamma == NULL)
        return (oracle_moments){0.0, 1.0};
    for (int64_t i = 0; i < norm->features && norm->norm == RVIT_NORM_LAYER; i++)
        mean += load(x, first + i, dtype);
    mean /= (double)norm->features;
    for (int64_t i = 0; i < norm->features; i++) {
        const double difference = load(x, first + i, dtype) - mean;
        variance += difference * difference;
    }
    return (oracle_moments){mean, 1.0 / sqrt(variance / (double)norm->features + norm->eps)};
}

/* Column i of that row, normalised. */
static inline double normal(const oracle_norm *norm, const oracle_moments *m, const void *x, int64_t first, int64_t i, rvit_dtype dtype)
{
    const double value = load(x, first + i, dtype);
    if (norm->gamma == NULL)
        return value;
    return (value - m->mean) * m->scale * norm->gamma[i] + (norm->beta != NULL ? norm->beta[i] : 0.0);
}

static inline double oracle_activate(rvit_activation activation, double x)
{
    switch (activation) {
    case RVIT_ACTIVATION_NONE:
        break;
    case RVIT_ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case RVIT_ACTIVATION_GELU_TANH: /* 1 + tanh u without the cancellation */
        return x / (1.0 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case RVIT_ACTIVATION_QUICK_GELU:
        return x / (1.0 + exp(-1.702 * x));
    case RVIT_ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    }
    return x;
}

typedef struct oracle_job {
    const void *args;
    int64_t rows;
} oracle_job;

#endif
