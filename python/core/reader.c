/* Reads Python arguments as core_arrays and numbers, and makes new tensors. */
#include "bindings.h"

#include <string.h>

#include <math.h>

/* NumPy's array interface (the C struct of __array_struct__), as its manual documents it. */
typedef struct numpy_interface {
    int two, ndim;
    char kind;
    int size, flags;
    Py_ssize_t *shape, *strides; /* strides: in bytes */
    void *data;
} numpy_interface;
enum { NUMPY_NATIVE = 0x200, NUMPY_WRITEABLE = 0x400 };

enum { MAX_TYPES = 8 };
static struct {
    PyTypeObject *type;
    const dl_exchange *exchange;
} types[MAX_TYPES];
static int n_types;

static PyObject *text_requires_grad, *text_array_struct, *text_exchange, *text_level;

static int intern(PyObject **text, const char *value)
{
    if (*text == NULL)
        *text = PyUnicode_InternFromString(value);
    return *text == NULL ? -1 : 0;
}

PyObject *core_add_tensor_type(PyObject *module, PyObject *type)
{
    (void)module;
    if (intern(&text_requires_grad, "requires_grad") < 0 || intern(&text_exchange, "__dlpack_c_exchange_api__") < 0 ||
        intern(&text_level, "_current_level") < 0)
        return NULL;
    PyObject *const capsule = PyObject_GetAttr(type, text_exchange);
    if (capsule == NULL) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    const dl_exchange_header *header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api"); /* lives as long as the framework */
    PyErr_Clear();
    Py_DECREF(capsule);
    while (header != NULL && header->version.major != 1)
        header = header->previous;
    const dl_exchange *const exchange = (const dl_exchange *)header;
    if (exchange == NULL || exchange->borrow == NULL || exchange->allocate == NULL || exchange->import_object == NULL ||
        exchange->current_stream == NULL)
        Py_RETURN_FALSE;
    for (int i = 0; i < n_types; i++)
        if ((PyObject *)types[i].type == type)
            Py_RETURN_TRUE;
    if (n_types == MAX_TYPES)
        Py_RETURN_FALSE;
    types[n_types].type = (PyTypeObject *)Py_NewRef(type);
    types[n_types++].exchange = exchange;
    (void)core_shim_open();
    Py_RETURN_TRUE;
}

const dl_exchange *core_exchange_of(PyObject *tensor)
{
    for (int i = 0; i < n_types; i++)
        if (types[i].type == Py_TYPE(tensor))
            return types[i].exchange;
    return NULL;
}

static int unfit(core_error *error, const char *name)
{
    return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not a plain tensor of the same kind as the first argument", name);
}

static int read_tensor(core_reader *reader, PyObject *value, const dl_exchange *exchange, core_array *out, core_error *error)
{
    dl_tensor tensor;
    if (exchange->borrow(value, &tensor) != 0) {
        PyErr_Clear();
        return unfit(error, out->name);
    }
    if (tensor.device.type != DL_CPU && tensor.device.type != DL_CUDA && tensor.device.type != DL_CUDA_HOST)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is on a device that is neither a CPU nor CUDA", out->name);
    out->data = (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset;
    out->device_type = tensor.device.type == DL_CUDA ? DL_CUDA : DL_CPU;
    out->device = tensor.device.type == DL_CUDA ? tensor.device.id : 0;
    out->read_only = 0;
    core_array_type(out, tensor.dtype);
    if (core_array_lay(out, tensor.ndim, tensor.shape, tensor.strides, 0, error) < 0)
        return -1;
    reader->exchange = exchange;
    if (out->type > CORE_BF16) /* integers have no gradient */
        return 0;
    reader->floats[reader->n_floats++] = value;
    PyObject *const requires = PyObject_GetAttr(value, text_requires_grad);
    PyObject *const hook = core_hook(CORE_HOOK_IS_NEGATIVE);
    PyObject *const negative = hook == NULL ? NULL : PyObject_CallFunctionObjArgs(hook, value, NULL);
    const int is_plain = negative == Py_False;
    PyErr_Clear();
    reader->needs_grad |= requires != Py_False;
    Py_XDECREF(requires);
    Py_XDECREF(negative);
    return is_plain ? 0 : core_fail(error, RVIT_INVALID_ARGUMENT, "%s is a view that negates its memory: give a clone of it", out->name);
}

static dl_type numpy_type(char kind, int size)
{
    const uint8_t code = kind == 'f' ? DL_FLOAT : kind == 'i' ? DL_INT : kind == 'u' ? DL_UINT : kind == 'b' ? DL_BOOL : 3;
    return (dl_type){code, (uint8_t)(8 * size), 1};
}

static int read_numpy(PyObject *value, core_array *out, core_error *error)
{
    if (intern(&text_array_struct, "__array_struct__") < 0)
        return unfit(error, out->name);
    PyObject *const capsule = PyObject_GetAttr(value, text_array_struct);
    const numpy_interface *const array = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    if (array == NULL || array->two != 2 || !(array->flags & NUMPY_NATIVE) || array->size > 16) {
        PyErr_Clear();
        Py_XDECREF(capsule);
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not a numpy array of native numbers", out->name);
    }
    _Static_assert(sizeof *array->shape == sizeof(int64_t), "a Py_ssize_t of 64 bits");
    core_array_type(out, numpy_type(array->kind, array->size));
    out->data = (uint64_t)(uintptr_t)array->data;
    out->device_type = DL_CPU;
    out->device = 0;
    out->read_only = !(array->flags & NUMPY_WRITEABLE);
    const int failed = core_array_lay(out, array->ndim, (const int64_t *)array->shape, (const int64_t *)array->strides, 1, error);
    Py_DECREF(capsule);
    return failed;
}

/* Reads an integer attribute; None is -1. */
static int64_t attribute(PyObject *value, const char *name, int *wrong)
{
    PyObject *const found = PyObject_GetAttrString(value, name);
    const int64_t number = found == NULL ? 0 : found == Py_None ? -1 : (int64_t)PyLong_AsUnsignedLongLongMask(found);
    *wrong |= PyErr_Occurred() != NULL;
    PyErr_Clear();
    Py_XDECREF(found);
    return number;
}

static int described_type(PyObject *value)
{
    PyObject *const name = PyObject_GetAttrString(value, "dtype");
    int type = CORE_OTHER;
    for (int i = 0; name != NULL && PyUnicode_Check(name) && i < CORE_OTHER; i++)
        if (PyUnicode_CompareWithASCIIString(name, core_type_name(i)) == 0)
            type = i;
    Py_XDECREF(name);
    PyErr_Clear();
    return type;
}

/* Returns the number of entries; -1 if the attribute is not a tuple of int64. */
static int read_sizes(PyObject *value, const char *name, int64_t *out)
{
    PyObject *const sizes = PyObject_GetAttrString(value, name);
    const Py_ssize_t n = sizes == NULL ? -1 : PyTuple_Size(sizes);
    for (Py_ssize_t i = 0; i < n && i < CORE_MAX_DIMS && !PyErr_Occurred(); i++)
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
    Py_XDECREF(sizes);
    const int wrong = PyErr_Occurred() != NULL;
    PyErr_Clear();
    return wrong ? -1 : n > CORE_MAX_DIMS ? CORE_MAX_DIMS + 1 : (int)n;
}

static int read_described(core_reader *reader, PyObject *value, core_array *out, core_error *error)
{
    int64_t shape[CORE_MAX_DIMS], steps[CORE_MAX_DIMS];
    int wrong = 0;
    out->data = (uint64_t)attribute(value, "address", &wrong);
    out->device_type = attribute(value, "host", &wrong) ? DL_CPU : DL_CUDA;
    out->device = (int32_t)attribute(value, "device", &wrong);
    out->read_only = attribute(value, "read_only", &wrong) != 0;
    if (reader->family == CORE_NONE) {
        reader->where.context = (uint64_t)attribute(value, "context", &wrong);
        reader->where.stream = (uint64_t)attribute(value, "stream", &wrong);
    }
    const int type = described_type(value), ndim = read_sizes(value, "shape", shape), n_steps = read_sizes(value, "strides", steps);
    core_array_type(out, type == CORE_OTHER ? (dl_type){0} : core_dl_type(type));
    if (wrong || ndim < 0 || n_steps != ndim)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s cannot be described", out->name);
    return core_array_lay(out, ndim, shape, steps, 0, error);
}

int core_read(core_reader *reader, PyObject *value, const char *name, core_array *out, core_error *error)
{
    if (value == NULL) {
        *out = (core_array){.name = name, .type = CORE_OTHER};
        return 0;
    }
    out->name = name;
    const PyObject *const type = (PyObject *)Py_TYPE(value);
    const dl_exchange *const exchange = core_exchange_of(value);
    core_family family = CORE_NONE;
    int failed = -1;
    if (exchange != NULL) {
        family = CORE_TORCH;
        failed = read_tensor(reader, value, exchange, out, error);
    } else if (type == core_hook(CORE_HOOK_NUMPY_ARRAY)) {
        family = CORE_NUMPY;
        failed = read_numpy(value, out, error);
    } else if (type == core_hook(CORE_HOOK_DESCRIBED)) {
        family = CORE_DESCRIBED;
        failed = read_described(reader, value, out, error);
    }
    if (family == CORE_NONE || (reader->family != CORE_NONE && reader->family != family))
        return unfit(error, name);
    reader->family = family;
    return failed;
}

/* A hook that is not set yet counts as one that returns true. */
static long called(core_hook_id id)
{
    PyObject *const hook = core_hook(id), *const found = hook == NULL ? NULL : PyObject_CallNoArgs(hook);
    const long number = found == NULL ? 1 : PyLong_AsLong(found);
    Py_XDECREF(found);
    PyErr_Clear();
    return number;
}

/* Whether forward-mode differentiation follows a tensor. Tensors are checked only within a level of it. */
static int has_tangent(const core_reader *reader)
{
    PyObject *const module = core_hook(CORE_HOOK_FORWARD_AD), *const level = module == NULL ? NULL : PyObject_GetAttr(module, text_level);
    int found = level == NULL || PyLong_AsLong(level) >= 0;
    Py_XDECREF(level);
    for (int i = 0, within = found; within && i < reader->n_floats && (i == 0 || !found); i++) {
        PyObject *const hook = core_hook(CORE_HOOK_HAS_TANGENT);
        PyObject *const answer = hook == NULL ? NULL : PyObject_CallFunctionObjArgs(hook, reader->floats[i], NULL);
        found = answer != Py_False;
        Py_XDECREF(answer);
    }
    PyErr_Clear();
    return found && reader->n_floats > 0;
}

int core_reader_finish(core_reader *reader, const core_array *first, PyObject *stream, core_error *error)
{
    if (reader->family == CORE_TORCH) {
        if (reader->needs_grad && called(CORE_HOOK_GRAD_ENABLED) != 0)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "a tensor requires grad, which this call cannot give");
        if (called(CORE_HOOK_FUNCTION_MODES) != 0 || called(CORE_HOOK_DISPATCH_MODES) != 0 || called(CORE_HOOK_TRACING) != 0 ||
            has_tangent(reader))
            return core_fail(error, RVIT_INVALID_ARGUMENT, "a mode of PyTorch is active");
    }
    if (stream != NULL) {
        if (first->device_type == DL_CPU)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "a stream is given, but %s is not on a CUDA device", first->name);
        if (!PyLong_CheckExact(stream))
            return core_fail(error, RVIT_INVALID_ARGUMENT, "stream is not an integer");
        reader->where.stream = PyLong_AsUnsignedLongLong(stream);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return core_fail(error, RVIT_INVALID_ARGUMENT, "stream is not a CUstream");
        }
    } else if (reader->family == CORE_TORCH && first->device_type == DL_CUDA) {
        void *current = NULL;
        if (reader->exchange->current_stream(DL_CUDA, first->device, &current) != 0) {
            PyErr_Clear();
            return core_fail(error, RVIT_UNAVAILABLE, "PyTorch gives no current stream for cuda:%d", (int)first->device);
        }
        reader->where.stream = (uint64_t)(uintptr_t)current;
    }
    return 0;
}

static void allocation_failed(void *context, const char *kind, const char *message)
{
    core_fail(context, RVIT_OUT_OF_DEVICE_MEMORY, "PyTorch allocates nothing: %s: %s", kind, message);
}

static PyObject *new_tensor(const core_reader *reader, core_array *array, core_error *error)
{
    dl_tensor prototype = {
        .device = {array->device_type, array->device}, .ndim = array->ndim, .dtype = array->dtype, .shape = array->shape};
    dl_managed *managed = NULL;
    void *object = core_shim_new(array);
    if (object != NULL)
        return object;
    error->text[0] = '\0';
    if (reader->exchange->allocate(&prototype, &managed, error, allocation_failed) != 0 || managed == NULL) {
        if (error->text[0] == '\0')
            core_fail(error, RVIT_OUT_OF_DEVICE_MEMORY, "PyTorch allocates nothing for %s", array->name);
        PyErr_Clear();
        return NULL;
    }
    array->data = (uint64_t)(uintptr_t)managed->tensor.data + managed->tensor.byte_offset;
    if (reader->exchange->import_object(managed, &object) != 0) {
        PyErr_Clear();
        core_fail(error, RVIT_INTERNAL, "PyTorch takes no tensor back");
        return NULL;
    }
    return object;
}

static PyObject *new_numpy(core_array *array, core_error *error)
{
    PyObject *const shape = PyTuple_New(array->ndim);
    for (int i = 0; shape != NULL && i < array->ndim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(array->shape[i]));
    PyObject *const found =
        shape == NULL ? NULL : PyObject_CallFunction(core_hook(CORE_HOOK_NUMPY_EMPTY), "Os", shape, core_type_name(array->type));
    Py_XDECREF(shape);
    const char *const name = array->name;
    core_array made = {.name = name};
    if (found == NULL || read_numpy(found, &made, error) < 0) {
        Py_XDECREF(found);
        PyErr_Clear();
        core_fail(error, RVIT_OUT_OF_HOST_MEMORY, "no memory for %s", name);
        return NULL;
    }
    array->data = made.data;
    return found;
}

PyObject *core_new(const core_reader *reader, core_array *array, core_error *error)
{
    switch (reader->family) {
    case CORE_TORCH:
        return new_tensor(reader, array, error);
    case CORE_NUMPY:
        return new_numpy(array, error);
    default:
        core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not given; the arrays are none of PyTorch, so there is nothing to make one with",
                  array->name);
        return NULL;
    }
}

int core_read_int(PyObject *value, const char *name, int64_t *out, core_error *error)
{
    if (value == NULL)
        return 0;
    if (!PyLong_CheckExact(value) && !PyBool_Check(value))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not an integer", name);
    *out = PyLong_AsLongLong(value);
    if (*out == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not an integer of 64 bits", name);
    }
    return 0;
}

int core_read_float(PyObject *value, const char *name, double *out, core_error *error)
{
    if (value == NULL)
        return 0;
    if (!PyFloat_CheckExact(value))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not a float", name);
    *out = PyFloat_AsDouble(value);
    const float stored = (float)*out;
    if (isnan(*out) || isinf(stored) != isinf(*out) || (stored == 0.0f) != (*out == 0.0))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %g; expected a number in the range of float32", name, *out);
    return 0;
}
