/* The embedding of images at variable resolution: their layout, the patch embedding GEMM, and the positions of each image. */
#include "core/forward/forward.h"
#include "core/forward/windows.h"

/* The rows of all patches, without prefix tokens. */
static rvit_rows patch_rows(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    return (rvit_rows){.capacity = plan->segments[0].rows, .live = at(view(f, plan->patch_cu_seqlens), (int64_t)plan->desc.max_images * 4)};
}

static rvit_status lay_out(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    rvit_grid_layout_args args = RVIT_GRID_LAYOUT_ARGS_INIT;
    args.n_images = plan->desc.max_images;
    args.n_prefix = f->model->info.n_prefix;
    args.max_len = f->max_len;
    args.rows = f->rows.capacity;
    rvit_forward_lay_out_groups(f, &args);
    args.live_images = view(f, plan->live_images);
    args.grids = view(f, plan->grids);
    args.cu_seqlens = f->cu_seqlens;
    args.patch_cu_seqlens = view(f, plan->patch_cu_seqlens);
    args.token_map = view(f, plan->token_map);
    return rvit_grid_layout(f->stream, &args);
}

/* Converts patches to rows of the model's type. Patchify treats each as an image of one patch, so the order of its values does not
   matter. */
static rvit_patchify_args patchify_of(const forward *f, rvit_view patches)
{
    const rvit_model *model = f->model;
    rvit_patchify_args args = RVIT_PATCHIFY_ARGS_INIT;
    args.dtype = model->dtype;
    args.n_images = (int32_t)f->rows.capacity;
    args.live_images = view(f, f->plan->live_patches);
    /* preprocess writes one frame. */
    const int preprocessed = f->plan->desc.input == RVIT_INPUT_IMAGES;
    args.channels = preprocessed ? model->info.channels : rvit_model_row_values(model) / (model->info.patch_size * model->info.patch_size);
    args.image_size = args.patch_size = model->info.patch_size;
    args.split = rvit_model_patch_split(model);
    args.out_stride = args.split * (preprocessed ? rvit_model_patch_width(model) : rvit_model_row_width(model));
    args.images = patches;
    args.out = f->wide;
    return args;
}

/* Reads the caller's patches. */
static rvit_status read_patches(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    rvit_op op = {.type = RVIT_OP_PATCHIFY,
                  .patchify = patchify_of(f, plan->desc.input_memory == RVIT_INPUT_FIXED ? plan->desc.input_view : view(f, plan->input))};
    if (rvit_prune_by_pixels(&plan->schedule)) {
        op.patchify.dtype = RVIT_F32;
        op.patchify.split = 1;
        op.patchify.out_stride = 0;
        op.patchify.out = view(f, plan->patch_pixels);
    }
    f->session->patchify = op.patchify;
    return rvit_forward_add_outer(f, &op);
}

/* Fills the wide array with patches, from preprocessed images or from the caller. If pixels are compared first, they go through float32
   rows. */
static rvit_status fill_wide(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    RVIT_TRY(plan->desc.input == RVIT_INPUT_IMAGES ? rvit_forward_preprocess(f, absent) : read_patches(f));
    if (!rvit_prune_by_pixels(&plan->schedule))
        return RVIT_OK;
    const rvit_patchify_args args = patchify_of(f, view(f, plan->patch_pixels));
    return rvit_patchify(f->stream, &args);
}

/* The patch embedding GEMM, followed by the patch norm if there is one. *out: the result. */
static rvit_status project_patches(const forward *f, rvit_view *out, rvit_dtype *out_dtype)
{
    const rvit_model *model = f->model;
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = model->dtype;
    args.out_dtype = *out_dtype = model->x_dtype;
    args.rows = patch_rows(f);
    /* preprocess writes one frame, channel after channel. */
    const int preprocessed = f->plan->desc.input == RVIT_INPUT_IMAGES;
    args.in_features = rvit_model_patch_split(model) * (preprocessed ? rvit_model_patch_width(model) : rvit_model_row_width(model));
    args.out_features = model->info.dim;
    args.x = f->wide;
    args.weight = preprocessed ? model->patch_weight : model->row_weight;
    /* The position table includes the bias; without a table its rows are only the bias. */
    if (model->identity_weight.buffer != NULL)
        args.bias = model->patch_bias;
    else if (!rvit_model_has_table(model))
        args.bias = rvit_model_table(model);
    args.out = *out = f->other_x;
    RVIT_TRY(rvit_forward_add_linear(f, &args));
    if (model->identity_weight.buffer == NULL)
        return RVIT_OK;
    *out = f->normed;
    *out_dtype = model->dtype;
    return rvit_forward_norm(f, args.rows, model->info.dim, f->other_x, model->patch_norm_gamma, model->patch_norm_beta, model->dtype,
                             f->normed);
}

static rvit_status add_positions(const forward *f, rvit_view patches, rvit_dtype dtype)
{
    const rvit_session_plan *plan = f->plan;
    const rvit_model *model = f->model;
    rvit_embed_args args = RVIT_EMBED_ARGS_INIT;
    args.dtype = dtype;
    args.rows = f->rows;
    args.patch_rows = f->rows.capacity;
    args.dim = model->info.dim;
    args.n_prefix = model->info.n_prefix;
    args.token_map = view(f, plan->token_map);
    args.patches = patches;
    if (model->info.n_prefix > 0)
        args.prefix = model->embedding;
    if (rvit_model_has_table(model)) {
        args.resample = model->info.resample;
        args.table_height = model->trained[0];
        args.table_width = model->trained[1];
        args.table = rvit_model_table(model);
    }
    args.out = f->x;
    return rvit_embed(f->stream, &args);
}

/* The rotary table: one line for each row of the batch. */
static rvit_status fill_rope_table(const forward *f)
{
    const rvit_model *model = f->model;
    rvit_grid_rope_args args = RVIT_GRID_ROPE_ARGS_INIT;
    if (!rvit_model_rotates(model))
        return RVIT_OK;
    args.rows = f->rows;
    args.head_dim = model->info.head_dim;
    args.coordinates = model->rope.coordinates;
    args.order = model->rope.order;
    args.offset = (float)model->rope.offset;
    args.reference_height = (float)model->rope.reference[0];
    args.reference_width = (float)model->rope.reference[1];
    args.token_map = view(f, f->plan->token_map);
    args.frequencies = view(f, f->plan->frequencies);
    args.out = view(f, f->plan->rope_table);
    return rvit_grid_rope(f->stream, &args);
}

rvit_status rvit_forward_embed_variable(forward *f)
{
    const rvit_model *model = f->model;
    rvit_view patches;
    rvit_dtype dtype;
    RVIT_TRY(lay_out(f));
    RVIT_TRY(fill_wide(f));
    RVIT_TRY(project_patches(f, &patches, &dtype));
    RVIT_TRY(add_positions(f, patches, dtype));
    RVIT_TRY(fill_rope_table(f));
    if (!model->info.norm_pre)
        return RVIT_OK;
    RVIT_TRY(rvit_forward_norm(f, f->rows, model->info.dim, f->x, model->norm_pre_gamma, model->norm_pre_beta, model->x_dtype, f->other_x));
    const rvit_view x = f->other_x;
    f->other_x = f->x;
    f->x = x;
    return RVIT_OK;
}
