/* The part of interface.h for shaders that use the patch grids of images: grid_layout, pixelprune, embed, grid_rope. */
#ifndef RVIT_SHADERS_INTERFACE_GRIDS_H
#define RVIT_SHADERS_INTERFACE_GRIDS_H

#include "interface.h"

#define RVIT_GRID_MAX_SIDE 32767 /* of a patch grid */

/* grid_layout.comp: a workgroup takes per_group of the n_images + 1 entries of the layouts, and adds up the images before them itself. */
#define RVIT_GRID_LAYOUT_FLAGS 1
#define RVIT_GRID_LAYOUT_HAS_LIVE 1
#define RVIT_GRID_LAYOUT_HAS_PATCHES 2
#define RVIT_GRID_LAYOUT_HAS_CELLS 4
#define RVIT_GRID_LAYOUT_HAS_GROUPS 8
#define RVIT_GRID_LAYOUT_HAS_WINDOWS 16
#define RVIT_GRID_LAYOUT_HAS_GROUP_ROWS 32
#define RVIT_GRID_LAYOUT_LINE_BY_LINE 64 /* patch rows are in raster order, whatever merge is */
#define RVIT_GRID_LAYOUT_MAX_GROUPS 256
struct rvit_grid_layout_push {
    int n_images, live_at;
    int n_prefix, max_len, merge, rows, patch_rows, per_group;
    int grids_at, cu_seqlens_at, patch_cu_seqlens_at, token_map_at; /* grids_at in units of two, token_map_at in units of four */
    int window, max_windows, group_cu_seqlens_at, window_cu_seqlens_at, group_rows_at;
};

/* embed.comp: a workgroup takes a row. */
#define RVIT_EMBED_RESAMPLE 1 /* as rvit_resample; 0: no table. Values without a name here are bilinear */
#define RVIT_EMBED_BICUBIC 1
#define RVIT_EMBED_BICUBIC_ANTIALIAS 3
#define RVIT_EMBED_BILINEAR_ANTIALIAS 4
#define RVIT_EMBED_ALIGN_CORNERS 5
#define RVIT_EMBED_NEAREST 6
#define RVIT_EMBED_MAX_TABLE 512 /* per side */
struct rvit_embed_push {
    int rows, live_at;
    int patch_rows, dim4, n_prefix, table_height, table_width; /* dim4: dim / 4 */
    int token_map_at, patches_at, prefix_at, table_at, out_at;
};

/* pixelprune.comp: a team of threads takes a merge group at a time. `groups` workgroups share an image, with at most PIXELPRUNE_TURNS
   merge groups per team; or a single one takes all of them, diagonal by diagonal. */
#define RVIT_PIXELPRUNE_TEAM 32
#define RVIT_PIXELPRUNE_TURNS 4
#define RVIT_PIXELPRUNE_FLAGS 1
#define RVIT_PIXELPRUNE_RECONSTRUCTS 1
#define RVIT_PIXELPRUNE_IS_INTERLEAVED 2
#define RVIT_PIXELPRUNE_BY_LINES 4 /* patch rows are in raster order, whatever the merge groups are */
#define RVIT_PIXELPRUNE_HAS_GROUP_ROWS 8
struct rvit_pixelprune_push {
    int n_images, n_prefix, max_len, rows;
    int patch_rows, merge, columns4, stride4, channels, groups;
    float limit_0, limit_1, limit_2, limit_3;
    int cu_seqlens_at, token_map_at, pixels_at, keep_at, sources_at, group_rows_at;
};

/* grid_rope.comp: a thread computes a cosine and its sine. */
#define RVIT_GRID_ROPE_FLAGS 1
#define RVIT_GRID_ROPE_IS_CENTRED 1
#define RVIT_GRID_ROPE_IS_XY 2
struct rvit_grid_rope_push {
    int rows, live_at;
    int pairs; /* head_dim / 2 */
    float offset, reference_height, reference_width;
    int token_map_at, frequencies_at, out_at; /* frequencies_at in units of two */
};

#endif
