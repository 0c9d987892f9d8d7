/* The kernels of bipartite_match: the metric of rows, and the best partner of each row. Compiled once per instruction set. */
#include <math.h>

#include "backend_cpu/isa.h"
#include "backend_cpu/gemm.h"

_Static_assert(RVIT_CPU_MAX_MATCH_DIM *PANEL + TILE_ROWS * PANEL <= RVIT_CPU_SCRATCH_FLOATS,
               "a panel of bipartite_match must fit the scratch memory");

INLINE void metric_of(const rvit_cpu_metric_rows *r, rvit_dtype dtype)
{
    const int64_t head_dim = r->head_dim;
    for (int64_t row = r->first; row < r->end; row++) {
        float *out = r->metric + row * head_dim;
        vec squares = {0};
        for (int64_t i = 0; i < head_dim; i += VL) {
            const int64_t width = head_dim - i < VL ? head_dim - i : VL;
            vec sum = any_load(r->k, row * r->k_stride + i, width, dtype);
            for (int64_t head = 1; head < r->n_heads; head++)
                sum += any_load(r->k, row * r->k_stride + head * head_dim + i, width, dtype);
            squares += sum * sum;
            any_store(out, i, sum, width, RVIT_F32);
        }
        const float length = sqrtf(vec_sum(squares));
        if (length == 0.0f) {
            memset(out, 0, (size_t)head_dim * sizeof *out);
            continue;
        }
        for (int64_t i = 0; i < head_dim; i += VL) {
            const int64_t width = head_dim - i < VL ? head_dim - i : VL;
            any_store(out, i, any_load(out, i, width, RVIT_F32) / length, width, RVIT_F32);
        }
    }
}

void ISA_NAME(rvit_cpu_metric_kernel)(const rvit_cpu_metric_rows *rows)
{
    WITH_DTYPE(rows->dtype, metric_of, rows);
}

/* Finds the first of the largest of n dot products and stores it if it is above *value; returns 1 if so. */
INLINE int take_larger(const float *dots, int n, float *value, int *out_index)
{
    const float so_far = *value;
    float here = so_far;
    if (n == PANEL) {
        const vec before = vec_set(here);
        vec largest = before;
        UNROLL
        for (int j = 0; j < PANEL; j += VL)
            largest = vec_max(vec_load(dots + j), largest); /* keeps the previous maximum where the dot product is NaN */
        here = vec_largest(largest);
    } else {
        for (int j = 0; j < n; j++)
            here = dots[j] > here ? dots[j] : here;
    }
    if (here == so_far)
        return 0;
    int index = 0;
    while (index < n - 1 && dots[index] != here) /* another thread may have written *value if images overlap */
        index++;
    *value = here;
    *out_index = index;
    return 1;
}

/* Transposes a panel of rows of B into scratch and multiplies it with all rows of A. */
void ISA_NAME(rvit_cpu_bipartite_match_kernel)(const rvit_cpu_bipartite_match_tile *t, float *scratch)
{
    float *panel = scratch, *dots = panel + RVIT_CPU_MAX_MATCH_DIM * PANEL;
    for (int64_t i = 0; i < t->n_a; i++) {
        t->best[t->step * i] = 0;
        t->value[t->step * i] = -INFINITY;
    }
    for (int64_t b = 0; b < t->n_b; b += PANEL) {
        const int columns = t->n_b - b < PANEL ? (int)(t->n_b - b) : PANEL;
        pack_panel(t->b + b * t->stride, t->stride, columns, t->dim, panel, RVIT_F32);
        for (int64_t a = 0; a < t->n_a; a += TILE_ROWS) {
            const int rows = t->n_a - a < TILE_ROWS ? (int)(t->n_a - a) : TILE_ROWS;
            gemm_of(rows, columns)(t->a + a * t->stride, t->stride, panel, PANEL, t->dim, dots, PANEL, 0);
            for (int i = 0; i < rows; i++) {
                int index;
                if (take_larger(dots + i * PANEL, columns, &t->value[t->step * (a + i)], &index))
                    t->best[t->step * (a + i)] = (int32_t)(b + index);
            }
        }
    }
}
