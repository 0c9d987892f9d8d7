/* Queues: kernel launches and the scratch memory of ops. */
#include "backend_cuda/cu.h"

static rvit_status launch(rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t cluster, int32_t threads, int32_t shared,
                          void *params)
{
    if (queue->changed != NULL)
        return rvit_cu_node_change(queue, kernel, grid, threads, shared, params);
    void *arguments[] = {params};
    const rvit_cu_driver *driver = queue->device->driver;
    CUlaunchAttribute attributes[2];
    unsigned n = 0;
    if (queue->device->machine.early && queue->capturing && queue->after_own_kernel) {
        /* May start before the previous kernel of the backend ends. Each kernel waits for the one before it, so it waits for all. */
        attributes[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        attributes[n++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        attributes[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
        attributes[n].value.clusterDim.x = (unsigned)cluster;
        attributes[n].value.clusterDim.y = attributes[n].value.clusterDim.z = 1;
        n++;
    }
    if (n > 0) {
        const CUlaunchConfig config = {
            .gridDimX = grid.x,
            .gridDimY = grid.y,
            .gridDimZ = grid.z,
            .blockDimX = (unsigned)threads,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = (unsigned)shared,
            .hStream = queue->stream,
            .attrs = attributes,
            .numAttrs = n,
        };
        RVIT_CU_TRY(driver, cuLaunchKernelEx, (&config, queue->device->kernels[kernel], arguments, NULL));
    } else {
        RVIT_CU_TRY(driver, cuLaunchKernel,
                    (queue->device->kernels[kernel], grid.x, grid.y, grid.z, (unsigned)threads, 1, 1, (unsigned)shared, queue->stream,
                     arguments, NULL));
    }
    if (queue->node != NULL)
        rvit_cu_node_keep(queue->node, kernel, grid, params);
    queue->after_own_kernel = 1;
    queue->launches++;
    return RVIT_OK;
}

rvit_status rvit_cu_launch_grid(rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params)
{
    return launch(queue, kernel, grid, 1, threads, shared, params);
}

rvit_status rvit_cu_launch_clusters(rvit_cu_queue *queue, rvit_cu_kernel kernel, int32_t ctas, int32_t cluster, int32_t threads,
                                    int32_t shared, void *params)
{
    return launch(queue, kernel, (rvit_cu_grid){(unsigned)ctas, 1, 1}, cluster, threads, shared, params);
}

rvit_status rvit_cu_launch(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t ctas, int32_t threads, int32_t shared, void *params)
{
    return rvit_cu_launch_grid(queue, kernel, (rvit_cu_grid){(unsigned)ctas, 1, 1}, threads, shared, params);
}

rvit_status rvit_cu_launch_rows(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t rows, void *params)
{
    const rvit_cu_machine *machine = &queue->device->machine;
    const int32_t warps = rows <= 4 * (int64_t)machine->n_sms ? 2 : 8;
    return rvit_cu_launch(queue, kernel, rvit_cu_tile_ctas(machine, rows, warps, 8), warps * 32, 0, params);
}

rvit_status rvit_cu_launch_images(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t n_images, int32_t n_heads, int32_t row_blocks,
                                  int32_t threads, int32_t shared, int32_t *first_image, void *params)
{
    for (int64_t first = 0; first < n_images; first += RVIT_CU_MAX_GRID_Z) {
        const int64_t left = n_images - first, n = left < RVIT_CU_MAX_GRID_Z ? left : RVIT_CU_MAX_GRID_Z;
        const rvit_cu_grid grid = {(unsigned)row_blocks, (unsigned)n_heads, (unsigned)n};
        *first_image = (int32_t)first;
        RVIT_TRY(rvit_cu_launch_grid(queue, kernel, grid, threads, shared, params));
    }
    return RVIT_OK;
}

rvit_status rvit_cu_scratch_reserve(rvit_cu_queue *queue, rvit_cu_scratch *scratch, size_t size)
{
    if (scratch->size >= size)
        return RVIT_OK;
    const rvit_cu_driver *driver = queue->device->driver;
    if (queue->capturing)
        return rvit_fail(RVIT_INTERNAL, "cuda: an op needs %zu bytes of scratch memory that were not reserved before the capture", size);
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    RVIT_CU_TRY(driver, cuStreamIsCapturing, (queue->stream, &capture));
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE) /* the graph would zero the memory at each launch, and not now */
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "cuda: the stream is capturing, and the op needs %zu bytes of scratch memory, more than the stream "
                         "has: run the op once before the capture",
                         size);
    size_t rounded = 4096;
    while (rounded < size)
        rounded *= 2;
    CUdeviceptr pointer = 0;
    RVIT_TRY(rvit_cu_allocate(queue->device, rounded, &pointer));
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

void rvit_cu_scratch_free(rvit_cu_queue *queue, rvit_cu_scratch *scratch)
{
    atomic_fetch_sub(&queue->device->base.working_size, (long long)scratch->size);
    if (scratch->pointer != 0)
        (void)queue->device->driver->cuMemFree(scratch->pointer);
}

int rvit_cu_writes(const rvit_op *op, rvit_view view, int64_t size)
{
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    /* Compares addresses, because several buffers may wrap the same memory. */
    const int64_t at = (int64_t)(uintptr_t)rvit_cu_at(view);
    for (int i = 0; i < n && at != 0; i++)
        if (accesses[i].writes && accesses[i].view.buffer != NULL &&
            rvit_ranges_overlap(at, size, (int64_t)(uintptr_t)rvit_cu_at(accesses[i].view), accesses[i].size))
            return 1;
    return 0;
}
