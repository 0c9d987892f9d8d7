/* Attention windows. From the first layout on the rows of an image are in window order, so each window is a range of rows, and only the
   attention of blocks with windows needs to know about them. */
#include "core/forward/windows.h"

rvit_attention_ranges rvit_forward_attention_ranges(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    if (rvit_model_has_windows(f->model, f->block))
        return (rvit_attention_ranges){plan->max_windows, plan->window_len, f->window_cu_seqlens};
    return (rvit_attention_ranges){plan->desc.max_images, f->max_len, f->cu_seqlens};
}

void rvit_forward_lay_out_groups(const forward *f, rvit_grid_layout_args *args)
{
    const rvit_session_plan *plan = f->plan;
    const rvit_merge_config *merge = &f->model->merge;
    if (merge->side == 0)
        return;
    args->merge = merge->side;
    args->patch_merge = plan->desc.input == RVIT_INPUT_IMAGES; /* preprocess writes patches line by line */
    args->window = merge->window;
    args->max_windows = plan->max_windows;
    args->group_cu_seqlens = f->group_cu_seqlens;
    args->window_cu_seqlens = f->window_cu_seqlens;
    args->group_rows = f->group_rows;
}

rvit_status rvit_forward_grid_relayout(forward *f)
{
    const rvit_session_plan *plan = f->plan;
    const rvit_stage_plan *stage = &plan->stages[f->stage - 1];
    const rvit_segment *before = &plan->segments[f->stage - 1];
    rvit_grid_relayout_args args = RVIT_GRID_RELAYOUT_ARGS_INIT;
    if (f->model->info.merge == 0)
        return RVIT_OK;
    args.n_images = plan->desc.max_images;
    args.n_windows = plan->max_windows;
    args.max_len = before->max_len;
    args.group_size = f->model->info.merge * f->model->info.merge;
    args.rows = before->rows;
    args.cu_seqlens = view(f, f->stage == 1 ? plan->cu_seqlens : plan->stages[f->stage - 2].cu_seqlens);
    args.out_cu_seqlens = f->cu_seqlens;
    args.src_rows = view(f, stage->src_rows);
    args.window_cu_seqlens = f->window_cu_seqlens;
    args.group_rows = f->group_rows;
    if (f->group_rows.buffer != NULL)
        args.keep = view(f, stage->keep);
    f->group_cu_seqlens = args.group_cu_seqlens = view(f, stage->group_cu_seqlens);
    if (f->window_cu_seqlens.buffer != NULL)
        f->window_cu_seqlens = args.out_window_cu_seqlens = view(f, stage->window_cu_seqlens);
    if (f->group_rows.buffer != NULL)
        f->group_rows = args.out_group_rows = view(f, stage->group_rows);
    return rvit_grid_relayout(f->stream, &args);
}
