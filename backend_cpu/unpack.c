/* The unpack op. Each destination row is written once: from the source if src_rows lists it, else from base or with the fill value. */
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct unpack_job {
    const char *source, *base; /* base or NULL */
    const int32_t *src_rows;
    char *destination;
    int64_t rows, row_size;
    int64_t element;
    uint32_t fill; /* rvit_unpack_fill */
} unpack_job;

static void fill_row(const unpack_job *job, char *row)
{
    if (job->element == 4) {
        uint32_t *elements = (uint32_t *)(void *)row;
        for (int64_t i = 0; i < job->row_size / 4; i++)
            elements[i] = job->fill;
    } else {
        uint16_t *elements = (uint16_t *)(void *)row;
        for (int64_t i = 0; i < job->row_size / 2; i++)
            elements[i] = (uint16_t)job->fill;
    }
}

static void unpack_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const unpack_job *job = context;
    int64_t low = rvit_cpu_rows_below(job->src_rows, job->rows, begin);
    for (int64_t row = begin; row < end; row++) {
        char *to = job->destination + row * job->row_size;
        while (low < job->rows && job->src_rows[low] < row)
            low++;
        if (low < job->rows && job->src_rows[low] == row)
            memcpy(to, job->source + low * job->row_size, (size_t)job->row_size);
        else if (job->base == NULL)
            fill_row(job, to);
        else if (job->base != job->destination)
            memcpy(to, job->base + row * job->row_size, (size_t)job->row_size);
    }
}

void rvit_cpu_unpack(rvit_cpu_device *device, const rvit_unpack_args *a)
{
    unpack_job job = {
        .source = rvit_cpu_at(a->source),
        .base = rvit_cpu_at(a->base),
        .src_rows = rvit_cpu_at(a->src_rows),
        .destination = rvit_cpu_at(a->destination),
        .rows = rvit_cpu_live_rows(&a->rows),
        .element = rvit_dtype_size(a->dtype),
        .fill = rvit_unpack_fill(a),
    };
    job.row_size = a->dim * job.element;
    const int64_t rows = rvit_cpu_live_rows(&a->destination_rows);
    const int64_t min = 65536 / job.row_size + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), unpack_rows, &job);
}
