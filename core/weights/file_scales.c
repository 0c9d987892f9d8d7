/* Finds the layers of blocks that a checkpoint stores in 8 bits, and reads their scales. */
#include <math.h>
#include <string.h>

#include "core/base/quantized.h"
#include "core/file/quantized_tensors.h"
#include "core/model/checkpoint.h"
#include "core/weights/file_scales.h"

/* Counts the quantized parts of a layer and lists their names; *out_n: all its parts. */
static int quantized_parts(const rvit_vit_config *config, const rvit_tensor_set *set, int32_t block, rvit_block_linear linear, int *out_n,
                           char names[RVIT_LAYER_PARTS][RVIT_NAME_SIZE])
{
    rvit_role roles[RVIT_LAYER_PARTS];
    const int n = rvit_layer_parts(config->family, linear, roles);
    int found = 0;
    for (int i = 0; i < n; i++) {
        const int32_t index = rvit_tensor_set_find(set, rvit_family_name(config->family, roles[i], block, names[found]));
        found += index >= 0 && rvit_tensor_set_tensor(set, index)->quantized_dtype != 0;
    }
    *out_n = n;
    return found;
}

int rvit_file_layer_is_quantized(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear)
{
    char names[RVIT_LAYER_PARTS][RVIT_NAME_SIZE];
    int n;
    return quantized_parts(&checkpoint->config, checkpoint->tensors, block, linear, &n, names) == n;
}

/* The parts share their input, so take the largest of their scales: nothing saturates. */
static rvit_status input_scale(const rvit_checkpoint *checkpoint, int n, char names[RVIT_LAYER_PARTS][RVIT_NAME_SIZE], float *out_scale)
{
    int n_scales = 0;
    *out_scale = 0.0f;
    for (int i = 0; i < n; i++) {
        float scale;
        RVIT_TRY(rvit_quantized_input_scale(checkpoint->tensors, names[i], &scale));
        n_scales += scale > 0.0f;
        *out_scale = scale > *out_scale ? scale : *out_scale;
    }
    if (n_scales == 0 || n_scales == n)
        return RVIT_OK;
    return rvit_fail(RVIT_BAD_FILE, "%s: the layer of '%s' has an input_scale for %d parts, but none for %d",
                     rvit_tensor_set_path(checkpoint->tensors), names[0], n_scales, n - n_scales);
}

/* Whether all rows share one scale. */
static rvit_status has_one_scale(const rvit_checkpoint *checkpoint, rvit_block_linear linear, int n,
                                 char names[RVIT_LAYER_PARTS][RVIT_NAME_SIZE], int32_t *out)
{
    float first = 0.0f, scale;
    *out = !(checkpoint->config.layer_scale && (linear == RVIT_BLOCK_PROJ || linear == RVIT_BLOCK_FC2));
    for (int i = 0; i < n && *out; i++) {
        *out = rvit_quantized_n_scales(checkpoint->tensors, names[i]) == 1;
        if (*out)
            RVIT_TRY(rvit_quantized_scales(checkpoint->tensors, names[i], 1, &scale));
        first = i == 0 ? scale : first;
        *out = *out && scale == first;
    }
    return RVIT_OK;
}

rvit_status rvit_file_scales_of(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear, rvit_file_scales *out)
{
    char names[RVIT_LAYER_PARTS][RVIT_NAME_SIZE];
    int n;
    memset(out, 0, sizeof *out);
    if (quantized_parts(&checkpoint->config, checkpoint->tensors, block, linear, &n, names) < n)
        return RVIT_OK;
    out->has_scales = 1;
    RVIT_TRY(has_one_scale(checkpoint, linear, n, names, &out->one_scale));
    return input_scale(checkpoint, n, names, &out->input);
}

/* Folds a layer scale into the rows' scales; its sign goes into the quantized values. Rows that become tiny are zeros, so any scale
   fits. */
static rvit_status fold_layer_scale(const rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *scales)
{
    const int64_t dim = l->model->info.dim;
    if (!l->checkpoint->config.layer_scale || (linear != RVIT_BLOCK_PROJ && linear != RVIT_BLOCK_FC2))
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(l, linear == RVIT_BLOCK_PROJ ? RVIT_ROLE_SCALE1 : RVIT_ROLE_SCALE2, block, dim, l->more));
    for (int64_t row = 0; row < dim; row++) {
        scales[row] *= fabsf(l->more[row]);
        if (scales[row] < RVIT_QUANTIZED_MIN)
            scales[row] = RVIT_QUANTIZED_MIN;
    }
    return RVIT_OK;
}

/* Reorders the scales as load_block.c reorders the rows: queries and keys for rotation by halves, gate and values interleaved. */
static void rearrange(const rvit_weights_loader *l, rvit_block_linear linear, int64_t rows, float *scales)
{
    const rvit_model_info *info = &l->model->info;
    const int64_t mlp = info->mlp_dim, width = l->model->mlp_width, parts = info->gated ? 2 : 1;
    memcpy(l->more, scales, (size_t)rows * sizeof *scales);
    if (linear == RVIT_BLOCK_QKV && rvit_model_rotates(l->model) && l->checkpoint->config.rope.layout == RVIT_ROPE_INTERLEAVED)
        rvit_rope_to_half(l->more, 2 * info->n_heads, info->head_dim, 1, scales);
    if (linear != RVIT_BLOCK_FC1)
        return;
    for (int64_t row = 0; row < width; row++)
        for (int64_t part = 0; part < parts; part++)
            scales[row * parts + part] = l->more[row < mlp ? part * mlp + row : 0]; /* padding rows: any scale */
}

rvit_status rvit_file_weight_scales(const rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *scales)
{
    char names[RVIT_LAYER_PARTS][RVIT_NAME_SIZE];
    int n;
    int64_t rows = 0;
    const rvit_tensor_set *set = l->checkpoint->tensors;
    if (quantized_parts(&l->checkpoint->config, set, block, linear, &n, names) < n)
        return RVIT_OK;
    for (int i = 0; i < n; i++) {
        const int64_t some = rvit_tensor_set_tensor(set, rvit_tensor_set_find(set, names[i]))->shape[0];
        RVIT_TRY(rvit_quantized_scales(set, names[i], some, scales + rows));
        rows += some;
    }
    rearrange(l, linear, rows, scales);
    return fold_layer_scale(l, block, linear, scales);
}
