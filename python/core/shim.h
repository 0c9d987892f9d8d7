/* The functions of PyTorch's stable C shim (2.10 and later) that the module uses, declared as PyTorch documents them and looked up in the
   process's PyTorch. Functions that return an int return 0, or print the reason of a failure to stderr. */
#ifndef RVIT_PYTHON_SHIM_H
#define RVIT_PYTHON_SHIM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct shim_tensor shim_tensor;   /* a handle, which its receiver deletes */
typedef struct shim_library shim_library; /* registrations */
typedef uint64_t shim_value;              /* an argument or a result of a kernel */
typedef void shim_kernel(shim_value *stack, uint64_t n_arguments, uint64_t n_results);

#define SHIM_VERSION UINT64_C(0x020a000000000000) /* 2.10 */

#define SHIM_FUNCTIONS(X)                                                                                                           \
    X(void, aoti_torch_check, (bool condition, const char *function, const char *file, uint32_t line, const char *message))         \
    X(int, aoti_torch_library_init_impl, (const char *space, const char *key, const char *file, uint32_t line, shim_library **out)) \
    X(int, torch_library_impl, (shim_library * library, const char *name, shim_kernel *kernel, uint64_t version))                   \
    X(int, aoti_torch_delete_tensor_object, (shim_tensor * tensor))                                                                 \
    X(int, aoti_torch_get_data_ptr, (shim_tensor * tensor, void **out))                                                             \
    X(int, aoti_torch_get_dim, (shim_tensor * tensor, int64_t * out))                                                               \
    X(int, aoti_torch_get_sizes, (shim_tensor * tensor, int64_t * *out))                                                            \
    X(int, aoti_torch_get_strides, (shim_tensor * tensor, int64_t * *out))                                                          \
    X(int, aoti_torch_get_dtype, (shim_tensor * tensor, int32_t * out))                                                             \
    X(int, aoti_torch_get_device_type, (shim_tensor * tensor, int32_t * out))                                                       \
    X(int, aoti_torch_get_device_index, (shim_tensor * tensor, int32_t * out))                                                      \
    X(int, aoti_torch_empty_strided,                                                                                                \
      (int64_t n_dims, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type, int32_t device_index,      \
       shim_tensor **out))                                                                                                          \
    X(int, aoti_torch_zero_, (shim_tensor * tensor))                                                                                \
    X(int32_t, aoti_torch_device_type_cpu, (void))                                                                                  \
    X(int32_t, aoti_torch_device_type_cuda, (void))                                                                                 \
    X(int32_t, aoti_torch_dtype_float32, (void))                                                                                    \
    X(int32_t, aoti_torch_dtype_float16, (void))                                                                                    \
    X(int32_t, aoti_torch_dtype_bfloat16, (void))                                                                                   \
    X(int32_t, aoti_torch_dtype_int32, (void))                                                                                      \
    X(int32_t, aoti_torch_dtype_uint8, (void))                                                                                      \
    X(int32_t, aoti_torch_dtype_bool, (void))                                                                                       \
    X(int32_t, aoti_torch_dtype_int64, (void))                                                                                      \
    X(int32_t, aoti_torch_dtype_float64, (void))

typedef struct shim_table {
#define X(result, name, arguments) result(*name) arguments;
    SHIM_FUNCTIONS(X)
#undef X
    /* In PyTorch's CUDA library; NULL in a build for the CPU. */
    int (*aoti_torch_get_current_cuda_stream)(int32_t device_index, void **out);
    /* Creates a Python object for a tensor, with the GIL. It is not part of the shim but `PyObject *THPVariable_Wrap(const at::TensorBase
       &)`, which every PyTorch extension links, looked up by its C++ name; NULL if not found. A handle is an at::Tensor *. */
    void *(*wrap)(const shim_tensor *tensor);
    /* C++'s operator delete: an optional argument that is present is a pointer to its value, which the kernel deletes. */
    void (*operator_delete)(void *memory);
} shim_table;

#endif
