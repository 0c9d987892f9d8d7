/* Checks of arrays: shape, strides, type, and lengths. */
#include <stdio.h>
#include <string.h>

#include "core.h"

const char *core_type_name(int type)
{
    static const char *const names[] = {"float32", "float16", "bfloat16", "int32", "uint8", "bool", "another type"};
    return names[type];
}

int core_type_size(int type)
{
    static const int sizes[] = {4, 2, 2, 4, 1, 1, 1};
    return sizes[type];
}

static const dl_type types[] = {{DL_FLOAT, 32, 1}, {DL_FLOAT, 16, 1}, {DL_BFLOAT, 16, 1},
                                {DL_INT, 32, 1},   {DL_UINT, 8, 1},   {DL_BOOL, 8, 1}};

dl_type core_dl_type(int type)
{
    return types[type];
}

void core_array_type(core_array *array, dl_type dtype)
{
    array->dtype = dtype;
    array->type = CORE_OTHER;
    for (int i = 0; i < CORE_OTHER; i++)
        if (memcmp(&types[i], &dtype, sizeof dtype) == 0)
            array->type = i;
}

/* Adds dimension i to the number of elements, and to the lowest and highest offset. Returns 0 if the dimension is invalid. */
static int add_span(const core_array *array, int i, int64_t *count, int64_t *low, int64_t *high)
{
    int64_t reach = 0;
    if (array->shape[i] < 0 || __builtin_mul_overflow(*count, array->shape[i] > 0 ? array->shape[i] : 1, count) ||
        (array->shape[i] > 1 && __builtin_mul_overflow(array->shape[i] - 1, array->step[i], &reach)))
        return 0;
    return !__builtin_add_overflow(reach < 0 ? *low : *high, reach, reach < 0 ? low : high);
}

int core_array_lay(core_array *array, int64_t ndim, const int64_t *shape, const int64_t *steps, int in_bytes, core_error *error)
{
    const int64_t size = core_type_size(array->type), most = INT64_MAX / 32;
    int64_t count = 1, low = 0, high = 0;
    int empty = 0;
    if (ndim < 0 || ndim > CORE_MAX_DIMS || (ndim > 0 && shape == NULL))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has %lld dimensions; expected at most %d", array->name, (long long)ndim,
                         CORE_MAX_DIMS);
    array->ndim = (int32_t)ndim;
    for (int i = array->ndim - 1; i >= 0; i--) {
        array->shape[i] = shape[i];
        array->step[i] = steps == NULL ? count : in_bytes ? steps[i] / size : steps[i];
        if (steps != NULL && in_bytes && steps[i] % size != 0)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has strides that are not multiples of its element size", array->name);
        if (!add_span(array, i, &count, &low, &high) || count > most || low < -most || high > most)
            return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has a shape or strides that no memory has", array->name);
        empty |= shape[i] == 0;
    }
    if (empty)
        return 0;
    if (array->data == 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has no memory: a fake or meta tensor cannot be computed with", array->name);
    if (array->data % (uint64_t)size != 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is at address 0x%llx; expected a multiple of %lld, its element size",
                         array->name, (unsigned long long)array->data, (long long)size);
    if (array->data < (uint64_t)-low * (uint64_t)size || UINT64_MAX - array->data < (uint64_t)(high + 1) * (uint64_t)size)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s has a shape or strides that no memory has", array->name);
    return 0;
}

void core_describe(core_array *out, const char *name, const core_array *like, int type, int32_t ndim, const int64_t *shape)
{
    *out = (core_array){
        .name = name, .device_type = like->device_type, .device = like->device, .ndim = ndim, .type = type, .dtype = core_dl_type(type)};
    for (int64_t i = ndim - 1, step = 1; i >= 0; step *= shape[i], i--) {
        out->shape[i] = shape[i];
        out->step[i] = step;
    }
}

const char *core_shown(const core_array *array, char text[160])
{
    static const char *const names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    const dl_type dtype = array->dtype;
    int n;
    if (array->type != CORE_OTHER)
        n = snprintf(text, 160, "%s [", core_type_name(array->type));
    else if (dtype.code < 7 && dtype.lanes == 1)
        n = snprintf(text, 160, "%s%d [", names[dtype.code], dtype.bits);
    else if (dtype.lanes != 0)
        n = snprintf(text, 160, "DLPack type (%d, %d, %d) [", dtype.code, dtype.bits, dtype.lanes);
    else
        n = snprintf(text, 160, "of another type [");
    for (int i = 0; i < array->ndim && n < 130; i++)
        n += snprintf(text + n, 160 - (size_t)n, "%s%lld", i == 0 ? "" : ", ", (long long)array->shape[i]);
    snprintf(text + n, 160 - (size_t)n, "]");
    return text;
}

static void show_device(const core_array *array, char text[24])
{
    if (array->device_type == DL_CPU)
        snprintf(text, 24, "cpu");
    else
        snprintf(text, 24, "cuda:%d", array->device);
}

int core_check_device(const core_array *array, const core_array *first, core_error *error)
{
    if (!core_is_present(array))
        return 0;
    if (array->device_type == first->device_type && (array->device == first->device || array->device < 0 || first->device < 0))
        return 0;
    char here[24], there[24];
    show_device(array, here);
    show_device(first, there);
    return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is on %s, %s on %s", array->name, here, first->name, there);
}

/* Whether the dimensions from `from` on are contiguous. */
static int dense(const core_array *array, int from)
{
    int64_t step = 1;
    for (int i = array->ndim - 1; i >= from; i--) {
        if (array->shape[i] > 1 && array->step[i] != step)
            return 0;
        step *= array->shape[i];
    }
    return 1;
}

int core_check_ints(const core_array *array, const char *expected, core_error *error)
{
    char text[160];
    if (array->type != CORE_I32 || array->ndim != 1 || !dense(array, 0))
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected contiguous int32 [%s]", array->name, core_shown(array, text),
                         expected);
    return 0;
}

int core_check_floats(const core_array *array, int64_t n, int64_t m, core_error *error)
{
    char text[160];
    if (!core_is_present(array))
        return 0;
    if (array->type == CORE_F32 && array->ndim == (m == 0 ? 1 : 2) && array->shape[0] == n && (m == 0 || array->shape[1] == m) &&
        dense(array, 0))
        return 0;
    if (m == 0)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected contiguous float32 [%lld]", array->name, core_shown(array, text),
                         (long long)n);
    return core_fail(error, RVIT_INVALID_ARGUMENT, "%s is %s; expected contiguous float32 [%lld, %lld]", array->name,
                     core_shown(array, text), (long long)n, (long long)m);
}

int64_t core_row_width(const core_array *array, int from)
{
    int64_t width = 1;
    if (!dense(array, from))
        return -1;
    for (int i = from; i < array->ndim; i++)
        if (__builtin_mul_overflow(width, array->shape[i], &width))
            return -1;
    return width;
}

int core_row_step(const core_array *array, int64_t width, int64_t *out_step, core_error *error)
{
    *out_step = array->shape[0] > 1 ? array->step[0] : width;
    if (*out_step < width)
        return core_fail(error, RVIT_INVALID_ARGUMENT, "the rows of %s are %lld elements apart; expected %lld, their length, or more",
                         array->name, (long long)*out_step, (long long)width);
    return 0;
}

int64_t core_span(const core_array *array)
{
    int64_t last = 0;
    for (int i = 0; i < array->ndim; i++) {
        if (array->shape[i] == 0)
            return 0;
        last += (array->shape[i] - 1) * array->step[i];
    }
    return (last + 1) * core_type_size(array->type);
}

int core_check_lengths(const core_array *cu_seqlens, int64_t *max_len, int64_t rows, core_error *error)
{
    const int32_t *cu = (const int32_t *)(uintptr_t)cu_seqlens->data;
    const int64_t n = cu_seqlens->shape[0] - 1;
    if (*max_len < 0)
        for (int64_t i = *max_len = 0; i < n; i++) {
            const int64_t len = (int64_t)cu[i + 1] - cu[i];
            *max_len = len > *max_len && len < INT32_MAX ? len : *max_len;
        }
    return core_checked(error, rv.rvit_cu_seqlens_check(cu, (int32_t)n, (int32_t)*max_len, rows));
}
