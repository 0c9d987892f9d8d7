/* Ragged attention on described arrays. */
#include <math.h>
#include <string.h>

#include "core.h"

enum { SLOT_CU, SLOT_Q, SLOT_K, SLOT_V, SLOT_BIAS, SLOT_OUT, SLOT_LSE, SLOT_CLS };
_Static_assert((int)SLOT_CLS < (int)CORE_ATTENTION_SLOTS, "those that follow are free");

/* Checks the type, the device and the memory of q, k or v, or of a packed qkv. */
static int check_operand(const core_attention *call, const core_array *array, core_error *error)
{
    char text[160];
    if (array->type > CORE_BF16)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected one of float32, float16, bfloat16", array->name,
                         core_shown(array, text));
    const core_array *const q = &call->q;
    if (array != q) {
        if (core_check_device(array, q, error) < 0)
            return -1;
        if (array->type != q->type || array->ndim != 3 || memcmp(array->shape, q->shape, 3 * sizeof *array->shape) != 0) {
            char wanted[160];
            return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected %s, as %s is", array->name, core_shown(array, text),
                             core_shown(q, wanted), q->name);
        }
    }
    const int64_t width = core_row_width(array, 1);
    if (width < 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not contiguous within a row", array->name);
    int64_t step;
    return core_row_step(array, width, &step, error);
}

static int check_shape(core_attention *call, core_error *error)
{
    const core_array *const q = &call->q;
    const int packed = !core_is_present(&call->k);
    char text[160];
    if (core_is_present(&call->k) != core_is_present(&call->v))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "k and v are given together or not at all");
    if (packed && (q->ndim != 4 || q->shape[1] != 3))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected [rows, 3, heads, head_dim]", q->name, core_shown(q, text));
    if (!packed && q->ndim != 3)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected [rows, heads, head_dim], as k and v are given", q->name,
                         core_shown(q, text));
    call->rows = q->shape[0];
    call->heads = q->shape[q->ndim - 2];
    call->head_dim = q->shape[q->ndim - 1];
    if (call->rows > INT32_MAX - 1)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has %lld rows; expected at most 2147483646", q->name, (long long)call->rows);
    if (call->heads < 1 || call->heads > 1 << 16)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "n_heads is %lld; expected an integer from 1 to 65536", (long long)call->heads);
    if (call->head_dim < 8 || call->head_dim > 128 || call->head_dim % 8 != 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "head_dim is %lld; expected a multiple of 8 from 8 to 128",
                         (long long)call->head_dim);
    return 0;
}

int core_attention_prepare(core_attention *call, core_error *error)
{
    const core_array *const q = &call->q;
    if (check_shape(call, error) < 0 || check_operand(call, q, error) < 0)
        return -1;
    if (core_is_present(&call->k) && (check_operand(call, &call->k, error) < 0 || check_operand(call, &call->v, error) < 0))
        return -1;
    if (core_check_device(&call->cu_seqlens, q, error) < 0 || core_check_ints(&call->cu_seqlens, "n + 1", error) < 0)
        return -1;
    call->images = call->cu_seqlens.shape[0] - 1;
    if (call->images < 0 || call->images > INT32_MAX - 1)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "cu_seqlens is int32 [%lld]; expected contiguous int32 [n + 1]",
                         (long long)call->cu_seqlens.shape[0]);
    if (core_check_device(&call->key_bias, q, error) < 0 || core_check_floats(&call->key_bias, call->rows, 0, error) < 0)
        return -1;
    if (q->device_type == DL_CPU)
        return core_check_lengths(&call->cu_seqlens, &call->max_len, call->rows, error);
    if (call->max_len < 0)
        call->max_len = call->rows;
    return 0;
}

void core_attention_describe_out(const core_attention *call, core_array *out)
{
    core_describe(out, "out", &call->q, call->q.type, 3, (const int64_t[]){call->rows, call->heads, call->head_dim});
}

void core_attention_describe_probs(const core_attention *call, const char *name, core_array *probs)
{
    core_describe(probs, name, &call->q, CORE_F32, 2, (const int64_t[]){call->rows, call->heads});
}

static int check_written(const core_attention *call, const core_array *array, core_error *error)
{
    if (core_check_device(array, &call->q, error) < 0)
        return -1;
    return core_is_present(array) && array->read_only ? core_fail(error, RVIT_INVALID_ARGUMENT, "%s is read-only", array->name) : 0;
}

static int check_out(const core_attention *call, core_error *error)
{
    const core_array *const out = &call->out;
    const int64_t width = call->heads * call->head_dim;
    char text[160];
    if (check_written(call, out, error) < 0)
        return -1;
    if (out->type != call->q.type)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "out is %s; expected the type of %s, %s", core_shown(out, text), call->q.name,
                         core_type_name(call->q.type));
    if (out->ndim != 3 || out->shape[0] != call->rows || out->shape[1] != call->heads || out->shape[2] != call->head_dim)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "out is %s; expected [%lld, %lld, %lld]", core_shown(out, text),
                         (long long)call->rows, (long long)call->heads, (long long)call->head_dim);
    if (core_row_width(out, 1) < 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "out is not contiguous within a row");
    int64_t step;
    return core_row_step(out, width, &step, error);
}

static int check_outputs(const core_attention *call, core_error *error)
{
    if (check_out(call, error) < 0)
        return -1;
    const core_array *const probs[] = {&call->lse, &call->cls_probs};
    for (int i = 0; i < 2; i++)
        if (check_written(call, probs[i], error) < 0 || core_check_floats(probs[i], call->rows, call->heads, error) < 0)
            return -1;
    return 0;
}

static int view_operands(core_attention *call, core_context *ctx, rvit_attention_args *args, core_error *error)
{
    const int64_t width = call->heads * call->head_dim, size = core_type_size(call->q.type);
    if (!core_is_present(&call->k)) {
        const int64_t step = call->rows > 1 ? call->q.step[0] : 3 * width;
        if (core_view(ctx, SLOT_Q, &call->q, ((call->rows - 1) * step + 3 * width) * size, &args->q, error) < 0)
            return -1;
        args->k = (rvit_view){args->q.buffer, args->q.offset + width * size};
        args->v = (rvit_view){args->q.buffer, args->q.offset + 2 * width * size};
        args->q_stride = args->k_stride = args->v_stride = step;
        return 0;
    }
    const core_array *const arrays[] = {&call->q, &call->k, &call->v};
    rvit_view *const views[] = {&args->q, &args->k, &args->v};
    int64_t *const steps[] = {&args->q_stride, &args->k_stride, &args->v_stride};
    for (int i = 0; i < 3; i++) {
        *steps[i] = call->rows > 1 ? arrays[i]->step[0] : width;
        if (core_view(ctx, SLOT_Q + i, arrays[i], ((call->rows - 1) * *steps[i] + width) * size, views[i], error) < 0)
            return -1;
    }
    return 0;
}

int core_attention_args(core_attention *call, core_context *ctx, rvit_attention_args *args, core_error *error)
{
    *args = (rvit_attention_args){.struct_size = sizeof *args,
                                  .dtype = (rvit_dtype)call->q.type,
                                  .n_images = (int32_t)call->images,
                                  .n_heads = (int32_t)call->heads,
                                  .head_dim = (int32_t)call->head_dim,
                                  .max_len = (int32_t)call->max_len,
                                  .rows = call->rows,
                                  .scale = (float)call->scale};
    const int64_t width = call->heads * call->head_dim, size = core_type_size(call->q.type), probs = 4 * call->rows * call->heads;
    args->out_stride = call->rows > 1 ? call->out.step[0] : width;
    if (core_view(ctx, SLOT_CU, &call->cu_seqlens, 4 * (call->images + 1), &args->cu_seqlens, error) < 0 ||
        view_operands(call, ctx, args, error) < 0 ||
        core_view(ctx, SLOT_OUT, &call->out, ((call->rows - 1) * args->out_stride + width) * size, &args->out, error) < 0 ||
        core_view(ctx, SLOT_BIAS, &call->key_bias, 4 * call->rows, &args->key_bias, error) < 0 ||
        core_view(ctx, SLOT_LSE, &call->lse, probs, &args->lse, error) < 0)
        return -1;
    return core_view(ctx, SLOT_CLS, &call->cls_probs, probs, &args->cls_probs, error);
}

int core_attention_run(core_attention *call, core_error *error)
{
    if (check_outputs(call, error) < 0)
        return -1;
    if (call->rows == 0 || call->images == 0)
        return 0;
    core_context *const ctx = core_context_get(&call->q, &call->where, error);
    rvit_attention_args args;
    if (ctx == NULL || core_attention_args(call, ctx, &args, error) < 0)
        return -1;
    return core_checked(error, rv.rvit_attention(ctx->stream, &args));
}
