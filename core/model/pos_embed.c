#include "core/model/pos_embed.h"

#include <string.h>

#include "core/base/resample.h"
#include "core/base/status.h"

void rvit_resample_weights(rvit_resample how, int32_t n_in, int32_t n_out, double *weights)
{
    memset(weights, 0, (size_t)n_in * (size_t)n_out * sizeof *weights);
    for (int32_t i = 0; i < n_out; i++) {
        const rvit_taps taps = rvit_taps_of(how, n_in, n_out, i);
        for (int32_t tap = 0; tap < taps.n; tap++)
            weights[(int64_t)i * n_in + rvit_taps_entry(&taps, tap)] += rvit_taps_weight(&taps, tap);
    }
}

/* Computes one row of the new grid. lines: [n_in, dim], the table resampled vertically at that row. */
static void resample_row(const double *weights, const double *down, const float *table, int32_t n_in, int32_t n_out, int32_t dim,
                         double *lines, float *out)
{
    const int64_t width = (int64_t)n_in * dim;
    memset(lines, 0, (size_t)width * sizeof *lines);
    for (int32_t y = 0; y < n_in; y++)
        if (down[y] != 0)
            for (int64_t i = 0; i < width; i++)
                lines[i] += down[y] * table[y * width + i];
    for (int32_t x = 0; x < n_out; x++)
        for (int32_t c = 0; c < dim; c++) {
            double sum = 0;
            for (int32_t j = 0; j < n_in; j++)
                sum += weights[(int64_t)x * n_in + j] * lines[(int64_t)j * dim + c];
            out[(int64_t)x * dim + c] = (float)sum;
        }
}

rvit_status rvit_resample_grid(rvit_alloc *alloc, rvit_resample how, const float *table, int32_t n_in, int32_t n_out, int32_t dim,
                               float *out)
{
    if (n_in == n_out) {
        memcpy(out, table, (size_t)n_in * (size_t)n_in * (size_t)dim * sizeof *out);
        return RVIT_OK;
    }
    rvit_status status = RVIT_OUT_OF_HOST_MEMORY;
    double *weights = rvit_alloc_array(alloc, (size_t)n_in * (size_t)n_out, sizeof *weights);
    double *lines = rvit_alloc_array(alloc, (size_t)n_in * (size_t)dim, sizeof *lines);
    if (weights != NULL && lines != NULL) {
        rvit_resample_weights(how, n_in, n_out, weights);
        for (int32_t y = 0; y < n_out; y++)
            resample_row(weights, weights + (int64_t)y * n_in, table, n_in, n_out, dim, lines, out + (int64_t)y * n_out * dim);
        status = RVIT_OK;
    }
    rvit_alloc_free(alloc, lines);
    rvit_alloc_free(alloc, weights);
    return status;
}
