/* Public ops over ragged batches: take in the args, enqueue the op. */
#include "core/args.h"
#include "core/device.h"
#include "core/entry.h"

rvit_status rvit_attention(rvit_stream *stream, const rvit_attention_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "attention: stream is NULL");
    rvit_op op = {.type = RVIT_OP_ATTENTION};
    RVIT_TRY(rvit_args_copy(&op.attention, sizeof op.attention, args, "attention args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_linear(rvit_stream *stream, const rvit_linear_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "linear: stream is NULL");
    rvit_op op = {.type = RVIT_OP_LINEAR};
    RVIT_TRY(rvit_args_copy(&op.linear, sizeof op.linear, args, "linear args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_layernorm(rvit_stream *stream, const rvit_layernorm_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "layernorm: stream is NULL");
    rvit_op op = {.type = RVIT_OP_LAYERNORM};
    RVIT_TRY(rvit_args_copy(&op.layernorm, sizeof op.layernorm, args, "layernorm args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_pack(rvit_stream *stream, const rvit_pack_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "pack: stream is NULL");
    rvit_op op = {.type = RVIT_OP_PACK};
    RVIT_TRY(rvit_args_copy(&op.pack, sizeof op.pack, args, "pack args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_unpack(rvit_stream *stream, const rvit_unpack_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "unpack: stream is NULL");
    rvit_op op = {.type = RVIT_OP_UNPACK};
    RVIT_TRY(rvit_args_copy(&op.unpack, sizeof op.unpack, args, "unpack args"));
    return rvit_stream_add(stream, &op);
}
