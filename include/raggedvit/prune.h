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

typedef enum rvit_score_type {
    RVIT_SCORE_L2 = 0,           /* sum over dim of x^2: the squared L2 norm, which ranks as the norm does without rounding a root */
    RVIT_SCORE_CLS_ATTENTION = 1 /* mean over heads of the CLS row's attention probabilities */
} rvit_score_type;

/* scores[t] for every row, prefix rows included, in float32 and in a fixed order, so that every backend gives the same bits for the
   same input: L2 adds the squares in 32 lanes (lane l takes elements l, l + 32, ...), then lane l += lane l + 16, 8, 4, 2, 1;
   CLS_ATTENTION adds the heads in order and multiplies by the float32 value of 1 / n_heads. */
typedef struct rvit_score_args {
    size_t struct_size;
    rvit_score_type type;
    rvit_dtype dtype; /* L2: of x */
    rvit_rows rows;
    int32_t dim;         /* L2: multiple of 4 */
    int32_t n_heads;     /* CLS_ATTENTION */
    rvit_view x;         /* L2: [rows, dim] */
    rvit_view cls_probs; /* CLS_ATTENTION: f32 [rows, n_heads], as rvit_attention writes it */
    rvit_view scores;    /* f32 [rows] */
} rvit_score_args;
#define RVIT_SCORE_ARGS_INIT RVIT_INIT(rvit_score_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_score(rvit_stream *stream, const rvit_score_args *args);

typedef enum rvit_select_mode {
    RVIT_SELECT_TOP_K = 0,     /* the k best by (score descending, index ascending) */
    RVIT_SELECT_THRESHOLD = 1, /* scores >= threshold */
    RVIT_SELECT_MASK = 2       /* keep_in: nonzero = keep */
} rvit_select_mode;

/* Turns scores or a mask into a layout. Kept rows stay in ascending order. -0 equals +0; a NaN score ranks lowest, is not kept by a
   threshold, and is reported in error. An empty image stays empty. */
typedef struct rvit_select_args {
    size_t struct_size;
    rvit_select_mode mode;
    int32_t n_images;
    int32_t max_len;          /* no image is longer */
    int64_t rows;             /* no batch has more rows in all */
    int32_t n_prefix;         /* rows at the head of each image that are always kept */
    int32_t prefix_competes;  /* TOP_K. 0: k counts the other rows only. 1: the prefix competes for the k places and is kept anyway,
                                 so k to k + n_prefix rows stay (the Threshold-L2 of the paper) */
    float threshold;          /* THRESHOLD */
    rvit_view counts;         /* TOP_K: int32 [max_len + 1], k for each number n of competing rows; clamped to 0..n. Rounding rules
                                 thus live on the host: see rvit_count_table */
    rvit_view scores;         /* TOP_K, THRESHOLD: f32 [rows] */
    rvit_view keep_in;        /* MASK: uint8 [rows] */
    rvit_view cu_seqlens;     /* int32 [n_images + 1], 4-byte aligned: the layout before */
    rvit_view keep;           /* out: uint8 [rows], 1 = kept; rows past the last are left alone */
    rvit_view out_cu_seqlens; /* out: int32 [n_images + 1], 4-byte aligned: the layout after; not cu_seqlens */
    rvit_view src_rows;       /* out: int32 [rows]: for each row after, its row before; ascending */
    rvit_view error;          /* optional out: int32 [1], 4-byte aligned: 0, or 1 + 2 * image (a NaN score), or 2 + 2 * image (a given
                                 mask drops a prefix token; it is kept all the same), of the first image concerned */
} rvit_select_args;
#define RVIT_SELECT_ARGS_INIT RVIT_INIT(rvit_select_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_select(rvit_stream *stream, const rvit_select_args *args);

typedef enum rvit_count_rule {
    RVIT_COUNT_FLOOR = 0, /* trunc(n * keep) */
    RVIT_COUNT_CEIL = 1   /* ceil(keep * n) */
} rvit_count_rule;

/* Fills out_counts int32 [max_n + 1] for RVIT_SELECT_TOP_K: out_counts[n] = rule(n, keep) in IEEE double as written (ceil(0.07 * 100)
   is 8), clamped to min(k_min, n) .. n. INVALID_ARGUMENT unless 0 <= keep <= 1 and k_min >= 0. */
RVIT_API RVIT_NODISCARD rvit_status rvit_count_table(rvit_count_rule rule, double keep, int32_t k_min, int32_t max_n, int32_t *out_counts);

/* How a model is pruned. A policy says where it scores, what it scores, how it counts and how it selects; the table in core/policy.c
   holds one row for each. Zero fields take the policy's own defaults. */
typedef enum rvit_prune_type {
    RVIT_PRUNE_NONE = 0,
    RVIT_PRUNE_L2 = 1,   /* Threshold-L2 of arXiv 2604.15408: after a block (3), the top trunc(keep * tokens) by L2 norm, where the CLS
                            token competes and is then kept in any case. keep 0.5 */
    RVIT_PRUNE_EVIT = 2, /* EViT (arXiv 2202.07800) without the fused token: between attention and MLP of blocks 3, 6, 9, the top
                            ceil(keep * patches) by the CLS attention, mean over heads. keep 0.7 */
    RVIT_PRUNE_MASK = 3  /* after a block (3) or several, the mask given with each run */
} rvit_prune_type;

#define RVIT_PRUNE_MAX_STAGES 16

typedef struct rvit_prune_desc {
    size_t struct_size;
    rvit_prune_type type;
    double keep;      /* kept fraction, 0..1; negative: the policy's default. 1 keeps everything and equals no pruning bit for bit */
    int32_t n_blocks; /* entries of blocks; 0: the policy's default */
    int32_t blocks[RVIT_PRUNE_MAX_STAGES]; /* 0-based, strictly ascending, one prune stage each */
} rvit_prune_desc;
/* clang-format off */
#define RVIT_PRUNE_DESC_INIT {sizeof(rvit_prune_desc), RVIT_PRUNE_NONE, -1.0, 0, {0}}
/* clang-format on */

/* A policy as listed to a user. */
typedef struct rvit_prune_info {
    size_t struct_size;
    rvit_prune_type type;
    const char *name;    /* "none", "l2", "evit", "mask": static */
    const char *summary; /* one line: static */
    const char *source;  /* where it is defined: static */
    double default_keep;
    int32_t n_default_blocks;
    int32_t default_blocks[RVIT_PRUNE_MAX_STAGES];
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
