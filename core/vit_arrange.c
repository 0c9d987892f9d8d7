/* Weights in the order that the device's kernels read them. */
#include "core/vit_model.h"

#include "core/backend.h"

void rvit_model_arrange(rvit_model *model)
{
    if (model->device->api->arrange_weight == NULL)
        return;
    for (int32_t b = 0; b < model->info.depth; b++)
        for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            rvit_linear_weights *w = &model->blocks[b].linears[i];
            rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
            op.linear.dtype = w->dtype;
            op.linear.in_features = rvit_block_inputs(model, (rvit_block_linear)i);
            op.linear.out_features = rvit_block_outputs(model, (rvit_block_linear)i);
            op.linear.gated = i == RVIT_BLOCK_FC1 && model->info.gated;
            op.linear.weight = w->weight;
            model->device->api->arrange_weight(model->device, &op);
            w->arranged = op.hints.arranged;
        }
}
