/* Quantizes a row to int8 or e4m3 values and a scale, as rvit_quantize does: scalar code for a model's weights and the oracle. */
#ifndef RVIT_CORE_BASE_QUANTIZED_H
#define RVIT_CORE_BASE_QUANTIZED_H

#include <math.h>

#include "core/base/e4m3.h"

/* The largest value of I8 or E4M3. */
static inline float rvit_quantized_max(rvit_dtype dtype)
{
    return dtype == RVIT_I8 ? 127.0f : RVIT_E4M3_MAX;
}

/* A row whose values are all smaller has scale 0. A static scale lies between this and 1 / this. */
#define RVIT_QUANTIZED_MIN 0x1p-100f

/* inverse: the factor applied to values before rounding; 0: every quantized value is `fill`. */
typedef struct rvit_row_scale {
    float scale, inverse;
    uint8_t fill;
} rvit_row_scale;

/* largest: the largest absolute value of the row; not finite if any value is not. static_scale: may be NULL. */
static inline rvit_row_scale rvit_row_scale_of(float largest, const float *static_scale, rvit_dtype dtype)
{
    if (!isfinite(largest) ||
        (static_scale != NULL && !(*static_scale >= RVIT_QUANTIZED_MIN && *static_scale <= 1.0f / RVIT_QUANTIZED_MIN)))
        return (rvit_row_scale){NAN, 0.0f, dtype == RVIT_E4M3 ? 0x7f : 0};
    if (static_scale != NULL)
        return (rvit_row_scale){*static_scale, 1.0f / *static_scale, 0};
    if (largest < RVIT_QUANTIZED_MIN)
        return (rvit_row_scale){0.0f, 0.0f, 0};
    return (rvit_row_scale){largest / rvit_quantized_max(dtype), rvit_quantized_max(dtype) / largest, 0};
}

/* value: already multiplied by the inverse; not NaN. */
static inline uint8_t rvit_quantize_value(float value, rvit_dtype dtype)
{
    if (dtype == RVIT_E4M3)
        return rvit_f32_to_e4m3(value);
    const float whole = rintf(value);
    return (uint8_t)(int8_t)(whole < -127.0f ? -127.0f : whole > 127.0f ? 127.0f : whole);
}

static inline float rvit_dequantize_value(uint8_t byte, rvit_dtype dtype)
{
    return dtype == RVIT_E4M3 ? rvit_e4m3_to_f32(byte) : (float)(int8_t)byte;
}

#endif
