/* Looks up timm's architectures by name, and plain models by their tensors. */
#ifndef RVIT_CORE_MODEL_CONFIG_TIMM_NAMES_H
#define RVIT_CORE_MODEL_CONFIG_TIMM_NAMES_H

#include "core/model/facts.h"

/* Sets the facts of an architecture; returns 0 if the name is unknown. "vit" is a plain model of any size. A tag ("name.tag") is ignored.
   facts may be NULL. */
int32_t rvit_timm_name_facts(const char *name, rvit_facts *facts, const char *where);

/* The shape of a plain model with timm's tensor names. */
typedef struct rvit_plain_shape {
    int32_t dim, depth, mlp_dim, patch_size, distilled, n_registers;
    int32_t layer_scale; /* 2: with DeiT-III's names */
} rvit_plain_shape;
/* The number of heads of all published models with these tensors; 0: they differ, or there are none. */
int32_t rvit_plain_heads(const rvit_plain_shape *shape);

#endif
