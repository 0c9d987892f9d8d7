/* A checkpoint: its files, the inferred geometry, and access to its values. */
#ifndef RVIT_CORE_MODEL_CHECKPOINT_H
#define RVIT_CORE_MODEL_CHECKPOINT_H

#include "core/file/public_tensors.h"
#include "core/model/class_names.h"
#include "core/model/facts.h"
#include "core/model/geometry.h"

struct rvit_checkpoint {
    rvit_alloc alloc;
    rvit_tensor_set *tensors;
    rvit_tensors listing;   /* of these, for callers */
    rvit_vit_config config; /* info.image_size and the fields derived from it are those requested */
    rvit_facts facts;
    rvit_unsupported unsupported; /* empty unless rvit_checkpoint_desc.describe is 1 */
    uint8_t *used;                /* [tensors]: 1 if the dense forward uses it */
    int32_t *layers;              /* [tensors]: see rvit_tensors */
    rvit_checkpoint_fact listed_facts[RVIT_FACT_COUNT];
    rvit_class_names classes; /* from a config.json */
};

/* Reads a whole tensor of n elements as float32. alloc is used during the call only. BAD_FILE: the tensor is missing or has another size,
   or the file changed since it was opened. */
rvit_status rvit_checkpoint_read(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, const char *name, int64_t n, float *out_values);
/* Reads count elements of a tensor, from `first` on, as dtype; not rounded if the file stores that type. */
rvit_status rvit_checkpoint_read_part(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, const char *name, int64_t n, int64_t first,
                                      int64_t count, rvit_dtype dtype, void *out_values);
/* The position table resampled to the model's image size: out [tokens, dim]; zero for prefix tokens without a position, and everywhere
   without a table. */
rvit_status rvit_checkpoint_read_positions(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, float *out);

#endif
