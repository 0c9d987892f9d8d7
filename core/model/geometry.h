/* The geometry of a Vision Transformer, inferred from the names and shapes of its tensors. */
#ifndef RVIT_CORE_MODEL_GEOMETRY_H
#define RVIT_CORE_MODEL_GEOMETRY_H

#include "core/model/facts.h"
#include "core/model/families.h"
#include "core/model/rope_table.h"

#include <raggedvit/session.h>

#define RVIT_MAX_PREDICTORS 8
#define RVIT_MAX_DEEPSTACK 8

/* Of models whose result is a row for each square of patches (Qwen2.5-VL, Qwen3-VL). A square and its rows are called a unit. */
typedef struct rvit_merge_config {
    int32_t side;                /* patches a side of a unit */
    int32_t window;              /* units a side of a window of attention; 0: there are none */
    rvit_block_list full_blocks; /* whose attention is over the whole image; all of them without windows */
    rvit_block_list deepstack;   /* whose rows are merged too, by a merger of their own each */
} rvit_merge_config;

/* The place of a block in the list; -1: it is not there. */
static inline int32_t rvit_block_place(const rvit_block_list *list, int32_t block)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->blocks[i] == block)
            return i;
    return -1;
}

typedef struct rvit_vit_config {
    const rvit_family *family;
    rvit_model_info info;
    int32_t measured;             /* 1: all shapes were checked; 0: there are unsupported parts, and info is not complete */
    int32_t layer_scale;          /* 1: its blocks scale what they add */
    int32_t qkv_bias, patch_bias; /* 0: there is none */
    int32_t patch_rows;           /* 1: the file's patches are rows of (y, x, channel) */
    int32_t proj_bias, mlp_bias, norm_beta;
    int32_t attention_norm, mlp_norm;           /* 1: a norm before proj, before fc2 */
    int32_t cls_and_mean;                       /* 1: the head has columns for CLS row and mean */
    int32_t cls, fc_norm;                       /* 1: there is a CLS token, a norm between pooling and head */
    int32_t own_head;                           /* 0: info.n_classes is the width of what is pooled */
    int32_t map, map_mlp;                       /* 1: there is attention pooling; the width of its MLP, 0: it has none */
    int32_t map_heads, map_bias;                /* map_bias: where keys and values have weights apart, 1: and biases */
    rvit_activation map_activation;             /* where map_mlp > 0 */
    int32_t patch_norm;                         /* 1: a norm of the patches before their positions */
    int32_t merges, group_dim;                  /* 1: squares of patches become one row; the width of a square's rows together */
    int32_t frames;                             /* of a patch */
    rvit_merge_config merge;                    /* where merges is 1 */
    int32_t no_table;                           /* 1: there is no position table, so the tensors do not tell the image size */
    rvit_rope_config rope;                      /* where info.position says that there are rotary positions */
    int32_t position_prefix;                    /* rows of the position table for prefix tokens: the first of it, of the first of them */
    int32_t position_rows, position_choices[2]; /* rows of the table, and what position_prefix may be */
    int32_t trained[2];                         /* its grid: lines, columns */
    int32_t quantized_dtype;                    /* RVIT_I8 or RVIT_E4M3: that of the weights of blocks that have 8 bits; 0: none has */
    char missing_predictor[RVIT_NAME_SIZE];     /* the tensor that keeps predictor info.n_predictors from being complete */
} rvit_vit_config;

/* Fills *config and used [set's tensors]: 1 for each tensor the dense forward uses. Parts that names or shapes show, but that the forward
   does not run, become unsupported; shapes are then not checked. BAD_FILE: a tensor is missing, misshaped, of a type that holds no weights
   or unknown, unless lenient and outside of what is computed. */
rvit_status rvit_vit_config_infer(const rvit_tensor_set *set, const rvit_family *family, int32_t lenient, uint8_t *used,
                                  rvit_vit_config *config, rvit_unsupported *unsupported);
/* Fills info.architecture from the rest. */
void rvit_vit_name(rvit_vit_config *config);

#endif
