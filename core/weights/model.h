/* A checkpoint's weights on a device. */
#ifndef RVIT_CORE_WEIGHTS_MODEL_H
#define RVIT_CORE_WEIGHTS_MODEL_H

#include "core/device/device.h"
#include "core/model/geometry.h"
#include "core/model/layers.h"

/* A linear layer of a block. */
typedef struct rvit_linear_weights {
    rvit_dtype dtype;       /* of weight and of the input; I8 and E4M3 have scales */
    rvit_view weight, bias; /* in a gated MLP, rows of fc1 alternate between gate and value */
    rvit_view narrow_bias;  /* the bias in the model's 16-bit dtype: for qkv, and for fc1 if a cuBLASLt epilogue has the activation; in BF16
                               for an E4M3 fc2 */
    rvit_view scales;       /* f32, one for each row of weight */
    rvit_view input_scale;  /* f32 [1], the static scale of the inputs; absent: each row has its own */
    int32_t bounded;        /* 1: input_scale comes from an upper bound, so nothing saturates (input_bounds.c) */
    int32_t one_scale;      /* 1: E4M3 with input_scale and one scale for all rows of weight */
    int32_t arranged;       /* rvit_op_hints.arranged */
} rvit_linear_weights;

typedef struct rvit_block_weights {
    rvit_view norm1_gamma, norm1_beta, norm2_gamma, norm2_beta;
    rvit_view attention_norm_gamma, attention_norm_beta, mlp_norm_gamma, mlp_norm_beta; /* absent if the model has none */
    rvit_linear_weights linears[RVIT_N_BLOCK_LINEARS];
} rvit_block_weights;

/* One of DynamicViT's predictors; in the checkpoint: score_predictor.<index>.*. */
typedef struct rvit_predictor_weights {
    rvit_view norm_gamma, norm_beta;      /* in_conv.0: f32 [dim], eps RVIT_PREDICTOR_EPS */
    rvit_view in_weight, in_bias;         /* in_conv.1: [dim, dim] */
    rvit_view out_weight[2], out_bias[2]; /* out_conv.0: [dim / 2, dim], out_conv.2: [dim / 4, dim / 2] */
    rvit_view keep_weight, keep_bias;     /* out_conv.4: [2, dim / 4] */
} rvit_predictor_weights;

/* Attention pooling (rvit_attention_pool). The query is folded into the keys' weights; rows past the heads are 0. */
typedef struct rvit_map_weights {
    rvit_view query_weight, value_weight, value_bias, proj_weight, proj_bias;
    rvit_view norm_gamma, norm_beta, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
    int32_t n_heads, head_dim;  /* of the pooling, not of the blocks */
    rvit_activation activation; /* of the MLP */
    int32_t logits;             /* rows of query_weight: n_heads rounded up to a multiple of 4 */
    int32_t mlp_dim, mlp_width; /* 0: there is no norm and no MLP; width: padded with zeros to a multiple of 8 */
} rvit_map_weights;

/* Makes one row of the concatenated rows of a merge group: fc2(gelu(fc1(norm))). */
typedef struct rvit_merger_weights {
    rvit_view norm_gamma, norm_beta; /* of each row in the last merger, of the concatenated rows in a deepstack merger */
    rvit_view fc1_weight, fc1_bias, fc2_weight, fc2_bias;
} rvit_merger_weights;

#define RVIT_PREDICTOR_EPS 1e-5f

struct rvit_model {
    rvit_device *device;
    atomic_int references;
    atomic_int variable_sessions; /* sessions of variable resolution, whose programs contain how positions are resampled and rotated */
    rvit_model_info info;
    rvit_checkpoint_info files; /* of its checkpoint */
    rvit_image_recipe recipe;
    int32_t mlp_width;                /* info.mlp_dim padded with zeros to a multiple of 8, with int8 of 16, with fp8 of 32 */
    int32_t attention_norm, mlp_norm; /* 1: blocks have them */
    rvit_dtype dtype;                 /* of weights and of GEMM inputs */
    rvit_dtype x_dtype;               /* of the residual stream and the embedding added to it */
    rvit_buffer *weights;             /* all weights */
    /* [dim, split, rvit_model_patch_width]: for patch values in the order of rvit_patchify, (channel, y, x) */
    rvit_view patch_weight;
    /* [dim, split, rvit_model_row_width]: for patch values in the order of variable resolution, (y, x, channel). In vision encoders that
       merge patches it is (channel, frame, y, x), and patch_weight is the sum over the frames. */
    rvit_view row_weight;
    int32_t patch_arranged, row_arranged; /* as rvit_linear_weights.arranged */
    /* [tokens, dim] of x_dtype, the residual of the patch embedding GEMM: token + position for prefix rows, patch bias + position for the
       others. So the patch embedding is one GEMM and the prefix costs nothing. */
    rvit_view embedding;
    /* With a patch norm: patch_bias is then not in the embedding, and x = norm * identity_weight^T + embedding. Absent otherwise. */
    rvit_view patch_bias, patch_norm_gamma, patch_norm_beta, identity_weight;
    rvit_view rope_table; /* f32 [tokens, head_dim], as rvit_rope takes it; absent unless rvit_model_rotates */
    rvit_block_weights *blocks;
    rvit_view norm_pre_gamma, norm_pre_beta;                 /* absent if info.norm_pre is 0 */
    rvit_view norm_gamma, norm_beta, head_weight, head_bias; /* no head if info.n_classes is 0; no norm if info.final_norm is 0; no beta in
                                                                RMS norms */
    rvit_view fc_norm_gamma, fc_norm_beta;                   /* of a norm between pooling and head; absent without one */
    rvit_map_weights map;                                    /* if info.pooling is MAP */
    rvit_merge_config merge;                                 /* all 0 if info.merge is 0 */
    rvit_merger_weights merger, deepstack[RVIT_MAX_DEEPSTACK];
    rvit_predictor_weights predictors[RVIT_MAX_PREDICTORS]; /* files.n_predictors of them */
    int32_t trained[2];                                     /* grid of the file's position table: lines, columns */
    rvit_rope_config rope;                                  /* if rvit_model_rotates */
    char missing_predictor[RVIT_NAME_SIZE];                 /* the missing or misshaped tensor of predictor info.n_predictors */
};

/* Columns of the input and of the output of a block's linear layer. */
static inline int32_t rvit_block_inputs(const rvit_model *m, rvit_block_linear linear)
{
    return linear == RVIT_BLOCK_FC2 ? m->mlp_width : m->info.dim;
}

static inline int32_t rvit_block_outputs(const rvit_model *m, rvit_block_linear linear)
{
    return linear == RVIT_BLOCK_QKV ? 3 * m->info.dim : linear == RVIT_BLOCK_FC1 ? m->mlp_width : m->info.dim;
}

/* Elements of a row of qkv, followed by the row of a norm, while policies still read qkv. */
static inline int64_t rvit_model_qkv_width(const rvit_model *m)
{
    return (m->attention_norm ? 4 : 3) * (int64_t)m->info.dim;
}

/* Offset of the MLP's hidden layer in a row of the wide array. If the device fuses rows it must not overlap qkv. */
static inline int64_t rvit_model_hidden_begin(const rvit_model *m)
{
    return m->device->fuses_rows ? rvit_model_qkv_width(m) : 0;
}

static inline int rvit_has_cls(const rvit_model_info *info)
{
    return info->n_prefix > info->n_registers;
}

/* The width of the pooled rows, which the head reads. */
static inline int32_t rvit_pooled_width(const rvit_model_info *info)
{
    return info->distilled || info->pooling == RVIT_POOLING_CLS_MEAN ? 2 * info->dim : info->dim;
}

/* Whether the device supports this type. */
rvit_status rvit_model_check_dtype(const rvit_device *device, rvit_dtype dtype);
void rvit_model_retain(rvit_model *model);
/* Copies what sessions of variable resolution use of positions. */
void rvit_model_take_positions(rvit_model *model, const rvit_checkpoint *checkpoint);
/* Allocates the memory of a new model and loads the weights. */
rvit_status rvit_model_load(rvit_model *model, const rvit_checkpoint *checkpoint);
/* Loads the weights of a checkpoint of the same geometry into the model's memory. */
rvit_status rvit_model_reload(rvit_model *model, const rvit_checkpoint *checkpoint);

/* Has the device reorder freshly loaded weights, at once or on the stream. */
rvit_status rvit_model_arrange(rvit_model *model, rvit_stream *stream);

/* Values of a patch. */
static inline int32_t rvit_model_patch_values(const rvit_model *m)
{
    return m->info.channels * m->info.patch_size * m->info.patch_size;
}

/* Values of a patch padded with zeros to a multiple of 8, which fast GEMMs need. */
static inline int32_t rvit_model_patch_width(const rvit_model *m)
{
    return (rvit_model_patch_values(m) + 7) / 8 * 8;
}

/* The parts into which each pixel is split for the patch embedding GEMM: 2 are a 16-bit high part and its remainder, so that pixels are
   almost unrounded. Each row of the weight is repeated for every part. */
static inline int32_t rvit_model_patch_split(const rvit_model *m)
{
    return m->dtype == RVIT_F32 ? 1 : 2;
}

/* Values of a patch at variable resolution. A still image repeats them for each frame. */
static inline int32_t rvit_model_row_values(const rvit_model *m)
{
    return rvit_model_patch_values(m) * (m->info.patch_frames > 0 ? m->info.patch_frames : 1);
}

/* The same, padded with zeros. */
static inline int32_t rvit_model_row_width(const rvit_model *m)
{
    return (rvit_model_row_values(m) + 7) / 8 * 8;
}

/* Whether a block's attention is limited to windows. */
static inline int rvit_model_has_windows(const rvit_model *m, int32_t block)
{
    return m->merge.window > 0 && rvit_block_position(&m->merge.full_blocks, block) < 0;
}

static inline int rvit_model_has_table(const rvit_model *m)
{
    return m->info.position == RVIT_POSITION_TABLE || m->info.position == RVIT_POSITION_BOTH;
}

/* The position table: the rows of the embedding after the prefix, f32 [lines, columns, dim]. */
static inline rvit_view rvit_model_table(const rvit_model *m)
{
    return (rvit_view){m->embedding.buffer, m->embedding.offset + (int64_t)m->info.n_prefix * m->info.dim * 4};
}

static inline int rvit_model_rotates(const rvit_model *m)
{
    return m->info.position == RVIT_POSITION_ROPE || m->info.position == RVIT_POSITION_BOTH;
}

#endif
