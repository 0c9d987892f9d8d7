/* The module raggedvit._core. */
#include "bindings.h"

static PyObject *open_library(PyObject *module, PyObject *handle)
{
    (void)module;
    void *const pointer = PyLong_AsVoidPtr(handle);
    core_error error;
    if (pointer == NULL && PyErr_Occurred())
        return NULL;
    if (core_library_open(pointer, &error) < 0)
        return core_raise(&error);
    Py_RETURN_NONE;
}

/* The rvit_stream that this thread used last, as an int; 0: none. For tests and statistics. */
static PyObject *last_stream(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromVoidPtr(core_context_last());
}

#define FAST(name) ((PyCFunction)(void (*)(void))(name)), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"attention", FAST(core_bind_attention),
     PyDoc_STR("attention($module, qkv, cu_seqlens, scale=None, max_len=None, out=None, *, stream=None, k=None,\n"
               "          v=None, key_bias=None, lse=False, cls_probs=False)\n--\n\n"
               "Bidirectional self-attention of every sequence of a ragged batch.\n\n"
               "qkv: [rows, 3, heads, head_dim]; or q, with k and v, each [rows, heads, head_dim]: float32, float16 or\n"
               "bfloat16. cu_seqlens: int32 [n + 1]; sequence i is rows cu_seqlens[i] .. cu_seqlens[i + 1] - 1. scale:\n"
               "factor of the logits; None: 1 / sqrt(head_dim). max_len: upper bound of the lengths; None: the longest, or\n"
               "on CUDA the number of rows. out: [rows, heads, head_dim]; None: a new one, undefined past the last sequence.\n"
               "stream: a CUstream as an int. key_bias: float32 [rows], added to the logits of each key. lse, cls_probs:\n"
               "True, or a float32 [rows, heads] array to write: the logarithm of each softmax's denominator; the softmax\n"
               "row of each sequence's first token. With either the result is (out, lse, cls_probs).\n\n"
               "Takes PyTorch tensors, which get gradients if they require grad, numpy arrays, and CUDA arrays with\n"
               "__cuda_array_interface__ or DLPack. Raises RaggedVitError.")},
    {"pack", FAST(core_bind_pack),
     PyDoc_STR("pack($module, x, src_rows, cu_seqlens=None, out=None, *, stream=None)\n--\n\n"
               "Copies rows of a batch: out[t] = x[src_rows[t]].")},
    {"unpack", FAST(core_bind_unpack),
     PyDoc_STR("unpack($module, x, src_rows, cu_seqlens=None, rows=None, fill=0.0, base=None, out=None, *,\n"
               "       stream=None)\n--\n\n"
               "The inverse of pack: out[src_rows[t]] = x[t]; every other row is copied from base, or is fill.")},
    {"try_attention", FAST(core_try_attention), NULL},
    {"strict_attention", FAST(core_strict_attention), NULL},
    {"try_pack", FAST(core_try_pack), NULL},
    {"strict_pack", FAST(core_strict_pack), NULL},
    {"strict_unpack", FAST(core_strict_unpack), NULL},
    {"try_select", FAST(core_try_select), NULL},
    {"strict_select", FAST(core_strict_select), NULL},
    {"strict_attention_backward", FAST(core_strict_attention_backward), NULL},
    {"backward_workspace", core_backward_workspace, METH_VARARGS, NULL},
    {"open", open_library, METH_O, NULL},
    {"hook", core_hook_set, METH_VARARGS, NULL},
    {"tensor_type", core_add_tensor_type, METH_O, NULL},
    {"forward_state", core_forward_state, METH_VARARGS, NULL},
    {"forward_add", core_forward_add, METH_VARARGS, NULL},
    {"forward_clear", core_forward_clear, METH_O, NULL},
    {"forward", (PyCFunction)(void (*)(void))core_forward, METH_FASTCALL, NULL},
    {"watch", core_watch, METH_VARARGS, NULL},
    {"unchanged", (PyCFunction)(void (*)(void))core_unchanged, METH_FASTCALL, NULL},
    {"stage", core_stage, METH_VARARGS, NULL},
    {"gather", core_gather, METH_VARARGS, NULL},
    {"torch_ops", core_torch_ops, METH_NOARGS, NULL},
    {"take_error", core_take_error, METH_NOARGS, NULL},
    {"last_stream", last_stream, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                 .m_name = "raggedvit._core",
                                 .m_doc = PyDoc_STR("What is hot, in C."),
                                 .m_size = -1,
                                 .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModule_Create(&definition);
}
