/* The properties and defaults of a model_type in Hugging Face's config.json; families.def has the rows. */
#ifndef RVIT_CORE_MODEL_CONFIG_MODEL_TYPE_H
#define RVIT_CORE_MODEL_CONFIG_MODEL_TYPE_H

#include "core/model/config/read.h"
#include "core/model/rope_table.h"

typedef struct rvit_model_type {
    const char *name, *outer; /* outer: the type of a model that has it as vision_config; NULL: none */
    const char *processor;    /* the class that prepares its images: "CLIP" for CLIPImageProcessor; NULL: unknown */
    /* Reads fields that only this class has; such a class has no image_size and no eps. May be NULL. */
    rvit_status (*read)(const rvit_config_reader *r, const rvit_json *vision, const struct rvit_model_type *type);
    /* Defaults; 0: the class has none, or none that can be trusted. If mlp is 0 the file does not have the MLP's width. */
    int32_t dim, mlp, depth, heads, image, patch;
    rvit_activation activation;
    double eps;
    rvit_resample resample;
    /* Properties that no field changes. */
    rvit_pooling pooling; /* of the head in its files */
    rvit_position position;
    int32_t rms_norm, gated, patch_norm;
    int32_t patch_rows;              /* 1: a patch is a row of (y, x, channel) */
    int32_t registers;               /* 1: num_register_tokens is used */
    const char *positions_field;     /* the number of patches of the position table, instead of image_size; NULL: none */
    int64_t positions;               /* its default */
    const char *gate_field;          /* true: the MLPs have a gate; NULL: no such field */
    rvit_activation gate_activation; /* with a gate; RVIT_ACTIVATION_NONE: the same as without */
    const char *head_field;          /* false: there is no head; NULL: no such field */
    const char *sines_field;         /* true: positions are sinusoidal; NULL: no such field */
    const char *classifier;          /* a classifier class that pools in its own way; NULL: none */
    rvit_pooling classifier_pooling;
    /* Vision encoders that merge patches. */
    int32_t window; /* pixels; 0: no windows, and no field for them */
    rvit_block_list full_blocks, deepstack;
} rvit_model_type;

/* The row with this name or, if outer is 1, with this outer name. NULL: unknown. */
const rvit_model_type *rvit_model_type_find(const char *name, int outer);

/* Reads the fields that only Qwen's vision encoders have. */
rvit_status rvit_config_qwen(const rvit_config_reader *r, const rvit_json *vision, const rvit_model_type *type);

#endif
