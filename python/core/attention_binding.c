/* Python binding of raggedvit.attention. */
#include "bindings.h"

static const char *const names[] = {"qkv", "cu_seqlens", "scale", "max_len", "out", "stream", "k", "v", "key_bias", "lse", "cls_probs"};
enum { QKV, CU_SEQLENS, SCALE, MAX_LEN, OUT, STREAM, K, V, KEY_BIAS, LSE, CLS_PROBS, N };

/* True: create an array; False: absent; else an array to write. */
static int read_output(core_reader *reader, PyObject **value, const char *name, core_array *out, core_error *error)
{
    if (*value == Py_False)
        *value = NULL;
    return core_read(reader, *value == Py_True ? NULL : *value, name, out, error);
}

static int read_all(core_reader *reader, PyObject **values, core_attention *call, core_error *error)
{
    call->scale = 0.0;
    call->max_len = -1;
    if (core_read(reader, values[QKV], values[K] == NULL ? "qkv" : "q", &call->q, error) < 0 ||
        core_read(reader, values[K], "k", &call->k, error) < 0 || core_read(reader, values[V], "v", &call->v, error) < 0 ||
        core_read(reader, values[CU_SEQLENS], "cu_seqlens", &call->cu_seqlens, error) < 0 ||
        core_read(reader, values[KEY_BIAS], "key_bias", &call->key_bias, error) < 0 ||
        core_read(reader, values[OUT], "out", &call->out, error) < 0 || read_output(reader, &values[LSE], "lse", &call->lse, error) < 0 ||
        read_output(reader, &values[CLS_PROBS], "cls_probs", &call->cls_probs, error) < 0 ||
        core_read_float(values[SCALE], "scale", &call->scale, error) < 0 ||
        core_read_int(values[MAX_LEN], "max_len", &call->max_len, error) < 0)
        return -1;
    if (values[SCALE] != NULL && (call->scale == 0.0 || call->scale - call->scale != 0.0))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "scale is %g; expected another number, or None for 1 / sqrt(head_dim)", call->scale);
    if (values[MAX_LEN] != NULL && (call->max_len < 0 || call->max_len > INT32_MAX - 1))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "max_len is %lld; expected an integer from 0 to 2147483646",
                         (long long)call->max_len);
    return core_reader_finish(reader, &call->q, values[STREAM], error);
}

static PyObject *make_probs(const core_reader *reader, const core_attention *call, PyObject *value, const char *name, core_array *array,
                            core_error *error)
{
    if (value != Py_True)
        return Py_NewRef(value == NULL ? Py_None : value);
    core_attention_describe_probs(call, name, array);
    return core_new(reader, array, error);
}

static int run(core_attention *call, core_error *error)
{
    if (call->q.device_type != DL_CPU || call->rows == 0 || call->images == 0)
        return core_attention_run(call, error);
    int failed;
    Py_BEGIN_ALLOW_THREADS failed = core_attention_run(call, error);
    Py_END_ALLOW_THREADS return failed;
}

static PyObject *body(PyObject *const *given, core_error *error)
{
    PyObject *values[N];
    for (int i = 0; i < N; i++)
        values[i] = given[i];
    core_reader reader = {0};
    core_attention call;
    if (read_all(&reader, values, &call, error) < 0)
        return NULL;
    call.where = reader.where;
    if (core_attention_prepare(&call, error) < 0)
        return NULL;
    PyObject *out = NULL, *lse = NULL, *cls_probs = NULL, *result = NULL;
    if (values[OUT] != NULL) {
        out = Py_NewRef(values[OUT]);
    } else {
        core_attention_describe_out(&call, &call.out);
        if ((out = core_new(&reader, &call.out, error)) == NULL)
            return NULL;
    }
    if (values[LSE] == NULL && values[CLS_PROBS] == NULL) {
        if (run(&call, error) == 0)
            return out;
        Py_DECREF(out);
        return NULL;
    }
    if ((lse = make_probs(&reader, &call, values[LSE], "lse", &call.lse, error)) != NULL &&
        (cls_probs = make_probs(&reader, &call, values[CLS_PROBS], "cls_probs", &call.cls_probs, error)) != NULL && run(&call, error) == 0)
        result = PyTuple_Pack(3, out, lse, cls_probs);
    Py_DECREF(out);
    Py_XDECREF(lse);
    Py_XDECREF(cls_probs);
    return result;
}

static core_signature signature = {.function = "attention",
                                   .names = names,
                                   .n = N,
                                   .n_positional = STREAM,
                                   .n_required = 2,
                                   .passed_to = CORE_HOOK_ATTENTION,
                                   .body = body};
CORE_DEFINE(bind_attention, signature, CORE_OR_PASS_ON)
CORE_DEFINE(strict_attention, signature, CORE_OR_RAISE)
CORE_DEFINE(try_attention, signature, CORE_OR_NOT)
