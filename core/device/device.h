/* Functions of devices, streams and ops that only core uses. */
#ifndef RVIT_CORE_DEVICE_DEVICE_H
#define RVIT_CORE_DEVICE_DEVICE_H

#include "core/contract/backend.h"

/* Prepares an op, checks that the device supports it, then runs it on the stream or appends it to the stream's recording. */
rvit_status rvit_stream_add(rvit_stream *stream, rvit_op *op);

/* The checks of rvit_stream_add, without running the op. */
rvit_status rvit_op_check(rvit_device *device, rvit_op *op);

/* Frees the memory of recordings; the next recording allocates it again. */
void rvit_stream_forget(rvit_stream *stream);

/* Reads back and validates the lengths and source rows of a prepared op. */
rvit_status rvit_op_check_lengths(rvit_stream *stream, const rvit_op *op);

rvit_status rvit_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);

#endif
