/* The part of interface.h for shaders that choose, list and move rows: select, mean, bipartite_match, merge, positions, pack, unpack and
   grid_relayout. */
#ifndef RVIT_SHADERS_INTERFACE_PRUNE_H
#define RVIT_SHADERS_INTERFACE_PRUNE_H

#include "interface.h"

/* select.comp: a workgroup processes one image after another: it scores the rows and marks those to keep; the workgroup that finishes last
   lists them. Where a device can bind too few arrays for that, select_score.comp and select_fuse.comp do those steps, with bindings of
   their own. */
#define RVIT_SELECT_MODE 1  /* as rvit_select_mode */
#define RVIT_SELECT_SCORE 2 /* as rvit_score_type */
#define RVIT_SELECT_FLAGS 3
#define RVIT_SELECT_LONG 4 /* 1: images may have more rows than RVIT_NEAR_KEYS */
#define RVIT_SELECT_TOP_K_MODE 0
#define RVIT_SELECT_THRESHOLD_MODE 1
#define RVIT_SELECT_MASK_MODE 2
#define RVIT_SELECT_SAMPLE_MODE 3
#define RVIT_SELECT_MASS_MODE 4
#define RVIT_SELECT_GIVEN 0
#define RVIT_SELECT_L2 1
#define RVIT_SELECT_CLS_ATTENTION 2
#define RVIT_SELECT_CLS_NORM 3
#define RVIT_SELECT_PREDICTOR 4
#define RVIT_SELECT_POSITION 5
#define RVIT_SELECT_HAS_ERROR 1
#define RVIT_SELECT_HALF_X 2 /* x and weight are f16 */
#define RVIT_SELECT_HAS_FUSE 4
#define RVIT_SELECT_HALF_FUSE 8
#define RVIT_SELECT_PREFIX_COMPETES 16
#define RVIT_SELECT_WHOLE_MASS 32
#define RVIT_SELECT_ERROR_STAYS 64
#define RVIT_SELECT_HAS_ANCHORS 128
#define RVIT_SELECT_IMAGE_ERRORS 256
#define RVIT_SELECT_N_SCORED_BINDINGS 12
struct rvit_select_push {
    int n_images, max_len, rows, n_prefix;
    int threshold_key; /* the threshold, as a key of common/order.glsl */
    int amount;        /* THRESHOLD: k_min; SAMPLE: n_samples; MASS: the mass in units of 2^-32 */
    int n_heads;
    float inverse_heads;
    int dim4, x_stride4, fuse_dim4; /* elements / 4 */
    int anchor_columns;
    int group_size; /* rows that share the mean of their scores */
    float inverse_group_size;
    int cu_seqlens_at, input_at, keep_at, out_cu_seqlens_at, src_rows_at, counts_at, error_at; /* input: scores or keep_in */
    /* Offsets of cls_probs, weight or position_scores, in floats (a weight: in units of four elements); of bias or anchors, in words. */
    int x_at, table_at, bias_at, fuse_x_at;
    int n_dispatch_sizes, dispatch_sizes_at,
        rules_at; /* of the dispatch sizes that depend on the number of remaining rows; in words past the state */
};

/* grid_relayout.comp: a workgroup processes one image after another; threads take windows. */
#define RVIT_GRID_RELAYOUT_FLAGS 1
#define RVIT_GRID_RELAYOUT_HAS_WINDOWS 1
#define RVIT_GRID_RELAYOUT_HAS_GROUP_ROWS 2
#define RVIT_GRID_RELAYOUT_MAX_GROUPS 1024
#define RVIT_GRID_RELAYOUT_N_BINDINGS 9
struct rvit_grid_relayout_push {
    int n_images, max_len, rows, n_prefix;
    int n_windows, group_size;
    int cu_seqlens_at, out_cu_seqlens_at, src_rows_at, keep_at, window_cu_seqlens_at, group_rows_at, group_cu_seqlens_at;
    int out_window_cu_seqlens_at, out_group_rows_at;
};

/* mean.comp: a workgroup takes 4 * MEAN_COLUMNS columns of one image. */
#define RVIT_MEAN_COLUMNS 16
struct rvit_mean_push {
    int n_images, max_len, rows, n_prefix;
    int dim4, first4; /* elements / 4 */
    int n_blocks;     /* column blocks */
    int cu_seqlens_at, x_at;
};

/* bipartite_match.comp: a workgroup takes `share` consecutive images. */
#define RVIT_BIPARTITE_MATCH_HEAD_DIM 1
#define RVIT_BIPARTITE_MATCH_LONG 2
#define RVIT_BIPARTITE_MATCH_GROUP_SIZE 3
#define RVIT_BIPARTITE_MATCH_N_BINDINGS 9
struct rvit_bipartite_match_push {
    int n_images, max_len, rows, n_prefix;
    int n_heads, k_stride4, merges;
    int n_windows, windows_at;
    int share;
    int cu_seqlens_at, k_at, keep_at, out_cu_seqlens_at, src_rows_at, metric_at, next_rows_at;
    int n_dispatch_sizes, dispatch_sizes_at,
        rules_at; /* of the dispatch sizes that depend on the number of remaining rows; in words past the state */
};

/* merge.comp: a thread takes four elements of a row. */
#define RVIT_MERGE_HAS_SIZES 1
struct rvit_merge_push {
    int rows, live_at;
    int x_rows;
    int dim4; /* dim / 4 */
    int x_at, sizes_at, src_rows_at, next_rows_at, out_x_at, out_sizes_at, out_key_bias_at;
};

/* positions.comp */
#define RVIT_POSITIONS_FLAGS 1
#define RVIT_POSITIONS_HAS_KEEP 1
#define RVIT_POSITIONS_HAS_POSITIONS 2
struct rvit_positions_push {
    int rows, live_at;
    int source_rows, n_positions;
    int src_rows_at, keep_at, positions_at, out_at;
};

/* pack.comp: units are 16-byte or 4-byte words. */
struct rvit_pack_push {
    int rows, live_at;
    int source_rows;
    int row_units;
    int source_at, src_rows_at, destination_at;
};

/* unpack.comp: units are 8-byte words; a workgroup takes UNPACK_ROWS rows of the destination. */
#define RVIT_UNPACK_ROWS 1
#define RVIT_UNPACK_BASE_MODE 2
#define RVIT_UNPACK_FILL 0
#define RVIT_UNPACK_COPY_BASE 1
#define RVIT_UNPACK_IN_PLACE 2
struct rvit_unpack_push {
    int rows, live_at;
    int destination_rows, destination_live_at;
    int row_units;
    int fill; /* the bits of one unit's half: two f16 elements or one f32 */
    int source_at, src_rows_at, base_at, destination_at;
};

#endif
