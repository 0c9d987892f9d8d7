/* Ops on ragged batches: attention and its gradient, linear, layernorm, quantize, pack, unpack, rotary
   positions, pooling and the head, and the ops for images of different sizes.

   Layout. A batch of n_images sequences is packed into one array of rows, image after image. Image i
   owns rows cu_seqlens[i] .. cu_seqlens[i + 1] - 1. cu_seqlens is int32 [n_images + 1] on the device;
   it starts at 0 and never decreases. An image may have any length from 0 to max_len, and n_images may
   be 0. The host knows only capacities: no op reads a length back. Rows at or past
   cu_seqlens[n_images] are never used as data and never written.

   Arithmetic. Arrays are stored in 16 or 32 bits; arithmetic and accumulation are in float32. Every
   array is row-major. Strides are in elements and are multiples of 8. Quantized rows have 8-bit values
   and one scale per row: rvit_layernorm and rvit_quantize write them, rvit_linear multiplies them and
   can write E4M3 rows with a static scale.

   Calls. All ops are asynchronous on their stream. Args are read during the call; buffers must outlive
   the work. An op returns INVALID_ARGUMENT if an argument breaks its rule (for example a missing view,
   a view past the end of its buffer, or a buffer of another device) and UNSUPPORTED, with the reason,
   if the device cannot run it. */
#ifndef RAGGEDVIT_OPS_H
#define RAGGEDVIT_OPS_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* I8 and E4M3 take one byte and are accepted only where an argument says so. E4M3 is the "e4m3fn"
   format of the OCP 8-bit floating point specification: up to 448, no infinities. Only results of a
   session are I32 and U8; no op takes them. */
typedef enum rvit_dtype { RVIT_F32 = 0, RVIT_F16 = 1, RVIT_BF16 = 2, RVIT_I8 = 3, RVIT_E4M3 = 4, RVIT_I32 = 5, RVIT_U8 = 6 } rvit_dtype;
/* Bytes of one element; 0 if the value is not a valid dtype. */
RVIT_API int64_t rvit_dtype_size(rvit_dtype dtype);

/* The number of rows that an op processes. capacity is the host's upper bound. Without live, the op
   processes exactly capacity rows. With live, it processes min(capacity, the int32 at live), read on
   the device when the op runs. live is 4-byte aligned; usually it is cu_seqlens[n_images].

   RVIT_ROWS_PADDED: the op may also read and write the rows between live and capacity if that is faster
   (one dense GEMM over all rows). Nothing may depend on the contents of those rows. */
typedef enum rvit_rows_padding { RVIT_ROWS_EXACT = 0, RVIT_ROWS_PADDED = 1 } rvit_rows_padding;

typedef struct rvit_rows {
    int64_t capacity;
    rvit_view live;
    int32_t padded; /* rvit_rows_padding */
} rvit_rows;

/* Bidirectional self-attention within each image, for each head:
       out[t, h, :] = sum_j softmax_j(scale * q[t, h, :] . k[j, h, :] + key_bias[j]) * v[j, h, :]
   where j runs over the rows of t's image. The result of an image does not depend on the other images
   of the batch, bit for bit. */
typedef struct rvit_attention_args {
    size_t struct_size;
    rvit_dtype dtype; /* of q, k, v and out */
    int32_t n_images;
    int32_t n_heads;
    int32_t head_dim;                     /* multiple of 8, 8..128 */
    int32_t max_len;                      /* maximum length of an image, in rows */
    int64_t rows;                         /* maximum number of rows of a batch */
    float scale;                          /* 0: 1 / sqrt(head_dim) */
    rvit_view q, k, v;                    /* [rows, n_heads, head_dim]; the heads of a row are
                                             contiguous */
    int64_t q_stride, k_stride, v_stride; /* elements between rows; 0: n_heads * head_dim. Packed
                                             qkv: 3 * n_heads * head_dim */
    rvit_view cu_seqlens;                 /* int32 [n_images + 1], 4-byte aligned */
    rvit_view key_bias;                   /* optional: f32 [rows], added to the scaled logits of
                                             every head */
    rvit_view out;                        /* [rows, n_heads * head_dim] */
    int64_t out_stride;                   /* 0: n_heads * head_dim */
    rvit_view cls_probs;                  /* optional out: f32 [rows, n_heads], the softmax row of
                                             the first token of each image */
    rvit_view lse;                        /* optional out: f32 [rows, n_heads], natural log of the
                                             softmax denominator */
} rvit_attention_args;
#define RVIT_ATTENTION_ARGS_INIT RVIT_INIT(rvit_attention_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_attention(rvit_stream *stream, const rvit_attention_args *args);

/* The gradient of rvit_attention. q, k, v, cu_seqlens, key_bias, scale and the sizes are those of the
   forward; out and lse are what it wrote, and so is cls_probs if d_cls_probs is present. d_out,
   d_cls_probs and d_lse are the gradients of a loss with respect to out, cls_probs and lse. For each
   image and head
       P_ij = exp(scale * q_i . k_j + key_bias_j - lse_i)
       D_i  = d_out_i . out_i - d_lse_i + [i is the first row] sum_j cls_probs_j d_cls_probs_j
       S_ij = P_ij (d_out_i . v_j + [i is the first row] d_cls_probs_j - D_i)
       d_v_j = sum_i P_ij d_out_i     d_k_j = scale sum_i S_ij q_i     d_q_i = scale sum_j S_ij k_j
       d_key_bias_j = sum of S_ij over i and all heads
   The outputs are overwritten, not accumulated into. d_q, d_k and d_v may share rows, as in a packed
   gradient, if they have the same stride and disjoint columns. The result of an image does not depend
   on the other images of the batch and is the same in every run, bit for bit. The Vulkan backend does
   not support this op. */
typedef struct rvit_attention_backward_args {
    size_t struct_size;
    rvit_dtype dtype; /* of q, k, v, out, d_out, d_q, d_k and d_v */
    int32_t n_images;
    int32_t n_heads;
    int32_t head_dim;                           /* multiple of 8, 8..128 */
    int32_t max_len;                            /* maximum length of an image, in rows */
    int64_t rows;                               /* maximum number of rows of a batch */
    float scale;                                /* 0: 1 / sqrt(head_dim) */
    rvit_view q, k, v;                          /* [rows, n_heads, head_dim]; the heads of a row are
                                                   contiguous */
    int64_t q_stride, k_stride, v_stride;       /* elements between rows; 0: n_heads * head_dim */
    rvit_view cu_seqlens;                       /* int32 [n_images + 1], 4-byte aligned */
    rvit_view key_bias;                         /* optional: f32 [rows] */
    rvit_view out;                              /* [rows, n_heads * head_dim] */
    int64_t out_stride;                         /* 0: n_heads * head_dim */
    rvit_view lse;                              /* f32 [rows, n_heads] */
    rvit_view d_out;                            /* [rows, n_heads * head_dim] */
    int64_t d_out_stride;                       /* 0: n_heads * head_dim */
    rvit_view cls_probs;                        /* f32 [rows, n_heads]; required with d_cls_probs, else not
                                                   used */
    rvit_view d_cls_probs;                      /* optional: f32 [rows, n_heads] */
    rvit_view d_lse;                            /* optional: f32 [rows, n_heads] */
    rvit_view d_q, d_k, d_v;                    /* out: [rows, n_heads, head_dim] */
    int64_t d_q_stride, d_k_stride, d_v_stride; /* 0: n_heads * head_dim */
    rvit_view d_key_bias;                       /* optional out: f32 [rows] */
    rvit_view workspace;                        /* scratch of rvit_attention_backward_workspace bytes */
} rvit_attention_backward_args;
#define RVIT_ATTENTION_BACKWARD_ARGS_INIT RVIT_INIT(rvit_attention_backward_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_attention_backward(rvit_stream *stream, const rvit_attention_backward_args *args);
/* Bytes of workspace that rvit_attention_backward needs with these args, on any device. The size depends
   on rows, n_heads and the presence of d_key_bias; other fields may be unset. Negative, with a detail
   text, if one of these breaks a rule. */
RVIT_API int64_t rvit_attention_backward_workspace(const rvit_attention_backward_args *args);

/* The mean attention that each token receives: the column mean of the attention matrix over the n rows i
   of its image,
       out[t, h] = 1 / n * sum_i exp(scale * q[i, h, :] . k[t, h, :] + key_bias[t] - lse[i, h])
   q, k, key_bias, scale and the sizes are those of rvit_attention; lse is what it wrote. A row whose lse
   is -infinity contributes nothing. The order of the sum is fixed, so the result of an image does not
   depend on the other images of the batch and is the same in every run, bit for bit. Pass out to
   rvit_select as cls_probs with RVIT_SCORE_CLS_ATTENTION to score a row by its mean over all heads. */
typedef struct rvit_attention_received_args {
    size_t struct_size;
    rvit_dtype dtype; /* of q and k */
    int32_t n_images;
    int32_t n_heads;
    int32_t head_dim;           /* multiple of 8, 8..128 */
    int32_t max_len;            /* maximum length of an image, in rows */
    int64_t rows;               /* maximum number of rows of a batch */
    float scale;                /* 0: 1 / sqrt(head_dim) */
    rvit_view q, k;             /* [rows, n_heads, head_dim]; the heads of a row are contiguous */
    int64_t q_stride, k_stride; /* elements between rows; 0: n_heads * head_dim */
    rvit_view cu_seqlens;       /* int32 [n_images + 1], 4-byte aligned */
    rvit_view key_bias;         /* optional: f32 [rows] */
    rvit_view lse;              /* f32 [rows, n_heads] */
    rvit_view out;              /* f32 [rows, n_heads] */
} rvit_attention_received_args;
#define RVIT_ATTENTION_RECEIVED_ARGS_INIT RVIT_INIT(rvit_attention_received_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_attention_received(rvit_stream *stream, const rvit_attention_received_args *args);

/* Rotary position embedding (RoPE): rotates the queries and keys of a row by the row's position, in place,
   by the same angles in every head. With position p and D = head_dim, for j < D / 2
       x[j]         = x[j] * table[p, j] - x[j + D / 2] * table[p, j + D / 2]
       x[j + D / 2] = x[j + D / 2] * table[p, j] + x[j] * table[p, j + D / 2]
   in float32, rounded once. A model that rotates adjacent pairs (2 j, 2 j + 1) needs the rows of each
   head's query and key weights in the order 0, 2, 4, .., 1, 3, 5, ... A row is left unchanged if its
   position is below n_prefix (a CLS token or a register), negative (a fused token), or n_positions or
   more. q and k may share rows, as in packed qkv, if they have the same stride and disjoint columns. */
typedef struct rvit_rope_args {
    size_t struct_size;
    rvit_dtype dtype; /* of q and k */
    rvit_rows rows;
    int32_t n_heads;
    int32_t head_dim;           /* multiple of 8, 8..128 */
    int32_t n_positions;        /* 1 or more */
    int32_t n_prefix;           /* positions below it are not rotated */
    rvit_view q, k;             /* in and out: [rows, n_heads, head_dim]; the heads of a row are
                                   contiguous */
    int64_t q_stride, k_stride; /* elements between rows; 0: n_heads * head_dim */
    rvit_view table;            /* f32 [n_positions, head_dim]: the cosines of a position's head_dim / 2
                                   angles, then their sines */
    rvit_view positions;        /* optional: int32 [rows], as written by rvit_positions. Absent: row t
                                   has position t mod n_positions, as in an unpruned batch */
} rvit_rope_args;
#define RVIT_ROPE_ARGS_INIT RVIT_INIT(rvit_rope_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_rope(rvit_stream *stream, const rvit_rope_args *args);

typedef enum rvit_activation {
    RVIT_ACTIVATION_NONE = 0,
    RVIT_ACTIVATION_GELU = 1,       /* exact: 0.5 x (1 + erf(x / sqrt 2)) */
    RVIT_ACTIVATION_GELU_TANH = 2,  /* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    RVIT_ACTIVATION_QUICK_GELU = 3, /* x sigmoid(1.702 x) */
    RVIT_ACTIVATION_SILU = 4        /* x sigmoid(x) */
} rvit_activation;

/* out[t, :] = activation(x[t, :] weight^T + bias) + residual[t mod period, :]
   If gated is 1, weight and bias have two rows per output j, the gate in row 2 j and the value in row
   2 j + 1:
       out[t, j] = activation(x[t, :] gate_j^T + bias[2 j]) * (x[t, :] value_j^T + bias[2 j + 1])
                   + residual[t mod period, j]
   SwiGLU is SILU with gated = 1.

   With dtype I8 or E4M3, the dot product of row t of x and row n of weight is
       x_scales[t] * weight_scales[n] * sum_k x[t, k] weight[n, k]
   I8 sums are exact in 32-bit integers and are then rounded to float32. E4M3 sums are in float32; the
   tensor cores of a GPU keep at least 13 bits of them.

   out_dtype E4M3 requires dtype E4M3 and no residual. v = activation(...), in float32, is quantized in
   the same pass as rvit_quantize does it with the static scale s = static_scale[0]:
       out_scales[t] = s     out[t, j] = round(v[t, j] * (1 / s)), saturated at 448
   A non-finite v becomes NaN in its own element, whereas rvit_quantize makes its whole row NaN; results
   computed from the row are NaN in both cases. If s is outside 2^-100..2^100, all of out and out_scales
   is NaN. CUDA requires compute capability 9.0, out_features that are a multiple of 32, and gated = 0.

   The activation of NaN is NaN, of infinity is infinity (GELU: or NaN), of -infinity is 0 or NaN. No
   finite input gives NaN, however large. */
typedef struct rvit_linear_args {
    size_t struct_size;
    rvit_dtype dtype;     /* of x and weight */
    rvit_dtype out_dtype; /* of out and residual: dtype or F32. With dtype I8: F32, F16 or BF16; with
                             E4M3: these or E4M3 */
    rvit_rows rows;
    int32_t in_features;  /* multiple of 4; with I8 or E4M3: of 16, at most 65536 */
    int32_t out_features; /* multiple of 4; with out_dtype E4M3: of 16, at most 65536 */
    rvit_activation activation;
    rvit_view x;             /* [rows, in_features] */
    rvit_view weight;        /* [out_features, in_features]; gated: [2 * out_features, in_features] */
    rvit_view bias;          /* optional: f32 [out_features]; gated: [2 * out_features] */
    rvit_view residual;      /* optional: [residual_period or rows, out_features]; may be out if
                                residual_period is 0 */
    int64_t residual_period; /* 0: residual has one row per row of out */
    rvit_view out;           /* [rows, out_features] */
    int32_t gated;           /* 0 or 1 */
    rvit_view x_scales;      /* with I8 or E4M3: f32 [rows]; else absent */
    rvit_view weight_scales; /* with I8 or E4M3: f32 [out_features]; gated: [2 * out_features]; else absent */
    rvit_view static_scale;  /* with out_dtype E4M3: f32 [1], 4-byte aligned; else absent */
    rvit_view out_scales;    /* out, with out_dtype E4M3: f32 [rows]; else absent */
    rvit_view saturated;     /* optional, with out_dtype E4M3: in and out, int32 [1], 4-byte aligned. The op
                                adds the number of finite values with |v * (1 / s)| > 448, modulo 2^32 */
} rvit_linear_args;
#define RVIT_LINEAR_ARGS_INIT RVIT_INIT(rvit_linear_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_linear(rvit_stream *stream, const rvit_linear_args *args);

typedef enum rvit_norm {
    RVIT_NORM_LAYER = 0, /* (x - mean) / sqrt(var + eps) * gamma + beta, with the biased variance */
    RVIT_NORM_RMS = 1    /* x / sqrt(mean of x^2 + eps) * gamma */
} rvit_norm;

/* With r = src_rows ? src_rows[t] : t,
       out[t, :] = the norm of x[r, :]   (in float32)
       out_x[t, :] = x[r, :]   (optional: rvit_pack without a pass of its own) */
typedef struct rvit_layernorm_args {
    size_t struct_size;
    rvit_dtype dtype;      /* of x and out_x */
    rvit_dtype out_dtype;  /* of out. I8, E4M3: rows are quantized as by rvit_quantize */
    rvit_rows rows;        /* of out */
    int64_t x_rows;        /* capacity of x in rows; 0: rows.capacity. Required with src_rows */
    int32_t dim;           /* multiple of 4; with out_dtype I8 or E4M3: of 16, at most 65536 */
    float eps;             /* above 0 */
    rvit_view x;           /* [x_rows, dim] */
    rvit_view src_rows;    /* optional: int32 [rows], each in 0..x_rows-1 */
    rvit_view gamma, beta; /* f32 [dim]; beta is optional, and absent with RMS */
    rvit_view out;         /* [rows, dim]; must not be x */
    rvit_view out_x;       /* optional: [rows, dim]; must not be x */
    rvit_norm norm;
    int32_t features;       /* number of columns that hold data, 1..dim; 0: dim. The rest is padding: x, gamma
                               and beta are ignored there, and out is zero */
    rvit_view out_scales;   /* out, with out_dtype I8 or E4M3: f32 [rows]; else absent */
    rvit_view static_scale; /* optional, as for rvit_quantize */
    rvit_view saturated;    /* optional, as for rvit_quantize */
} rvit_layernorm_args;
#define RVIT_LAYERNORM_ARGS_INIT RVIT_INIT(rvit_layernorm_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_layernorm(rvit_stream *stream, const rvit_layernorm_args *args);

/* Quantizes rows to 8 bits for rvit_linear. v, in float32, is activation(x[t, :] + bias). If gated is 1,
   v[j] = activation(gate) * value, where gate and value are columns 2 j and 2 j + 1 of x + bias.
       out[t, j] = v[j] / out_scales[t], rounded to nearest even in out_dtype and saturated at M, where
                   M is 127 for I8 (-128 is not used) and 448 for E4M3.
   Without static_scale, the scale of a row maps its largest |v| to M:
       a = max |v[j]|     out_scales[t] = a / M     out[t, j] = round(v[j] * (M / a))
   A row with a < 2^-100 gets scale 0 and zeros. With static_scale s:
       out_scales[t] = s     out[t, j] = round(v[j] * (1 / s))
   Each operation above is a single float32 operation, so all devices give the same bits for the same v.
   A row that has a non-finite value, or an s outside 2^-100..2^100, gets scale NaN and zeros (E4M3: NaN);
   results computed from it are NaN. */
typedef struct rvit_quantize_args {
    size_t struct_size;
    rvit_dtype dtype;     /* of x: F32, F16 or BF16 */
    rvit_dtype out_dtype; /* of out: I8 or E4M3 */
    rvit_rows rows;
    int32_t columns; /* of out: multiple of 16, at most 65536 */
    rvit_activation activation;
    int32_t gated;          /* 0 or 1 */
    rvit_view x;            /* [rows, columns]; gated: [rows, 2 * columns] */
    rvit_view bias;         /* optional: f32 [columns]; gated: [2 * columns] */
    rvit_view static_scale; /* optional: f32 [1], 4-byte aligned */
    rvit_view out;          /* [rows, columns]; must not be x */
    rvit_view out_scales;   /* out: f32 [rows] */
    rvit_view saturated;    /* optional, in and out: int32 [1], 4-byte aligned. With static_scale, the op adds
                               the number of values with |v[j] * (1 / s)| > M, modulo 2^32 */
} rvit_quantize_args;
#define RVIT_QUANTIZE_ARGS_INIT RVIT_INIT(rvit_quantize_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_quantize(rvit_stream *stream, const rvit_quantize_args *args);

/* destination[t, :] = source[src_rows[t], :]: a bitwise copy of rows of row_size bytes. */
typedef struct rvit_pack_args {
    size_t struct_size;
    rvit_rows rows;        /* of destination */
    int64_t source_rows;   /* capacity of source in rows */
    int64_t row_size;      /* bytes, multiple of 4 */
    rvit_view source;      /* [source_rows, row_size]; 4-byte alignment suffices if row_size is not
                              a multiple of 16 */
    rvit_view src_rows;    /* int32 [rows], each in 0..source_rows-1 */
    rvit_view destination; /* [rows, row_size]; must not be source */
} rvit_pack_args;
#define RVIT_PACK_ARGS_INIT RVIT_INIT(rvit_pack_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_pack(rvit_stream *stream, const rvit_pack_args *args);

/* The inverse of pack: destination[src_rows[t], :] = source[t, :]. All other rows of destination are
   copied from base or, if base is absent, filled with fill. */
typedef struct rvit_unpack_args {
    size_t struct_size;
    rvit_dtype dtype;
    rvit_rows rows;             /* of source */
    rvit_rows destination_rows; /* of destination; n_images * tokens for a grid [n_images, tokens,
                                   dim] */
    int32_t dim;                /* multiple of 4 */
    float fill;                 /* rounded to dtype */
    rvit_view source;           /* [rows, dim] */
    rvit_view src_rows;         /* int32 [rows], strictly increasing, as rvit_select writes it */
    rvit_view base;             /* optional: [destination_rows, dim]; may be destination */
    rvit_view destination;      /* [destination_rows, dim]; must not be source */
} rvit_unpack_args;
#define RVIT_UNPACK_ARGS_INIT RVIT_INIT(rvit_unpack_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_unpack(rvit_stream *stream, const rvit_unpack_args *args);

/* Checks a layout in host memory: cu_seqlens, int32 [n_images + 1], must start at 0, never decrease,
   have no length above max_len and end at or below rows. INVALID_ARGUMENT names the first image that
   breaks a rule. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cu_seqlens_check(const int32_t *cu_seqlens, int32_t n_images, int32_t max_len, int64_t rows);

/* Builds the layout of a keep mask in host memory. keep: uint8 [n_images, tokens], nonzero = kept;
   the first n_prefix tokens of each image must be kept. Writes out_cu_seqlens int32 [n_images + 1]
   and out_src_rows int32 [n_images * tokens]: the kept rows of the [n_images * tokens] grid,
   ascending. */
RVIT_API RVIT_NODISCARD rvit_status rvit_layout_from_mask(const uint8_t *keep, int32_t n_images, int32_t tokens, int32_t n_prefix,
                                                          int32_t *out_cu_seqlens, int32_t *out_src_rows);

/* Images of different sizes. The patch grids of the images are on the device, so one recorded program
   serves every set of sizes:

     rvit_grid_layout  grids -> cu_seqlens, and token_map: where in its image each row lies
     rvit_linear       patches -> their embedding; live: the last entry of patch_cu_seqlens
     rvit_embed        token_map, embedding -> rows: prefix tokens, and patches with their positions
     rvit_grid_rope    token_map -> the table of rvit_rope, one line per row of the batch

   With that table, the rotary position of a row is its index in the unpruned batch: call rvit_rope with
   n_positions = the rows of the table, n_prefix = 0 and, until rows are dropped, no positions.
   rvit_positions, with the same n_positions, carries the positions through prune stages. */

/* The layout of a batch of images with gh x gw patches each. Image i has
       n_prefix + gh * gw   rows, its tokens: the prefix, then the patches; none if gh * gw is 0
       gh * gw              patch rows
   cu_seqlens and patch_cu_seqlens are the layouts of these two.

   A merge group is a block of merge * merge patches. With window, the rows of an image are ordered
   by windows of window * window merge groups (Qwen2.5-VL): windows in raster order, smaller ones at the
   right and bottom edges, and the groups of a window in raster order. For attention within windows, use
   window_cu_seqlens as the layout, max_windows as n_images and (merge * window)^2 as max_len. To restore
   the order given by merge, call rvit_pack with group_rows and merge * merge rows as one row.

   Any contents of grids are safe: the layouts fit the capacities, and no array is overrun. A side below 0
   counts as 0, a side above 32,767 as 32,767, and a side that is not a multiple of merge is rounded down
   to one. An image of more than max_len tokens loses the excess tokens but keeps its patch rows, so the
   other images are unaffected. Tokens past `rows` and patch rows past `patch_rows` are dropped.
   debug_checks reports such grids. */
typedef struct rvit_grid_layout_args {
    size_t struct_size;
    int32_t n_images;           /* capacity in images */
    int32_t n_prefix;           /* 0..1024 */
    int32_t max_len;            /* maximum length of an image, in tokens */
    int32_t merge;              /* order of the patches of an image. 0 or 1: raster order. 2: blocks of 2 x 2
                                   patches in raster order, and raster order within a block (Qwen) */
    int64_t rows;               /* maximum number of tokens of a batch */
    int64_t patch_rows;         /* maximum number of patches of a batch; 0: rows */
    rvit_view live_images;      /* optional: int32 [1], 4-byte aligned: number of images present, read
                                   when the op runs and clamped to 0..n_images. Further images are
                                   empty, whatever their grids hold */
    rvit_view grids;            /* int32 [n_images, 2]: gh, gw; 8-byte aligned */
    rvit_view cu_seqlens;       /* out: int32 [n_images + 1], 4-byte aligned */
    rvit_view patch_cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned */
    rvit_view token_map;        /* optional out: int32 [rows, 4], for each token:
                                 its patch row; -1 - k for prefix token k
                                 its image
                                 y * 65536 + x, its position in the grid; 0 for a prefix token
                                 gh * 65536 + gw
                               Rows past the last token are not written */
    int32_t patch_merge;        /* order of the patch rows: 0: as given by merge; 1: raster order */
    int32_t window;             /* side of a window in merge groups, 0..16384; 0: no windows. Requires n_prefix 0 */
    int32_t max_windows;        /* maximum number of windows of a batch, 0..2^30.
                                   (rows / merge^2 + (window - 1) * n_images) / window is always enough */
    /* Optional outs. They require n_prefix 0 and whole merge groups in max_len, rows and patch_rows. */
    rvit_view group_cu_seqlens;  /* int32 [n_images + 1], 4-byte aligned: cu_seqlens / merge^2 */
    rvit_view window_cu_seqlens; /* int32 [max_windows + 1], 4-byte aligned: the first row of each window; past the
                                    last window, the number of rows. Windows past max_windows are dropped */
    rvit_view group_rows;        /* int32 [rows / merge^2]: for each merge group, in raster order of its image, its
                                   index in row order. Entries past the last group are not written */
} rvit_grid_layout_args;
#define RVIT_GRID_LAYOUT_ARGS_INIT RVIT_INIT(rvit_grid_layout_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_grid_layout(rvit_stream *stream, const rvit_grid_layout_args *args);

/* How a position table is resampled to another grid. The axes are resampled separately. With G the side
   of the table, g the side of the grid and i the row or column, the source coordinate is
   (i + 0.5) G / g - 0.5 unless stated otherwise. Taps outside the table repeat its edge. Antialiased
   kernels widen by max(G / g, 1), omit taps outside the table and are normalised by their sum. */
typedef enum rvit_resample {
    RVIT_RESAMPLE_DEFAULT = 0,            /* as the code base that the tensor names come from */
    RVIT_RESAMPLE_BICUBIC = 1,            /* bicubic (a = -0.75), as in Hugging Face and the original code of
                                             DeiT and EViT */
    RVIT_RESAMPLE_BILINEAR = 2,           /* bilinear, as in the original code of DynamicViT and ATS */
    RVIT_RESAMPLE_TIMM = 3,               /* antialiased bicubic (a = -0.5), as in timm and in Hugging Face's
                                             DINOv2 with registers */
    RVIT_RESAMPLE_BILINEAR_ANTIALIAS = 4, /* antialiased bilinear, as in SigLIP2 NaFlex */
    RVIT_RESAMPLE_ALIGN_CORNERS = 5,      /* bilinear; the source is i (G - 1) / (g - 1), as in Qwen3-VL */
    RVIT_RESAMPLE_NEAREST = 6             /* the entry floor(i G / g), as in Idefics and MiniCPM-V */
} rvit_resample;

/* The input rows of the first block of a ViT. For row t, with token_map as written by rvit_grid_layout,
       out[t, :] = prefix[k, :]                        if it is prefix token k
                   patches[p, :] + position(y, x)[:]   if its patch row is p
   position(y, x) is the table resampled to the grid of the image: for each line of the table the sum over
   columns, then the sum over lines, in float32 and in ascending order. If the grid has the size of the
   table, this is the table, bit for bit. A row depends only on its own image. Patch rows of patch_rows or
   more, and prefix tokens of n_prefix or more, are clamped to the last one; if there is none, out is 0. */
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
    rvit_view token_map; /* int32 [rows, 4] */
    rvit_view patches;   /* [patch_rows, dim]: the patch embedding */
    rvit_view prefix;    /* f32 [n_prefix, dim]: the prefix tokens with their positions added. Absent
                            if n_prefix is 0 */
    rvit_view table;     /* optional: f32 [table_height, table_width, dim] */
    rvit_view out;       /* f32 [rows, dim] */
} rvit_embed_args;
#define RVIT_EMBED_ARGS_INIT RVIT_INIT(rvit_embed_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_embed(rvit_stream *stream, const rvit_embed_args *args);

/* The coordinate of a patch on an axis; i is its row or column, g the side of the grid. */
typedef enum rvit_rope_coordinates {
    RVIT_ROPE_INDEX = 0,  /* i + offset; with a reference, (i + offset) / g * reference; in radians
                             (Qwen; EVA02: reference 16; PE: offset 1, reference = trained grid) */
    RVIT_ROPE_CENTRED = 1 /* 2 (i + 0.5 + offset) / g - 1, in turns (DINOv3) */
} rvit_rope_coordinates;

/* The axis of the first half of the angles, then that of the second. */
typedef enum rvit_rope_order { RVIT_ROPE_YX = 0, RVIT_ROPE_XY = 1 } rvit_rope_order;

/* The table of rvit_rope for a batch of images with different grids. Pair j < head_dim / 4 of an axis
   rotates by the patch's coordinate on that axis times frequencies[j]. The fraction of a turn is accurate
   to 2^-27, however many turns there are. Rows of prefix tokens do not rotate: cosines 1, sines 0. */
typedef struct rvit_grid_rope_args {
    size_t struct_size;
    rvit_rows rows;   /* of out */
    int32_t head_dim; /* multiple of 8, 8..128 */
    rvit_rope_coordinates coordinates;
    rvit_rope_order order;
    float offset;           /* finite */
    float reference_height; /* grid side, finite, 0 or more; 0: none. INDEX only */
    float reference_width;
    rvit_view token_map;   /* int32 [rows, 4], as rvit_grid_layout writes it */
    rvit_view frequencies; /* f32 [head_dim / 4, 2], from rvit_rope_frequencies: turns per unit of
                              coordinate, each as the sum of two numbers */
    rvit_view out;         /* f32 [rows, head_dim]: the cosines of a row's head_dim / 2 angles, then
                              their sines */
} rvit_grid_rope_args;
#define RVIT_GRID_ROPE_ARGS_INIT RVIT_INIT(rvit_grid_rope_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_grid_rope(rvit_stream *stream, const rvit_grid_rope_args *args);

/* Fills out, f32 [head_dim / 4, 2] in host memory, with base^(-4 j / head_dim) in turns per unit of
   `coordinates`. INVALID_ARGUMENT unless base is finite and above 0 and head_dim is a multiple of 8 in
   8..128. */
RVIT_API RVIT_NODISCARD rvit_status rvit_rope_frequencies(rvit_rope_coordinates coordinates, double base, int32_t head_dim, float *out);

typedef enum rvit_pool_mode {
    RVIT_POOL_MEAN = 0, /* the mean of the rows past the prefix */
    RVIT_POOL_FIRST = 1 /* the first row: the CLS token */
} rvit_pool_mode;

/* Pools each image to one row:
       MEAN   out[i, :] = sum_t sizes[t] * norm(x[t, :]) / sum_t sizes[t], t over the rows of image i
              from row n_prefix of the image on
       FIRST  out[i, :] = norm(x[cu_seqlens[i], :])
   An image without such rows gets zeros. Without gamma there is no norm. The result of an image does not
   depend on the other images of the batch, bit for bit. */
typedef struct rvit_pool_args {
    size_t struct_size;
    rvit_dtype dtype;     /* of x */
    rvit_dtype out_dtype; /* of out */
    rvit_pool_mode mode;
    int32_t n_images;
    int32_t max_len;       /* maximum length of an image, in rows */
    int32_t n_prefix;      /* MEAN: leading rows of each image to leave out */
    int64_t rows;          /* capacity of x in rows */
    int32_t dim;           /* multiple of 4 */
    rvit_norm norm;        /* with gamma */
    float eps;             /* above 0; not used without gamma */
    rvit_view x;           /* [rows, dim] */
    rvit_view cu_seqlens;  /* int32 [n_images + 1], 4-byte aligned */
    rvit_view sizes;       /* MEAN, optional: f32 [rows], number of tokens merged into each row
                              (rvit_merge), above 0. Absent: 1 */
    rvit_view gamma, beta; /* optional: f32 [dim]; beta with gamma only, and not with RMS */
    rvit_view out;         /* [n_images, dim]; 8-byte alignment suffices for 16-bit elements */
    int64_t out_stride;    /* elements between rows of out, multiple of 4; 0: dim */
} rvit_pool_args;
#define RVIT_POOL_ARGS_INIT RVIT_INIT(rvit_pool_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_pool(rvit_stream *stream, const rvit_pool_args *args);

/* Attention pooling (the MAP head of SigLIP): one learned query per head attends to the rows of each image.
   The query is folded into the key weights: logits = x U^T with U[h, :] = Wk_h^T q_h / sqrt(head_dim),
   computed by rvit_linear. For image i and head h, with t over the rows of the image,
       p_t = softmax_t(logits[t, h] + ln sizes[t])
       z = sum_t p_t x[t, :]
       out[i, h * head_dim + j] = weight[h * head_dim + j, :] . z + bias[h * head_dim + j]
   weight and bias are those of the value projection. An image without rows gets zeros. The result of an
   image does not depend on the other images of the batch, bit for bit. */
typedef struct rvit_attention_pool_args {
    size_t struct_size;
    rvit_dtype dtype;     /* of x and weight */
    rvit_dtype out_dtype; /* of out */
    int32_t n_images;
    int32_t n_heads;
    int32_t head_dim;      /* multiple of 4, 4..192 */
    int32_t max_len;       /* maximum length of an image, in rows */
    int64_t rows;          /* capacity of x in rows */
    int32_t dim;           /* multiple of 4 */
    rvit_view x;           /* [rows, dim], after the norm */
    rvit_view logits;      /* f32 [rows, n_heads] */
    int64_t logits_stride; /* elements between rows of logits, at least n_heads; 0: n_heads */
    rvit_view sizes;       /* optional: f32 [rows], number of tokens merged into each row (rvit_merge), above 0 */
    rvit_view cu_seqlens;  /* int32 [n_images + 1], 4-byte aligned */
    rvit_view weight;      /* [n_heads * head_dim, dim] */
    rvit_view bias;        /* optional: f32 [n_heads * head_dim] */
    rvit_view out;         /* [n_images, n_heads * head_dim] */
    rvit_view probs;       /* optional out: f32 [rows, n_heads], p */
} rvit_attention_pool_args;
#define RVIT_ATTENTION_POOL_ARGS_INIT RVIT_INIT(rvit_attention_pool_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_attention_pool(rvit_stream *stream, const rvit_attention_pool_args *args);

/* logits[i, :] = concat_{j < n_tokens} norm(x[cu_seqlens[i] + j, :]) weight^T + bias. An image with
   fewer than n_tokens rows gets zeros. A distilled model uses n_tokens = 2 with the weights of both heads
   side by side and halved. Without cu_seqlens, x is [n_images * n_tokens, dim], as written by rvit_pool
   and rvit_attention_pool, and image i begins at row i * n_tokens. Without gamma there is no norm. */
typedef struct rvit_head_args {
    size_t struct_size;
    rvit_dtype dtype;        /* of x */
    rvit_dtype weight_dtype; /* of weight */
    int32_t n_images;
    int64_t rows;     /* capacity of x in rows */
    int32_t dim;      /* multiple of 4 */
    int32_t n_tokens; /* 1 or 2 */
    int32_t n_classes;
    float eps;             /* above 0; not used without gamma */
    rvit_view x;           /* [rows, dim] */
    rvit_view cu_seqlens;  /* optional: int32 [n_images + 1], 4-byte aligned. Without it rows is at
                              least n_images * n_tokens */
    rvit_view gamma, beta; /* optional: f32 [dim]; beta with gamma only, and not with RMS */
    rvit_view weight;      /* [n_classes, n_tokens * dim] */
    rvit_view bias;        /* optional: f32 [n_classes] */
    rvit_view logits;      /* f32 [n_images, n_classes] */
    rvit_norm norm;        /* with gamma */
} rvit_head_args;
#define RVIT_HEAD_ARGS_INIT RVIT_INIT(rvit_head_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_head(rvit_stream *stream, const rvit_head_args *args);

#ifdef __cplusplus
}
#endif
#endif
