/* Weights in the order that the device's kernels read them. */
#include "core/vit_model.h"

#include "core/backend.h"

static int32_t arrange(rvit_model *model, rvit_view weight, int32_t in_features, int32_t out_features, int32_t gated)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = model->dtype;
    op.linear.in_features = in_features;
    op.linear.out_features = out_features;
    op.linear.gated = gated;
    op.linear.weight = weight;
    model->device->api->arrange_weight(model->device, &op);
    return op.hints.arranged;
}

void rvit_model_arrange(rvit_model *model)
{
    const int32_t dim = model->info.dim;
    if (model->device->api->arrange_weight == NULL)
        return;
    for (int32_t b = 0; b < model->info.depth; b++) {
        rvit_block_weights *w = &model->blocks[b];
        w->qkv_arranged = arrange(model, w->qkv_weight, dim, 3 * dim, 0);
        w->proj_arranged = arrange(model, w->proj_weight, dim, dim, 0);
        w->fc1_arranged = arrange(model, w->fc1_weight, dim, model->mlp_width, model->info.gated);
        w->fc2_arranged = arrange(model, w->fc2_weight, model->mlp_width, dim, 0);
    }
}

int32_t rvit_model_arranged(const rvit_model *model, rvit_view weight)
{
    for (int32_t b = 0; b < model->info.depth; b++) {
        const rvit_block_weights *w = &model->blocks[b];
        const struct {
            rvit_view weight;
            int32_t arranged;
        } all[] = {{w->qkv_weight, w->qkv_arranged},
                   {w->proj_weight, w->proj_arranged},
                   {w->fc1_weight, w->fc1_arranged},
                   {w->fc2_weight, w->fc2_arranged}};
        for (int i = 0; i < 4; i++)
            if (all[i].weight.buffer == weight.buffer && all[i].weight.offset == weight.offset)
                return all[i].arranged;
    }
    return 0;
}
