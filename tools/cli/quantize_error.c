/* Computes quantized values and scales of a layer, and their error, for raggedvit quantize. */
#include "quantize_parts.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/quantized.h"

/* Headroom for larger values on other images. It costs nothing in e4m3, because its precision does not depend on the scale; in int8
   it costs the same factor of precision. */
#define ROOM 2.0f

float quantize_fixed_scale(const struct quantize *self, const struct quantize_input *input)
{
    const float scale = input->largest * (self->dtype == RVIT_E4M3 ? ROOM : 1.0f) / rvit_quantized_max(self->dtype);
    return scale >= RVIT_QUANTIZED_MIN ? scale : RVIT_QUANTIZED_MIN;
}

static float largest_of(const float *values, int64_t n)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    return largest;
}

void quantize_round_weight(const struct quantize *self, struct quantize_layer *layer)
{
    const float of_all = largest_of(layer->weight, layer->rows * layer->columns) / RVIT_E4M3_MAX;
    const float same = of_all >= RVIT_QUANTIZED_MIN ? of_all : RVIT_QUANTIZED_MIN;
    double squares = 0, errors = 0;
    for (int64_t r = 0; r < layer->rows; r++) {
        const float *w = layer->weight + r * layer->columns;
        const rvit_row_scale scale = rvit_row_scale_of(largest_of(w, layer->columns), layer->n_scales == 1 ? &same : NULL, self->dtype);
        const float used = scale.scale >= RVIT_QUANTIZED_MIN ? scale.scale : RVIT_QUANTIZED_MIN; /* any scale for a row of zeros */
        if (r < layer->n_scales)
            layer->scales[r] = used;
        for (int64_t i = 0; i < layer->columns; i++) {
            const uint8_t byte = rvit_quantize_value(w[i] * scale.inverse, self->dtype);
            const double error = (double)rvit_dequantize_value(byte, self->dtype) * (double)used - (double)w[i];
            layer->quantized[r * layer->columns + i] = byte;
            squares += (double)w[i] * (double)w[i];
            errors += error * error;
        }
    }
    layer->weight_error = squares > 0 ? sqrt(errors / squares) : 0;
}

int quantize_compare_outputs(const struct quantize *self, struct quantize_layer *layer)
{
    const struct quantize_input *input = layer->input;
    const int64_t columns = layer->columns;
    const float fixed = quantize_fixed_scale(self, input);
    float *rounded = allocate((size_t)columns, sizeof *rounded), *weight = allocate((size_t)columns, sizeof *weight);
    float *inputs = allocate((size_t)(input->n_samples * columns), sizeof *inputs);
    for (int64_t s = 0; inputs && s < input->n_samples; s++) {
        const float *x = input->samples + s * columns;
        const rvit_row_scale scale = rvit_row_scale_of(largest_of(x, columns), self->fixed ? &fixed : NULL, self->dtype);
        for (int64_t i = 0; i < columns; i++)
            inputs[s * columns + i] =
                rvit_dequantize_value(rvit_quantize_value(x[i] * scale.inverse, self->dtype), self->dtype) * scale.scale;
    }
    for (int64_t r = 0; rounded && weight && inputs && r < layer->rows; r++) {
        const float *w = layer->weight + r * columns, own = layer->scales[layer->n_scales == 1 ? 0 : r];
        for (int64_t i = 0; i < columns; i++)
            rounded[i] = rvit_dequantize_value(layer->quantized[r * columns + i], self->dtype) * own;
        for (int64_t s = 0; s < input->n_samples; s++) {
            const float *x = input->samples + s * columns, *q = inputs + s * columns;
            double exact = 0, found = 0;
            for (int64_t i = 0; i < columns; i++) {
                exact += (double)x[i] * (double)w[i];
                found += (double)q[i] * (double)rounded[i];
            }
            layer->squares += exact * exact;
            layer->squares_of_errors += (found - exact) * (found - exact);
        }
    }
    const bool complete = rounded && weight && inputs;
    free(rounded);
    free(weight);
    free(inputs);
    return complete ? EXIT_OK : EXIT_FAULT;
}

double quantize_output_error(const struct quantize_layer *layer)
{
    return layer->squares > 0 ? sqrt(layer->squares_of_errors / layer->squares) : 0;
}
