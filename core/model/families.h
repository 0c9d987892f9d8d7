/* The names that each family of checkpoints has for the tensors of a Vision Transformer. */
#ifndef RVIT_CORE_MODEL_FAMILIES_H
#define RVIT_CORE_MODEL_FAMILIES_H

#include "core/file/tensor_set.h"
#include "core/model/unsupported.h"

/* The role of a tensor. */
typedef enum rvit_role {
#define RVIT_ROLE1(role, ...) RVIT_ROLE_##role,
#define RVIT_ROLE3(role, ...) RVIT_ROLE_##role,
#define RVIT_ROLE4(role, ...) RVIT_ROLE_##role,
#define RVIT_NORM_ROLES(role, ...) RVIT_ROLE_##role##_GAMMA, RVIT_ROLE_##role##_BETA,
#define RVIT_LINEAR_ROLES(role, ...) RVIT_ROLE_##role##_WEIGHT, RVIT_ROLE_##role##_BIAS,
#include "core/model/roles.def"
    RVIT_ROLE_COUNT
} rvit_role;

#define RVIT_FIRST_BLOCK_ROLE RVIT_ROLE_NORM1_GAMMA
#define RVIT_FIRST_DEEPSTACK_ROLE RVIT_ROLE_DEEPSTACK_NORM_GAMMA
#define RVIT_FIRST_PREDICTOR_ROLE RVIT_ROLE_PREDICTOR_NORM_GAMMA

/* Properties of a family. OR of these. */
enum {
    RVIT_FAMILY_HF = 1,               /* Hugging Face: the model's config is required */
    RVIT_FAMILY_ALWAYS_DIST = 2,      /* every model has a distillation token */
    RVIT_FAMILY_FREE_REGISTERS = 4,   /* the position table has no rows for registers, but has one for CLS */
    RVIT_FAMILY_FLAT = 8,             /* the CLS token is [dim], the position table [positions, dim] */
    RVIT_FAMILY_HEAD_TRANSPOSED = 16, /* the head is [dim, n_classes] */
    RVIT_FAMILY_PROJECTS = 32,        /* the head is CLIP's projection */
    RVIT_FAMILY_GRID = 64,            /* the position table is [1, lines, columns, dim], without rows for prefix tokens */
    RVIT_FAMILY_MAY_PROJECT = 128,    /* the head is CLIP's projection if the name of the architecture says so */
    RVIT_FAMILY_WIDE_HEAD = 256,      /* the head may have columns for CLS row and mean, side by side */
    RVIT_FAMILY_MAY_LACK_TABLE = 512, /* the position table is optional */
    RVIT_FAMILY_MAP_UNREAD = 1024,    /* attention pooling may be present but unused */
    RVIT_FAMILY_MAP_EMBEDS = 2048     /* without a head, the output of attention pooling is the embedding */
};

/* The order of a patch's values in the file's patch weight. */
typedef enum rvit_patch_order {
    RVIT_PATCHES_PLANES, /* (channel, y, x) */
    RVIT_PATCHES_ROWS,   /* (y, x, channel) */
    RVIT_PATCHES_BY_RANK /* ROWS if the weight is a matrix, PLANES if it is a convolution */
} rvit_patch_order;

/* The source of the number of heads if no file has it. */
typedef enum rvit_default_heads {
    RVIT_HEADS_UNKNOWN,
    RVIT_HEADS_PLAIN,      /* timm's models of the same shape: rvit_plain_heads */
    RVIT_HEADS_TORCHVISION /* the width of torchvision's VisionTransformer */
} rvit_default_heads;

/* A set of names, with the properties of its family: families.def. */
typedef struct rvit_family {
    const char *name;   /* "timm" */
    const char *prefix; /* of all names below, except those that begin with '/' */
    const char *blocks; /* "blocks.": precedes a block's number */
    int32_t flags;
    rvit_patch_order patches;
    rvit_default_heads heads;
    const char *ignored;                /* see families.def */
    const char *names[RVIT_ROLE_COUNT]; /* NULL: the family has no such tensor */
} rvit_family;

/* The size of every tensor name that is looked up, including its NUL. */
#define RVIT_NAME_SIZE 96
/* The size of a prefix that all names have in common, including its NUL. */
#define RVIT_NAME_PREFIX 64

/* Finds the family that matches most tensors. If all names share a prefix that training code left ("module.", "model.backbone.") and the
   family matches more without it, out_prefix is that prefix, else "". Logs the family and the runner-up. BAD_FILE: no family matches. */
rvit_status rvit_family_detect(const rvit_tensor_set *set, char out_prefix[RVIT_NAME_PREFIX], const rvit_family **out_family);
/* Adds the unsupported features that tensor names show. */
void rvit_family_features(const rvit_tensor_set *set, const rvit_family *family, rvit_unsupported *unsupported);
/* Whether a tensor is not part of the model. */
int rvit_family_ignores(const rvit_family *family, const char *name);
/* Precedes the number of a deepstack merger. */
#define RVIT_DEEPSTACK_NAME "deepstack_merger_list."
/* The full name of a tensor; NULL if the family has none. index: the block, predictor or deepstack merger. */
const char *rvit_family_name(const rvit_family *family, rvit_role role, int32_t index, char out[RVIT_NAME_SIZE]);

#endif
