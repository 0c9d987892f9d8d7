/* Python binding of raggedvit.select. The package passes all arguments by position; an output of None is created here. */
#include "bindings.h"

#include <math.h>

static const char *const names[] = {"cu_seqlens", "rows",      "mode",      "score",  "max_len", "n_prefix",  "competes",
                                    "threshold",  "k_min",     "n_samples", "mass",   "x",       "cls_probs", "weight",
                                    "bias",       "positions", "counts",    "scores", "mask",    "fuse_x",    "out_cu_seqlens",
                                    "src_rows",   "keep",      "error",     "stream"};
enum {
    CU_SEQLENS,
    ROWS,
    MODE,
    SCORE,
    MAX_LEN,
    N_PREFIX,
    COMPETES,
    THRESHOLD,
    K_MIN,
    N_SAMPLES,
    MASS,
    ARRAYS, /* from here on: arrays */
    A_X = ARRAYS,
    A_CLS_PROBS,
    A_WEIGHT,
    A_BIAS,
    A_POSITIONS,
    A_COUNTS,
    A_SCORES,
    A_MASK,
    A_FUSE_X,
    OUTPUTS,
    A_CU = OUTPUTS,
    A_SRC_ROWS,
    A_KEEP,
    A_ERROR,
    STREAM,
    N
};
enum { N_ARRAYS = STREAM - ARRAYS };

typedef struct select_call {
    core_array cu_seqlens, arrays[N_ARRAYS];
    core_where where;
    int64_t numbers[ARRAYS];
    double threshold, mass;
} select_call;

static core_array *at(select_call *call, int argument)
{
    return &call->arrays[argument - ARRAYS];
}

static int read_all(core_reader *reader, PyObject *const *values, select_call *call, core_error *error)
{
    static const char *const arrays[] = {"x",        "cls_probs", "weight", "bias",   "position_scores",
                                         "counts",   "scores",    "mask",   "fuse_x", "cu_seqlens of out",
                                         "src_rows", "keep",      "error"};
    if (core_read(reader, values[CU_SEQLENS], "cu_seqlens", &call->cu_seqlens, error) < 0)
        return -1;
    for (int i = ROWS; i < ARRAYS; i++) {
        call->numbers[i] = i == ROWS || i == MAX_LEN ? -1 : 0;
        if (i != THRESHOLD && i != MASS && core_read_int(values[i], names[i], &call->numbers[i], error) < 0)
            return -1;
    }
    call->threshold = call->mass = 0.0;
    if (core_read_float(values[THRESHOLD], "threshold", &call->threshold, error) < 0)
        return -1;
    if (values[MASS] != NULL)
        call->mass = PyFloat_AsDouble(values[MASS]);
    for (int i = 0; i < N_ARRAYS; i++)
        if (core_read(reader, values[ARRAYS + i], arrays[i], &call->arrays[i], error) < 0 ||
            core_check_device(&call->arrays[i], &call->cu_seqlens, error) < 0)
            return -1;
    return core_reader_finish(reader, &call->cu_seqlens, values[STREAM], error);
}

static int check_bytes(const core_array *array, int64_t rows, core_error *error)
{
    char text[160];
    if (!core_is_present(array))
        return 0;
    if ((array->type == CORE_BOOL || array->type == CORE_U8) && array->ndim == 1 && array->shape[0] == rows &&
        core_row_width(array, 0) >= 0)
        return 0;
    return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected contiguous bool or uint8 [%lld]", array->name,
                     core_shown(array, text), (long long)rows);
}

static int check_int_count(const core_array *array, int64_t n, core_error *error)
{
    char text[160], wanted[24];
    if (!core_is_present(array))
        return 0;
    PyOS_snprintf(wanted, sizeof wanted, "%lld", (long long)n);
    if (core_check_ints(array, wanted, error) < 0)
        return -1;
    if (array->shape[0] != n)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected int32 [%lld]", array->name, core_shown(array, text),
                         (long long)n);
    return 0;
}

/* [rows, ...] of a floating point type; contiguous, or with any row stride if `stride` is set. */
static int check_rows(const core_array *array, int64_t rows, int64_t *stride, core_error *error)
{
    char text[160];
    if (array->type > CORE_BF16 || array->ndim < 2 || array->shape[0] != rows)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected float32, float16 or bfloat16 [%lld, dim]", array->name,
                         core_shown(array, text), (long long)rows);
    const int64_t width = core_row_width(array, 1);
    if (width < 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not contiguous within a row", array->name);
    if (width > INT32_MAX)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has rows of %lld elements", array->name, (long long)width);
    return core_row_step(array, width, stride, error);
}

static int check_inputs(select_call *call, rvit_select_args *args, core_error *error)
{
    const int64_t rows = args->rows;
    int64_t stride = 0;
    const core_array *const x = at(call, A_X), *const fuse = at(call, A_FUSE_X), *const cls = at(call, A_CLS_PROBS);
    char text[160];
    if (core_is_present(x)) {
        if (check_rows(x, rows, &args->x_stride, error) < 0)
            return -1;
        args->dtype = (rvit_dtype)x->type;
        args->dim = (int32_t)core_row_width(x, 1);
    }
    if (core_is_present(fuse)) {
        if (check_rows(fuse, rows, &stride, error) < 0)
            return -1;
        args->fuse_dtype = (rvit_dtype)fuse->type;
        args->fuse_dim = (int32_t)core_row_width(fuse, 1);
        if (rows > 1 && stride != args->fuse_dim)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "fuse_x is not contiguous");
    }
    if (core_is_present(cls)) {
        if (cls->ndim != 2)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "cls_probs is %s; expected float32 [rows, heads]", core_shown(cls, text));
        if (core_check_floats(cls, rows, cls->shape[1], error) < 0)
            return -1;
        if (cls->shape[1] > INT32_MAX)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "cls_probs has %lld heads", (long long)cls->shape[1]);
        args->n_heads = (int32_t)cls->shape[1];
    }
    const core_array *const weight = at(call, A_WEIGHT);
    if (core_is_present(weight) && (!core_is_present(x) || weight->type != x->type || weight->ndim != 2 || weight->shape[0] != 2 ||
                                    weight->shape[1] != args->dim || core_row_width(weight, 0) < 0))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "weight is %s; expected [2, %d] of the type of x", core_shown(weight, text),
                         (int)args->dim);
    if (core_check_floats(at(call, A_BIAS), 2, 0, error) < 0 || core_check_floats(at(call, A_POSITIONS), args->max_len, 0, error) < 0 ||
        check_int_count(at(call, A_COUNTS), args->max_len + (int64_t)1, error) < 0 ||
        core_check_floats(at(call, A_SCORES), rows, 0, error) < 0)
        return -1;
    return check_bytes(at(call, A_MASK), rows, error);
}

static int check_outputs(select_call *call, const rvit_select_args *args, core_error *error)
{
    for (int i = A_SCORES; i < STREAM; i++)
        if (core_is_present(at(call, i)) && at(call, i)->read_only && i != A_MASK && (i != A_SCORES || args->score != RVIT_SCORE_GIVEN))
            return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is read-only", at(call, i)->name);
    if (check_int_count(at(call, A_CU), args->n_images + (int64_t)1, error) < 0 ||
        check_int_count(at(call, A_SRC_ROWS), args->rows, error) < 0 || check_bytes(at(call, A_KEEP), args->rows, error) < 0)
        return -1;
    return check_int_count(at(call, A_ERROR), 1, error);
}

/* Derives absent values from the arrays. */
static void infer_sizes(select_call *call)
{
    static const int with_rows[] = {A_SCORES, A_X, A_CLS_PROBS, A_MASK, A_FUSE_X};
    for (size_t i = 0; i < sizeof with_rows / sizeof *with_rows && call->numbers[ROWS] < 0; i++)
        if (core_is_present(at(call, with_rows[i])) && at(call, with_rows[i])->ndim > 0)
            call->numbers[ROWS] = at(call, with_rows[i])->shape[0];
    if (call->numbers[MAX_LEN] >= 0)
        return;
    if (core_is_present(at(call, A_COUNTS)) && at(call, A_COUNTS)->ndim > 0)
        call->numbers[MAX_LEN] = at(call, A_COUNTS)->shape[0] - 1;
    else if (core_is_present(at(call, A_POSITIONS)) && at(call, A_POSITIONS)->ndim > 0)
        call->numbers[MAX_LEN] = at(call, A_POSITIONS)->shape[0];
    else
        call->numbers[MAX_LEN] = call->numbers[ROWS];
}

static int numbers(select_call *call, rvit_select_args *args, core_error *error)
{
    infer_sizes(call);
    static const int bounded[] = {ROWS, MAX_LEN, N_PREFIX, K_MIN, N_SAMPLES};
    for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++)
        if (call->numbers[bounded[i]] < 0 || call->numbers[bounded[i]] > INT32_MAX - 1)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %lld; expected an integer from 0 to 2147483646", names[bounded[i]],
                             (long long)call->numbers[bounded[i]]);
    if (core_check_ints(&call->cu_seqlens, "n + 1", error) < 0)
        return -1;
    if (call->cu_seqlens.shape[0] < 1 || call->cu_seqlens.shape[0] > INT32_MAX - 1)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "cu_seqlens has %lld numbers; expected int32 [n + 1]",
                         (long long)call->cu_seqlens.shape[0]);
    *args = (rvit_select_args){.struct_size = sizeof *args,
                               .mode = (rvit_select_mode)call->numbers[MODE],
                               .score = (rvit_score_type)call->numbers[SCORE],
                               .n_images = (int32_t)(call->cu_seqlens.shape[0] - 1),
                               .max_len = (int32_t)call->numbers[MAX_LEN],
                               .rows = call->numbers[ROWS],
                               .n_prefix = (int32_t)call->numbers[N_PREFIX],
                               .prefix_competes = (int32_t)call->numbers[COMPETES],
                               .threshold = (float)call->threshold,
                               .k_min = (int32_t)call->numbers[K_MIN],
                               .n_samples = (int32_t)call->numbers[N_SAMPLES],
                               .mass = call->mass};
    if (call->cu_seqlens.device_type == DL_CPU)
        return core_check_lengths(&call->cu_seqlens, &call->numbers[MAX_LEN], args->rows, error);
    return 0;
}

static int run(select_call *call, rvit_select_args *args, const core_array *workspace, core_error *error)
{
#define AT(member) offsetof(rvit_select_args, member)
    static const size_t views[] = {AT(x),        AT(cls_probs), AT(weight),  AT(bias),   AT(position_scores),
                                   AT(counts),   AT(scores),    AT(keep_in), AT(fuse_x), AT(out_cu_seqlens),
                                   AT(src_rows), AT(keep),      AT(error)};
#undef AT
    core_context *const ctx = core_context_get(&call->cu_seqlens, &call->where, error);
    if (ctx == NULL || core_view(ctx, 0, &call->cu_seqlens, 4 * call->cu_seqlens.shape[0], &args->cu_seqlens, error) < 0 ||
        core_context_workspace(ctx, workspace->data, workspace->shape[0], error) < 0)
        return -1;
    for (int i = 0; i < N_ARRAYS; i++)
        if (core_view(ctx, 1 + i, &call->arrays[i], core_span(&call->arrays[i]), (rvit_view *)(void *)((char *)args + views[i]), error) < 0)
            return -1;
    return core_checked(error, rv.rvit_select(ctx->stream, args));
}

/* Creates the absent outputs. */
static int make_outputs(const core_reader *reader, select_call *call, const rvit_select_args *args, PyObject **outputs, core_error *error)
{
    static const struct {
        int argument, type;
    } made[] = {{A_CU, CORE_I32}, {A_SRC_ROWS, CORE_I32}, {A_KEEP, CORE_BOOL}, {A_SCORES, CORE_F32}, {A_ERROR, CORE_I32}};
    for (int i = 0; i < 5; i++) {
        core_array *const array = at(call, made[i].argument);
        if (core_is_present(array) || (made[i].argument == A_SCORES && args->mode == RVIT_SELECT_MASK))
            continue;
        const int64_t n = i == 0 ? args->n_images + (int64_t)1 : i == 4 ? 1 : args->rows;
        core_describe(array, names[made[i].argument], &call->cu_seqlens, made[i].type, 1, &n);
        outputs[i] = core_new(reader, array, error);
        if (outputs[i] == NULL)
            return -1;
    }
    return 0;
}

/* In host memory, an error of an image raises. */
static int check_error(const core_array *reported, core_error *error)
{
    static const char *const why[] = {"has a NaN score", "has a mask that drops a prefix row",
                                      "has scores that cannot be added up: negative, infinite or all 0"};
    const int32_t found = reported->device_type == DL_CPU ? *(const int32_t *)(uintptr_t)reported->data : 0;
    if (found <= 0)
        return 0;
    return core_fail(error, RVIT_INVALID_ARGUMENT, "select: image %d %s", (int)((found - 1) / 3), why[(found - 1) % 3]);
}

static int enqueue(const core_reader *reader, select_call *call, rvit_select_args *args, core_error *error)
{
    /* On CUDA the framework allocates the working memory, which also works inside a graph capture and on any stream. */
    const int provides = reader->family == CORE_TORCH && call->cu_seqlens.device_type == DL_CUDA;
    const int64_t size = provides ? rv.rvit_cuda_workspace_size(args->n_images, args->rows) : 0;
    PyObject *owner = NULL;
    core_array workspace;
    core_describe(&workspace, "the workspace", &call->cu_seqlens, CORE_U8, 1, &size);
    if (size != 0 && (owner = core_new(reader, &workspace, error)) == NULL)
        return -1;
    int failed;
    if (workspace.device_type == DL_CPU) {
        Py_BEGIN_ALLOW_THREADS failed = run(call, args, &workspace, error);
        Py_END_ALLOW_THREADS
    } else {
        failed = run(call, args, &workspace, error);
    }
    Py_XDECREF(owner); /* the caching allocator reuses it only for later work of the same stream */
    return failed < 0 ? -1 : check_error(at(call, A_ERROR), error);
}

/* Returns (cu_seqlens, src_rows, keep, scores, error): new arrays, or the caller's. */
static PyObject *body(PyObject *const *values, core_error *error)
{
    static const int arguments[] = {A_CU, A_SRC_ROWS, A_KEEP, A_SCORES, A_ERROR};
    core_reader reader = {0};
    select_call call;
    rvit_select_args args;
    PyObject *outputs[5] = {NULL}, *result = NULL;
    if (read_all(&reader, values, &call, error) < 0 || numbers(&call, &args, error) < 0 || check_inputs(&call, &args, error) < 0)
        return NULL;
    call.where = reader.where;
    if (make_outputs(&reader, &call, &args, outputs, error) == 0 && check_outputs(&call, &args, error) == 0 &&
        enqueue(&reader, &call, &args, error) == 0)
        result = PyTuple_New(5);
    for (int i = 0; i < 5; i++) {
        PyObject *const given = values[arguments[i]] == NULL ? Py_None : values[arguments[i]];
        if (result != NULL)
            PyTuple_SetItem(result, i, outputs[i] != NULL ? outputs[i] : Py_NewRef(given));
        else
            Py_XDECREF(outputs[i]);
    }
    return result;
}

static core_signature signature = {
    .function = "select", .names = names, .n = N, .n_positional = N, .n_required = 1, .passed_to = CORE_HOOK_ATTENTION, .body = body};

CORE_DEFINE(strict_select, signature, CORE_OR_RAISE)
CORE_DEFINE(try_select, signature, CORE_OR_NOT)
