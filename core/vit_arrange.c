/* Weights in the order that the device's kernels read them. */
#include "core/vit_model.h"

#include "core/backend.h"

static int32_t arrange(rvit_model *model, rvit_view weight, rvit_dtype dtype, int32_t in_features, int32_t out_features, int32_t gated)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = dtype;
    op.linear.in_features = in_features;
    op.linear.out_features = out_features;
    op.linear.gated = gated;
    op.linear.weight = weight;
    model->device->api->arrange_weight(model->device, &op);
    return op.hints.arranged;
}

void rvit_model_arrange(rvit_model *model)
{
    const int32_t parts = rvit_model_patch_parts(model), dim = model->info.dim;
    if (model->device->api->arrange_weight == NULL)
        return;
    model->patch_arranged = arrange(model, model->patch_weight, model->dtype, parts * rvit_model_patch_width(model), dim, 0);
    model->row_arranged = arrange(model, model->row_weight, model->dtype, parts * rvit_model_row_width(model), dim, 0);
    for (int32_t b = 0; b < model->info.depth; b++)
        for (rvit_block_linear i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            rvit_linear_weights *w = &model->blocks[b].linears[i];
            w->arranged = arrange(model, w->weight, w->dtype, rvit_block_inputs(model, i), rvit_block_outputs(model, i),
                                  i == RVIT_BLOCK_FC1 && model->info.gated);
        }
}
