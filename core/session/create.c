/* Creates sessions and computes the memory that one needs. */
#include <raggedvit/experimental.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"
#include "core/plan/variable_resolution.h"
#include "core/session/autotune.h"
#include "core/session/input.h"
#include "core/session/session.h"

static rvit_status check_block(const rvit_model *model, const char *field, int32_t block)
{
    const int32_t depth = model->info.depth;
    if (block >= -depth && block < depth)
        return RVIT_OK;
    return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is %d, expected %d..%d: the model has %d blocks", field, (int)block,
                     (int)-depth, (int)depth - 1, (int)depth);
}

/* Checks the caller's buffer for the merged rows of n mergers. */
static rvit_status check_merged(const rvit_model *model, const rvit_session_desc *desc, const char *field, rvit_view view, int32_t output,
                                int32_t n)
{
    if (view.buffer == NULL)
        return RVIT_OK;
    if (!(desc->outputs & output))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s is given, but outputs does not ask for it", field);
    if (view.buffer->device != model->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: %s belongs to another device", field);
    const rvit_model_info *info = &model->info;
    const int64_t size = desc->max_tokens / (info->merge * info->merge) * (int64_t)n * info->merged_dim * 4;
    if (view.offset < 0 || view.offset % 16 != 0 || view.offset > view.buffer->size - size)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "session desc: %s is at offset %lld, expected a multiple of 16 with %lld bytes of the buffer's %lld after it",
                         field, (long long)view.offset, (long long)size, (long long)view.buffer->size);
    return RVIT_OK;
}

static rvit_status check_outputs(const rvit_model *model, const rvit_session_desc *desc)
{
    const rvit_model_info *info = &model->info;
    const int32_t outputs = desc->outputs;
    if (outputs < 0 || outputs >= 2 * RVIT_OUTPUT_DEEPSTACK)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: outputs is %d, which has unknown bits", (int)outputs);
    if ((outputs & RVIT_OUTPUT_CLS_ATTENTION) && !rvit_has_cls(info))
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: outputs asks for the attention of the CLS token, but the model has none");
    if ((outputs & RVIT_OUTPUT_POOLED) && info->pooling == RVIT_POOLING_NONE)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: outputs asks for pooled rows, but the model pools nothing");
    if ((outputs & RVIT_OUTPUT_POOLED) && info->pooling == RVIT_POOLING_UNKNOWN)
        return rvit_fail(
            RVIT_UNSUPPORTED,
            "session desc: outputs asks for pooled rows, but neither the weights nor a file beside them say how the model pools: "
            "set checkpoint desc's pooling");
    if ((outputs & RVIT_OUTPUT_PROJECTED) && info->embedding_dim == 0)
        return rvit_fail(
            RVIT_UNSUPPORTED,
            "session desc: outputs asks for the vector that is compared with those of texts, but the model is neither a CLIP with "
            "its projection nor a SigLIP with its attention pooling");
    if ((outputs & RVIT_OUTPUT_NORMALIZED) && !(outputs & RVIT_OUTPUT_PROJECTED))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: outputs has RVIT_OUTPUT_NORMALIZED without RVIT_OUTPUT_PROJECTED");
    if ((outputs & RVIT_OUTPUT_MERGED) && info->merge == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: outputs asks for merged rows, but the model merges none");
    if ((outputs & RVIT_OUTPUT_DEEPSTACK) && info->n_deepstack == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: outputs asks for merged rows of blocks, but the model has no deepstack mergers");
    RVIT_TRY(check_merged(model, desc, "merged", desc->merged, RVIT_OUTPUT_MERGED, 1));
    RVIT_TRY(check_merged(model, desc, "deepstack", desc->deepstack, RVIT_OUTPUT_DEEPSTACK, info->n_deepstack));
    if (outputs & RVIT_OUTPUT_BLOCK_FEATURES)
        RVIT_TRY(check_block(model, "features_block", desc->features_block));
    return outputs & RVIT_OUTPUT_RECEIVED_ATTENTION ? check_block(model, "received_block", desc->received_block) : RVIT_OK;
}

static rvit_status check_desc(const rvit_model *model, const rvit_session_desc *desc)
{
    if (desc->max_images < 1 || desc->max_images > 1 << 20)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_images is %d, expected 1..%d", (int)desc->max_images, 1 << 20);
    if (desc->trace < 0 || desc->trace > RVIT_TRACE_INPUTS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: trace is %d, expected 0 to 3", (int)desc->trace);
    RVIT_TRY(rvit_variable_check(model, desc));
    const int64_t rows = (int64_t)desc->max_images * model->info.tokens;
    if (!desc->variable_resolution && rows > INT32_MAX - 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: max_images is %d, which at %d tokens per image is more than %d rows",
                         (int)desc->max_images, (int)model->info.tokens, INT32_MAX - 1);
    RVIT_TRY(check_outputs(model, desc));
    if (desc->stream != NULL && desc->stream->device != model->device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: stream belongs to another device");
    if (desc->stream != NULL && desc->stream->recording)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "session desc: stream is recording");
    return rvit_session_input_check_desc(model, desc);
}

/* Copies, completes and checks the caller's desc, except for its pruning, which rvit_session_plan_create checks. */
static rvit_status complete(const rvit_model *model, const rvit_session_desc *given, rvit_session_desc *desc)
{
    *desc = (rvit_session_desc)RVIT_SESSION_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(desc, sizeof *desc, given, "session desc"));
    if (desc->variable_resolution)
        rvit_variable_complete(model, desc);
    return check_desc(model, desc);
}

rvit_status rvit_session_create(rvit_model *model, const rvit_session_desc *given, rvit_session **out_session)
{
    RVIT_ENTRY;
    if (model == NULL || out_session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_create: model or out_session is NULL");
    rvit_session_desc desc;
    RVIT_TRY(complete(model, given, &desc));
    rvit_session_info info = RVIT_SESSION_INFO_INIT;
    RVIT_TRY(rvit_autotune(model, &desc, &info));
    rvit_session *session = NULL;
    RVIT_TRY(rvit_session_open(model, &desc, &session));
    info.n_stages = session->info.n_stages;
    session->info = info;
    *out_session = session;
    return RVIT_OK;
}

static void raise_to(int64_t *max, int64_t size)
{
    if (*max < size)
        *max = size;
}

/* Raises each size in *max to that of a session with this desc. */
static rvit_status add_session(const rvit_model *model, const rvit_session_desc *desc, rvit_memory_info *max)
{
    const rvit_session_plan *plan = NULL;
    RVIT_TRY(rvit_session_plan_create(model, desc, &plan));
    raise_to(&max->device_size, plan->sizes[RVIT_ARENA_DEVICE]);
    raise_to(&max->upload_size, plan->sizes[RVIT_ARENA_UPLOAD]);
    raise_to(&max->readback_size, plan->sizes[RVIT_ARENA_READBACK]);
    raise_to(&max->trace_size, plan->sizes[RVIT_ARENA_TRACE]);
    raise_to(&max->host_size, (int64_t)sizeof(rvit_session) + plan->plan_size + plan->sizes[RVIT_ARENA_HOST]);
    rvit_session_plan_destroy(model, plan);
    return RVIT_OK;
}

rvit_status rvit_session_memory(rvit_model *model, const rvit_session_desc *given, rvit_memory_info *out_memory)
{
    RVIT_ENTRY;
    if (model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_memory: model is NULL");
    rvit_session_desc desc, others[RVIT_AUTOTUNE_SESSIONS];
    RVIT_TRY(complete(model, given, &desc));
    rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
    RVIT_TRY(add_session(model, &desc, &memory));
    int32_t n;
    RVIT_TRY(rvit_autotune_sessions(model, &desc, others, &n));
    for (int32_t i = 0; i < n; i++)
        RVIT_TRY(add_session(model, &others[i], &memory));
    return rvit_args_return(out_memory, &memory, sizeof memory, "memory info");
}
