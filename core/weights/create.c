/* A model: made of a checkpoint, on a device. */
#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/model/checkpoint.h"
#include "core/weights/quantize.h"

/* A checkpoint that was opened to be described may be one that cannot be run. */
static rvit_status check_runs(const rvit_checkpoint *checkpoint)
{
    return rvit_unsupported_status(&checkpoint->unsupported, rvit_tensor_set_path(checkpoint->tensors));
}

rvit_status rvit_model_create(rvit_device *device, const rvit_checkpoint *checkpoint, const rvit_model_desc *given, rvit_model **out_model)
{
    RVIT_ENTRY;
    if (device == NULL || checkpoint == NULL || out_model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_create: device, checkpoint or out_model is NULL");
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "model desc"));
    RVIT_TRY(rvit_model_check_dtype(device, desc.dtype));
    RVIT_TRY(check_runs(checkpoint));
    RVIT_TRY(rvit_quantization_check(device, desc.quantization, desc.dtype, checkpoint));
    rvit_model *model = rvit_alloc_new(&device->alloc, sizeof *model);
    RVIT_TRY_MEMORY(model);
    model->device = device;
    rvit_device_retain(device);
    atomic_init(&model->references, 1);
    atomic_init(&model->native_sessions, 0);
    model->info = checkpoint->config.info;
    memcpy(model->missing_predictor, checkpoint->config.missing_predictor, sizeof model->missing_predictor);
    model->info.quantization = (int32_t)desc.quantization;
    /* A GPU makes e4m3 32 columns at a time. */
    const int32_t unit = desc.quantization == RVIT_QUANTIZATION_FP8 ? 32 : rvit_model_quantizes(model) ? 16 : 8;
    model->mlp_width = (model->info.mlp_dim + unit - 1) / unit * unit;
    model->attention_norm = checkpoint->config.attention_norm;
    model->mlp_norm = checkpoint->config.mlp_norm;
    rvit_model_take_positions(model, checkpoint);
    model->dtype = desc.dtype;
    /* With a float16 residual stream the demo's logits are off by 4e-3, with a float32 one by 2.4e-3. */
    model->x_dtype = RVIT_F32;
    const rvit_status status = rvit_model_load(model, checkpoint);
    if (status != RVIT_OK) {
        rvit_model_destroy(model);
        return status;
    }
    *out_model = model;
    return RVIT_OK;
}
