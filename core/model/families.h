/* The names that each family of checkpoints gives to the tensors of a Vision Transformer. */
#ifndef RVIT_CORE_MODEL_FAMILIES_H
#define RVIT_CORE_MODEL_FAMILIES_H

#include "core/file/tensor_set.h"
#include "core/model/unsupported.h"

/* The role of a tensor. */
typedef enum rvit_role {
    RVIT_ROLE_CLS,
    RVIT_ROLE_DIST,
    RVIT_ROLE_REGISTERS,
    RVIT_ROLE_POSITION,
    RVIT_ROLE_PATCH_WEIGHT,
    RVIT_ROLE_PATCH_BIAS,
    RVIT_ROLE_PATCH_NORM_GAMMA, /* of a norm of the patches before their positions */
    RVIT_ROLE_PATCH_NORM_BETA,
    RVIT_ROLE_NORM_PRE_GAMMA, /* of a norm before the first block */
    RVIT_ROLE_NORM_PRE_BETA,
    RVIT_ROLE_NORM_GAMMA,
    RVIT_ROLE_NORM_BETA,
    RVIT_ROLE_HEAD_WEIGHT,
    RVIT_ROLE_HEAD_BIAS,
    RVIT_ROLE_HEAD_DIST_WEIGHT,
    RVIT_ROLE_HEAD_DIST_BIAS,
    RVIT_ROLE_FC_NORM_GAMMA, /* of a norm between pooling and head */
    RVIT_ROLE_FC_NORM_BETA,
    /* Of attention pooling. Query, keys and values have weights of their own, or share a tensor; the query may have none. */
    RVIT_ROLE_MAP_LATENT,
    RVIT_ROLE_MAP_QKV_WEIGHT,
    RVIT_ROLE_MAP_QKV_BIAS,
    RVIT_ROLE_MAP_Q_WEIGHT,
    RVIT_ROLE_MAP_Q_BIAS,
    RVIT_ROLE_MAP_KV_WEIGHT,
    RVIT_ROLE_MAP_KV_BIAS,
    RVIT_ROLE_MAP_K_WEIGHT,
    RVIT_ROLE_MAP_K_BIAS,
    RVIT_ROLE_MAP_V_WEIGHT,
    RVIT_ROLE_MAP_V_BIAS,
    RVIT_ROLE_MAP_PROJ_WEIGHT,
    RVIT_ROLE_MAP_PROJ_BIAS,
    RVIT_ROLE_MAP_NORM_GAMMA,
    RVIT_ROLE_MAP_NORM_BETA,
    RVIT_ROLE_MAP_FC1_WEIGHT,
    RVIT_ROLE_MAP_FC1_BIAS,
    RVIT_ROLE_MAP_FC2_WEIGHT,
    RVIT_ROLE_MAP_FC2_BIAS,
    /* Of what makes one row of each square of patches, after the last block. */
    RVIT_ROLE_MERGER_NORM_GAMMA,
    RVIT_ROLE_MERGER_NORM_BETA,
    RVIT_ROLE_MERGER_FC1_WEIGHT,
    RVIT_ROLE_MERGER_FC1_BIAS,
    RVIT_ROLE_MERGER_FC2_WEIGHT,
    RVIT_ROLE_MERGER_FC2_BIAS,
    /* Of each block. */
    RVIT_ROLE_NORM1_GAMMA,
    RVIT_ROLE_NORM1_BETA,
    RVIT_ROLE_QKV_WEIGHT,
    RVIT_ROLE_QKV_BIAS,
    RVIT_ROLE_Q_WEIGHT,
    RVIT_ROLE_Q_BIAS,
    RVIT_ROLE_K_WEIGHT,
    RVIT_ROLE_K_BIAS,
    RVIT_ROLE_V_WEIGHT,
    RVIT_ROLE_V_BIAS,
    RVIT_ROLE_ATTENTION_NORM_GAMMA, /* before proj */
    RVIT_ROLE_ATTENTION_NORM_BETA,
    RVIT_ROLE_PROJ_WEIGHT,
    RVIT_ROLE_PROJ_BIAS,
    RVIT_ROLE_SCALE1,
    RVIT_ROLE_NORM2_GAMMA,
    RVIT_ROLE_NORM2_BETA,
    RVIT_ROLE_FC1_WEIGHT, /* of a gated MLP: the values', or gate and values one after another */
    RVIT_ROLE_FC1_BIAS,
    RVIT_ROLE_GATE_WEIGHT, /* where it lies apart */
    RVIT_ROLE_GATE_BIAS,
    RVIT_ROLE_MLP_NORM_GAMMA, /* before fc2 */
    RVIT_ROLE_MLP_NORM_BETA,
    RVIT_ROLE_FC2_WEIGHT,
    RVIT_ROLE_FC2_BIAS,
    RVIT_ROLE_SCALE2,
    /* Of each of the mergers of earlier blocks' rows. */
    RVIT_ROLE_DEEPSTACK_NORM_GAMMA,
    RVIT_ROLE_DEEPSTACK_NORM_BETA,
    RVIT_ROLE_DEEPSTACK_FC1_WEIGHT,
    RVIT_ROLE_DEEPSTACK_FC1_BIAS,
    RVIT_ROLE_DEEPSTACK_FC2_WEIGHT,
    RVIT_ROLE_DEEPSTACK_FC2_BIAS,
    /* Of each of DynamicViT's predictors. */
    RVIT_ROLE_PREDICTOR_NORM_GAMMA,
    RVIT_ROLE_PREDICTOR_NORM_BETA,
    RVIT_ROLE_PREDICTOR_IN_WEIGHT,
    RVIT_ROLE_PREDICTOR_IN_BIAS,
    RVIT_ROLE_PREDICTOR_OUT0_WEIGHT,
    RVIT_ROLE_PREDICTOR_OUT0_BIAS,
    RVIT_ROLE_PREDICTOR_OUT1_WEIGHT,
    RVIT_ROLE_PREDICTOR_OUT1_BIAS,
    RVIT_ROLE_PREDICTOR_KEEP_WEIGHT,
    RVIT_ROLE_PREDICTOR_KEEP_BIAS,
    RVIT_ROLE_COUNT
} rvit_role;

#define RVIT_FIRST_BLOCK_ROLE RVIT_ROLE_NORM1_GAMMA
#define RVIT_FIRST_DEEPSTACK_ROLE RVIT_ROLE_DEEPSTACK_NORM_GAMMA
#define RVIT_FIRST_PREDICTOR_ROLE RVIT_ROLE_PREDICTOR_NORM_GAMMA

/* What a family's tensors have in common beside their names. OR of these. */
enum {
    RVIT_FAMILY_HF = 1,               /* Hugging Face's: nothing can be told without its config */
    RVIT_FAMILY_ALWAYS_DIST = 2,      /* these models have a distillation token */
    RVIT_FAMILY_FREE_REGISTERS = 4,   /* the position table has no rows for registers, but has one for CLS */
    RVIT_FAMILY_FLAT = 8,             /* the CLS token is [dim], the position table [positions, dim] */
    RVIT_FAMILY_HEAD_TRANSPOSED = 16, /* the head is [dim, n_classes] */
    RVIT_FAMILY_PROJECTS = 32,        /* the head is CLIP's projection */
    RVIT_FAMILY_GRID = 64,            /* the position table is [1, lines, columns, dim], without rows for prefix tokens */
    RVIT_FAMILY_MAY_PROJECT = 128,    /* the head is CLIP's projection if the name of the architecture says so */
    RVIT_FAMILY_WIDE_HEAD = 256,      /* the head may have columns for CLS row and mean, side by side */
    RVIT_FAMILY_MAY_LACK_TABLE = 512, /* a model without a position table is complete, whatever else it has */
    RVIT_FAMILY_MAP_UNREAD = 1024,    /* attention pooling may be there without being used */
    RVIT_FAMILY_MAP_EMBEDS = 2048     /* without a head, what attention pooling gives is compared with texts */
};

/* How the file's patch weight orders the values of a patch. */
typedef enum rvit_patch_order {
    RVIT_PATCHES_PLANES, /* (channel, y, x) */
    RVIT_PATCHES_ROWS,   /* (y, x, channel) */
    RVIT_PATCHES_BY_RANK /* a matrix is of rows, a convolution of planes */
} rvit_patch_order;

/* What gives the number of heads where no file tells it. */
typedef enum rvit_usual_heads {
    RVIT_HEADS_UNKNOWN,
    RVIT_HEADS_PLAIN,      /* timm's models of the same shape: rvit_plain_heads */
    RVIT_HEADS_TORCHVISION /* the width of torchvision's VisionTransformer */
} rvit_usual_heads;

/* A set of names, and what is known about its family: families.def. */
typedef struct rvit_family {
    const char *name;   /* "timm" */
    const char *prefix; /* prefix of all names below, except those that begin with '/' */
    const char *blocks; /* "blocks.": precedes the block's number and the names in it */
    int32_t flags;
    rvit_patch_order patches;
    rvit_usual_heads heads;
    const char *ignored;                /* see families.def */
    const char *names[RVIT_ROLE_COUNT]; /* NULL: the family has no such tensor */
} rvit_family;

/* Room for every tensor name that is looked up, including its NUL. */
#define RVIT_NAME_SIZE 96
/* Of a prefix that names of all families may have. */
#define RVIT_NAME_PREFIX 64

/* Finds the family with the most recognised tensors. If it recognises more behind what all names begin with ("module.", "model.backbone."),
   as training code leaves it, out_prefix is that; else "". Logs which it is, and which comes next. BAD_FILE: no family recognises any. */
rvit_status rvit_family_detect(const rvit_tensor_set *set, char out_prefix[RVIT_NAME_PREFIX], const rvit_family **out_family);
/* Notes the parts of the model that names of tensors show, but that the forward does not run. */
void rvit_family_features(const rvit_tensor_set *set, const rvit_family *family, rvit_obstacles *obstacles);
/* Whether a tensor lies beside the model and is no part of it. */
int rvit_family_ignores(const rvit_family *family, const char *name);
/* What precedes the number of a merger of an earlier block's rows. */
#define RVIT_DEEPSTACK_NAME "deepstack_merger_list."
/* The full name of a tensor; NULL if the family has none. index: of the block, predictor or deepstack merger. */
const char *rvit_family_name(const rvit_family *family, rvit_role role, int32_t index, char out[RVIT_NAME_SIZE]);

#endif
