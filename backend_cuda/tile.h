/* The choice of each kernel's variant, grid and shared memory. These are pure functions of capacities and the device, so an op always
   runs the same way. No CUDA types. kernels/kernels.def makes the kernels from the tables of shapes. */
#ifndef RVIT_CU_TILE_H
#define RVIT_CU_TILE_H

#include <stdint.h>

/* Tiles of the persistent GEMM (kernels/linear.cuh):
     name, rows and columns of the tile, rows and columns of a warp,
     k step and pipeline stages, k step and stages with RVIT_CU_LARGE_SMEM,
     CTAs per SM by registers, elements per copy (8 need rows of a multiple of 16 bytes),
     cost of one output on a full device, relative to 20 for the cheapest tile. */
#define RVIT_CU_LINEAR_GENERAL(SHAPE) SHAPE(general, 64, 64, 32, 32, 64, 3, 64, 3, 3, 4, 29)
#define RVIT_CU_LINEAR_TILES(SHAPE)                        \
    SHAPE(64x64, 64, 64, 32, 32, 64, 3, 64, 3, 4, 8, 29)   \
    SHAPE(64x128, 64, 128, 32, 64, 32, 4, 64, 4, 2, 8, 24) \
    SHAPE(128x128, 128, 128, 64, 64, 32, 3, 32, 5, 2, 8, 20)
#define RVIT_CU_LINEAR_SHAPES(SHAPE) RVIT_CU_LINEAR_GENERAL(SHAPE) RVIT_CU_LINEAR_TILES(SHAPE)
#define RVIT_CU_LARGE_SMEM (228 * 1024) /* bytes of shared memory per SM of these architectures, which multiply e4m3 as float16 */
#define RVIT_CU_IS_LARGE(arch) ((arch) == 90 || (arch) == 100 || (arch) == 103 || (arch) == 110)
/* Tiles of the non-persistent GEMM for small problems, one tile per CTA (kernels/linear_nonpersistent.cuh):
     name, rows and columns of the tile, rows and columns of a warp, stages of k step 64,
     CTAs per SM by registers, cost of one tile alone on its SM, in the unit of the cost above. */
#define RVIT_CU_LINEAR_NONPERSISTENT(NONPERSISTENT)    \
    NONPERSISTENT(32x32, 32, 32, 16, 16, 6, 2, 58000)  \
    NONPERSISTENT(64x32, 64, 32, 16, 32, 6, 1, 78000)  \
    NONPERSISTENT(64x48, 64, 48, 16, 48, 6, 1, 100000) \
    NONPERSISTENT(64x96, 64, 96, 32, 48, 4, 1, 136000)
#define RVIT_CU_NONPERSISTENT_PRODUCERS 4 /* producer warps, in addition to those that multiply */
#define RVIT_CU_NONPERSISTENT_THREADS(rows, columns, warp_rows, warp_columns) \
    (RVIT_CU_LINEAR_THREADS(rows, columns, warp_rows, warp_columns) + RVIT_CU_NONPERSISTENT_PRODUCERS * 32)
#define RVIT_CU_LINEAR_THREADS(rows, columns, warp_rows, warp_columns) ((rows) / (warp_rows) * ((columns) / (warp_columns)) * 32)

/* The e4m3 GEMM, where two values count as one element: 64 x 64 outputs, 4 warps, 3 stages of k step 64. CTAs per SM by registers. */
#define RVIT_CU_CTAS_E4M3 2
/* The wgmma GEMM for large M (kernels/linear_hopper.cuh): rows and columns of a tile, pipeline stages, CTAs per cluster, rows of TMA
   boxes of x and weight. */
#define RVIT_CU_HOPPER_ROWS 128
#define RVIT_CU_HOPPER_COLUMNS(out_size) ((out_size) == 4 ? 128 : 192)
#define RVIT_CU_HOPPER_STAGES(out_size) ((out_size) == 4 ? 6 : 5)
#define RVIT_CU_HOPPER_CLUSTER 2
#define RVIT_CU_HOPPER_X_BOX 64
#define RVIT_CU_HOPPER_WEIGHT_BOX(columns) ((columns) / 2)
#define RVIT_CU_HOPPER_THREADS 384
#define RVIT_CU_HOPPER_SHARED(out_size) \
    (2048 + RVIT_CU_HOPPER_STAGES(out_size) * (RVIT_CU_HOPPER_ROWS + RVIT_CU_HOPPER_COLUMNS(out_size)) * 128)

/* The wgmma GEMM for small M (kernels/linear_small_m.cuh): name, warpgroups of 64 rows, columns, CTAs per SM by registers with a 16-bit
   and with a float32 output. */
#define RVIT_CU_LINEAR_SMALL_M(SMALL_M) \
    SMALL_M(64x96, 1, 96, 4, 4)         \
    SMALL_M(64x128, 1, 128, 3, 3)       \
    SMALL_M(128x64, 2, 64, 3, 3)        \
    SMALL_M(128x96, 2, 96, 2, 2)        \
    SMALL_M(128x128, 2, 128, 2, 1)      \
    SMALL_M(128x192, 2, 192, 1, 1)
#define RVIT_CU_CTAS_SMALL_M_E4M3 2 /* the e4m3 kernels, which are 128x64 */
#define RVIT_CU_SMALL_M_THREADS(groups) ((groups)*128 + 32)
#define RVIT_CU_SMALL_M_STAGES 8  /* pipeline stages at most */
#define RVIT_CU_SMALL_M_CLUSTER 8 /* CTAs per cluster at most */
/* Bytes of shared memory: barriers with alignment to 1024, pipeline stages, partial sums of split-K. */
#define RVIT_CU_SMALL_M_SHARED(groups, columns, stages, split_k) \
    (2048 + (stages) * ((groups)*64 + (columns)) * 128 + ((split_k) > 1 ? (groups)*64 * (columns)*4 : 0))

#define RVIT_CU_CTAS_F32 3
#define RVIT_CU_CTAS_EPILOGUE 4

/* Layernorm: the longest row held in registers, CTAs per SM. RVIT_CU_NORM_any takes rows of any length. */
#define RVIT_CU_NORM_SHAPES(SHAPE) SHAPE(256, 8) SHAPE(384, 6) SHAPE(768, 4) SHAPE(1024, 3) SHAPE(1152, 3) SHAPE(1280, 3) SHAPE(1536, 2)
#define RVIT_CU_CTAS_NORM_ANY 8

/* Quantize: groups of eight outputs that a thread holds in registers, maximum threads, and CTAs per SM with that many. Longer rows are
   computed twice. */
#define RVIT_CU_QUANTIZE_CHUNKS 3
#define RVIT_CU_QUANTIZE_THREADS 512
#define RVIT_CU_CTAS_QUANTIZE 2

/* Attention: keys per block (a stage holds two blocks), bytes of a key or value in shared memory, pipeline stages. */
#define RVIT_CU_ATTENTION_KEYS 32
#define RVIT_CU_ATTENTION_PITCH(D) ((D) == 80 ? 192 : 2 * (D))
#define RVIT_CU_STAGES_D32 3
#define RVIT_CU_STAGES_D64 3
#define RVIT_CU_STAGES_D80 2
#define RVIT_CU_STAGES_D96 2
#define RVIT_CU_STAGES_D128 2
/* Attention of 16-bit elements:
     name, largest head dimension, 16-row tiles per warp, warps,
     CTAs per SM by registers, the same with RVIT_CU_LARGE_SMEM,
     bias_stats: supports a key bias, cls_probs and lse.
   Kernels of 4 warps of 16 rows support every case. Heads of 33 to 80 channels have more variants. Without RVIT_CU_LARGE_SMEM, shared
   memory limits *_32_rows to two CTAs per SM. */
#define RVIT_CU_ATTENTION_SHAPES(SHAPE)              \
    SHAPE(d32, 32, 1, 4, 4, 4, 1)                    \
    SHAPE(d64, 64, 1, 4, 4, 4, 0)                    \
    SHAPE(d80, 80, 1, 4, 3, 3, 1)                    \
    SHAPE(d96, 96, 1, 4, 3, 3, 1)                    \
    SHAPE(d128, 128, 1, 4, 2, 2, 1)                  \
    SHAPE(d64_2_warps, 64, 1, 2, 8, 8, 0)            \
    SHAPE(d64_3_warps, 64, 1, 3, 5, 5, 0)            \
    SHAPE(d64_32_rows, 64, 2, 4, 2, 3, 0)            \
    SHAPE(d80_plain, 80, 1, 4, 3, 4, 0)              \
    SHAPE(d80_32_rows, 80, 2, 4, 2, 2, 0)            \
    SHAPE(d64_bias_stats, 64, 1, 4, 4, 4, 1)         \
    SHAPE(d64_bias_stats_2_warps, 64, 1, 2, 8, 8, 1) \
    SHAPE(d64_bias_stats_3_warps, 64, 1, 3, 5, 5, 1)
/* Attention of images with few keys, loaded straight into registers, without bias_stats: name, maximum keys. A CTA has 2 or 3 warps of 8
   rows. */
#define RVIT_CU_ATTENTION_DIRECT(ATTENTION_DIRECT) ATTENTION_DIRECT(d64_direct_32, 32) ATTENTION_DIRECT(d64_direct_48, 48)
#define RVIT_CU_DIRECT_WARPS 3
#define RVIT_CU_DIRECT_ROWS 8

/* Attention of images with RVIT_CU_ATTENTION_HOPPER_MIN_ROWS and more rows on sm_90a, without bias_stats (kernels/attention_hopper.cuh):
     name, largest head dimension, warpgroups of 64 query rows, persistent with a producer warpgroup,
     keys per block, pipeline stages,
     the same two for images of RVIT_CU_ATTENTION_LARGE_BLOCK_MIN_ROWS(dim) and more rows, where they differ.
   Persistent CTAs run one per SM, the others two. Shorter images of a launch run the code of the kernels above, with the same bits.
   Persistent kernels serve launches that may have an image with large blocks. An image's bits depend on the keys per block. */
#define RVIT_CU_ATTENTION_HOPPER(ATTENTION_HOPPER)                     \
    ATTENTION_HOPPER(hopper_d64_persistent, 64, 3, 1, 64, 4, 128, 2)   \
    ATTENTION_HOPPER(hopper_d64, 64, 2, 0, 64, 4, 64, 4)               \
    ATTENTION_HOPPER(hopper_d80, 80, 2, 0, 64, 2, 64, 2)               \
    ATTENTION_HOPPER(hopper_d128_persistent, 128, 2, 1, 64, 4, 128, 2) \
    ATTENTION_HOPPER(hopper_d128, 128, 2, 0, 64, 2, 64, 2)
#define RVIT_CU_ATTENTION_HOPPER_MIN_ROWS 512
#define RVIT_CU_ATTENTION_LARGE_BLOCK_MIN_ROWS(dim) ((dim) == 128 ? 1024 : 1536)
#define RVIT_CU_ATTENTION_HOPPER_THREADS(groups, persistent) (((groups) + (persistent)) * 128)
#define RVIT_CU_ATTENTION_HOPPER_CTAS(persistent) (2 - (persistent))
#define RVIT_CU_ATTENTION_HOPPER_PANELS(dim) (((dim) + 63) / 64)
/* Rows of a TMA box of keys or values; divides both block sizes. */
#define RVIT_CU_ATTENTION_HOPPER_BOX 64
/* Bytes of shared memory: barriers, queries, pipeline stages, ones, and alignment to 1024. keys, stages: of the variant that needs most. */
#define RVIT_CU_ATTENTION_HOPPER_SHARED(dim, groups, keys, stages, large_keys) \
    (2048 + ((groups)*64 + (stages)*2 * (keys)) * 128 * RVIT_CU_ATTENTION_HOPPER_PANELS(dim) + ((dim) % 64 == 0 ? (large_keys)*128 : 256))

/* Split-KV for launches with so few rows that each tile of 64 gets its own SM (attend_split_kv): name, largest head dimension, pipeline
   stages of 64 keys. Each of two warpgroups takes half of the keys, which changes a row's bits. So only sessions use it, whose launches
   all have the same number of images. */
#define RVIT_CU_ATTENTION_SPLIT_KV(SPLIT_KV) SPLIT_KV(hopper_d64_split_kv, 64, 4)
#define RVIT_CU_SPLIT_KV_THREADS 256
#define RVIT_CU_SPLIT_KV_HALF(dim, stages) (RVIT_CU_ATTENTION_HOPPER_SHARED(dim, 1, 64, stages, 64) - 1024) /* bytes per warpgroup */

/* The gradient of attention of 16-bit elements: name, largest head dimension, 16-row tiles per warp, rows per stage (of two),
   maximum threads, CTAs per SM by registers, whether key_bias and d_cls_probs are supported. 0 rows: holds a whole head of an image in
   shared memory. */
#define RVIT_CU_BACKWARD_SHAPES(SHAPE)         \
    SHAPE(d32, 32, 1, 64, 256, 2, 1)           \
    SHAPE(d64, 64, 1, 64, 128, 3, 1)           \
    SHAPE(d128, 128, 1, 32, 128, 2, 1)         \
    SHAPE(d64_plain, 64, 1, 64, 128, 3, 0)     \
    SHAPE(d64_32_rows, 64, 2, 64, 128, 2, 0)   \
    SHAPE(d32_held, 32, 1, 0, 512, 1, 1)       \
    SHAPE(d64_held, 64, 1, 0, 384, 1, 1)       \
    SHAPE(d64_held_plain, 64, 1, 0, 384, 1, 0) \
    SHAPE(d64_held_32_rows, 64, 2, 0, 256, 1, 0)
#define RVIT_CU_BACKWARD_NUMBERS_THREADS 256
#define RVIT_CU_BACKWARD_BIAS_THREADS 256

/* Received attention of 16-bit elements: name, largest head dimension, 16-key tiles per warp, queries per stage (of two), maximum
   threads, CTAs per SM by registers. */
#define RVIT_CU_ATTENTION_RECEIVED_SHAPES(SHAPE) \
    SHAPE(d32, 32, 2, 64, 128, 4)                \
    SHAPE(d64, 64, 2, 64, 128, 4)                \
    SHAPE(d96, 96, 2, 64, 128, 3)                \
    SHAPE(d128, 128, 2, 64, 128, 3)

/* The configuration of the small-M GEMM: a row of RVIT_CU_LINEAR_SMALL_M, pipeline stages, splits of K, CTAs of a cluster along N (they
   share x) and along M (they share weight). */
typedef struct rvit_cu_small_m_config {
    int32_t shape, stages, split_k, cluster_n, cluster_m;
} rvit_cu_small_m_config;

/* The device properties that the choices depend on. */
typedef struct rvit_cu_machine {
    int32_t n_sms;
    int32_t max_shared;    /* bytes per CTA */
    int32_t sm_shared;     /* bytes per SM */
    int32_t wgmma;         /* wgmma kernels are present */
    int32_t faster_mma;    /* wgmma or tcgen05 exist, which are faster than the mma.sync of most kernels here */
    int32_t early;         /* kernels use programmatic dependent launch: they may start before the previous kernel ends */
    int32_t clusters;      /* launches can set the cluster size */
    int32_t autotune_macs; /* from this many multiply-accumulates on, cuBLASLt's algorithms are measured; 0: never */
} rvit_cu_machine;

typedef enum rvit_cu_attention_shape {
#define SHAPE(name, ...) RVIT_CU_ATTENTION_##name,
    RVIT_CU_ATTENTION_SHAPES(SHAPE) RVIT_CU_ATTENTION_DIRECT(SHAPE)
#undef SHAPE
        RVIT_CU_N_ATTENTION_SHAPES
} rvit_cu_attention_shape;

typedef struct rvit_cu_attention_tile {
    rvit_cu_attention_shape shape; /* for 16-bit elements */
    int32_t threads;
    int32_t row_blocks; /* CTAs per head and image */
    int32_t shared;     /* bytes */
} rvit_cu_attention_tile;

typedef struct rvit_cu_attention_size {
    int32_t element_size; /* 2, or 4 for float32, which has one shape */
    int32_t head_dim, n_heads;
    int64_t n_images, rows; /* rows: capacity for all images together */
    int32_t len;            /* rows of one image at most */
    int32_t bias_stats;     /* has a key bias, cls_probs or lse */
    int32_t fixed_images;   /* every launch has this number of images, so an image's bits may depend on it */
} rvit_cu_attention_size;

rvit_cu_attention_tile rvit_cu_tile_attention(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

typedef enum rvit_cu_attention_hopper_shape {
#define SHAPE(name, ...) RVIT_CU_ATTENTION_##name,
    RVIT_CU_ATTENTION_HOPPER(SHAPE) RVIT_CU_ATTENTION_SPLIT_KV(SHAPE)
#undef SHAPE
        RVIT_CU_N_ATTENTION_HOPPER
} rvit_cu_attention_hopper_shape;

typedef struct rvit_cu_attention_hopper_tile {
    rvit_cu_attention_hopper_shape shape; /* RVIT_CU_N_ATTENTION_HOPPER: not supported */
    int32_t persistent;                   /* at most one CTA per SM */
    int32_t threads;
    int32_t row_blocks; /* tiles per head and image */
    int32_t shared;     /* bytes */
} rvit_cu_attention_hopper_tile;

/* The kernel for a launch that may have a long image. */
rvit_cu_attention_hopper_tile rvit_cu_tile_attention_hopper(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

typedef enum rvit_cu_backward_shape {
#define SHAPE(name, ...) RVIT_CU_BACKWARD_##name,
    RVIT_CU_BACKWARD_SHAPES(SHAPE)
#undef SHAPE
        RVIT_CU_N_BACKWARD_SHAPES
} rvit_cu_backward_shape;

typedef struct rvit_cu_backward_tile {
    rvit_cu_backward_shape shape;
    int32_t threads;
    int32_t row_blocks; /* CTAs for the keys of a head of an image, and as many for its queries; 0: one CTA does both (held) */
    int32_t held_rows;
    int32_t shared; /* bytes */
} rvit_cu_backward_tile;

rvit_cu_backward_tile rvit_cu_tile_backward(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

typedef enum rvit_cu_attention_received_shape {
#define SHAPE(name, ...) RVIT_CU_ATTENTION_RECEIVED_##name,
    RVIT_CU_ATTENTION_RECEIVED_SHAPES(SHAPE)
#undef SHAPE
        RVIT_CU_N_ATTENTION_RECEIVED_SHAPES
} rvit_cu_attention_received_shape;

typedef struct rvit_cu_attention_received_tile {
    rvit_cu_attention_received_shape shape;
    int32_t threads;
    int32_t row_blocks; /* CTAs for the keys of a head of an image */
    int32_t shared;     /* bytes */
} rvit_cu_attention_received_tile;

rvit_cu_attention_received_tile rvit_cu_tile_attention_received(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

typedef enum rvit_cu_linear_shape {
#define SHAPE(name, ...) RVIT_CU_LINEAR_##name,
    RVIT_CU_LINEAR_SHAPES(SHAPE) RVIT_CU_LINEAR_NONPERSISTENT(SHAPE)
#undef SHAPE
        RVIT_CU_N_LINEAR_SHAPES
} rvit_cu_linear_shape;

typedef struct rvit_cu_linear_tile {
    rvit_cu_linear_shape shape;
    int32_t threads;
    int32_t ctas; /* persistent kernels: each loops over tiles */
    int32_t shared;
} rvit_cu_linear_tile;

/* element_size: 1 for e4m3 (RVIT_CU_LINEAR_64x64, or _general if is_general), 2, or 4 for float32 (RVIT_CU_LINEAR_64x64). out_features:
   columns of the GEMM. is_general: the op needs the kernels that support everything (ALL in kernels/activation.cuh). */
rvit_cu_linear_tile rvit_cu_tile_linear(const rvit_cu_machine *machine, int32_t element_size, int64_t rows, int32_t in_features,
                                        int32_t out_features, int32_t is_general);

/* Whether a CTA computes one tile only. */
int32_t rvit_cu_tile_is_nonpersistent(rvit_cu_linear_shape shape);

typedef struct rvit_cu_quantize_tile {
    int32_t threads, ctas;
    int32_t held; /* rows stay in registers */
} rvit_cu_quantize_tile;
rvit_cu_quantize_tile rvit_cu_tile_quantize(const rvit_cu_machine *machine, int64_t rows, int32_t columns);

typedef enum rvit_cu_small_m_shape {
#define SMALL_M(name, ...) RVIT_CU_SMALL_M_##name,
    RVIT_CU_LINEAR_SMALL_M(SMALL_M)
#undef SMALL_M
        RVIT_CU_N_SMALL_M_SHAPES
} rvit_cu_small_m_shape;

typedef struct rvit_cu_small_m_tile {
    rvit_cu_small_m_config config;
    int32_t rows, columns; /* of a tile */
    int32_t ctas, cluster, threads, shared;
} rvit_cu_small_m_tile;

/* Depends only on capacity and shape, because split_k changes a row's bits. ctas 0: none is supported. */
rvit_cu_small_m_tile rvit_cu_tile_small_m(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features,
                                          int32_t out_size);
/* For a given configuration. ctas 0: the kernel does not support it for this output size. */
rvit_cu_small_m_tile rvit_cu_tile_small_m_of(const rvit_cu_machine *machine, const rvit_cu_small_m_config *config, int64_t rows,
                                             int32_t in_features, int32_t out_features, int32_t out_size);

/* CTAs of the large-M GEMM. */
int32_t rvit_cu_tile_hopper(const rvit_cu_machine *machine, int64_t rows, int32_t out_features, int32_t out_size);

/* CTAs of a kernel with a grid-stride loop: `per_cta` items each, at least 1 and at most `per_sm` per SM. */
int32_t rvit_cu_tile_ctas(const rvit_cu_machine *machine, int64_t items, int32_t per_cta, int32_t per_sm);

typedef enum rvit_cu_norm_shape {
#define SHAPE(dim, ctas) RVIT_CU_NORM_##dim,
    RVIT_CU_NORM_SHAPES(SHAPE)
#undef SHAPE
        RVIT_CU_NORM_any,
    RVIT_CU_N_NORM_SHAPES
} rvit_cu_norm_shape;

/* Layernorm: as many CTAs as fit the device at once. */
typedef struct rvit_cu_norm_tile {
    rvit_cu_norm_shape shape;
    int32_t threads; /* each warp loops over rows */
    int32_t ctas;
    int32_t prefetch_ctas; /* extra CTAs that prefetch the weights of later GEMMs into L2; 0: too many rows for that to help */
} rvit_cu_norm_tile;

rvit_cu_norm_tile rvit_cu_tile_layernorm(const rvit_cu_machine *machine, int64_t rows, int32_t dim);

/* Select and bipartite_match: threads per CTA, and CTAs (parts) that share an image while the kernel reads whole rows. */
typedef struct rvit_cu_image_tile {
    int32_t threads, parts;
    int32_t shared;    /* bytes */
    int32_t held_rows; /* bipartite_match: merge groups whose metrics fit in shared memory */
    int32_t splits;    /* bipartite_match: the metrics have their own launch, and parts share the search */
} rvit_cu_image_tile;

/* len: rows of one image at most. reads_rows: scores are computed from rows. */
rvit_cu_image_tile rvit_cu_tile_select(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t reads_rows);

rvit_cu_image_tile rvit_cu_tile_bipartite_match(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t head_dim,
                                                int32_t group_size);
#define RVIT_CU_BIPARTITE_MATCH_THREADS 512
#define RVIT_CU_BIPARTITE_MATCH_FIXED 10240 /* bytes of shared memory in front of the metrics */
#define RVIT_CU_BIPARTITE_MATCH_TILE 64     /* fewest merge groups of A per CTA; it processes twice as many at a time */
#define RVIT_CU_BIPARTITE_MATCH_STAGED ((128 + 64) * (64 + 4) * 4) /* bytes for those and 64 merge groups of B, 64 channels at a time */

/* Scores that fit in shared memory for ranking or sorting. */
#define RVIT_CU_SHARED_ROWS 1024

#define RVIT_CU_MEAN_COLUMNS 128 /* per CTA */

/* Pool: 128-column pieces per CTA and warps per CTA, without and with a norm. With a norm one CTA takes a whole image, and many warps
   hide the latency of the rows. */
#define RVIT_CU_POOL_PIECES 1
#define RVIT_CU_POOL_WARPS 8
#define RVIT_CU_POOL_NARROW_PIECES 6
#define RVIT_CU_POOL_NARROW_WARPS 16
#define RVIT_CU_POOL_NORM_PIECES 12
#define RVIT_CU_POOL_NORM_WARPS 12

#define RVIT_CU_ATTENTION_POOL_PIECES 12 /* 128-column pieces that a warp sums at a time */
#define RVIT_CU_ATTENTION_POOL_WARPS 12

/* Preprocess: a tile has 1 << slot_bits pixels. Tall tiles reuse the weights of their columns, so they are preferred while there are
   enough for every SM. pixels: of all patches. bytes: of all images, at capacity. */
typedef struct rvit_cu_preprocess_tile {
    int32_t slot_bits;
    int32_t raw_size; /* bytes of shared memory for image lines */
} rvit_cu_preprocess_tile;
rvit_cu_preprocess_tile rvit_cu_tile_preprocess(const rvit_cu_machine *machine, int64_t pixels, int64_t bytes);

/* Images per CTA of head. Several images share the weights that a CTA reads; with few images, one per CTA is faster. */
int32_t rvit_cu_tile_head(const rvit_cu_machine *machine, int64_t n_images, int32_t n_classes);
#define RVIT_CU_HEAD_WARPS 8
#define RVIT_CU_HEAD_IMAGES 8  /* per CTA, if not 1 */
#define RVIT_CU_HEAD_CLASSES 2 /* per warp, if its CTA takes several images; else 1 */

#endif
