/* Public ops of pruning. */
#include "core/args.h"
#include "core/device.h"

rvit_status rvit_score(rvit_stream *stream, const rvit_score_args *args)
{
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "score: stream is NULL");
    rvit_op op = {.type = RVIT_OP_SCORE};
    RVIT_TRY(rvit_args_copy(&op.score, sizeof op.score, args, "score args"));
    return rvit_stream_add(stream, &op);
}

rvit_status rvit_select(rvit_stream *stream, const rvit_select_args *args)
{
    if (stream == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "select: stream is NULL");
    rvit_op op = {.type = RVIT_OP_SELECT};
    RVIT_TRY(rvit_args_copy(&op.select, sizeof op.select, args, "select args"));
    return rvit_stream_add(stream, &op);
}
