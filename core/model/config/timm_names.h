/* Architectures of timm by name, and plain ones by their tensors. */
#ifndef RVIT_CORE_MODEL_CONFIG_TIMM_NAMES_H
#define RVIT_CORE_MODEL_CONFIG_TIMM_NAMES_H

#include "core/model/facts.h"

/* Adds what an architecture's name says; 0: the name is not known. "vit" is a plain one of any size. A tag ("name.tag") is passed over.
   facts may be NULL. */
int32_t rvit_timm_name_facts(const char *name, rvit_facts *facts, const char *where);

/* A plain model's tensors, in timm's names. */
typedef struct rvit_plain_shape {
    int32_t dim, depth, mlp_dim, patch_size, distilled, n_registers;
    int32_t layer_scale; /* 2: under DeiT-III's own names */
} rvit_plain_shape;
/* The heads of all published models with these tensors; 0: they differ, or there are none. */
int32_t rvit_plain_heads(const rvit_plain_shape *shape);

#endif
