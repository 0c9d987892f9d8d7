/* Reorders weights for the device's kernels. */
#include "core/weights/model.h"

#include "core/contract/backend.h"

static rvit_status arrange(rvit_stream *stream, rvit_view weight, rvit_dtype dtype, int32_t in_features, int32_t out_features,
                           int32_t gated, int32_t *arranged)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = dtype;
    op.linear.in_features = in_features;
    op.linear.out_features = out_features;
    op.linear.gated = gated;
    op.linear.weight = weight;
    const rvit_status status = stream->device->api->arrange_weight(stream, &op);
    *arranged = op.hints.arranged;
    return status;
}

rvit_status rvit_model_arrange(rvit_model *model, rvit_stream *stream)
{
    const int32_t split = rvit_model_patch_split(model), dim = model->info.dim;
    if (model->device->api->arrange_weight == NULL)
        return RVIT_OK;
    RVIT_TRY(arrange(stream, model->patch_weight, model->dtype, split * rvit_model_patch_width(model), dim, 0, &model->patch_arranged));
    RVIT_TRY(arrange(stream, model->row_weight, model->dtype, split * rvit_model_row_width(model), dim, 0, &model->row_arranged));
    for (int32_t b = 0; b < model->info.depth; b++)
        for (rvit_block_linear i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            rvit_linear_weights *w = &model->blocks[b].linears[i];
            RVIT_TRY(arrange(stream, w->weight, w->dtype, rvit_block_inputs(model, i), rvit_block_outputs(model, i),
                             i == RVIT_BLOCK_FC1 && model->info.gated, &w->arranged));
        }
    return RVIT_OK;
}
