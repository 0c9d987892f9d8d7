/* Token pruning: scores, selection, and the policies built from them.

   A prune stage scores the rows of a ragged batch, selects those to keep, and gives the layout of what is left: score -> select -> pack
   (or the gather of the next layernorm). Nothing in it needs the host. Prefix tokens (the first n_prefix rows of an image: CLS,
   distillation, registers) are always kept. */
#ifndef RAGGEDVIT_PRUNE_H
#define RAGGEDVIT_PRUNE_H

#include <raggedvit/ragged.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a row is judged by, computed for every row, prefix rows included, in float32. The sums have a fixed order, so L2, CLS_ATTENTION
   and POSITION have the same bits on every backend for the same input; CLS_NORM and PREDICTOR take a root, an exponential and a
   logarithm, whose last bit is the device's own. */
typedef enum rvit_score_type {
    RVIT_SCORE_GIVEN = 0,         /* scores is an input */
    RVIT_SCORE_L2 = 1,            /* sum over dim of x^2: the squared L2 norm, which ranks as the norm does without rounding a root. Squares
                                     are added in 32 lanes (lane l takes elements l, l + 32, ...), then lane l += lane l + 16, 8, 4, 2, 1 */
    RVIT_SCORE_CLS_ATTENTION = 2, /* cls_probs, the heads added in order, times the float32 value of 1 / n_heads */
    RVIT_SCORE_CLS_NORM = 3,      /* CLS_ATTENTION times the square root of L2 (ATS: x holds the value vectors, all heads) */
    RVIT_SCORE_PREDICTOR = 4,     /* o = x weight^T + bias, two values; the score is log softmax(o)[0] (DynamicViT: keep is column 0) */
    RVIT_SCORE_POSITION = 5       /* position_scores[t - cu_seqlens[image]]: scores that depend on the place in the image alone */
} rvit_score_type;

typedef enum rvit_select_mode {
    RVIT_SELECT_TOP_K = 0,     /* the k best by (score descending, index ascending) */
    RVIT_SELECT_THRESHOLD = 1, /* scores >= threshold, and at least the k_min best */
    RVIT_SELECT_MASK = 2,      /* keep_in: nonzero = keep; there are no scores */
    RVIT_SELECT_SAMPLE = 3,    /* inverse transform sampling (ATS, arXiv 2111.15667), see below */
    RVIT_SELECT_MASS = 4       /* the best, in that order, while their sum is at most mass times the sum of all; at least one */
} rvit_select_mode;

/* Scores rows and turns the scores, or a mask, into a layout: one pass. Kept rows stay in ascending order. -0 equals +0; a NaN score
   ranks lowest, is not kept by a threshold, and is reported in error. An empty image stays empty. NaN in a prefix row that does not
   compete is ignored.

   SAMPLE and MASS add scores as integers, so that the order of addition does not matter and every backend makes the same choice from
   the same scores. With M 2^E a score (M its 24 significant bits) and F the largest E of the image's competing rows, the integer is
   M << 8 shifted down by F - E, the bits below dropped. Scores must be finite, not negative, and of two or more not all 0; else error
   says so and the image keeps all its rows. SAMPLE ranks the n competing rows by (score ascending, index ascending), c[r] being the sum of
   ranks 1..r, so c[0] = 0; with y0 the smallest c above 0, sample k of n_samples stands at y0 + k (c[n-1] - y0) / (n_samples - 1) (at y0 if
   n_samples is 1) and keeps the rank with the nearest c, the lowest of equals. One competing row is kept. Both are limited to images of
   65,536 rows. */
typedef struct rvit_select_args {
    size_t struct_size;
    rvit_select_mode mode;
    rvit_score_type score;
    int32_t n_images;
    int32_t max_len;         /* no image is longer */
    int64_t rows;            /* no batch has more rows in all */
    int32_t n_prefix;        /* rows at the head of each image that are always kept */
    int32_t prefix_competes; /* TOP_K. 0: k counts the other rows only. 1: the prefix competes for the k places and is kept anyway,
                                so k to k + n_prefix rows stay (the Threshold-L2 of the paper) */
    float threshold;         /* THRESHOLD */
    int32_t k_min;           /* THRESHOLD; 0 or more; NaN counts as the lowest score */
    int32_t n_samples;       /* SAMPLE: 1..65536 */
    double mass;             /* MASS: 0..1, used as a multiple of 2^-32 */

    /* Inputs of the score. */
    rvit_dtype dtype;          /* of x and weight */
    int32_t dim;               /* L2, CLS_NORM, PREDICTOR: of x; multiple of 4 */
    int32_t n_heads;           /* CLS_ATTENTION, CLS_NORM */
    int64_t x_stride;          /* elements between rows of x; 0: dim */
    rvit_view x;               /* L2, CLS_NORM, PREDICTOR: [rows, dim] */
    rvit_view cls_probs;       /* CLS_ATTENTION, CLS_NORM: f32 [rows, n_heads], as rvit_attention writes it */
    rvit_view weight;          /* PREDICTOR: [2, dim] */
    rvit_view bias;            /* PREDICTOR: f32 [2], 4-byte aligned */
    rvit_view position_scores; /* POSITION: f32 [max_len] */

    rvit_view counts;     /* TOP_K: int32 [max_len + 1], k for each number n of competing rows; clamped to 0..n. Rounding rules
                             thus live on the host: see rvit_count_table */
    rvit_view scores;     /* f32 [rows]; GIVEN: in, else out. Not with MASK */
    rvit_view keep_in;    /* MASK: uint8 [rows] */
    rvit_view cu_seqlens; /* int32 [n_images + 1], 4-byte aligned: the layout before */

    /* Optional, TOP_K: the fused token of EViT. Where an image drops rows, the sum over them, in ascending order, of score times row
       of fuse_x takes the place of the first dropped row in fuse_x, and the image gets one row more, its last, whose source is that
       row. keep marks it as dropped. */
    rvit_dtype fuse_dtype;
    int32_t fuse_dim; /* multiple of 4 */
    rvit_view fuse_x; /* in and out: [rows, fuse_dim] */

    rvit_view keep;           /* out: uint8 [rows], 1 = kept; rows past the last are left alone */
    rvit_view out_cu_seqlens; /* out: int32 [n_images + 1], 4-byte aligned: the layout after; not cu_seqlens */
    rvit_view src_rows;       /* out: int32 [rows]: for each row after, its row before; ascending but for fused rows */
    rvit_view error;          /* optional out: int32 [1], 4-byte aligned: 0, or 1 + 3 * image (a NaN score), 2 + 3 * image (a given
                                 mask drops a prefix token; it is kept all the same), 3 + 3 * image (SAMPLE, MASS: scores that cannot be
                                 added up): the smallest such value */
    int32_t error_stays;      /* 1: error is written only where there is one, so that it outlasts runs without */
} rvit_select_args;
#define RVIT_SELECT_ARGS_INIT RVIT_INIT(rvit_select_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_select(rvit_stream *stream, const rvit_select_args *args);

/* In each image, the columns first_column .. dim-1 of every row become their mean over the image's rows past the prefix (0 if there are
   none): the global feature of DynamicViT's predictor. */
typedef struct rvit_mean_args {
    size_t struct_size;
    rvit_dtype dtype;
    int32_t n_images;
    int32_t max_len;      /* no image is longer */
    int64_t rows;         /* no batch has more rows in all */
    int32_t n_prefix;     /* rows at the head of each image that do not count */
    int32_t dim;          /* multiple of 4 */
    int32_t first_column; /* multiple of 4, below dim */
    rvit_view cu_seqlens; /* int32 [n_images + 1], 4-byte aligned */
    rvit_view x;          /* in and out: [rows, dim] */
} rvit_mean_args;
#define RVIT_MEAN_ARGS_INIT RVIT_INIT(rvit_mean_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_mean(rvit_stream *stream, const rvit_mean_args *args);

/* Token merging (ToMe, arXiv 2210.09461), first half: finds the pairs. In an image of n rows, the rows of even place are A, of odd place B.
   The metric of a row is the sum of its keys over the heads, scaled to length 1 (a zero vector stays zero). Each row of A that is not of
   the prefix takes the row of B, not of the prefix, with the largest dot product of metrics, of equals the first. The min(merges, (n -
   n_prefix) / 2) rows of A with the largest products, of equals the first, are merged into theirs. What is left is ordered: the prefix, the
   unmerged rows of A, those of B, each in ascending order. */
typedef struct rvit_match_args {
    size_t struct_size;
    rvit_dtype dtype; /* of k */
    int32_t n_images;
    int32_t max_len;  /* no image is longer */
    int64_t rows;     /* no batch has more rows in all */
    int32_t n_prefix; /* 1 or more */
    int32_t n_heads;
    int32_t head_dim;         /* multiple of 8, 8..128 */
    int32_t merges;           /* rows to merge away in each image, 0 or more */
    int64_t k_stride;         /* elements between rows; 0: n_heads * head_dim */
    rvit_view k;              /* [rows, n_heads, head_dim] */
    rvit_view cu_seqlens;     /* int32 [n_images + 1], 4-byte aligned: the layout before */
    rvit_view metric;         /* out: f32 [rows, head_dim] */
    rvit_view keep;           /* out: uint8 [rows], 0 = merged into another */
    rvit_view out_cu_seqlens; /* out: int32 [n_images + 1], 4-byte aligned: the layout after; not cu_seqlens */
    rvit_view src_rows;       /* out: int32 [rows]: for each row after, its row before; what lies past them is undefined */
    rvit_view next_rows; /* out: int32 [rows]: for a row before, the next row that is merged to the same, -1 at the end. The list of a kept
                            row begins at itself and goes on in ascending order */
} rvit_match_args;
#define RVIT_MATCH_ARGS_INIT RVIT_INIT(rvit_match_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_match(rvit_stream *stream, const rvit_match_args *args);

/* Second half. A list that does not ascend (of no match) is followed up to where it turns. out_x[t] is the mean of the rows of t's list,
   weighted by their sizes, added in the order of the list (a row alone is copied), out_sizes[t] the sum of their sizes, out_key_bias[t] its
   natural logarithm: what attention adds to the logits of a token that stands for several. */
typedef struct rvit_merge_args {
    size_t struct_size;
    rvit_dtype dtype;       /* of x and out_x */
    rvit_rows rows;         /* of out_x */
    int64_t x_rows;         /* rows x holds at most */
    int32_t dim;            /* multiple of 4 */
    rvit_view x;            /* [x_rows, dim] */
    rvit_view sizes;        /* optional: f32 [x_rows]; absent: all 1 */
    rvit_view src_rows;     /* int32 [rows], as rvit_match gives them */
    rvit_view next_rows;    /* int32 [x_rows] */
    rvit_view out_x;        /* [rows, dim]; not x */
    rvit_view out_sizes;    /* f32 [rows]; not sizes */
    rvit_view out_key_bias; /* f32 [rows] */
} rvit_merge_args;
#define RVIT_MERGE_ARGS_INIT RVIT_INIT(rvit_merge_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_merge(rvit_stream *stream, const rvit_merge_args *args);

typedef enum rvit_count_rule {
    RVIT_COUNT_FLOOR = 0, /* trunc(n * keep) */
    RVIT_COUNT_CEIL = 1   /* ceil(keep * n) */
} rvit_count_rule;

/* Fills out_counts int32 [max_n + 1] for RVIT_SELECT_TOP_K: out_counts[n] = rule(n, keep) in IEEE double as written (ceil(0.07 * 100)
   is 8), clamped to min(k_min, n) .. n. INVALID_ARGUMENT unless 0 <= keep <= 1 and k_min >= 0. */
RVIT_API RVIT_NODISCARD rvit_status rvit_count_table(rvit_count_rule rule, double keep, int32_t k_min, int32_t max_n, int32_t *out_counts);

/* How a model is pruned. A policy says where it scores, what it scores, how it counts and how it selects; the table in core/policy.c
   holds one row for each. n is the number of an image's tokens past the prefix when the stage begins, N that of the unpruned image. */
typedef enum rvit_prune_type {
    RVIT_PRUNE_NONE = 0,
    RVIT_PRUNE_L2 = 1,         /* "l2". Threshold-L2 of arXiv 2604.15408: after a block (3), the top trunc(keep * tokens) by L2 norm,
                                  where the CLS token competes and is then kept in any case. keep 0.5 */
    RVIT_PRUNE_EVIT = 2,       /* "evit". EViT (arXiv 2202.07800) without the fused token: between attention and MLP of blocks 3, 6, 9,
                                  the top ceil(keep * n) by the CLS attention, mean over heads. keep 0.7 */
    RVIT_PRUNE_MASK = 3,       /* "mask". After a block (3) or several, the mask given with each run */
    RVIT_PRUNE_EVIT_FUSED = 4, /* "evit-fused". As evit, and the dropped tokens' sum, weighted by their CLS attention, is a token more
                                  that is scored and kept or dropped like others in later stages */
    RVIT_PRUNE_EVIT_PAPER = 5, /* "evit-paper". The stand-in of arXiv 2604.15408: after a block (3), the top max(1, trunc(keep * n)) by
                                  that block's CLS attention. keep 0.5 */
    RVIT_PRUNE_L2_THRESHOLD =
        6,                     /* "l2-threshold". After a block (3), the tokens whose L2 norm is at least threshold, which must be given */
    RVIT_PRUNE_DYNAMICVIT = 7, /* "dynamicvit". DynamicViT (arXiv 2106.02034): before blocks 3, 6, 9, the top trunc(N * keep^(stage + 1))
                                  by the checkpoint's predictors. keep 0.7 */
    RVIT_PRUNE_DYNAMICVIT_GATE = 8, /* "dynamicvit-gate". At the same places, the tokens whose keep probability is above threshold (0.5), at
                                       least the best one */
    RVIT_PRUNE_ATS = 9,             /* "ats". Adaptive token sampling (arXiv 2111.15667): between attention and MLP of blocks 3 to the last,
                                       inverse transform sampling of n_samples (N) points by CLS attention times value norm */
    RVIT_PRUNE_ATS_PAPER = 10,      /* "ats-paper". The stand-in of arXiv 2604.15408: after a block (3), by that block's CLS attention times
                                       the norm of its output, the best up to mass (0.9) of the sum; with keep given, the top
                                       max(1, trunc(keep * n)) */
    RVIT_PRUNE_TOME = 11,  /* "tome". Token merging (arXiv 2210.09461): between attention and MLP of every block, the merges (8) most
                              similar pairs are merged; later attention counts a token as often as it stands for */
    RVIT_PRUNE_RANDOM = 12 /* "random". After a block (3), max(1, trunc(keep * n)) tokens at random places, the same for every image
                              and for equal seeds. keep 0.5 */
} rvit_prune_type;

#define RVIT_PRUNE_MAX_STAGES 64

typedef struct rvit_prune_desc {
    size_t struct_size;
    rvit_prune_type type;
    /* Kept fraction, 0..1; negative: the policy's default. 1 keeps everything and equals no pruning: bit for bit if the session's batch is
       fixed, else to rounding, because a GPU may then choose GEMM kernels by the number of rows, stage by stage. */
    double keep;
    int32_t n_blocks;                      /* entries of blocks; 0: the policy's default */
    int32_t blocks[RVIT_PRUNE_MAX_STAGES]; /* 0-based, strictly ascending, one prune stage each */
    double threshold;                      /* negative: the policy's default */
    double mass;                           /* 0..1; negative: the policy's default */
    int32_t n_samples;                     /* 0: the policy's default */
    int32_t merges;                        /* tokens merged away at each stage, 0: none; negative: the policy's default */
    uint64_t seed;
    int64_t reserved[8]; /* 0: room to grow, since the desc stands inside others */
} rvit_prune_desc;
/* clang-format off */
#define RVIT_PRUNE_DESC_INIT {sizeof(rvit_prune_desc), RVIT_PRUNE_NONE, -1.0, 0, {0}, -1.0, -1.0, 0, -1, 0, {0}}
/* clang-format on */

/* Which fields of a desc a policy looks at; setting another to a value that is not its default is INVALID_ARGUMENT. */
typedef enum rvit_prune_parameter {
    RVIT_PRUNE_KEEP = 1,
    RVIT_PRUNE_BLOCKS = 2,
    RVIT_PRUNE_THRESHOLD = 4,
    RVIT_PRUNE_MASS = 8,
    RVIT_PRUNE_SAMPLES = 16,
    RVIT_PRUNE_MERGES = 32,
    RVIT_PRUNE_SEED = 64
} rvit_prune_parameter;

/* A policy as listed to a user. */
typedef struct rvit_prune_info {
    size_t struct_size;
    rvit_prune_type type;
    int32_t parameters;       /* rvit_prune_parameter, added up */
    const char *name;         /* "none", "l2", ...: static */
    const char *summary;      /* one line: static */
    const char *source;       /* where it is defined: static */
    const char *site;         /* "after the block", "before the block", "between attention and MLP": static */
    double default_keep;      /* negative: must not be, or need not be, given */
    int32_t n_default_blocks; /* -1: from default_blocks[0] to the last block of the model */
    int32_t default_blocks[4];
    double default_threshold; /* negative: none */
    double default_mass;      /* negative: none */
    int32_t default_samples;  /* 0: as many as the unpruned image has patches */
    int32_t default_merges;
} rvit_prune_info;
#define RVIT_PRUNE_INFO_INIT RVIT_INIT(rvit_prune_info)
/* The index-th policy, from 0; INVALID_ARGUMENT past the last. */
RVIT_API RVIT_NODISCARD rvit_status rvit_prune_list(int32_t index, rvit_prune_info *out_info);
/* The type of a name; INVALID_ARGUMENT lists the names there are. */
RVIT_API RVIT_NODISCARD rvit_status rvit_prune_from_name(const char *name, rvit_prune_type *out_type);

#ifdef __cplusplus
}
#endif
#endif
