/* The public functions of streams, with transfers through their staging memory. */
#include <stdint.h>
#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/device/device.h"

rvit_status rvit_stream_create(rvit_device *device, rvit_stream **out_stream)
{
    RVIT_ENTRY;
    if (device == NULL || out_stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_create: device or out_stream is NULL");
    rvit_stream *stream = NULL;
    RVIT_TRY(device->api->stream_create(device, &stream));
    stream->device = device;
    rvit_device_retain(device);
    *out_stream = stream;
    return RVIT_OK;
}

rvit_status rvit_stream_wrap(rvit_device *device, void *native, rvit_stream **out_stream)
{
    RVIT_ENTRY;
    if (device == NULL || out_stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_wrap: device or out_stream is NULL");
    if (device->api->stream_wrap == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_stream_wrap: %s has no native streams", device->info.name);
    rvit_stream *stream = NULL;
    RVIT_TRY(device->api->stream_wrap(device, native, &stream));
    stream->device = device;
    stream->native = native;
    stream->wrapped = 1;
    rvit_device_retain(device);
    *out_stream = stream;
    return RVIT_OK;
}

rvit_status rvit_stream_set(rvit_stream *stream, void *native)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_set: stream is NULL");
    if (!stream->wrapped)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_set: stream is not wrapped");
    if (stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_set: stream is recording");
    stream->device->api->stream_set(stream, native);
    stream->native = native;
    return RVIT_OK;
}

rvit_status rvit_stream_handle(const rvit_stream *stream, void **out_native)
{
    RVIT_ENTRY;
    if (stream == NULL || out_native == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_handle: stream or out_native is NULL");
    if (stream->device->api->stream_wrap == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_stream_handle: %s has no native streams", stream->device->info.name);
    *out_native = stream->native;
    return RVIT_OK;
}

void rvit_stream_destroy(rvit_stream *stream)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return;
    rvit_device *device = stream->device;
    rvit_status status = device->api->stream_synchronize(stream);
    if (status != RVIT_OK)
        rvit_log(RVIT_LOG_ERROR, "pending work of a destroyed stream failed: %s", rvit_status_detail());
    rvit_buffer_destroy(stream->upload);
    rvit_buffer_destroy(stream->readback);
    rvit_alloc_free(&device->alloc, stream->recorded);
    device->api->stream_destroy(stream);
    rvit_device_destroy(device);
}

rvit_status rvit_stream_synchronize(rvit_stream *stream)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_synchronize: stream is NULL");
    return stream->device->api->stream_synchronize(stream);
}

rvit_status rvit_stream_get_stats(const rvit_stream *stream, rvit_stats *out_stats)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_stream_get_stats: stream is NULL");
    rvit_stats stats = stream->stats;
    stats.host_allocations = atomic_load(&stream->device->alloc.count);
    stats.device_allocations = atomic_load(&stream->device->device_allocations);
    stats.device_size =
        atomic_load(&stream->device->buffer_size[RVIT_BUFFER_DEVICE]) + atomic_load(&stream->device->buffer_size[RVIT_BUFFER_SHARED]);
    stats.upload_size = atomic_load(&stream->device->buffer_size[RVIT_BUFFER_UPLOAD]);
    stats.readback_size = atomic_load(&stream->device->buffer_size[RVIT_BUFFER_READBACK]);
    stats.working_size = atomic_load(&stream->device->working_size);
    return rvit_args_return(out_stats, &stats, sizeof stats, "stats");
}

/* Provides staging memory of at least size bytes that no pending work uses. */
static rvit_status stage(rvit_stream *stream, rvit_buffer **staging, rvit_buffer_type type, int64_t size)
{
    RVIT_TRY(rvit_stream_synchronize(stream));
    if (*staging != NULL && (*staging)->size >= size)
        return RVIT_OK;
    rvit_buffer *larger = NULL;
    RVIT_TRY(rvit_buffer_create(stream->device, size, type, &larger));
    rvit_buffer_destroy(*staging);
    *staging = larger;
    return RVIT_OK;
}

static rvit_status check_transfer(const char *name, const rvit_stream *stream, rvit_view view, const void *host, int64_t size)
{
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream is NULL", name);
    if (stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: the stream is recording", name);
    if (stream->deferred)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: the stream records into a command buffer, so it cannot be waited for", name);
    if (view.buffer == NULL || (host == NULL && size > 0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: the view's buffer or host is NULL", name);
    if (size > view.buffer->size)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, but the buffer holds %lld", name, (long long)size,
                         (long long)view.buffer->size);
    if (size < 0 || size % 4 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: size is %lld, expected a multiple of 4", name, (long long)size);
    return RVIT_OK;
}

rvit_status rvit_stream_write(rvit_stream *stream, rvit_view destination, const void *host, int64_t size)
{
    RVIT_ENTRY;
    RVIT_TRY(check_transfer("rvit_stream_write", stream, destination, host, size));
    if (size == 0)
        return RVIT_OK;
    RVIT_TRY(stage(stream, &stream->upload, RVIT_BUFFER_UPLOAD, size));
    rvit_op op = {.type = RVIT_OP_COPY,
                  .copy = {.struct_size = sizeof op.copy, .source = {stream->upload, 0}, .destination = destination, .size = size}};
    RVIT_TRY(rvit_op_check(stream->device, &op));
    memcpy(stream->upload->host, host, (size_t)size);
    return stream->device->api->stream_enqueue(stream, &op, 1);
}

rvit_status rvit_stream_read(rvit_stream *stream, rvit_view source, void *host, int64_t size)
{
    RVIT_ENTRY;
    RVIT_TRY(check_transfer("rvit_stream_read", stream, source, host, size));
    if (size == 0)
        return rvit_stream_synchronize(stream);
    RVIT_TRY(stage(stream, &stream->readback, RVIT_BUFFER_READBACK, size));
    rvit_op op = {.type = RVIT_OP_COPY,
                  .copy = {.struct_size = sizeof op.copy, .source = source, .destination = {stream->readback, 0}, .size = size}};
    RVIT_TRY(rvit_op_check(stream->device, &op));
    RVIT_TRY(stream->device->api->stream_enqueue(stream, &op, 1));
    RVIT_TRY(rvit_stream_synchronize(stream));
    memcpy(host, stream->readback->host, (size_t)size);
    return RVIT_OK;
}
