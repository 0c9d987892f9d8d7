/* Windows of attention: the rows of an image are ordered by them from the first layout on, so that each is a stretch of rows, and only
   attention in blocks with windows knows of them. */
#include "core/vit_windows.h"

void rvit_plan_windows(const rvit_model *model, rvit_session_plan *plan)
{
    const int64_t window = model->merge.window, side = model->merge.side, area = side * side;
    if (window == 0)
        return;
    /* An image of n units has (n + window - 1) / window windows at most: it is thin then. No batch has more windows than units. */
    const int64_t units = plan->segments[0].rows / area, most = (units + (window - 1) * plan->desc.max_images) / window;
    const int64_t len = window * window * area, longest = plan->segments[0].max_len;
    plan->max_windows = (int32_t)(most < units ? most : units);
    plan->window_len = (int32_t)(len < longest ? len : longest);
}

rvit_reach rvit_forward_reach(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    if (rvit_model_has_windows(f->model, f->block))
        return (rvit_reach){plan->max_windows, plan->window_len, view(f, plan->window_cu_seqlens)};
    return (rvit_reach){plan->desc.max_images, f->max_len, f->cu_seqlens};
}

void rvit_forward_lay_out_units(const forward *f, rvit_grid_layout_args *args)
{
    const rvit_session_plan *plan = f->plan;
    const rvit_merge_config *merge = &f->model->merge;
    if (merge->side == 0)
        return;
    args->merge = merge->side;
    args->patch_merge = plan->desc.max_picture_bytes > 0; /* pictures are cut line after line */
    args->window = merge->window;
    args->max_windows = plan->max_windows;
    args->unit_cu_seqlens = view(f, plan->unit_cu_seqlens);
    args->window_cu_seqlens = view(f, plan->window_cu_seqlens);
    args->unit_rows = view(f, plan->unit_rows);
}
