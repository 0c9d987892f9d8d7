/* Kernels of torch.ops.raggedvit in C, registered through PyTorch's stable shim. The dispatcher calls them without the GIL.
   The file is compiled with -fexceptions, because C++ exceptions pass through it. _torch/operators.py has the schemas. */
#include <string.h>

#include "core/base/os_module.h"

#include "bindings.h"
#include "shim.h"

static shim_table shim;
static struct {
    int32_t cpu, cuda, types[CORE_OTHER];
} numbers; /* PyTorch's */

/* A kernel's call: the handles that it deletes at its end, such as those of its arguments. */
typedef struct kernel_call {
    shim_tensor *owned[16];
    int n_owned;
    core_error error;
} kernel_call;

/* The error of the last failed kernel of this thread, for the exception in Python (core_take_error). */
static __thread core_error last_error;

static int look_up(void);

static int dtype_of(int32_t number)
{
    for (int i = 0; i < CORE_OTHER; i++)
        if (numbers.types[i] == number)
            return i;
    return CORE_OTHER;
}

/* Name of an unsupported type, for error messages. */
static dl_type other_type(int32_t number)
{
    if (number == shim.aoti_torch_dtype_int64())
        return (dl_type){DL_INT, 64, 1};
    if (number == shim.aoti_torch_dtype_float64())
        return (dl_type){DL_FLOAT, 64, 1};
    return (dl_type){0};
}

static int describe(shim_tensor *tensor, core_array *out, core_error *error)
{
    int64_t dims = 0, *sizes = NULL, *steps = NULL;
    int32_t dtype = 0, type = 0, index = 0;
    void *data = NULL;
    if (shim.aoti_torch_get_dim(tensor, &dims) != 0 || shim.aoti_torch_get_sizes(tensor, &sizes) != 0 ||
        shim.aoti_torch_get_strides(tensor, &steps) != 0 || shim.aoti_torch_get_dtype(tensor, &dtype) != 0 ||
        shim.aoti_torch_get_device_type(tensor, &type) != 0 || shim.aoti_torch_get_device_index(tensor, &index) != 0 ||
        shim.aoti_torch_get_data_ptr(tensor, &data) != 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s cannot be read: it has no memory", out->name);
    if (type != numbers.cpu && type != numbers.cuda)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is on a device that is neither a CPU nor CUDA", out->name);
    out->data = (uint64_t)(uintptr_t)data;
    out->device_type = type == numbers.cpu ? DL_CPU : DL_CUDA;
    out->device = type == numbers.cpu ? 0 : index;
    out->read_only = 0;
    out->type = dtype_of(dtype);
    out->dtype = out->type == CORE_OTHER ? other_type(dtype) : core_dl_type(out->type);
    return core_array_lay(out, dims, sizes, steps, 0, error);
}

static int read_tensor(kernel_call *call, shim_value value, const char *name, core_array *out)
{
    shim_tensor *const tensor = (shim_tensor *)(uintptr_t)value;
    call->owned[call->n_owned++] = tensor;
    out->name = name;
    return describe(tensor, out, &call->error);
}

/* The value of an optional argument; 0: None. */
static int take(shim_value argument, shim_value *out)
{
    shim_value *const cell = (shim_value *)(uintptr_t)argument;
    if (cell == NULL)
        return 0;
    *out = *cell;
    shim.operator_delete(cell);
    return 1;
}

static int read_maybe(kernel_call *call, shim_value argument, const char *name, core_array *out)
{
    shim_value value;
    out->device_type = 0;
    return take(argument, &value) ? read_tensor(call, value, name, out) : 0;
}

static void read_scale(shim_value argument, core_attention *out, int *wrong)
{
    shim_value value;
    out->scale = 0.0;
    if (take(argument, &value)) {
        memcpy(&out->scale, &value, sizeof out->scale);
        const float stored = (float)out->scale;
        *wrong = stored == 0.0f || stored - stored != 0.0f;
    }
}

/* Reads both optional numbers even after an error, because reading frees their memory. */
static int read_numbers(kernel_call *call, shim_value scale, shim_value max_len, core_attention *out)
{
    shim_value value;
    int wrong = 0;
    out->max_len = -1;
    read_scale(scale, out, &wrong);
    const int has_max_len = take(max_len, &value);
    if (has_max_len)
        out->max_len = (int64_t)value;
    if (wrong)
        return core_fail(&call->error, RVIT_INVALID_ARGUMENT, "scale is %g; expected another number, or None for 1 / sqrt(head_dim)",
                         out->scale);
    if (has_max_len && (out->max_len < 0 || out->max_len > INT32_MAX - 1))
        return core_fail(&call->error, RVIT_INVALID_ARGUMENT, "max_len is %lld; expected an integer from 0 to 2147483646",
                         (long long)out->max_len);
    return 0;
}

static int find_stream(kernel_call *call, core_attention *forward)
{
    void *stream = NULL;
    forward->where = (core_where){0, 0};
    if (forward->q.device_type == DL_CPU)
        return 0;
    if (shim.aoti_torch_get_current_cuda_stream == NULL || shim.aoti_torch_get_current_cuda_stream(forward->q.device, &stream) != 0)
        return core_fail(&call->error, RVIT_UNAVAILABLE, "PyTorch gives no current stream for cuda:%d", (int)forward->q.device);
    forward->where.stream = (uint64_t)(uintptr_t)stream;
    return 0;
}

/* Returns 0, or PyTorch's error code. */
static int make_empty(const core_array *array, shim_tensor **out)
{
    return shim.aoti_torch_empty_strided(array->ndim, array->shape, array->step, numbers.types[array->type],
                                         array->device_type == DL_CPU ? numbers.cpu : numbers.cuda, array->device, out);
}

/* Creates a tensor as described and returns its handle. zero: fills it with zeros. */
static shim_tensor *make(kernel_call *call, core_array *array, int zero)
{
    shim_tensor *tensor = NULL;
    void *data = NULL;
    if (make_empty(array, &tensor) != 0) {
        core_fail(&call->error, RVIT_OUT_OF_DEVICE_MEMORY, "PyTorch allocates nothing for %s", array->name);
        return NULL;
    }
    if ((zero && shim.aoti_torch_zero_(tensor) != 0) || shim.aoti_torch_get_data_ptr(tensor, &data) != 0) {
        (void)shim.aoti_torch_delete_tensor_object(tensor);
        core_fail(&call->error, RVIT_INTERNAL, "PyTorch cannot zero %s", array->name);
        return NULL;
    }
    array->data = (uint64_t)(uintptr_t)data;
    return tensor;
}

/* Whether there may be rows past the last image. Only on the CPU can the host read this. */
static int has_padding_rows(const core_attention *forward)
{
    if (forward->q.device_type != DL_CPU)
        return 1;
    return ((const int32_t *)(uintptr_t)forward->cu_seqlens.data)[forward->images] < forward->rows;
}

/* Deletes the call's handles. Throws if the call failed, after it has deleted its results. */
static void finish(kernel_call *call, int failed, shim_value *stack, shim_tensor *const *results, int n_results)
{
    for (int i = 0; i < call->n_owned; i++)
        (void)shim.aoti_torch_delete_tensor_object(call->owned[i]);
    for (int i = 0; i < n_results; i++) {
        if (!failed)
            stack[i] = (shim_value)(uintptr_t)results[i];
        else if (results[i] != NULL)
            (void)shim.aoti_torch_delete_tensor_object(results[i]);
    }
    if (failed) {
        last_error = call->error;
        shim.aoti_torch_check(false, "raggedvit", "torch_ops.c", 0, last_error.text);
    }
}

/* Marks optional arrays as absent. */
static void no_extras(core_attention *forward)
{
    forward->k.device_type = forward->v.device_type = forward->key_bias.device_type = 0;
    forward->lse.device_type = forward->cls_probs.device_type = 0;
}

/* _attention(Tensor qkv, Tensor cu_seqlens, float? scale, SymInt? max_len) -> Tensor */
static void attention_kernel(shim_value *stack, uint64_t n_arguments, uint64_t n_results)
{
    (void)n_arguments, (void)n_results;
    kernel_call call;
    core_attention forward;
    shim_tensor *out = NULL;
    call.n_owned = 0;
    no_extras(&forward);
    int failed = read_tensor(&call, stack[0], "qkv", &forward.q) < 0;
    failed |= read_tensor(&call, stack[1], "cu_seqlens", &forward.cu_seqlens) < 0;
    failed |= read_numbers(&call, stack[2], stack[3], &forward) < 0;
    failed = failed || find_stream(&call, &forward) < 0 || core_attention_prepare(&forward, &call.error) < 0;
    if (!failed) {
        core_attention_describe_out(&forward, &forward.out);
        out = make(&call, &forward.out, 0);
        failed = out == NULL || core_attention_run(&forward, &call.error) < 0;
    }
    finish(&call, failed, stack, &out, 1);
}

/* Creates a result; an absent one has no elements. */
static shim_tensor *make_result(kernel_call *call, const core_attention *forward, core_array *array, const char *name, int type, int zero)
{
    core_array none;
    if (core_is_present(array))
        return make(call, array, zero);
    core_describe(&none, name, &forward->q, type, 1, (const int64_t[]){0});
    return make(call, &none, 0);
}

static shim_tensor *make_probs(kernel_call *call, const core_attention *forward, const char *name, int wanted, int zero, core_array *out)
{
    core_attention_describe_probs(forward, name, out);
    if (!wanted)
        out->device_type = 0;
    return make_result(call, forward, out, name, CORE_F32, zero);
}

/* _attention_forward(Tensor q, Tensor? k, Tensor? v, Tensor cu_seqlens, Tensor? key_bias, float? scale, SymInt? max_len, bool cls_probs,
   bool zero) -> (Tensor out, Tensor lse, Tensor cls_probs) */
static void forward_kernel(shim_value *stack, uint64_t n_arguments, uint64_t n_results)
{
    (void)n_arguments, (void)n_results;
    kernel_call call;
    core_attention forward;
    shim_tensor *results[3] = {NULL, NULL, NULL};
    const int wants_cls = (stack[7] & 1) != 0, wants_zero = (stack[8] & 1) != 0;
    call.n_owned = 0;
    no_extras(&forward);
    int failed = read_tensor(&call, stack[0], stack[1] == 0 ? "qkv" : "q", &forward.q) < 0;
    failed |= read_maybe(&call, stack[1], "k", &forward.k) < 0;
    failed |= read_maybe(&call, stack[2], "v", &forward.v) < 0;
    failed |= read_tensor(&call, stack[3], "cu_seqlens", &forward.cu_seqlens) < 0;
    failed |= read_maybe(&call, stack[4], "key_bias", &forward.key_bias) < 0;
    failed |= read_numbers(&call, stack[5], stack[6], &forward) < 0;
    failed = failed || find_stream(&call, &forward) < 0 || core_attention_prepare(&forward, &call.error) < 0;
    if (!failed) {
        const int zero = wants_zero && has_padding_rows(&forward);
        core_attention_describe_out(&forward, &forward.out);
        failed = (results[0] = make(&call, &forward.out, zero)) == NULL ||
                 (results[1] = make_probs(&call, &forward, "lse", 1, zero, &forward.lse)) == NULL ||
                 (results[2] = make_probs(&call, &forward, "cls_probs", wants_cls, zero, &forward.cls_probs)) == NULL ||
                 core_attention_run(&forward, &call.error) < 0;
    }
    finish(&call, failed, stack, results, 3);
}

/* _attention_backward(Tensor d_out, Tensor q, Tensor? k, Tensor? v, Tensor out, Tensor lse, Tensor cu_seqlens, Tensor? key_bias, Tensor?
   cls_probs, Tensor? d_lse, Tensor? d_cls_probs, float? scale, SymInt? max_len, bool key_bias_grad) -> (Tensor d_q, Tensor d_k, Tensor d_v,
   Tensor d_key_bias) */
static void backward_kernel(shim_value *stack, uint64_t n_arguments, uint64_t n_results)
{
    (void)n_arguments, (void)n_results;
    kernel_call call;
    core_backward b;
    core_attention *const forward = &b.forward;
    shim_tensor *results[4] = {NULL, NULL, NULL, NULL}, *workspace = NULL;
    const int wants_bias = (stack[13] & 1) != 0;
    call.n_owned = 0;
    int failed = read_tensor(&call, stack[0], "d_out", &b.d_out) < 0;
    failed |= read_tensor(&call, stack[1], stack[2] == 0 ? "qkv" : "q", &forward->q) < 0;
    failed |= read_maybe(&call, stack[2], "k", &forward->k) < 0;
    failed |= read_maybe(&call, stack[3], "v", &forward->v) < 0;
    failed |= read_tensor(&call, stack[4], "out", &forward->out) < 0;
    failed |= read_tensor(&call, stack[5], "lse", &forward->lse) < 0;
    failed |= read_tensor(&call, stack[6], "cu_seqlens", &forward->cu_seqlens) < 0;
    failed |= read_maybe(&call, stack[7], "key_bias", &forward->key_bias) < 0;
    failed |= read_maybe(&call, stack[8], "cls_probs", &forward->cls_probs) < 0;
    failed |= read_maybe(&call, stack[9], "d_lse", &b.d_lse) < 0;
    failed |= read_maybe(&call, stack[10], "d_cls_probs", &b.d_cls_probs) < 0;
    failed |= read_numbers(&call, stack[11], stack[12], forward) < 0;
    failed = failed || find_stream(&call, forward) < 0 || core_backward_prepare(&b, wants_bias, &call.error) < 0;
    if (!failed) {
        const int zero = forward->images == 0 || has_padding_rows(forward);
        failed = (results[0] = make_result(&call, forward, &b.d_q, "d_q", forward->q.type, zero)) == NULL ||
                 (results[1] = make_result(&call, forward, &b.d_k, "d_k", forward->q.type, zero)) == NULL ||
                 (results[2] = make_result(&call, forward, &b.d_v, "d_v", forward->q.type, zero)) == NULL ||
                 (results[3] = make_result(&call, forward, &b.d_key_bias, "d_key_bias", CORE_F32, zero)) == NULL ||
                 (workspace = make(&call, &b.workspace, 0)) == NULL || core_backward_run(&b, &call.error) < 0;
        if (workspace != NULL) /* later work of the same stream may reuse it */
            call.owned[call.n_owned++] = workspace;
    }
    finish(&call, failed, stack, results, 4);
}

int core_shim_open(void)
{
    static int tried, failed;
    if (!tried) {
        tried = 1;
        failed = look_up();
    }
    return failed;
}

PyObject *core_shim_new(core_array *array)
{
    shim_tensor *tensor = NULL;
    void *data = NULL, *object = NULL;
    if (shim.wrap == NULL || make_empty(array, &tensor) != 0)
        return NULL;
    if (shim.aoti_torch_get_data_ptr(tensor, &data) == 0)
        object = shim.wrap(tensor);
    (void)shim.aoti_torch_delete_tensor_object(tensor);
    array->data = (uint64_t)(uintptr_t)data;
    PyErr_Clear();
    return object;
}

/* CMake sets the prefix and the suffix of shared libraries. */
#define TORCH_LIBRARY(name) CORE_LIBRARY_PREFIX "torch_" name CORE_LIBRARY_SUFFIX

static int look_up(void)
{
    void *const cpu = rvit_library_loaded(TORCH_LIBRARY("cpu")), *const cuda = rvit_library_loaded(TORCH_LIBRARY("cuda"));
    shim_table found;
    if (cpu == NULL)
        return -1;
#define LOOK_UP(from, field, name)                            \
    {                                                         \
        void *const symbol = rvit_library_symbol(from, name); \
        memcpy(&found.field, &symbol, sizeof symbol);         \
    }
#define X(result, name, arguments) \
    LOOK_UP(cpu, name, #name)      \
    if (found.name == NULL)        \
        return -1;
    SHIM_FUNCTIONS(X)
#undef X
    found.aoti_torch_get_current_cuda_stream = NULL;
    if (cuda != NULL)
        LOOK_UP(cuda, aoti_torch_get_current_cuda_stream, "aoti_torch_get_current_cuda_stream")
    void *const python = rvit_library_loaded(TORCH_LIBRARY("python"));
    found.wrap = NULL;
    if (python != NULL)
        LOOK_UP(python, wrap, "_Z16THPVariable_WrapRKN2at10TensorBaseE")
    LOOK_UP(cpu, operator_delete, "_ZdlPv") /* PyTorch's own C++ library has it */
    if (found.operator_delete == NULL)
        return -1;
    shim = found;
    numbers.cpu = shim.aoti_torch_device_type_cpu();
    numbers.cuda = shim.aoti_torch_device_type_cuda();
    numbers.types[CORE_F32] = shim.aoti_torch_dtype_float32();
    numbers.types[CORE_F16] = shim.aoti_torch_dtype_float16();
    numbers.types[CORE_BF16] = shim.aoti_torch_dtype_bfloat16();
    numbers.types[CORE_I32] = shim.aoti_torch_dtype_int32();
    numbers.types[CORE_U8] = shim.aoti_torch_dtype_uint8();
    numbers.types[CORE_BOOL] = shim.aoti_torch_dtype_bool();
    return 0;
}

PyObject *core_torch_ops(PyObject *module, PyObject *unused)
{
    static const struct {
        const char *name;
        shim_kernel *kernel;
    } kernels[] = {{"_attention", attention_kernel}, {"_attention_forward", forward_kernel}, {"_attention_backward", backward_kernel}};
    static const char *const keys[] = {"CPU", "CUDA"};
    (void)module, (void)unused;
    if (core_shim_open() < 0)
        Py_RETURN_FALSE;
    for (int i = 0; i < 2; i++) {
        shim_library *library = NULL; /* never deleted */
        if (shim.aoti_torch_library_init_impl("raggedvit", keys[i], "torch_ops.c", 0, &library) != 0)
            Py_RETURN_FALSE;
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
            if (shim.torch_library_impl(library, kernels[k].name, kernels[k].kernel, SHIM_VERSION) != 0)
                Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

PyObject *core_take_error(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (last_error.status == RVIT_OK)
        Py_RETURN_NONE;
    PyObject *const found = Py_BuildValue("is", (int)last_error.status, last_error.text);
    last_error.status = RVIT_OK;
    return found;
}
