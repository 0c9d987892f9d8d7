/* A checkpoint file with its inferred geometry, and access to its values. */
#ifndef RVIT_CORE_CHECKPOINT_H
#define RVIT_CORE_CHECKPOINT_H

#include "core/alloc.h"
#include "core/safetensors.h"

#include <raggedvit/vit.h>

struct rvit_checkpoint {
    rvit_alloc alloc;
    rvit_safetensors *file;
    rvit_model_info info;
    uint8_t *used; /* [file's tensors]: 1 if the forward uses it */
};

/* Reads a whole tensor of n elements as float32. BAD_FILE if it is not there, has another size, or the file changed underneath. */
rvit_status rvit_checkpoint_read(const rvit_checkpoint *checkpoint, const char *name, int64_t n, float *out_values);

#endif
