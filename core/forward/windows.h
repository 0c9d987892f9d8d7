/* Windows of attention in native sessions. */
#ifndef RVIT_CORE_FORWARD_WINDOWS_H
#define RVIT_CORE_FORWARD_WINDOWS_H

#include "core/forward/forward.h"

/* What the rows of one attention reach: images, or windows of them. */
typedef struct rvit_reach {
    int32_t n, max_len;
    rvit_view cu_seqlens; /* [n + 1] */
} rvit_reach;

/* Of the block being recorded. */
rvit_reach rvit_forward_reach(const forward *f);
/* What the layout of a batch says of units and windows. */
void rvit_forward_lay_out_groups(const forward *f, rvit_grid_layout_args *args);
/* Squares and windows of what the stage before this segment has left. */
rvit_status rvit_forward_regroup(forward *f);

#endif
