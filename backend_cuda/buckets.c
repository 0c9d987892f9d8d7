/* GEMMs whose rows only the device counts. cuBLASLt needs the number of rows from the host. So a
   stretch of ops with the same rows is recorded for each of about 30 row counts (buckets), and a
   kernel chooses the bucket when the graph runs. The choice costs about 8 us on the H200. A row has
   the same bits in every bucket, because no GEMM splits its sums. */
#include "backend_cuda/cu.h"

#if CUDA_VERSION >= 13000
extern const unsigned long long rvit_cu_bucket_image[];

rvit_status rvit_cu_buckets_open(rvit_cu_device *device)
{
    const rvit_cu_driver *driver = device->driver;
    int version = 0;
    if (driver->cuDriverGetVersion(&version) != CUDA_SUCCESS || version < 12080 || driver->cuStreamGetCaptureInfo == NULL ||
        driver->cuStreamUpdateCaptureDependencies == NULL || driver->cuStreamBeginCaptureToGraph == NULL ||
        driver->cuGraphConditionalHandleCreate == NULL || driver->cuGraphAddNode == NULL)
        return RVIT_OK;
    CUresult result = driver->cuModuleLoadData(&device->bucket_module, rvit_cu_bucket_image);
    if (result != CUDA_SUCCESS)
        device->bucket_module = NULL;
    else
        result = driver->cuModuleGetFunction(&device->choose_bucket, device->bucket_module, "choose_bucket");
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return rvit_cu_fail(driver, result, "cuModuleLoadData");
    if (result != CUDA_SUCCESS) {
        device->choose_bucket = NULL;
        rvit_log(RVIT_LOG_INFO,
                 "cuda: graphs that choose a part of theirs do not work here (%d); GEMMs whose rows only the device "
                 "counts run on kernels of the library's own",
                 (int)result);
    }
    return RVIT_OK;
}

/* CUgraph, the nodes the next one follows, and their number, of a capture. */
static rvit_status captured(const rvit_cu_queue *queue, CUgraph *graph, const CUgraphNode **last, size_t *n_last)
{
    CUstreamCaptureStatus status;
    RVIT_CU_TRY(queue->device->driver, cuStreamGetCaptureInfo, (queue->stream, &status, NULL, graph, last, NULL, n_last));
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? RVIT_OK : rvit_fail(RVIT_INTERNAL, "cuda: the capture has ended too early");
}

static rvit_status record_branch(rvit_cu_queue *queue, const rvit_op *ops, int32_t n_ops, int32_t n_behind, CUgraph branch)
{
    const rvit_cu_driver *driver = queue->device->driver;
    RVIT_CU_TRY(driver, cuStreamBeginCaptureToGraph, (queue->stream, branch, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < n_ops && status == RVIT_OK; i++) {
        queue->behind = &ops[i + 1];
        queue->n_behind = n_ops - i - 1 + n_behind;
        status = rvit_cu_run(queue, &ops[i]);
    }
    CUgraph same = NULL;
    const CUresult result = driver->cuStreamEndCapture(queue->stream, &same);
    if (status == RVIT_OK && result != CUDA_SUCCESS)
        return rvit_cu_fail(driver, result, "cuStreamEndCapture");
    return status;
}

/* Branches are captured on a second stream while the queue's own stream captures the graph around them. */
static rvit_status record_branches(rvit_cu_queue *queue, const rvit_op *ops, int32_t n_ops, int32_t n_behind,
                                   const rvit_cu_bucket_params *buckets, CUgraph *branches)
{
    const rvit_cu_driver *driver = queue->device->driver;
    const CUstream main = queue->stream;
    const int64_t launches = queue->launches, copies = queue->copies;
    CUstream side = NULL;
    RVIT_CU_TRY(driver, cuStreamCreate, (&side, CU_STREAM_NON_BLOCKING));
    queue->stream = side;
    rvit_status status = RVIT_OK;
    for (int32_t b = 0; b < buckets->n_buckets && status == RVIT_OK; b++) {
        queue->launches = launches, queue->copies = copies; /* one of them runs */
        queue->bucket_rows = buckets->bucket_rows[b];
        queue->behind_own = 0;
        status = record_branch(queue, ops, n_ops, n_behind, branches[b]);
    }
    queue->bucket_rows = 0;
    queue->behind_own = 0;
    queue->stream = main;
    (void)driver->cuStreamDestroy(side);
    return status;
}

rvit_status rvit_cu_buckets_record(rvit_cu_queue *queue, const rvit_op *ops, int32_t n_ops, int32_t n_behind)
{
    const rvit_cu_driver *driver = queue->device->driver;
    const rvit_rows *rows = &ops[0].linear.rows;
    rvit_cu_bucket_params params = {.rows = rvit_cu_rows_of(rows)};
    params.n_buckets = rvit_cu_tile_buckets(rows->capacity, RVIT_CU_BUCKETS, params.bucket_rows);
    CUgraph graph = NULL;
    const CUgraphNode *last = NULL;
    size_t n_last = 0;
    CUgraphConditionalHandle handle = 0;
    RVIT_TRY(captured(queue, &graph, &last, &n_last));
    RVIT_CU_TRY(driver, cuGraphConditionalHandleCreate, (&handle, graph, queue->device->context, 0, 0));
    params.handle = handle;
    void *arguments[] = {&params};
    RVIT_CU_TRY(driver, cuLaunchKernel, (queue->device->choose_bucket, 1, 1, 1, 1, 1, 1, 0, queue->stream, arguments, NULL));
    queue->launches++;
    RVIT_TRY(captured(queue, &graph, &last, &n_last));
    CUgraphNodeParams node_params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    node_params.conditional.handle = handle;
    node_params.conditional.type = CU_GRAPH_COND_TYPE_SWITCH;
    node_params.conditional.size = (unsigned)params.n_buckets;
    node_params.conditional.ctx = queue->device->context;
    CUgraphNode node = NULL;
    RVIT_CU_TRY(driver, cuGraphAddNode, (&node, graph, last, NULL, n_last, &node_params));
    RVIT_TRY(record_branches(queue, ops, n_ops, n_behind, &params, node_params.conditional.phGraph_out));
    RVIT_CU_TRY(driver, cuStreamUpdateCaptureDependencies, (queue->stream, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    return RVIT_OK;
}
#else
rvit_status rvit_cu_buckets_open(rvit_cu_device *device)
{
    (void)device;
    return RVIT_OK;
}

rvit_status rvit_cu_buckets_record(rvit_cu_queue *queue, const rvit_op *ops, int32_t n_ops, int32_t n_behind)
{
    (void)queue, (void)ops, (void)n_ops, (void)n_behind;
    return rvit_fail(RVIT_INTERNAL, "cuda: built without graphs that choose a part of theirs");
}
#endif

/* Whether a bucket could be worth it: cuBLASLt might make it, and the kernel of warpgroups is not as fast without. */
static int counts_on_device(const rvit_cu_queue *queue, const rvit_op *op)
{
    return op->type == RVIT_OP_LINEAR && op->linear.rows.live.buffer != NULL && op->hints.spare_rows && op->linear.dtype != RVIT_F32 &&
           !op->linear.gated &&
           !(rvit_cu_tile_spares_buckets(&queue->device->machine, op->linear.rows.capacity) && rvit_cu_hopper_serves(queue, &op->linear));
}

static int same_rows(const rvit_rows *a, const rvit_rows *b)
{
    return a->live.buffer == b->live.buffer && a->live.offset == b->live.offset && a->capacity == b->capacity;
}

void rvit_cu_buckets_find(const rvit_cu_queue *queue, const rvit_op *ops, int32_t n_ops, int32_t first, int32_t *out_first,
                          int32_t *out_end)
{
    *out_first = *out_end = n_ops;
    const double least = (double)queue->device->machine.bucket_macs;
    if (queue->device->choose_bucket == NULL || least == 0.0)
        return;
    for (int32_t begin = first; begin < n_ops; begin++) {
        if (!counts_on_device(queue, &ops[begin]))
            continue;
        const rvit_rows *rows = &ops[begin].linear.rows;
        double macs = 0.0; /* if every row is live */
        int32_t end = begin;
        for (int32_t i = begin; i < n_ops && !ops[i].by_launch && !rvit_cu_writes(&ops[i], rows->live, sizeof(int32_t)); i++) {
            if (!counts_on_device(queue, &ops[i]))
                continue;
            const rvit_linear_args *linear = &ops[i].linear;
            if (!same_rows(&linear->rows, rows))
                break;
            macs += (double)rows->capacity * linear->in_features * linear->out_features;
            end = i + 1;
        }
        if (macs >= least) {
            *out_first = begin;
            *out_end = end;
            return;
        }
        begin = end - 1;
    }
}

rvit_status rvit_cu_buckets_reserve(rvit_cu_queue *queue, const rvit_op *ops, int32_t n_ops, int *out_usable)
{
    int32_t rows[RVIT_CU_BUCKETS];
    const int32_t n = rvit_cu_tile_buckets(ops[0].linear.rows.capacity, RVIT_CU_BUCKETS, rows);
    rvit_status status = RVIT_OK;
    int worth = 0;
    *out_usable = 1;
    for (int32_t i = 0; i < n_ops && status == RVIT_OK; i++) {
        int taken = 0, refused = 0;
        if (!counts_on_device(queue, &ops[i]))
            continue;
        for (int32_t b = 0; b < n && status == RVIT_OK; b++) {
            const rvit_cu_lt_gemm *gemm = NULL;
            queue->bucket_rows = rows[b];
            queue->hints = ops[i].hints;
            if (rvit_cu_hopper_serves(queue, &ops[i].linear)) /* by capacity: in every bucket */
                continue;
            status = rvit_cu_lt_prepare(queue, &ops[i].linear, &gemm);
            *(gemm != NULL ? &taken : &refused) = 1;
        }
        if (taken && refused)
            *out_usable = 0;
        worth |= taken;
    }
    *out_usable &= worth;
    queue->bucket_rows = 0;
    return status;
}
