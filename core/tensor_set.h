/* The tensors of a checkpoint: of one .safetensors file, or of the shards that an index file names. Immutable once open; may be shared by
   threads. */
#ifndef RVIT_CORE_TENSOR_SET_H
#define RVIT_CORE_TENSOR_SET_H

#include "core/safetensors.h"

#define RVIT_MAX_SHARDS 256

typedef struct rvit_tensor_set rvit_tensor_set;

/* A path that ends with ".json" is an index: {"weight_map": {"tensor": "file in the index's folder", ...}}; what else it holds is not
   looked at. BAD_FILE names the file and what is wrong. alloc must outlive the result. */
rvit_status rvit_tensor_set_open(const char *path, rvit_alloc *alloc, rvit_tensor_set **out_set);
void rvit_tensor_set_close(rvit_tensor_set *set);

/* The path that was opened, fit to be printed. */
const char *rvit_tensor_set_path(const rvit_tensor_set *set);
int32_t rvit_tensor_set_n_files(const rvit_tensor_set *set);
int32_t rvit_tensor_set_count(const rvit_tensor_set *set);
/* File after file, sorted by name; within a file in the order of its data. 0 <= index < count. */
const rvit_file_tensor *rvit_tensor_set_tensor(const rvit_tensor_set *set, int32_t index);
/* The index of a tensor; -1 if there is none of this name. */
int32_t rvit_tensor_set_find(const rvit_tensor_set *set, const char *name);
/* The index of a tensor whose name begins with prefix; -1 if there is none. */
int32_t rvit_tensor_set_find_prefix(const rvit_tensor_set *set, const char *prefix);
/* The text under a key of the first file's __metadata__ that has it; NULL if none has. */
const char *rvit_tensor_set_metadata(const rvit_tensor_set *set, const char *key);
/* See rvit_safetensors_read. */
rvit_status rvit_tensor_set_read(const rvit_tensor_set *set, int32_t index, int64_t offset, int64_t size, void *out_bytes);

#endif
