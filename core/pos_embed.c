#include "core/pos_embed.h"

#include <math.h>
#include <string.h>

#include "core/status.h"

/* Keys's cubic kernel. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

/* The kernel of an antialiased filter. */
static double kernel(rvit_resample how, double x)
{
    return how == RVIT_RESAMPLE_TIMM ? cubic(x, -0.5) : fmax(1 - fabs(x), 0);
}

/* When shrinking, the kernel widens with the factor. Weights outside the image are left out. */
static void antialiased(rvit_resample how, int32_t n_in, double scale, int32_t i, double *row)
{
    const double reach = how == RVIT_RESAMPLE_TIMM ? 2 : 1;
    const double stretch = scale > 1 ? scale : 1, support = reach * stretch, centre = scale * (i + 0.5);
    const double low = trunc(centre - support + 0.5), high = trunc(centre + support + 0.5);
    const int32_t begin = low > 0 ? (int32_t)low : 0, end = high < n_in ? (int32_t)high : n_in;
    double sum = 0;
    for (int32_t j = begin; j < end; j++)
        sum += row[j] = kernel(how, (j - centre + 0.5) / stretch);
    for (int32_t j = begin; j < end; j++)
        row[j] /= sum;
}

/* Taps outside the image repeat its edge. */
static void bicubic(int32_t n_in, double scale, int32_t i, double *row)
{
    const double source = (i + 0.5) * scale - 0.5, base = floor(source), t = source - base;
    for (int32_t tap = -1; tap <= 2; tap++) {
        const double j = base + tap;
        row[j < 0 ? 0 : j > n_in - 1 ? n_in - 1 : (int32_t)j] += cubic(t - tap, -0.75);
    }
}

static void bilinear(int32_t n_in, double scale, int32_t i, double *row)
{
    const double source = fmax((i + 0.5) * scale - 0.5, 0);
    const int32_t j = (int32_t)source;
    const double t = source - j;
    row[j] += 1 - t;
    row[j + 1 < n_in ? j + 1 : j] += t;
}

void rvit_resample_weights(rvit_resample how, int32_t n_in, int32_t n_out, double *weights)
{
    const double scale = (double)n_in / n_out;
    memset(weights, 0, (size_t)n_in * (size_t)n_out * sizeof *weights);
    for (int32_t i = 0; i < n_out; i++) {
        double *row = weights + (int64_t)i * n_in;
        if (how == RVIT_RESAMPLE_TIMM || how == RVIT_RESAMPLE_BILINEAR_ANTIALIAS)
            antialiased(how, n_in, scale, i, row);
        else if (how == RVIT_RESAMPLE_BICUBIC)
            bicubic(n_in, scale, i, row);
        else
            bilinear(n_in, scale, i, row);
    }
}

/* One row of the new grid: lines is the table resampled down its columns at that row, [n_in, dim]. */
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
