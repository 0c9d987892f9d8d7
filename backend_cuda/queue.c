/* Queues: launching kernels, and the memory that ops need between them. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_launch_grid(rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params)
{
    void *arguments[] = {params};
    const rvit_cu_driver *driver = queue->device->driver;
    if (queue->device->machine.early && queue->capturing && queue->behind_own) {
        /* Before the kernel before it, also the backend's, ends. Each waits for the one before, and so for all. */
        CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        early.value.programmaticStreamSerializationAllowed = 1;
        const CUlaunchConfig config = {
            .gridDimX = grid.x,
            .gridDimY = grid.y,
            .gridDimZ = grid.z,
            .blockDimX = (unsigned)threads,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = (unsigned)shared,
            .hStream = queue->stream,
            .attrs = &early,
            .numAttrs = 1,
        };
        RVIT_CU_TRY(driver, cuLaunchKernelEx, (&config, queue->device->kernels[kernel], arguments, NULL));
    } else {
        RVIT_CU_TRY(driver, cuLaunchKernel,
                    (queue->device->kernels[kernel], grid.x, grid.y, grid.z, (unsigned)threads, 1, 1, (unsigned)shared, queue->stream,
                     arguments, NULL));
    }
    queue->behind_own = 1;
    queue->launches++;
    return RVIT_OK;
}

rvit_status rvit_cu_launch(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t ctas, int32_t threads, int32_t shared, void *params)
{
    return rvit_cu_launch_grid(queue, kernel, (rvit_cu_grid){(unsigned)ctas, 1, 1}, threads, shared, params);
}

rvit_status rvit_cu_scratch_reserve(rvit_cu_queue *queue, rvit_cu_scratch *scratch, size_t size)
{
    if (scratch->size >= size)
        return RVIT_OK;
    const rvit_cu_driver *driver = queue->device->driver;
    if (queue->capturing)
        return rvit_fail(RVIT_INTERNAL, "cuda: an op needs %zu bytes that were not reserved before the capture", size);
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    RVIT_CU_TRY(driver, cuStreamIsCapturing, (queue->stream, &capture));
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE) /* the memory would be zeroed by the graph, each time, and not now */
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "cuda: the stream captures a graph, and the op needs %zu bytes of working memory, more than it has: run it "
                         "once before the capture",
                         size);
    size_t rounded = 4096;
    while (rounded < size)
        rounded *= 2;
    CUdeviceptr pointer = 0;
    RVIT_CU_TRY(driver, cuMemAlloc, (&pointer, rounded));
    CUresult result = driver->cuMemsetD8Async(pointer, 0, rounded, queue->stream);
    if (result == CUDA_SUCCESS && scratch->pointer != 0) {
        result = driver->cuStreamSynchronize(queue->stream);
        queue->synchronizations++;
    }
    if (result != CUDA_SUCCESS) {
        (void)driver->cuMemFree(pointer);
        return rvit_cu_fail(driver, result, "cuMemsetD8Async");
    }
    atomic_fetch_add(&queue->device->base.device_allocations, 1);
    atomic_fetch_add(&queue->device->base.working_size, (long long)rounded - (long long)scratch->size);
    if (scratch->pointer != 0)
        (void)driver->cuMemFree(scratch->pointer);
    scratch->pointer = pointer;
    scratch->size = rounded;
    return RVIT_OK;
}

void rvit_cu_queue_close(rvit_cu_queue *queue)
{
    rvit_cu_lt_forget(queue);
    const rvit_cu_scratch *const all[] = {&queue->layout, &queue->sorted, &queue->workspace};
    for (int i = 0; i < 3; i++) {
        atomic_fetch_sub(&queue->device->base.working_size, (long long)all[i]->size);
        if (all[i]->pointer != 0)
            (void)queue->device->driver->cuMemFree(all[i]->pointer);
    }
}

int rvit_cu_writes(const rvit_op *op, rvit_view view, int64_t size)
{
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    const uintptr_t first = (uintptr_t)rvit_cu_at(view);
    for (int i = 0; i < n && first != 0; i++) {
        const uintptr_t written = (uintptr_t)rvit_cu_at(accesses[i].view);
        if (accesses[i].writes && written != 0 && first < written + (uintptr_t)accesses[i].size && written < first + (uintptr_t)size)
            return 1;
    }
    return 0;
}

rvit_status rvit_cu_reserve(rvit_cu_queue *queue, const rvit_op *op)
{
    const rvit_cu_lt_plan *plan;
    switch (op->type) {
    case RVIT_OP_SELECT:
        return rvit_cu_select_reserve(queue, &op->select);
    case RVIT_OP_MATCH:
        return rvit_cu_match_reserve(queue, &op->match);
    case RVIT_OP_LINEAR:
        return rvit_cu_lt_prepare(queue, &op->linear, &plan);
    default:
        return RVIT_OK;
    }
}

rvit_status rvit_cu_run(rvit_cu_queue *queue, const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_COPY:
        return rvit_cu_copy(queue, &op->copy);
    case RVIT_OP_PATCHIFY:
        return rvit_cu_patchify(queue, &op->patchify);
    case RVIT_OP_LINEAR:
        return rvit_cu_linear(queue, &op->linear);
    case RVIT_OP_LAYERNORM:
        return rvit_cu_layernorm(queue, &op->layernorm);
    case RVIT_OP_ATTENTION:
        return rvit_cu_attention(queue, &op->attention);
    case RVIT_OP_SELECT:
        return rvit_cu_select(queue, &op->select);
    case RVIT_OP_MEAN:
        return rvit_cu_mean(queue, &op->mean);
    case RVIT_OP_MATCH:
        return rvit_cu_match(queue, &op->match);
    case RVIT_OP_MERGE:
        return rvit_cu_merge(queue, &op->merge);
    case RVIT_OP_PACK:
        return rvit_cu_pack(queue, &op->pack);
    case RVIT_OP_UNPACK:
        return rvit_cu_unpack(queue, &op->unpack);
    case RVIT_OP_HEAD:
        return rvit_cu_head(queue, &op->head);
    case RVIT_OP_COUNT:
        break;
    }
    return rvit_fail(RVIT_INTERNAL, "cuda: an op of type %d", (int)op->type);
}
