/* The parameters of each kernel: one plain struct, shared by host C and kernels. Pointers are device addresses. Counts are capacities;
   the kernels read actual counts on the device. Each size is a multiple of 8, without padding. */
#ifndef RVIT_CU_PARAMS_H
#define RVIT_CU_PARAMS_H

#include <stdint.h>

/* The values of rvit_dtype. */
#define RVIT_CU_F32 0
#define RVIT_CU_F16 1
#define RVIT_CU_BF16 2
#define RVIT_CU_E4M3 4

/* The rows of an op: capacity, or *live clamped to 0..capacity. */
typedef struct rvit_cu_rows {
    const int32_t *live; /* or NULL */
    int32_t capacity, unused;
} rvit_cu_rows;

/* size in bytes, a multiple of 4. wide: size and both addresses are multiples of 16. */
typedef struct rvit_cu_copy_params {
    const void *source;
    void *destination;
    int64_t size;
    int32_t wide, unused;
} rvit_cu_copy_params;

/* CTAs: lines of patches times channels, images. */
typedef struct rvit_cu_patchify_params {
    const float *images;
    void *out;
    int32_t *cu_seqlens;        /* or NULL */
    const int32_t *live_images; /* or NULL */
    int32_t n_images, channels, height, width, patch_size, grid_height, grid_width, n_prefix, out_stride;
    int32_t low_offset; /* elements from a value to its low half, the rounding error; 0: not split */
} rvit_cu_patchify_params;

typedef struct rvit_cu_fetch_params {
    const void *source;
    void *destination;
    int64_t units; /* of 16 bytes, at capacity */
} rvit_cu_fetch_params;

#define RVIT_CU_PREPROCESS_THREADS 384
#define RVIT_CU_PREPROCESS_WIDTH_BITS 5 /* pixels of a tile's width, log2 */
#define RVIT_CU_PREPROCESS_WIDTH (1 << RVIT_CU_PREPROCESS_WIDTH_BITS)
#define RVIT_CU_PREPROCESS_HEIGHT 64
#define RVIT_CU_PREPROCESS_SHARED 48384 /* bytes, without the image lines */
typedef struct rvit_cu_preprocess_params {
    const int32_t *words;  /* the staging buffer: core/contract/image_descriptor.h */
    const uint8_t *pixels; /* or NULL */
    void *out;
    int32_t *cu_seqlens, *grids; /* or NULL */
    int64_t pixels_size;         /* bytes */
    int32_t n_words, n_images, rows, patch_size, out_stride;
    int32_t tile_height, slot_bits; /* a CTA makes tiles of 32 columns and tile_height rows: 1 << slot_bits pixels */
    int32_t raw_size;               /* bytes of shared memory behind preprocess_memory */
    float images_per_slot;
    int32_t low_offset; /* as in patchify */
} rvit_cu_preprocess_params;

#define RVIT_CU_GRID_THREADS 256
#define RVIT_CU_MAX_SIDE 32767 /* of a patch grid */
#define RVIT_CU_MAX_TABLE 512  /* side of a position embedding */

/* A CTA takes per_cta of the n_images + 1 entries of the layouts. */
typedef struct rvit_cu_grid_layout_params {
    const int32_t *grids, *live_images; /* live_images or NULL */
    int32_t *cu_seqlens;
    int32_t *patch_cu_seqlens, *token_map;                      /* or NULL */
    int32_t *group_cu_seqlens, *window_cu_seqlens, *group_rows; /* or NULL */
    int32_t n_images, n_prefix, max_len, merge, rows, patch_rows, per_cta;
    int32_t line_by_line; /* 1: patch rows are in line order, whatever merge is */
    int32_t window, max_windows;
} rvit_cu_grid_layout_params;

/* A CTA takes every parts-th merge group of an image. With sources, parts is 1, and the CTA goes diagonal by diagonal. */
typedef struct rvit_cu_pixelprune_params {
    const int32_t *cu_seqlens, *token_map, *group_rows; /* group_rows: or NULL */
    const float *pixels;
    uint8_t *keep;
    int32_t *sources; /* or NULL: groups are predicted from the original pixels */
    int64_t stride;
    float limits[4];
    int32_t n_images, n_prefix, max_len, merge, rows, patch_rows, columns, channels, interleaved, patch_merge, parts;
    int32_t unused;
} rvit_cu_pixelprune_params;

/* The values of rvit_resample; any other is bilinear. */
#define RVIT_CU_BICUBIC 1
#define RVIT_CU_BICUBIC_ANTIALIAS 3
#define RVIT_CU_BILINEAR_ANTIALIAS 4
#define RVIT_CU_ALIGN_CORNERS 5
#define RVIT_CU_NEAREST 6

typedef struct rvit_cu_embed_params {
    const int32_t *token_map;
    const void *patches;
    const float *prefix, *table; /* or NULL */
    float *out;
    rvit_cu_rows rows;
    int32_t patch_rows, dim, n_prefix, resample, table_height, table_width;
} rvit_cu_embed_params;

typedef struct rvit_cu_grid_rope_params {
    const int32_t *token_map;
    const float *frequencies;
    float *out;
    rvit_cu_rows rows;
    int32_t head_dim, centred, xy;
    float offset, reference_height, reference_width;
} rvit_cu_grid_rope_params;

#define RVIT_CU_SIGMOID_SQUARE 16384.0f /* RVIT_SIGMOID_SQUARE */

typedef struct rvit_cu_linear_params {
    const void *x, *weight;
    const float *bias;    /* or NULL */
    const void *residual; /* or NULL; type of out */
    void *out;
    rvit_cu_rows rows;
    int32_t in_features;
    int32_t out_features;    /* columns of the GEMM; gated: two per column of out */
    int32_t residual_period; /* 0: the residual has as many rows as out */
    int32_t gelu;
    int32_t out_f32;                       /* out and residual are float32; else they have the type of x */
    int32_t constant_weights;              /* weight and bias may be read before the previous kernel ends */
    float slope, cubic;                    /* of rvit_sigmoid; slope 0: no sigmoid */
    int32_t gated;                         /* gates and values alternate in the columns */
    int32_t out_bf16;                      /* e4m3 x: a 16-bit out is bfloat16, not float16 */
    const float *x_scales, *weight_scales; /* e4m3 x; in_features counts pairs of values */
    const float *one_scale;                /* or NULL; the one value of all x_scales; all weight_scales are equal then, too */
    const float *static_scale;             /* e4m3 out, by wgmma kernels only */
    float *out_scales;
    int32_t *saturated; /* or NULL */
} rvit_cu_linear_params;

/* Rows are converted to e4m3. columns: of out; x and bias have twice as many if gated. */
typedef struct rvit_cu_quantize_params {
    const void *x;
    const float *bias, *static_scale; /* or NULL */
    uint8_t *out;
    float *out_scales;
    int32_t *saturated; /* or NULL */
    rvit_cu_rows rows;
    int32_t columns; /* a multiple of 16 */
    int32_t gelu, gated;
    float slope, cubic; /* of rvit_sigmoid */
    int32_t unused;
} rvit_cu_quantize_params;

/* The epilogue of a GEMM, in place: x = x + bias, then an activation. */
typedef struct rvit_cu_epilogue_params {
    void *x;
    const float *bias; /* or NULL */
    int64_t n;         /* elements, a multiple of columns */
    int32_t columns;   /* a multiple of the elements in 16 bytes */
    int32_t gelu;
    float slope, cubic; /* of rvit_sigmoid */
} rvit_cu_epilogue_params;

/* Weights of later GEMMs to prefetch into L2. */
#define RVIT_CU_PREFETCHES 2
#define RVIT_CU_PREFETCH_LINE 128 /* bytes */
typedef struct rvit_cu_prefetch {
    const void *memory[RVIT_CU_PREFETCHES];
    int32_t lines[RVIT_CU_PREFETCHES];
} rvit_cu_prefetch;

/* The first row_ctas CTAs normalise rows, the others prefetch. */
typedef struct rvit_cu_layernorm_params {
    const void *x;
    const int32_t *src_rows;   /* or NULL */
    const float *gamma, *beta; /* beta or NULL: layernorm_general only */
    void *out, *out_x;         /* out_x or NULL */
    rvit_cu_rows rows;
    rvit_cu_prefetch prefetch;
    int32_t x_rows, dim, out_dtype, row_ctas;
    float inverse_dim, eps; /* inverse_dim: 1 / features */
    int32_t features, rms;
    const float *static_scale; /* or NULL; this and the next two with an e4m3 output */
    float *out_scales;
    int32_t *saturated; /* or NULL */
} rvit_cu_layernorm_params;

/* Strides in elements. A CTA takes row block blockIdx.x of head blockIdx.y of image first_image + blockIdx.z. */
typedef struct rvit_cu_attention_params {
    const void *q, *k, *v;
    const int32_t *cu_seqlens;
    const float *key_bias; /* or NULL */
    void *out;
    float *cls_probs, *lse; /* or NULL */
    int32_t q_stride, k_stride, v_stride, out_stride;
    int32_t n_heads, head_dim, max_len, rows;
    int32_t first_image;
    float scale;     /* 16-bit kernels: |scale| * log2(e) */
    uint32_t q_sign; /* 16-bit kernels: sign bits to flip in a pair of elements if scale is negative */
    int32_t unused;
} rvit_cu_attention_params;

/* A CUtensorMap. */
#if defined(__CUDACC__)
#define RVIT_CU_MAP_ALIGNED __align__(64)
#else
#define RVIT_CU_MAP_ALIGNED
#endif
typedef struct RVIT_CU_MAP_ALIGNED rvit_cu_tensor_map {
    uint64_t opaque[16];
} rvit_cu_tensor_map;

/* q, k, v: rows, heads and channels. Images of fewer than min_rows rows run the mma.sync code; those of large_block_rows and more use
   large blocks (kernels/attention_hopper.cuh). */
typedef struct rvit_cu_attention_hopper_params {
    rvit_cu_tensor_map q, k, v;
    rvit_cu_attention_params rows;
    int32_t min_rows, large_block_rows;
    int32_t n_images;
    int32_t unused;
} rvit_cu_attention_hopper_params;

/* x: boxes of rows. weight: boxes of rows, permuted so that a lane's outputs are adjacent (kernels/linear_hopper.cuh). args.in_features
   counts single values for e4m3, too. */
typedef struct rvit_cu_linear_hopper_params {
    rvit_cu_tensor_map x, weight;
    rvit_cu_linear_params args;
} rvit_cu_linear_hopper_params;

/* The same for small M (kernels/linear_small_m.cuh). The cluster_n CTAs of a cluster share boxes of x, the cluster_m CTAs share boxes of
   weight, and the split_k CTAs each sum a range of K. */
typedef struct rvit_cu_linear_small_m_params {
    rvit_cu_tensor_map x, weight;
    rvit_cu_linear_params args;
    int32_t stages, split_k, cluster_n, cluster_m;
} rvit_cu_linear_small_m_params;

/* Strides in elements. numbers: two per head and row, [n_heads, rows, 2]. shares: of d_key_bias, [n_heads, rows]. blockIdx.y is the
   head, first_image + blockIdx.z the image. */
typedef struct rvit_cu_attention_backward_params {
    const void *q, *k, *v, *out, *d_out;
    const int32_t *cu_seqlens;
    const float *lse;
    const float *key_bias, *cls_probs, *d_cls_probs, *d_lse; /* or NULL */
    void *d_q, *d_k, *d_v;
    float *numbers;
    float *shares, *d_key_bias; /* or NULL */
    int32_t q_stride, k_stride, v_stride, out_stride, d_out_stride, d_q_stride, d_k_stride, d_v_stride;
    int32_t n_heads, head_dim, max_len, rows;
    int32_t first_image;
    int32_t held_rows;  /* rows of an image in shared memory */
    float scale;        /* of the logits; 16-bit kernels: times log2(e) */
    float lse_factor;   /* 16-bit kernels: log2(e), else 1 */
    float store_factor; /* of d_q and d_k */
    uint32_t zero;      /* 0, opaque to the compiler */
} rvit_cu_attention_backward_params;

/* Strides in elements. blockIdx.y is the head, first_image + blockIdx.z the image. */
typedef struct rvit_cu_attention_received_params {
    const void *q, *k;
    const int32_t *cu_seqlens;
    const float *key_bias; /* or NULL */
    const float *lse;
    float *out;
    int32_t q_stride, k_stride;
    int32_t n_heads, head_dim, max_len, rows;
    int32_t first_image;
    float scale;      /* of the logits; 16-bit kernels: times log2(e) */
    float lse_factor; /* 16-bit kernels: log2(e), else 1 */
    uint32_t zero;    /* 0, opaque to the compiler */
} rvit_cu_attention_received_params;

typedef struct rvit_cu_rope_params {
    void *q, *k;
    const float *table;
    const int32_t *positions; /* or NULL */
    rvit_cu_rows rows;
    int64_t q_stride, k_stride;
    int32_t n_heads, head_dim, n_positions, n_prefix;
} rvit_cu_rope_params;

typedef struct rvit_cu_positions_params {
    const int32_t *src_rows, *positions; /* positions or NULL */
    const uint8_t *keep;                 /* or NULL */
    int32_t *out;
    rvit_cu_rows rows;
    int32_t source_rows, n_positions;
} rvit_cu_positions_params;

/* Scratch memory of select and bipartite_match, zeroed once, followed by one record per image. tickets and finished are counters that each
   op resets; epoch distinguishes its records from those of earlier ops. */
typedef struct rvit_cu_layout_scratch {
    int32_t tickets, finished, epoch;
    int32_t last_error; /* INT32_MAX minus the first error; 0: none */
} rvit_cu_layout_scratch;

typedef struct rvit_cu_layout_record {
    unsigned long long state; /* the number of rows kept, once known (kernels/layout.cuh) */
    int32_t arrived, unused;  /* CTAs that finished the first half of the image */
} rvit_cu_layout_record;

/* How the CTAs of select and bipartite_match share the images, and where they write the layout. */
typedef struct rvit_cu_layout {
    const int32_t *cu_seqlens;
    int32_t *out_cu_seqlens, *src_rows, *error; /* error or NULL */
    rvit_cu_layout_scratch *scratch;
    rvit_cu_layout_record *records;
    int32_t n_records, n_images, max_len, rows, n_prefix;
    int32_t parts; /* CTAs per image */
    int32_t error_stays, image_errors;
} rvit_cu_layout;

typedef struct rvit_cu_select_params {
    rvit_cu_layout layout;
    const void *x, *weight;
    const float *cls_probs, *bias, *position_scores;
    const int32_t *counts;
    const uint8_t *keep_in, *anchors; /* anchors: or NULL */
    float *scores;                    /* NULL with MASK */
    uint8_t *keep;
    void *fuse_x;               /* or NULL */
    unsigned long long *sorted; /* SAMPLE, MASS: one per row, if an image may exceed shared memory */
    int64_t x_stride;
    int32_t mode, score, dtype, dim, n_heads; /* the values of rvit_select_mode, rvit_score_type, rvit_dtype */
    int32_t prefix_competes, k_min, n_samples;
    uint32_t mass; /* times 2^32; all_mass: mass is 1 */
    int32_t all_mass, fuse_dtype, fuse_dim, anchor_columns;
    float threshold, factor; /* factor: 1 / n_heads */
    int32_t group_size;      /* rows of a merge group, which share the mean of their scores */
} rvit_cu_select_params;

typedef struct rvit_cu_grid_relayout_params {
    const int32_t *cu_seqlens, *out_cu_seqlens, *src_rows;
    const int32_t *window_cu_seqlens, *group_rows; /* or NULL */
    const uint8_t *keep;
    int32_t *group_cu_seqlens, *out_window_cu_seqlens, *out_group_rows;
    int32_t n_images, n_windows, max_len, group_size, rows;
    int32_t unused;
} rvit_cu_grid_relayout_params;

typedef struct rvit_cu_mean_params {
    void *x;
    const int32_t *cu_seqlens;
    int32_t max_len, rows, n_prefix, dim, first_column;
    int32_t tiles; /* CTAs that share an image's columns */
} rvit_cu_mean_params;

typedef struct rvit_cu_pool_params {
    const void *x;
    const int32_t *cu_seqlens;
    const float *sizes, *gamma, *beta; /* or NULL */
    void *out;
    int64_t out_stride;
    int32_t max_len, rows, dim;
    int32_t n_prefix, first; /* first: takes only the first row; there is no prefix then */
    int32_t out_dtype, rms;
    int32_t tiles; /* CTAs that share an image's columns */
    float eps;
    int32_t unused;
} rvit_cu_pool_params;

/* One CTA per head and image. */
typedef struct rvit_cu_attention_pool_params {
    const void *x, *weight;
    const float *logits, *sizes, *bias; /* sizes, bias: or NULL */
    const int32_t *cu_seqlens;
    void *out;
    float *probs; /* or NULL */
    int64_t logits_stride;
    int32_t max_len, rows, dim;
    int32_t n_heads, head_dim, out_dtype;
} rvit_cu_attention_pool_params;

typedef struct rvit_cu_bipartite_match_params {
    rvit_cu_layout layout;
    const void *k;
    float *metric;
    uint8_t *keep;
    int32_t *next_rows;
    int64_t k_stride;
    const int32_t *window_cu_seqlens; /* or NULL */
    int32_t dtype, n_heads, head_dim, merges, group_size, n_windows;
    int32_t shared_groups; /* merge groups whose metrics fit in shared memory */
    int32_t splits;        /* 1: bipartite_match_metric computes the metrics first, and CTAs share the search */
} rvit_cu_bipartite_match_params;

typedef struct rvit_cu_merge_params {
    const void *x;
    const float *sizes; /* or NULL */
    const int32_t *src_rows, *next_rows;
    void *out_x;
    float *out_sizes, *out_key_bias;
    rvit_cu_rows rows;
    int32_t x_rows, dim;
} rvit_cu_merge_params;

typedef struct rvit_cu_pack_params {
    const void *source;
    const int32_t *src_rows;
    void *destination;
    rvit_cu_rows rows;
    int32_t source_rows, row_size; /* bytes */
} rvit_cu_pack_params;

typedef struct rvit_cu_unpack_params {
    const void *source, *base; /* base or NULL */
    const int32_t *src_rows;
    void *destination;
    rvit_cu_rows rows, destination_rows;
    int32_t row_size; /* bytes, a multiple of 8 */
    uint32_t fill;    /* the stored bits, twice for a 16-bit element */
} rvit_cu_unpack_params;

typedef struct rvit_cu_head_params {
    const void *x;
    const int32_t *cu_seqlens; /* or NULL */
    const float *gamma, *beta; /* or NULL */
    const void *weight;
    const float *bias; /* or NULL */
    float *logits;
    int32_t n_images, rows, dim, n_tokens, n_classes, x_dtype;
    int32_t class_tiles; /* CTAs that share the images of a tile */
    int32_t images;      /* per tile: 1 or RVIT_CU_HEAD_IMAGES */
    float eps;
    int32_t rms;
} rvit_cu_head_params;

#endif
