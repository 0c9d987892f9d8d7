/* The tensors that a Vision Transformer must have: its parts and their extents, inferred from names and shapes. Internal to geometry.h. */
#ifndef RVIT_CORE_MODEL_SHAPES_H
#define RVIT_CORE_MODEL_SHAPES_H

#include "core/model/families.h"

/* The extents that occur in tensor shapes. */
typedef enum rvit_extent {
    RVIT_EXTENT_ONE,
    RVIT_EXTENT_TWO,
    RVIT_EXTENT_REGISTERS,
    RVIT_EXTENT_POSITIONS,
    RVIT_EXTENT_GRID, /* the side of a position table that is a grid */
    RVIT_EXTENT_CHANNELS,
    RVIT_EXTENT_PATCH,
    RVIT_EXTENT_PATCH_VALUES, /* channels * patch^2 */
    RVIT_EXTENT_FRAMES,       /* of a patch, if its weight is a convolution that includes time */
    RVIT_EXTENT_DIM,
    RVIT_EXTENT_DIM2,
    RVIT_EXTENT_DIM3,
    RVIT_EXTENT_HALF_DIM,
    RVIT_EXTENT_QUARTER_DIM,
    RVIT_EXTENT_MLP,
    RVIT_EXTENT_FC1_ROWS, /* MLP; twice that if fc1 includes the gate */
    RVIT_EXTENT_CLASSES,
    RVIT_EXTENT_HEAD_IN, /* columns of the head */
    RVIT_EXTENT_MAP_MLP, /* width of the MLP of attention pooling */
    RVIT_EXTENT_GROUP,   /* width of the concatenated rows of a merge group */
    RVIT_EXTENT_MERGED,  /* width of a merged row */
    RVIT_EXTENT_COUNT
} rvit_extent;

/* Optional parts of a model. */
typedef enum rvit_part {
    RVIT_PART_ALWAYS,
    RVIT_PART_CLS_TOKEN,
    RVIT_PART_DIST_TOKEN,
    RVIT_PART_REGISTER_TOKENS,
    RVIT_PART_POSITION_TABLE,
    RVIT_PART_PATCH_BIAS,
    RVIT_PART_PATCH_NORM,
    RVIT_PART_NORM_PRE,
    RVIT_PART_NORM_BETA, /* in all norms */
    RVIT_PART_QKV_BIAS,
    RVIT_PART_PROJ_BIAS,
    RVIT_PART_MLP_BIAS,
    RVIT_PART_ATTENTION_NORM,
    RVIT_PART_MLP_NORM,
    RVIT_PART_FINAL_NORM,
    RVIT_PART_FC_NORM,
    RVIT_PART_MAP,
    RVIT_PART_MAP_KV_BIAS, /* if keys and values have separate weights */
    RVIT_PART_HEAD,
    RVIT_PART_DIST_HEAD,
    RVIT_PART_LAYER_SCALE,
    RVIT_PART_MERGER,
    RVIT_PART_DEEPSTACK,
    RVIT_PART_COUNT
} rvit_part;

typedef struct rvit_geometry {
    const rvit_tensor_set *set;
    const char *path;
    const rvit_family *family;
    int32_t has[RVIT_PART_COUNT];
    int32_t depth;
    int32_t n_deepstack;
    int32_t packed; /* 1: fc1 includes the rows of a gate */
    int64_t extents[RVIT_EXTENT_COUNT];
    int64_t position_prefix, grid; /* grid: 0 if the positions form no square */
    int64_t choices[2];            /* possible values of position_prefix */
} rvit_geometry;

/* The highest rank in any shape of a model. */
enum { RVIT_MAX_RANK = 5 };

/* The tensor in this role; NULL if it is missing. name: its name; "" if the family has none. */
const rvit_file_tensor *rvit_geometry_find(const rvit_geometry *g, rvit_role role, int32_t index, char name[RVIT_NAME_SIZE]);
/* Whether the tensor is present; for a block's, in the first block. */
int rvit_geometry_has(const rvit_geometry *g, rvit_role role);
/* Whether any block has the tensor. */
int rvit_geometry_in_blocks(const rvit_geometry *g, rvit_role role);
int rvit_geometry_flag(const rvit_geometry *g, int32_t flag);
/* An axis of a tensor's shape; -1 if it does not have this rank. */
int64_t rvit_geometry_vote(const rvit_geometry *g, rvit_role role, int32_t rank, int32_t axis);
/* Rows of the position table; -1 if there is none. */
int64_t rvit_geometry_positions(const rvit_geometry *g);
/* The role of expected tensor i, and its block or deepstack merger; -1: this model does not have it. */
int rvit_geometry_expected(const rvit_geometry *g, int64_t i, int32_t *out_block);
int64_t rvit_geometry_n_expected(const rvit_geometry *g);
/* Fills in the required shape of a role's tensor; returns whether the tensor has it. */
int rvit_geometry_shape(const rvit_geometry *g, rvit_role role, const rvit_file_tensor *tensor, int32_t *out_rank,
                        int64_t out_shape[RVIT_MAX_RANK]);
/* The square root, rounded down. */
int64_t rvit_integer_root(int64_t n);

/* parts.c: fill depth, n_deepstack, packed and has. */
rvit_status rvit_geometry_count_blocks(rvit_geometry *g);
void rvit_geometry_count_deepstack(rvit_geometry *g);
int rvit_geometry_is_packed(const rvit_geometry *g);
rvit_status rvit_geometry_find_parts(rvit_geometry *g);
/* extents.c: fills extents, grid and position_prefix. All expected tensors must be present. */
rvit_status rvit_geometry_infer(rvit_geometry *g);

#endif
