#include "core/vit_names.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"

enum { SHOWN_NAME = 96 };

/* clang-format off */
#define PREDICTORS                                                  \
    [RVIT_ROLE_PREDICTOR_NORM_GAMMA] = "in_conv.0.weight", [RVIT_ROLE_PREDICTOR_NORM_BETA] = "in_conv.0.bias",                    \
    [RVIT_ROLE_PREDICTOR_IN_WEIGHT] = "in_conv.1.weight", [RVIT_ROLE_PREDICTOR_IN_BIAS] = "in_conv.1.bias",                       \
    [RVIT_ROLE_PREDICTOR_OUT0_WEIGHT] = "out_conv.0.weight", [RVIT_ROLE_PREDICTOR_OUT0_BIAS] = "out_conv.0.bias",                 \
    [RVIT_ROLE_PREDICTOR_OUT1_WEIGHT] = "out_conv.2.weight", [RVIT_ROLE_PREDICTOR_OUT1_BIAS] = "out_conv.2.bias",                 \
    [RVIT_ROLE_PREDICTOR_KEEP_WEIGHT] = "out_conv.4.weight", [RVIT_ROLE_PREDICTOR_KEEP_BIAS] = "out_conv.4.bias"

#define TIMM                                                                                                                    \
    [RVIT_ROLE_CLS] = "cls_token", [RVIT_ROLE_DIST] = "dist_token", [RVIT_ROLE_POSITION] = "pos_embed",                           \
    [RVIT_ROLE_PATCH_WEIGHT] = "patch_embed.proj.weight", [RVIT_ROLE_PATCH_BIAS] = "patch_embed.proj.bias",                       \
    [RVIT_ROLE_NORM_GAMMA] = "norm.weight", [RVIT_ROLE_NORM_BETA] = "norm.bias",                                                  \
    [RVIT_ROLE_HEAD_WEIGHT] = "head.weight", [RVIT_ROLE_HEAD_BIAS] = "head.bias",                                                 \
    [RVIT_ROLE_HEAD_DIST_WEIGHT] = "head_dist.weight", [RVIT_ROLE_HEAD_DIST_BIAS] = "head_dist.bias",                             \
    [RVIT_ROLE_NORM1_GAMMA] = "norm1.weight", [RVIT_ROLE_NORM1_BETA] = "norm1.bias",                                              \
    [RVIT_ROLE_QKV_WEIGHT] = "attn.qkv.weight", [RVIT_ROLE_QKV_BIAS] = "attn.qkv.bias",                                           \
    [RVIT_ROLE_PROJ_WEIGHT] = "attn.proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attn.proj.bias",                                       \
    [RVIT_ROLE_NORM2_GAMMA] = "norm2.weight", [RVIT_ROLE_NORM2_BETA] = "norm2.bias",                                              \
    [RVIT_ROLE_FC1_WEIGHT] = "mlp.fc1.weight", [RVIT_ROLE_FC1_BIAS] = "mlp.fc1.bias",                                             \
    [RVIT_ROLE_FC2_WEIGHT] = "mlp.fc2.weight", [RVIT_ROLE_FC2_BIAS] = "mlp.fc2.bias",                                             \
    PREDICTORS

#define HF                                                                                                                      \
    [RVIT_ROLE_CLS] = "embeddings.cls_token", [RVIT_ROLE_DIST] = "embeddings.distillation_token",                                 \
    [RVIT_ROLE_POSITION] = "embeddings.position_embeddings",                                                                      \
    [RVIT_ROLE_PATCH_WEIGHT] = "embeddings.patch_embeddings.projection.weight",                                                   \
    [RVIT_ROLE_PATCH_BIAS] = "embeddings.patch_embeddings.projection.bias",                                                       \
    [RVIT_ROLE_NORM1_GAMMA] = "layernorm_before.weight", [RVIT_ROLE_NORM1_BETA] = "layernorm_before.bias",                        \
    [RVIT_ROLE_NORM2_GAMMA] = "layernorm_after.weight", [RVIT_ROLE_NORM2_BETA] = "layernorm_after.bias", PREDICTORS
#define HF_NORM [RVIT_ROLE_NORM_GAMMA] = "layernorm.weight", [RVIT_ROLE_NORM_BETA] = "layernorm.bias"
#define HF_BARE_NORM [RVIT_ROLE_NORM_GAMMA] = "/layernorm.weight", [RVIT_ROLE_NORM_BETA] = "/layernorm.bias"
#define HF_HEAD [RVIT_ROLE_HEAD_WEIGHT] = "/classifier.weight", [RVIT_ROLE_HEAD_BIAS] = "/classifier.bias"
#define HF_TEACHER                                                                                                              \
    [RVIT_ROLE_HEAD_WEIGHT] = "/cls_classifier.weight", [RVIT_ROLE_HEAD_BIAS] = "/cls_classifier.bias",                           \
    [RVIT_ROLE_HEAD_DIST_WEIGHT] = "/distillation_classifier.weight", [RVIT_ROLE_HEAD_DIST_BIAS] = "/distillation_classifier.bias"
/* Tensor names of a block in Hugging Face files. */
#define HF_BLOCK                                                                                                                \
    [RVIT_ROLE_Q_WEIGHT] = "attention.attention.query.weight", [RVIT_ROLE_Q_BIAS] = "attention.attention.query.bias",             \
    [RVIT_ROLE_K_WEIGHT] = "attention.attention.key.weight", [RVIT_ROLE_K_BIAS] = "attention.attention.key.bias",                 \
    [RVIT_ROLE_V_WEIGHT] = "attention.attention.value.weight", [RVIT_ROLE_V_BIAS] = "attention.attention.value.bias",             \
    [RVIT_ROLE_PROJ_WEIGHT] = "attention.output.dense.weight", [RVIT_ROLE_PROJ_BIAS] = "attention.output.dense.bias",             \
    [RVIT_ROLE_FC1_WEIGHT] = "intermediate.dense.weight", [RVIT_ROLE_FC1_BIAS] = "intermediate.dense.bias",                       \
    [RVIT_ROLE_FC2_WEIGHT] = "output.dense.weight", [RVIT_ROLE_FC2_BIAS] = "output.dense.bias"
/* The names that transformers 5 uses in memory, and thus in a saved state_dict. */
#define HF_BLOCK_5                                                                                                              \
    [RVIT_ROLE_Q_WEIGHT] = "attention.q_proj.weight", [RVIT_ROLE_Q_BIAS] = "attention.q_proj.bias",                               \
    [RVIT_ROLE_K_WEIGHT] = "attention.k_proj.weight", [RVIT_ROLE_K_BIAS] = "attention.k_proj.bias",                               \
    [RVIT_ROLE_V_WEIGHT] = "attention.v_proj.weight", [RVIT_ROLE_V_BIAS] = "attention.v_proj.bias",                               \
    [RVIT_ROLE_PROJ_WEIGHT] = "attention.o_proj.weight", [RVIT_ROLE_PROJ_BIAS] = "attention.o_proj.bias",                         \
    [RVIT_ROLE_FC1_WEIGHT] = "mlp.fc1.weight", [RVIT_ROLE_FC1_BIAS] = "mlp.fc1.bias",                                             \
    [RVIT_ROLE_FC2_WEIGHT] = "mlp.fc2.weight", [RVIT_ROLE_FC2_BIAS] = "mlp.fc2.bias"

/* The first family wins a tie in the number of recognised tensors. */
static const rvit_family families[] = {
    {"timm", "", "blocks.", 0, 0, 0, {TIMM, [RVIT_ROLE_REGISTERS] = "reg_token", [RVIT_ROLE_SCALE1] = "ls1.gamma",
                                      [RVIT_ROLE_SCALE2] = "ls2.gamma"}},
    {"deit3", "", "blocks.", 0, 0, 0, {TIMM, [RVIT_ROLE_SCALE1] = "gamma_1", [RVIT_ROLE_SCALE2] = "gamma_2"}},
    {"dinov2", "", "blocks.", 0, 0, 1, {TIMM, [RVIT_ROLE_REGISTERS] = "register_tokens", [RVIT_ROLE_SCALE1] = "ls1.gamma",
                                        [RVIT_ROLE_SCALE2] = "ls2.gamma"}},
    {"hf", "vit.", "encoder.layer.", 1, 0, 0, {HF, HF_NORM, HF_HEAD, HF_BLOCK}},
    {"hf", "vit.", "encoder.layer.", 1, 0, 0, {HF, HF_BARE_NORM, HF_HEAD, HF_BLOCK}},
    {"hf", "vit.", "layers.", 1, 0, 0, {HF, HF_NORM, HF_HEAD, HF_BLOCK_5}},
    {"hf", "deit.", "encoder.layer.", 1, 1, 0, {HF, HF_NORM, HF_HEAD, HF_BLOCK}},
    {"hf", "deit.", "encoder.layer.", 1, 1, 0, {HF, HF_NORM, HF_TEACHER, HF_BLOCK}},
    {"hf", "deit.", "layers.", 1, 1, 0, {HF, HF_NORM, HF_HEAD, HF_BLOCK_5}},
    {"hf", "deit.", "layers.", 1, 1, 0, {HF, HF_NORM, HF_TEACHER, HF_BLOCK_5}},
    {"hf", "", "encoder.layer.", 1, 0, 0, {HF, HF_NORM, HF_BLOCK}},
    {"hf", "", "layers.", 1, 0, 0, {HF, HF_NORM, HF_BLOCK_5}},
};
/* clang-format on */

/* Tensor names of models that are not supported. */
static const struct {
    const char *text;
    int32_t prefix; /* 1: names begin with text; 0: names contain it */
    const char *what;
} foreign[] = {
    {".layer_scale1.", 0, "Hugging Face's names for DINOv2"},
    {".attn.q_norm.", 0, "normalised queries and keys"},
    {".attn.k_norm.", 0, "normalised queries and keys"},
    {".mlp.w12.", 0, "a gated (SwiGLU) MLP"},
    {".mlp.fc1_g.", 0, "a gated (SwiGLU) MLP"},
    {"relative_position_bias_table", 0, "a relative position bias"},
    {"pre_logits.", 1, "a layer between norm and head"},
    {"norm_pre.", 1, "a norm before the first block"},
    {"fc_norm.", 1, "a head on averaged patches"},
    {"attn_pool.", 1, "a head with attention pooling"},
};

static rvit_status check_foreign(const rvit_tensor_set *set)
{
    for (int32_t i = 0; i < rvit_tensor_set_count(set); i++) {
        const char *name = rvit_tensor_set_tensor(set, i)->name;
        for (size_t j = 0; j < sizeof foreign / sizeof *foreign; j++) {
            const int found =
                foreign[j].prefix ? strncmp(name, foreign[j].text, strlen(foreign[j].text)) == 0 : strstr(name, foreign[j].text) != NULL;
            if (found && strncmp(name, "score_predictor.", 16) != 0) {
                char shown[SHOWN_NAME];
                rvit_printable(shown, sizeof shown, name);
                return rvit_fail(RVIT_UNSUPPORTED, "%s: the model has %s, which is not supported (tensor '%s')", rvit_tensor_set_path(set),
                                 foreign[j].what, shown);
            }
        }
    }
    return RVIT_OK;
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
    else if (role >= RVIT_FIRST_BLOCK_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "%s%s%d.%s", family->prefix, family->blocks, (int)index, name);
    else
        snprintf(out, RVIT_NAME_SIZE, "%s%s", family->prefix, name);
    return out;
}

/* The number of tensors, outside the blocks and in the first block, that have this family's names. */
static int32_t n_named(const rvit_tensor_set *set, const rvit_family *family)
{
    int32_t n = 0;
    for (int role = 0; role < (int)RVIT_FIRST_PREDICTOR_ROLE; role++) {
        char buffer[RVIT_NAME_SIZE];
        const char *name = rvit_family_name(family, (rvit_role)role, 0, buffer);
        n += name != NULL && rvit_tensor_set_find(set, name) >= 0;
    }
    return n;
}

rvit_status rvit_family_detect(const rvit_tensor_set *set, const rvit_family **out_family)
{
    if (rvit_tensor_set_count(set) == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: the checkpoint holds no tensors", rvit_tensor_set_path(set));
    int32_t most = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const int32_t n = n_named(set, &families[i]);
        if (n > most) {
            most = n;
            *out_family = &families[i];
        }
    }
    if (most == 0) {
        char shown[SHOWN_NAME];
        rvit_printable(shown, sizeof shown, rvit_tensor_set_tensor(set, 0)->name);
        return rvit_fail(RVIT_BAD_FILE,
                         "%s: none of the tensors has the name of a Vision Transformer's in timm, DINOv2 or Hugging Face (the first is "
                         "'%s')",
                         rvit_tensor_set_path(set), shown);
    }
    return check_foreign(set);
}
