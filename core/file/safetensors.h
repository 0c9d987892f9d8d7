/* A strict reader of .safetensors files. Opening a file reads and checks its header; values are read on request with pread. A file that
   shrinks causes an error, never a signal. Immutable once open; threads may share it. */
#ifndef RVIT_CORE_FILE_SAFETENSORS_H
#define RVIT_CORE_FILE_SAFETENSORS_H

#include <raggedvit/session.h>

#include "core/base/alloc.h"
#include "core/file/file.h"

#define RVIT_SAFETENSORS_MAX_RANK 8
#define RVIT_SAFETENSORS_MAX_NAME 1024
#define RVIT_SAFETENSORS_MAX_TENSORS 65536
#define RVIT_SAFETENSORS_MAX_HEADER 100000000

typedef struct rvit_file_tensor {
    const char *name;        /* UTF-8, 1 to 1024 bytes */
    const char *dtype_name;  /* "F16": static */
    int32_t dtype;           /* an rvit_dtype, or -1: a type that cannot be read as float32 */
    int32_t quantized_dtype; /* RVIT_I8 or RVIT_E4M3: values that need scales (quantized_tensors.h), with dtype -1; 0: neither */
    int32_t rank;
    int64_t shape[RVIT_SAFETENSORS_MAX_RANK];
    int64_t n_elements;
    int64_t offset; /* bytes from the start of the data */
    int64_t size;   /* bytes */
} rvit_file_tensor;

typedef struct rvit_safetensors rvit_safetensors;

/* BAD_FILE names the file and the broken rule. alloc must outlive the result. */
rvit_status rvit_safetensors_open(const char *path, rvit_alloc *alloc, rvit_safetensors **out_file);
/* Tensors in the caller's memory instead of a file, in the order of the list. Names and data must outlive the result. INVALID_ARGUMENT
   names the tensor and the broken rule. */
rvit_status rvit_safetensors_wrap(const rvit_tensor_desc *tensors, int32_t n_tensors, rvit_alloc *alloc, rvit_safetensors **out_file);
void rvit_safetensors_close(rvit_safetensors *file);

/* The printable path. */
const char *rvit_safetensors_path(const rvit_safetensors *file);
int32_t rvit_safetensors_count(const rvit_safetensors *file);
/* Removes the first n bytes of every name. */
void rvit_safetensors_skip_prefix(rvit_safetensors *file, size_t n);
/* In the order of the data, 0 <= index < count. */
const rvit_file_tensor *rvit_safetensors_tensor(const rvit_safetensors *file, int32_t index);
/* The index of the tensor with this name; -1 if there is none. */
int32_t rvit_safetensors_find(const rvit_safetensors *file, const char *name);
/* The index of the first tensor, by name, whose name begins with prefix; -1 if there is none. */
int32_t rvit_safetensors_find_prefix(const rvit_safetensors *file, const char *prefix);
/* The text under a key of __metadata__; NULL if there is none. */
const char *rvit_safetensors_metadata(const rvit_safetensors *file, const char *key);
/* Reads size bytes of a tensor, from a byte offset in it. BAD_FILE: the file changed since it was opened. */
rvit_status rvit_safetensors_read(const rvit_safetensors *file, int32_t index, int64_t offset, int64_t size, void *out_bytes);

#endif
