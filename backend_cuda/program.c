/* Programs: ops captured once into a CUDA graph. */
#include "backend_cuda/cu.h"

/* Captures an op with by_launch, whose kernel is updated by each launch. */
static rvit_status run_node(rvit_cu_program *program, const rvit_op *op)
{
    rvit_cu_queue *queue = &program->queue;
    if (program->n_nodes == RVIT_CU_MAX_NODES)
        return rvit_fail(RVIT_INTERNAL, "cuda: a program has more than %d ops that launches update", RVIT_CU_MAX_NODES);
    queue->node = &program->nodes[program->n_nodes++];
    rvit_status status = rvit_cu_run(queue, op);
    if (status == RVIT_OK)
        status = rvit_cu_node_find(queue, queue->node);
    queue->node = NULL;
    return status;
}

/* Launches the ops on the queue's stream, which is capturing. */
static rvit_status run_ops(rvit_cu_program *program, const rvit_op *ops, int32_t n_ops)
{
    rvit_cu_queue *queue = &program->queue;
    for (int32_t i = 0; i < n_ops; i++) {
        queue->next_ops = &ops[i + 1];
        queue->n_next_ops = n_ops - i - 1;
        RVIT_TRY(ops[i].by_launch ? run_node(program, &ops[i]) : rvit_cu_run(queue, &ops[i]));
    }
    return RVIT_OK;
}

static rvit_status capture(rvit_cu_program *program, const rvit_op *ops, int32_t n_ops)
{
    rvit_cu_queue *queue = &program->queue;
    const rvit_cu_driver *driver = queue->device->driver;
    for (int32_t i = 0; i < n_ops; i++)
        RVIT_TRY(rvit_cu_reserve(queue, &ops[i]));
    /* The scratch memory must be zeroed before the first launch, which may be on another stream. */
    RVIT_CU_TRY(driver, cuStreamSynchronize, (queue->stream));
    /* Relaxed, because the first launch of a kernel may load it, here or in other threads. */
    RVIT_CU_TRY(driver, cuStreamBeginCapture, (queue->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    queue->capturing = 1;
    queue->after_own_kernel = 0;
    queue->ops = ops;
    queue->n_ops = n_ops;
    const rvit_status status = run_ops(program, ops, n_ops);
    queue->capturing = 0;
    queue->n_ops = 0;
    CUgraph graph = NULL;
    CUresult result = driver->cuStreamEndCapture(queue->stream, &graph);
    if (status != RVIT_OK) {
        if (graph != NULL)
            (void)driver->cuGraphDestroy(graph);
        return status;
    }
    if (result != CUDA_SUCCESS)
        return rvit_cu_fail(driver, result, "cuStreamEndCapture");
    result = driver->cuGraphInstantiateWithFlags(&program->graph, graph, 0);
    if (program->n_nodes > 0)
        program->source = graph;
    else
        (void)driver->cuGraphDestroy(graph);
    if (result != CUDA_SUCCESS) {
        program->graph = NULL;
        return rvit_cu_fail(driver, result, "cuGraphInstantiateWithFlags");
    }
    /* Upload now, so that the first launch is as fast as the others. */
    RVIT_CU_TRY(driver, cuGraphUpload, (program->graph, queue->stream));
    RVIT_CU_TRY(driver, cuStreamSynchronize, (queue->stream));
    return RVIT_OK;
}

static void close_program(rvit_cu_program *program)
{
    const rvit_cu_driver *driver = program->queue.device->driver;
    if (program->graph != NULL)
        (void)driver->cuGraphExecDestroy(program->graph);
    if (program->source != NULL)
        (void)driver->cuGraphDestroy(program->source);
    rvit_cu_queue_close(&program->queue);
    if (program->queue.stream != NULL)
        (void)driver->cuStreamDestroy(program->queue.stream);
}

static rvit_status open_program(rvit_cu_program *program, const rvit_op *ops, int32_t n_ops)
{
    const rvit_cu_driver *driver = program->queue.device->driver;
    RVIT_CU_TRY(driver, cuStreamCreate, (&program->queue.stream, CU_STREAM_NON_BLOCKING));
    return capture(program, ops, n_ops);
}

rvit_status rvit_cu_program_create(rvit_device *base, const rvit_op *ops, int32_t n_ops, rvit_program **out_program)
{
    rvit_cu_device *device = rvit_cu_device_of(base);
    rvit_cu_program *program = rvit_alloc_new(&base->alloc, sizeof *program);
    RVIT_TRY_MEMORY(program);
    program->queue.device = device;
    program->queue.records = 1;
    rvit_mutex_init(&program->lock);
    int entered = 0;
    rvit_status status = rvit_cu_enter(device, &entered);
    if (status == RVIT_OK) {
        status = open_program(program, ops, n_ops);
        if (status != RVIT_OK)
            close_program(program);
        rvit_cu_leave(device, entered);
    }
    if (status != RVIT_OK) {
        rvit_mutex_destroy(&program->lock);
        rvit_alloc_free(&base->alloc, program);
        return status;
    }
    *out_program = &program->base;
    return RVIT_OK;
}

void rvit_cu_program_destroy(rvit_program *base)
{
    rvit_cu_program *program = (rvit_cu_program *)base;
    int entered = 0;
    if (rvit_cu_enter(program->queue.device, &entered) == RVIT_OK) {
        close_program(program);
        rvit_cu_leave(program->queue.device, entered);
    } else {
        rvit_cu_lt_forget(&program->queue);
    }
    rvit_mutex_destroy(&program->lock);
    rvit_alloc_free(&base->device->alloc, program);
}

/* Needs the lock, and the context to be current. */
static rvit_status launch(rvit_cu_program *program, const rvit_op *ops, CUstream stream)
{
    rvit_cu_queue *queue = &program->queue;
    rvit_status status = RVIT_OK;
    queue->changed = program->graph;
    for (int32_t i = 0; i < program->n_nodes && status == RVIT_OK; i++) {
        queue->node = &program->nodes[i];
        status = rvit_cu_run(queue, &ops[i]);
    }
    queue->changed = NULL;
    queue->node = NULL;
    RVIT_TRY(status);
    RVIT_CU_TRY(queue->device->driver, cuGraphLaunch, (program->graph, stream));
    return RVIT_OK;
}

rvit_status rvit_cu_program_launch(rvit_program *base, rvit_stream *base_stream, const rvit_op *ops)
{
    rvit_cu_program *program = (rvit_cu_program *)base;
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(program->queue.device, &entered));
    rvit_mutex_lock(&program->lock);
    const rvit_status status = launch(program, ops, ((rvit_cu_stream *)base_stream)->queue.stream);
    rvit_mutex_unlock(&program->lock);
    rvit_cu_leave(program->queue.device, entered);
    RVIT_TRY(status);
    base_stream->stats.launches += program->queue.launches;
    base_stream->stats.copies += program->queue.copies;
    base_stream->stats.submits++;
    return RVIT_OK;
}
