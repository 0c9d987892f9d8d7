/* Op fusion over rows: runs of ops in which each op makes a row from the same row of the earlier ops' outputs (proj, norm, fc1, fc2,
   norm). A thread takes a tile of rows through all of them. The rows stay in its cache, intermediate results need not go to memory, and
   the threads synchronise once instead of after every op. The result of a row is the same as without fusion. */
#include "backend_cpu/cpu.h"

static const rvit_rows *rows_of(const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_LINEAR:
        return &op->linear.rows;
    case RVIT_OP_LAYERNORM:
        return op->layernorm.src_rows.buffer == NULL && op->layernorm.x_rows >= op->layernorm.rows.capacity ? &op->layernorm.rows : NULL;
    case RVIT_OP_QUANTIZE:
        return &op->quantize.rows;
    default:
        return NULL;
    }
}

static int same_rows(const rvit_rows *a, const rvit_rows *b)
{
    return a->capacity == b->capacity && a->live.buffer == b->live.buffer && (a->live.buffer == NULL || a->live.offset == b->live.offset);
}

/* Two external buffers may share memory. */
static int overlap(const rvit_access *a, const rvit_access *b)
{
    if (a->view.buffer == NULL || b->view.buffer == NULL)
        return 0;
    if (a->view.buffer != b->view.buffer)
        return a->view.buffer->wrapped && b->view.buffer->wrapped;
    return rvit_ranges_overlap(a->view.offset, a->size, b->view.offset, b->size);
}

/* Whether two arrays of ops over the same rows store each row at the same address. */
static int same_array(const rvit_access *a, const rvit_access *b)
{
    return !a->live && !b->live && a->view.buffer == b->view.buffer && a->view.offset == b->view.offset && a->size == b->size;
}

/* Whether row tiles of two ops are independent: arrays that overlap are identical or only read. */
static int row_tiles_are_disjoint(const rvit_op *first, const rvit_op *second)
{
    rvit_access a[RVIT_OP_MAX_ACCESSES], b[RVIT_OP_MAX_ACCESSES];
    const int n_a = rvit_op_accesses(first, a), n_b = rvit_op_accesses(second, b);
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++)
            if ((a[i].writes || b[j].writes) && overlap(&a[i], &b[j]) && !same_array(&a[i], &b[j])) {
                /* The layout is written before the row tiles begin. */
                if (first->type != RVIT_OP_PATCHIFY || i != RVIT_SLOT(patchify, cu_seqlens) || !b[j].live)
                    return 0;
            }
    return 1;
}

/* A view that is an op's output or its input from the previous op, and the bytes of a row. */
typedef struct passed {
    rvit_view *view;
    int64_t row_size;
} passed;

static passed output_of(rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_PATCHIFY:
        return (passed){&op->patchify.out, op->patchify.out_stride * rvit_cpu_size(op->patchify.dtype)};
    case RVIT_OP_LINEAR:
        return (passed){&op->linear.out, op->linear.out_features * rvit_cpu_size(op->linear.out_dtype)};
    default:
        return (passed){&op->quantize.out, op->quantize.columns * rvit_cpu_size(op->quantize.out_dtype)};
    }
}

static passed input_of(rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_LINEAR:
        return (passed){&op->linear.x, op->linear.in_features * rvit_cpu_size(op->linear.dtype)};
    case RVIT_OP_LAYERNORM:
        return (passed){&op->layernorm.x, op->layernorm.dim * rvit_cpu_size(op->layernorm.dtype)};
    default:
        return (passed){&op->quantize.x, rvit_quantize_width(&op->quantize) * rvit_cpu_size(op->quantize.dtype)};
    }
}

/* Whether op i + 1 is the only op of the run that uses the output of op i. */
static int passes(const rvit_op *ops, int32_t n, int32_t i)
{
    rvit_op op = ops[i], next = ops[i + 1];
    const passed out = output_of(&op), in = input_of(&next);
    if (!ops[i].passes_on || out.view->buffer != in.view->buffer || out.view->offset != in.view->offset || out.row_size != in.row_size)
        return 0;
    const rvit_access array = {.view = *out.view, .size = out.row_size * rows_of(&ops[i + 1])->capacity};
    for (int32_t k = 0; k < n; k++) {
        rvit_access accesses[RVIT_OP_MAX_ACCESSES];
        const int n_accesses = rvit_op_accesses(&ops[k], accesses);
        int uses = 0;
        for (int j = 0; j < n_accesses; j++)
            uses += overlap(&array, &accesses[j]);
        if (uses != (k == i || k == i + 1))
            return 0;
    }
    return 1;
}

/* Whether op n can be fused with the ops before it. */
static int joins(const rvit_op *ops, int32_t n, const rvit_rows *rows)
{
    const rvit_rows *own = rows_of(&ops[n]);
    int good = own != NULL && same_rows(rows, own) && !ops[n].by_launch;
    for (int32_t i = 0; i < n && good; i++)
        good = row_tiles_are_disjoint(&ops[i], &ops[n]);
    return good;
}

rvit_cpu_fused rvit_cpu_find_fused(const rvit_cpu_device *device, const rvit_op *ops, int32_t n_ops)
{
    rvit_cpu_fused fused = {.length = 1, .rows = -1};
    const int patches = ops[0].type == RVIT_OP_PATCHIFY;
    if (device->oracle || device->use_cblas || ops[0].by_launch || n_ops < 2)
        return fused;
    const rvit_rows *rows = rows_of(&ops[patches]);
    if (rows == NULL || (patches && rvit_cpu_patchify_rows(&ops[0].patchify) != rows->capacity))
        return fused;
    while (fused.length < n_ops && fused.length < RVIT_CPU_MAX_FUSED_OPS && joins(ops, fused.length, rows))
        fused.length++;
    for (int32_t i = 0; i < fused.length; i++)
        if (ops[i].type == RVIT_OP_LINEAR)
            fused.weights += (int64_t)rvit_linear_columns(&ops[i].linear) * ops[i].linear.in_features * rvit_cpu_size(ops[i].linear.dtype);
    for (int32_t i = 0; i + 1 < fused.length; i++)
        fused.passing |= (uint32_t)passes(ops, fused.length, i) << i;
    return fused;
}

/* When fusion is faster, and with how many rows per tile: measured on a Xeon with AMX, 2 and 16 threads (bench/notes/cpu.md). */

/* Up to this many bytes of weights stay in the L2 cache from tile to tile. */
#define L2_WEIGHTS (3 << 19)
/* For such weights a cost model decides, in clocks of one thread: waiting for a parallel region costs REGION_CLOCKS per thread, and
   L2_BYTES bytes per clock move between the L2 cache and the next cache level. */
#define REGION_CLOCKS 3000
#define L2_BYTES 8
#define MAX_TILE_ROWS 128    /* of a tile */
#define MAX_ROWS_ONE_TILE 48 /* per thread, with one tile each */
/* Larger weights are loaded again for every tile, so tiles have 64 rows. They have 32 if weights nearly fit and there are few rows for many
   threads, because larger tiles would not divide the rows evenly. Outside these bounds fusion was slower or was not measured. */
#define MAX_WEIGHTS (4 << 20)
#define NEARLY_L2_WEIGHTS (2 << 20)
#define MIN_ROWS_PER_THREAD 64
#define FEW_ROWS_PER_THREAD 128
#define MAX_ROWS_PER_THREAD 1024
#define MANY_THREADS 8

/* Bytes per row that an op reads and writes. */
static int64_t row_bytes(const rvit_op *op, int64_t capacity)
{
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (accesses[i].view.buffer != NULL && (op->type != RVIT_OP_LINEAR || i != RVIT_SLOT(linear, weight)))
            bytes += accesses[i].size / capacity;
    return bytes;
}

/* Updates *best and *fewest if this tile size takes fewer clocks. */
static void try_tile_rows(rvit_cpu_device *device, const rvit_op *ops, const rvit_cpu_fused *fused, int64_t rows, int64_t tile_rows,
                          int64_t *best, int64_t *fewest)
{
    const int64_t n_threads = rvit_cpu_pool_threads(device->pool);
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows, tiles_per_thread = (row_tiles + n_threads - 1) / n_threads;
    int64_t gemm_clocks = 0;
    for (int32_t i = 0; i < fused->length; i++)
        if (ops[i].type == RVIT_OP_LINEAR)
            gemm_clocks += rvit_cpu_linear_row_tile_clocks(device, &ops[i].linear, tile_rows < rows ? tile_rows : rows);
    const int64_t clocks = n_threads * REGION_CLOCKS + fused->weights / L2_BYTES + (2 * tiles_per_thread + 1) * gemm_clocks / 2;
    if (clocks < *fewest) {
        *fewest = clocks;
        *best = tile_rows;
    }
}

/* Without fusion each thread reads some columns of each weight, and each op is a parallel region. With fusion each thread reads all
   weights once per tile, and the last thread ends half a tile after the others. */
static int64_t tile_rows_in_l2(rvit_cpu_device *device, const rvit_op *ops, const rvit_cpu_fused *fused, int64_t rows)
{
    const int64_t n_threads = rvit_cpu_pool_threads(device->pool), capacity = rows_of(&ops[fused->length - 1])->capacity;
    int64_t best = 0, fewest = fused->weights / n_threads / L2_BYTES;
    for (int32_t i = 0; i < fused->length; i++) {
        fewest += n_threads * REGION_CLOCKS + rows * row_bytes(&ops[i], capacity) / n_threads / L2_BYTES;
        if (ops[i].type == RVIT_OP_LINEAR)
            fewest += rvit_cpu_linear_clocks(device, &ops[i].linear, rows);
    }
    for (int64_t tile_rows = RVIT_CPU_TILE_ROWS; tile_rows <= MAX_TILE_ROWS; tile_rows += RVIT_CPU_TILE_ROWS)
        try_tile_rows(device, ops, fused, rows, tile_rows, &best, &fewest);
    /* Also try one tile per thread if that is not many rows. Its register tiles are not full, but no thread has two tiles while others
       have one. With many threads the slowest one then takes longer (0.91 to 0.97 of the speed with 16). */
    const int64_t each = (rows + n_threads - 1) / n_threads;
    if (n_threads < MANY_THREADS && each > RVIT_CPU_TILE_ROWS && each <= MAX_ROWS_ONE_TILE)
        try_tile_rows(device, ops, fused, rows, each, &best, &fewest);
    return best;
}

static int64_t tile_rows_beyond_l2(int64_t n_threads, int64_t rows, int64_t weights)
{
    if (weights > MAX_WEIGHTS || rows < n_threads * MIN_ROWS_PER_THREAD || rows > n_threads * MAX_ROWS_PER_THREAD)
        return 0;
    return weights <= NEARLY_L2_WEIGHTS && n_threads >= MANY_THREADS && rows <= n_threads * FEW_ROWS_PER_THREAD ? 32 : 64;
}

int64_t rvit_cpu_choose_tile_rows(rvit_cpu_device *device, const rvit_op *ops, const rvit_cpu_fused *fused, int64_t rows)
{
    const int64_t n_threads = rvit_cpu_pool_threads(device->pool);
    if (n_threads == 1)
        return 0; /* there are no threads to wait for; not measured */
    for (int32_t i = 0; i < fused->length; i++)
        if (ops[i].type == RVIT_OP_LINEAR && !rvit_cpu_linear_is_tiled(device, &ops[i].linear))
            return 0;
    if (fused->weights <= L2_WEIGHTS)
        return tile_rows_in_l2(device, ops, fused, rows);
    return fused->length > 2 ? tile_rows_beyond_l2(n_threads, rows, fused->weights) : 0;
}

typedef struct fused_job {
    rvit_cpu_device *device;
    const rvit_op *ops;
    const rvit_cpu_fused *fused;
    int in_slots; /* arrays have room for one row tile per thread */
} fused_job;

static void run_row_tile(rvit_cpu_device *device, const rvit_op *op, int64_t begin, int64_t end, int thread)
{
    switch (op->type) {
    case RVIT_OP_PATCHIFY:
        rvit_cpu_patchify_row_tile(device, &op->patchify, begin, end, thread);
        break;
    case RVIT_OP_LINEAR:
        rvit_cpu_linear_row_tile(device, op, begin, end, thread);
        break;
    case RVIT_OP_LAYERNORM:
        rvit_cpu_layernorm_row_tile(device, &op->layernorm, begin, end, thread);
        break;
    default:
        rvit_cpu_quantize_row_tile(device, &op->quantize, begin, end, thread);
        break;
    }
}

static void run_row_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    const fused_job *job = context;
    const rvit_cpu_fused *fused = job->fused;
    const uint32_t passing = job->in_slots ? fused->passing : 0;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * fused->tile_rows, last = first + fused->tile_rows < fused->rows ? first + fused->tile_rows : fused->rows;
        const int64_t moved = thread * fused->tile_rows - first; /* in rows: from the tile's position in an array to the thread's slot */
        for (int32_t k = 0; k < fused->length; k++) {
            rvit_op op = job->ops[k];
            if (passing >> k & 1)
                output_of(&op).view->offset += moved * output_of(&op).row_size;
            if (k > 0 && passing >> (k - 1) & 1)
                input_of(&op).view->offset += moved * input_of(&op).row_size;
            run_row_tile(job->device, &op, first, last, thread);
        }
    }
}

void rvit_cpu_run_fused(rvit_cpu_device *device, const rvit_op *ops, rvit_cpu_fused *fused)
{
    const int patches = ops[0].type == RVIT_OP_PATCHIFY;
    const int64_t patch_rows = patches ? rvit_cpu_patchify_layout(&ops[0].patchify) : 0;
    const rvit_rows *of_all = rows_of(&ops[patches]);
    const int64_t rows = rvit_cpu_live_rows(of_all);
    if (fused->rows != rows) {
        fused->rows = rows;
        fused->tile_rows = device->tile_rows > 0 || rows == 0 ? device->tile_rows : rvit_cpu_choose_tile_rows(device, ops, fused, rows);
    }
    if (fused->tile_rows == 0 || (patches && patch_rows != rows)) {
        for (int32_t i = 0; i < fused->length; i++)
            rvit_cpu_run_op(device, &ops[i]);
        return;
    }
    fused_job job = {.device = device, .ops = ops, .fused = fused};
    job.in_slots = rvit_cpu_pool_threads(device->pool) * fused->tile_rows <= of_all->capacity;
    rvit_cpu_pool_run(device->pool, (rows + fused->tile_rows - 1) / fused->tile_rows, 1, run_row_tiles, &job);
}
