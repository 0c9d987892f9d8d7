/* Ops on images of different sizes: the layout of a batch from the grids of its images, the input of
   the first block, and the angles of rotary positions. The grids are on the device, so that a
   recorded program serves every set of sizes:

     rvit_grid_layout  grids -> cu_seqlens, and cells: where in its image each row lies
     rvit_linear       patches -> their embedding; live: the last entry of patch_cu_seqlens
     rvit_embed        cells, embedding -> rows: prefix tokens, and patches with their positions
     rvit_grid_rope    cells -> the table of rvit_rope, one line for each row of the batch

   Rotary positions and pruning: with this table, the position of a row is its number in the unpruned
   batch. rvit_rope takes n_positions = the rows of the table, n_prefix 0 and, as long as no row was
   dropped, no positions. rvit_positions, with the same n_positions, carries them through prune
   stages. */
#ifndef RAGGEDVIT_GRIDS_H
#define RAGGEDVIT_GRIDS_H

#include <raggedvit/ragged.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of a batch. The grid of an image is gh rows of gw patches. Image i has
       n_prefix + gh * gw   rows, its tokens: the prefix, then the patches; none if gh * gw is 0
       gh * gw              patch rows
   cu_seqlens and patch_cu_seqlens are the layouts of these two.

   A square of merge * merge patches is a unit. With window, the rows of an image are ordered by windows
   of window * window units: windows line after line, those at the right and bottom edges smaller; the
   units of a window line after line (Qwen2.5-VL). Attention within windows takes window_cu_seqlens for
   its layout, max_windows images and (merge * window)^2 for its max_len. rvit_pack with unit_rows, of
   merge * merge rows as one, brings rows back to the order of merge.

   Whatever grids holds, the layouts fit the capacities and no array is left. A side below 0 counts as
   0, one above 32,767 as 32,767, and one that merge does not divide as the multiple below it. An
   image of more than max_len tokens loses the last of them, but not their patch rows, so that the
   other images keep theirs. Tokens past `rows` and patch rows past `patch_rows` do not exist.
   debug_checks reports such grids. */
typedef struct rvit_grid_layout_args {
    size_t struct_size;
    int32_t n_images;           /* capacity in images */
    int32_t n_prefix;           /* 0..1024 */
    int32_t max_len;            /* maximum length of an image, in tokens */
    int32_t merge;              /* order of the patches of an image. 0 or 1: line after line. 2: 2 x 2 blocks,
                                   line after line of blocks, each block line after line (Qwen) */
    int64_t rows;               /* maximum number of tokens of a batch */
    int64_t patch_rows;         /* maximum number of patches of a batch; 0: rows */
    rvit_view live_images;      /* optional: int32 [1], 4-byte aligned: number of images present, read
                                   when the op runs and clamped to 0..n_images. The others are empty,
                                   whatever their grids hold */
    rvit_view grids;            /* int32 [n_images, 2]: gh, gw; 8-byte aligned */
    rvit_view cu_seqlens;       /* out: int32 [n_images + 1], 4-byte aligned */
    rvit_view patch_cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned */
    rvit_view cells;            /* optional out: int32 [rows, 4], of each token:
                                     its patch row; of prefix token k, -1 - k
                                     its image
                                     y * 65536 + x, its line and column in the grid; of a prefix token 0
                                     gh * 65536 + gw
                                   Rows past the last token are not written */
    int32_t patch_merge;        /* order of the patch rows: 0: that of merge, whatever window; 1: line after line */
    int32_t window;             /* units a side of a window, 0..16384; 0: none. Above 0 n_prefix is 0 */
    int32_t max_windows;        /* maximum number of windows of a batch, 0..2^30. (rows / merge^2 + (window - 1) * n_images) /
                                   window are always enough */
    /* Optional outs; n_prefix is then 0, and max_len, rows and patch_rows count whole units alone. */
    rvit_view unit_cu_seqlens;   /* int32 [n_images + 1], 4-byte aligned: cu_seqlens / merge^2 */
    rvit_view window_cu_seqlens; /* int32 [max_windows + 1], 4-byte aligned: the first row of each window; the number of
                                    rows past the last window. Windows past max_windows do not exist */
    rvit_view unit_rows;         /* int32 [rows / merge^2]: for each unit, line after line of its image, the number of the
                                    unit among those of the rows. Units past the last are not written */
} rvit_grid_layout_args;
#define RVIT_GRID_LAYOUT_ARGS_INIT RVIT_INIT(rvit_grid_layout_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_grid_layout(rvit_stream *stream, const rvit_grid_layout_args *args);

/* How a position table is resampled to another grid. Each axis is resampled by itself. With G the
   table's side, g the grid's and i the line or column, the source is (i + 0.5) G / g - 0.5 unless it
   says otherwise. Taps outside the table repeat its edge; an antialiased kernel widens by max(G / g, 1),
   leaves them out, and is divided by the sum of its weights. */
typedef enum rvit_resample {
    RVIT_RESAMPLE_DEFAULT = 0,            /* as the code that the tensors' names belong to */
    RVIT_RESAMPLE_BICUBIC = 1,            /* bicubic (a = -0.75), as in Hugging Face and the original code of
                                             DeiT and EViT */
    RVIT_RESAMPLE_BILINEAR = 2,           /* bilinear, as in the original code of DynamicViT and ATS */
    RVIT_RESAMPLE_TIMM = 3,               /* antialiased bicubic (a = -0.5), as in timm and in Hugging Face's
                                             DINOv2 with registers */
    RVIT_RESAMPLE_BILINEAR_ANTIALIAS = 4, /* antialiased bilinear, as in SigLIP2 NaFlex */
    RVIT_RESAMPLE_ALIGN_CORNERS = 5,      /* bilinear; the source is i (G - 1) / (g - 1), as in Qwen3-VL */
    RVIT_RESAMPLE_NEAREST = 6             /* the entry floor(i G / g), as in Idefics and MiniCPM-V */
} rvit_resample;

/* The rows that the first block of a ViT takes. Of row t, with cells as rvit_grid_layout writes it,
       out[t, :] = prefix[k, :]                        if it is prefix token k
                   patches[p, :] + position(y, x)[:]   if its patch row is p
   position(y, x) is the table resampled to the image's own grid: for each line of the table the sum
   over columns, then the sum over lines, in float32 and in ascending order. On the table's own grid it
   is the table, bit for bit. A row depends on its own image alone. Patch rows of patch_rows or more,
   and prefix tokens of n_prefix or more, are read as the last there is; without one, out is 0. */
typedef struct rvit_embed_args {
    size_t struct_size;
    rvit_dtype dtype;       /* of patches */
    rvit_rows rows;         /* of out */
    int64_t patch_rows;     /* capacity of patches in rows */
    int32_t dim;            /* multiple of 4 */
    int32_t n_prefix;       /* 0..1024 */
    rvit_resample resample; /* not DEFAULT; not used without table */
    int32_t table_height;   /* 1..512; not used without table */
    int32_t table_width;
    rvit_view cells;   /* int32 [rows, 4] */
    rvit_view patches; /* [patch_rows, dim]: the patch embedding */
    rvit_view prefix;  /* f32 [n_prefix, dim]: the prefix tokens, their positions added. Absent if
                          n_prefix is 0 */
    rvit_view table;   /* optional: f32 [table_height, table_width, dim] */
    rvit_view out;     /* f32 [rows, dim] */
} rvit_embed_args;
#define RVIT_EMBED_ARGS_INIT RVIT_INIT(rvit_embed_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_embed(rvit_stream *stream, const rvit_embed_args *args);

/* What the coordinate of a patch on an axis is: with i its line or column, g the grid's side. */
typedef enum rvit_rope_coordinates {
    RVIT_ROPE_INDEX = 0,  /* i + offset; with a reference, (i + offset) / g * reference. In radians
                             (Qwen; EVA02: reference 16; PE: offset 1, the trained grid) */
    RVIT_ROPE_CENTRED = 1 /* 2 (i + 0.5 + offset) / g - 1, in turns (DINOv3) */
} rvit_rope_coordinates;

/* The axis that the first half of the angles belongs to, then the other. */
typedef enum rvit_rope_order { RVIT_ROPE_YX = 0, RVIT_ROPE_XY = 1 } rvit_rope_order;

/* The table of rvit_rope for a batch of images of different grids. Pair j < head_dim / 4 of an axis
   turns by the patch's coordinate on that axis times frequencies[j]. The fraction of a turn is right
   to 2^-27, however many turns there are. Rows of prefix tokens turn nothing: cosines 1, sines 0. */
typedef struct rvit_grid_rope_args {
    size_t struct_size;
    rvit_rows rows;   /* of out */
    int32_t head_dim; /* multiple of 8, 8..128 */
    rvit_rope_coordinates coordinates;
    rvit_rope_order order;
    float offset;           /* finite */
    float reference_height; /* side of a grid, 0 or more and finite; 0: none. INDEX only */
    float reference_width;
    rvit_view cells;       /* int32 [rows, 4], as rvit_grid_layout writes it */
    rvit_view frequencies; /* f32 [head_dim / 4, 2], from rvit_rope_frequencies: turns for a coordinate
                              of 1, each the sum of two numbers */
    rvit_view out;         /* f32 [rows, head_dim]: the cosines of a row's head_dim / 2 angles, then
                              their sines */
} rvit_grid_rope_args;
#define RVIT_GRID_ROPE_ARGS_INIT RVIT_INIT(rvit_grid_rope_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_grid_rope(rvit_stream *stream, const rvit_grid_rope_args *args);

/* Fills out, f32 [head_dim / 4, 2] in host memory: base^(-4 j / head_dim), in turns for coordinates of
   this kind. INVALID_ARGUMENT unless base is finite and above 0 and head_dim is a multiple of 8,
   8..128. */
RVIT_API RVIT_NODISCARD rvit_status rvit_rope_frequencies(rvit_rope_coordinates coordinates, double base, int32_t head_dim, float *out);

#ifdef __cplusplus
}
#endif
#endif
