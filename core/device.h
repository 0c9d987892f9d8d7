/* What core's own files do with devices, streams and ops. */
#ifndef RVIT_CORE_DEVICE_H
#define RVIT_CORE_DEVICE_H

#include "core/backend.h"

/* One more owner; rvit_device_destroy ends one. */
void rvit_device_retain(rvit_device *device);

/* Prepares an op, checks it against the device, then runs it on the stream or collects it in the stream's recording. */
rvit_status rvit_stream_add(rvit_stream *stream, rvit_op *op);

/* The same checks alone. */
rvit_status rvit_op_check(rvit_device *device, rvit_op *op);

/* Gives up the memory that recordings use; the next one takes it anew. */
void rvit_stream_forget(rvit_stream *stream);

/* Reads back the lengths and source rows that a prepared op is about to be given, and validates them. */
rvit_status rvit_op_check_lengths(rvit_stream *stream, const rvit_op *op);

rvit_status rvit_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);

#endif
