/* Towers whose result is a row for each square of patches (Qwen2.5-VL, Qwen3-VL): what their configuration says, and what their tensors
   must agree with. A square and its rows are called a unit. */
#ifndef RVIT_CORE_MODEL_MERGING_H
#define RVIT_CORE_MODEL_MERGING_H

#include "core/model/facts.h"
#include "core/model/unsupported.h"

typedef struct rvit_merge_config {
    int32_t side;                /* patches a side of a unit */
    int32_t window;              /* units a side of a window of attention; 0: there are none */
    rvit_block_list full_blocks; /* whose attention is over the whole image; all of them without windows */
    rvit_block_list deepstack;   /* whose rows are merged too, by a merger of their own each */
} rvit_merge_config;

/* The place of a block in the list; -1: it is not there. */
static inline int32_t rvit_block_place(const rvit_block_list *list, int32_t block)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->blocks[i] == block)
            return i;
    return -1;
}

struct rvit_vit_config;
/* What the files say, checked against the tensors: fills config->merge and the info's fields. */
rvit_status rvit_settle_merge(const char *path, struct rvit_vit_config *config, rvit_facts *facts, rvit_obstacles *obstacles);

#endif
