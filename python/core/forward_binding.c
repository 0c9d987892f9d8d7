/* Runs a recorded session on CUDA tensors. raggedvit.Prepared calls it after the first batch of a size on a stream. */
#include "bindings.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PLANS = 32 };

/* A session for batches of n on a stream. */
typedef struct plan {
    PyObject *owner;  /* keeps the objects of the other fields alive */
    PyObject *locked; /* () -> whether the package uses the session now */
    uint64_t stream;
    int64_t n;
    rvit_session *session;
    rvit_buffer *images, *logits; /* wrapped; each run points them at its tensors */
    int64_t *ran;                 /* time of its last run, in nanoseconds of CLOCK_MONOTONIC */
} plan;

typedef struct forward_state {
    int32_t device;
    int64_t image[3], classes; /* channels, lines, columns */
    int n_plans;
    plan plans[MAX_PLANS];
} forward_state;

static const char *const capsule_name = "raggedvit.forward";

/* Destroying an owner may re-enter this file, so the state drops it first. */
static void let_go(plan *plans, int n)
{
    for (int i = 0; i < n; i++) {
        Py_DECREF(plans[i].owner);
        Py_DECREF(plans[i].locked);
    }
}

static void clear(forward_state *state)
{
    plan gone[MAX_PLANS];
    const int n = state->n_plans;
    memcpy(gone, state->plans, (size_t)n * sizeof *gone);
    state->n_plans = 0;
    let_go(gone, n);
}

static void free_state(PyObject *capsule)
{
    forward_state *const state = PyCapsule_GetPointer(capsule, capsule_name);
    clear(state);
    free(state);
}

PyObject *core_forward_state(PyObject *module, PyObject *arguments)
{
    (void)module;
    forward_state *const state = calloc(1, sizeof *state);
    long long channels, height, width, classes;
    if (state == NULL)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(arguments, "iLLLL", &state->device, &channels, &height, &width, &classes)) {
        free(state);
        return NULL;
    }
    state->image[0] = channels;
    state->image[1] = height;
    state->image[2] = width;
    state->classes = classes;
    PyObject *const capsule = PyCapsule_New(state, capsule_name, free_state);
    if (capsule == NULL)
        free(state);
    return capsule;
}

PyObject *core_forward_add(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *capsule, *owner, *locked;
    unsigned long long stream, session, images, logits, ran;
    long long n;
    if (!PyArg_ParseTuple(arguments, "OOOKLKKKK", &capsule, &owner, &locked, &stream, &n, &session, &images, &logits, &ran))
        return NULL;
    forward_state *const state = PyCapsule_GetPointer(capsule, capsule_name);
    if (state == NULL)
        return NULL;
    int at = 0;
    while (at < state->n_plans && (state->plans[at].n != n || state->plans[at].stream != stream))
        at++;
    if (at == MAX_PLANS) {
        clear(state); /* the package adds them again when it needs them */
        at = state->n_plans;
    }
    plan old = state->plans[at];
    const int replaces = at < state->n_plans;
    state->plans[at] = (plan){.owner = Py_NewRef(owner),
                              .locked = Py_NewRef(locked),
                              .stream = stream,
                              .n = n,
                              .session = (rvit_session *)(uintptr_t)session,
                              .images = (rvit_buffer *)(uintptr_t)images,
                              .logits = (rvit_buffer *)(uintptr_t)logits,
                              .ran = (int64_t *)(uintptr_t)ran};
    state->n_plans += !replaces;
    let_go(&old, replaces);
    Py_RETURN_NONE;
}

PyObject *core_forward_clear(PyObject *module, PyObject *capsule)
{
    (void)module;
    forward_state *const state = PyCapsule_GetPointer(capsule, capsule_name);
    if (state == NULL)
        return NULL;
    clear(state);
    Py_RETURN_NONE;
}

/* Contiguous float32 images of the model's size on its device. */
static int fits(const forward_state *state, const core_array *images)
{
    if (images->device_type != DL_CUDA || images->device != state->device || images->type != CORE_F32 || images->ndim != 4 ||
        images->data == 0 || images->data % 16 != 0)
        return 0;
    int64_t step = 1;
    for (int i = 3; i > 0; i--) {
        if (images->shape[i] != state->image[i - 1] || (images->shape[i] > 1 && images->step[i] != step))
            return 0;
        step *= images->shape[i];
    }
    return images->shape[0] > 0 && (images->shape[0] == 1 || images->step[0] == step);
}

static const plan *plan_for(const forward_state *state, uint64_t stream, int64_t n)
{
    for (int i = 0; i < state->n_plans; i++)
        if (state->plans[i].n == n && state->plans[i].stream == stream)
            return &state->plans[i];
    return NULL;
}

static int says_no(PyObject *question)
{
    PyObject *const found = question == NULL ? NULL : PyObject_CallNoArgs(question);
    const int is_false = found == Py_False;
    Py_XDECREF(found);
    PyErr_Clear();
    return is_false;
}

/* A graph cannot be captured into another one. */
static int capturing(void)
{
    return !says_no(core_hook(CORE_HOOK_CAPTURING));
}

static int enqueue(const plan *p, const core_array *images, const core_array *logits, core_error *error)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = (int32_t)p->n;
    args.input.view.buffer = p->images;
    args.logits.buffer = p->logits;
    const int64_t images_size = 4 * p->n * images->shape[1] * images->shape[2] * images->shape[3];
    rvit_status status = rv.rvit_buffer_set(p->images, (void *)(uintptr_t)images->data, images_size);
    if (status == RVIT_OK)
        status = rv.rvit_buffer_set(p->logits, (void *)(uintptr_t)logits->data, 4 * p->n * logits->shape[1]);
    if (status == RVIT_OK)
        status = rv.rvit_session_enqueue(p->session, &args);
    if (core_checked(error, status) < 0)
        return -1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    p->ran[0] = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return 0;
}

/* forward(state, images): returns the logits, or None if the package's Python code must handle the call. Holds the GIL, because a session
   takes one call at a time. */
PyObject *core_forward(PyObject *module, PyObject *const *arguments, Py_ssize_t n)
{
    (void)module;
    core_error error;
    core_reader reader = {0};
    core_array images;
    forward_state *const state = n == 2 ? PyCapsule_GetPointer(arguments[0], capsule_name) : NULL;
    if (state == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "forward() takes a state and images");
        return NULL;
    }
    if (core_read(&reader, arguments[1], "images", &images, &error) < 0 || reader.family != CORE_TORCH || !fits(state, &images) ||
        core_reader_finish(&reader, &images, NULL, &error) < 0)
        Py_RETURN_NONE;
    const plan *p = plan_for(state, reader.where.stream, images.shape[0]);
    if (p == NULL || capturing())
        Py_RETURN_NONE;
    core_array logits;
    core_describe(&logits, "logits", &images, CORE_F32, 2, (const int64_t[]){p->n, state->classes});
    PyObject *const result = core_new(&reader, &logits, &error);
    if (result == NULL)
        return core_raise(&error);
    /* Creating objects may start garbage collection and let other threads run: the plan may be gone, or its session in use. */
    p = plan_for(state, reader.where.stream, images.shape[0]);
    if (p == NULL || !says_no(p->locked)) {
        Py_DECREF(result);
        Py_RETURN_NONE;
    }
    if (enqueue(p, &images, &logits, &error) == 0)
        return result;
    Py_DECREF(result);
    return core_raise(&error);
}
