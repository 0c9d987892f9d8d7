/* Semaphores. */
#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/device/device.h"

static rvit_status check_desc(const rvit_semaphore_desc *desc)
{
    if (desc->timeline < 0 || desc->timeline > 1 || desc->shared < 0 || desc->shared > 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "semaphore desc: timeline is %d, shared %d, expected 0 or 1", (int)desc->timeline,
                         (int)desc->shared);
    if ((desc->shared != 0) + (desc->vk_semaphore != 0) + (desc->handle_type != RVIT_HANDLE_NONE) > 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "semaphore desc: shared, vk_semaphore and handle_type exclude each other");
    return RVIT_OK;
}

rvit_status rvit_semaphore_create(rvit_device *device, const rvit_semaphore_desc *given, rvit_semaphore **out_semaphore)
{
    RVIT_ENTRY;
    if (device == NULL || out_semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_semaphore_create: device or out_semaphore is NULL");
    rvit_semaphore_desc desc;
    RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "semaphore desc"));
    RVIT_TRY(check_desc(&desc));
    if (device->api->semaphore_open == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_semaphore_create: %s runs ops when they are called: it has no semaphores",
                         device->info.name);
    rvit_semaphore *semaphore = rvit_alloc_new(&device->alloc, sizeof *semaphore);
    RVIT_TRY_MEMORY(semaphore);
    semaphore->device = device;
    semaphore->timeline = desc.timeline;
    semaphore->shared = desc.shared;
    semaphore->native = desc.vk_semaphore;
    semaphore->wrapped = desc.vk_semaphore != 0;
    const rvit_status status = device->api->semaphore_open(semaphore, &desc);
    if (status != RVIT_OK) {
        rvit_alloc_free(&device->alloc, semaphore);
        return status;
    }
    rvit_device_retain(device);
    *out_semaphore = semaphore;
    return RVIT_OK;
}

void rvit_semaphore_destroy(rvit_semaphore *semaphore)
{
    RVIT_ENTRY;
    if (semaphore == NULL)
        return;
    rvit_device *device = semaphore->device;
    if (!semaphore->wrapped)
        device->api->semaphore_close(semaphore);
    rvit_alloc_free(&device->alloc, semaphore);
    rvit_device_destroy(device);
}

rvit_status rvit_semaphore_export(const rvit_semaphore *semaphore, rvit_handle_type *out_type, intptr_t *out_handle)
{
    RVIT_ENTRY;
    if (semaphore == NULL || out_type == NULL || out_handle == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_semaphore_export: semaphore, out_type or out_handle is NULL");
    if (!semaphore->shared)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_semaphore_export: semaphore was not created with shared = 1");
    return semaphore->device->api->semaphore_export(semaphore, out_type, out_handle);
}

rvit_status rvit_semaphore_handle(const rvit_semaphore *semaphore, uint64_t *out_handle)
{
    RVIT_ENTRY;
    if (semaphore == NULL || out_handle == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_semaphore_handle: semaphore or out_handle is NULL");
    *out_handle = semaphore->native;
    return RVIT_OK;
}

static rvit_status use(const char *function, rvit_stream *stream, const rvit_semaphore *semaphore, int signals, uint64_t value)
{
    if (stream == NULL || semaphore == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream or semaphore is NULL", function);
    if (stream->device != semaphore->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: stream and semaphore belong to different devices", function);
    if (stream->recording || stream->deferred)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: the stream %s", function,
                         stream->recording ? "is recording" : "records into a command buffer, which the caller submits");
    return stream->device->api->stream_semaphore(stream, semaphore, signals, value);
}

rvit_status rvit_stream_wait(rvit_stream *stream, const rvit_semaphore *semaphore, uint64_t value)
{
    RVIT_ENTRY;
    return use("rvit_stream_wait", stream, semaphore, 0, value);
}

rvit_status rvit_stream_signal(rvit_stream *stream, const rvit_semaphore *semaphore, uint64_t value)
{
    RVIT_ENTRY;
    return use("rvit_stream_signal", stream, semaphore, 1, value);
}
