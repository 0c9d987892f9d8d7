/* The kernel of pool. Compiled once per instruction set, with RVIT_CPU_ISA defined as its name. */
#include "backend_cpu/isa.h"
#include "backend_cpu/norm.h"

_Static_assert(RVIT_CPU_POOL_COLUMNS <= RVIT_CPU_SCRATCH_FLOATS, "sums of pool must fit the scratch memory");

/* A row adds its deviations times its scale; gamma and beta come last, as they are the same for all rows. */
void ISA_NAME(rvit_cpu_pool_kernel)(const rvit_cpu_pool_tile *t, float *scratch)
{
    const row_norm norm = {t->gamma, t->beta, t->dim, t->eps, t->rms};
    float total = 0.0f;
    memset(scratch, 0, (size_t)t->n_columns * sizeof *scratch);
    for (int64_t row = 0; row < t->n_rows; row++) {
        const int64_t first = row * t->dim + t->first_column;
        const row_moments m = moments_of(&norm, t->x, row * t->dim, t->half);
        const float size = t->sizes != NULL ? t->sizes[row] : 1.0f, factor = m.scale * size;
        total += size;
        for (int64_t i = 0; i < t->n_columns; i += VL) {
            const int64_t width = t->n_columns - i < VL ? t->n_columns - i : VL;
            const vec sum = any_load(scratch, i, width, 0) + (any_load(t->x, first + i, width, t->half) - m.mean) * factor;
            any_store(scratch, i, sum, width, 0);
        }
    }
    for (int64_t i = 0; i < t->n_columns; i += VL) {
        const int64_t column = t->first_column + i, width = t->n_columns - i < VL ? t->n_columns - i : VL;
        vec mean = any_load(scratch, i, width, 0) / total;
        if (t->gamma != NULL)
            mean *= any_load(t->gamma, column, width, 0);
        if (t->beta != NULL)
            mean += any_load(t->beta, column, width, 0);
        any_store(t->out, column, mean, width, t->out_half);
    }
}
