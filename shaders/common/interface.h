/* The interface between host code and shaders, read by both C and GLSL: specialisation constants and push constants. A shader numbers its
   bindings from 0, in the order in which the host lists the arrays.

   Conventions. Constant 0 of every shader is its workgroup size. Workgroups are spread over two dimensions (common/group.glsl), because one
   dimension may be limited to 65535. A binding begins at its view's offset rounded down to the device's alignment; the rest of the offset
   is the array's `_at`, in the array's own load unit: four elements for x, weight, out and the like, one for int32 and f32 arrays that are
   not vectors, one 32-bit word for bytes. `live_at` below 0 means that the row count is the capacity.

   A shader for f16 also handles bf16: RVIT_SPEC_BF16 selects which of its arrays hold bf16. In the matrix tier it handles one of them. */
#ifndef RVIT_SHADERS_INTERFACE_H
#define RVIT_SHADERS_INTERFACE_H

#define RVIT_SPEC_THREADS 0
#define RVIT_SPEC_BF16 31 /* of every shader that stores 16 bits, after its own constants */
#define RVIT_BF16_IN 1    /* what the shader calls IN: x, q, k, v and the like, and a select's weights */
#define RVIT_BF16_OUT 2   /* what it calls OUT; a head's weights; fuse_x of select */

/* Largest workgroup, and so the largest number of subgroups in one. */
#define RVIT_MAX_THREADS 128

/* Rows of an image whose scores, or pairs, are kept in shared memory. */
#define RVIT_NEAR_KEYS 1024

/* The memory of a program's indirect dispatches; programs without any use the device's. It holds two words by which the workgroups of a
   select find out which of them is the last, then the dispatch sizes (triples of workgroup counts), then for each its rule: ceil(rows *
   multiply / divide) * times workgroups for a row count that is known only on the device. See common/dispatch_sizes.glsl. */
#define RVIT_DISPATCH_STATE_WORDS 2
#define RVIT_DISPATCH_SIZE_WORDS 3
#define RVIT_DISPATCH_RULE_WORDS 5
#define RVIT_DISPATCH_MULTIPLY 0
#define RVIT_DISPATCH_DIVIDE 1
#define RVIT_DISPATCH_TIMES 2
#define RVIT_DISPATCH_CAPACITY 3 /* of rows */
#define RVIT_DISPATCH_MAX_GROUPS 4

/* indirect.comp */
struct rvit_indirect_push {
    int live_at;
    int n_dispatch_sizes;
    int dispatch_sizes_at, rules_at; /* the first ones, in words past the state */
};

/* linear.comp, linear_direct.comp: out = activation(x weight^T + bias) + residual. out4 counts columns of the GEMM; if gated, each pair (a
   gate and its value) makes one element of out and residual.
   linear.comp: a workgroup computes TILE_M x TILE_N elements, a thread ROWS x 4 * COLUMNS of them, TILE_K features are staged at a time.
   linear_direct.comp: the same with operands read from texel buffers and no staging; TILE_K is not used. linear_matrix.comp: a subgroup
   computes ROWS x COLUMNS cooperative matrices of MATRIX_M x MATRIX_N, adding MATRIX_K features at a time; x and weight begin at units
   of 16 bytes. linear_i8.comp: linear.comp for rows of int8, in units of 16 bytes. */
#define RVIT_LINEAR_ROWS 1
#define RVIT_LINEAR_COLUMNS 2
#define RVIT_LINEAR_TILE_M 3
#define RVIT_LINEAR_TILE_N 4
#define RVIT_LINEAR_TILE_K 5
#define RVIT_LINEAR_FLAGS 6
#define RVIT_LINEAR_ACTIVATION 7 /* as rvit_activation */
#define RVIT_LINEAR_SUBGROUP 8
#define RVIT_LINEAR_MATRIX_M 9
#define RVIT_LINEAR_MATRIX_N 10
#define RVIT_LINEAR_MATRIX_K 11
#define RVIT_LINEAR_NONE 0
#define RVIT_LINEAR_GELU 1
#define RVIT_LINEAR_GELU_TANH 2
#define RVIT_LINEAR_QUICK_GELU 3
#define RVIT_LINEAR_SILU 4
#define RVIT_LINEAR_HAS_BIAS 1
#define RVIT_LINEAR_GATED 2
#define RVIT_LINEAR_HAS_RESIDUAL 4
#define RVIT_LINEAR_TIGHT 8    /* linear_matrix.comp: accumulators take most of the registers */
#define RVIT_LINEAR_WHOLE_K 16 /* with TIGHT: features are a multiple of TILE_K */
#define RVIT_LINEAR_SMALL_M 32 /* linear_direct_matrix.comp: fewer rows than a subgroup computes */
struct rvit_linear_push {
    int rows, live_at;
    int in4, out4; /* features and columns / 4 */
    int period;    /* of the residual's rows; 0: as many as out */
    int x_at, weight_at, bias_at, residual_at, out_at;
    int x_scales_at, weight_scales_at; /* weight_scales_at in units of four */
};

/* arrange.comp: the weights of linear, in8 units of eight features per row, for linear_direct_matrix.comp */
#define RVIT_ARRANGE_THREADS 128
struct rvit_arrange_push {
    int weight_at, in8;
};

/* layernorm.comp: a workgroup takes LAYERNORM_ROWS rows. Rows of up to 4 * LAYERNORM_HELD elements per lane are read once. */
#define RVIT_LAYERNORM_ROWS 1
#define RVIT_LAYERNORM_FLAGS 2
#define RVIT_LAYERNORM_HELD 3
#define RVIT_LAYERNORM_HAS_GATHER 1
#define RVIT_LAYERNORM_HAS_OUT_X 2
#define RVIT_LAYERNORM_HAS_BETA 4
#define RVIT_LAYERNORM_RMS 8
#define RVIT_LAYERNORM_PADDED 16    /* features < dim */
#define RVIT_LAYERNORM_OUT_SCALES 7 /* int8 only */
#define RVIT_LAYERNORM_STATIC_SCALE 8
#define RVIT_LAYERNORM_SATURATED 9
#define RVIT_LAYERNORM_N_BINDINGS 10
struct rvit_layernorm_push {
    int rows, live_at;
    int x_rows;
    int dim4; /* dim / 4 */
    int features;
    float eps;
    int x_at, src_rows_at, gamma_at, beta_at, out_at, out_x_at;
    int out_scales_at, static_scale_at, saturated_at; /* negative: absent */
};

/* quantize.comp: a workgroup takes QUANTIZE_ROWS rows. Rows of up to 4 * QUANTIZE_HELD elements per lane are computed once. */
#define RVIT_QUANTIZE_ROWS 1
#define RVIT_QUANTIZE_FLAGS 2
#define RVIT_QUANTIZE_HELD 3
#define RVIT_QUANTIZE_ACTIVATION 4 /* as rvit_activation */
#define RVIT_QUANTIZE_HAS_BIAS 1
#define RVIT_QUANTIZE_GATED 2
#define RVIT_QUANTIZE_STATIC_SCALE 2
#define RVIT_QUANTIZE_OUT_SCALES 4
#define RVIT_QUANTIZE_SATURATED 5
struct rvit_quantize_push {
    int rows, live_at;
    int columns4; /* of out, / 4 */
    int x_at, bias_at, out_at, out_scales_at;
    int static_scale_at, saturated_at; /* negative: absent */
};

/* attention.comp: a workgroup takes QUERIES query rows of one head of one image and visits its keys KEYS at a time. THREADS consists of
   lines of COLUMNS threads; lines share the queries evenly, a multiple of four each. KEYS is a multiple of COLUMNS, and COLUMNS of four.
   In the subgroup tier a line is inside one subgroup. attention_direct.comp: q, k and v are texel buffers, a workgroup is one subgroup,
   KEYS a multiple of its size, which is at most 16. attention_matrix.comp: a subgroup takes MATRIX_M queries, in attention_rows.comp
   MATRIX_ROWS times that; KEYS and HEAD_DIM are multiples of MATRIX_N and MATRIX_K; offsets and row strides of q, k and v are multiples
   of eight elements. */
#define RVIT_ATTENTION_HEAD_DIM 1
#define RVIT_ATTENTION_QUERIES 2
#define RVIT_ATTENTION_KEYS 3
#define RVIT_ATTENTION_FLAGS 4
#define RVIT_ATTENTION_COLUMNS 5
#define RVIT_ATTENTION_SUBGROUP 5
#define RVIT_ATTENTION_MATRIX_M 6
#define RVIT_ATTENTION_MATRIX_N 7
#define RVIT_ATTENTION_MATRIX_K 8
#define RVIT_ATTENTION_MATRIX_ROWS 9 /* attention_rows.comp: matrices of queries per subgroup */
#define RVIT_ATTENTION_HAS_BIAS 1
#define RVIT_ATTENTION_HAS_CLS_PROBS 2
#define RVIT_ATTENTION_HAS_LSE 4
#define RVIT_ATTENTION_TOGETHER 8 /* no subgroup skips a barrier: lavapipe 26.1 would stop the others as well */
struct rvit_attention_push {
    int n_images, n_heads, max_len, rows;
    int n_tiles; /* query tiles, at capacity */
    float scale;
    int q_stride4, k_stride4, v_stride4, out_stride4; /* elements / 4 */
    int q_at, k_at, v_at, cu_seqlens_at, key_bias_at, out_at, cls_probs_at, lse_at;
};

/* attention_received.comp: a workgroup of RVIT_MAX_THREADS takes RECEIVED_KEYS keys of a head, and RECEIVED_QUERIES queries at a time; the
   RECEIVED_COLUMNS threads of a line share keys. */
#define RVIT_ATTENTION_RECEIVED_KEYS 64
#define RVIT_ATTENTION_RECEIVED_QUERIES 32
#define RVIT_ATTENTION_RECEIVED_COLUMNS 8
#define RVIT_ATTENTION_RECEIVED_HAS_BIAS 1
struct rvit_attention_received_push {
    int n_images, n_heads, max_len, rows;
    int n_tiles; /* key tiles, at capacity */
    int dim4;    /* head_dim / 4 */
    float scale;
    int q_stride4, k_stride4; /* elements / 4 */
    int q_at, k_at, cu_seqlens_at, key_bias_at, lse_at, out_at;
};

/* rope.comp: a thread takes four pairs of a head. */
#define RVIT_ROPE_HAS_POSITIONS 1
struct rvit_rope_push {
    int rows, live_at;
    int n_heads, pairs4; /* pairs4: pairs of a head / 4 */
    int n_positions, n_prefix;
    int q_stride4, k_stride4; /* elements / 4 */
    int q_at, k_at, table_at, positions_at;
};

/* patchify.comp: a thread takes two adjacent pixels. */
#define RVIT_PATCHIFY_FLAGS 1
#define RVIT_PATCHIFY_HAS_LIVE 1
#define RVIT_PATCHIFY_HAS_CU_SEQLENS 2
struct rvit_patchify_push {
    int n_images, live_at;
    int channels, height, width, patch_size, grid_height, grid_width, n_prefix, out_stride;
    int part;                             /* elements per row of the hi part, and of the lo part */
    int images_at, out_at, cu_seqlens_at; /* images_at and out_at in pairs of elements */
};

/* pool.comp: a workgroup takes 4 * COLUMNS columns of one image, and POOL_ROWS rows at a time, which TEAMS teams normalise. */
#define RVIT_POOL_ROWS 32
#define RVIT_POOL_TEAMS 1
#define RVIT_POOL_COLUMNS 2
#define RVIT_POOL_FLAGS 3
#define RVIT_POOL_PLAIN_COLUMNS 16
#define RVIT_POOL_NORM_COLUMNS 128
#define RVIT_POOL_HAS_SIZES 1
#define RVIT_POOL_HAS_NORM 2
#define RVIT_POOL_HAS_BETA 4
#define RVIT_POOL_RMS 8
#define RVIT_POOL_FIRST_ROW 16
struct rvit_pool_push {
    int n_images, max_len, rows, n_prefix;
    int dim4, out_stride4; /* elements / 4 */
    int n_blocks;          /* column blocks */
    float eps;
    int cu_seqlens_at, x_at, sizes_at, gamma_at, beta_at, out_at;
};

/* attention_pool.comp: a workgroup takes a head of an image, and 4 * COLUMNS columns at a time. */
#define RVIT_ATTENTION_POOL_COLUMNS 64
#define RVIT_ATTENTION_POOL_MAX_HEAD_DIM 192
#define RVIT_ATTENTION_POOL_TEAMS 1
#define RVIT_ATTENTION_POOL_FLAGS 2
#define RVIT_ATTENTION_POOL_HAS_SIZES 1
#define RVIT_ATTENTION_POOL_HAS_BIAS 2
#define RVIT_ATTENTION_POOL_HAS_PROBS 4
struct rvit_attention_pool_push {
    int n_images, n_heads, max_len, rows;
    int dim4; /* dim / 4 */
    int head_dim, logits_stride;
    int cu_seqlens_at, x_at, logits_at, sizes_at, weight_at, bias_at, out_at, probs_at;
};

/* head.comp: a workgroup takes TEAMS x CLASSES classes of one image. */
#define RVIT_HEAD_CLASSES 4
#define RVIT_HEAD_TEAMS 1
#define RVIT_HEAD_FLAGS 2
#define RVIT_HEAD_HAS_BIAS 1
#define RVIT_HEAD_HAS_LENGTHS 2
#define RVIT_HEAD_HAS_NORM 4
#define RVIT_HEAD_HAS_BETA 8
#define RVIT_HEAD_RMS 16
struct rvit_head_push {
    int n_images, rows;
    int dim4; /* dim / 4 */
    int n_tokens, n_classes;
    float eps;
    int x_at, cu_seqlens_at, gamma_at, beta_at, weight_at, bias_at, logits_at;
};

#endif
