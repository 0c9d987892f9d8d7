/* Streams: ops run when they are enqueued, so there is never anything to wait for. */
#include "backend_cpu/cpu.h"

rvit_status rvit_cpu_stream_create(rvit_device *device, rvit_stream **out_stream)
{
    rvit_stream *stream = rvit_alloc_new(&device->alloc, sizeof *stream);
    RVIT_TRY_MEMORY(stream);
    *out_stream = stream;
    return RVIT_OK;
}

void rvit_cpu_stream_destroy(rvit_stream *stream)
{
    rvit_alloc_free(&stream->device->alloc, stream);
}

static void count(rvit_stream *stream, const rvit_op *ops, int32_t n_ops)
{
    for (int32_t i = 0; i < n_ops; i++)
        stream->stats.copies += ops[i].type == RVIT_OP_COPY;
    stream->stats.launches += n_ops;
    stream->stats.submits++;
}

rvit_status rvit_cpu_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops)
{
    rvit_cpu_device *device = (rvit_cpu_device *)stream->device;
    rvit_mutex_lock(&device->lock);
    for (int32_t i = 0; i < n_ops; i++)
        rvit_cpu_run_op(device, &ops[i]);
    rvit_mutex_unlock(&device->lock);
    count(stream, ops, n_ops);
    return RVIT_OK;
}

rvit_status rvit_cpu_stream_synchronize(rvit_stream *stream)
{
    stream->stats.synchronizations++;
    return RVIT_OK;
}

/* ops: replace the program's ops with by_launch. */
rvit_status rvit_cpu_program_launch(rvit_program *base, rvit_stream *stream, const rvit_op *ops)
{
    rvit_cpu_program *program = (rvit_cpu_program *)base;
    rvit_cpu_device *device = (rvit_cpu_device *)stream->device;
    rvit_mutex_lock(&device->lock);
    for (int32_t i = 0; i < program->n_ops; i += program->fused[i].length) {
        const rvit_op *op = &program->ops[i];
        if (program->fused[i].length > 1)
            rvit_cpu_run_fused(device, op, &program->fused[i]);
        else
            rvit_cpu_run_op(device, op->by_launch ? ops++ : op);
    }
    rvit_mutex_unlock(&device->lock);
    count(stream, program->ops, program->n_ops);
    return RVIT_OK;
}
