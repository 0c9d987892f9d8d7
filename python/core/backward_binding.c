/* Python binding of attention's gradient, for PyTorch versions without support for kernels in C. All arguments are positional. */
#include "bindings.h"

static const char *const names[] = {"d_out", "q",           "k",   "v",   "out", "lse",        "cu_seqlens", "key_bias", "cls_probs",
                                    "d_lse", "d_cls_probs", "d_q", "d_k", "d_v", "d_key_bias", "workspace",  "scale",    "max_len"};
enum { N_MADE = 5, SCALE = 16, MAX_LEN, N };

static PyObject *body(PyObject *const *values, core_error *error)
{
    core_reader reader = {0};
    core_backward call;
    core_attention *const forward = &call.forward;
    core_array made[N_MADE];
    core_array *const inputs[] = {&call.d_out,         &forward->q,   &forward->k,          &forward->v,
                                  &forward->out,       &forward->lse, &forward->cu_seqlens, &forward->key_bias,
                                  &forward->cls_probs, &call.d_lse,   &call.d_cls_probs};
    core_array *const outputs[] = {&call.d_q, &call.d_k, &call.d_v, &call.d_key_bias, &call.workspace};
    for (int i = 0; i < SCALE; i++)
        if (core_read(&reader, values[i], names[i], i < SCALE - N_MADE ? inputs[i] : &made[i - (SCALE - N_MADE)], error) < 0)
            return NULL;
    forward->scale = 0.0;
    forward->max_len = -1;
    if (core_read_float(values[SCALE], "scale", &forward->scale, error) < 0 ||
        core_read_int(values[MAX_LEN], "max_len", &forward->max_len, error) < 0 ||
        core_reader_finish(&reader, &forward->q, NULL, error) < 0)
        return NULL;
    forward->where = reader.where;
    if (core_backward_prepare(&call, core_is_present(&made[3]), error) < 0)
        return NULL;
    for (int i = 0; i < N_MADE; i++) {
        if (core_is_present(&made[i]) && (core_check_device(&made[i], &forward->q, error) < 0 || made[i].read_only)) {
            if (made[i].read_only)
                core_fail(error, RVIT_INVALID_ARGUMENT, "%s is read-only", made[i].name);
            return NULL;
        }
        if (core_is_present(outputs[i]) && (!core_is_present(&made[i]) || core_span(&made[i]) < core_span(outputs[i]))) {
            core_fail(error, RVIT_INVALID_ARGUMENT, "%s is too small", outputs[i]->name);
            return NULL;
        }
        outputs[i]->data = made[i].data;
    }
    int failed;
    Py_BEGIN_ALLOW_THREADS failed = core_backward_run(&call, error);
    Py_END_ALLOW_THREADS return failed < 0 ? NULL : Py_NewRef(Py_None);
}

static core_signature signature = {.function = "attention_backward",
                                   .names = names,
                                   .n = N,
                                   .n_positional = N,
                                   .n_required = 2,
                                   .passed_to = CORE_HOOK_ATTENTION,
                                   .body = body};

CORE_DEFINE(strict_attention_backward, signature, CORE_OR_RAISE)

PyObject *core_backward_workspace(PyObject *self, PyObject *arguments)
{
    (void)self;
    long long rows = 0;
    int heads = 0, wants_key_bias = 0, any = 0;
    if (!PyArg_ParseTuple(arguments, "Lip", &rows, &heads, &wants_key_bias))
        return NULL;
    const rvit_attention_backward_args args = {
        .struct_size = sizeof args, .rows = rows, .n_heads = heads, .d_key_bias = {wants_key_bias ? (rvit_buffer *)(void *)&any : NULL, 0}};
    return PyLong_FromLongLong(rv.rvit_attention_backward_workspace(&args));
}
