/* Records the basic ops of a forward: linear layers, norms, copies to the trace. */
#include "core/forward/forward.h"

rvit_status rvit_forward_add_linear(const forward *f, const rvit_linear_args *args)
{
    const rvit_model *model = f->model;
    rvit_op op = {.type = RVIT_OP_LINEAR, .hints = {.padding_rows = f->padding_rows}, .linear = *args};
    if (args->weight.offset == model->patch_weight.offset)
        op.hints.arranged = model->patch_arranged;
    else if (args->weight.offset == model->row_weight.offset)
        op.hints.arranged = model->row_arranged;
    return rvit_stream_add(f->stream, &op);
}

rvit_linear_args rvit_forward_linear_of(const forward *f, rvit_view x, int32_t in_features, rvit_view weight, rvit_view bias,
                                        int32_t out_features)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = f->model->dtype;
    args.rows = f->rows;
    args.in_features = in_features;
    args.out_features = out_features;
    args.x = x;
    args.weight = weight;
    args.bias = bias;
    return args;
}

rvit_status rvit_forward_linear(const forward *f, rvit_activation activation, rvit_view x, rvit_view weight, rvit_view bias, rvit_view out,
                                int32_t in_features, int32_t out_features)
{
    rvit_linear_args args = rvit_forward_linear_of(f, x, in_features, weight, bias, out_features);
    args.activation = activation;
    args.out = out;
    return rvit_forward_add_linear(f, &args);
}

rvit_status rvit_forward_add_to_x(const forward *f, rvit_view input, rvit_view weight, rvit_view bias, int32_t in_features)
{
    rvit_linear_args args = rvit_forward_linear_of(f, input, in_features, weight, bias, f->model->info.dim);
    args.out_dtype = f->model->x_dtype;
    args.residual = args.out = f->x;
    return rvit_forward_add_linear(f, &args);
}

rvit_status rvit_forward_norm_x(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_layernorm_args args)
{
    args.dtype = f->model->x_dtype;
    args.rows = f->rows;
    args.dim = f->model->info.dim;
    args.eps = eps;
    args.x = f->x;
    args.gamma = gamma;
    args.beta = beta;
    args.norm = norm_of(beta);
    if (f->gathers) {
        args.x_rows = f->plan->segments[f->stage - 1].rows;
        args.src_rows = view(f, f->plan->stages[f->stage - 1].src_rows);
        args.out_x = f->other_x;
    }
    RVIT_TRY(rvit_layernorm(f->stream, &args));
    if (f->gathers) {
        f->other_x = f->x;
        f->x = args.out_x;
        f->gathers = 0;
    }
    return RVIT_OK;
}

rvit_status rvit_forward_layernorm(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_dtype out_dtype, rvit_view out)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.out_dtype = out_dtype;
    args.out = out;
    return rvit_forward_norm_x(f, gamma, beta, eps, args);
}

rvit_status rvit_forward_copy(const forward *f, rvit_view source, int64_t size, rvit_view destination)
{
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = source;
    args.destination = destination;
    args.size = size;
    return rvit_copy(f->stream, &args);
}

rvit_status rvit_forward_trace(const forward *f, rvit_view source, int64_t size, rvit_view destination)
{
    return f->plan->desc.trace ? rvit_forward_copy(f, source, size, destination) : RVIT_OK;
}

void rvit_forward_enter_segment(forward *f, int32_t index)
{
    const rvit_segment *segment = &f->plan->segments[index];
    f->stage = index;
    f->max_len = segment->max_len;
    f->cu_seqlens = view(f, index == 0 ? f->plan->cu_seqlens : f->plan->stages[index - 1].cu_seqlens);
    f->rows = (rvit_rows){.capacity = segment->rows, .padded = segment->padded};
    f->padding_rows = segment->padding_rows;
    if (segment->reads_live)
        f->rows.live = at(f->cu_seqlens, (int64_t)f->plan->desc.max_images * 4);
}

rvit_status rvit_forward_preprocess(const forward *f, rvit_view cu_seqlens)
{
    const rvit_session_plan *plan = f->plan;
    rvit_preprocess_args args = RVIT_PREPROCESS_ARGS_INIT;
    args.dtype = f->model->dtype;
    args.n_images = plan->desc.max_images;
    args.rows = plan->segments[0].rows;
    args.patch_size = f->model->info.patch_size;
    args.split = rvit_model_patch_split(f->model);
    args.out_stride = args.split * rvit_model_patch_width(f->model);
    /* Each run copies the images to staged_images, or the op does. */
    args.source = view(f, f->stream->device->transfers ? plan->device_images : plan->staged_images);
    args.source_size = plan->staged_images.size;
    if (plan->device_images.arena != RVIT_ARENA_NONE && !f->stream->device->transfers)
        args.staging = view(f, plan->device_images);
    args.pixels = plan->desc.input_view;
    args.pixels_size = rvit_session_pixels_size(&plan->desc);
    args.out = f->wide;
    args.cu_seqlens = cu_seqlens;
    if (rvit_prune_by_pixels(&plan->schedule)) {
        args.dtype = RVIT_F32;
        args.split = 1;
        args.out_stride = 0;
        args.out = view(f, plan->patch_pixels);
    }
    return rvit_preprocess(f->stream, &args);
}

rvit_status rvit_forward_add_outer(const forward *f, rvit_op *op)
{
    op->by_launch = f->plan->desc.input_memory == RVIT_INPUT_RUN;
    return op->by_launch && !f->stream->device->takes_ops ? RVIT_OK : rvit_stream_add(f->stream, op);
}

rvit_status rvit_forward_norm(const forward *f, rvit_rows rows, int32_t dim, rvit_view x, rvit_view gamma, rvit_view beta,
                              rvit_dtype out_dtype, rvit_view out)
{
    const rvit_model *model = f->model;
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.out_dtype = out_dtype;
    args.rows = rows;
    args.dim = dim;
    args.eps = model->info.eps;
    args.x = x;
    args.gamma = gamma;
    args.beta = beta;
    args.norm = norm_of(args.beta);
    args.out = out;
    return rvit_layernorm(f->stream, &args);
}

rvit_status rvit_forward_finish_gather(forward *f)
{
    if (!f->gathers)
        return RVIT_OK;
    const rvit_model *model = f->model;
    rvit_pack_args args = RVIT_PACK_ARGS_INIT;
    args.rows = f->rows;
    args.source_rows = f->plan->segments[f->stage - 1].rows;
    args.row_size = model->info.dim * rvit_dtype_size(model->x_dtype);
    args.source = f->x;
    args.src_rows = view(f, f->plan->stages[f->stage - 1].src_rows);
    args.destination = f->other_x;
    RVIT_TRY(rvit_pack(f->stream, &args));
    f->x = f->other_x;
    f->gathers = 0;
    return RVIT_OK;
}
