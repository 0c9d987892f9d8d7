/* Loads a checkpoint's weights onto a device. */
#include "core/weights/loader.h"

#include <math.h>
#include <string.h>

#include "core/model/checkpoint.h"

/* Writes the patch embedding weight. l->values has rows of `width` values; each row is repeated for every part of the split pixels. */
static rvit_status write_patch_weight(rvit_weights_loader *l, int64_t width, rvit_view view)
{
    const int64_t dim = l->model->info.dim, split = rvit_model_patch_split(l->model);
    for (int64_t row = dim; split > 1 && row-- > 0;) { /* backwards, because rows grow in place */
        float *wide = l->values + row * split * width;
        memmove(wide, l->values + row * width, (size_t)width * sizeof *wide);
        for (int64_t part = 1; part < split; part++)
            memcpy(wide + part * width, wide, (size_t)width * sizeof *wide);
    }
    return rvit_weights_write(l, dim * split * width, l->model->dtype, view);
}

/* The patch embedding weight for values in the order (y, x, channel) or (channel, y, x), independent of the file's order. */
static rvit_status load_patch_weight(rvit_weights_loader *l, int32_t channels_last, rvit_view *view)
{
    const rvit_model *model = l->model;
    const int64_t dim = model->info.dim, channels = model->info.channels, width = rvit_model_patch_width(model);
    const int64_t area = (int64_t)model->info.patch_size * model->info.patch_size, patch = channels * area;
    const int32_t stored_last = l->checkpoint->config.patch_rows;
    if (channels_last == stored_last && rvit_model_patch_split(model) == 1)
        return rvit_weights_load_padded(l, RVIT_ROLE_PATCH_WEIGHT, 0, (int64_t[]){dim, patch}, (int64_t[]){dim, width}, model->dtype, view);
    RVIT_TRY(rvit_weights_place(l, dim * rvit_model_patch_split(model) * width, model->dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_PATCH_WEIGHT, 0, dim * patch, l->more));
    memset(l->values, 0, (size_t)(dim * width) * sizeof *l->values);
    for (int64_t row = 0; row < dim; row++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < area; i++) {
                const int64_t first = c * area + i, last = i * channels + c;
                l->values[row * width + (channels_last ? last : first)] = l->more[row * patch + (stored_last ? last : first)];
            }
    return write_patch_weight(l, width, *view);
}

/* The weight of patches with several frames: as stored, and summed over the frames for still images. */
static rvit_status load_frame_weights(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const int64_t dim = model->info.dim, channels = model->info.channels, frames = l->checkpoint->config.frames;
    const int64_t area = (int64_t)model->info.patch_size * model->info.patch_size, width = rvit_model_patch_width(model);
    const int64_t all = channels * frames * area, row_width = rvit_model_row_width(model), split = rvit_model_patch_split(model);
    RVIT_TRY(rvit_weights_place(l, dim * split * row_width, model->dtype, &model->row_weight));
    RVIT_TRY(rvit_weights_place(l, dim * split * width, model->dtype, &model->patch_weight));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_PATCH_WEIGHT, 0, dim * all, l->more));
    memset(l->values, 0, (size_t)(dim * row_width) * sizeof *l->values);
    for (int64_t row = 0; row < dim; row++)
        memcpy(l->values + row * row_width, l->more + row * all, (size_t)all * sizeof *l->values);
    RVIT_TRY(write_patch_weight(l, row_width, model->row_weight));
    memset(l->values, 0, (size_t)(dim * width) * sizeof *l->values);
    for (int64_t row = 0; row < dim; row++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < area; i++) {
                double sum = 0;
                for (int64_t t = 0; t < frames; t++)
                    sum += (double)l->more[row * all + (c * frames + t) * area + i];
                l->values[row * width + c * area + i] = (float)sum;
            }
    return write_patch_weight(l, width, model->patch_weight);
}

/* first: the role of the norm's gamma; beta, fc1 and fc2 follow. norm: its width. */
static rvit_status load_merger(rvit_weights_loader *l, rvit_role first, int32_t index, int64_t norm, rvit_merger_weights *w)
{
    const int64_t group = l->checkpoint->config.group_dim, merged = l->model->info.merged_dim;
    const rvit_dtype dtype = l->model->dtype;
    RVIT_TRY(rvit_weights_load_norm_of(l, first, (rvit_role)(first + 1), index, norm, norm, &w->norm_gamma, &w->norm_beta));
    RVIT_TRY(rvit_weights_load(l, (rvit_role)(first + 2), index, group * group, dtype, &w->fc1_weight));
    RVIT_TRY(rvit_weights_load(l, (rvit_role)(first + 3), index, group, RVIT_F32, &w->fc1_bias));
    RVIT_TRY(rvit_weights_load(l, (rvit_role)(first + 4), index, merged * group, dtype, &w->fc2_weight));
    return rvit_weights_load(l, (rvit_role)(first + 5), index, merged, RVIT_F32, &w->fc2_bias);
}

static rvit_status load_mergers(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    if (!l->checkpoint->config.merges)
        return RVIT_OK;
    RVIT_TRY(load_merger(l, RVIT_ROLE_MERGER_NORM_GAMMA, 0, model->info.dim, &model->merger));
    for (int32_t i = 0; i < model->info.n_deepstack; i++)
        RVIT_TRY(load_merger(l, RVIT_ROLE_DEEPSTACK_NORM_GAMMA, i, l->checkpoint->config.group_dim, &model->deepstack[i]));
    return RVIT_OK;
}

static rvit_status load_patch_weights(rvit_weights_loader *l)
{
    if (l->checkpoint->config.merges)
        return load_frame_weights(l);
    RVIT_TRY(load_patch_weight(l, 0, &l->model->patch_weight));
    return load_patch_weight(l, 1, &l->model->row_weight);
}

static rvit_status load_embedding(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const rvit_model_info *info = &model->info;
    const int64_t dim = info->dim, n_prefix = info->n_prefix, n = info->tokens * dim;
    RVIT_TRY(rvit_weights_place(l, n, model->x_dtype, &model->embedding));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_checkpoint_read_positions(l->checkpoint, &model->device->alloc, l->values));
    /* l->more holds the prefix tokens in order, then the bias of the patches. */
    const int64_t n_registers = info->n_registers;
    if (l->checkpoint->config.cls)
        RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_CLS, 0, dim, l->more));
    if (n_prefix - n_registers == 2)
        RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_DIST, 0, dim, l->more + dim));
    if (n_registers > 0)
        RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_REGISTERS, 0, n_registers * dim, l->more + (n_prefix - n_registers) * dim));
    memset(l->more + n_prefix * dim, 0, (size_t)dim * sizeof *l->more);
    if (l->checkpoint->config.patch_bias && !l->checkpoint->config.patch_norm)
        RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_PATCH_BIAS, 0, dim, l->more + n_prefix * dim));
    for (int64_t t = 0; t < info->tokens; t++) {
        const float *addend = l->more + (t < n_prefix ? t : n_prefix) * dim;
        for (int64_t i = 0; i < dim; i++)
            l->values[t * dim + i] += addend[i];
    }
    return rvit_weights_write(l, n, model->x_dtype, model->embedding);
}

/* The identity matrix as a weight. */
static rvit_status load_identity(rvit_weights_loader *l, rvit_view *view)
{
    const int64_t dim = l->model->info.dim;
    RVIT_TRY(rvit_weights_place(l, dim * dim, l->model->dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    for (int64_t i = 0; i < dim * dim; i++)
        l->values[i] = i % (dim + 1) == 0 ? 1.0f : 0.0f;
    return rvit_weights_write(l, dim * dim, l->model->dtype, *view);
}

/* The norm between the patches and their positions. */
static rvit_status load_patch_norm(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    if (!l->checkpoint->config.patch_norm)
        return RVIT_OK;
    RVIT_TRY(l->checkpoint->config.patch_bias ? rvit_weights_load(l, RVIT_ROLE_PATCH_BIAS, 0, model->info.dim, RVIT_F32, &model->patch_bias)
                                              : rvit_weights_load_zeros(l, model->info.dim, RVIT_F32, &model->patch_bias));
    RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_PATCH_NORM_GAMMA, RVIT_ROLE_PATCH_NORM_BETA, 0, &model->patch_norm_gamma,
                                    &model->patch_norm_beta));
    return load_identity(l, &model->identity_weight);
}

static rvit_status load_rope_table(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const rvit_model_info *info = &model->info;
    const int32_t height = info->image_height / info->patch_size, width = info->image_width / info->patch_size;
    const int64_t n = (int64_t)info->tokens * info->head_dim;
    if (!rvit_model_rotates(model) || info->merge > 0) /* models that merge run only at variable resolution */
        return RVIT_OK;
    RVIT_TRY(rvit_weights_place(l, n, RVIT_F32, &model->rope_table));
    if (l->stream == NULL)
        return RVIT_OK;
    rvit_rope_fill_table(&l->checkpoint->config.rope, height, width, info->n_prefix, info->head_dim, l->values);
    return rvit_weights_write(l, n, RVIT_F32, model->rope_table);
}

/* A head that the file stores as [dim, n_classes]. */
static rvit_status load_transposed_head(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const int64_t dim = model->info.dim, classes = model->info.n_classes;
    RVIT_TRY(rvit_weights_place(l, classes * dim, model->dtype, &model->head_weight));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_HEAD_WEIGHT, 0, classes * dim, l->more));
    for (int64_t c = 0; c < classes; c++)
        for (int64_t i = 0; i < dim; i++)
            l->values[c * dim + i] = l->more[i * classes + c];
    return rvit_weights_write(l, classes * dim, model->dtype, model->head_weight);
}

/* Without a head, the pooled rows are the result. */
static rvit_status load_no_head(rvit_weights_loader *l)
{
    RVIT_TRY(load_identity(l, &l->model->head_weight));
    return rvit_weights_load_zeros(l, l->model->info.dim, RVIT_F32, &l->model->head_bias);
}

/* Columns of an ordinary head: those for the CLS row and, if it reads both, those for the mean. */
static int64_t head_columns(const rvit_model *model)
{
    return (int64_t)model->info.dim * (model->info.pooling == RVIT_POOLING_CLS_MEAN ? 2 : 1);
}

/* A distilled model averages two heads. Concatenated and halved, they form one head; halving is exact. */
static rvit_status load_head(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const int64_t dim = model->info.dim, classes = model->info.n_classes;
    if (!l->checkpoint->config.own_head)
        return load_no_head(l);
    if (!model->info.distilled) {
        RVIT_TRY(l->checkpoint->config.family->flags & RVIT_FAMILY_HEAD_TRANSPOSED
                     ? load_transposed_head(l)
                     : rvit_weights_load(l, RVIT_ROLE_HEAD_WEIGHT, 0, classes * head_columns(model), model->dtype, &model->head_weight));
        return rvit_weights_has(l, RVIT_ROLE_HEAD_BIAS) ? rvit_weights_load(l, RVIT_ROLE_HEAD_BIAS, 0, classes, RVIT_F32, &model->head_bias)
                                                        : rvit_weights_load_zeros(l, classes, RVIT_F32, &model->head_bias);
    }
    RVIT_TRY(rvit_weights_place(l, classes * 2 * dim, model->dtype, &model->head_weight));
    RVIT_TRY(rvit_weights_place(l, classes, RVIT_F32, &model->head_bias));
    if (l->stream == NULL)
        return RVIT_OK;
    static const rvit_role weights[] = {RVIT_ROLE_HEAD_WEIGHT, RVIT_ROLE_HEAD_DIST_WEIGHT};
    for (int64_t h = 0; h < 2; h++) {
        RVIT_TRY(rvit_weights_read(l, weights[h], 0, classes * dim, l->more));
        for (int64_t c = 0; c < classes; c++)
            for (int64_t i = 0; i < dim; i++)
                l->values[(c * 2 + h) * dim + i] = 0.5f * l->more[c * dim + i];
    }
    RVIT_TRY(rvit_weights_write(l, classes * 2 * dim, model->dtype, model->head_weight));
    RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_HEAD_BIAS, 0, classes, l->values));
    RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_HEAD_DIST_BIAS, 0, classes, l->more));
    for (int64_t c = 0; c < classes; c++)
        l->values[c] = 0.5f * (l->values[c] + l->more[c]);
    return rvit_weights_write(l, classes, RVIT_F32, model->head_bias);
}

/* Query, keys or values, from one tensor, from a separate query and a tensor of the others, or from three tensors. Absent biases are 0. */
rvit_status rvit_weights_read_map_part(const rvit_weights_loader *l, int32_t part, int32_t bias, float *values)
{
    const rvit_role together = bias ? RVIT_ROLE_MAP_QKV_BIAS : RVIT_ROLE_MAP_QKV_WEIGHT;
    const int64_t dim = l->model->info.dim, n = bias ? dim : dim * dim;
    static const rvit_role separate[2][3] = {{RVIT_ROLE_MAP_Q_WEIGHT, RVIT_ROLE_MAP_K_WEIGHT, RVIT_ROLE_MAP_V_WEIGHT},
                                             {RVIT_ROLE_MAP_Q_BIAS, RVIT_ROLE_MAP_K_BIAS, RVIT_ROLE_MAP_V_BIAS}};
    char name[RVIT_NAME_SIZE];
    int64_t all = 3, first = part;
    rvit_role role = together;
    if (rvit_weights_has(l, RVIT_ROLE_MAP_K_WEIGHT)) {
        role = separate[bias][part];
        all = 1;
        first = 0;
        if (bias && !l->checkpoint->config.map_bias) {
            memset(values, 0, (size_t)n * sizeof *values);
            return RVIT_OK;
        }
    } else if (!rvit_weights_has(l, together)) {
        role = part == 0 ? (bias ? RVIT_ROLE_MAP_Q_BIAS : RVIT_ROLE_MAP_Q_WEIGHT) : bias ? RVIT_ROLE_MAP_KV_BIAS : RVIT_ROLE_MAP_KV_WEIGHT;
        all = part == 0 ? 1 : 2;
        first = part == 0 ? 0 : part - 1;
    }
    RVIT_TRY(rvit_weights_name(l, role, 0, name));
    return rvit_checkpoint_read_part(l->checkpoint, &l->model->device->alloc, name, all * n, first * n, n, RVIT_F32, values);
}

/* U[h, :] = Wk_h^T q_h / sqrt(head_dim), q = Wq latent + bq. The key bias adds a constant to all logits of a head, which has no effect. */
static void fold_query(const rvit_weights_loader *l, const float *query, const float *keys, float *folded)
{
    const rvit_model *model = l->model;
    const int64_t dim = model->info.dim, head_dim = model->map.head_dim;
    const double scale = 1.0 / sqrt((double)head_dim);
    for (int64_t h = 0; h < model->map.logits; h++)
        for (int64_t i = 0; i < dim; i++) {
            double sum = 0.0;
            for (int64_t j = h * head_dim; h < model->map.n_heads && j < (h + 1) * head_dim; j++)
                sum += (double)query[j] * (double)keys[j * dim + i];
            folded[h * dim + i] = (float)(sum * scale);
        }
}

/* query = Wq latent + bq, or the latent itself without a Wq. */
static rvit_status read_map_query(const rvit_weights_loader *l, float *latent, float *bias, float *query)
{
    const int64_t dim = l->model->info.dim;
    RVIT_TRY(rvit_weights_read(l, RVIT_ROLE_MAP_LATENT, 0, dim, latent));
    if (rvit_weights_has(l, RVIT_ROLE_MAP_K_WEIGHT) && !rvit_weights_has(l, RVIT_ROLE_MAP_Q_WEIGHT)) {
        memcpy(query, latent, (size_t)dim * sizeof *query);
        return RVIT_OK;
    }
    RVIT_TRY(rvit_weights_read_map_part(l, 0, 1, bias));
    RVIT_TRY(rvit_weights_read_map_part(l, 0, 0, l->values));
    for (int64_t j = 0; j < dim; j++) {
        double sum = (double)bias[j];
        for (int64_t i = 0; i < dim; i++)
            sum += (double)l->values[j * dim + i] * (double)latent[i];
        query[j] = (float)sum;
    }
    return RVIT_OK;
}

/* Loads the folded query. l->more holds the latent, the query, the bias, then U. */
static rvit_status load_map_query(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const int64_t dim = model->info.dim, n = model->map.logits * dim;
    RVIT_TRY(rvit_weights_place(l, n, model->dtype, &model->map.query_weight));
    /* Room for a tensor of [dim, dim], and in l->more for the values above. */
    if (l->largest < dim * dim)
        l->largest = dim * dim;
    if (l->largest < n + 3 * dim)
        l->largest = n + 3 * dim;
    if (l->stream == NULL)
        return RVIT_OK;
    float *latent = l->more, *query = latent + dim, *bias = query + dim, *folded = bias + dim;
    RVIT_TRY(read_map_query(l, latent, bias, query));
    RVIT_TRY(rvit_weights_read_map_part(l, 1, 0, l->values));
    fold_query(l, query, l->values, folded);
    memcpy(l->values, folded, (size_t)n * sizeof *folded);
    return rvit_weights_write(l, n, model->dtype, model->map.query_weight);
}

static rvit_status load_map_values(rvit_weights_loader *l, int32_t bias, rvit_dtype dtype, rvit_view *view)
{
    const int64_t dim = l->model->info.dim, n = bias ? dim : dim * dim;
    RVIT_TRY(rvit_weights_place(l, n, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read_map_part(l, 2, bias, l->values));
    return rvit_weights_write(l, n, dtype, *view);
}

static rvit_status load_map_mlp(rvit_weights_loader *l)
{
    rvit_map_weights *map = &l->model->map;
    const int64_t dim = l->model->info.dim, mlp = map->mlp_dim, width = map->mlp_width;
    const rvit_dtype dtype = l->model->dtype;
    RVIT_TRY(
        rvit_weights_load_padded(l, RVIT_ROLE_MAP_FC1_WEIGHT, 0, (int64_t[]){mlp, dim}, (int64_t[]){width, dim}, dtype, &map->fc1_weight));
    RVIT_TRY(rvit_weights_load_padded(l, RVIT_ROLE_MAP_FC1_BIAS, 0, (int64_t[]){1, mlp}, (int64_t[]){1, width}, RVIT_F32, &map->fc1_bias));
    RVIT_TRY(
        rvit_weights_load_padded(l, RVIT_ROLE_MAP_FC2_WEIGHT, 0, (int64_t[]){dim, mlp}, (int64_t[]){dim, width}, dtype, &map->fc2_weight));
    return rvit_weights_load(l, RVIT_ROLE_MAP_FC2_BIAS, 0, dim, RVIT_F32, &map->fc2_bias);
}

static rvit_status load_map(rvit_weights_loader *l)
{
    rvit_map_weights *map = &l->model->map;
    const rvit_model_info *info = &l->model->info;
    const int64_t dim = info->dim;
    const rvit_dtype dtype = l->model->dtype;
    map->n_heads = l->checkpoint->config.map_heads;
    map->head_dim = info->dim / map->n_heads;
    map->activation = l->checkpoint->config.map_activation;
    map->logits = (map->n_heads + 3) / 4 * 4;
    map->mlp_dim = l->checkpoint->config.map_mlp;
    map->mlp_width = (map->mlp_dim + 7) / 8 * 8;
    RVIT_TRY(load_map_query(l));
    RVIT_TRY(load_map_values(l, 0, dtype, &map->value_weight));
    RVIT_TRY(load_map_values(l, 1, RVIT_F32, &map->value_bias));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_MAP_PROJ_WEIGHT, 0, dim * dim, dtype, &map->proj_weight));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_MAP_PROJ_BIAS, 0, dim, RVIT_F32, &map->proj_bias));
    if (map->mlp_dim == 0)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_MAP_NORM_GAMMA, RVIT_ROLE_MAP_NORM_BETA, 0, &map->norm_gamma, &map->norm_beta));
    return load_map_mlp(l);
}

static rvit_status load_predictor(rvit_weights_loader *l, int32_t p)
{
    const int64_t dim = l->model->info.dim, half = dim / 2, quarter = dim / 4;
    const rvit_dtype dtype = l->model->dtype;
    rvit_predictor_weights *w = &l->model->predictors[p];
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_NORM_GAMMA, p, dim, RVIT_F32, &w->norm_gamma));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_NORM_BETA, p, dim, RVIT_F32, &w->norm_beta));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_IN_WEIGHT, p, dim * dim, dtype, &w->in_weight));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_IN_BIAS, p, dim, RVIT_F32, &w->in_bias));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_OUT0_WEIGHT, p, half * dim, dtype, &w->out_weight[0]));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_OUT0_BIAS, p, half, RVIT_F32, &w->out_bias[0]));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_OUT1_WEIGHT, p, quarter * half, dtype, &w->out_weight[1]));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_OUT1_BIAS, p, quarter, RVIT_F32, &w->out_bias[1]));
    RVIT_TRY(rvit_weights_load(l, RVIT_ROLE_PREDICTOR_KEEP_WEIGHT, p, 2 * quarter, dtype, &w->keep_weight));
    return rvit_weights_load(l, RVIT_ROLE_PREDICTOR_KEEP_BIAS, p, 2, RVIT_F32, &w->keep_bias);
}

static rvit_status walk(rvit_weights_loader *l)
{
    rvit_model *model = l->model;
    const rvit_model_info *info = &model->info;
    l->size = 0;
    RVIT_TRY(load_patch_weights(l));
    RVIT_TRY(load_embedding(l));
    RVIT_TRY(load_patch_norm(l));
    RVIT_TRY(load_rope_table(l));
    if (info->norm_pre)
        RVIT_TRY(
            rvit_weights_load_norm(l, RVIT_ROLE_NORM_PRE_GAMMA, RVIT_ROLE_NORM_PRE_BETA, 0, &model->norm_pre_gamma, &model->norm_pre_beta));
    for (int32_t b = 0; b < info->depth; b++)
        RVIT_TRY(rvit_weights_load_block(l, b));
    if (info->final_norm)
        RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_NORM_GAMMA, RVIT_ROLE_NORM_BETA, 0, &model->norm_gamma, &model->norm_beta));
    if (l->checkpoint->config.fc_norm)
        RVIT_TRY(
            rvit_weights_load_norm(l, RVIT_ROLE_FC_NORM_GAMMA, RVIT_ROLE_FC_NORM_BETA, 0, &model->fc_norm_gamma, &model->fc_norm_beta));
    if (info->pooling == RVIT_POOLING_MAP)
        RVIT_TRY(load_map(l));
    RVIT_TRY(load_mergers(l));
    for (int32_t p = 0; p < model->files.n_predictors; p++)
        RVIT_TRY(load_predictor(l, p));
    return info->n_classes > 0 ? load_head(l) : RVIT_OK;
}

/* Rows of the largest weight of a block. */
static int64_t max_rows(const rvit_model *model)
{
    const int64_t qkv = 3 * (int64_t)model->info.dim, fc1 = (model->info.gated ? 2 : 1) * (int64_t)model->mlp_width;
    return qkv > fc1 ? qkv : fc1;
}

#define STAGING_SIZE (2 << 20)

/* The second pass: reads, converts and writes the weights. */
static rvit_status transfer(rvit_model *model, const rvit_checkpoint *checkpoint, int64_t largest)
{
    rvit_alloc *alloc = &model->device->alloc;
    rvit_weights_loader l = {.checkpoint = checkpoint, .model = model, .size = model->info.weights_size, .largest = largest};
    const size_t n = (size_t)l.largest;
    l.values = rvit_alloc_array(alloc, n, sizeof *l.values);
    l.more = rvit_alloc_array(alloc, n + ((size_t)model->info.n_prefix + 1) * (size_t)model->info.dim, sizeof *l.more);
    l.scales = rvit_alloc_array(alloc, (size_t)max_rows(model), sizeof *l.scales);
    rvit_status status = l.values == NULL || l.more == NULL || l.scales == NULL ? RVIT_OUT_OF_HOST_MEMORY : RVIT_OK;
    if (status == RVIT_OK)
        status = rvit_buffer_create(model->device, l.size < STAGING_SIZE ? l.size : STAGING_SIZE, RVIT_BUFFER_UPLOAD, &l.staging);
    if (status == RVIT_OK)
        status = rvit_stream_create(model->device, &l.stream);
    if (status == RVIT_OK)
        status = walk(&l);
    if (status == RVIT_OK)
        status = rvit_weights_copy_staged(&l);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(l.stream);
    if (status == RVIT_OK)
        status = rvit_model_arrange(model, l.stream);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(l.stream);
    rvit_stream_destroy(l.stream);
    rvit_buffer_destroy(l.staging);
    rvit_alloc_free(alloc, l.values);
    rvit_alloc_free(alloc, l.more);
    rvit_alloc_free(alloc, l.scales);
    return status;
}

rvit_status rvit_model_load(rvit_model *model, const rvit_checkpoint *checkpoint)
{
    model->blocks = rvit_alloc_array(&model->device->alloc, (size_t)model->info.depth, sizeof *model->blocks);
    RVIT_TRY_MEMORY(model->blocks);
    rvit_weights_loader l = {.checkpoint = checkpoint, .model = model};
    RVIT_TRY(walk(&l));
    RVIT_TRY(rvit_buffer_create(model->device, l.size, RVIT_BUFFER_DEVICE, &model->weights));
    model->info.weights_size = l.size;
    return transfer(model, checkpoint, l.largest);
}

rvit_status rvit_model_reload(rvit_model *model, const rvit_checkpoint *checkpoint)
{
    /* The first pass assigns the same offsets again; it is needed for the size of the largest tensor. */
    rvit_weights_loader l = {.checkpoint = checkpoint, .model = model};
    RVIT_TRY(walk(&l));
    return transfer(model, checkpoint, l.largest);
}
