/* The tensors of .safetensors files: what programs keep beside a model, such as the embeddings of
   texts. A model's own are read by rvit_checkpoint_open. */
#ifndef RAGGEDVIT_TENSORS_H
#define RAGGEDVIT_TENSORS_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable; threads may share it. */
typedef struct rvit_tensors rvit_tensors;

/* Reads and checks the header of a .safetensors file, or of those that an index names
   (*.safetensors.index.json). allocator: copied; NULL: malloc. BAD_FILE names the file and the rule
   of the format that is broken. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_open(const char *path, const rvit_allocator *allocator, rvit_tensors **out);
RVIT_API void rvit_tensors_destroy(rvit_tensors *tensors);
/* 0 of NULL. */
RVIT_API int32_t rvit_tensors_count(const rvit_tensors *tensors);
/* The number of the tensor with this name; -1: there is none. */
RVIT_API int32_t rvit_tensors_find(const rvit_tensors *tensors, const char *name);
/* Tensor number `index`, in the order of the file's data, file after file: name, dtype name ("BF16"),
   rank and shape, of which any may be NULL. The strings and the shape live as long as the tensors.
   INVALID_ARGUMENT past the last one. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_get(const rvit_tensors *tensors, int32_t index, const char **out_name,
                                                     const char **out_dtype, int32_t *out_rank, const int64_t **out_shape);
/* Reads n values of a tensor of type F32, F16 or BF16 as float32, from value `first` on.
   INVALID_ARGUMENT: there is no such tensor, or it has fewer values. BAD_FILE: it is of another type,
   or the file changed since it was opened. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_read(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n,
                                                      float *out_values);

/* Reads n bytes of a tensor of any type as the file stores them, little-endian, from byte `first` on. The
   same failures. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_read_bytes(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n,
                                                            void *out_bytes);
/* The size of a tensor; 0: there is no such tensor. */
RVIT_API int64_t rvit_tensors_size(const rvit_tensors *tensors, int32_t index);

#ifdef __cplusplus
}
#endif
#endif
