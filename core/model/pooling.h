/* Resolves how a model pools its rows before the head, from facts and tensors. */
#ifndef RVIT_CORE_MODEL_POOLING_H
#define RVIT_CORE_MODEL_POOLING_H

#include "core/model/facts.h"
#include "core/model/geometry.h"

/* Sets the pooling where the tensors show more than the files, and the heads and activation of attention pooling. */
void rvit_resolve_pooling(rvit_vit_config *config, rvit_facts *facts);
/* Checks that the tensors and the pooling match: it has the tensors it reads, and reads those that exist. */
rvit_status rvit_check_pooling(const char *path, const rvit_vit_config *config, const rvit_facts *facts, rvit_unsupported *unsupported);

#endif
