/* What the head of a model reads: its rows pooled, as facts and tensors tell it. */
#ifndef RVIT_CORE_MODEL_POOLING_H
#define RVIT_CORE_MODEL_POOLING_H

#include "core/model/facts.h"
#include "core/model/geometry.h"

/* The pooling as far as the tensors say more than a file does, and the heads and activation of attention pooling. */
void rvit_resolve_pooling(rvit_vit_config *config, rvit_facts *facts);
/* What the head reads must be there, and what is there must be read. */
rvit_status rvit_check_pooling(const char *path, const rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported);

#endif
