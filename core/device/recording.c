/* Runs the ops of a stream at once, or records them into a program. */
#include <string.h>

#include "core/base/entry.h"
#include "core/device/device.h"

static rvit_status collect(rvit_stream *stream, const rvit_op *op)
{
    if (stream->n_recorded == stream->recorded_capacity) {
        rvit_alloc *alloc = &stream->device->alloc;
        const int32_t capacity = stream->recorded_capacity == 0 ? 32 : 2 * stream->recorded_capacity;
        rvit_op *grown = rvit_alloc_array(alloc, (size_t)capacity, sizeof *grown);
        RVIT_TRY_MEMORY(grown);
        if (stream->n_recorded > 0)
            memcpy(grown, stream->recorded, (size_t)stream->n_recorded * sizeof *grown);
        rvit_alloc_free(alloc, stream->recorded);
        stream->recorded = grown;
        stream->recorded_capacity = capacity;
    }
    stream->recorded[stream->n_recorded++] = *op;
    return RVIT_OK;
}

rvit_status rvit_stream_add(rvit_stream *stream, rvit_op *op)
{
    RVIT_TRY(rvit_op_check(stream->device, op));
    if (stream->recording)
        return collect(stream, op);
    if (stream->device->debug_checks && !stream->deferred)
        RVIT_TRY(rvit_op_check_lengths(stream, op));
    return stream->device->api->stream_enqueue(stream, op, 1);
}

rvit_status rvit_record_begin(rvit_stream *stream)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_record_begin: stream is NULL");
    if (stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_record_begin: the stream is already recording");
    stream->recording = 1;
    stream->n_recorded = 0;
    return RVIT_OK;
}

rvit_status rvit_record_end(rvit_stream *stream, rvit_program **out_program)
{
    RVIT_ENTRY;
    if (stream == NULL || out_program == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_record_end: stream or out_program is NULL");
    if (!stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_record_end: the stream is not recording");
    stream->recording = 0;
    if (stream->n_recorded == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_record_end: nothing was recorded");
    return rvit_program_create(stream->device, stream->recorded, stream->n_recorded, out_program);
}

void rvit_stream_forget(rvit_stream *stream)
{
    rvit_alloc_free(&stream->device->alloc, stream->recorded);
    stream->recorded = NULL;
    stream->n_recorded = stream->recorded_capacity = 0;
}
