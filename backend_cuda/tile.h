/* The choice of a kernel, its grid and its shared memory. All are pure functions of what the host
   knows (capacities and the device), so an op always runs in the same way. No CUDA types. The
   tables of shapes are also the source of the kernels in kernels/kernels.def. */
#ifndef RVIT_CU_TILE_H
#define RVIT_CU_TILE_H

#include <stdint.h>

/* Tiles of the persistent GEMM (kernels/linear.cuh):
     name, rows and columns of the tile, rows and columns of a warp,
     k step and stages of the ring, k step and stages where an SM has RVIT_CU_LARGE_SMEM bytes,
     CTAs an SM has registers for, elements a copy moves (8 need rows of a multiple of 16 bytes),
     cost of one output on a full device, relative to 20 for the cheapest tile. */
#define RVIT_CU_LINEAR_GENERAL(SHAPE) SHAPE(general, 64, 64, 32, 32, 64, 3, 64, 3, 3, 4, 29)
#define RVIT_CU_LINEAR_TILES(SHAPE)                        \
    SHAPE(64x64, 64, 64, 32, 32, 64, 3, 64, 3, 4, 8, 29)   \
    SHAPE(64x128, 64, 128, 32, 64, 32, 4, 64, 4, 2, 8, 24) \
    SHAPE(128x128, 128, 128, 64, 64, 32, 3, 32, 5, 2, 8, 20)
#define RVIT_CU_LINEAR_SHAPES(SHAPE) RVIT_CU_LINEAR_GENERAL(SHAPE) RVIT_CU_LINEAR_TILES(SHAPE)
#define RVIT_CU_LARGE_SMEM (228 * 1024) /* shared memory of an SM of compute capability 9.0 and 10.0 */
/* Tiles of the GEMM for few rows, where each CTA computes one tile (kernels/linear_nonpersistent.cuh):
     name, rows and columns of the tile, rows and columns of a warp, stages of k step 64,
     CTAs an SM has registers for,
     cost of one tile that is alone on its SM, in the unit of the cost of an output above. */
#define RVIT_CU_LINEAR_NONPERSISTENT(NONPERSISTENT)    \
    NONPERSISTENT(32x32, 32, 32, 16, 16, 6, 2, 58000)  \
    NONPERSISTENT(64x32, 64, 32, 16, 32, 6, 1, 78000)  \
    NONPERSISTENT(64x48, 64, 48, 16, 48, 6, 1, 100000) \
    NONPERSISTENT(64x96, 64, 96, 32, 48, 4, 1, 136000)
#define RVIT_CU_NONPERSISTENT_COPIERS 4 /* warps that only copy, besides those that multiply */
#define RVIT_CU_NONPERSISTENT_THREADS(rows, columns, warp_rows, warp_columns) \
    (RVIT_CU_LINEAR_THREADS(rows, columns, warp_rows, warp_columns) + RVIT_CU_NONPERSISTENT_COPIERS * 32)
#define RVIT_CU_LINEAR_THREADS(rows, columns, warp_rows, warp_columns) ((rows) / (warp_rows) * ((columns) / (warp_columns)) * 32)

/* Of e4m3, two of which count as one element: 64 x 64 outputs, 4 warps, 3 stages of k step 64; CTAs an SM has registers for. */
#define RVIT_CU_CTAS_E4M3 2
/* The GEMM of elements of 8 and 16 bits on sm_90a (kernels/linear_hopper.cuh): rows and columns of a tile, stages of the ring, CTAs of a
   cluster; rows of copies of x and weight. */
#define RVIT_CU_HOPPER_ROWS 128
#define RVIT_CU_HOPPER_COLUMNS(out_size) ((out_size) == 4 ? 128 : 192)
#define RVIT_CU_HOPPER_STAGES(out_size) ((out_size) == 4 ? 6 : 5)
#define RVIT_CU_HOPPER_CLUSTER 2
#define RVIT_CU_HOPPER_X_BOX 64
#define RVIT_CU_HOPPER_WEIGHT_BOX(columns) ((columns) / 2)
#define RVIT_CU_HOPPER_THREADS 384
#define RVIT_CU_HOPPER_SHARED(out_size) \
    (2048 + RVIT_CU_HOPPER_STAGES(out_size) * (RVIT_CU_HOPPER_ROWS + RVIT_CU_HOPPER_COLUMNS(out_size)) * 128)

/* The same for few rows (kernels/linear_small_m.cuh): name, warpgroups of 64 rows, columns, CTAs an SM has registers for, with an output of
   16 bits and of float32. */
#define RVIT_CU_LINEAR_SMALL_M(SMALL_M) \
    SMALL_M(64x96, 1, 96, 4, 4)         \
    SMALL_M(64x128, 1, 128, 3, 3)       \
    SMALL_M(128x64, 2, 64, 3, 3)        \
    SMALL_M(128x96, 2, 96, 2, 2)        \
    SMALL_M(128x128, 2, 128, 2, 1)      \
    SMALL_M(128x192, 2, 192, 1, 1)
#define RVIT_CU_CTAS_SMALL_M_E4M3 2 /* of those of e4m3, which have the shape 128x64 */
#define RVIT_CU_SMALL_M_THREADS(groups) ((groups)*128 + 32)
#define RVIT_CU_SMALL_M_STAGES 8  /* of the ring, at most */
#define RVIT_CU_SMALL_M_CLUSTER 8 /* CTAs of a cluster, at most */
/* Bytes of shared memory: barriers, and that they begin at a multiple of 1024, the ring, parts of the sums. */
#define RVIT_CU_SMALL_M_SHARED(groups, columns, stages, split_k) \
    (2048 + (stages) * ((groups)*64 + (columns)) * 128 + ((split_k) > 1 ? (groups)*64 * (columns)*4 : 0))

#define RVIT_CU_CTAS_F32 3
#define RVIT_CU_CTAS_EPILOGUE 4

/* Layernorm: the longest row that the kernel keeps in registers, CTAs on an SM. The kernel for rows
   of any length has no row in the table. */
#define RVIT_CU_NORM_SHAPES(SHAPE) SHAPE(256, 8) SHAPE(384, 6) SHAPE(768, 4) SHAPE(1024, 3) SHAPE(1152, 3) SHAPE(1280, 3) SHAPE(1536, 2)
#define RVIT_CU_CTAS_NORM_ANY 8

/* Quantize: pieces of eight outputs that a thread keeps in registers; the most threads, and of so many the CTAs on an SM. Longer rows are
   computed twice. */
#define RVIT_CU_QUANTIZE_CHUNKS 3
#define RVIT_CU_QUANTIZE_THREADS 512
#define RVIT_CU_CTAS_QUANTIZE 2

/* Attention: keys of a block (a stage of the ring holds two blocks), bytes of a key (or value) in
   shared memory, stages of the ring. */
#define RVIT_CU_ATTENTION_KEYS 32
#define RVIT_CU_ATTENTION_PITCH(D) ((D) == 80 ? 192 : 2 * (D))
#define RVIT_CU_STAGES_D32 3
#define RVIT_CU_STAGES_D64 3
#define RVIT_CU_STAGES_D80 2
#define RVIT_CU_STAGES_D96 2
#define RVIT_CU_STAGES_D128 2
/* Attention of 16-bit elements:
     name, the largest head dimension, 16-row tiles of a warp, warps,
     CTAs an SM has registers for, the same where an SM has RVIT_CU_LARGE_SMEM bytes,
     whether the kernel adds a key bias and writes cls_probs and lse.
   Kernels of 4 warps of 16 rows serve every case. Heads of 33 to 80 channels have more kernels.
   Those without bias_stats hold no code for them. An SM with less than RVIT_CU_LARGE_SMEM bytes has shared
   memory for two tall CTAs at most. */
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
/* Attention of images of few keys, without shared memory and extras: name, the most keys. A CTA has
   2 or 3 warps of 8 rows. */
#define RVIT_CU_ATTENTION_DIRECT(ATTENTION_DIRECT) ATTENTION_DIRECT(d64_direct_32, 32) ATTENTION_DIRECT(d64_direct_48, 48)
#define RVIT_CU_DIRECT_WARPS 3
#define RVIT_CU_DIRECT_ROWS 8

/* Attention of images of RVIT_CU_ATTENTION_HOPPER_MIN_ROWS and more on sm_90a, without bias_stats (kernels/attention_hopper.cuh):
     name, the largest head dimension, warpgroups of 64 query rows, whether a CTA stays on its SM and has a warpgroup of its own for copies,
     keys of a block, stages of the ring of blocks,
     the same two for images of RVIT_CU_ATTENTION_LARGE_BLOCK_MIN_ROWS(dim) and more, where they differ.
   Of CTAs that stay there is one on an SM, of others two. Every image of a launch is served: the others as by the kernels above, with the
   same bits. Those named tall serve launches in which an image may be tall; keys of a block are what the bits depend on. */
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
/* Rows of a box of keys or values: blocks of both sizes consist of them. */
#define RVIT_CU_ATTENTION_HOPPER_BOX 64
/* Bytes of shared memory: barriers, queries, the ring, ones, and what begins at a multiple of 1024. keys, stages: where they need most. */
#define RVIT_CU_ATTENTION_HOPPER_SHARED(dim, groups, keys, stages, large_keys) \
    (2048 + ((groups)*64 + (stages)*2 * (keys)) * 128 * RVIT_CU_ATTENTION_HOPPER_PANELS(dim) + ((dim) % 64 == 0 ? (large_keys)*128 : 256))

/* The same for launches of so few rows that tiles of 64 find an SM each (attend_split_kv): name, the largest head dimension, stages of the
   rings of 64 keys. A CTA has two warpgroups with a half of the keys each, so a row's bits are others than those above: sessions alone
   have them, whose launches are all for as many images. */
#define RVIT_CU_ATTENTION_SPLIT_KV(SPLIT_KV) SPLIT_KV(hopper_d64_split_kv, 64, 4)
#define RVIT_CU_SPLIT_KV_THREADS 256
#define RVIT_CU_SPLIT_KV_HALF(dim, stages) (RVIT_CU_ATTENTION_HOPPER_SHARED(dim, 1, 64, stages, 64) - 1024) /* bytes of a half */

/* The gradient of attention of 16-bit elements: name, the largest head dimension, 16-row tiles of a warp, rows of a stage (there are two),
   the most threads, CTAs of them an SM has registers for, whether the kernel serves key_bias and d_cls_probs. 0 rows: it holds a head of
   an image in shared memory. */
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

/* Received attention of 16-bit elements: name, the largest head dimension, 16-key tiles of a warp, queries of a stage (there are two), the
   most threads, CTAs of them an SM has registers for. */
#define RVIT_CU_RECEIVED_SHAPES(SHAPE) \
    SHAPE(d32, 32, 2, 64, 128, 4)      \
    SHAPE(d64, 64, 2, 64, 128, 4)      \
    SHAPE(d96, 96, 2, 64, 128, 3)      \
    SHAPE(d128, 128, 2, 64, 128, 3)

/* How the GEMM for few rows divides its work: a row of RVIT_CU_LINEAR_SMALL_M, stages of its ring, parts of k, CTAs that share rows of x
   and of weight. */
typedef struct rvit_cu_small_m_config {
    int32_t shape, stages, split_k, cluster_n, cluster_m;
} rvit_cu_small_m_config;

/* What the choice of a kernel depends on. */
typedef struct rvit_cu_machine {
    int32_t n_sms;
    int32_t max_shared;    /* bytes a CTA may ask for */
    int32_t sm_shared;     /* bytes of an SM */
    int32_t wgmma;         /* its kernels for warpgroups are there */
    int32_t faster_mma;    /* it has wgmma or tcgen05, faster than mma.sync, which the backend's other kernels use */
    int32_t early;         /* a kernel of the backend may be launched before the one before it ends */
    int32_t clusters;      /* a launch may say how many CTAs a cluster has */
    int32_t autotune_macs; /* multiply-accumulates of a GEMM from which on the algorithms of cuBLASLt are measured; 0: never */
} rvit_cu_machine;

typedef enum rvit_cu_attention_shape {
#define SHAPE(name, ...) RVIT_CU_ATTENTION_##name,
    RVIT_CU_ATTENTION_SHAPES(SHAPE) RVIT_CU_ATTENTION_DIRECT(SHAPE)
#undef SHAPE
        RVIT_CU_N_ATTENTION_SHAPES
} rvit_cu_attention_shape;

typedef struct rvit_cu_attention_tile {
    rvit_cu_attention_shape shape; /* of 16-bit elements */
    int32_t threads;
    int32_t row_blocks; /* CTAs for each head of an image */
    int32_t shared;     /* bytes */
} rvit_cu_attention_tile;

typedef struct rvit_cu_attention_size {
    int32_t element_size; /* 2 or 4; 4 is the float32 kernel, which has one shape */
    int32_t head_dim, n_heads;
    int64_t n_images, rows; /* rows: of all images together, at most */
    int32_t len;            /* the most rows an image can have */
    int32_t bias_stats;     /* there is a key bias, or more than the output is wanted */
    int32_t fixed_images;   /* no launch of fewer or more images must give an image the same bits */
} rvit_cu_attention_size;

rvit_cu_attention_tile rvit_cu_tile_attention(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

typedef enum rvit_cu_attention_hopper_shape {
#define SHAPE(name, ...) RVIT_CU_ATTENTION_##name,
    RVIT_CU_ATTENTION_HOPPER(SHAPE) RVIT_CU_ATTENTION_SPLIT_KV(SHAPE)
#undef SHAPE
        RVIT_CU_N_ATTENTION_HOPPER
} rvit_cu_attention_hopper_shape;

typedef struct rvit_cu_attention_hopper_tile {
    rvit_cu_attention_hopper_shape shape; /* RVIT_CU_N_ATTENTION_HOPPER: none serves */
    int32_t persistent;                   /* one CTA for each SM, at most as many as there are tiles */
    int32_t threads;
    int32_t row_blocks; /* tiles of each head of an image */
    int32_t shared;     /* bytes */
} rvit_cu_attention_hopper_tile;

/* The kernel for a launch in which an image may be long. */
rvit_cu_attention_hopper_tile rvit_cu_tile_attention_hopper(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

/* Of 16-bit elements. */
typedef enum rvit_cu_backward_shape {
#define SHAPE(name, ...) RVIT_CU_BACKWARD_##name,
    RVIT_CU_BACKWARD_SHAPES(SHAPE)
#undef SHAPE
        RVIT_CU_N_BACKWARD_SHAPES
} rvit_cu_backward_shape;

typedef struct rvit_cu_backward_tile {
    rvit_cu_backward_shape shape;
    int32_t threads;
    int32_t row_blocks; /* CTAs for the keys of a head of an image, and as many for its queries; held: 0, a CTA has both */
    int32_t held_rows;
    int32_t shared; /* bytes */
} rvit_cu_backward_tile;

rvit_cu_backward_tile rvit_cu_tile_backward(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

/* Of 16-bit elements. */
typedef enum rvit_cu_received_shape {
#define SHAPE(name, ...) RVIT_CU_RECEIVED_##name,
    RVIT_CU_RECEIVED_SHAPES(SHAPE)
#undef SHAPE
        RVIT_CU_N_RECEIVED_SHAPES
} rvit_cu_received_shape;

typedef struct rvit_cu_received_tile {
    rvit_cu_received_shape shape;
    int32_t threads;
    int32_t row_blocks; /* CTAs for the keys of a head of an image */
    int32_t shared;     /* bytes */
} rvit_cu_received_tile;

rvit_cu_received_tile rvit_cu_tile_received(const rvit_cu_machine *machine, const rvit_cu_attention_size *size);

typedef enum rvit_cu_linear_shape {
#define SHAPE(name, ...) RVIT_CU_LINEAR_##name,
    RVIT_CU_LINEAR_SHAPES(SHAPE) RVIT_CU_LINEAR_NONPERSISTENT(SHAPE)
#undef SHAPE
        RVIT_CU_N_LINEAR_SHAPES
} rvit_cu_linear_shape;

typedef struct rvit_cu_linear_tile {
    rvit_cu_linear_shape shape;
    int32_t threads;
    int32_t ctas; /* each takes tile after tile */
    int32_t shared;
} rvit_cu_linear_tile;

/* element_size: 1, 2 or 4; 1 is e4m3, whose shapes are RVIT_CU_LINEAR_64x64 and, is_general, _odd; 4 is the float32 kernel, whose shape is
   RVIT_CU_LINEAR_64x64. out_features: columns of the product. is_general: more is asked for than the kernels of most shapes serve
   (kernels/activation.cuh). */
rvit_cu_linear_tile rvit_cu_tile_linear(const rvit_cu_machine *machine, int32_t element_size, int64_t rows, int32_t in_features,
                                        int32_t out_features, int32_t is_general);

/* Whether a tile of the shape is all that a CTA computes. */
int32_t rvit_cu_tile_is_nonpersistent(rvit_cu_linear_shape shape);

typedef struct rvit_cu_quantize_tile {
    int32_t threads, ctas;
    int32_t held; /* rows are kept in registers */
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

/* By capacity and shape alone: the bits of a row depend on the parts of k. ctas 0: none fits. */
rvit_cu_small_m_tile rvit_cu_tile_small_m(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features,
                                          int32_t out_size);
/* Of a form. ctas 0: it is none that the kernel has; parts: of an output of that size. */
rvit_cu_small_m_tile rvit_cu_tile_small_m_of(const rvit_cu_machine *machine, const rvit_cu_small_m_config *config, int64_t rows,
                                             int32_t in_features, int32_t out_features, int32_t out_size);

/* CTAs of the GEMM of warpgroups for many rows. */
int32_t rvit_cu_tile_hopper(const rvit_cu_machine *machine, int64_t rows, int32_t out_features, int32_t out_size);

/* CTAs of a kernel with a grid-stride loop: `per_cta` items each, at least 1 and at most `per_sm` on
   each SM. */
int32_t rvit_cu_tile_ctas(const rvit_cu_machine *machine, int64_t items, int32_t per_cta, int32_t per_sm);

typedef enum rvit_cu_norm_shape {
#define SHAPE(dim, ctas) RVIT_CU_NORM_##dim,
    RVIT_CU_NORM_SHAPES(SHAPE)
#undef SHAPE
        RVIT_CU_NORM_any,
    RVIT_CU_N_NORM_SHAPES
} rvit_cu_norm_shape;

/* Layernorm: as many CTAs as stay on the device at once. */
typedef struct rvit_cu_norm_tile {
    rvit_cu_norm_shape shape;
    int32_t threads; /* a warp takes row after row */
    int32_t ctas;
    int32_t ahead_ctas; /* more CTAs, which prefetch weights of later GEMMs; 0: too many rows for it to help */
} rvit_cu_norm_tile;

rvit_cu_norm_tile rvit_cu_tile_layernorm(const rvit_cu_machine *machine, int64_t rows, int32_t dim);

/* Select and match: threads of a CTA, and CTAs (parts) among which an image's rows are divided while
   the kernel reads whole rows. */
typedef struct rvit_cu_image_tile {
    int32_t threads, parts;
    int32_t shared;    /* bytes */
    int32_t held_rows; /* match: units whose metrics lie there */
    int32_t splits;    /* match: the metrics have a launch of their own, and parts divide the search */
} rvit_cu_image_tile;

/* len: the most rows an image can have. reads_rows: there are scores to compute from rows. */
rvit_cu_image_tile rvit_cu_tile_select(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t reads_rows);

rvit_cu_image_tile rvit_cu_tile_match(const rvit_cu_machine *machine, int64_t n_images, int32_t len, int32_t head_dim, int32_t unit);
#define RVIT_CU_MATCH_THREADS 512
#define RVIT_CU_MATCH_FIXED 10240                        /* bytes of shared memory before the metrics */
#define RVIT_CU_MATCH_TILE 64                            /* units of A that a CTA is given at least; it takes twice as many at a time */
#define RVIT_CU_MATCH_STAGED ((128 + 64) * (64 + 4) * 4) /* bytes of those and of 64 units of B, 64 channels at a time */

/* Scores that are ranked or sorted in shared memory. */
#define RVIT_CU_HELD_ROWS 1024

#define RVIT_CU_MEAN_COLUMNS 128 /* of a CTA */

/* Pool: 128-column pieces of a CTA, and its warps, where rows are taken as they are, and where they are normalised: then one CTA takes an
   image, and many warps hide that each waits for its row. */
#define RVIT_CU_POOL_PIECES 1
#define RVIT_CU_POOL_WARPS 8
#define RVIT_CU_POOL_NARROW_PIECES 6
#define RVIT_CU_POOL_NARROW_WARPS 16
#define RVIT_CU_POOL_NORM_PIECES 12
#define RVIT_CU_POOL_NORM_WARPS 12

#define RVIT_CU_PROBE_PIECES 12 /* of 128 columns, that a warp of probe sums at a time */
#define RVIT_CU_PROBE_WARPS 12

/* Tiles of pictures have 1 << slot_bits pixels: high ones where there are enough for every SM, as their columns are prepared once. pixels:
   of the patches that are made; bytes: of the pictures, at capacity. */
typedef struct rvit_cu_preprocess_tile {
    int32_t slot_bits;
    int32_t raw_size; /* bytes of shared memory for lines of a picture */
} rvit_cu_preprocess_tile;
rvit_cu_preprocess_tile rvit_cu_tile_preprocess(const rvit_cu_machine *machine, int64_t pixels, int64_t bytes);

/* Images of a CTA of head. Several images share the weights that the CTA reads; with few images, one
   image a CTA is faster. */
int32_t rvit_cu_tile_head(const rvit_cu_machine *machine, int64_t n_images, int32_t n_classes);
#define RVIT_CU_HEAD_WARPS 8
#define RVIT_CU_HEAD_IMAGES 8  /* of a CTA, if not 1 */
#define RVIT_CU_HEAD_CLASSES 2 /* of a warp that takes several images; else 1 */

#endif
