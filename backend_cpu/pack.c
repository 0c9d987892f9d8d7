/* The pack op: a gather of rows. */
#include <string.h>

#include "backend_cpu/cpu.h"

static void pack_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_pack_args *a = context;
    const char *source = rvit_cpu_at(a->source);
    char *destination = rvit_cpu_at(a->destination);
    const int32_t *src_rows = rvit_cpu_at(a->src_rows);
    for (int64_t row = begin; row < end; row++) {
        const int64_t from = rvit_cpu_clamp(src_rows[row], 0, a->source_rows - 1);
        memcpy(destination + row * a->row_size, source + from * a->row_size, (size_t)a->row_size);
    }
}

void rvit_cpu_pack(rvit_cpu_device *device, const rvit_pack_args *args)
{
    rvit_pack_args a = *args;
    const int64_t rows = a.source_rows > 0 ? rvit_cpu_live_rows(&a.rows) : 0;
    const int64_t min = 65536 / a.row_size + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), pack_rows, &a);
}
