#include "core/model/families.h"

#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"

enum { SHOWN_NAME = 96 };

/* clang-format off */
#define PREDICTORS                                                  \
    [RVIT_ROLE_PREDICTOR_NORM_GAMMA] = "in_conv.0.weight", [RVIT_ROLE_PREDICTOR_NORM_BETA] = "in_conv.0.bias",                    \
    [RVIT_ROLE_PREDICTOR_IN_WEIGHT] = "in_conv.1.weight", [RVIT_ROLE_PREDICTOR_IN_BIAS] = "in_conv.1.bias",                       \
    [RVIT_ROLE_PREDICTOR_OUT0_WEIGHT] = "out_conv.0.weight", [RVIT_ROLE_PREDICTOR_OUT0_BIAS] = "out_conv.0.bias",                 \
    [RVIT_ROLE_PREDICTOR_OUT1_WEIGHT] = "out_conv.2.weight", [RVIT_ROLE_PREDICTOR_OUT1_BIAS] = "out_conv.2.bias",                 \
    [RVIT_ROLE_PREDICTOR_KEEP_WEIGHT] = "out_conv.4.weight", [RVIT_ROLE_PREDICTOR_KEEP_BIAS] = "out_conv.4.bias"

#define TIMM_EMBEDDING                                                                                                          \
    [RVIT_ROLE_CLS] = "cls_token", [RVIT_ROLE_DIST] = "dist_token", [RVIT_ROLE_POSITION] = "pos_embed",                           \
    [RVIT_ROLE_PATCH_WEIGHT] = "patch_embed.proj.weight", [RVIT_ROLE_PATCH_BIAS] = "patch_embed.proj.bias",                       \
    [RVIT_ROLE_PATCH_NORM_GAMMA] = "patch_embed.norm.weight", [RVIT_ROLE_PATCH_NORM_BETA] = "patch_embed.norm.bias"
#define TIMM_NAFLEX_EMBEDDING                                                                                                   \
    [RVIT_ROLE_CLS] = "embeds.cls_token", [RVIT_ROLE_REGISTERS] = "embeds.reg_token", [RVIT_ROLE_POSITION] = "embeds.pos_embed",  \
    [RVIT_ROLE_PATCH_WEIGHT] = "embeds.proj.weight", [RVIT_ROLE_PATCH_BIAS] = "embeds.proj.bias"
#define TIMM_BODY                                                                                                               \
    [RVIT_ROLE_NORM_PRE_GAMMA] = "norm_pre.weight", [RVIT_ROLE_NORM_PRE_BETA] = "norm_pre.bias",                                  \
    [RVIT_ROLE_NORM_GAMMA] = "norm.weight", [RVIT_ROLE_NORM_BETA] = "norm.bias",                                                  \
    [RVIT_ROLE_HEAD_WEIGHT] = "head.weight", [RVIT_ROLE_HEAD_BIAS] = "head.bias",                                                 \
    [RVIT_ROLE_HEAD_DIST_WEIGHT] = "head_dist.weight", [RVIT_ROLE_HEAD_DIST_BIAS] = "head_dist.bias",                             \
    [RVIT_ROLE_FC_NORM_GAMMA] = "fc_norm.weight", [RVIT_ROLE_FC_NORM_BETA] = "fc_norm.bias",                                      \
    [RVIT_ROLE_MAP_LATENT] = "attn_pool.latent",                                                                                  \
    [RVIT_ROLE_MAP_Q_WEIGHT] = "attn_pool.q.weight", [RVIT_ROLE_MAP_Q_BIAS] = "attn_pool.q.bias",                                 \
    [RVIT_ROLE_MAP_KV_WEIGHT] = "attn_pool.kv.weight", [RVIT_ROLE_MAP_KV_BIAS] = "attn_pool.kv.bias",                             \
    [RVIT_ROLE_MAP_PROJ_WEIGHT] = "attn_pool.proj.weight", [RVIT_ROLE_MAP_PROJ_BIAS] = "attn_pool.proj.bias",                     \
    [RVIT_ROLE_MAP_NORM_GAMMA] = "attn_pool.norm.weight", [RVIT_ROLE_MAP_NORM_BETA] = "attn_pool.norm.bias",                      \
    [RVIT_ROLE_MAP_FC1_WEIGHT] = "attn_pool.mlp.fc1.weight", [RVIT_ROLE_MAP_FC1_BIAS] = "attn_pool.mlp.fc1.bias",                 \
    [RVIT_ROLE_MAP_FC2_WEIGHT] = "attn_pool.mlp.fc2.weight", [RVIT_ROLE_MAP_FC2_BIAS] = "attn_pool.mlp.fc2.bias",                 \
    [RVIT_ROLE_NORM1_GAMMA] = "norm1.weight", [RVIT_ROLE_NORM1_BETA] = "norm1.bias",                                              \
    [RVIT_ROLE_PROJ_WEIGHT] = "attn.proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attn.proj.bias",                                       \
    [RVIT_ROLE_NORM2_GAMMA] = "norm2.weight", [RVIT_ROLE_NORM2_BETA] = "norm2.bias",                                              \
    [RVIT_ROLE_ATTENTION_NORM_GAMMA] = "attn.norm.weight", [RVIT_ROLE_ATTENTION_NORM_BETA] = "attn.norm.bias",                  \
    [RVIT_ROLE_MLP_NORM_GAMMA] = "mlp.norm.weight", [RVIT_ROLE_MLP_NORM_BETA] = "mlp.norm.bias",                                \
    PREDICTORS
#define TIMM TIMM_EMBEDDING, TIMM_BODY

#define HF_EMBEDDING                                                                                                                      \
    [RVIT_ROLE_CLS] = "embeddings.cls_token", [RVIT_ROLE_DIST] = "embeddings.distillation_token",                                 \
    [RVIT_ROLE_POSITION] = "embeddings.position_embeddings",                                                                      \
    [RVIT_ROLE_PATCH_WEIGHT] = "embeddings.patch_embeddings.projection.weight",                                                   \
    [RVIT_ROLE_PATCH_BIAS] = "embeddings.patch_embeddings.projection.bias"
#define HF                                                                                                                      \
    HF_EMBEDDING,                                                                                                               \
    [RVIT_ROLE_NORM1_GAMMA] = "layernorm_before.weight", [RVIT_ROLE_NORM1_BETA] = "layernorm_before.bias",                        \
    [RVIT_ROLE_NORM2_GAMMA] = "layernorm_after.weight", [RVIT_ROLE_NORM2_BETA] = "layernorm_after.bias", PREDICTORS
#define HF_NORM [RVIT_ROLE_NORM_GAMMA] = "layernorm.weight", [RVIT_ROLE_NORM_BETA] = "layernorm.bias"
#define HF_BARE_NORM [RVIT_ROLE_NORM_GAMMA] = "/layernorm.weight", [RVIT_ROLE_NORM_BETA] = "/layernorm.bias"
#define HF_HEAD [RVIT_ROLE_HEAD_WEIGHT] = "/classifier.weight", [RVIT_ROLE_HEAD_BIAS] = "/classifier.bias"
#define HF_TEACHER                                                                                                              \
    [RVIT_ROLE_HEAD_WEIGHT] = "/cls_classifier.weight", [RVIT_ROLE_HEAD_BIAS] = "/cls_classifier.bias",                           \
    [RVIT_ROLE_HEAD_DIST_WEIGHT] = "/distillation_classifier.weight", [RVIT_ROLE_HEAD_DIST_BIAS] = "/distillation_classifier.bias"
/* Tensor names of a block in Hugging Face files. */
#define HF_ATTENTION                                                                                                                \
    [RVIT_ROLE_Q_WEIGHT] = "attention.attention.query.weight", [RVIT_ROLE_Q_BIAS] = "attention.attention.query.bias",             \
    [RVIT_ROLE_K_WEIGHT] = "attention.attention.key.weight", [RVIT_ROLE_K_BIAS] = "attention.attention.key.bias",                 \
    [RVIT_ROLE_V_WEIGHT] = "attention.attention.value.weight", [RVIT_ROLE_V_BIAS] = "attention.attention.value.bias",             \
    [RVIT_ROLE_PROJ_WEIGHT] = "attention.output.dense.weight", [RVIT_ROLE_PROJ_BIAS] = "attention.output.dense.bias"
#define HF_BLOCK                                                                                                                \
    HF_ATTENTION,                                                                                                               \
    [RVIT_ROLE_FC1_WEIGHT] = "intermediate.dense.weight", [RVIT_ROLE_FC1_BIAS] = "intermediate.dense.bias",                       \
    [RVIT_ROLE_FC2_WEIGHT] = "output.dense.weight", [RVIT_ROLE_FC2_BIAS] = "output.dense.bias"
/* The names that transformers 5 uses in memory, and thus in a saved state_dict. */
#define HF_ATTENTION_5                                                                                                          \
    [RVIT_ROLE_Q_WEIGHT] = "attention.q_proj.weight", [RVIT_ROLE_Q_BIAS] = "attention.q_proj.bias",                             \
    [RVIT_ROLE_K_WEIGHT] = "attention.k_proj.weight", [RVIT_ROLE_K_BIAS] = "attention.k_proj.bias",                             \
    [RVIT_ROLE_V_WEIGHT] = "attention.v_proj.weight", [RVIT_ROLE_V_BIAS] = "attention.v_proj.bias",                             \
    [RVIT_ROLE_PROJ_WEIGHT] = "attention.o_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attention.o_proj.bias"
#define MLP(fc1, fc2)                                                                                                           \
    [RVIT_ROLE_FC1_WEIGHT] = fc1 ".weight", [RVIT_ROLE_FC1_BIAS] = fc1 ".bias",                                                 \
    [RVIT_ROLE_FC2_WEIGHT] = fc2 ".weight", [RVIT_ROLE_FC2_BIAS] = fc2 ".bias"
#define MLP_GATE(gate, fc1, fc2) [RVIT_ROLE_GATE_WEIGHT] = gate ".weight", [RVIT_ROLE_GATE_BIAS] = gate ".bias", MLP(fc1, fc2)
#define FC MLP("mlp.fc1", "mlp.fc2")
#define FC_GATE MLP_GATE("mlp.fc1_g", "mlp.fc1_x", "mlp.fc2")
#define WEIGHTS_IN_OUT MLP("mlp.weights_in", "mlp.weights_out")
#define UP_DOWN MLP("mlp.up_proj", "mlp.down_proj")
#define GATE_UP_DOWN MLP_GATE("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
#define HF_BLOCK_5 HF_ATTENTION_5, FC

#define QKV [RVIT_ROLE_QKV_WEIGHT] = "attn.qkv.weight", [RVIT_ROLE_QKV_BIAS] = "attn.qkv.bias"
/* timm's EVA keeps the biases apart, or everything; the keys have none. */
#define QV_BIAS [RVIT_ROLE_QKV_WEIGHT] = "attn.qkv.weight", [RVIT_ROLE_Q_BIAS] = "attn.q_bias", [RVIT_ROLE_V_BIAS] = "attn.v_bias"
#define QKV_APART                                                                                                               \
    [RVIT_ROLE_Q_WEIGHT] = "attn.q_proj.weight", [RVIT_ROLE_Q_BIAS] = "attn.q_proj.bias",                                       \
    [RVIT_ROLE_K_WEIGHT] = "attn.k_proj.weight",                                                                                \
    [RVIT_ROLE_V_WEIGHT] = "attn.v_proj.weight", [RVIT_ROLE_V_BIAS] = "attn.v_proj.bias"
#define SCALES_TIMM [RVIT_ROLE_SCALE1] = "ls1.gamma", [RVIT_ROLE_SCALE2] = "ls2.gamma"
#define SCALES_DEIT3 [RVIT_ROLE_SCALE1] = "gamma_1", [RVIT_ROLE_SCALE2] = "gamma_2"
#define HF_DINOV2                                                                                                               \
    HF_EMBEDDING, HF_NORM, HF_HEAD, [RVIT_ROLE_REGISTERS] = "embeddings.register_tokens",                           \
    [RVIT_ROLE_NORM1_GAMMA] = "norm1.weight", [RVIT_ROLE_NORM1_BETA] = "norm1.bias",                                              \
    [RVIT_ROLE_NORM2_GAMMA] = "norm2.weight", [RVIT_ROLE_NORM2_BETA] = "norm2.bias",                                              \
    [RVIT_ROLE_SCALE1] = "layer_scale1.lambda1", [RVIT_ROLE_SCALE2] = "layer_scale2.lambda1"
#define HF_DINOV3                                                                                                               \
    [RVIT_ROLE_CLS] = "embeddings.cls_token", [RVIT_ROLE_REGISTERS] = "embeddings.register_tokens",                               \
    [RVIT_ROLE_PATCH_WEIGHT] = "embeddings.patch_embeddings.weight", [RVIT_ROLE_PATCH_BIAS] = "embeddings.patch_embeddings.bias", \
    [RVIT_ROLE_NORM_GAMMA] = "norm.weight", [RVIT_ROLE_NORM_BETA] = "norm.bias",                                                  \
    [RVIT_ROLE_NORM1_GAMMA] = "norm1.weight", [RVIT_ROLE_NORM1_BETA] = "norm1.bias",                                              \
    [RVIT_ROLE_Q_WEIGHT] = "attention.q_proj.weight", [RVIT_ROLE_Q_BIAS] = "attention.q_proj.bias",                               \
    [RVIT_ROLE_K_WEIGHT] = "attention.k_proj.weight",                                                                             \
    [RVIT_ROLE_V_WEIGHT] = "attention.v_proj.weight", [RVIT_ROLE_V_BIAS] = "attention.v_proj.bias",                               \
    [RVIT_ROLE_PROJ_WEIGHT] = "attention.o_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attention.o_proj.bias",                         \
    [RVIT_ROLE_SCALE1] = "layer_scale1.lambda1", [RVIT_ROLE_SCALE2] = "layer_scale2.lambda1",                                     \
    [RVIT_ROLE_NORM2_GAMMA] = "norm2.weight", [RVIT_ROLE_NORM2_BETA] = "norm2.bias"
/* Most have none. */
#define HF_DINOV3_K_BIAS [RVIT_ROLE_K_BIAS] = "attention.k_proj.bias"
/* CLIP's and SigLIP's towers. */
#define HF_TOWER                                                                                                                \
    [RVIT_ROLE_POSITION] = "embeddings.position_embedding.weight", [RVIT_ROLE_PATCH_WEIGHT] = "embeddings.patch_embedding.weight", \
    [RVIT_ROLE_NORM_GAMMA] = "post_layernorm.weight", [RVIT_ROLE_NORM_BETA] = "post_layernorm.bias",                              \
    [RVIT_ROLE_NORM1_GAMMA] = "layer_norm1.weight", [RVIT_ROLE_NORM1_BETA] = "layer_norm1.bias",                                  \
    [RVIT_ROLE_Q_WEIGHT] = "self_attn.q_proj.weight", [RVIT_ROLE_Q_BIAS] = "self_attn.q_proj.bias",                               \
    [RVIT_ROLE_K_WEIGHT] = "self_attn.k_proj.weight", [RVIT_ROLE_K_BIAS] = "self_attn.k_proj.bias",                               \
    [RVIT_ROLE_V_WEIGHT] = "self_attn.v_proj.weight", [RVIT_ROLE_V_BIAS] = "self_attn.v_proj.bias",                               \
    [RVIT_ROLE_PROJ_WEIGHT] = "self_attn.out_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "self_attn.out_proj.bias",                     \
    [RVIT_ROLE_NORM2_GAMMA] = "layer_norm2.weight", [RVIT_ROLE_NORM2_BETA] = "layer_norm2.bias",                                  \
    [RVIT_ROLE_FC1_WEIGHT] = "mlp.fc1.weight", [RVIT_ROLE_FC1_BIAS] = "mlp.fc1.bias",                                             \
    [RVIT_ROLE_FC2_WEIGHT] = "mlp.fc2.weight", [RVIT_ROLE_FC2_BIAS] = "mlp.fc2.bias"
#define HF_CLIP                                                                                                                 \
    HF_TOWER, [RVIT_ROLE_CLS] = "embeddings.class_embedding",                                                                     \
    [RVIT_ROLE_NORM_PRE_GAMMA] = "pre_layrnorm.weight", [RVIT_ROLE_NORM_PRE_BETA] = "pre_layrnorm.bias"
#define HF_SIGLIP                                                                                                               \
    HF_TOWER, [RVIT_ROLE_PATCH_BIAS] = "embeddings.patch_embedding.bias", [RVIT_ROLE_MAP_LATENT] = "head.probe",                  \
    [RVIT_ROLE_MAP_QKV_WEIGHT] = "head.attention.in_proj_weight", [RVIT_ROLE_MAP_QKV_BIAS] = "head.attention.in_proj_bias",       \
    [RVIT_ROLE_MAP_PROJ_WEIGHT] = "head.attention.out_proj.weight", [RVIT_ROLE_MAP_PROJ_BIAS] = "head.attention.out_proj.bias",   \
    [RVIT_ROLE_MAP_NORM_GAMMA] = "head.layernorm.weight", [RVIT_ROLE_MAP_NORM_BETA] = "head.layernorm.bias",                      \
    [RVIT_ROLE_MAP_FC1_WEIGHT] = "head.mlp.fc1.weight", [RVIT_ROLE_MAP_FC1_BIAS] = "head.mlp.fc1.bias",                           \
    [RVIT_ROLE_MAP_FC2_WEIGHT] = "head.mlp.fc2.weight", [RVIT_ROLE_MAP_FC2_BIAS] = "head.mlp.fc2.bias"
#define HF_AIMV2                                                                                                                \
    [RVIT_ROLE_POSITION] = "embeddings.position_embedding.weight",                                                                \
    [RVIT_ROLE_PATCH_WEIGHT] = "embeddings.patch_embed.weight", [RVIT_ROLE_PATCH_BIAS] = "embeddings.patch_embed.bias",           \
    [RVIT_ROLE_PATCH_NORM_GAMMA] = "embeddings.rms_norm.weight", [RVIT_ROLE_NORM_GAMMA] = "rms_norm.weight",                      \
    [RVIT_ROLE_MAP_LATENT] = "head.cls_token",                                                                                    \
    [RVIT_ROLE_MAP_K_WEIGHT] = "head.k_proj.weight", [RVIT_ROLE_MAP_K_BIAS] = "head.k_proj.bias",                                 \
    [RVIT_ROLE_MAP_V_WEIGHT] = "head.v_proj.weight", [RVIT_ROLE_MAP_V_BIAS] = "head.v_proj.bias",                                 \
    [RVIT_ROLE_MAP_PROJ_WEIGHT] = "head.output_proj.weight", [RVIT_ROLE_MAP_PROJ_BIAS] = "head.output_proj.bias",                 \
    [RVIT_ROLE_NORM1_GAMMA] = "rms_norm1.weight",                                                                                 \
    [RVIT_ROLE_Q_WEIGHT] = "attention.q_proj.weight", [RVIT_ROLE_Q_BIAS] = "attention.q_proj.bias",                               \
    [RVIT_ROLE_K_WEIGHT] = "attention.k_proj.weight", [RVIT_ROLE_K_BIAS] = "attention.k_proj.bias",                               \
    [RVIT_ROLE_V_WEIGHT] = "attention.v_proj.weight", [RVIT_ROLE_V_BIAS] = "attention.v_proj.bias",                               \
    [RVIT_ROLE_PROJ_WEIGHT] = "attention.out_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attention.out_proj.bias",                     \
    [RVIT_ROLE_NORM2_GAMMA] = "rms_norm2.weight", MLP_GATE("ffn.gate_proj", "ffn.up_proj", "ffn.down_proj")
#define OPEN_CLIP                                                                                                               \
    [RVIT_ROLE_CLS] = "class_embedding", [RVIT_ROLE_POSITION] = "positional_embedding", [RVIT_ROLE_PATCH_WEIGHT] = "conv1.weight", \
    [RVIT_ROLE_NORM_PRE_GAMMA] = "ln_pre.weight", [RVIT_ROLE_NORM_PRE_BETA] = "ln_pre.bias",                                      \
    [RVIT_ROLE_NORM_GAMMA] = "ln_post.weight", [RVIT_ROLE_NORM_BETA] = "ln_post.bias", [RVIT_ROLE_HEAD_WEIGHT] = "proj",          \
    [RVIT_ROLE_NORM1_GAMMA] = "ln_1.weight", [RVIT_ROLE_NORM1_BETA] = "ln_1.bias",                                                \
    [RVIT_ROLE_QKV_WEIGHT] = "attn.in_proj_weight", [RVIT_ROLE_QKV_BIAS] = "attn.in_proj_bias",                                   \
    [RVIT_ROLE_PROJ_WEIGHT] = "attn.out_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attn.out_proj.bias",                               \
    [RVIT_ROLE_SCALE1] = "ls_1.gamma", [RVIT_ROLE_SCALE2] = "ls_2.gamma",                                                         \
    [RVIT_ROLE_NORM2_GAMMA] = "ln_2.weight", [RVIT_ROLE_NORM2_BETA] = "ln_2.bias",                                                \
    [RVIT_ROLE_FC1_WEIGHT] = "mlp.c_fc.weight", [RVIT_ROLE_FC1_BIAS] = "mlp.c_fc.bias",                                           \
    [RVIT_ROLE_FC2_WEIGHT] = "mlp.c_proj.weight", [RVIT_ROLE_FC2_BIAS] = "mlp.c_proj.bias"
#define TORCHVISION                                                                                                             \
    [RVIT_ROLE_CLS] = "class_token", [RVIT_ROLE_POSITION] = "encoder.pos_embedding",                                              \
    [RVIT_ROLE_PATCH_WEIGHT] = "conv_proj.weight", [RVIT_ROLE_PATCH_BIAS] = "conv_proj.bias",                                     \
    [RVIT_ROLE_NORM_GAMMA] = "encoder.ln.weight", [RVIT_ROLE_NORM_BETA] = "encoder.ln.bias",                                      \
    [RVIT_ROLE_HEAD_WEIGHT] = "heads.head.weight", [RVIT_ROLE_HEAD_BIAS] = "heads.head.bias",                                     \
    [RVIT_ROLE_NORM1_GAMMA] = "ln_1.weight", [RVIT_ROLE_NORM1_BETA] = "ln_1.bias",                                                \
    [RVIT_ROLE_QKV_WEIGHT] = "self_attention.in_proj_weight", [RVIT_ROLE_QKV_BIAS] = "self_attention.in_proj_bias",               \
    [RVIT_ROLE_PROJ_WEIGHT] = "self_attention.out_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "self_attention.out_proj.bias",           \
    [RVIT_ROLE_NORM2_GAMMA] = "ln_2.weight", [RVIT_ROLE_NORM2_BETA] = "ln_2.bias"

/* The vision towers of Qwen2.5-VL and Qwen3-VL. */
#define MERGER(norm, fc1, fc2)                                                                                                  \
    [RVIT_ROLE_MERGER_NORM_GAMMA] = "merger." norm ".weight",                                                                   \
    [RVIT_ROLE_MERGER_FC1_WEIGHT] = "merger." fc1 ".weight", [RVIT_ROLE_MERGER_FC1_BIAS] = "merger." fc1 ".bias",               \
    [RVIT_ROLE_MERGER_FC2_WEIGHT] = "merger." fc2 ".weight", [RVIT_ROLE_MERGER_FC2_BIAS] = "merger." fc2 ".bias"
#define QWEN                                                                                                                    \
    QKV, [RVIT_ROLE_PATCH_WEIGHT] = "patch_embed.proj.weight",                                                                  \
    [RVIT_ROLE_NORM1_GAMMA] = "norm1.weight", [RVIT_ROLE_NORM2_GAMMA] = "norm2.weight",                                         \
    [RVIT_ROLE_PROJ_WEIGHT] = "attn.proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attn.proj.bias"
#define HF_QWEN2_5 QWEN, GATE_UP_DOWN, MERGER("ln_q", "mlp.0", "mlp.2")
#define HF_QWEN3                                                                                                                \
    QWEN, MLP("mlp.linear_fc1", "mlp.linear_fc2"), MERGER("norm", "linear_fc1", "linear_fc2"),                                  \
    [RVIT_ROLE_PATCH_BIAS] = "patch_embed.proj.bias", [RVIT_ROLE_POSITION] = "pos_embed.weight",                                \
    [RVIT_ROLE_NORM1_BETA] = "norm1.bias", [RVIT_ROLE_NORM2_BETA] = "norm2.bias",                                               \
    [RVIT_ROLE_MERGER_NORM_BETA] = "merger.norm.bias",                                                                          \
    [RVIT_ROLE_DEEPSTACK_NORM_GAMMA] = "norm.weight", [RVIT_ROLE_DEEPSTACK_NORM_BETA] = "norm.bias",                            \
    [RVIT_ROLE_DEEPSTACK_FC1_WEIGHT] = "linear_fc1.weight", [RVIT_ROLE_DEEPSTACK_FC1_BIAS] = "linear_fc1.bias",                 \
    [RVIT_ROLE_DEEPSTACK_FC2_WEIGHT] = "linear_fc2.weight", [RVIT_ROLE_DEEPSTACK_FC2_BIAS] = "linear_fc2.bias"

enum {
    HF_FLAG = RVIT_FAMILY_HF,
    DIST_FLAG = RVIT_FAMILY_HF | RVIT_FAMILY_ALWAYS_DIST,
    FREE = RVIT_FAMILY_FREE_REGISTERS,
    TOWER = RVIT_FAMILY_HF | RVIT_FAMILY_FLAT,
    OPEN = RVIT_FAMILY_FLAT | RVIT_FAMILY_HEAD_TRANSPOSED | RVIT_FAMILY_PROJECTS,
    PROJECTS = RVIT_FAMILY_PROJECTS,
    GRID = RVIT_FAMILY_GRID
};

/* The first family wins a tie in the number of recognised tensors. */
static const rvit_family families[] = {
    {"timm", "", "blocks.", 0, {TIMM, QKV, FC, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_TIMM}},
    {"naflexvit", "", "blocks.", GRID, {TIMM_NAFLEX_EMBEDDING, TIMM_BODY, QKV, FC, SCALES_TIMM}},
    {"deit3", "", "blocks.", 0, {TIMM, QKV, FC, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_DEIT3}},
    {"dinov2", "", "blocks.", FREE, {TIMM, QKV, FC, [RVIT_ROLE_REGISTERS] = "register_tokens", SCALES_TIMM}},
    {"dinov2", "", "blocks.", FREE, {TIMM, QKV, MLP("mlp.w12", "mlp.w3"), [RVIT_ROLE_REGISTERS] = "register_tokens", SCALES_TIMM}},
    /* in open_clip's files */
    {"timm", "visual.trunk.", "blocks.", PROJECTS, {TIMM, QKV, FC, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_TIMM}},
    {"timm", "", "blocks.", 0, {TIMM, QV_BIAS, FC, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_DEIT3}},
    {"timm", "", "blocks.", 0, {TIMM, QKV, FC_GATE, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_TIMM}},
    {"timm", "", "blocks.", 0, {TIMM, QV_BIAS, FC_GATE, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_DEIT3}},
    {"timm", "", "blocks.", 0, {TIMM, QKV_APART, FC_GATE, [RVIT_ROLE_REGISTERS] = "reg_token", SCALES_DEIT3}},
    {"hf", "vit.", "encoder.layer.", HF_FLAG, {HF, HF_NORM, HF_HEAD, HF_BLOCK}},
    {"hf", "vit.", "encoder.layer.", HF_FLAG, {HF, HF_BARE_NORM, HF_HEAD, HF_BLOCK}},
    {"hf", "vit.", "layers.", HF_FLAG, {HF, HF_NORM, HF_HEAD, HF_BLOCK_5}},
    {"hf", "deit.", "encoder.layer.", DIST_FLAG, {HF, HF_NORM, HF_HEAD, HF_BLOCK}},
    {"hf", "deit.", "encoder.layer.", DIST_FLAG, {HF, HF_NORM, HF_TEACHER, HF_BLOCK}},
    {"hf", "deit.", "layers.", DIST_FLAG, {HF, HF_NORM, HF_HEAD, HF_BLOCK_5}},
    {"hf", "deit.", "layers.", DIST_FLAG, {HF, HF_NORM, HF_TEACHER, HF_BLOCK_5}},
    {"hf", "", "encoder.layer.", HF_FLAG, {HF, HF_NORM, HF_BLOCK}},
    {"hf", "", "layers.", HF_FLAG, {HF, HF_NORM, HF_BLOCK_5}},
    {"hf-dinov2", "", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION, FC}},
    {"hf-dinov2", "", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION, WEIGHTS_IN_OUT}},
    {"hf-dinov2", "", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_BLOCK_5}},
    {"hf-dinov2", "", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION_5, GATE_UP_DOWN}},
    {"hf-dinov2", "dinov2.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION, FC}},
    {"hf-dinov2", "dinov2.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION, WEIGHTS_IN_OUT}},
    {"hf-dinov2", "dinov2.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_BLOCK_5}},
    {"hf-dinov2", "dinov2.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION_5, GATE_UP_DOWN}},
    {"hf-dinov2", "dinov2_with_registers.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION, FC}},
    {"hf-dinov2", "dinov2_with_registers.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION, WEIGHTS_IN_OUT}},
    {"hf-dinov2", "dinov2_with_registers.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_BLOCK_5}},
    {"hf-dinov2", "dinov2_with_registers.", "encoder.layer.", HF_FLAG | FREE, {HF_DINOV2, HF_ATTENTION_5, GATE_UP_DOWN}},
    {"hf-dinov3", "", "layer.", HF_FLAG, {HF_DINOV3, UP_DOWN}},
    {"hf-dinov3", "", "layer.", HF_FLAG, {HF_DINOV3, GATE_UP_DOWN}},
    {"hf-dinov3", "", "layer.", HF_FLAG, {HF_DINOV3, HF_DINOV3_K_BIAS, UP_DOWN}},
    {"hf-dinov3", "", "layer.", HF_FLAG, {HF_DINOV3, HF_DINOV3_K_BIAS, GATE_UP_DOWN}},
    {"hf-dinov3", "", "model.layer.", HF_FLAG, {HF_DINOV3, UP_DOWN}}, /* in memory */
    {"hf-dinov3", "", "model.layer.", HF_FLAG, {HF_DINOV3, GATE_UP_DOWN}}, /* in memory */
    {"hf-dinov3", "", "model.layer.", HF_FLAG, {HF_DINOV3, HF_DINOV3_K_BIAS, UP_DOWN}}, /* in memory */
    {"hf-dinov3", "", "model.layer.", HF_FLAG, {HF_DINOV3, HF_DINOV3_K_BIAS, GATE_UP_DOWN}}, /* in memory */
    {"hf-clip", "vision_model.", "encoder.layers.", TOWER | PROJECTS, {HF_CLIP, [RVIT_ROLE_HEAD_WEIGHT] = "/visual_projection.weight"}},
    {"hf-clip", "vision_model.", "encoder.layers.", TOWER, {HF_CLIP, HF_HEAD}},
    {"hf-clip", "", "encoder.layers.", TOWER, {HF_CLIP}},
    {"hf-siglip", "vision_model.", "encoder.layers.", TOWER, {HF_SIGLIP, HF_HEAD}},
    {"hf-siglip", "", "encoder.layers.", TOWER, {HF_SIGLIP}},
    {"hf-aimv2", "", "encoder.layers.", TOWER, {HF_AIMV2}},
    {"hf-aimv2", "vision_model.", "encoder.layers.", TOWER, {HF_AIMV2, [RVIT_ROLE_HEAD_WEIGHT] = "/visual_projection.weight"}},
    {"hf-qwen2.5-vl", "visual.", "blocks.", TOWER, {HF_QWEN2_5}},
    {"hf-qwen2.5-vl", "model.visual.", "blocks.", TOWER, {HF_QWEN2_5}},
    {"hf-qwen2.5-vl", "", "blocks.", TOWER, {HF_QWEN2_5}},
    {"hf-qwen3-vl", "visual.", "blocks.", TOWER, {HF_QWEN3}},
    {"hf-qwen3-vl", "model.visual.", "blocks.", TOWER, {HF_QWEN3}},
    {"hf-qwen3-vl", "", "blocks.", TOWER, {HF_QWEN3}},
    {"open_clip", "visual.", "transformer.resblocks.", OPEN, {OPEN_CLIP}},
    {"open_clip", "", "transformer.resblocks.", OPEN, {OPEN_CLIP}},
    {"torchvision", "", "encoder.layers.encoder_layer_", 0, {TORCHVISION,
        [RVIT_ROLE_FC1_WEIGHT] = "mlp.linear_1.weight", [RVIT_ROLE_FC1_BIAS] = "mlp.linear_1.bias",
        [RVIT_ROLE_FC2_WEIGHT] = "mlp.linear_2.weight", [RVIT_ROLE_FC2_BIAS] = "mlp.linear_2.bias"}},
    {"torchvision", "", "encoder.layers.encoder_layer_", 0, {TORCHVISION,
        [RVIT_ROLE_FC1_WEIGHT] = "mlp.0.weight", [RVIT_ROLE_FC1_BIAS] = "mlp.0.bias",
        [RVIT_ROLE_FC2_WEIGHT] = "mlp.3.weight", [RVIT_ROLE_FC2_BIAS] = "mlp.3.bias"}},
};
/* clang-format on */

/* Names that show a part of the model: of whole tensors from their beginning, or from within. */
static const struct {
    const char *text;
    int32_t prefix; /* 1: names begin with text, behind the family's prefix; 0: names contain it */
    rvit_feature feature;
} parts[] = {
    {".attn.q_norm.", 0, RVIT_FEATURE_QK_NORM},
    {".attn.k_norm.", 0, RVIT_FEATURE_QK_NORM},
    {".attn.lambda_q1", 0, RVIT_FEATURE_DIFFERENTIAL},
    {".in_norm.", 0, RVIT_FEATURE_PARALLEL},
    {".mlp.w12.", 0, RVIT_FEATURE_GATED},
    {".mlp.w3.", 0, RVIT_FEATURE_GATED},
    {".mlp.weights_in.", 0, RVIT_FEATURE_GATED},
    {".mlp.fc1_g.", 0, RVIT_FEATURE_GATED},
    {".mlp.gate_proj.", 0, RVIT_FEATURE_GATED},
    {".ffn.gate_proj.", 0, RVIT_FEATURE_GATED},
    {".attn.inner_attn_ln.", 0, RVIT_FEATURE_SUB_NORM},
    {"relative_position_bias_table", 0, RVIT_FEATURE_RELATIVE_POSITION},
    {"rel_pos", 0, RVIT_FEATURE_RELATIVE_POSITION},
    {"rope.freqs", 1, RVIT_FEATURE_MIXED_ROPE},
    {"rope_embed.periods", 1, RVIT_FEATURE_META_NAMES},
    {"storage_tokens", 1, RVIT_FEATURE_META_NAMES},
    {"pre_logits.", 1, RVIT_FEATURE_PRE_LOGITS},
    {"patch_embed.backbone.", 1, RVIT_FEATURE_CONV_STEM},
    {"embeds.pos_embed_y", 1, RVIT_FEATURE_FACTORED},
};

static void note(rvit_obstacles *obstacles, rvit_feature feature, const char *name)
{
    char shown[SHOWN_NAME], where[SHOWN_NAME + 16];
    rvit_printable(shown, sizeof shown, name);
    snprintf(where, sizeof where, "tensor '%s'", shown);
    rvit_obstacles_feature(obstacles, feature, where);
}

void rvit_family_features(const rvit_tensor_set *set, const rvit_family *family, rvit_obstacles *obstacles)
{
    const size_t n_prefix = strlen(family->prefix);
    for (int32_t i = 0; i < rvit_tensor_set_count(set); i++) {
        const char *name = rvit_tensor_set_tensor(set, i)->name;
        if (strncmp(name, "score_predictor.", 16) == 0 || strncmp(name, "text_model.", 11) == 0 || strncmp(name, "text.", 5) == 0)
            continue;
        const char *rest = strncmp(name, family->prefix, n_prefix) == 0 ? name + n_prefix : name;
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++)
            if (parts[j].prefix ? strncmp(rest, parts[j].text, strlen(parts[j].text)) == 0 : strstr(name, parts[j].text) != NULL)
                note(obstacles, parts[j].feature, name);
    }
}

const char *rvit_family_name(const rvit_family *family, rvit_role role, int32_t index, char out[RVIT_NAME_SIZE])
{
    const char *name = family->names[role];
    if (name == NULL)
        return NULL;
    if (name[0] == '/')
        snprintf(out, RVIT_NAME_SIZE, "%s", name + 1);
    else if (role >= RVIT_FIRST_PREDICTOR_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "score_predictor.%d.%s", (int)index, name);
    else if (role >= RVIT_FIRST_DEEPSTACK_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "%s" RVIT_DEEPSTACK_NAME "%d.%s", family->prefix, (int)index, name);
    else if (role >= RVIT_FIRST_BLOCK_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "%s%s%d.%s", family->prefix, family->blocks, (int)index, name);
    else
        snprintf(out, RVIT_NAME_SIZE, "%s%s", family->prefix, name);
    return out;
}

/* The number of tensors, outside the blocks and in the first block and deepstack merger, that have this family's names behind a prefix. */
static int32_t n_named(const rvit_tensor_set *set, const char *prefix, const rvit_family *family)
{
    int32_t n = 0;
    for (int role = 0; role < (int)RVIT_FIRST_PREDICTOR_ROLE; role++) {
        char buffer[RVIT_NAME_SIZE], whole[RVIT_NAME_PREFIX + RVIT_NAME_SIZE];
        const char *name = rvit_family_name(family, (rvit_role)role, 0, buffer);
        snprintf(whole, sizeof whole, "%s%s", prefix, name == NULL ? "" : name);
        n += name != NULL && rvit_tensor_set_find(set, whole) >= 0;
    }
    return n;
}

/* The number of tensors that the best family recognises behind a prefix. */
static int32_t find_family(const rvit_tensor_set *set, const char *prefix, const rvit_family **out_family)
{
    int32_t most = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const int32_t n = n_named(set, prefix, &families[i]);
        if (n > most) {
            most = n;
            *out_family = &families[i];
        }
    }
    return most;
}

/* Lengthens a prefix by the next part ("module.") of the name of tensor `index`; 0: there is none. */
static int lengthen(const rvit_tensor_set *set, int32_t index, char prefix[RVIT_NAME_PREFIX])
{
    const char *name = rvit_tensor_set_tensor(set, index)->name;
    const char *dot = strchr(name + strlen(prefix), '.');
    if (dot == NULL || dot + 2 - name > RVIT_NAME_PREFIX)
        return 0;
    snprintf(prefix, RVIT_NAME_PREFIX, "%.*s", (int)(dot + 1 - name), name);
    return 1;
}

static int all_begin_with(const rvit_tensor_set *set, const char *prefix)
{
    for (int32_t i = 0; i < rvit_tensor_set_count(set); i++)
        if (strncmp(rvit_tensor_set_tensor(set, i)->name, prefix, strlen(prefix)) != 0)
            return 0;
    return 1;
}

/* What some of the names begin with, and behind which they are a family's. A file of very many other names is searched in part. */
static int find_part(const rvit_tensor_set *set, char prefix[RVIT_NAME_PREFIX], const rvit_family **out_family)
{
    const int32_t n = rvit_tensor_set_count(set);
    int tries = 64;
    for (int32_t i = 0; i < n && tries > 0; i++) {
        if (i > 0 && prefix[0] != '\0' && strncmp(rvit_tensor_set_tensor(set, i)->name, prefix, strlen(prefix)) == 0)
            continue; /* tried */
        for (prefix[0] = '\0'; tries > 0 && lengthen(set, i, prefix); tries--)
            if (find_family(set, prefix, out_family) > 0)
                return 1;
    }
    return 0;
}

static rvit_status fail_unknown(const rvit_tensor_set *set)
{
    const rvit_family *family = NULL;
    char prefix[RVIT_NAME_PREFIX] = "", shown[SHOWN_NAME];
    if (find_part(set, prefix, &family)) {
        rvit_printable(shown, sizeof shown, prefix);
        return rvit_fail(RVIT_BAD_FILE,
                         "%s: behind '%s' tensors have the names of a Vision Transformer (%s), but not all tensors begin so: save only "
                         "those that do",
                         rvit_tensor_set_path(set), shown, family->name);
    }
    rvit_printable(shown, sizeof shown, rvit_tensor_set_tensor(set, 0)->name);
    return rvit_fail(RVIT_BAD_FILE,
                     "%s: none of the tensors has the name of a Vision Transformer's in timm, DINOv2, Hugging Face, open_clip or "
                     "torchvision (the first is '%s')",
                     rvit_tensor_set_path(set), shown);
}

rvit_status rvit_family_detect(const rvit_tensor_set *set, char out_prefix[RVIT_NAME_PREFIX], const rvit_family **out_family)
{
    char prefix[RVIT_NAME_PREFIX] = "";
    out_prefix[0] = '\0';
    if (rvit_tensor_set_count(set) == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: the checkpoint holds no tensors", rvit_tensor_set_path(set));
    int32_t most = find_family(set, "", out_family);
    while (lengthen(set, 0, prefix) && all_begin_with(set, prefix)) {
        const rvit_family *family = NULL;
        const int32_t n = find_family(set, prefix, &family);
        if (n > most) {
            most = n;
            *out_family = family;
            memcpy(out_prefix, prefix, RVIT_NAME_PREFIX);
        }
    }
    return most > 0 ? RVIT_OK : fail_unknown(set);
}
