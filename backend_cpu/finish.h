/* The epilogue of linear: scales, bias, activation, gate, residual. Only kernel files include this. */
#ifndef RVIT_CPU_FINISH_H
#define RVIT_CPU_FINISH_H

#include "backend_cpu/activate.h"

/* x_scale: the row's; ignored without weight_scales. */
INLINE vec scale_and_add_bias(const rvit_cpu_linear_tile *t, const float *sums, float x_scale, int column, int width)
{
    vec v = any_load(sums, 0, width, RVIT_F32);
    if (t->weight_scales != NULL)
        v *= x_scale * any_load(t->weight_scales, column, width, RVIT_F32);
    return t->bias != NULL ? v + any_load(t->bias, column, width, RVIT_F32) : v;
}

INLINE void finish(const rvit_cpu_linear_tile *t, const float *sums, int64_t stride, int first_row, int rows, int first_column, int columns,
                   rvit_cpu_activation activation, int gated)
{
    const int step = gated ? 2 * VL : VL;
    for (int i = 0; i < rows; i++) {
        const int64_t row = t->first_row + first_row + i;
        const int64_t residual_row = t->residual_period > 0 ? row % t->residual_period : row;
        const float x_scale = t->weight_scales != NULL ? t->x_scales[first_row + i] : 1.0f;
        for (int j = 0; j < columns; j += step) {
            const int here = columns - j < step ? columns - j : step, width = gated ? here / 2 : here;
            const int from = first_column + j, column = gated ? from / 2 : from;
            vec v = scale_and_add_bias(t, sums + i * stride + j, x_scale, from, here < VL ? here : VL);
            if (gated) {
                const vec more = here > VL ? scale_and_add_bias(t, sums + i * stride + j + VL, x_scale, from + VL, here - VL) : (vec){0};
                v = activate(activation, t->slope, t->cubic, EVEN(v, more)) * ODD(v, more);
            } else {
                v = activate(activation, t->slope, t->cubic, v);
            }
            if (t->residual != NULL)
                v += any_load(t->residual, residual_row * t->out_features + column, width, t->out_dtype);
            any_store(t->out, (first_row + i) * t->out_features + column, v, width, t->out_dtype);
        }
    }
}

/* The same for float32 in whole vectors, without scales and gates. */
INLINE void finish_floats(const rvit_cpu_linear_tile *t, const float *sums, int64_t stride, int first_row, int rows, int first_column,
                          int columns, rvit_cpu_activation activation, int adds)
{
    for (int j = 0; j < columns; j += VL) {
        const vec bias = t->bias != NULL ? vec_load(t->bias + first_column + j) : (vec){0};
        for (int i = 0; i < rows; i++) {
            const int64_t row = t->first_row + first_row + i;
            const int64_t residual_row = t->residual_period > 0 ? row % t->residual_period : row;
            vec v = activate(activation, t->slope, t->cubic, vec_load(sums + i * stride + j) + bias);
            if (adds)
                v += vec_load((const float *)t->residual + residual_row * t->out_features + first_column + j);
            vec_store((float *)t->out + (first_row + i) * t->out_features + first_column + j, v);
        }
    }
}

static void finish_block(const rvit_cpu_linear_tile *t, const float *sums, int64_t stride, int first_row, int rows, int first_column,
                         int columns)
{
    const int floats = t->out_dtype == RVIT_F32 && t->weight_scales == NULL && columns % VL == 0;
    if (floats && !t->gated && t->activation == RVIT_CPU_NONE && t->residual == NULL)
        finish_floats(t, sums, stride, first_row, rows, first_column, columns, RVIT_CPU_NONE, 0);
    else if (floats && !t->gated && t->activation == RVIT_CPU_NONE)
        finish_floats(t, sums, stride, first_row, rows, first_column, columns, RVIT_CPU_NONE, 1);
    else if (floats && !t->gated && t->activation == RVIT_CPU_GELU && t->residual == NULL)
        finish_floats(t, sums, stride, first_row, rows, first_column, columns, RVIT_CPU_GELU, 0);
    else if (t->gated)
        finish(t, sums, stride, first_row, rows, first_column, columns, t->activation, 1);
    else if (t->activation == RVIT_CPU_GELU)
        finish(t, sums, stride, first_row, rows, first_column, columns, RVIT_CPU_GELU, 0);
    else if (t->activation == RVIT_CPU_SIGMOID)
        finish(t, sums, stride, first_row, rows, first_column, columns, RVIT_CPU_SIGMOID, 0);
    else
        finish(t, sums, stride, first_row, rows, first_column, columns, RVIT_CPU_NONE, 0);
}

#endif
