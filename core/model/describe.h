/* Determines what a checkpoint computes, from its tensors and from facts that the tensors do not show. */
#ifndef RVIT_CORE_MODEL_DESCRIBE_H
#define RVIT_CORE_MODEL_DESCRIBE_H

#include "core/model/facts.h"
#include "core/model/geometry.h"

/* Sets facts from the caller's options. Call it first: options override files. */
void rvit_describe_options(const rvit_checkpoint_desc *desc, rvit_facts *facts);
/* Joins facts and tensors into config->info, and adds unknown facts and unsupported features to unsupported. Fills in facts that the
   tensors show, and what all published models with these tensors have in common. Facts that contradict the tensors are BAD_FILE, or
   INVALID_ARGUMENT if they come from the caller. */
rvit_status rvit_describe(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_unsupported *unsupported);
/* Fills in config->recipe: how images are prepared for the input size in config->info. */
void rvit_describe_recipe(rvit_vit_config *config, const rvit_facts *facts);

#endif
