/* Defines the public function of each op, such as rvit_pack(stream, args). */
#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/device/device.h"

#define RVIT_OP(TYPE, name)                                                      \
    rvit_status rvit_##name(rvit_stream *stream, const rvit_##name##_args *args) \
    {                                                                            \
        RVIT_ENTRY;                                                              \
        if (stream == NULL)                                                      \
            return rvit_fail(RVIT_INVALID_ARGUMENT, #name ": stream is NULL");   \
        rvit_op op = {.type = RVIT_OP_##TYPE};                                   \
        RVIT_TRY(rvit_args_copy(&op.name, sizeof op.name, args, #name " args")); \
        return rvit_stream_add(stream, &op);                                     \
    }
#include "core/contract/ops.def"
