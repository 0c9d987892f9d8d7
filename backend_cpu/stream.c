/* Streams: ops run when they are enqueued, so there is never anything to wait for. */
#include "backend_cpu/cpu.h"

rvit_status rvit_cpu_stream_create(rvit_device *device, rvit_stream **out_stream)
{
    rvit_stream *stream = rvit_alloc_new(&device->alloc, sizeof *stream);
    if (stream == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    *out_stream = stream;
    return RVIT_OK;
}

void rvit_cpu_stream_destroy(rvit_stream *stream)
{
    rvit_alloc_free(&stream->device->alloc, stream);
}

/* brought: in place of the ops with by_launch. */
static void run(rvit_stream *stream, const rvit_op *ops, int32_t n_ops, const rvit_op *brought)
{
    rvit_cpu_device *device = (rvit_cpu_device *)stream->device;
    pthread_mutex_lock(&device->lock);
    for (int32_t i = 0; i < n_ops; i++) {
        rvit_cpu_run_op(device, ops[i].by_launch ? brought++ : &ops[i]);
        stream->stats.copies += ops[i].type == RVIT_OP_COPY;
    }
    pthread_mutex_unlock(&device->lock);
    stream->stats.launches += n_ops;
    stream->stats.submits++;
}

rvit_status rvit_cpu_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops)
{
    run(stream, ops, n_ops, NULL);
    return RVIT_OK;
}

rvit_status rvit_cpu_stream_synchronize(rvit_stream *stream)
{
    stream->stats.synchronizations++;
    return RVIT_OK;
}

rvit_status rvit_cpu_program_launch(rvit_program *base, rvit_stream *stream, const rvit_op *ops)
{
    const rvit_cpu_program *program = (const rvit_cpu_program *)base;
    run(stream, program->ops, program->n_ops, ops);
    return RVIT_OK;
}
