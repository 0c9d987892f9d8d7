/* Attention windows in sessions of variable resolution. */
#ifndef RVIT_CORE_FORWARD_WINDOWS_H
#define RVIT_CORE_FORWARD_WINDOWS_H

#include "core/forward/forward.h"

/* The ranges of rows that attend to each other: images, or windows of images. */
typedef struct rvit_attention_ranges {
    int32_t n, max_len;
    rvit_view cu_seqlens; /* [n + 1] */
} rvit_attention_ranges;

/* The ranges for the block being recorded. */
rvit_attention_ranges rvit_forward_attention_ranges(const forward *f);
/* Sets the args of the batch layout for merge groups and windows. */
void rvit_forward_lay_out_groups(const forward *f, rvit_grid_layout_args *args);
/* Updates merge groups and windows after a stage. */
rvit_status rvit_forward_grid_relayout(forward *f);

#endif
