/* A checkpoint's weights on a device. */
#ifndef RVIT_CORE_WEIGHTS_MODEL_H
#define RVIT_CORE_WEIGHTS_MODEL_H

#include "core/device/device.h"
#include "core/model/geometry.h"
#include "core/model/layers.h"

/* A linear layer of a block. */
typedef struct rvit_linear_weights {
    rvit_dtype dtype;       /* of weight and of the input; I8 and E4M3 have scales */
    rvit_view weight, bias; /* where info.gated, fc1 has pairs of rows: gate, value */
    rvit_view narrow_bias;  /* bias in the model's dtype, if that has 16 bits: of qkv; of fc1, where the activation is one that a GEMM of
                               cuBLASLt ends with; of fc2 of E4M3 in BF16 */
    rvit_view scales;       /* f32, of each row of weight */
    rvit_view input_scale;  /* f32 [1], of all inputs; absent: each row has its own */
    int32_t bounded;        /* 1: no input exceeds input_scale (input_bounds.c) */
    int32_t one_scale;      /* 1: of E4M3: all inputs have input_scale, and all rows of weight one scale */
    int32_t arranged;       /* rvit_op_hints.arranged */
} rvit_linear_weights;

typedef struct rvit_block_weights {
    rvit_view norm1_gamma, norm1_beta, norm2_gamma, norm2_beta;
    rvit_view attention_norm_gamma, attention_norm_beta, mlp_norm_gamma, mlp_norm_beta; /* absent where the model has none */
    rvit_linear_weights linears[RVIT_N_BLOCK_LINEARS];
} rvit_block_weights;

/* One of DynamicViT's predictors, named in the checkpoint score_predictor.<index>.*. */
typedef struct rvit_predictor_weights {
    rvit_view norm_gamma, norm_beta;      /* in_conv.0: f32 [dim], eps RVIT_PREDICTOR_EPS */
    rvit_view in_weight, in_bias;         /* in_conv.1: [dim, dim] */
    rvit_view out_weight[2], out_bias[2]; /* out_conv.0: [dim / 2, dim], out_conv.2: [dim / 4, dim / 2] */
    rvit_view keep_weight, keep_bias;     /* out_conv.4: [2, dim / 4] */
} rvit_predictor_weights;

/* Attention pooling (rvit_probe). The query is folded into the keys' weights; its rows past the heads are 0. */
typedef struct rvit_map_weights {
    rvit_view query_weight, value_weight, value_bias, proj_weight, proj_bias;
    rvit_view norm_gamma, norm_beta, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
    int32_t n_heads, head_dim;  /* its own */
    rvit_activation activation; /* of its MLP */
    int32_t logits;             /* rows of query_weight: the heads, rounded up to a multiple of 4 */
    int32_t mlp_dim, mlp_width; /* 0: there is neither norm nor MLP after it; width: padded with zeros to a multiple of 8 */
} rvit_map_weights;

/* What makes one row of the rows of a unit (merging.h), which lie side by side: fc2(gelu(fc1(norm))). */
typedef struct rvit_merger_weights {
    rvit_view norm_gamma, norm_beta; /* the last merger's of each row, a deepstack merger's of the unit */
    rvit_view fc1_weight, fc1_bias, fc2_weight, fc2_bias;
} rvit_merger_weights;

#define RVIT_PREDICTOR_EPS 1e-5f

struct rvit_model {
    rvit_device *device;
    atomic_int references;
    atomic_int native_sessions; /* those that have taken over how positions are resampled and turn */
    rvit_model_info info;
    int32_t mlp_width;                /* info.mlp_dim, padded with zeros to a multiple of 8, with int8 of 16, with fp8 of 32 */
    int32_t attention_norm, mlp_norm; /* 1: blocks have them */
    rvit_dtype dtype;                 /* of weights and of the products' inputs */
    rvit_dtype x_dtype;               /* of the residual stream and the embedding added to it */
    rvit_buffer *weights;             /* all of them */
    /* [dim, parts, rvit_model_patch_width], for values in the order of rvit_patchify: (channel, y, x) */
    rvit_view patch_weight;
    /* [dim, parts, rvit_model_row_width]: for the values that native sessions are given: (y, x, channel); of towers that merge patches
       (channel, frame, y, x), patch_weight then being the sum over the frames. */
    rvit_view row_weight;
    int32_t patch_arranged, row_arranged; /* as rvit_linear_weights.arranged */
    /* [tokens, dim] of x_dtype, the residual of the patch product: token + position for the prefix rows, patch bias + position for the
       others. So the patch embedding is one product and the prefix costs nothing. */
    rvit_view embedding;
    /* Where the patches are normalised before their positions are added: patch_bias is then not in the embedding, and x = norm unit^T +
       embedding, unit being 1 on the diagonal. Absent otherwise. */
    rvit_view patch_bias, patch_norm_gamma, patch_norm_beta, identity_weight;
    rvit_view rope_table; /* f32 [tokens, head_dim], as rvit_rope takes it; absent unless rvit_model_rotates */
    rvit_block_weights *blocks;
    rvit_view norm_pre_gamma, norm_pre_beta;                 /* absent where info.norm_pre is 0 */
    rvit_view norm_gamma, norm_beta, head_weight, head_bias; /* no head where info.n_classes is 0; no norm without info.final_norm; RMS
                                                                norms have no beta */
    rvit_view fc_norm_gamma, fc_norm_beta;                   /* of a norm between pooling and head; absent without it */
    rvit_map_weights map;                                    /* where info.pooling is MAP */
    rvit_merge_config merge;                                 /* all 0 where info.merge is */
    rvit_merger_weights merger, deepstack[RVIT_MAX_DEEPSTACK];
    rvit_predictor_weights predictors[RVIT_MAX_PREDICTORS]; /* info.n_predictors of them */
    int32_t trained[2];                                     /* grid of the file's position table: lines, columns */
    rvit_rope_config rope;                                  /* where rvit_model_rotates */
    char missing_predictor[RVIT_NAME_SIZE];                 /* the first tensor that keeps the next predictor from being complete */
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

/* Elements of a row of qkv, and of a norm's rows behind it, which policies still read. */
static inline int64_t rvit_model_qkv_width(const rvit_model *m)
{
    return (m->attention_norm ? 4 : 3) * (int64_t)m->info.dim;
}

/* Elements of the wide array before the MLP's hidden layer, for each row. Where rows are chained, both have room. */
static inline int64_t rvit_model_hidden_begin(const rvit_model *m)
{
    return m->device->fuses_rows ? rvit_model_qkv_width(m) : 0;
}

static inline int rvit_has_cls(const rvit_model_info *info)
{
    return info->n_prefix > info->n_registers;
}

/* Of what the head reads. */
static inline int32_t rvit_pooled_width(const rvit_model_info *info)
{
    return info->distilled || info->pooling == RVIT_POOLING_CLS_MEAN ? 2 * info->dim : info->dim;
}

/* Whether the device computes in this type. */
rvit_status rvit_model_check_dtype(const rvit_device *device, rvit_dtype dtype);
void rvit_model_retain(rvit_model *model);
/* What native sessions know of positions. */
void rvit_model_take_positions(rvit_model *model, const rvit_checkpoint *checkpoint);
/* Makes the memory of a new model, and reads the weights into it. */
rvit_status rvit_model_load(rvit_model *model, const rvit_checkpoint *checkpoint);
/* Reads the weights of a checkpoint of the same geometry into the model's memory. */
rvit_status rvit_model_reload(rvit_model *model, const rvit_checkpoint *checkpoint);

/* Has the device arrange the weights, which have just been loaded: at once or on the stream. */
rvit_status rvit_model_arrange(rvit_model *model, rvit_stream *stream);

/* Values of a patch. */
static inline int32_t rvit_model_patch_values(const rvit_model *m)
{
    return m->info.channels * m->info.patch_size * m->info.patch_size;
}

/* Values of a patch, padded with zeros to a multiple of 8, which the fast GEMMs take. */
static inline int32_t rvit_model_patch_width(const rvit_model *m)
{
    return (rvit_model_patch_values(m) + 7) / 8 * 8;
}

/* Parts that each value of a patch has in the patch product, whose weight stands in a row as often. So pixels enter it unrounded. */
static inline int32_t rvit_model_patch_split(const rvit_model *m)
{
    return m->dtype == RVIT_F32 ? 1 : 2;
}

/* Values of a patch as native sessions are given them; those of a still are there once for each frame. */
static inline int32_t rvit_model_row_values(const rvit_model *m)
{
    return rvit_model_patch_values(m) * (m->info.patch_frames > 0 ? m->info.patch_frames : 1);
}

/* The same, padded with zeros. */
static inline int32_t rvit_model_row_width(const rvit_model *m)
{
    return (rvit_model_row_values(m) + 7) / 8 * 8;
}

/* Whether the attention of a block is within windows. */
static inline int rvit_model_has_windows(const rvit_model *m, int32_t block)
{
    return m->merge.window > 0 && rvit_block_position(&m->merge.full_blocks, block) < 0;
}

/* Whether there is a position table. */
static inline int rvit_model_has_table(const rvit_model *m)
{
    return m->info.position == RVIT_POSITION_TABLE || m->info.position == RVIT_POSITION_BOTH;
}

/* The rows of the embedding past the prefix: f32 [grid's lines, columns, dim]. */
static inline rvit_view rvit_model_table(const rvit_model *m)
{
    return (rvit_view){m->embedding.buffer, m->embedding.offset + (int64_t)m->info.n_prefix * m->info.dim * 4};
}

/* Whether queries and keys are rotated. */
static inline int rvit_model_rotates(const rvit_model *m)
{
    return m->info.position == RVIT_POSITION_ROPE || m->info.position == RVIT_POSITION_BOTH;
}

#endif
