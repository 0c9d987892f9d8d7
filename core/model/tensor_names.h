/* Tables of tensor names by role, from which families.def composes the names of each family. A name follows the family's prefix or, in a
   block, the number of the block. A name that begins with '/' has no prefix. */
#ifndef RVIT_CORE_MODEL_TENSOR_NAMES_H
#define RVIT_CORE_MODEL_TENSOR_NAMES_H

/* clang-format off */
#define NAME(role, name) [RVIT_ROLE_##role] = name
#define NORM(role, name) [RVIT_ROLE_##role##_GAMMA] = name ".weight", [RVIT_ROLE_##role##_BETA] = name ".bias"
#define LINEAR(role, name) [RVIT_ROLE_##role##_WEIGHT] = name ".weight", [RVIT_ROLE_##role##_BIAS] = name ".bias"

#define PREDICTORS \
    NORM(PREDICTOR_NORM, "in_conv.0"), LINEAR(PREDICTOR_IN, "in_conv.1"), LINEAR(PREDICTOR_OUT0, "out_conv.0"), \
    LINEAR(PREDICTOR_OUT1, "out_conv.2"), LINEAR(PREDICTOR_KEEP, "out_conv.4")

#define TIMM_EMBEDDING \
    NAME(CLS, "cls_token"), NAME(DIST, "dist_token"), NAME(POSITION, "pos_embed"), LINEAR(PATCH, "patch_embed.proj"), \
    NORM(PATCH_NORM, "patch_embed.norm")
#define TIMM_NAFLEX_EMBEDDING \
    NAME(CLS, "embeds.cls_token"), NAME(REGISTERS, "embeds.reg_token"), NAME(POSITION, "embeds.pos_embed"), LINEAR(PATCH, "embeds.proj")
#define TIMM_BODY \
    NORM(NORM_PRE, "norm_pre"), NORM(NORM, "norm"), LINEAR(HEAD, "head"), LINEAR(HEAD_DIST, "head_dist"), NORM(FC_NORM, "fc_norm"), \
    NAME(MAP_LATENT, "attn_pool.latent"), LINEAR(MAP_Q, "attn_pool.q"), LINEAR(MAP_KV, "attn_pool.kv"), \
    LINEAR(MAP_PROJ, "attn_pool.proj"), NORM(MAP_NORM, "attn_pool.norm"), LINEAR(MAP_FC1, "attn_pool.mlp.fc1"), \
    LINEAR(MAP_FC2, "attn_pool.mlp.fc2"), NORM(NORM1, "norm1"), LINEAR(PROJ, "attn.proj"), NORM(NORM2, "norm2"), \
    NORM(ATTENTION_NORM, "attn.norm"), NORM(MLP_NORM, "mlp.norm"), PREDICTORS
#define TIMM TIMM_EMBEDDING, TIMM_BODY

#define HF_EMBEDDING \
    NAME(CLS, "embeddings.cls_token"), NAME(DIST, "embeddings.distillation_token"), NAME(POSITION, "embeddings.position_embeddings"), \
    LINEAR(PATCH, "embeddings.patch_embeddings.projection")
#define HF HF_EMBEDDING, NORM(NORM1, "layernorm_before"), NORM(NORM2, "layernorm_after"), PREDICTORS
#define HF_NORM NORM(NORM, "layernorm")
#define HF_BARE_NORM NORM(NORM, "/layernorm")
#define HF_HEAD LINEAR(HEAD, "/classifier")
#define HF_TEACHER LINEAR(HEAD, "/cls_classifier"), LINEAR(HEAD_DIST, "/distillation_classifier")
/* The tensors of a block in Hugging Face files. */
#define HF_ATTENTION \
    LINEAR(Q, "attention.attention.query"), LINEAR(K, "attention.attention.key"), LINEAR(V, "attention.attention.value"), \
    LINEAR(PROJ, "attention.output.dense")
#define HF_BLOCK HF_ATTENTION, LINEAR(FC1, "intermediate.dense"), LINEAR(FC2, "output.dense")
/* The names of transformers 5 in memory, and so in a saved state_dict. */
#define HF_ATTENTION_5 \
    LINEAR(Q, "attention.q_proj"), LINEAR(K, "attention.k_proj"), LINEAR(V, "attention.v_proj"), LINEAR(PROJ, "attention.o_proj")
#define MLP(fc1, fc2) LINEAR(FC1, fc1), LINEAR(FC2, fc2)
#define MLP_GATE(gate, fc1, fc2) LINEAR(GATE, gate), MLP(fc1, fc2)
#define FC MLP("mlp.fc1", "mlp.fc2")
#define FC_GATE MLP_GATE("mlp.fc1_g", "mlp.fc1_x", "mlp.fc2")
#define WEIGHTS_IN_OUT MLP("mlp.weights_in", "mlp.weights_out")
#define UP_DOWN MLP("mlp.up_proj", "mlp.down_proj")
#define GATE_UP_DOWN MLP_GATE("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
#define HF_BLOCK_5 HF_ATTENTION_5, FC

#define QKV LINEAR(QKV, "attn.qkv")
/* timm's EVA has separate biases, or separate weights too; keys have no bias. */
#define QV_BIAS NAME(QKV_WEIGHT, "attn.qkv.weight"), NAME(Q_BIAS, "attn.q_bias"), NAME(V_BIAS, "attn.v_bias")
#define QKV_SEPARATE LINEAR(Q, "attn.q_proj"), NAME(K_WEIGHT, "attn.k_proj.weight"), LINEAR(V, "attn.v_proj")
#define SCALES_TIMM NAME(SCALE1, "ls1.gamma"), NAME(SCALE2, "ls2.gamma")
#define SCALES_DEIT3 NAME(SCALE1, "gamma_1"), NAME(SCALE2, "gamma_2")
#define HF_DINOV2 \
    HF_EMBEDDING, HF_NORM, HF_HEAD, NAME(REGISTERS, "embeddings.register_tokens"), NORM(NORM1, "norm1"), NORM(NORM2, "norm2"), \
    NAME(SCALE1, "layer_scale1.lambda1"), NAME(SCALE2, "layer_scale2.lambda1")
#define HF_DINOV3 \
    NAME(CLS, "embeddings.cls_token"), NAME(REGISTERS, "embeddings.register_tokens"), LINEAR(PATCH, "embeddings.patch_embeddings"), \
    NORM(NORM, "norm"), NORM(NORM1, "norm1"), LINEAR(Q, "attention.q_proj"), NAME(K_WEIGHT, "attention.k_proj.weight"), \
    LINEAR(V, "attention.v_proj"), LINEAR(PROJ, "attention.o_proj"), NAME(SCALE1, "layer_scale1.lambda1"), \
    NAME(SCALE2, "layer_scale2.lambda1"), NORM(NORM2, "norm2")
/* Most files have no key bias. */
#define HF_DINOV3_K_BIAS NAME(K_BIAS, "attention.k_proj.bias")
/* The vision encoders of CLIP and SigLIP. */
#define HF_ENCODER \
    NAME(POSITION, "embeddings.position_embedding.weight"), NAME(PATCH_WEIGHT, "embeddings.patch_embedding.weight"), \
    NORM(NORM, "post_layernorm"), NORM(NORM1, "layer_norm1"), LINEAR(Q, "self_attn.q_proj"), LINEAR(K, "self_attn.k_proj"), \
    LINEAR(V, "self_attn.v_proj"), LINEAR(PROJ, "self_attn.out_proj"), NORM(NORM2, "layer_norm2"), LINEAR(FC1, "mlp.fc1"), \
    LINEAR(FC2, "mlp.fc2")
#define HF_CLIP HF_ENCODER, NAME(CLS, "embeddings.class_embedding"), NORM(NORM_PRE, "pre_layrnorm")
#define HF_SIGLIP \
    HF_ENCODER, NAME(PATCH_BIAS, "embeddings.patch_embedding.bias"), NAME(MAP_LATENT, "head.probe"), \
    NAME(MAP_QKV_WEIGHT, "head.attention.in_proj_weight"), NAME(MAP_QKV_BIAS, "head.attention.in_proj_bias"), \
    LINEAR(MAP_PROJ, "head.attention.out_proj"), NORM(MAP_NORM, "head.layernorm"), LINEAR(MAP_FC1, "head.mlp.fc1"), \
    LINEAR(MAP_FC2, "head.mlp.fc2")
#define HF_AIMV2 \
    NAME(POSITION, "embeddings.position_embedding.weight"), LINEAR(PATCH, "embeddings.patch_embed"), \
    NAME(PATCH_NORM_GAMMA, "embeddings.rms_norm.weight"), NAME(NORM_GAMMA, "rms_norm.weight"), NAME(MAP_LATENT, "head.cls_token"), \
    LINEAR(MAP_K, "head.k_proj"), LINEAR(MAP_V, "head.v_proj"), LINEAR(MAP_PROJ, "head.output_proj"), \
    NAME(NORM1_GAMMA, "rms_norm1.weight"), LINEAR(Q, "attention.q_proj"), LINEAR(K, "attention.k_proj"), LINEAR(V, "attention.v_proj"), \
    LINEAR(PROJ, "attention.out_proj"), NAME(NORM2_GAMMA, "rms_norm2.weight"), MLP_GATE("ffn.gate_proj", "ffn.up_proj", "ffn.down_proj")
#define OPEN_CLIP \
    NAME(CLS, "class_embedding"), NAME(POSITION, "positional_embedding"), NAME(PATCH_WEIGHT, "conv1.weight"), NORM(NORM_PRE, "ln_pre"), \
    NORM(NORM, "ln_post"), NAME(HEAD_WEIGHT, "proj"), NORM(NORM1, "ln_1"), NAME(QKV_WEIGHT, "attn.in_proj_weight"), \
    NAME(QKV_BIAS, "attn.in_proj_bias"), LINEAR(PROJ, "attn.out_proj"), NAME(SCALE1, "ls_1.gamma"), NAME(SCALE2, "ls_2.gamma"), \
    NORM(NORM2, "ln_2"), LINEAR(FC1, "mlp.c_fc"), LINEAR(FC2, "mlp.c_proj")
#define TORCHVISION \
    NAME(CLS, "class_token"), NAME(POSITION, "encoder.pos_embedding"), LINEAR(PATCH, "conv_proj"), NORM(NORM, "encoder.ln"), \
    LINEAR(HEAD, "heads.head"), NORM(NORM1, "ln_1"), NAME(QKV_WEIGHT, "self_attention.in_proj_weight"), \
    NAME(QKV_BIAS, "self_attention.in_proj_bias"), LINEAR(PROJ, "self_attention.out_proj"), NORM(NORM2, "ln_2")

/* The vision encoders of Qwen2.5-VL and Qwen3-VL. */
#define MERGER(norm, fc1, fc2) \
    NAME(MERGER_NORM_GAMMA, "merger." norm ".weight"), LINEAR(MERGER_FC1, "merger." fc1), LINEAR(MERGER_FC2, "merger." fc2)
#define QWEN \
    QKV, NAME(PATCH_WEIGHT, "patch_embed.proj.weight"), NAME(NORM1_GAMMA, "norm1.weight"), NAME(NORM2_GAMMA, "norm2.weight"), \
    LINEAR(PROJ, "attn.proj")
#define HF_QWEN2_5 QWEN, GATE_UP_DOWN, MERGER("ln_q", "mlp.0", "mlp.2")
#define HF_QWEN3 \
    QWEN, MLP("mlp.linear_fc1", "mlp.linear_fc2"), MERGER("norm", "linear_fc1", "linear_fc2"), \
    NAME(PATCH_BIAS, "patch_embed.proj.bias"), NAME(POSITION, "pos_embed.weight"), NAME(NORM1_BETA, "norm1.bias"), \
    NAME(NORM2_BETA, "norm2.bias"), NAME(MERGER_NORM_BETA, "merger.norm.bias"), NORM(DEEPSTACK_NORM, "norm"), \
    LINEAR(DEEPSTACK_FC1, "linear_fc1"), LINEAR(DEEPSTACK_FC2, "linear_fc2")

#define REG_TOKEN NAME(REGISTERS, "reg_token")
#define REGISTER_TOKENS NAME(REGISTERS, "register_tokens")
#define VISUAL_PROJECTION NAME(HEAD_WEIGHT, "/visual_projection.weight")
/* clang-format on */

#endif
