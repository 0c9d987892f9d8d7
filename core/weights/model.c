/* Shares and frees models. */
#include "core/weights/model.h"

#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/model/checkpoint.h"

/* Checks a small GEMM, since every model has GEMMs of this dtype. */
rvit_status rvit_model_check_dtype(const rvit_device *device, rvit_dtype dtype)
{
    if (!rvit_op_takes(dtype))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "model desc: dtype: %d is not a valid dtype", (int)dtype);
    if (rvit_is_quantized(dtype))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "model desc: dtype is %s, expected f32, f16 or bf16",
                         rvit_enum_name(RVIT_ENUM_DTYPE, dtype));
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = op.linear.out_dtype = dtype;
    op.linear.rows.capacity = op.linear.in_features = op.linear.out_features = 16;
    RVIT_TRY(rvit_op_prepare(&op));
    const char *reason = device->api->supports(device, &op);
    if (reason != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "model desc: dtype is %s, which the device %s (%s) does not support: %s",
                         rvit_enum_name(RVIT_ENUM_DTYPE, dtype), device->info.name, rvit_enum_name(RVIT_ENUM_BACKEND, device->info.backend),
                         reason);
    return RVIT_OK;
}

void rvit_model_take_positions(rvit_model *model, const rvit_checkpoint *checkpoint)
{
    memcpy(model->trained, checkpoint->config.trained, sizeof model->trained);
    model->rope = checkpoint->config.rope;
    model->info.resample = checkpoint->config.info.resample;
    model->merge = checkpoint->config.merge;
}

void rvit_model_retain(rvit_model *model)
{
    atomic_fetch_add(&model->references, 1);
}

void rvit_model_destroy(rvit_model *model)
{
    RVIT_ENTRY;
    if (model == NULL || atomic_fetch_sub(&model->references, 1) != 1)
        return;
    rvit_device *device = model->device;
    rvit_buffer_destroy(model->weights);
    rvit_alloc_free(&device->alloc, model->blocks);
    rvit_alloc_free(&device->alloc, model);
    rvit_device_destroy(device);
}

rvit_status rvit_model_get_info(const rvit_model *model, rvit_model_info *out_info)
{
    RVIT_ENTRY;
    if (model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_get_info: model is NULL");
    return rvit_args_return(out_info, &model->info, sizeof model->info, "model info");
}

rvit_status rvit_model_get_recipe(const rvit_model *model, rvit_image_recipe *out_recipe)
{
    RVIT_ENTRY;
    if (model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_get_recipe: model is NULL");
    return rvit_args_return(out_recipe, &model->recipe, sizeof model->recipe, "image recipe");
}
