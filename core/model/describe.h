/* What a checkpoint computes: its tensors, and the facts that leave no trace in them. */
#ifndef RVIT_CORE_MODEL_DESCRIBE_H
#define RVIT_CORE_MODEL_DESCRIBE_H

#include "core/model/facts.h"
#include "core/model/geometry.h"

/* What the caller gives comes before what files say. */
void rvit_describe_options(const rvit_checkpoint_desc *desc, rvit_facts *facts);
/* Joins facts and tensors into config->info, and notes as unsupported what is not known and what the forward does not run. Fills in what
   the tensors tell, and what all published models with these tensors have in common. BAD_FILE, or INVALID_ARGUMENT of what the caller gave:
   facts contradict the tensors. */
rvit_status rvit_describe(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_unsupported *unsupported);
/* How pictures become an input of the size in `info`. */
void rvit_describe_pictures(rvit_model_info *info, const rvit_facts *facts);

#endif
