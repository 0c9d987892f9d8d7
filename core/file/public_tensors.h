/* The public listing of a file's tensors, which a checkpoint has too. */
#ifndef RVIT_CORE_FILE_PUBLIC_TENSORS_H
#define RVIT_CORE_FILE_PUBLIC_TENSORS_H

#include "core/file/tensor_set.h"

struct rvit_tensors {
    rvit_alloc alloc;
    rvit_tensor_set *set;
    /* Of a checkpoint's tensors, otherwise NULL: [tensors]. */
    const uint8_t *used;   /* whether the forward uses them */
    const int32_t *layers; /* 4 * block + layer, of the linear layers of blocks; -1: none */
};

#endif
