/* Public ops of pruning. */
#include "core/args.h"
#include "core/device.h"
#include "core/entry.h"

rvit_status rvit_select(rvit_stream *stream, const rvit_select_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "select: stream is NULL");
    rvit_op op = {.type = RVIT_OP_SELECT};
    RVIT_TRY(rvit_args_copy(&op.select, sizeof op.select, args, "select args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_mean(rvit_stream *stream, const rvit_mean_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "mean: stream is NULL");
    rvit_op op = {.type = RVIT_OP_MEAN};
    RVIT_TRY(rvit_args_copy(&op.mean, sizeof op.mean, args, "mean args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_match(rvit_stream *stream, const rvit_match_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "match: stream is NULL");
    rvit_op op = {.type = RVIT_OP_MATCH};
    RVIT_TRY(rvit_args_copy(&op.match, sizeof op.match, args, "match args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_merge(rvit_stream *stream, const rvit_merge_args *args)
{
    RVIT_ENTRY;
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "merge: stream is NULL");
    rvit_op op = {.type = RVIT_OP_MERGE};
    RVIT_TRY(rvit_args_copy(&op.merge, sizeof op.merge, args, "merge args"));
    return rvit_stream_add(stream, &op);
}
