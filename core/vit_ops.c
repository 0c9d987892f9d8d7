/* Public ops that only a ViT needs. */
#include "core/args.h"
#include "core/device.h"
#include "core/entry.h"

rvit_status rvit_patchify(rvit_stream *stream, const rvit_patchify_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "patchify: stream is NULL");
    rvit_op op = {.type = RVIT_OP_PATCHIFY};
    RVIT_TRY(rvit_args_copy(&op.patchify, sizeof op.patchify, args, "patchify args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_head(rvit_stream *stream, const rvit_head_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "head: stream is NULL");
    rvit_op op = {.type = RVIT_OP_HEAD};
    RVIT_TRY(rvit_args_copy(&op.head, sizeof op.head, args, "head args"));
    return rvit_stream_add(stream, &op);
}
