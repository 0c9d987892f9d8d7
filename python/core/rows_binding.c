/* Python bindings of raggedvit.pack and raggedvit.unpack. */
#include "bindings.h"

#include <string.h>

enum { SLOT_CU, SLOT_ROWS, SLOT_X, SLOT_OUT, SLOT_BASE };

/* A call of pack or unpack. */
typedef struct rows_call {
    core_array x, src_rows, cu_seqlens, base, out;
    core_where where;
    int64_t width; /* elements of a row */
    int unpacks;
    double fill;
} rows_call;

static int whole_rows(const core_array *array, int64_t width, core_error *error)
{
    int64_t step = -1;
    if (core_row_width(array, 1) >= 0 && core_row_step(array, width, &step, error) < 0)
        return -1;
    return step == width ? 0 : core_fail(error, RVIT_INVALID_ARGUMENT, "%s is not contiguous", array->name);
}

static int check_layout(rows_call *call, core_error *error)
{
    char text[160];
    if (call->x.ndim < 2 || call->x.type == CORE_OTHER || call->x.shape[0] > INT32_MAX - 1)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "x is %s; expected [rows, ...] of float32, float16, bfloat16, int32, uint8 or bool",
                         core_shown(&call->x, text));
    call->width = core_row_width(&call->x, 1);
    if (whole_rows(&call->x, call->width, error) < 0 || core_check_device(&call->src_rows, &call->x, error) < 0 ||
        core_check_ints(&call->src_rows, "rows", error) < 0)
        return -1;
    if (!core_is_present(&call->cu_seqlens))
        return 0;
    if (core_check_device(&call->cu_seqlens, &call->x, error) < 0 || core_check_ints(&call->cu_seqlens, "n + 1", error) < 0)
        return -1;
    if (call->cu_seqlens.shape[0] < 1 || call->cu_seqlens.shape[0] > INT32_MAX)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "cu_seqlens is %s; expected int32 [n + 1]", core_shown(&call->cu_seqlens, text));
    return 0;
}

/* In host memory: the numbers of live rows must be in 0 .. rows - 1, and must ascend for unpack. */
static int check_host_rows(const rows_call *call, int64_t rows, int ascending, core_error *error)
{
    if (call->x.device_type != DL_CPU)
        return 0;
    int64_t live = call->src_rows.shape[0], longest = -1;
    if (core_is_present(&call->cu_seqlens)) {
        if (core_check_lengths(&call->cu_seqlens, &longest, live, error) < 0)
            return -1;
        live = ((const int32_t *)(uintptr_t)call->cu_seqlens.data)[call->cu_seqlens.shape[0] - 1];
    }
    const int32_t *const src = (const int32_t *)(uintptr_t)call->src_rows.data;
    for (int64_t i = 0; i < live; i++) {
        if (src[i] < 0 || src[i] >= rows)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "src_rows[%lld] is %d; expected a row from 0 to %lld", (long long)i, (int)src[i],
                             (long long)rows - 1);
        if (ascending && i > 0 && src[i] <= src[i - 1])
            return core_fail(error, RVIT_INVALID_ARGUMENT, "src_rows[%lld] is %d, after %d; expected ascending rows", (long long)i,
                             (int)src[i], (int)src[i - 1]);
    }
    return 0;
}

static int check_out(const rows_call *call, int64_t rows, const core_array *out, core_error *error)
{
    char text[160], wanted[160];
    core_array like = call->x;
    like.shape[0] = rows;
    if (core_check_device(out, &call->x, error) < 0)
        return -1;
    if (out->type != call->x.type || out->ndim != call->x.ndim ||
        memcmp(out->shape, like.shape, (size_t)like.ndim * sizeof *like.shape) != 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected %s", out->name, core_shown(out, text),
                         core_shown(&like, wanted));
    return whole_rows(out, call->width, error);
}

/* Checks the caller's output, or creates one. */
static PyObject *output(const core_reader *reader, rows_call *call, PyObject *given, int64_t rows, core_error *error)
{
    if (given == NULL) {
        core_array like = call->x;
        like.shape[0] = rows;
        core_describe(&call->out, "out", &like, like.type, like.ndim, like.shape);
        return core_new(reader, &call->out, error);
    }
    if (check_out(call, rows, &call->out, error) < 0)
        return NULL;
    if (call->out.read_only) {
        core_fail(error, RVIT_INVALID_ARGUMENT, "out is read-only");
        return NULL;
    }
    return Py_NewRef(given);
}

static int64_t bytes(const core_array *array, int64_t width)
{
    return array->shape[0] * width * core_type_size(array->type);
}

static int views(rows_call *call, core_context **out_ctx, rvit_view *x, rvit_view *src_rows, rvit_view *live, rvit_view *out,
                 core_error *error)
{
    core_context *const ctx = *out_ctx = core_context_get(&call->x, &call->where, error);
    if (ctx == NULL)
        return -1;
    *live = (rvit_view){NULL, 0};
    if (core_view(ctx, SLOT_CU, &call->cu_seqlens, 4 * call->cu_seqlens.shape[0], live, error) < 0)
        return -1;
    if (core_is_present(&call->cu_seqlens))
        live->offset += 4 * (call->cu_seqlens.shape[0] - 1);
    if (core_view(ctx, SLOT_ROWS, &call->src_rows, 4 * call->src_rows.shape[0], src_rows, error) < 0 ||
        core_view(ctx, SLOT_X, &call->x, bytes(&call->x, call->width), x, error) < 0)
        return -1;
    return core_view(ctx, SLOT_OUT, &call->out, bytes(&call->out, call->width), out, error);
}

static int run_pack(rows_call *call, core_error *error)
{
    const int64_t rows = call->src_rows.shape[0];
    if (rows == 0 || call->x.shape[0] == 0 || call->width == 0)
        return 0;
    rvit_pack_args args = {.struct_size = sizeof args,
                           .rows = {.capacity = rows},
                           .source_rows = call->x.shape[0],
                           .row_size = call->width * core_type_size(call->x.type)};
    core_context *ctx = NULL;
    if (views(call, &ctx, &args.source, &args.src_rows, &args.rows.live, &args.destination, error) < 0)
        return -1;
    return core_checked(error, rv.rvit_pack(ctx->stream, &args));
}

static int run_unpack(rows_call *call, core_error *error)
{
    const int64_t rows = call->out.shape[0];
    if (rows == 0 || call->width == 0)
        return 0;
    if (call->width > INT32_MAX)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "x has rows of %lld elements", (long long)call->width);
    rvit_unpack_args args = {.struct_size = sizeof args,
                             .dtype = (rvit_dtype)call->x.type,
                             .rows = {.capacity = call->src_rows.shape[0]},
                             .destination_rows = {.capacity = rows},
                             .dim = (int32_t)call->width,
                             .fill = (float)call->fill};
    core_context *ctx = NULL;
    /* An array without bytes takes the address of another one. */
    if (call->src_rows.shape[0] == 0) {
        call->cu_seqlens.device_type = 0;
        args.rows.capacity = 0;
    }
    if (views(call, &ctx, &args.source, &args.src_rows, &args.rows.live, &args.destination, error) < 0)
        return -1;
    if (args.source.buffer == NULL)
        args.source.buffer = args.destination.buffer;
    if (args.src_rows.buffer == NULL)
        args.src_rows.buffer = args.destination.buffer;
    if (core_is_present(&call->base) && call->base.data == call->out.data)
        args.base = args.destination;
    else if (core_view(ctx, SLOT_BASE, &call->base, bytes(&call->base, call->width), &args.base, error) < 0)
        return -1;
    return core_checked(error, rv.rvit_unpack(ctx->stream, &args));
}

/* Runs the call, without the GIL if it is in host memory. Returns NULL if there is no output, or the call failed. */
static PyObject *finish(rows_call *call, PyObject *out, core_error *error)
{
    int failed;
    if (out == NULL)
        return NULL;
    if (call->x.device_type == DL_CPU) {
        Py_BEGIN_ALLOW_THREADS failed = call->unpacks ? run_unpack(call, error) : run_pack(call, error);
        Py_END_ALLOW_THREADS
    } else {
        failed = call->unpacks ? run_unpack(call, error) : run_pack(call, error);
    }
    if (failed == 0)
        return out;
    Py_DECREF(out);
    return NULL;
}

static const char *const pack_names[] = {"x", "src_rows", "cu_seqlens", "out", "stream"};

static PyObject *pack_body(PyObject *const *values, core_error *error)
{
    core_reader reader = {0};
    rows_call call;
    call.unpacks = 0;
    if (core_read(&reader, values[0], "x", &call.x, error) < 0 || core_read(&reader, values[1], "src_rows", &call.src_rows, error) < 0 ||
        core_read(&reader, values[2], "cu_seqlens", &call.cu_seqlens, error) < 0 ||
        core_read(&reader, values[3], "out", &call.out, error) < 0 || core_reader_finish(&reader, &call.x, values[4], error) < 0)
        return NULL;
    call.where = reader.where;
    if (check_layout(&call, error) < 0 || check_host_rows(&call, call.x.shape[0], 0, error) < 0)
        return NULL;
    return finish(&call, output(&reader, &call, values[3], call.src_rows.shape[0], error), error);
}

static const char *const unpack_names[] = {"x", "src_rows", "cu_seqlens", "rows", "fill", "base", "out", "stream"};
enum { X, SRC_ROWS, CU_SEQLENS, ROWS, FILL, BASE, OUT, STREAM };

/* The number of rows of the result: the argument, or that of base or out if it is absent. */
static int unpacked_rows(const rows_call *call, int64_t *rows, core_error *error)
{
    const core_array *const like = core_is_present(&call->base) ? &call->base : &call->out;
    if (core_is_present(like) && like->ndim > 0) {
        if (*rows >= 0 && *rows != like->shape[0])
            return core_fail(error, RVIT_INVALID_ARGUMENT, "rows is %lld; %s has %lld", (long long)*rows, like->name,
                             (long long)like->shape[0]);
        *rows = like->shape[0];
    }
    if (*rows < 0 || *rows > INT32_MAX - 1)
        return core_fail(error, RVIT_INVALID_ARGUMENT,
                         *rows == -1 ? "rows is not given, nor base or out, whose rows it could be"
                                     : "rows is not a number from 0 to 2147483646");
    return 0;
}

static PyObject *unpack_body(PyObject *const *values, core_error *error)
{
    core_reader reader = {0};
    rows_call call;
    int64_t rows = -1;
    char text[160];
    call.unpacks = 1;
    call.fill = 0.0;
    if (core_read(&reader, values[X], "x", &call.x, error) < 0 ||
        core_read(&reader, values[SRC_ROWS], "src_rows", &call.src_rows, error) < 0 ||
        core_read(&reader, values[CU_SEQLENS], "cu_seqlens", &call.cu_seqlens, error) < 0 ||
        core_read(&reader, values[BASE], "base", &call.base, error) < 0 || core_read(&reader, values[OUT], "out", &call.out, error) < 0 ||
        core_read_int(values[ROWS], "rows", &rows, error) < 0 || core_read_float(values[FILL], "fill", &call.fill, error) < 0 ||
        core_reader_finish(&reader, &call.x, values[STREAM], error) < 0)
        return NULL;
    call.where = reader.where;
    if (call.x.type > CORE_BF16) {
        core_fail(error, RVIT_INVALID_ARGUMENT, "x is %s; expected [rows, ...] of float32, float16 or bfloat16", core_shown(&call.x, text));
        return NULL;
    }
    if (check_layout(&call, error) < 0 || unpacked_rows(&call, &rows, error) < 0)
        return NULL;
    if (call.src_rows.shape[0] > call.x.shape[0]) {
        core_fail(error, RVIT_INVALID_ARGUMENT, "src_rows has %lld rows, x has %lld", (long long)call.src_rows.shape[0],
                  (long long)call.x.shape[0]);
        return NULL;
    }
    if (check_host_rows(&call, rows, 1, error) < 0 || (core_is_present(&call.base) && check_out(&call, rows, &call.base, error) < 0))
        return NULL;
    return finish(&call, output(&reader, &call, values[OUT], rows, error), error);
}

static core_signature pack_signature = {
    .function = "pack", .names = pack_names, .n = 5, .n_positional = 4, .n_required = 2, .passed_to = CORE_HOOK_PACK, .body = pack_body};
static core_signature unpack_signature = {.function = "unpack",
                                          .names = unpack_names,
                                          .n = 8,
                                          .n_positional = 7,
                                          .n_required = 2,
                                          .passed_to = CORE_HOOK_UNPACK,
                                          .body = unpack_body};
CORE_DEFINE(bind_pack, pack_signature, CORE_OR_PASS_ON)
CORE_DEFINE(strict_pack, pack_signature, CORE_OR_RAISE)
CORE_DEFINE(try_pack, pack_signature, CORE_OR_NOT)
CORE_DEFINE(bind_unpack, unpack_signature, CORE_OR_PASS_ON)
CORE_DEFINE(strict_unpack, unpack_signature, CORE_OR_RAISE)
