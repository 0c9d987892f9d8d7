/* The gradient of ragged attention on described arrays. */
#include <string.h>

#include "core.h"

enum { SLOT_D_OUT = CORE_ATTENTION_SLOTS, SLOT_D_LSE, SLOT_D_CLS, SLOT_D_Q, SLOT_D_K, SLOT_D_V, SLOT_D_BIAS, SLOT_WORKSPACE };

/* out or d_out: [rows, heads, head_dim] of the type of q. */
static int check_like_out(const core_attention *forward, const core_array *array, core_error *error)
{
    core_array wanted;
    char text[160], shown[160];
    int64_t step;
    core_attention_describe_out(forward, &wanted);
    if (core_check_device(array, &forward->q, error) < 0)
        return -1;
    if (array->type != wanted.type || array->ndim != 3 || memcmp(array->shape, wanted.shape, 3 * sizeof *wanted.shape) != 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected %s", array->name, core_shown(array, text),
                         core_shown(&wanted, shown));
    if (core_row_width(array, 1) < 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not contiguous within a row", array->name);
    return core_row_step(array, forward->heads * forward->head_dim, &step, error);
}

static int check_probs(const core_attention *forward, const core_array *array, core_error *error)
{
    return core_check_device(array, &forward->q, error) < 0 ? -1 : core_check_floats(array, forward->rows, forward->heads, error);
}

int core_backward_prepare(core_backward *call, int wants_key_bias, core_error *error)
{
    core_attention *const forward = &call->forward;
    if (core_attention_prepare(forward, error) < 0 || check_like_out(forward, &forward->out, error) < 0 ||
        check_like_out(forward, &call->d_out, error) < 0)
        return -1;
    if (!core_is_present(&forward->lse))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "lse is not given");
    if (core_is_present(&call->d_cls_probs) && !core_is_present(&forward->cls_probs))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "d_cls_probs is given, cls_probs is not");
    if (check_probs(forward, &forward->lse, error) < 0 || check_probs(forward, &forward->cls_probs, error) < 0 ||
        check_probs(forward, &call->d_lse, error) < 0 || check_probs(forward, &call->d_cls_probs, error) < 0)
        return -1;
    core_describe(&call->d_q, "d_q", &forward->q, forward->q.type, forward->q.ndim, forward->q.shape);
    call->d_k.device_type = call->d_v.device_type = call->d_key_bias.device_type = 0;
    if (core_is_present(&forward->k)) {
        core_describe(&call->d_k, "d_k", &forward->q, forward->q.type, 3, forward->k.shape);
        core_describe(&call->d_v, "d_v", &forward->q, forward->q.type, 3, forward->v.shape);
    }
    if (wants_key_bias)
        core_describe(&call->d_key_bias, "d_key_bias", &forward->q, CORE_F32, 1, &forward->rows);
    rvit_buffer *const any = (rvit_buffer *)(uintptr_t)call; /* the library only checks whether it is NULL */
    const rvit_attention_backward_args args = {.struct_size = sizeof args,
                                               .rows = forward->rows,
                                               .n_heads = (int32_t)forward->heads,
                                               .d_key_bias = {wants_key_bias ? any : NULL, 0}};
    const int64_t size = rv.rvit_attention_backward_workspace(&args);
    if (size < 0)
        return core_checked(error, RVIT_INVALID_ARGUMENT);
    core_describe(&call->workspace, "the workspace", &forward->q, CORE_U8, 1, &size);
    return 0;
}

static int view_gradients(core_backward *call, core_context *ctx, rvit_attention_backward_args *args, core_error *error)
{
    const core_attention *const forward = &call->forward;
    const int64_t width = forward->heads * forward->head_dim, size = core_type_size(forward->q.type);
    if (!core_is_present(&call->d_k)) {
        if (core_view(ctx, SLOT_D_Q, &call->d_q, 3 * forward->rows * width * size, &args->d_q, error) < 0)
            return -1;
        args->d_k = (rvit_view){args->d_q.buffer, args->d_q.offset + width * size};
        args->d_v = (rvit_view){args->d_q.buffer, args->d_q.offset + 2 * width * size};
        args->d_q_stride = args->d_k_stride = args->d_v_stride = 3 * width;
        return 0;
    }
    if (core_view(ctx, SLOT_D_Q, &call->d_q, forward->rows * width * size, &args->d_q, error) < 0 ||
        core_view(ctx, SLOT_D_K, &call->d_k, forward->rows * width * size, &args->d_k, error) < 0)
        return -1;
    return core_view(ctx, SLOT_D_V, &call->d_v, forward->rows * width * size, &args->d_v, error);
}

static int view_probs(core_backward *call, core_context *ctx, rvit_attention_backward_args *args, core_error *error)
{
    const int64_t size = 4 * call->forward.rows * call->forward.heads;
    if (core_view(ctx, SLOT_D_CLS, &call->d_cls_probs, size, &args->d_cls_probs, error) < 0 ||
        core_view(ctx, SLOT_D_LSE, &call->d_lse, size, &args->d_lse, error) < 0 ||
        core_view(ctx, SLOT_D_BIAS, &call->d_key_bias, 4 * call->forward.rows, &args->d_key_bias, error) < 0)
        return -1;
    return core_view(ctx, SLOT_WORKSPACE, &call->workspace, call->workspace.shape[0], &args->workspace, error);
}

int core_backward_run(core_backward *call, core_error *error)
{
    core_attention *const forward = &call->forward;
    if (forward->rows == 0 || forward->images == 0)
        return 0;
    core_context *const ctx = core_context_get(&forward->q, &forward->where, error);
    rvit_attention_args f;
    if (ctx == NULL || core_attention_args(forward, ctx, &f, error) < 0)
        return -1;
    rvit_attention_backward_args args = {.struct_size = sizeof args,
                                         .dtype = f.dtype,
                                         .n_images = f.n_images,
                                         .n_heads = f.n_heads,
                                         .head_dim = f.head_dim,
                                         .max_len = f.max_len,
                                         .rows = f.rows,
                                         .scale = f.scale,
                                         .q = f.q,
                                         .k = f.k,
                                         .v = f.v,
                                         .q_stride = f.q_stride,
                                         .k_stride = f.k_stride,
                                         .v_stride = f.v_stride,
                                         .cu_seqlens = f.cu_seqlens,
                                         .key_bias = f.key_bias,
                                         .out = f.out,
                                         .out_stride = f.out_stride,
                                         .lse = f.lse};
    const int64_t width = forward->heads * forward->head_dim, size = core_type_size(forward->q.type);
    args.d_out_stride = forward->rows > 1 ? call->d_out.step[0] : width;
    if (core_is_present(&call->d_cls_probs))
        args.cls_probs = f.cls_probs;
    if (core_view(ctx, SLOT_D_OUT, &call->d_out, ((forward->rows - 1) * args.d_out_stride + width) * size, &args.d_out, error) < 0 ||
        view_gradients(call, ctx, &args, error) < 0 || view_probs(call, ctx, &args, error) < 0)
        return -1;
    return core_checked(error, rv.rvit_attention_backward(ctx->stream, &args));
}
