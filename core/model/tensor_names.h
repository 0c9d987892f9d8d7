/* Tables of tensor names by role; families.def puts together the names of each family from them. A name is what follows the family's
   prefix, of a block's tensor what follows the number of the block; one that begins with '/' has no prefix. */
#ifndef RVIT_CORE_MODEL_TENSOR_NAMES_H
#define RVIT_CORE_MODEL_TENSOR_NAMES_H

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

#define REG_TOKEN [RVIT_ROLE_REGISTERS] = "reg_token"
#define REGISTER_TOKENS [RVIT_ROLE_REGISTERS] = "register_tokens"
#define VISUAL_PROJECTION [RVIT_ROLE_HEAD_WEIGHT] = "/visual_projection.weight"
/* clang-format on */

#endif
