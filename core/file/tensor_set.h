/* The tensors of a checkpoint: one .safetensors file, or the shards listed in an index file. Immutable once open; threads may share it. */
#ifndef RVIT_CORE_FILE_TENSOR_SET_H
#define RVIT_CORE_FILE_TENSOR_SET_H

#include "core/file/safetensors.h"

#define RVIT_MAX_SHARDS 256

typedef struct rvit_tensor_set rvit_tensor_set;

/* A path that ends with ".json" is an index: {"weight_map": {"tensor": "file in the index's folder", ...}}; other keys are ignored.
   BAD_FILE names the file and the error. alloc must outlive the result. */
rvit_status rvit_tensor_set_open(const char *path, rvit_alloc *alloc, rvit_tensor_set **out_set);
/* Tensors in the caller's memory, with 0 files: see rvit_safetensors_wrap. */
rvit_status rvit_tensor_set_wrap(const rvit_tensor_desc *tensors, int32_t n_tensors, rvit_alloc *alloc, rvit_tensor_set **out_set);
void rvit_tensor_set_close(rvit_tensor_set *set);

/* The path that was opened, printable; for in-memory tensors "tensors in memory". */
const char *rvit_tensor_set_path(const rvit_tensor_set *set);
int32_t rvit_tensor_set_n_files(const rvit_tensor_set *set);
int32_t rvit_tensor_set_count(const rvit_tensor_set *set);
/* Removes `prefix`, with which all names begin, from every name. */
void rvit_tensor_set_skip_prefix(rvit_tensor_set *set, const char *prefix);
/* Tensor `index`, 0 <= index < count: in the order of the files, sorted by name, and within a file of its data. */
const rvit_file_tensor *rvit_tensor_set_tensor(const rvit_tensor_set *set, int32_t index);
/* The index of the tensor with this name; -1 if there is none. */
int32_t rvit_tensor_set_find(const rvit_tensor_set *set, const char *name);
/* The index of a tensor whose name begins with prefix; -1 if there is none. */
int32_t rvit_tensor_set_find_prefix(const rvit_tensor_set *set, const char *prefix);
/* The text under a key of __metadata__, from the first file that has it; NULL if none has. */
const char *rvit_tensor_set_metadata(const rvit_tensor_set *set, const char *key);
/* See rvit_safetensors_read. */
rvit_status rvit_tensor_set_read(const rvit_tensor_set *set, int32_t index, int64_t offset, int64_t size, void *out_bytes);

/* Converts a file's bytes to float32 on hosts of any byte order. */
void rvit_values_of(const uint8_t *bytes, int32_t dtype, int64_t n, float *out_values);

/* "[2, 3]" */
enum { RVIT_SHOWN_SHAPE = 192 };
void rvit_format_shape(char out[RVIT_SHOWN_SHAPE], int32_t rank, const int64_t *shape);

#endif
