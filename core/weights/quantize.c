/* Quantized models: which layers are quantized, and their weights. */
#include "core/weights/quantize.h"

#include "core/base/quantized.h"
#include "core/contract/backend.h"
#include "core/contract/op.h"
#include "core/model/checkpoint.h"
#include "core/weights/input_bounds.h"

/* The quantized layers. fp8 leaves out proj: its input rows come from heads that a GPU computes separately, so their maximum would cost a
   pass. */
static const struct {
    rvit_dtype dtype;
    uint8_t linears[RVIT_N_BLOCK_LINEARS];
} kinds[] = {
    [RVIT_QUANTIZATION_NONE] = {RVIT_F32, {0}},
    [RVIT_QUANTIZATION_INT8] = {RVIT_I8, {[RVIT_BLOCK_QKV] = 1, [RVIT_BLOCK_PROJ] = 1, [RVIT_BLOCK_FC1] = 1, [RVIT_BLOCK_FC2] = 1}},
    [RVIT_QUANTIZATION_FP8] = {RVIT_E4M3, {[RVIT_BLOCK_QKV] = 1, [RVIT_BLOCK_FC1] = 1, [RVIT_BLOCK_FC2] = 1}},
};

rvit_dtype rvit_block_dtype(const rvit_model *model, const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear)
{
    if (!kinds[model->info.quantization].linears[linear])
        return model->dtype;
    const int skipped = checkpoint->config.quantized_dtype != 0 && !rvit_file_layer_is_quantized(checkpoint, block, linear);
    return skipped ? model->dtype : kinds[model->info.quantization].dtype;
}

int rvit_model_quantizes(const rvit_model *model)
{
    return model->info.quantization != RVIT_QUANTIZATION_NONE;
}

int rvit_model_has_static_scales(const rvit_model *model)
{
    for (int32_t b = 0; b < model->info.depth; b++)
        for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++)
            if (model->blocks[b].linears[i].input_scale.buffer != NULL && !model->blocks[b].linears[i].bounded)
                return 1;
    return 0;
}

/* Checks small ops of the kinds that every such model has. */
static const char *lacks(const rvit_device *device, rvit_dtype quantized, rvit_dtype dtype)
{
    rvit_op linear = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    linear.linear.dtype = quantized;
    linear.linear.out_dtype = dtype;
    linear.linear.rows.capacity = linear.linear.in_features = linear.linear.out_features = 16;
    rvit_op quantize = {.type = RVIT_OP_QUANTIZE, .quantize = RVIT_QUANTIZE_ARGS_INIT};
    quantize.quantize.dtype = dtype;
    quantize.quantize.out_dtype = quantized;
    quantize.quantize.rows.capacity = quantize.quantize.columns = 16;
    rvit_op layernorm = {.type = RVIT_OP_LAYERNORM, .layernorm = RVIT_LAYERNORM_ARGS_INIT};
    layernorm.layernorm.out_dtype = quantized;
    layernorm.layernorm.rows.capacity = layernorm.layernorm.x_rows = layernorm.layernorm.dim = layernorm.layernorm.features = 16;
    const char *reason = device->api->supports(device, &linear);
    if (reason == NULL)
        reason = device->api->supports(device, &quantize);
    return reason != NULL ? reason : device->api->supports(device, &layernorm);
}

/* Converting int8 weights to fp8, or the reverse, would lose accuracy. */
static rvit_status check_file(rvit_quantization quantization, const rvit_checkpoint *checkpoint)
{
    const int32_t quantized = checkpoint->config.quantized_dtype;
    if (quantization == RVIT_QUANTIZATION_NONE || quantized == 0 || quantized == (int32_t)kinds[quantization].dtype)
        return RVIT_OK;
    return rvit_fail(RVIT_UNSUPPORTED, "%s: its weights are %s, but quantization is %s, expected %s or none",
                     rvit_tensor_set_path(checkpoint->tensors), quantized == RVIT_I8 ? "int8" : "fp8",
                     rvit_enum_name(RVIT_ENUM_QUANTIZATION, quantization), quantized == RVIT_I8 ? "int8" : "fp8");
}

rvit_status rvit_quantization_check(const rvit_device *device, rvit_quantization quantization, rvit_dtype dtype,
                                    const rvit_checkpoint *checkpoint)
{
    const rvit_model_info *info = &checkpoint->config.info;
    if ((int)quantization < 0 || (size_t)quantization >= sizeof kinds / sizeof *kinds)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "model desc: quantization: %d is not a valid quantization", (int)quantization);
    if (quantization == RVIT_QUANTIZATION_NONE)
        return RVIT_OK;
    const char *reason = lacks(device, kinds[quantization].dtype, dtype);
    if (reason != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "model desc: quantization is %s, which the device %s (%s) does not support: %s",
                         rvit_enum_name(RVIT_ENUM_QUANTIZATION, quantization), device->info.name,
                         rvit_enum_name(RVIT_ENUM_BACKEND, device->info.backend), reason);
    if (info->dim % 16 != 0 || info->dim > RVIT_MAX_QUANTIZED_COLUMNS || info->mlp_dim > RVIT_MAX_QUANTIZED_COLUMNS)
        return rvit_fail(
            RVIT_UNSUPPORTED,
            "model desc: quantization is %s, which needs a dim that is a multiple of 16, and dim and mlp_dim of at most %d; found a dim of "
            "%d and an mlp_dim of %d",
            rvit_enum_name(RVIT_ENUM_QUANTIZATION, quantization), RVIT_MAX_QUANTIZED_COLUMNS, (int)info->dim, (int)info->mlp_dim);
    return check_file(quantization, checkpoint);
}

rvit_status rvit_quantization_check_same(const rvit_model *model, const rvit_checkpoint *checkpoint)
{
    static const char *const names[] = {"qkv", "proj", "fc1", "fc2"};
    RVIT_TRY(check_file(model->info.quantization, checkpoint));
    for (int32_t b = 0; rvit_model_quantizes(model) && b < model->info.depth; b++)
        for (rvit_block_linear i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            const rvit_linear_weights *w = &model->blocks[b].linears[i];
            const rvit_dtype dtype = rvit_block_dtype(model, checkpoint, b, i);
            rvit_file_scales file;
            RVIT_TRY(rvit_file_scales_of(checkpoint, b, i, &file));
            if (dtype != w->dtype)
                return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_update: %s of block %d is %s in the checkpoint, but %s in the model",
                                 names[i], (int)b, rvit_enum_name(RVIT_ENUM_DTYPE, dtype), rvit_enum_name(RVIT_ENUM_DTYPE, w->dtype));
            const int bounded = rvit_input_is_bounded(model, dtype, &file, i);
            const int scaled = bounded || (rvit_is_quantized(dtype) && file.input > 0.0f);
            if (bounded != w->bounded || rvit_inputs_have_one_scale(dtype, &file, bounded) != w->one_scale ||
                scaled != (w->input_scale.buffer != NULL))
                return rvit_fail(RVIT_INVALID_ARGUMENT,
                                 "rvit_model_update: the kind of input scale of %s of block %d differs between the checkpoint and the "
                                 "model",
                                 names[i], (int)b);
        }
    return RVIT_OK;
}

int rvit_inputs_have_one_scale(rvit_dtype dtype, const rvit_file_scales *file, int bounded)
{
    return bounded || (dtype == RVIT_E4M3 && file->one_scale && file->input > 0.0f);
}

rvit_status rvit_weights_place_quantized(rvit_weights_loader *l, int64_t rows, int64_t columns, rvit_linear_weights *w)
{
    RVIT_TRY(rvit_weights_place(l, rows * columns, w->dtype, &w->weight));
    return rvit_weights_place(l, rows, RVIT_F32, &w->scales);
}

static float largest_of(const float *values, int64_t n)
{
    float largest = 0.0f;
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(values[i]) <= largest))
            largest = isnan(values[i]) ? INFINITY : fabsf(values[i]);
    return largest;
}

/* One scale for all finite rows. For E4M3 that is as precise as a scale per row. */
static float scale_of_all(const float *values, int64_t rows, int64_t columns)
{
    float largest = 0.0f;
    for (int64_t row = 0; row < rows; row++) {
        const float of_row = largest_of(values + row * columns, columns);
        largest = isfinite(of_row) && of_row > largest ? of_row : largest;
    }
    const float scale = largest / RVIT_E4M3_MAX;
    return scale < RVIT_QUANTIZED_MIN ? RVIT_QUANTIZED_MIN : scale;
}

/* The checkpoint's scale reproduces the checkpoint's values, except that a negative layer scale would need the negative of int8's -128.
   NULL: the row gets its own scale. */
static const float *fitting_scale(const float *file_scale, const float *values, int64_t n, rvit_dtype dtype)
{
    for (int64_t i = 0; dtype == RVIT_I8 && i < n; i++)
        if (values[i] > 127.5f * *file_scale)
            return NULL;
    return file_scale;
}

/* With the checkpoint's scale, a row may contain int8's -128. */
static uint8_t quantize_weight(float value, const float *file_scale, rvit_dtype dtype)
{
    return file_scale != NULL && dtype == RVIT_I8 && value < -127.5f ? (uint8_t)INT8_MIN : rvit_quantize_value(value, dtype);
}

/* Quantizes in place. The results of a row that is not finite are NaN: its scale is NaN or, for E4M3, its values are. */
rvit_status rvit_weights_write_quantized(rvit_weights_loader *l, int64_t rows, int64_t columns, const float *file_scales,
                                         const rvit_linear_weights *w)
{
    float *scales = l->more;
    uint8_t *bytes = (uint8_t *)l->values;
    const float same = w->dtype == RVIT_E4M3 && file_scales == NULL ? scale_of_all(l->values, rows, columns) : 0.0f;
    for (int64_t row = 0; row < rows; row++) {
        const float *values = l->values + row * columns,
                    *own = file_scales == NULL ? NULL : fitting_scale(&file_scales[row], values, columns, w->dtype);
        const float *static_scale = same != 0.0f ? &same : own;
        const rvit_row_scale scale = rvit_row_scale_of(largest_of(values, columns), static_scale, w->dtype);
        scales[row] = w->dtype == RVIT_E4M3 ? *static_scale : scale.scale;
        for (int64_t i = 0; i < columns; i++)
            bytes[row * columns + i] = scale.inverse == 0.0f ? scale.fill : quantize_weight(values[i] * scale.inverse, own, w->dtype);
    }
    RVIT_TRY(rvit_weights_write_raw(l, bytes, rows * columns, w->weight));
    return rvit_weights_write_raw(l, scales, rows * (int64_t)sizeof *scales, w->scales);
}
