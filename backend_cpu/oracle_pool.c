/* Reference implementation of pool. */
#include "backend_cpu/oracle.h"

static void pool_image(const rvit_pool_args *a, int64_t image)
{
    const void *x = rvit_cpu_at(a->x);
    const float *sizes = a->mode == RVIT_POOL_MEAN ? rvit_cpu_at(a->sizes) : NULL;
    const oracle_norm norm = {rvit_cpu_at(a->gamma), rvit_cpu_at(a->beta), a->norm, a->dim, a->eps};
    const rvit_cpu_range rows = rvit_cpu_pool_rows(a, image);
    double total = 0.0;
    for (int64_t row = rows.begin; row < rows.begin + rows.len; row++)
        total += sizes != NULL ? sizes[row] : 1.0;
    /* A few columns at a time, so that a row's moments are not computed for each. */
    enum { COLUMNS = 256 };
    for (int64_t first = 0; first < a->dim; first += COLUMNS) {
        double sums[COLUMNS] = {0};
        const int64_t n = a->dim - first < COLUMNS ? a->dim - first : COLUMNS;
        for (int64_t row = rows.begin; row < rows.begin + rows.len; row++) {
            const oracle_moments m = moments(&norm, x, row * a->dim, a->dtype);
            for (int64_t i = 0; i < n; i++)
                sums[i] += normal(&norm, &m, x, row * a->dim, first + i, a->dtype) * (sizes != NULL ? sizes[row] : 1.0);
        }
        for (int64_t i = 0; i < n; i++)
            store(rvit_cpu_at(a->out), image * a->out_stride + first + i, a->out_dtype, rows.len > 0 ? sums[i] / total : 0.0);
    }
}

static void pool_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t image = begin; image < end; image++)
        pool_image(((const oracle_job *)context)->args, image);
}

void rvit_cpu_oracle_pool(rvit_cpu_device *device, const rvit_pool_args *a)
{
    oracle_job job = {a, a->n_images};
    rvit_cpu_pool_run(device->pool, job.rows, 1, pool_images, &job);
}
