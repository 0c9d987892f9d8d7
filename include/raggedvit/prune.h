/* Token pruning: scores, selection, and the policies built from them.

   A prune stage scores the rows of a ragged batch, selects the rows to keep and writes the layout of
   the kept rows: score -> select -> pack (or the gather of the next layernorm). No step involves the
   host. Prefix tokens (the first n_prefix rows of an image: CLS, distillation token, registers) are
   always kept. */
#ifndef RAGGEDVIT_PRUNE_H
#define RAGGEDVIT_PRUNE_H

#include <raggedvit/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The score of a row, computed in float32 for every row, prefix rows included. Sums have a fixed order,
   so L2, CLS_ATTENTION and POSITION are bit-equal on every backend for the same input. CLS_NORM and
   PREDICTOR use a square root, an exponential and a logarithm, whose last bit depends on the device. */
typedef enum rvit_score_type {
    RVIT_SCORE_GIVEN = 0, /* scores is an input */
    /* Sum over dim of x^2, the squared L2 norm: it ranks rows as the norm does, without the rounding of
       a root. Squares are added in 32 lanes (lane l takes elements l, l + 32, ...), then lane l += lane
       l + 16, 8, 4, 2, 1. */
    RVIT_SCORE_L2 = 1,
    /* The sum of cls_probs over the heads, in order, times the float32 value of 1 / n_heads. For a model
       without a CLS token, cls_probs may be the output of rvit_attention_received. */
    RVIT_SCORE_CLS_ATTENTION = 2,
    /* CLS_ATTENTION times the square root of L2 (ATS: x holds the value vectors of all heads). */
    RVIT_SCORE_CLS_NORM = 3,
    /* o = x weight^T + bias, two values; the score is log softmax(o)[0] (DynamicViT: column 0 means
       keep). */
    RVIT_SCORE_PREDICTOR = 4,
    /* position_scores[t - cu_seqlens[image]]: depends only on the row's position in its image. */
    RVIT_SCORE_POSITION = 5
} rvit_score_type;

typedef enum rvit_select_mode {
    RVIT_SELECT_TOP_K = 0,     /* the k best rows by (score descending, index ascending) */
    RVIT_SELECT_THRESHOLD = 1, /* rows with scores >= threshold, but at least the k_min best */
    RVIT_SELECT_MASK = 2,      /* keep_in, nonzero = keep; without scores */
    RVIT_SELECT_SAMPLE = 3,    /* inverse transform sampling (ATS, arXiv 2111.15667), see below */
    RVIT_SELECT_MASS = 4       /* the best rows, in TOP_K order, as long as their sum is at most mass
                                  times the sum of all rows; at least one */
} rvit_select_mode;

/* Scores rows and builds a layout from the scores or from a mask, in one pass. Kept rows stay in
   ascending order, and an empty image stays empty. -0 equals +0. A NaN score ranks lowest, never passes
   a threshold and is reported in error; a NaN in a prefix row that does not compete is ignored.

   Which fields a mode and a score read, besides cu_seqlens. Other fields are ignored, but anchors and
   fuse_x are INVALID_ARGUMENT where the table does not list them:

     mode       fields
     TOP_K      counts, prefix_competes, scores; optional: fuse_*, anchors (CLS_ATTENTION), group_size
     THRESHOLD  threshold, k_min, scores; optional: group_size
     MASK       keep_in
     SAMPLE     n_samples, scores
     MASS       mass, scores

     score          fields
     GIVEN          scores, an input
     L2             dtype, dim, x, x_stride
     CLS_ATTENTION  n_heads, cls_probs
     CLS_NORM       n_heads, cls_probs, dtype, dim, x, x_stride
     PREDICTOR      dtype, dim, x, x_stride, weight, bias
     POSITION       position_scores

   SAMPLE and MASS add scores as integers, so the order of addition does not matter and every backend
   makes the same choice from the same scores. Let a score be M 2^E, where M holds its 24 significant
   bits, and let F be the largest E among the competing rows of the image. The integer is
   (M << 8) >> (F - E). Scores must be finite and not negative; if there are two or more, at least one
   must be nonzero. Otherwise error reports the image, and the image keeps all its rows (MASS) or the
   first min(n_samples, n - 1) of its n competing rows (SAMPLE): no more than valid scores can keep, so a
   plan made for that many rows holds. Both modes are limited to images of 65,536 rows.

   SAMPLE ranks the n competing rows by (score ascending, index ascending). c[r] is the sum of ranks
   1..r, so c[0] = 0; y0 is the smallest c above 0. Sample k of n_samples is at
   y0 + k (c[n-1] - y0) / (n_samples - 1), or at y0 if n_samples is 1. It keeps the rank with the nearest
   c; ties go to the lowest rank. A single competing row is kept.

   With anchors, CLS_ATTENTION adds 2 to the scores of rows near an anchor, which ranks them before all
   others. The rows past the prefix of an image are patches 0..n-1 of a grid with anchor_columns columns,
   in raster order. A patch is near an anchor a if it is a, a - 1, a + 1, a - anchor_columns or
   a + anchor_columns, clamped to 0..n-1. Patches are thus neighbours across the ends of grid rows, and
   an anchor in the first or last grid row has patch 0 or n - 1 as a neighbour (HiPrune,
   arXiv 2508.00553). */
typedef struct rvit_select_args {
    size_t struct_size;
    rvit_select_mode mode;
    rvit_score_type score;
    int32_t n_images;
    int32_t max_len;         /* maximum length of an image, in rows */
    int64_t rows;            /* maximum number of rows of a batch */
    int32_t n_prefix;        /* leading rows of each image that are always kept */
    int32_t prefix_competes; /* TOP_K. 0: k counts only the rows past the prefix. 1: prefix rows
                                compete for the k places and are kept anyway, so k to k + n_prefix
                                rows stay (the paper's Threshold-L2) */
    float threshold;         /* THRESHOLD */
    int32_t k_min;           /* THRESHOLD: 0 or more; NaN counts as the lowest score */
    int32_t n_samples;       /* SAMPLE: 1..65536 */
    double mass;             /* MASS: 0..1, rounded to a multiple of 2^-32 */

    /* Inputs of the score. */
    rvit_dtype dtype;          /* of x and weight */
    int32_t dim;               /* L2, CLS_NORM, PREDICTOR: columns of x; multiple of 4 */
    int32_t n_heads;           /* CLS_ATTENTION, CLS_NORM */
    int64_t x_stride;          /* elements between rows of x; 0: dim */
    rvit_view x;               /* L2, CLS_NORM, PREDICTOR: [rows, dim] */
    rvit_view cls_probs;       /* CLS_ATTENTION, CLS_NORM: f32 [rows, n_heads], as written by
                                  rvit_attention */
    rvit_view weight;          /* PREDICTOR: [2, dim] */
    rvit_view bias;            /* PREDICTOR: f32 [2], 4-byte aligned */
    rvit_view position_scores; /* POSITION: f32 [max_len] */

    rvit_view counts;     /* TOP_K: int32 [max_len + 1]: counts[n] is k for n competing rows,
                             clamped to 0..n. rvit_count_table fills it with the rounding you choose */
    rvit_view scores;     /* f32 [rows]; an input for GIVEN, else an output. Absent for MASK */
    rvit_view keep_in;    /* MASK: uint8 [rows] */
    rvit_view cu_seqlens; /* int32 [n_images + 1], 4-byte aligned: the input layout */

    /* Optional, TOP_K: the fused token of EViT. If an image drops rows, the sum of score times row of
       fuse_x over the dropped rows, in ascending order, overwrites the first dropped row of fuse_x. The
       image gets one more row at its end, and that row is its source. keep still marks it as
       dropped. */
    rvit_dtype fuse_dtype;
    int32_t fuse_dim; /* multiple of 4 */
    rvit_view fuse_x; /* in and out: [rows, fuse_dim] */

    rvit_view keep;           /* out: uint8 [rows], 1 = kept; rows past the last one are not
                                 written */
    rvit_view out_cu_seqlens; /* out: int32 [n_images + 1], 4-byte aligned: the output layout; must
                                 not be cu_seqlens */
    rvit_view src_rows;       /* out: int32 [rows]: the input row of each output row; ascending
                                 except for fused rows */
    /* Optional out: int32 [1], 4-byte aligned. 0: no error. Otherwise the smallest of 1 + 3 * image (a
       NaN score), 2 + 3 * image (the mask drops a prefix token, which is kept anyway) and 3 + 3 * image
       (SAMPLE, MASS: scores that cannot be added). */
    rvit_view error;
    int32_t error_stays; /* 1: error is written only if there is one, so it survives later runs
                            without errors */

    int32_t anchor_columns; /* with anchors: 1 or more */
    rvit_view anchors;      /* optional, TOP_K by CLS_ATTENTION: uint8 [rows], nonzero = anchor; for
                               example keep of another call on the same rows */
    /* TOP_K and THRESHOLD by L2 or CLS_ATTENTION, without prefix, anchors and fuse_x: the rows of an image
       form groups of `group_size` consecutive rows, 2..64. Each row gets the mean score of its group: the sum in
       row order times the float32 value of 1 / group_size. Rows missing from the last group count as 0. Groups
       stay whole if counts holds multiples of group_size. 0, 1: no groups */
    int32_t group_size;
    /* 1: error is int32 [1 + n_images]. error[1 + image] is the error of that image: 0, 1 (NaN), 2 (mask)
       or 3 (sum). error_stays applies to each of them */
    int32_t image_errors;
} rvit_select_args;
#define RVIT_SELECT_ARGS_INIT RVIT_INIT(rvit_select_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_select(rvit_stream *stream, const rvit_select_args *args);

/* The merge groups and windows of rvit_grid_layout after a selection of whole groups of `group_size` rows. With
   src_rows and out_cu_seqlens as written by rvit_select for a batch whose layout is cu_seqlens:

     group_cu_seqlens            out_cu_seqlens / group_size
     out_window_cu_seqlens[w]   the first row of window w: the number of kept rows before window_cu_seqlens[w]
     out_group_rows              the kept groups in the order of group_rows, as indices among the kept groups */
typedef struct rvit_grid_relayout_args {
    size_t struct_size;
    int32_t n_images;
    int32_t n_windows;
    int32_t max_len;                 /* maximum length of an image before the selection, in rows */
    int32_t group_size;              /* rows of a group, 1..64 */
    int64_t rows;                    /* maximum number of rows before the selection, and the capacity of src_rows */
    rvit_view cu_seqlens;            /* int32 [n_images + 1], 4-byte aligned */
    rvit_view out_cu_seqlens;        /* int32 [n_images + 1], 4-byte aligned */
    rvit_view src_rows;              /* int32 [rows], ascending */
    rvit_view keep;                  /* uint8 [rows]; with group_rows */
    rvit_view window_cu_seqlens;     /* optional: int32 [n_windows + 1], 4-byte aligned */
    rvit_view group_rows;            /* optional: int32 [rows / group_size] */
    rvit_view group_cu_seqlens;      /* out: int32 [n_images + 1], 4-byte aligned */
    rvit_view out_window_cu_seqlens; /* out, with window_cu_seqlens: the same size */
    rvit_view out_group_rows;        /* out, with group_rows: the same size */
} rvit_grid_relayout_args;
#define RVIT_GRID_RELAYOUT_ARGS_INIT RVIT_INIT(rvit_grid_relayout_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_grid_relayout(rvit_stream *stream, const rvit_grid_relayout_args *args);

/* Replaces columns first_column .. dim-1 of every row by their mean over the rows of its image past the
   prefix, or by 0 if there are none: the global feature of DynamicViT's predictor. */
typedef struct rvit_mean_args {
    size_t struct_size;
    rvit_dtype dtype;
    int32_t n_images;
    int32_t max_len;      /* maximum length of an image, in rows */
    int64_t rows;         /* maximum number of rows of a batch */
    int32_t n_prefix;     /* leading rows of each image to leave out of the mean */
    int32_t dim;          /* multiple of 4 */
    int32_t first_column; /* multiple of 4, below dim */
    rvit_view cu_seqlens; /* int32 [n_images + 1], 4-byte aligned */
    rvit_view x;          /* in and out: [rows, dim] */
} rvit_mean_args;
#define RVIT_MEAN_ARGS_INIT RVIT_INIT(rvit_mean_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_mean(rvit_stream *stream, const rvit_mean_args *args);

/* Token merging (ToMe, arXiv 2210.09461), first half: bipartite matching. In an image of n rows, set A
   holds the rows at even positions and set B those at odd positions. The metric of a row is the sum of
   its keys over the heads, scaled to length 1 (a zero vector stays zero). Each row of A past the prefix
   is paired with the row of B past the prefix that has the largest dot product of metrics; ties go to
   the first. The min(merges, (n - n_prefix) / 2) rows of A with the largest dot products are merged into
   their partners; ties again go to the first. Output order: the prefix, the unmerged rows of A, the rows
   of B, each in ascending order.

   With group_size above 1, groups of `group_size` consecutive rows take the place of rows: A holds the groups at even
   positions, the similarity of two groups is the sum of the dot products of corresponding rows, merges
   counts groups, and row j of a group is merged into row j of its partner. n_prefix must be 0. Rows past
   the last whole group of an image are kept. The output rows ascend, so neighbours stay neighbours.

   With window_cu_seqlens, a group is merged only into a group of its own window. Groups without a partner
   in their window cannot be merged, so an image may merge fewer than (n / group_size) / 2 groups. */
typedef struct rvit_bipartite_match_args {
    size_t struct_size;
    rvit_dtype dtype; /* of k */
    int32_t n_images;
    int32_t max_len;  /* maximum length of an image, in rows */
    int64_t rows;     /* maximum number of rows of a batch */
    int32_t n_prefix; /* leading rows of each image that are never merged */
    int32_t n_heads;
    int32_t head_dim;         /* multiple of 8, 8..128 */
    int32_t merges;           /* rows (or groups) to merge in each image, 0 or more */
    int64_t k_stride;         /* elements between rows; 0: n_heads * head_dim */
    rvit_view k;              /* [rows, n_heads, head_dim] */
    rvit_view cu_seqlens;     /* int32 [n_images + 1], 4-byte aligned: the input layout */
    rvit_view metric;         /* out: f32 [rows, head_dim] */
    rvit_view keep;           /* out: uint8 [rows], 0 = merged into another row */
    rvit_view out_cu_seqlens; /* out: int32 [n_images + 1], 4-byte aligned: the output layout; must
                                 not be cu_seqlens */
    rvit_view src_rows;       /* out: int32 [rows]: the input row of each output row; entries past the
                                 last output row are undefined */
    /* Out: int32 [rows]: for each output row, the linked list of the input rows that are merged into it.
       Each entry is the next row of the list, or -1 at its end. The list of a kept row begins at that row
       and ascends. */
    rvit_view next_rows;
    int32_t group_size; /* rows of a group, up to 4; 0, 1: no groups */
    int32_t n_windows;  /* with window_cu_seqlens */
    /* Optional, with group_size above 1: int32 [n_windows + 1], 4-byte aligned, as written by rvit_grid_layout
       or rvit_grid_relayout */
    rvit_view window_cu_seqlens;
} rvit_bipartite_match_args;
#define RVIT_BIPARTITE_MATCH_ARGS_INIT RVIT_INIT(rvit_bipartite_match_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_bipartite_match(rvit_stream *stream, const rvit_bipartite_match_args *args);

/* Token merging, second half. out_x[t] is the mean of the rows in t's list, weighted by their sizes and
   added in list order (a single row is copied). out_sizes[t] is the sum of their sizes, and
   out_key_bias[t] is its natural logarithm, the bias that proportional attention adds to the logits of a
   merged token. A list that does not ascend (rvit_bipartite_match never writes one) is followed only up to its
   first descent. */
typedef struct rvit_merge_args {
    size_t struct_size;
    rvit_dtype dtype;       /* of x and out_x */
    rvit_rows rows;         /* of out_x */
    int64_t x_rows;         /* capacity of x in rows */
    int32_t dim;            /* multiple of 4 */
    rvit_view x;            /* [x_rows, dim] */
    rvit_view sizes;        /* optional: f32 [x_rows]; absent: all are 1 */
    rvit_view src_rows;     /* int32 [rows], as written by rvit_bipartite_match */
    rvit_view next_rows;    /* int32 [x_rows] */
    rvit_view out_x;        /* [rows, dim]; must not be x */
    rvit_view out_sizes;    /* f32 [rows]; must not be sizes */
    rvit_view out_key_bias; /* f32 [rows] */
} rvit_merge_args;
#define RVIT_MERGE_ARGS_INIT RVIT_INIT(rvit_merge_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_merge(rvit_stream *stream, const rvit_merge_args *args);

/* The positions, for rvit_rope, of the rows that remain after a prune stage. With r = src_rows[t],
       out[t] = -1                 if r is negative, or keep is present and 0 for row r
                positions[r]       otherwise, or r mod n_positions if positions is absent
   A row thus keeps its position through all stages. A row that others were merged into keeps its own
   position. A fused token, whose source is a dropped row, has no position. */
typedef struct rvit_positions_args {
    size_t struct_size;
    rvit_rows rows;      /* of out */
    int64_t source_rows; /* capacity of keep and positions in rows */
    int32_t n_positions; /* 1 or more: tokens per image of the unpruned batch. Not used with
                            positions */
    rvit_view src_rows;  /* int32 [rows], each below source_rows: as written by rvit_select or
                            rvit_bipartite_match */
    rvit_view keep;      /* optional: uint8 [source_rows], as written by the same call. Needed only
                            with fused tokens */
    rvit_view positions; /* optional: int32 [source_rows]: the output of the previous stage. Absent
                            in the first stage */
    rvit_view out;       /* int32 [rows]; must not be positions */
} rvit_positions_args;
#define RVIT_POSITIONS_ARGS_INIT RVIT_INIT(rvit_positions_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_positions(rvit_stream *stream, const rvit_positions_args *args);

/* Finds the patches that their neighbours predict (PixelPrune, arXiv 2604.00886), before anything is
   computed from them. A cell is a patch or, with merge 2, a block of 2 x 2 patches. Two cells are similar
   if all their values are equal or differ by at most the limit of the channel: |a - b| in float32; NaN is
   never similar. Cells are visited in raster order. With A the cell to the left, B the one above and C
   the one above A:
       the prediction is B if C is similar to A but not to B, or if there is no A; otherwise A
       the cell is kept, with all its rows, unless it is similar to its prediction
   The first cell of an image and all prefix tokens are kept.

   If all limits are 0, A, B and C are the pixels themselves, so dropped cells can be restored from kept
   ones, bit for bit. Otherwise A, B and C are reconstructions: a kept cell is its own, a dropped cell is
   the reconstruction of its prediction, and no value is further off than its limit. All backends mark the
   same cells.

   rvit_select with RVIT_SELECT_MASK makes the layout of the kept rows. */
typedef struct rvit_pixelprune_args {
    size_t struct_size;
    int32_t n_images;
    int32_t n_prefix;     /* 0..1024 */
    int32_t max_len;      /* maximum length of an image, in tokens */
    int32_t merge;        /* 0, 1 or 2, as for rvit_grid_layout */
    int64_t rows;         /* maximum number of tokens of a batch */
    int64_t patch_rows;   /* maximum number of patches of a batch; 0: rows */
    int32_t columns;      /* values of a patch; multiple of 4 */
    int32_t channels;     /* 1..4; must divide columns. 0: 1 */
    int32_t interleaved;  /* order of the values of a patch. 0: by channel; 1: by pixel */
    float limits[4];      /* one per channel, in the units of pixels: finite, 0 or more; 0 past the last channel */
    int64_t stride;       /* elements between rows of pixels, a multiple of 4; 0: columns */
    rvit_view cu_seqlens; /* int32 [n_images + 1], 4-byte aligned */
    rvit_view token_map;  /* int32 [rows, 4], as written by rvit_grid_layout */
    rvit_view pixels;     /* f32 [patch_rows, columns] */
    rvit_view keep;       /* out: uint8 [rows], 1 = kept; rows past the last one are not written */
    /* Out: int32 [patch_rows]: at the first patch row of each cell, the first patch row of the kept cell
       that reconstructs it; other entries are undefined. Absent if all limits are 0 */
    rvit_view sources;
    int32_t patch_merge; /* order of the patch rows, as for rvit_grid_layout */
    /* Optional: int32 [rows / merge^2], as written by rvit_grid_layout; requires n_prefix 0. Needed only if
       rows are ordered by windows and a limit is above 0 */
    rvit_view group_rows;
} rvit_pixelprune_args;
#define RVIT_PIXELPRUNE_ARGS_INIT RVIT_INIT(rvit_pixelprune_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_pixelprune(rvit_stream *stream, const rvit_pixelprune_args *args);

typedef enum rvit_count_rule {
    RVIT_COUNT_FLOOR = 0, /* trunc(n * keep) */
    RVIT_COUNT_CEIL = 1   /* ceil(keep * n) */
} rvit_count_rule;

/* Fills out_counts, int32 [max_n + 1], for RVIT_SELECT_TOP_K: out_counts[n] = rule(n, keep),
   computed in IEEE double as written (ceil(0.07 * 100) is 8) and clamped to min(k_min, n) .. n.
   INVALID_ARGUMENT unless 0 <= keep <= 1 and k_min >= 0. */
RVIT_API RVIT_NODISCARD rvit_status rvit_count_table(rvit_count_rule rule, double keep, int32_t k_min, int32_t max_n, int32_t *out_counts);

/* Prune policies. A policy defines where it prunes, which score it uses, how many rows it keeps and how it
   selects them. Below, n is the number of tokens of an image past the prefix at the start of the stage, N
   is that number for the unpruned image, and the values in parentheses are defaults.
   rvit_session_create returns UNSUPPORTED if the model lacks what a policy scores by: a CLS token,
   predictors or attention pooling. */
typedef enum rvit_prune_type {
    RVIT_PRUNE_NONE = 0,
    /* "l2". Threshold-L2 of arXiv 2604.15408: after one block (3), keeps the top trunc(keep * tokens) by L2
       norm. The CLS token competes and is always kept. keep (0.5). */
    RVIT_PRUNE_L2 = 1,
    /* "evit". EViT (arXiv 2202.07800) without the fused token: between attention and MLP of blocks (3, 6,
       9), keeps the top ceil(keep * n) by CLS attention, averaged over the heads. keep (0.7). */
    RVIT_PRUNE_EVIT = 2,
    /* "mask". After one block (3) or several, applies the mask passed with each run. */
    RVIT_PRUNE_MASK = 3,
    /* "evit-fused". As evit, plus one token: the sum of the dropped tokens, weighted by their CLS
       attention. Later stages score it and keep or drop it like any other token. */
    RVIT_PRUNE_EVIT_FUSED = 4,
    /* "evit-paper". The simplified EViT of arXiv 2604.15408: after one block (3), keeps the top
       max(1, trunc(keep * n)) by that block's CLS attention. keep (0.5). */
    RVIT_PRUNE_EVIT_PAPER = 5,
    /* "l2-threshold". After one block (3), keeps the tokens whose L2 norm is at least threshold, which is
       required. */
    RVIT_PRUNE_L2_THRESHOLD = 6,
    /* "dynamicvit". DynamicViT (arXiv 2106.02034): before blocks (3, 6, 9), keeps the top
       trunc(N * keep^(stage + 1)) by the checkpoint's predictors. keep (0.7). */
    RVIT_PRUNE_DYNAMICVIT = 7,
    /* "dynamicvit-gate". Before the same blocks, keeps the tokens whose keep probability exceeds threshold
       (0.5), but at least the best one. */
    RVIT_PRUNE_DYNAMICVIT_GATE = 8,
    /* "ats". Adaptive token sampling (arXiv 2111.15667): between attention and MLP of block (3) and all
       later blocks, inverse transform sampling of n_samples (N) points by CLS attention times value norm.
       The samples are about as dense as the tokens, so nearly every token is close to another choice: in
       16 bits or fewer, most images keep other tokens than in f32. Use f32 if the kept set matters
       (docs/pruning.md). */
    RVIT_PRUNE_ATS = 9,
    /* "ats-paper". The simplified ATS of arXiv 2604.15408: after one block (3), scores by that block's CLS
       attention times the norm of its output. Keeps the best up to mass (0.9) of the sum or, with keep, the
       top max(1, trunc(keep * n)). */
    RVIT_PRUNE_ATS_PAPER = 10,
    /* "tome". Token merging (arXiv 2210.09461): between attention and MLP of every block, merges the
       `merges` (8) most similar pairs. Later attention weights a token by the number of tokens merged into
       it. Vision encoders with merge groups (Qwen) merge whole groups, and in encoders with windowed
       attention only within a window. */
    RVIT_PRUNE_TOME = 11,
    /* "random". After one block (3), keeps max(1, trunc(keep * n)) tokens at random positions, which are the
       same for every image and for equal seeds. keep (0.5). */
    RVIT_PRUNE_RANDOM = 12,
    /* "received". Between attention and MLP of one block (3), keeps the top max(1, trunc(keep * n)) by the
       mean attention received in that block (rvit_attention_received), averaged over the heads. Needs no CLS token.
       keep (0.5). */
    RVIT_PRUNE_RECEIVED = 13,
    /* "fastervlm". FasterVLM (arXiv 2412.01818), which prunes the tokens passed to a language model: after
       the last block but one, keeps the top max(1, trunc(keep * n)) by that block's CLS attention, averaged
       over the heads. The blocks before it are not faster. For the paper's T tokens of N, use
       keep = (T + 0.5) / N, which no rounding turns into T - 1. keep (0.5). */
    RVIT_PRUNE_FASTERVLM = 14,
    /* "map-probe". For models with attention pooling (RVIT_POOLING_MAP): after the last block, keeps the
       top max(1, trunc(keep * n)) by the attention of the pooling query, averaged over the heads. In an
       earlier block, which is experimental, the output of the block goes through the final norm to the
       pooling query as if it were that of the last block. keep (0.5). */
    RVIT_PRUNE_MAP_PROBE = 15,
    /* "hiprune". HiPrune (arXiv 2508.00553), which prunes the tokens passed to a language model: after the
       last block but one, keeps T = max(1, trunc(keep * n)) tokens by mean attention received, averaged
       over the heads. The min(round(alpha * T / 5), trunc(T / 5)) tokens with the highest mean attention
       received in object_block, and their four grid neighbours (rvit_select_args.anchors), come first;
       round is half to even. Needs no CLS token and prunes in exactly one block. The blocks before it are
       not faster. keep (0.5), alpha (0.1). */
    RVIT_PRUNE_HIPRUNE = 16,
    /* "pixelprune". PixelPrune (arXiv 2604.00886): before block 0, drops the patches whose pixels their
       neighbours predict within tau (rvit_pixelprune). How many stay depends on the image. Requires
       rvit_session_desc.variable_resolution. tau (0). */
    RVIT_PRUNE_PIXELPRUNE = 17
} rvit_prune_type;

#define RVIT_PRUNE_MAX_STAGES 64

/* A policy and its parameters. A parameter with its default value is the policy's own. */
typedef struct rvit_prune_desc {
    size_t struct_size;
    rvit_prune_type type;
    int32_t n_blocks;                      /* number of entries in blocks. 0: the policy's default */
    int32_t blocks[RVIT_PRUNE_MAX_STAGES]; /* 0-based, strictly ascending; one prune stage per block */
    /* Kept fraction, 0..1. Negative (default): the policy's. 1 keeps everything and gives the result of no
       pruning: bit-equal if the session has fixed_batch, else up to rounding, because a GPU may use another
       GEMM algorithm between prune stages. */
    double keep;
    double threshold;     /* Negative (default): the policy's */
    double mass;          /* 0..1. Negative (default): the policy's */
    double alpha;         /* 0..1: the share of the kept tokens that object_block chooses. Negative (default): the policy's */
    int32_t object_block; /* 0-based, at most the block that prunes. Negative (default): the policy's */
    int32_t merges;       /* tokens merged into others at each stage; 0: none. Negative (default): the policy's */
    int32_t n_samples;    /* 0: the policy's */
    uint64_t seed;
    /* 0..1: how far a pixel may be from its prediction, with pixels of 0..1. 0: not at all. Otherwise an
       additional thousandth of tau (2^-10) allows for the rounding of normalised pixels, so n / 255
       allows n levels of 8 bits. The limit of a channel is tau (1 + 2^-10) / std in float32, where std is that
       of the session's image recipe. */
    double tau;
} rvit_prune_desc;
/* clang-format off */
#define RVIT_PRUNE_DESC_INIT \
    RVIT_INIT_WITH(rvit_prune_desc, .keep = -1.0, .threshold = -1.0, .mass = -1.0, .alpha = -1.0, .object_block = -1, .merges = -1)
/* clang-format on */

/* The fields of rvit_prune_desc that a policy uses. Setting another field to a value that is not
   its default is INVALID_ARGUMENT. */
typedef enum rvit_prune_parameter {
    RVIT_PRUNE_KEEP = 1,
    RVIT_PRUNE_BLOCKS = 2,
    RVIT_PRUNE_THRESHOLD = 4,
    RVIT_PRUNE_MASS = 8,
    RVIT_PRUNE_SAMPLES = 16,
    RVIT_PRUNE_MERGES = 32,
    RVIT_PRUNE_SEED = 64,
    RVIT_PRUNE_ALPHA = 128,
    RVIT_PRUNE_OBJECT_BLOCK = 256,
    RVIT_PRUNE_TAU = 512
} rvit_prune_parameter;

/* Describes a policy, for listings. */
typedef struct rvit_prune_info {
    size_t struct_size;
    rvit_prune_type type;
    int32_t parameters;        /* OR of rvit_prune_parameter values */
    const char *name;          /* "none", "l2", ...; static */
    const char *summary;       /* one line; static */
    const char *source;        /* where the policy was published; static */
    const char *site;          /* "after the block", "before the block" or "between attention and
                                  MLP"; static */
    double default_keep;       /* negative: no default; keep is unused or optional */
    int32_t n_default_blocks;  /* -1: default_blocks[0] and all later blocks of the model */
    int32_t default_blocks[4]; /* below 0: from the end of the model, -1 for its last block */
    double default_threshold;  /* negative: none */
    double default_mass;       /* negative: none */
    int32_t default_samples;   /* 0: the number of patches of the unpruned image */
    int32_t default_merges;
    double default_alpha;       /* negative: none */
    double default_object_part; /* object_block, counted from 1, is this part of the model's blocks,
                                   rounded half up, but at most the block that prunes; negative: none */
    double default_tau;         /* negative: none */
} rvit_prune_info;
#define RVIT_PRUNE_INFO_INIT RVIT_INIT(rvit_prune_info)
/* Policy number `index`, from 0. INVALID_ARGUMENT past the last one. */
RVIT_API RVIT_NODISCARD rvit_status rvit_prune_list(int32_t index, rvit_prune_info *out_info);

#ifdef __cplusplus
}
#endif
#endif
