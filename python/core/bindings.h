/* The part of the module that holds the GIL: it reads arguments, creates tensors and calls back into the package. */
#ifndef RVIT_PYTHON_BINDINGS_H
#define RVIT_PYTHON_BINDINGS_H

#include <Python.h>

#include "core.h"

/* Objects that the package passes to the module, such as _core.hook("error", RaggedVitError). */
#define CORE_HOOKS(X)                                                                                      \
    X(ERROR, "error")                   /* RaggedVitError */                                               \
    X(CONTEXT, "context")               /* (CUDA device index) -> PyTorch's CUcontext, as an int */        \
    X(DESCRIBED, "described")           /* the class of described arrays: DeviceArray   */                 \
    X(NUMPY_ARRAY, "numpy_array")       /* numpy.ndarray */                                                \
    X(NUMPY_EMPTY, "numpy_empty")       /* numpy.empty */                                                  \
    X(GRAD_ENABLED, "grad_enabled")     /* torch.is_grad_enabled */                                        \
    X(FUNCTION_MODES, "function_modes") /* () -> how many PyTorch function modes are active */             \
    X(DISPATCH_MODES, "dispatch_modes") /* () -> how many PyTorch dispatch modes are active */             \
    X(TRACING, "tracing")               /* () -> whether torch.jit.trace records */                        \
    X(FORWARD_AD, "forward_ad")         /* the module torch.autograd.forward_ad */                         \
    X(HAS_TANGENT, "has_tangent")       /* (a tensor) -> whether it has a tangent */                       \
    X(IS_NEGATIVE, "is_negative")       /* torch.Tensor.is_neg */                                          \
    X(CAPTURING, "capturing")           /* () -> whether PyTorch's current stream captures a CUDA graph */ \
    X(ATTENTION, "attention")           /* the Python function for calls that C does not handle */         \
    X(PACK, "pack")                                                                                        \
    X(UNPACK, "unpack")
typedef enum core_hook_id {
#define X(id, name) CORE_HOOK_##id,
    CORE_HOOKS(X)
#undef X
        CORE_N_HOOKS
} core_hook_id;
/* A borrowed reference; NULL: not set yet. */
PyObject *core_hook(core_hook_id id);
PyObject *core_hook_set(PyObject *module, PyObject *arguments);

/* Raises RaggedVitError; returns NULL. */
PyObject *core_raise(const core_error *error);

enum { CORE_MAX_ARGUMENTS = 28 };

/* What the tensors of a call have in common. */
typedef enum core_family { CORE_NONE, CORE_TORCH, CORE_NUMPY, CORE_DESCRIBED } core_family;
typedef struct core_reader {
    core_family family;
    const dl_exchange *exchange; /* of CORE_TORCH */
    int needs_grad, n_floats;
    core_where where;
    PyObject *floats[CORE_MAX_ARGUMENTS]; /* tensors of floating point; borrowed */
} core_reader;

/* Describes a tensor; NULL: the argument is absent. Fails, without a Python exception, unless it is a plain tensor of the call's family. */
int core_read(core_reader *reader, PyObject *value, const char *name, core_array *out, core_error *error);
/* After all tensors are read: finds whether autograd or a PyTorch mode must see the call, and the stream if the caller passed none. */
int core_reader_finish(core_reader *reader, const core_array *first, PyObject *stream, core_error *error);
/* Creates a tensor of the family as described, and sets array->data. */
PyObject *core_new(const core_reader *reader, core_array *array, core_error *error);
/* _core.tensor_type(type): whether tensors of this exact type can be read from now on. */
PyObject *core_add_tensor_type(PyObject *module, PyObject *type);
/* NULL: tensors of this exact type cannot be read. */
const dl_exchange *core_exchange_of(PyObject *tensor);

/* Numbers of exact Python types; others fail. Absent (NULL): the value stays. */
int core_read_int(PyObject *value, const char *name, int64_t *out, core_error *error);
int core_read_float(PyObject *value, const char *name, double *out, core_error *error);

/* A Python function: the interned names of its arguments. The first n_positional may be passed by position. */
typedef struct core_signature {
    const char *function;
    const char *const *names;
    int n, n_positional, n_required;
    core_hook_id passed_to;
    PyObject *(*body)(PyObject *const *values, core_error *error);
    PyObject *interned[CORE_MAX_ARGUMENTS];
} core_signature;
/* values [n]: NULL for an argument that is absent or None. */
int core_parse(core_signature *signature, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords, PyObject **values);
/* Computes the call. If it cannot, it calls the package's Python function, raises, or returns NotImplemented. */
typedef enum core_or_else { CORE_OR_PASS_ON, CORE_OR_RAISE, CORE_OR_NOT } core_or_else;
PyObject *core_call(core_signature *signature, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords, core_or_else or_else);

#define CORE_FUNCTION(name) PyObject *core_##name(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
#define CORE_DEFINE(name, signature, or_else)                          \
    CORE_FUNCTION(name)                                                \
    {                                                                  \
        (void)self;                                                    \
        return core_call(&signature, arguments, n, keywords, or_else); \
    }
CORE_FUNCTION(bind_attention);
CORE_FUNCTION(strict_attention);
CORE_FUNCTION(try_attention);
CORE_FUNCTION(strict_attention_backward);
CORE_FUNCTION(bind_pack);
CORE_FUNCTION(strict_pack);
CORE_FUNCTION(try_pack);
CORE_FUNCTION(bind_unpack);
CORE_FUNCTION(strict_unpack);
CORE_FUNCTION(strict_select);
CORE_FUNCTION(try_select);
/* _core.backward_workspace(rows, heads, key_bias_grad): bytes. */
PyObject *core_backward_workspace(PyObject *self, PyObject *arguments);

/* forward_binding.c. _core.forward_state(device, channels, height, width, classes), forward_add(state, owner, locked, stream, n, session,
   images, logits, ran), forward_clear(state), forward(state, images): see Prepared in _session/prepared.py. */
PyObject *core_forward_state(PyObject *module, PyObject *arguments);
PyObject *core_forward_add(PyObject *module, PyObject *arguments);
PyObject *core_forward_clear(PyObject *module, PyObject *state);
PyObject *core_forward(PyObject *module, PyObject *const *arguments, Py_ssize_t n);

/* watch.c. _core.watch(items, types, attributes, tensors) records the state of a patched module; unchanged((watch, ...), own) compares it
   with the current state. See _modules/watch.py. */
PyObject *core_watch(PyObject *module, PyObject *arguments);
PyObject *core_unchanged(PyObject *module, PyObject *const *arguments, Py_ssize_t n);

/* staging.c. _core.stage(stream, staging, images, host, source, size): see Slot in _session/pipeline.py. */
PyObject *core_stage(PyObject *module, PyObject *arguments);
/* The same. _core.gather(pieces, n): see fill in _session/staging.py. */
PyObject *core_gather(PyObject *module, PyObject *arguments);

/* torch_ops.c. _core.torch_ops(): registers the kernels of torch.ops.raggedvit that are in C; False: PyTorch is older than 2.10. */
PyObject *core_torch_ops(PyObject *module, PyObject *unused);
/* Looks up the shim, once. -1: PyTorch is missing or older than 2.10. */
int core_shim_open(void);
/* Creates a tensor as described through the shim. PyTorch allocates it itself, which is faster than DLPack and works with record_stream.
   Returns NULL without an exception if the shim cannot create it. */
PyObject *core_shim_new(core_array *array);
/* _core.take_error(): the status and message of a kernel in C that failed in this thread since the last call; None if none failed. */
PyObject *core_take_error(PyObject *module, PyObject *unused);

#endif
