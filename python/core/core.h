/* Shared by the files of the module raggedvit._core.

   The module binds the same calls of the C library twice: as functions for Python (*_binding.c) and as kernels for PyTorch's dispatcher
   (torch_ops.c), which run without the GIL. Both describe their tensors as core_arrays. Nothing in this header needs the GIL, except where
   a comment says so. */
#ifndef RVIT_PYTHON_CORE_H
#define RVIT_PYTHON_CORE_H

#include <stddef.h>
#include <stdint.h>

#include <raggedvit/cuda.h>
#include <raggedvit/prune.h>
#include <raggedvit/ops.h>
#include <raggedvit/session.h>

#include "dlpack.h"

/* A failure: a message and its rvit_status. */
typedef struct core_error {
    rvit_status status;
    char text[600];
} core_error;

/* Returns -1. */
int core_fail(core_error *error, rvit_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Returns 0, or -1 with the message of a failed call of the library. */
int core_checked(core_error *error, rvit_status status);

/* The library's functions, looked up in the file that the package has opened, so that the process loads one copy of the library. Linking
   the module to it would load a second copy if RAGGEDVIT_LIBRARY names another file. */
#define CORE_FUNCTIONS(X)                \
    X(rvit_status_detail)                \
    X(rvit_device_create)                \
    X(rvit_stream_create)                \
    X(rvit_stream_synchronize)           \
    X(rvit_buffer_wrap)                  \
    X(rvit_buffer_set)                   \
    X(rvit_stream_wrap)                  \
    X(rvit_stream_set)                   \
    X(rvit_cuda_device_create)           \
    X(rvit_cuda_stream_set_workspace)    \
    X(rvit_cuda_workspace_size)          \
    X(rvit_cu_seqlens_check)             \
    X(rvit_attention)                    \
    X(rvit_attention_backward)           \
    X(rvit_attention_backward_workspace) \
    X(rvit_select)                       \
    X(rvit_pack)                         \
    X(rvit_unpack)                       \
    X(rvit_session_enqueue)              \
    X(rvit_copy)
typedef struct core_library {
#define X(name) __typeof__(&name) name;
    CORE_FUNCTIONS(X)
#undef X
} core_library;
extern core_library rv;
/* handle: of ctypes. */
int core_library_open(void *handle, core_error *error);

typedef enum core_type {
    CORE_F32 = RVIT_F32,
    CORE_F16 = RVIT_F16,
    CORE_BF16 = RVIT_BF16,
    CORE_I32,
    CORE_U8,
    CORE_BOOL,
    CORE_OTHER
} core_type;
const char *core_type_name(int type);
int core_type_size(int type);

enum { CORE_MAX_DIMS = 8 };

/* A caller's tensor. name: the argument. */
typedef struct core_array {
    const char *name;
    uint64_t data;
    int32_t device_type; /* DL_CPU or DL_CUDA; 0: the argument is absent */
    int32_t device;      /* -1: not known */
    int32_t ndim;
    int32_t type; /* core_type */
    dl_type dtype;
    int32_t read_only;
    int64_t shape[CORE_MAX_DIMS], step[CORE_MAX_DIMS]; /* step: in elements */
} core_array;

static inline int core_is_present(const core_array *array)
{
    return array->device_type != 0;
}

/* "float32 [3, 4]", for error messages. */
const char *core_shown(const core_array *array, char text[160]);
/* Sets type and dtype. */
void core_array_type(core_array *array, dl_type dtype);
dl_type core_dl_type(int type);
/* Sets ndim, shape and step of an array with name, type and data already set, and checks all of them. Every reader of a foreign struct
   calls this. An accepted array is in memory, at a multiple of its element size, and sums and products of its numbers do not overflow.
   steps NULL: contiguous. */
int core_array_lay(core_array *array, int64_t ndim, const int64_t *shape, const int64_t *steps, int in_bytes, core_error *error);
/* Describes a new contiguous array without memory, on the device of `like`. */
void core_describe(core_array *out, const char *name, const core_array *like, int type, int32_t ndim, const int64_t *shape);

/* Checks of arrays, each with its error message. core_check_device and core_check_floats accept an absent array. */
int core_check_device(const core_array *array, const core_array *first, core_error *error);
/* int32 [n], contiguous. */
int core_check_ints(const core_array *array, const char *expected, core_error *error);
/* f32 [n] or [n, m], contiguous. m 0: one dimension. */
int core_check_floats(const core_array *array, int64_t n, int64_t m, core_error *error);
/* Returns the number of elements of a row; -1 if the dimensions from `from` on are not contiguous. */
int64_t core_row_width(const core_array *array, int from);
/* Checks that the step from row to row is at least `width`; with a single row any step is accepted. */
int core_row_step(const core_array *array, int64_t width, int64_t *out_step, core_error *error);
/* Bytes from the first element to the last one. */
int64_t core_span(const core_array *array);
/* Checks cu_seqlens in host memory; a max_len below 0 becomes the longest length. */
int core_check_lengths(const core_array *cu_seqlens, int64_t *max_len, int64_t rows, core_error *error);

/* context.c. A thread's execution context on a device: a stream, and a wrapped buffer for each argument, which each call points at its
   arrays. Later threads reuse the contexts of threads that ended; nothing is destroyed while the process runs. */
enum { CORE_SLOTS = 16 };
typedef struct core_context {
    int32_t device_type;
    uint64_t context; /* CUDA: the CUcontext */
    rvit_stream *stream;
    uint64_t cu_stream;
    int32_t dirty; /* the stream's own working memory was used since the last wait for the stream */
    rvit_device *device;
    rvit_buffer *buffers[CORE_SLOTS];
    struct {
        uint64_t address;
        int64_t length;
    } points[CORE_SLOTS]; /* where each buffer points */
    struct core_context *next;
} core_context;

/* The CUDA context and stream of a call. context 0: PyTorch's context of the arrays' device. */
typedef struct core_where {
    uint64_t context, stream;
} core_where;

core_context *core_context_get(const core_array *first, const core_where *where, core_error *error);
/* Points the context's buffer number `slot` at an array of `size` bytes. An array of no bytes gets the memory of slot 0, so set that slot
   first. An absent array leaves the view unchanged. */
int core_view(core_context *ctx, int slot, const core_array *array, int64_t size, rvit_view *out_view, core_error *error);
/* Sets the caller's working memory for one call of select. size 0: the stream's own. */
int core_context_workspace(core_context *ctx, uint64_t address, int64_t size, core_error *error);
/* The stream of the context that this thread used last, or NULL. */
rvit_stream *core_context_last(void);
/* Gets the CUcontext of PyTorch's device `index` by a Python call; takes the GIL. */
int core_torch_context(int32_t index, uint64_t *out_context, core_error *error);

/* attention.c. */
typedef struct core_attention {
    core_array q, k, v; /* k absent: q is a packed qkv */
    core_array cu_seqlens, key_bias, out, lse, cls_probs;
    double scale;    /* 0: the default */
    int64_t max_len; /* below 0: not set */
    core_where where;
    /* set by prepare */
    int64_t rows, heads, head_dim, images;
} core_attention;

/* Checks the inputs. */
int core_attention_prepare(core_attention *call, core_error *error);
/* Describes out (with rows, heads, head_dim), lse and cls_probs as new arrays without memory. */
void core_attention_describe_out(const core_attention *call, core_array *out);
void core_attention_describe_probs(const core_attention *call, const char *name, core_array *probs);
/* Checks the outputs and enqueues. */
int core_attention_run(core_attention *call, core_error *error);
/* Fills in the library's args for a call with outputs set. They use the context's first buffers. */
enum { CORE_ATTENTION_SLOTS = 8 };
int core_attention_args(core_attention *call, core_context *ctx, rvit_attention_args *args, core_error *error);

/* attention_backward.c. The gradient of a call of attention: forward holds its inputs and outputs. */
typedef struct core_backward {
    core_attention forward;
    core_array d_out, d_lse, d_cls_probs;
    core_array d_q, d_k, d_v; /* d_k absent: d_q is that of a packed qkv */
    core_array d_key_bias, workspace;
} core_backward;

/* Checks all inputs and describes the outputs: d_q, d_k, d_v, workspace, and d_key_bias if requested. */
int core_backward_prepare(core_backward *call, int wants_key_bias, core_error *error);
/* Enqueues. The outputs have memory. */
int core_backward_run(core_backward *call, core_error *error);

#endif
