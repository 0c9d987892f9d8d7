/* The tensors of files, for callers: a listing, which a checkpoint has too. */
#ifndef RVIT_CORE_FILE_PUBLIC_TENSORS_H
#define RVIT_CORE_FILE_PUBLIC_TENSORS_H

#include "core/file/tensor_set.h"

struct rvit_tensors {
    rvit_alloc alloc;
    rvit_tensor_set *set;
    const uint8_t *used; /* [tensors]: whether a forward uses them; NULL: nobody knows */
};

#endif
