/* What a model_type of Hugging Face's config.json stands for. The rows are those of families.def. */
#ifndef RVIT_CORE_MODEL_CONFIG_MODEL_TYPE_H
#define RVIT_CORE_MODEL_CONFIG_MODEL_TYPE_H

#include "core/model/config/read.h"
#include "core/model/rope_table.h"

typedef struct rvit_model_type {
    const char *name, *outer; /* outer: the type of a model that holds it as vision_config; NULL: none */
    const char *processor;    /* the class that prepares its pictures: "CLIP" of CLIPImageProcessor; NULL: none is known here */
    /* Reads the fields that other classes do not have; such a class has no image_size and no eps. NULL: none. */
    rvit_status (*read)(const rvit_config_reader *r, const rvit_json *vision, const struct rvit_model_type *type);
    /* Defaults; 0: the class has none, or none that can be believed. Without a default of mlp its file does not tell the MLP's width. */
    int32_t dim, mlp, depth, heads, image, patch;
    rvit_activation activation;
    double eps;
    rvit_resample resample;
    /* What no field changes. */
    rvit_pooling pooling; /* of the head that its files have */
    rvit_position position;
    int32_t rms_norm, gated, patch_norm;
    int32_t patch_rows;              /* 1: a patch is a row of (y, x, channel) */
    int32_t registers;               /* 1: num_register_tokens means something */
    const char *positions_field;     /* number of patches of the position table, in place of image_size; NULL: none */
    int64_t positions;               /* its default */
    const char *gate_field;          /* true: the MLPs have a gate; NULL: none */
    rvit_activation gate_activation; /* then; RVIT_ACTIVATION_NONE: as without */
    const char *head_field;          /* false: there is no head; NULL: none */
    const char *sines_field;         /* true: positions are made of sines; NULL: none */
    const char *classifier;          /* the class of a classifier on top, which pools in its own way; NULL: none does */
    rvit_pooling classifier_pooling;
    /* Of towers that merge patches. */
    int32_t window; /* pixels; 0: no windows, and no field for them */
    rvit_block_list full_blocks, deepstack;
} rvit_model_type;

/* The row of a type; outer: of the type of a model that holds it. NULL: it is not known here. */
const rvit_model_type *rvit_model_type_find(const char *name, int outer);

/* What towers of Qwen's have beside the fields of others. */
rvit_status rvit_config_qwen(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type);

#endif
