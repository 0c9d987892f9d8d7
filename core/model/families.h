/* The names that each family of checkpoints gives to the tensors of a Vision Transformer. */
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
void rvit_family_features(const rvit_tensor_set *set, const rvit_family *family, rvit_unsupported *unsupported);
/* Whether a tensor lies beside the model and is no part of it. */
int rvit_family_ignores(const rvit_family *family, const char *name);
/* What precedes the number of a merger of an earlier block's rows. */
#define RVIT_DEEPSTACK_NAME "deepstack_merger_list."
/* The full name of a tensor; NULL if the family has none. index: of the block, predictor or deepstack merger. */
const char *rvit_family_name(const rvit_family *family, rvit_role role, int32_t index, char out[RVIT_NAME_SIZE]);

#endif
