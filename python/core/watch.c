/* Compares a patched module with its state when its forward was recorded: see Watch in _modules/watch.py. */
#include "bindings.h"

#include <stdlib.h>
#include <string.h>

/* A tensor's memory, its layout, and PyTorch's count of in-place changes. */
typedef struct mark {
    PyObject *object;
    int64_t version; /* -1: none, as for inference tensors */
    dl_tensor tensor;
    int64_t shape[CORE_MAX_DIMS], strides[CORE_MAX_DIMS];
} mark;

/* All objects are borrowed from tuples that the package keeps alive together with the capsule, visible to the garbage collector. */
typedef struct watch {
    Py_ssize_t n_items, n_types, n_attributes, n_marks;
    PyObject **items, **types, **attributes;
    mark *marks;
} watch;

static const char *const capsule_name = "raggedvit.watch";

static void free_watch(PyObject *capsule)
{
    watch *const w = PyCapsule_GetPointer(capsule, capsule_name);
    free(w->items);
    free(w->types);
    free(w->attributes);
    free(w->marks);
    free(w);
}

static PyObject **borrow(PyObject *tuple, Py_ssize_t *out_n)
{
    *out_n = PyTuple_Size(tuple);
    PyObject **const objects = malloc((size_t)*out_n * sizeof *objects + 1);
    if (objects == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; objects != NULL && i < *out_n; i++)
        objects[i] = PyTuple_GetItem(tuple, i);
    return objects;
}

/* Reads the current state of a tensor. Returns -1, without an exception, for a kind that cannot be read. */
static int look(PyObject *object, PyObject *version_name, dl_tensor *out_tensor, int64_t *out_version)
{
    const dl_exchange *const exchange = core_exchange_of(object);
    if (exchange == NULL || exchange->borrow(object, out_tensor) != 0 || out_tensor->strides == NULL || out_tensor->ndim > CORE_MAX_DIMS) {
        PyErr_Clear();
        return -1;
    }
    PyObject *const version = PyObject_GetAttr(object, version_name);
    *out_version = version == NULL ? -1 : PyLong_AsLongLong(version);
    Py_XDECREF(version);
    if (version == NULL)
        PyErr_Clear();
    return 0;
}

static int make_mark(PyObject *object, PyObject *version_name, mark *out)
{
    out->object = object;
    if (look(object, version_name, &out->tensor, &out->version) < 0) {
        PyErr_SetString(PyExc_TypeError, "a weight is not a plain tensor");
        return -1;
    }
    const size_t size = (size_t)out->tensor.ndim * sizeof(int64_t);
    memcpy(out->shape, out->tensor.shape, size);
    memcpy(out->strides, out->tensor.strides, size);
    return 0;
}

static PyObject *text_version(void)
{
    static PyObject *text;
    if (text == NULL)
        text = PyUnicode_InternFromString("_version");
    return text;
}

PyObject *core_watch(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *items, *types, *attributes, *tensors;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!", &PyTuple_Type, &items, &PyTuple_Type, &types, &PyTuple_Type, &attributes, &PyTuple_Type,
                          &tensors) ||
        text_version() == NULL)
        return NULL;
    watch *const w = calloc(1, sizeof *w);
    PyObject *const capsule = w == NULL ? PyErr_NoMemory() : PyCapsule_New(w, capsule_name, free_watch);
    if (capsule == NULL) {
        free(w);
        return NULL;
    }
    w->items = borrow(items, &w->n_items);
    w->types = borrow(types, &w->n_types);
    w->attributes = borrow(attributes, &w->n_attributes);
    w->n_marks = PyTuple_Size(tensors);
    w->marks = calloc((size_t)w->n_marks + 1, sizeof *w->marks);
    if (w->marks == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; w->marks != NULL && i < w->n_marks; i++)
        if (make_mark(PyTuple_GetItem(tensors, i), text_version(), &w->marks[i]) < 0)
            break;
    if (PyErr_Occurred()) {
        Py_DECREF(capsule);
        return NULL;
    }
    return capsule;
}

/* items: a dict, its keys and values, None; the next dict ... A dict of None means `own`; Ellipsis accepts any value. */
static int same_items(const watch *w, PyObject *own)
{
    PyObject *const *item = w->items, *const *const end = item + w->n_items;
    while (item < end) {
        PyObject *const dict = *item == Py_None ? own : *item, *key, *value;
        Py_ssize_t at = 0;
        for (item++; PyDict_Next(dict, &at, &key, &value); item += 2)
            if (item[0] != key || (item[1] != value && item[1] != Py_Ellipsis))
                return 0;
        if (*item++ != Py_None)
            return 0;
    }
    return 1;
}

static int same_mark(const mark *was, PyObject *version_name)
{
    dl_tensor now;
    int64_t version;
    if (look(was->object, version_name, &now, &version) < 0)
        return 0;
    const dl_tensor *const tensor = &was->tensor;
    const size_t size = (size_t)tensor->ndim * sizeof(int64_t);
    return version == was->version && now.data == tensor->data && now.byte_offset == tensor->byte_offset && now.ndim == tensor->ndim &&
           memcmp(&now.dtype, &tensor->dtype, sizeof now.dtype) == 0 && memcmp(now.shape, was->shape, size) == 0 &&
           memcmp(now.strides, was->strides, size) == 0 && now.device.type == tensor->device.type && now.device.id == tensor->device.id;
}

PyObject *core_unchanged(PyObject *module, PyObject *const *arguments, Py_ssize_t n)
{
    (void)module;
    if (n != 2 || !PyTuple_Check(arguments[0]) || !PyDict_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "expected what watched and a dict");
        return NULL;
    }
    const watch *const w = PyCapsule_GetPointer(PyTuple_GetItem(arguments[0], 0), capsule_name);
    if (w == NULL)
        return NULL;
    int same = same_items(w, arguments[1]);
    for (Py_ssize_t i = 0; same && i < w->n_types; i += 2)
        same = (PyObject *)Py_TYPE(w->types[i]) == w->types[i + 1];
    for (Py_ssize_t i = 0; same && i < w->n_attributes; i += 3) {
        PyObject *const value = PyObject_GetAttr(w->attributes[i], w->attributes[i + 1]);
        same = value == w->attributes[i + 2];
        Py_XDECREF(value);
    }
    PyErr_Clear();
    for (Py_ssize_t i = 0; same && i < w->n_marks; i++)
        same = same_mark(&w->marks[i], text_version());
    return PyBool_FromLong(same);
}
