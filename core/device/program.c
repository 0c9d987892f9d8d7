/* The public functions of recorded programs. */
#include "core/base/entry.h"
#include "core/device/device.h"

rvit_status rvit_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program)
{
    rvit_program *program = NULL;
    RVIT_TRY(device->api->program_create(device, ops, n_ops, &program));
    program->device = device;
    rvit_device_retain(device);
    *out_program = program;
    return RVIT_OK;
}

rvit_status rvit_program_launch(rvit_program *program, rvit_stream *stream)
{
    RVIT_ENTRY;
    if (program == NULL || stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_program_launch: program or stream is NULL");
    if (program->device != stream->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_program_launch: program and stream belong to different devices");
    if (stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_program_launch: the stream is recording; a program cannot be part of a program");
    return stream->device->api->program_launch(program, stream, NULL);
}

void rvit_program_destroy(rvit_program *program)
{
    RVIT_ENTRY;
    if (program == NULL)
        return;
    rvit_device *device = program->device;
    device->api->program_destroy(program);
    rvit_device_destroy(device);
}
