#include "core/file/quantized_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/quantized.h"
#include "core/base/status.h"

enum { NAME = RVIT_SAFETENSORS_MAX_NAME + 16, CHUNK = 512 };

#define WEIGHT "weight"

static int32_t find_weight_scale(const rvit_tensor_set *set, const char *name, char scale[NAME])
{
    snprintf(scale, NAME, "%s_scale", name);
    return rvit_tensor_set_find(set, scale);
}

/* -1 also if the weight's name does not end with ".weight". */
static int32_t find_input_scale(const rvit_tensor_set *set, const char *name, char scale[NAME])
{
    const size_t length = strlen(name), n = strlen("." WEIGHT);
    scale[0] = '\0';
    if (length < n || strcmp(name + length - n, "." WEIGHT) != 0)
        return -1;
    snprintf(scale, NAME, "%.*sinput_scale", (int)(length - strlen(WEIGHT)), name);
    return rvit_tensor_set_find(set, scale);
}

/* Reads n values of an F32, F16 or BF16 tensor. */
static rvit_status read_values(const rvit_tensor_set *set, int32_t index, int64_t first, int64_t n, float *values)
{
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(set, index);
    const int64_t size = rvit_dtype_size((rvit_dtype)tensor->dtype);
    uint8_t bytes[4 * CHUNK];
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = n - done < CHUNK ? n - done : CHUNK;
        RVIT_TRY(rvit_tensor_set_read(set, index, (first + done) * size, some * size, bytes));
        rvit_values_of(bytes, tensor->dtype, some, values + done);
    }
    return RVIT_OK;
}

/* Scales outside the range of rvit_quantize would make every row NaN. */
static rvit_status check_values(const rvit_tensor_set *set, int32_t index, const char *shown)
{
    const int64_t n = rvit_tensor_set_tensor(set, index)->n_elements;
    float values[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t some = n - first < CHUNK ? n - first : CHUNK;
        RVIT_TRY(read_values(set, index, first, some, values));
        for (int64_t i = 0; i < some; i++)
            if (!(values[i] >= RVIT_QUANTIZED_MIN && values[i] <= 1.0f / RVIT_QUANTIZED_MIN))
                return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': scale %" PRId64 " is %g, expected a number from 2^-100 to 2^100",
                                 rvit_tensor_set_path(set), shown, first + i, (double)values[i]);
    }
    return RVIT_OK;
}

/* rows: 0 if the tensor must have one value. */
static rvit_status check_scale(const rvit_tensor_set *set, int32_t index, int64_t rows, uint8_t *used)
{
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(set, index);
    char shape[RVIT_SHOWN_SHAPE];
    if (tensor->dtype < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype is %s, expected F32, F16 or BF16", rvit_tensor_set_path(set),
                         rvit_shown(tensor->name).text, tensor->dtype_name);
    const int of_rows = rows > 0 && ((tensor->rank == 1 && tensor->shape[0] == rows) ||
                                     (tensor->rank == 2 && tensor->shape[0] == rows && tensor->shape[1] == 1));
    if (!of_rows && tensor->n_elements != 1) {
        rvit_format_shape(shape, tensor->rank, tensor->shape);
        if (rows == 0)
            return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected one scale, found the shape %s", rvit_tensor_set_path(set),
                             rvit_shown(tensor->name).text, shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape [%" PRId64 ", 1], [%" PRId64 "] or [1], found %s",
                         rvit_tensor_set_path(set), rvit_shown(tensor->name).text, rows, rows, shape);
    }
    used[index] = 1;
    return check_values(set, index, rvit_shown(tensor->name).text);
}

rvit_status rvit_quantized_check(const rvit_tensor_set *set, const char *name, uint8_t *used)
{
    const rvit_file_tensor *weight = rvit_tensor_set_tensor(set, rvit_tensor_set_find(set, name));
    char scale[NAME];
    const int32_t index = find_weight_scale(set, name, scale);
    if (index < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing: the scale of the %s tensor '%s'", rvit_tensor_set_path(set),
                         rvit_shown(scale).text, weight->dtype_name, rvit_shown(name).text);
    RVIT_TRY(check_scale(set, index, weight->shape[0], used));
    const int32_t input = find_input_scale(set, name, scale);
    return input < 0 ? RVIT_OK : check_scale(set, input, 0, used);
}

int64_t rvit_quantized_n_scales(const rvit_tensor_set *set, const char *name)
{
    char scale[NAME];
    return rvit_tensor_set_tensor(set, find_weight_scale(set, name, scale))->n_elements;
}

rvit_status rvit_quantized_scales(const rvit_tensor_set *set, const char *name, int64_t rows, float *out_scales)
{
    char scale[NAME];
    const int32_t index = find_weight_scale(set, name, scale);
    const int64_t n = rvit_tensor_set_tensor(set, index)->n_elements;
    RVIT_TRY(read_values(set, index, 0, n, out_scales));
    for (int64_t row = n; row < rows; row++)
        out_scales[row] = out_scales[0];
    return RVIT_OK;
}

rvit_status rvit_quantized_input_scale(const rvit_tensor_set *set, const char *name, float *out_scale)
{
    char scale[NAME];
    const int32_t index = find_input_scale(set, name, scale);
    *out_scale = 0.0f;
    return index < 0 ? RVIT_OK : read_values(set, index, 0, 1, out_scale);
}

void rvit_quantized_values(const rvit_file_tensor *weight, const uint8_t *bytes, const float *scales, int64_t first, int64_t n,
                           float *out_values)
{
    const int64_t columns = weight->shape[1];
    for (int64_t i = 0; i < n; i++)
        out_values[i] = rvit_dequantize_value(bytes[i], (rvit_dtype)weight->quantized_dtype) * scales[(first + i) / columns];
}
