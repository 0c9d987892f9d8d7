/* The positions op: the rope positions of the rows that a prune stage keeps. */
#include "backend_cpu/cpu.h"

void rvit_cpu_positions(rvit_cpu_device *device, const rvit_positions_args *a)
{
    (void)device;
    const int32_t *src_rows = rvit_cpu_at(a->src_rows), *positions = rvit_cpu_at(a->positions);
    const uint8_t *keep = rvit_cpu_at(a->keep);
    int32_t *out = rvit_cpu_at(a->out);
    const int64_t rows = a->source_rows > 0 ? rvit_cpu_live_rows(&a->rows) : 0;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t source = src_rows[row] < a->source_rows ? src_rows[row] : a->source_rows - 1;
        if (source < 0 || (keep != NULL && !keep[source]))
            out[row] = -1;
        else
            out[row] = positions != NULL ? positions[source] : (int32_t)(source % a->n_positions);
    }
}
