/* The kernels of quantize, and of layernorm with quantized output. Compiled once per instruction set. */
#include "backend_cpu/activate.h"
#include "backend_cpu/quantized_vec.h"
#include "backend_cpu/isa.h"
#include "backend_cpu/norm.h"

_Static_assert(RVIT_MAX_QUANTIZED_COLUMNS <= RVIT_CPU_SCRATCH_FLOATS, "a row must fit the scratch memory");

INLINE vec value_and_bias(const void *x, const float *bias, int64_t first, int64_t i, rvit_dtype dtype)
{
    const vec v = any_load(x, first + i, VL, dtype);
    return bias != NULL ? v + vec_load(bias + i) : v;
}

/* Computes the values of a row; returns the largest magnitude per lane. */
INLINE ivec row_values(const rvit_cpu_quantize_rows *r, int64_t row, float *values, rvit_dtype dtype, rvit_cpu_activation activation)
{
    const void *x = r->x;
    const float *bias = r->bias, slope = r->slope, cubic = r->cubic;
    const int64_t columns = r->columns, first = row * (r->gated ? 2 * columns : columns);
    const int gated = r->gated;
    ivec largest = {0};
    for (int64_t i = 0; i < columns; i += VL) {
        vec v;
        if (gated) {
            const vec a = value_and_bias(x, bias, first, 2 * i, dtype), b = value_and_bias(x, bias, first, 2 * i + VL, dtype);
            v = activate(activation, slope, cubic, EVEN(a, b)) * ODD(a, b);
        } else {
            v = activate(activation, slope, cubic, value_and_bias(x, bias, first, i, dtype));
        }
        vec_store(values + i, v);
        largest = vec_larger((ivec)vec_abs(v), largest);
    }
    return largest;
}

#if VL == 16
/* The same for bf16 rows without gate and bias. Of every 32 values the even ones are stored first, which saves shuffles. */
INLINE ivec pair_values(const rvit_cpu_quantize_rows *r, int64_t row, float *values, rvit_cpu_activation activation)
{
    const uint16_t *x = (const uint16_t *)r->x + row * r->columns;
    const float slope = r->slope, cubic = r->cubic;
    ivec largest = {0};
    for (int64_t i = 0; i < r->columns; i += 2 * VL) {
        const __m512i words = _mm512_loadu_si512(x + i);
        const vec even = activate(activation, slope, cubic, (vec)_mm512_slli_epi32(words, 16));
        const vec odd = activate(activation, slope, cubic, (vec)((ivec)words & (int32_t)0xffff0000u));
        vec_store(values + i, even);
        vec_store(values + i + VL, odd);
        largest = vec_larger((ivec)vec_abs(even), vec_larger((ivec)vec_abs(odd), largest));
    }
    return largest;
}
#endif

INLINE int64_t quantize_of(const rvit_cpu_quantize_rows *r, float *scratch, rvit_cpu_activation activation, rvit_dtype out_dtype)
{
    int64_t n_saturated = 0;
#if VL == 16
    if (out_dtype == RVIT_I8 && r->dtype == RVIT_BF16 && !r->gated && r->bias == NULL && r->static_scale == NULL && r->columns % 32 == 0) {
        for (int64_t row = r->first; row < r->end; row++)
            quantize_row(scratch, r->columns, pair_values(r, row, scratch, activation), NULL, RVIT_I8, 1, r->out + row * r->columns,
                         r->out_scales + row);
        return 0;
    }
#endif
    for (int64_t row = r->first; row < r->end; row++) {
        ivec largest;
        if (r->dtype == RVIT_F32)
            largest = row_values(r, row, scratch, RVIT_F32, activation);
        else if (r->dtype == RVIT_F16)
            largest = row_values(r, row, scratch, RVIT_F16, activation);
        else
            largest = row_values(r, row, scratch, RVIT_BF16, activation);
        n_saturated +=
            quantize_row(scratch, r->columns, largest, r->static_scale, out_dtype, 0, r->out + row * r->columns, r->out_scales + row);
    }
    return n_saturated;
}

INLINE int64_t quantize_to(const rvit_cpu_quantize_rows *r, float *scratch, rvit_dtype out_dtype)
{
    return r->activation == RVIT_CPU_GELU      ? quantize_of(r, scratch, RVIT_CPU_GELU, out_dtype)
           : r->activation == RVIT_CPU_SIGMOID ? quantize_of(r, scratch, RVIT_CPU_SIGMOID, out_dtype)
                                               : quantize_of(r, scratch, RVIT_CPU_NONE, out_dtype);
}

int64_t ISA_NAME(rvit_cpu_quantize_kernel)(const rvit_cpu_quantize_rows *r, float *scratch)
{
    return r->out_dtype == RVIT_I8 ? quantize_to(r, scratch, RVIT_I8) : quantize_to(r, scratch, RVIT_E4M3);
}

/* Values of a row past `features` are 0. */
INLINE ivec normal_values(const row_norm *norm, const row_moments *m, const void *x, int64_t first, int64_t dim, float *values,
                          rvit_dtype dtype)
{
    ivec largest = {0};
    for (int64_t i = 0; i < dim; i += VL) {
        const int64_t left = norm->features - i;
        vec v = {0};
        if (left >= VL) {
            v = normal(norm, m, x, first, i, VL, dtype);
        } else if (left > 0) {
            vec_store(values + i, normal(norm, m, x, first, i, left, dtype));
            v = vec_load_part(values + i, left);
        }
        vec_store(values + i, v);
        largest = vec_larger((ivec)vec_abs(v), largest);
    }
    return largest;
}

INLINE int64_t layernorm_from(const rvit_cpu_layernorm_rows *r, float *scratch, rvit_dtype dtype)
{
    const row_norm norm = {r->gamma, r->beta, r->features, r->eps, r->rms};
    const size_t size = (size_t)(r->dim * rvit_cpu_size(dtype));
    int8_t *out = r->out;
    int64_t n_saturated = 0;
    for (int64_t first = r->first; first < r->end; first += ROWS_TOGETHER) {
        const int n = r->end - first < ROWS_TOGETHER ? (int)(r->end - first) : ROWS_TOGETHER;
        row_moments m[ROWS_TOGETHER];
        for (int j = 0; j < n; j++)
            m[j] = moments_of(&norm, r->x, rvit_cpu_source_row(r, first + j) * r->dim, dtype);
        for (int j = 0; j < n; j++) {
            const int64_t row = first + j, from = rvit_cpu_source_row(r, row);
            const ivec largest = normal_values(&norm, &m[j], r->x, from * r->dim, r->dim, scratch, dtype);
            if (r->out_dtype == RVIT_I8)
                n_saturated += quantize_row(scratch, r->dim, largest, r->static_scale, RVIT_I8, 0, out + row * r->dim, r->out_scales + row);
            else
                n_saturated +=
                    quantize_row(scratch, r->dim, largest, r->static_scale, RVIT_E4M3, 0, out + row * r->dim, r->out_scales + row);
            if (r->out_x != NULL)
                memcpy((char *)r->out_x + (size_t)row * size, (const char *)r->x + (size_t)from * size, size);
        }
    }
    return n_saturated;
}

int64_t ISA_NAME(rvit_cpu_layernorm_quantized_kernel)(const rvit_cpu_layernorm_rows *r, float *scratch)
{
    return r->dtype == RVIT_F32   ? layernorm_from(r, scratch, RVIT_F32)
           : r->dtype == RVIT_F16 ? layernorm_from(r, scratch, RVIT_F16)
                                  : layernorm_from(r, scratch, RVIT_BF16);
}
