/* Linear: the output is split into tiles of rows and columns. */
#include "backend_cpu/cpu.h"

typedef struct linear_job {
    const rvit_cpu_device *device;
    rvit_cpu_linear_tile whole; /* pointers at element 0; rows and columns of a full tile */
    int64_t rows, columns;      /* of the product */
    int64_t column_tiles;
} linear_job;

static const void *elements(const void *base, int64_t index, rvit_dtype dtype)
{
    return base == NULL ? NULL : (const char *)base + index * rvit_cpu_size(dtype);
}

static void linear_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    const linear_job *job = context;
    float *scratch = rvit_cpu_scratch(job->device, thread);
    for (int64_t i = begin; i < end; i++) {
        rvit_cpu_linear_tile tile = job->whole;
        const int64_t row = i / job->column_tiles * tile.rows;
        const int64_t column = i % job->column_tiles * tile.columns;
        const int64_t rows = job->rows - row, columns = job->columns - column;
        tile.rows = rows < tile.rows ? (int)rows : tile.rows;
        tile.columns = columns < tile.columns ? (int)columns : tile.columns;
        tile.first_row = row;
        tile.x = elements(tile.x, row * tile.in_features, tile.dtype);
        tile.weight = elements(tile.weight, column * tile.in_features, tile.dtype);
        tile.x_scales = elements(tile.x_scales, row, RVIT_F32);
        tile.weight_scales = elements(tile.weight_scales, column, RVIT_F32);
        tile.weight_sums = tile.weight_sums != NULL ? tile.weight_sums + column : NULL;
        tile.bias = elements(tile.bias, column, RVIT_F32);
        const int64_t first = tile.gated ? column / 2 : column;
        tile.residual = elements(tile.residual, first, tile.out_dtype);
        tile.out = (char *)tile.out + (row * tile.out_features + first) * rvit_cpu_size(tile.out_dtype);
        if (tile.dtype == RVIT_I8)
            job->device->kernels->linear_i8(&tile, scratch);
        else if (tile.dtype == RVIT_E4M3)
            job->device->kernels->linear_e4m3(&tile, scratch);
        else if (job->device->use_cblas)
            rvit_cpu_cblas_linear(job->device->kernels, &tile, scratch);
        else
            job->device->kernels->linear(&tile, scratch);
    }
}

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* Large tiles reuse what they load; more tiles than threads balance the load. The result of a row depends on neither. */
static void choose_tiles(linear_job *job)
{
    const rvit_cpu_kernels *kernels = job->device->kernels;
    const int n_threads = rvit_cpu_pool_threads(job->device->pool);
    const int64_t wanted = n_threads == 1 ? 1 : 4 * (int64_t)n_threads;
    int64_t columns = 8 * (int64_t)kernels->columns, rows = RVIT_CPU_LINEAR_ROWS;
    while (divide_up(job->rows, rows) * divide_up(job->columns, columns) < wanted) {
        if (columns > kernels->columns && job->columns > kernels->columns)
            columns /= 2;
        else if (rows > 2 * kernels->rows && job->rows > 2 * kernels->rows)
            rows = divide_up(rows / 2, kernels->rows) * kernels->rows;
        else
            break;
    }
    job->whole.rows = (int)rows;
    job->whole.columns = (int)columns;
}

/* CBLAS gets one tile shape per op, whatever the batch, so that it takes the same path for every row. */
static void choose_cblas_tiles(linear_job *job)
{
    const int64_t parts = divide_up(job->columns, RVIT_CPU_LINEAR_COLUMNS);
    job->whole.rows = RVIT_CPU_CBLAS_ROWS;
    job->whole.columns = (int)divide_up(divide_up(job->columns, parts), 4) * 4;
}

void rvit_cpu_linear(rvit_cpu_device *device, const rvit_linear_args *a)
{
    if (device->oracle) {
        rvit_cpu_oracle_linear(device, a);
        return;
    }
    const rvit_sigmoid sigmoid = rvit_sigmoid_of(a->activation);
    linear_job job = {
        .device = device,
        .whole =
            {
                .x = rvit_cpu_at(a->x),
                .weight = rvit_cpu_at(a->weight),
                .x_scales = rvit_cpu_at(a->x_scales),
                .weight_scales = rvit_cpu_at(a->weight_scales),
                .weight_sums = rvit_cpu_at(device->hints->weight_sums),
                .bias = rvit_cpu_at(a->bias),
                .residual = rvit_cpu_at(a->residual),
                .out = rvit_cpu_at(a->out),
                .in_features = a->in_features,
                .out_features = a->out_features,
                .residual_period = a->residual_period,
                .dtype = a->dtype,
                .out_dtype = a->out_dtype,
                .gated = a->gated,
                .activation = rvit_cpu_activation_of(a->activation),
                .slope = sigmoid.slope,
                .cubic = sigmoid.cubic,
            },
        .rows = rvit_cpu_live_rows(&a->rows),
        .columns = rvit_linear_columns(a),
    };
    if (device->use_cblas && !rvit_is_bytes(a->dtype))
        choose_cblas_tiles(&job);
    else
        choose_tiles(&job);
    job.column_tiles = divide_up(job.columns, job.whole.columns);
    rvit_cpu_pool_run(device->pool, divide_up(job.rows, job.whole.rows) * job.column_tiles, 1, linear_tiles, &job);
}
