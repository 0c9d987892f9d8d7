/* The geometry of a Vision Transformer, inferred from the names and shapes of its tensors. */
#ifndef RVIT_CORE_MODEL_GEOMETRY_H
#define RVIT_CORE_MODEL_GEOMETRY_H

#include "core/model/facts.h"
#include "core/model/families.h"
#include "core/model/rope_table.h"

#include <raggedvit/session.h>

#define RVIT_MAX_PREDICTORS 8
#define RVIT_MAX_DEEPSTACK 8

/* Vision encoders that output one row per merge group, a square of patches (Qwen2.5-VL, Qwen3-VL). */
typedef struct rvit_merge_config {
    int32_t side;                /* patches per side of a merge group */
    int32_t window;              /* merge groups per side of an attention window; 0: there are no windows */
    rvit_block_list full_blocks; /* blocks that attend to the whole image; not used without windows */
    rvit_block_list deepstack;   /* blocks whose rows are merged too, each by its own merger */
} rvit_merge_config;

/* The position of a block in the list; -1: it is not in it. */
static inline int32_t rvit_block_position(const rvit_block_list *list, int32_t block)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->blocks[i] == block)
            return i;
    return -1;
}

typedef struct rvit_vit_config {
    const rvit_family *family;
    rvit_model_info info;
    rvit_checkpoint_info files;
    rvit_image_recipe recipe; /* fields that no file has are unset */
    int32_t measured;         /* 1: all shapes were checked; 0: there are unsupported parts, and info is incomplete */
    int32_t layer_scale;
    int32_t qkv_bias, patch_bias;
    int32_t patch_rows; /* 1: patches in the file are rows of (y, x, channel) */
    int32_t proj_bias, mlp_bias, norm_beta;
    int32_t attention_norm, mlp_norm;           /* 1: a norm before proj, before fc2 */
    int32_t cls_and_mean;                       /* 1: the head has columns for the CLS row and the mean */
    int32_t cls, fc_norm;                       /* 1: there is a CLS token, a norm between pooling and head */
    int32_t own_head;                           /* 0: there is no head, and info.n_classes is the pooled width */
    int32_t map, map_mlp;                       /* 1: there is attention pooling; the width of its MLP, 0: it has none */
    int32_t map_heads, map_bias;                /* map_bias: 1: separate weights of keys and values have biases */
    rvit_activation map_activation;             /* if map_mlp > 0 */
    int32_t patch_norm;                         /* 1: a norm of the patches before positions are added */
    int32_t merges, group_dim;                  /* 1: a merge group becomes one row; the width of its concatenated rows */
    int32_t frames;                             /* of a patch */
    rvit_merge_config merge;                    /* if merges is 1 */
    int32_t no_table;                           /* 1: there is no position table, so the tensors do not show the image size */
    rvit_rope_config rope;                      /* if info.position includes rotary positions */
    int32_t position_prefix;                    /* the first rows of the position table, for the first prefix tokens */
    int32_t position_rows, position_choices[2]; /* rows of the table, and possible values of position_prefix */
    int32_t trained[2];                         /* the table's grid: lines, columns */
    int32_t quantized_dtype;                    /* of the 8-bit weights of blocks: RVIT_I8 or RVIT_E4M3; 0: there are none */
    char missing_predictor[RVIT_NAME_SIZE];     /* the missing or misshaped tensor of predictor files.n_predictors */
} rvit_vit_config;

/* Fills *config and used [tensors of set]: 1 for each tensor the dense forward uses. Adds features that the forward does not run to
   unsupported; shapes are then not checked. BAD_FILE: a tensor is missing, misshaped, of a wrong type, or unknown; lenient allows unknown
   tensors that are not part of the computation. */
rvit_status rvit_vit_config_infer(const rvit_tensor_set *set, const rvit_family *family, int32_t lenient, uint8_t *used,
                                  rvit_vit_config *config, rvit_unsupported *unsupported);
/* Makes info.architecture from the other fields. */
void rvit_vit_name(rvit_vit_config *config);

#endif
