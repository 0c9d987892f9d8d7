/* Streams. Eager ops are launches on a driver stream, which is the default stream only if the caller wraps that. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_stream_create(rvit_device *base, rvit_stream **out_stream)
{
    rvit_cu_device *device = rvit_cu_device_of(base);
    rvit_cu_stream *stream = rvit_alloc_new(&base->alloc, sizeof *stream);
    RVIT_TRY_MEMORY(stream);
    stream->queue.device = device;
    int entered = 0;
    rvit_status status = rvit_cu_enter(device, &entered);
    if (status == RVIT_OK) {
        CUresult result = device->driver->cuStreamCreate(&stream->queue.stream, CU_STREAM_NON_BLOCKING);
        if (result != CUDA_SUCCESS)
            status = rvit_cu_fail(device->driver, result, "cuStreamCreate");
        if (status == RVIT_OK && device->sleeps)
            result = device->driver->cuEventCreate(&stream->done, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
        if (status == RVIT_OK && result != CUDA_SUCCESS) {
            status = rvit_cu_fail(device->driver, result, "cuEventCreate");
            (void)device->driver->cuStreamDestroy(stream->queue.stream);
        }
    }
    rvit_cu_leave(device, entered);
    if (status != RVIT_OK) {
        rvit_alloc_free(&base->alloc, stream);
        return status;
    }
    stream->base.native = stream->queue.stream;
    *out_stream = &stream->base;
    return RVIT_OK;
}

rvit_status rvit_cu_stream_wrap(rvit_device *device, void *native, rvit_stream **out_stream)
{
    rvit_cu_stream *stream = rvit_alloc_new(&device->alloc, sizeof *stream);
    RVIT_TRY_MEMORY(stream);
    stream->queue.device = rvit_cu_device_of(device);
    stream->queue.stream = native;
    *out_stream = &stream->base;
    return RVIT_OK;
}

void rvit_cu_stream_set(rvit_stream *base, void *native)
{
    ((rvit_cu_stream *)base)->queue.stream = native;
}

void rvit_cu_stream_destroy(rvit_stream *base)
{
    rvit_cu_stream *stream = (rvit_cu_stream *)base;
    rvit_cu_device *device = stream->queue.device;
    int entered = 0;
    if (rvit_cu_enter(device, &entered) == RVIT_OK) {
        rvit_cu_queue_close(&stream->queue);
        if (stream->done != NULL)
            (void)device->driver->cuEventDestroy(stream->done);
        if (!base->wrapped)
            (void)device->driver->cuStreamDestroy(stream->queue.stream);
        rvit_cu_leave(device, entered);
    } else {
        rvit_cu_lt_forget(&stream->queue);
    }
    rvit_alloc_free(&base->device->alloc, stream);
}

/* Moves the counts of the queue to the stream's statistics. */
static void collect(rvit_cu_stream *stream)
{
    rvit_stats *stats = &stream->base.stats;
    stats->launches += stream->queue.launches;
    stats->copies += stream->queue.copies;
    stats->synchronizations += stream->queue.synchronizations;
    stream->queue.launches = stream->queue.copies = stream->queue.synchronizations = 0;
}

rvit_status rvit_cu_stream_enqueue(rvit_stream *base, const rvit_op *ops, int32_t n_ops)
{
    rvit_cu_stream *stream = (rvit_cu_stream *)base;
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(stream->queue.device, &entered));
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < n_ops && status == RVIT_OK; i++)
        status = rvit_cu_run(&stream->queue, &ops[i]);
    collect(stream);
    base->stats.submits++;
    rvit_cu_leave(stream->queue.device, entered);
    return status;
}

rvit_status rvit_cu_stream_synchronize(rvit_stream *base)
{
    rvit_cu_stream *stream = (rvit_cu_stream *)base;
    const rvit_cu_driver *driver = stream->queue.device->driver;
    int entered = 0;
    RVIT_TRY(rvit_cu_enter(stream->queue.device, &entered));
    CUresult result = stream->done != NULL ? driver->cuEventRecord(stream->done, stream->queue.stream) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = stream->done != NULL ? driver->cuEventSynchronize(stream->done) : driver->cuStreamSynchronize(stream->queue.stream);
    rvit_cu_leave(stream->queue.device, entered);
    base->stats.synchronizations++;
    return result == CUDA_SUCCESS ? RVIT_OK
                                  : rvit_cu_fail(driver, result, stream->done != NULL ? "cuEventSynchronize" : "cuStreamSynchronize");
}
