/* Replaces a model's weights in place. */
#include <string.h>

#include "core/base/entry.h"
#include "core/model/checkpoint.h"
#include "core/weights/quantize.h"

/* Sessions depend on these fields. */
static rvit_status check_same(const rvit_model_info *model, const rvit_model_info *other)
{
#define FIELD(name)                     \
    {                                   \
#name, model->name, other->name \
    }
    const struct {
        const char *name;
        int64_t model, other;
    } fields[] = {FIELD(image_size),  FIELD(patch_size),  FIELD(channels),      FIELD(dim),       FIELD(n_heads),     FIELD(depth),
                  FIELD(mlp_dim),     FIELD(n_prefix),    FIELD(n_classes),     FIELD(distilled), FIELD(n_registers), FIELD(norm_pre),
                  FIELD(activation),  FIELD(rms_norm),    FIELD(position),      FIELD(pooling),   FIELD(final_norm),  FIELD(image_height),
                  FIELD(image_width), FIELD(gated),       FIELD(embedding_dim), FIELD(merge),     FIELD(merged_dim),  FIELD(n_deepstack),
                  FIELD(window),      FIELD(patch_frames)};
#undef FIELD
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].model != fields[i].other)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_update: %s is %lld in the checkpoint, but %lld in the model",
                             fields[i].name, (long long)fields[i].other, (long long)fields[i].model);
    if (model->eps != other->eps)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_update: eps is %g in the checkpoint, but %g in the model", (double)other->eps,
                         (double)model->eps);
    return RVIT_OK;
}

/* Parts around the blocks that are not in the info. */
static rvit_status check_same_parts(const rvit_model *model, const rvit_vit_config *config)
{
    const int maps = model->info.pooling == RVIT_POOLING_MAP;
    const struct {
        const char *name;
        int32_t model, other;
    } parts[] = {{"n_predictors", model->files.n_predictors, config->files.n_predictors},
                 {"fc_norm", model->fc_norm_gamma.buffer != NULL, config->fc_norm},
                 {"the patch norm", model->identity_weight.buffer != NULL, config->patch_norm},
                 {"the MLP width of the attention pooling", model->map.mlp_dim, maps ? config->map_mlp : 0},
                 {"the number of heads of the attention pooling", model->map.n_heads, maps ? config->map_heads : 0},
                 {"the activation of the attention pooling", (int32_t)model->map.activation, maps ? (int32_t)config->map_activation : 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].model != parts[i].other)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_update: %s is %d in the checkpoint, but %d in the model", parts[i].name,
                             (int)parts[i].other, (int)parts[i].model);
    return RVIT_OK;
}

static int same_blocks(const rvit_block_list *a, const rvit_block_list *b)
{
    return a->n == b->n && memcmp(a->blocks, b->blocks, (size_t)a->n * sizeof *a->blocks) == 0;
}

/* Sessions of variable resolution have recorded how positions are resampled and rotated, and which blocks have windows. */
static rvit_status check_same_positions(rvit_model *model, const rvit_vit_config *config)
{
    const rvit_rope_config *own = &model->rope, *other = &config->rope;
    const int same_rotation =
        !rvit_model_rotates(model) ||
        (own->base == other->base && own->coordinates == other->coordinates && own->order == other->order && own->offset == other->offset &&
         own->reference[0] == other->reference[0] && own->reference[1] == other->reference[1]);
    const int same_table =
        !rvit_model_has_table(model) || (model->info.resample == config->info.resample && model->trained[0] == config->trained[0] &&
                                         model->trained[1] == config->trained[1]);
    const rvit_merge_config *merge = &model->merge, *others = &config->merge;
    if (atomic_load(&model->variable_sessions) > 0 &&
        (!same_blocks(&merge->full_blocks, &others->full_blocks) || !same_blocks(&merge->deepstack, &others->deepstack)))
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_model_update: the checkpoint has different %s blocks from the model, which has sessions",
                         same_blocks(&merge->deepstack, &others->deepstack) ? "full attention" : "deepstack");
    if (atomic_load(&model->variable_sessions) == 0 || (same_rotation && same_table))
        return RVIT_OK;
    return rvit_fail(RVIT_INVALID_ARGUMENT,
                     "rvit_model_update: the checkpoint's %s differs from the model's, which has sessions of variable resolution",
                     same_rotation ? "position table or its resampling" : "rotation of queries and keys");
}

rvit_status rvit_model_update(rvit_model *model, const rvit_checkpoint *checkpoint)
{
    RVIT_ENTRY;
    if (model == NULL || checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_update: model or checkpoint is NULL");
    RVIT_TRY(rvit_unsupported_status(&checkpoint->unsupported, rvit_tensor_set_path(checkpoint->tensors)));
    RVIT_TRY(check_same(&model->info, &checkpoint->config.info));
    if (model->attention_norm != checkpoint->config.attention_norm || model->mlp_norm != checkpoint->config.mlp_norm)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_model_update: the norms inside the blocks differ between the checkpoint and the model");
    RVIT_TRY(check_same_parts(model, &checkpoint->config));
    RVIT_TRY(check_same_positions(model, &checkpoint->config));
    RVIT_TRY(rvit_quantization_check_same(model, checkpoint));
    rvit_model_take_positions(model, checkpoint);
    return rvit_model_reload(model, checkpoint);
}
