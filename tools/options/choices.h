/* Names of the library's enums for OPTION_CHOICE, and the pruning options that several commands share. */
#ifndef RVIT_OPTIONS_CHOICES_H
#define RVIT_OPTIONS_CHOICES_H

#include <math.h>

#include <raggedvit/raggedvit.h>

#include "option_table.h"

/* The name of a value, for OPTION_CHOICE. */
#define CHOICE_NAMES(name, ENUM)                        \
    static inline const char *choice_##name(int value)  \
    {                                                   \
        return rvit_enum_name(RVIT_ENUM_##ENUM, value); \
    }
CHOICE_NAMES(backend, BACKEND)
CHOICE_NAMES(tier, TIER)
CHOICE_NAMES(dtype, DTYPE)
CHOICE_NAMES(precision, PRECISION)
CHOICE_NAMES(quantization, QUANTIZATION)
CHOICE_NAMES(activation, ACTIVATION)
CHOICE_NAMES(resample, RESAMPLE)
CHOICE_NAMES(pooling, POOLING)
CHOICE_NAMES(position, POSITION)
CHOICE_NAMES(fit, FIT)
CHOICE_NAMES(filter, FILTER)

/* The last value of rvit_backend. */
#define CHOICE_LAST_BACKEND RVIT_BACKEND_VULKAN

#define OPTION_PRUNE_ROW(bit, commands_, ...)                \
    {                                                        \
        __VA_ARGS__, .given = (bit), .commands = (commands_) \
    }
/* Rows that fill desc, an rvit_prune_desc in T. The bits of given options are those of rvit_prune_parameter. */
#define OPTION_PRUNE_ROWS(T, desc, c)                                                                                              \
    OPTION_PRUNE_ROW(RVIT_PRUNE_KEEP, c, "keep", "R", "fraction of patches to keep, %s (default: the policy's)",                   \
                     OPTION_NUMBER(T, desc.keep, 0, 1)),                                                                           \
        OPTION_PRUNE_ROW(RVIT_PRUNE_BLOCKS, c, "blocks", "LIST",                                                                   \
                         "blocks that prune, counted from 0, such as 3,6,9 (default: the policy's)",                               \
                         OPTION_ASCENDING(T, desc.blocks, desc.n_blocks, 0, INT32_MAX)),                                           \
        OPTION_PRUNE_ROW(RVIT_PRUNE_THRESHOLD, c, "threshold", "T",                                                                \
                         "smallest score of a kept patch, a norm or a probability (default: the policy's)",                        \
                         OPTION_NUMBER(T, desc.threshold, 0, INFINITY)),                                                           \
        OPTION_PRUNE_ROW(RVIT_PRUNE_MASS, c, "mass", "P", "fraction of the sum of scores to keep, %s (default: the policy's)",     \
                         OPTION_NUMBER(T, desc.mass, 0, 1)),                                                                       \
        OPTION_PRUNE_ROW(RVIT_PRUNE_SAMPLES, c, "samples", "K", "number of points to sample, %s (default: the number of patches)", \
                         OPTION_INTEGER(T, desc.n_samples, 1, 65536)),                                                             \
        OPTION_PRUNE_ROW(RVIT_PRUNE_MERGES, c, "merge", "R", "patches to merge away at each stage (default: the policy's)",        \
                         OPTION_INTEGER(T, desc.merges, 0, INT32_MAX)),                                                            \
        OPTION_PRUNE_ROW(RVIT_PRUNE_ALPHA, c, "alpha", "A",                                                                        \
                         "fraction of the kept patches that is chosen at --object-block, %s (default: the policy's)",              \
                         OPTION_NUMBER(T, desc.alpha, 0, 1)),                                                                      \
        OPTION_PRUNE_ROW(RVIT_PRUNE_OBJECT_BLOCK, c, "object-block", "B",                                                          \
                         "the object block, counted from 0 (default: at 3/8 of the model's blocks)",                               \
                         OPTION_INTEGER(T, desc.object_block, 0, INT32_MAX)),                                                      \
        OPTION_PRUNE_ROW(RVIT_PRUNE_TAU, c, "tau", "T",                                                                            \
                         "largest difference of a pixel (0..1) from its prediction, %s (default: the policy's)",                   \
                         OPTION_NUMBER(T, desc.tau, 0, 1)),                                                                        \
        OPTION_PRUNE_ROW(RVIT_PRUNE_SEED, c, "seed", "N", "random seed (default: 0)", OPTION_INTEGER(T, desc.seed, 0, INT64_MAX))

#endif
