/* The linear op: splits the output into tiles of rows and columns. */
#include "backend_cpu/cpu.h"
#include "core/base/quantized.h"

typedef struct linear_job {
    const rvit_cpu_device *device;
    void (*kernel)(const rvit_cpu_linear_tile *tile, float *scratch); /* NULL: CBLAS */
    rvit_cpu_linear_tile whole;                                       /* pointers at element 0 */
    int64_t rows, columns;                                            /* of the GEMM */
    int in_panels;                                                    /* the kernel takes weights in panels */
    /* A tile has a multiple of row_unit rows (groups) and of column_unit columns (panels), as evenly as possible. */
    int row_unit, column_unit;
    int64_t max_groups, max_panels; /* of a tile */
    int64_t row_tiles, column_tiles;
    /* Used if out_dtype is E4M3. */
    rvit_view saturated;
    float *out_scales, out_scale;
} linear_job;

static const void *elements(const void *base, int64_t index, rvit_dtype dtype)
{
    return base == NULL ? NULL : (const char *)base + index * rvit_cpu_size(dtype);
}

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* Where part i of n parts of `total` begins; parts are multiples of `unit`. */
static int64_t part_begin(int64_t total, int unit, int64_t n, int64_t i)
{
    const int64_t begin = divide_up(total, unit) * i / n * unit;
    return begin < total ? begin : total;
}

/* Computes the given rows and columns. */
static void compute_tile(const linear_job *job, int64_t row, int64_t rows, int64_t column, int64_t columns, float *scratch)
{
    rvit_cpu_linear_tile tile = job->whole;
    int64_t n_saturated = 0;
    tile.n_saturated = &n_saturated;
    tile.rows = (int)rows;
    tile.columns = (int)columns;
    tile.first_row = row;
    tile.x = elements(tile.x, row * tile.in_features, tile.dtype);
    tile.weight = elements(tile.weight, column * tile.in_features, tile.dtype);
    tile.x_scales = elements(tile.x_scales, row, RVIT_F32);
    tile.weight_scales = elements(tile.weight_scales, column, RVIT_F32);
    tile.bias = elements(tile.bias, column, RVIT_F32);
    const int64_t first = tile.gated ? column / 2 : column;
    tile.residual = elements(tile.residual, first, tile.out_dtype);
    tile.out = (char *)tile.out + (row * tile.out_features + first) * rvit_cpu_size(tile.out_dtype);
    if (job->kernel == NULL)
        rvit_cpu_cblas_linear(job->device->kernels, &tile, scratch);
    else
        job->kernel(&tile, scratch);
    rvit_cpu_add_saturated(job->saturated, n_saturated);
    for (int64_t i = 0; job->out_scales != NULL && column == 0 && i < rows; i++)
        job->out_scales[row + i] = job->out_scale;
}

static void linear_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    const linear_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row_tile = i / job->column_tiles, column_tile = i % job->column_tiles;
        const int64_t row = part_begin(job->rows, job->row_unit, job->row_tiles, row_tile);
        const int64_t column = part_begin(job->columns, job->column_unit, job->column_tiles, column_tile);
        compute_tile(job, row, part_begin(job->rows, job->row_unit, job->row_tiles, row_tile + 1) - row, column,
                     part_begin(job->columns, job->column_unit, job->column_tiles, column_tile + 1) - column,
                     rvit_cpu_scratch(job->device, thread));
    }
}

/* CBLAS gets one tile shape per op, whatever the batch size, so that it takes the same code path for every row. */
static void choose_cblas_tiles(linear_job *job)
{
    const int64_t parts = divide_up(job->columns, RVIT_CPU_LINEAR_COLUMNS);
    job->row_unit = RVIT_CPU_CBLAS_ROWS;
    job->column_unit = (int)divide_up(divide_up(job->columns, parts), 4) * 4;
    job->row_tiles = divide_up(job->rows, job->row_unit);
    job->column_tiles = divide_up(job->columns, job->column_unit);
}

static int64_t finish_clocks(const linear_job *job)
{
    return job->whole.activation == RVIT_CPU_NONE ? 300 : 600;
}

static int64_t steps_of(const linear_job *job)
{
    return divide_up(job->whole.in_features * rvit_cpu_size(job->whole.dtype), 64);
}

/* Estimated clocks of a core for a GEMM with panels: 42 per 16 rows x 32 columns x 64 bytes of k, more for an unpaired group; and the
   epilogue. */
static int64_t panel_clocks(const linear_job *job, int64_t rows, int64_t panels)
{
    const int64_t steps = steps_of(job), groups = divide_up(rows, job->row_unit);
    return panels * (groups * steps * 42 + rows * finish_clocks(job) / job->row_unit + (groups & 1) * steps * 15);
}

/* Estimated clocks of a task: the same, plus loading the weights from a far cache. The estimate for floats has the same form. */
static int64_t task_clocks(const linear_job *job, int64_t groups, int64_t panels)
{
    if (job->in_panels)
        return panel_clocks(job, groups * job->row_unit, panels) + panels * steps_of(job) * 64 + 2000;
    const int64_t depth = job->whole.in_features;
    return panels * (groups * (depth * job->device->kernels->step_clocks + finish_clocks(job)) + depth * job->column_unit / 4) + 2000;
}

/* Finds the split of rows and columns with which the last thread ends earliest. Threads are not equally fast, so the last one counts as
   one and a half tasks behind. Takes up to a few microseconds. */
static rvit_cpu_split best_split(const linear_job *job)
{
    const int64_t n_threads = rvit_cpu_pool_threads(job->device->pool);
    const int64_t groups = divide_up(job->rows, job->row_unit), panels = divide_up(job->columns, job->column_unit);
    const int64_t min_rows = divide_up(groups, job->max_groups), min_columns = divide_up(panels, job->max_panels);
    rvit_cpu_split best = {job->rows, job->columns, job->whole.in_features, job->whole.dtype, min_rows, min_columns, INT64_MAX};
    for (int64_t rows = min_rows; rows <= groups && rows <= min_rows + 2 * n_threads; rows++)
        for (int64_t rounds = 1; rounds <= 3; rounds++) {
            const int64_t wanted = divide_up(rounds * n_threads, rows), enough = wanted < panels ? wanted : panels;
            const int64_t columns = enough > min_columns ? enough : min_columns;
            const int64_t taken = divide_up(rows * columns, n_threads);
            const int64_t clocks = (2 * taken + 3) * task_clocks(job, divide_up(groups, rows), divide_up(panels, columns)) / 2;
            if (clocks < best.clocks) {
                best.clocks = clocks;
                best.row_tiles = rows;
                best.column_tiles = columns;
            }
        }
    return best;
}

/* Bytes of x that all columns of a task may read repeatedly. */
#define L2_SHARE (3 << 19)

/* The blocks of a model need the same few splits again and again. They do not affect the result of a row. */
static const rvit_cpu_split *split_of(rvit_cpu_device *device, const linear_job *job)
{
    for (int i = 0; i < RVIT_CPU_SPLITS; i++) {
        const rvit_cpu_split *split = &device->splits[i];
        if (split->rows == job->rows && split->columns == job->columns && split->in_features == job->whole.in_features &&
            split->dtype == job->whole.dtype)
            return split;
    }
    rvit_cpu_split *next = &device->splits[device->next_split++ % RVIT_CPU_SPLITS];
    *next = best_split(job);
    return next;
}

static void choose_units(const rvit_cpu_kernels *kernels, linear_job *job)
{
    if (job->in_panels) {
        job->row_unit = kernels->panel_rows;
        job->column_unit = RVIT_CPU_PANEL_COLUMNS;
        job->max_groups = L2_SHARE / (job->row_unit * job->whole.in_features * rvit_cpu_size(job->whole.dtype));
        job->max_groups = job->max_groups < 2 ? 2 : job->max_groups;
        job->max_panels = INT32_MAX;
    } else {
        job->row_unit = kernels->rows;
        job->column_unit = kernels->columns;
        job->max_groups = RVIT_CPU_LINEAR_ROWS / job->row_unit;
        job->max_panels = RVIT_CPU_LINEAR_COLUMNS / job->column_unit;
    }
}

static int has_panels(const rvit_cpu_device *device, const rvit_linear_args *a)
{
    const rvit_cpu_kernels *kernels = device->kernels;
    return a->in_features <= RVIT_CPU_PANEL_DEPTH &&
           ((a->dtype == RVIT_I8 && kernels->linear_panels_i8 != NULL) || (a->dtype == RVIT_BF16 && kernels->linear_panels_bf16 != NULL));
}

static linear_job job_of(const rvit_cpu_device *device, const rvit_linear_args *a, const rvit_op_hints *hints)
{
    const rvit_sigmoid sigmoid = rvit_sigmoid_of(a->activation);
    linear_job job = {
        .device = device,
        .whole =
            {
                .x = rvit_cpu_at(a->x),
                .weight = rvit_cpu_at(a->weight),
                .x_scales = rvit_cpu_at(a->x_scales),
                .weight_scales = rvit_cpu_at(a->weight_scales),
                .bias = rvit_cpu_at(a->bias),
                .residual = rvit_cpu_at(a->residual),
                .out = rvit_cpu_at(a->out),
                .in_features = a->in_features,
                .out_features = a->out_features,
                .residual_period = a->residual_period,
                .dtype = a->dtype,
                .out_dtype = a->out_dtype,
                .gated = a->gated,
                .arranged = hints->arranged,
                .activation = rvit_cpu_activation_of(a->activation),
                .slope = sigmoid.slope,
                .cubic = sigmoid.cubic,
            },
        .columns = rvit_linear_columns(a),
    };
    if (a->out_dtype == RVIT_E4M3) {
        const rvit_row_scale scale = rvit_row_scale_of(0.0f, rvit_cpu_at(a->static_scale), RVIT_E4M3);
        job.whole.inverse = scale.inverse;
        job.saturated = a->saturated;
        job.out_scales = rvit_cpu_at(a->out_scales);
        job.out_scale = scale.scale;
    }
    job.in_panels = has_panels(device, a);
    if (job.in_panels)
        job.kernel = a->dtype == RVIT_I8 ? device->kernels->linear_panels_i8 : device->kernels->linear_panels_bf16;
    else if (rvit_is_quantized(a->dtype))
        job.kernel = a->dtype == RVIT_I8 ? device->kernels->linear_i8 : device->kernels->linear_e4m3;
    else if (!device->use_cblas)
        job.kernel = device->kernels->linear;
    choose_units(device->kernels, &job);
    return job;
}

void rvit_cpu_linear(rvit_cpu_device *device, const rvit_linear_args *a)
{
    linear_job job = job_of(device, a, device->hints);
    job.rows = rvit_cpu_live_rows(&a->rows);
    if (job.rows == 0)
        return;
    if (job.kernel == NULL) {
        choose_cblas_tiles(&job);
    } else {
        const rvit_cpu_split *split = split_of(device, &job);
        job.row_tiles = split->row_tiles;
        job.column_tiles = split->column_tiles;
    }
    rvit_cpu_pool_run(device->pool, job.row_tiles * job.column_tiles, 1, linear_tiles, &job);
}

void rvit_cpu_linear_row_tile(rvit_cpu_device *device, const rvit_op *op, int64_t begin, int64_t end, int thread)
{
    const linear_job job = job_of(device, &op->linear, &op->hints);
    const int64_t panels = divide_up(job.columns, job.column_unit);
    const int64_t max = (panels < job.max_panels ? panels : job.max_panels) * job.column_unit;
    for (int64_t column = 0; column < job.columns; column += max)
        compute_tile(&job, begin, end - begin, column, job.columns - column < max ? job.columns - column : max,
                     rvit_cpu_scratch(device, thread));
}

int rvit_cpu_linear_is_tiled(const rvit_cpu_device *device, const rvit_linear_args *a)
{
    return has_panels(device, a) && device->kernels->panel_rows == RVIT_CPU_TILE_ROWS;
}

int64_t rvit_cpu_linear_row_tile_clocks(const rvit_cpu_device *device, const rvit_linear_args *a, int64_t rows)
{
    const linear_job job = job_of(device, a, &(rvit_op_hints){0});
    return panel_clocks(&job, rows, divide_up(job.columns, job.column_unit)) + 500;
}

int64_t rvit_cpu_linear_clocks(rvit_cpu_device *device, const rvit_linear_args *a, int64_t rows)
{
    linear_job job = job_of(device, a, &(rvit_op_hints){0});
    job.rows = rows;
    return split_of(device, &job)->clocks;
}

rvit_status rvit_cpu_arrange_weight(rvit_stream *stream, rvit_op *op)
{
    rvit_cpu_device *device = (rvit_cpu_device *)stream->device;
    const rvit_linear_args *a = &op->linear;
    const int panels = has_panels(device, a);
    if (device->oracle || (!panels && (device->use_cblas || rvit_is_quantized(a->dtype))))
        return RVIT_OK;
    rvit_mutex_lock(&device->lock);
    op->hints.arranged = (panels ? device->kernels->arrange_panels : device->kernels->arrange)(
        rvit_cpu_at(a->weight), rvit_linear_columns(a), a->in_features, a->dtype, rvit_cpu_scratch(device, 0));
    rvit_mutex_unlock(&device->lock);
    return RVIT_OK;
}
