/* Execution contexts: the streams and wrapped buffers of each thread. */
#include <Python.h>

#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/os_module.h"

#include "core.h"
#include "bindings.h"

static __thread core_context *contexts; /* of this thread; the most recently used one first */
static rvit_thread_value ending;        /* its function returns the contexts of a thread that ends */
static rvit_mutex lock;
static core_context *unused; /* returned by threads that have ended */
static struct {
    int32_t type;
    uint64_t context;
    rvit_device *device;
} devices[64];
static int n_devices;
static _Atomic uint64_t torch_contexts[64];

static void give_back(void *first)
{
    core_context *last = first;
    while (last->next != NULL)
        last = last->next;
    rvit_mutex_lock(&lock);
    last->next = unused;
    unused = first;
    rvit_mutex_unlock(&lock);
}

static rvit_once once = RVIT_ONCE_INIT;
static int no_key;

/* Runs in a forked child, because another thread of the parent may have held the lock. */
static void forked(void)
{
    rvit_mutex_init(&lock);
}

static void make_key(void)
{
    rvit_mutex_init(&lock);
    no_key = rvit_thread_value_create(&ending, give_back);
    rvit_fork_watch(forked);
}

int core_torch_context(int32_t index, uint64_t *out_context, core_error *error)
{
    if (index < 0 || index >= 64)
        return core_fail(error, RVIT_UNSUPPORTED, "CUDA device %d: only 0..63 are supported", (int)index);
    *out_context = atomic_load_explicit(&torch_contexts[index], memory_order_relaxed);
    if (*out_context != 0)
        return 0;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *const found =
        core_hook(CORE_HOOK_CONTEXT) == NULL ? NULL : PyObject_CallFunction(core_hook(CORE_HOOK_CONTEXT), "i", (int)index);
    *out_context = found == NULL ? 0 : PyLong_AsUnsignedLongLong(found);
    Py_XDECREF(found);
    const int failed = PyErr_Occurred() != NULL || *out_context == 0;
    PyErr_Clear();
    PyGILState_Release(state);
    if (failed)
        return core_fail(error, RVIT_UNAVAILABLE, "PyTorch gives no CUDA context for cuda:%d", (int)index);
    atomic_store(&torch_contexts[index], *out_context);
    return 0;
}

/* The caller holds the lock. */
static int device_of(int32_t type, uint64_t context, rvit_device **out_device, core_error *error)
{
    for (int i = 0; i < n_devices; i++)
        if (devices[i].type == type && devices[i].context == context) {
            *out_device = devices[i].device;
            return 0;
        }
    if (n_devices == 64)
        return core_fail(error, RVIT_UNSUPPORTED, "more than 64 devices are in use");
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    const rvit_status status = type == DL_CPU ? rv.rvit_device_create(&desc, out_device)
                                              : rv.rvit_cuda_device_create((void *)(uintptr_t)context, NULL, out_device);
    if (core_checked(error, status) < 0)
        return -1;
    devices[n_devices].type = type;
    devices[n_devices].context = context;
    devices[n_devices++].device = *out_device;
    return 0;
}

static core_context *take_unused(int32_t type, uint64_t context)
{
    for (core_context **at = &unused; *at != NULL; at = &(*at)->next)
        if ((*at)->device_type == type && (*at)->context == context) {
            core_context *const found = *at;
            *at = found->next;
            return found;
        }
    return NULL;
}

/* The caller holds the lock. */
static core_context *make(int32_t type, uint64_t context, uint64_t stream, core_error *error)
{
    core_context *ctx = take_unused(type, context);
    if (ctx != NULL)
        return ctx;
    rvit_device *device = NULL;
    if (device_of(type, context, &device, error) < 0)
        return NULL;
    ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL) {
        core_fail(error, RVIT_OUT_OF_HOST_MEMORY, "no memory for a stream's record");
        return NULL;
    }
    const rvit_status status =
        type == DL_CPU ? rv.rvit_stream_create(device, &ctx->stream) : rv.rvit_stream_wrap(device, (void *)(uintptr_t)stream, &ctx->stream);
    if (core_checked(error, status) < 0) {
        free(ctx);
        return NULL;
    }
    ctx->device_type = type;
    ctx->context = context;
    ctx->cu_stream = stream;
    ctx->device = device;
    return ctx;
}

/* Finds or creates the context of this thread and moves it to the head of the list. */
static core_context *find(int32_t type, uint64_t context, uint64_t stream, core_error *error)
{
    core_context **at = &contexts;
    while (*at != NULL && ((*at)->device_type != type || (*at)->context != context))
        at = &(*at)->next;
    core_context *ctx = *at;
    if (ctx != NULL) {
        *at = ctx->next;
    } else {
        rvit_once_run(&once, make_key);
        rvit_mutex_lock(&lock);
        ctx = make(type, context, stream, error);
        rvit_mutex_unlock(&lock);
        if (ctx == NULL)
            return NULL;
    }
    ctx->next = contexts;
    contexts = ctx;
    if (no_key == 0)
        rvit_thread_value_set(ending, contexts);
    return ctx;
}

core_context *core_context_get(const core_array *first, const core_where *where, core_error *error)
{
    const int32_t type = first->device_type;
    uint64_t context = 0;
    if (type != DL_CPU && (context = where->context) == 0 && core_torch_context(first->device, &context, error) < 0)
        return NULL;
    core_context *ctx = contexts;
    if (ctx == NULL || ctx->device_type != type || ctx->context != context)
        ctx = find(type, context, where->stream, error);
    if (ctx == NULL || type == DL_CPU || ctx->cu_stream == where->stream)
        return ctx;
    rvit_status status = RVIT_OK;
    if (ctx->dirty) /* the next stream would use working memory that the previous one still uses */
        status = rv.rvit_stream_synchronize(ctx->stream);
    if (status == RVIT_OK)
        status = rv.rvit_stream_set(ctx->stream, (void *)(uintptr_t)where->stream);
    if (core_checked(error, status) < 0)
        return NULL;
    ctx->dirty = 0;
    ctx->cu_stream = where->stream;
    return ctx;
}

rvit_stream *core_context_last(void)
{
    return contexts == NULL ? NULL : contexts->stream;
}

static rvit_status wrap(const core_context *ctx, void *memory, int64_t size, rvit_buffer **out_buffer)
{
    rvit_memory_desc desc = RVIT_MEMORY_DESC_INIT;
    desc.type = ctx->device_type == DL_CPU ? RVIT_MEMORY_HOST : RVIT_MEMORY_CUDA;
    desc.address = memory;
    desc.size = size;
    return rv.rvit_buffer_wrap(ctx->device, &desc, out_buffer);
}

int core_view(core_context *ctx, int slot, const core_array *array, int64_t size, rvit_view *out_view, core_error *error)
{
    if (!core_is_present(array))
        return 0;
    if (size == 0) {
        *out_view = (rvit_view){ctx->buffers[0], 0};
        return 0;
    }
    /* A buffer must begin at a multiple of 16, the array need not: the op checks its alignment. */
    const uint64_t offset = array->data % 16, address = array->data - offset;
    rvit_buffer **const buffer = &ctx->buffers[slot];
    void *const memory = (void *)(uintptr_t)address;
    const int64_t length = size + (int64_t)offset;
    *out_view = (rvit_view){*buffer, (int64_t)offset};
    if (*buffer != NULL && ctx->points[slot].address == address && ctx->points[slot].length == length)
        return 0;
    const rvit_status status = *buffer == NULL ? wrap(ctx, memory, length, buffer) : rv.rvit_buffer_set(*buffer, memory, length);
    if (status != RVIT_OK)
        return core_fail(error, status, "%s: %s", array->name, rv.rvit_status_detail());
    ctx->points[slot].address = address;
    ctx->points[slot].length = length;
    out_view->buffer = *buffer;
    return 0;
}

int core_context_workspace(core_context *ctx, uint64_t address, int64_t size, core_error *error)
{
    if (ctx->device_type == DL_CPU)
        return 0;
    ctx->dirty |= size == 0;
    return core_checked(error, rv.rvit_cuda_stream_set_workspace(ctx->stream, (void *)(uintptr_t)address, size));
}
