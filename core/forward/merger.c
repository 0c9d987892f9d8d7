/* Merges each merge group to one row. The rows of a group are consecutive, so [rows, dim] is also [groups, the width of a group]. */
#include "core/forward/forward.h"

static rvit_rows group_rows(const forward *f)
{
    const int32_t side = f->model->merge.side;
    return (rvit_rows){.capacity = f->rows.capacity / (side * side),
                       .live = at(f->group_cu_seqlens, (int64_t)f->plan->desc.max_images * 4)};
}

/* Copies the rows of groups, row_size bytes each, to `destination`, in line-by-line order of the groups. */
static rvit_status write_groups(const forward *f, rvit_view rows, int64_t row_size, rvit_view destination)
{
    const rvit_rows live = group_rows(f);
    if (f->group_rows.buffer == NULL)
        return rvit_forward_copy(f, rows, live.capacity * row_size, destination);
    rvit_pack_args args = RVIT_PACK_ARGS_INIT;
    args.rows = live;
    args.source_rows = live.capacity;
    args.row_size = row_size;
    args.source = rows;
    args.src_rows = f->group_rows;
    args.destination = destination;
    return rvit_pack(f->stream, &args);
}

rvit_status rvit_forward_output_rows(const forward *f, rvit_view rows, int64_t row_size, rvit_session_array destination)
{
    const int32_t side = f->model->merge.side;
    if (f->group_rows.buffer != NULL)
        return write_groups(f, rows, side * side * row_size, view(f, destination));
    return rvit_forward_copy(f, rows, destination.size, view(f, destination));
}

rvit_status rvit_forward_merge_groups(forward *f, int32_t deepstack)
{
    const rvit_model *model = f->model;
    const rvit_merger_weights *w = deepstack < 0 ? &model->merger : &model->deepstack[deepstack];
    const int64_t row_size = 4 * (int64_t)model->info.merged_dim;
    const int32_t side = model->merge.side, width = side * side * model->info.dim;
    if (deepstack < 0)
        RVIT_TRY(rvit_forward_layernorm(f, w->norm_gamma, w->norm_beta, model->info.eps, model->dtype, f->normed));
    else
        RVIT_TRY(rvit_forward_norm(f, group_rows(f), width, f->x, w->norm_gamma, w->norm_beta, model->dtype, f->normed));
    forward groups = *f;
    groups.rows = group_rows(f);
    RVIT_TRY(rvit_forward_linear(&groups, RVIT_ACTIVATION_GELU, f->normed, w->fc1_weight, w->fc1_bias, f->wide, width, width));
    rvit_linear_args args = rvit_forward_linear_of(&groups, f->wide, width, w->fc2_weight, w->fc2_bias, model->info.merged_dim);
    args.out_dtype = RVIT_F32;
    args.out = view(f, f->plan->merged_rows);
    RVIT_TRY(rvit_forward_add_linear(&groups, &args));
    const rvit_session_desc *desc = &f->plan->desc;
    if (deepstack < 0)
        return write_groups(f, args.out, row_size, desc->merged.buffer != NULL ? desc->merged : view(f, f->plan->merged));
    return write_groups(f, args.out, row_size,
                        at(desc->deepstack.buffer != NULL ? desc->deepstack : view(f, f->plan->deepstack),
                           deepstack * (f->plan->segments[0].rows / (side * side)) * row_size));
}
