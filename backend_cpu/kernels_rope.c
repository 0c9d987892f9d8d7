/* Rope: rotates the heads of rows in place. Compiled once per instruction set. */
#include "backend_cpu/isa.h"
#include "backend_cpu/vector.h"

INLINE void rotate_head(void *heads, int64_t first, int64_t pairs, const float *cosines, rvit_dtype dtype)
{
    const float *sines = cosines + pairs;
    for (int64_t j = 0; j < pairs; j += VL) {
        const int64_t n = pairs - j < VL ? pairs - j : VL;
        const vec x = any_load(heads, first + j, n, dtype), y = any_load(heads, first + pairs + j, n, dtype);
        const vec c = any_load(cosines, j, n, RVIT_F32), s = any_load(sines, j, n, RVIT_F32);
        any_store(heads, first + j, x * c - y * s, n, dtype);
        any_store(heads, first + pairs + j, y * c + x * s, n, dtype);
    }
}

INLINE void rotate_rows(const rvit_cpu_rope_rows *r, rvit_dtype dtype)
{
    for (int64_t row = r->first; row < r->end; row++) {
        const int64_t position = r->positions != NULL ? r->positions[row] : row % r->n_positions;
        if (position < r->n_prefix || position >= r->n_positions)
            continue;
        const float *cosines = r->table + position * r->head_dim;
        for (int i = 0; i < 2; i++)
            for (int64_t head = 0; head < r->n_heads; head++)
                rotate_head(r->heads[i], row * r->strides[i] + head * r->head_dim, r->head_dim / 2, cosines, dtype);
    }
}

void ISA_NAME(rvit_cpu_rope_kernel)(const rvit_cpu_rope_rows *rows)
{
    WITH_DTYPE(rows->dtype, rotate_rows, rows);
}
