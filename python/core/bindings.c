/* Shared by all Python bindings: parsing arguments, raising errors, and calling the package's Python function. */
#include "bindings.h"

#include <string.h>

static PyObject *hooks[CORE_N_HOOKS];

PyObject *core_hook(core_hook_id id)
{
    return hooks[id];
}

PyObject *core_hook_set(PyObject *module, PyObject *arguments)
{
    static const char *const names[] = {
#define X(id, name) name,
        CORE_HOOKS(X)
#undef X
    };
    (void)module;
    const char *name = NULL;
    PyObject *object = NULL;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &object))
        return NULL;
    for (int i = 0; i < CORE_N_HOOKS; i++)
        if (strcmp(name, names[i]) == 0) {
            if (hooks[i] == NULL) /* set once: a call of another thread may be using it */
                hooks[i] = Py_NewRef(object);
            Py_RETURN_NONE;
        }
    PyErr_Format(PyExc_ValueError, "no hook is called %s", name);
    return NULL;
}

PyObject *core_raise(const core_error *error)
{
    PyObject *const raised = PyObject_CallFunction(core_hook(CORE_HOOK_ERROR), "is", (int)error->status, error->text);
    if (raised != NULL)
        PyErr_SetObject(core_hook(CORE_HOOK_ERROR), raised);
    Py_XDECREF(raised);
    return NULL;
}

static int intern_all(core_signature *signature)
{
    for (int i = 0; i < signature->n; i++)
        if (signature->interned[i] == NULL && (signature->interned[i] = PyUnicode_InternFromString(signature->names[i])) == NULL)
            return -1;
    return 0;
}

static int named(const core_signature *signature, PyObject *name)
{
    for (int i = 0; i < signature->n; i++)
        if (signature->interned[i] == name)
            return i;
    for (int i = 0; i < signature->n; i++)
        if (PyUnicode_CompareWithASCIIString(name, signature->names[i]) == 0)
            return i;
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", signature->function, name);
    return -1;
}

int core_parse(core_signature *signature, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords, PyObject **values)
{
    if (signature->interned[signature->n - 1] == NULL && intern_all(signature) < 0)
        return -1;
    if (n > signature->n_positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", signature->function,
                     signature->n_positional, n);
        return -1;
    }
    memset(values, 0, (size_t)signature->n * sizeof *values);
    for (Py_ssize_t i = 0; i < n; i++)
        values[i] = arguments[i];
    const Py_ssize_t n_named = keywords == NULL ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < n_named; i++) {
        const int at = named(signature, PyTuple_GetItem(keywords, i));
        if (at < 0)
            return -1;
        if (values[at] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", signature->function, signature->names[at]);
            return -1;
        }
        values[at] = arguments[n + i];
    }
    for (int i = 0; i < signature->n_required; i++)
        if (values[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", signature->function, signature->names[i]);
            return -1;
        }
    for (int i = 0; i < signature->n; i++)
        values[i] = values[i] == Py_None ? NULL : values[i];
    return 0;
}

static PyObject *leave(const core_signature *signature, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    PyObject *const positional = PyTuple_New(n), *const by_name = PyDict_New();
    PyObject *result = NULL;
    if (positional == NULL || by_name == NULL)
        goto end;
    for (Py_ssize_t i = 0; i < n; i++)
        PyTuple_SetItem(positional, i, Py_NewRef(arguments[i]));
    for (Py_ssize_t i = 0; keywords != NULL && i < PyTuple_Size(keywords); i++)
        if (PyDict_SetItem(by_name, PyTuple_GetItem(keywords, i), arguments[n + i]) < 0)
            goto end;
    result = PyObject_Call(core_hook(signature->passed_to), positional, by_name);
end:
    Py_XDECREF(positional);
    Py_XDECREF(by_name);
    return result;
}

static PyObject *refuse(const core_signature *signature, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords,
                        const core_error *error, core_or_else or_else)
{
    switch (or_else) {
    case CORE_OR_RAISE:
        return core_raise(error);
    case CORE_OR_NOT:
        return Py_NewRef(Py_NotImplemented);
    default:
        return leave(signature, arguments, n, keywords);
    }
}

PyObject *core_call(core_signature *signature, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords, core_or_else or_else)
{
    PyObject *values[CORE_MAX_ARGUMENTS];
    core_error error;
    if (core_parse(signature, arguments, n, keywords, values) < 0)
        return NULL;
    if (rv.rvit_attention == NULL) {
        core_fail(&error, RVIT_UNAVAILABLE, "the library is not open yet");
        return refuse(signature, arguments, n, keywords, &error, or_else);
    }
    for (int i = 0; i < signature->n_required; i++)
        if (values[i] == NULL) {
            core_fail(&error, RVIT_INVALID_ARGUMENT, "%s: None is given; expected an array", signature->names[i]);
            return refuse(signature, arguments, n, keywords, &error, or_else);
        }
    PyObject *const result = signature->body(values, &error);
    if (result != NULL || PyErr_Occurred())
        return result;
    return refuse(signature, arguments, n, keywords, &error, or_else);
}
