/* Loads the weights of a block. */
#include <string.h>

#include "core/contract/op.h"
#include "core/model/checkpoint.h"
#include "core/weights/input_bounds.h"
#include "core/weights/quantize.h"

/* The destination of a tensor: the quantized weight of a linear layer, or a view in dtype. */
typedef struct target {
    rvit_dtype dtype;
    rvit_view *view;
    rvit_linear_weights *quantized; /* NULL: not quantized */
    const float *scales;            /* the file's scales of a quantized weight, or NULL */
} target;

static target to_view(rvit_dtype dtype, rvit_view *view)
{
    return (target){dtype, view, NULL, NULL};
}

static rvit_status to_weight(rvit_weights_loader *l, int32_t block, rvit_block_linear linear, target *to)
{
    rvit_linear_weights *w = &l->model->blocks[block].linears[linear];
    w->dtype = rvit_block_dtype(l->model, l->checkpoint, block, linear);
    const int quantized = rvit_is_quantized(w->dtype), from_file = quantized && rvit_file_layer_is_quantized(l->checkpoint, block, linear);
    *to = (target){w->dtype, &w->weight, quantized ? w : NULL, from_file ? l->scales : NULL};
    return from_file && l->stream != NULL ? rvit_file_weight_scales(l, block, linear, l->scales) : RVIT_OK;
}

/* Assigns an offset to n elements, in rows of `columns`. */
static rvit_status assign(rvit_weights_loader *l, int64_t n, int64_t columns, const target *to)
{
    return to->quantized != NULL ? rvit_weights_place_quantized(l, n / columns, columns, to->quantized)
                                 : rvit_weights_place(l, n, to->dtype, to->view);
}

/* Writes n of l->values. */
static rvit_status write(rvit_weights_loader *l, int64_t n, int64_t columns, const target *to)
{
    return to->quantized != NULL ? rvit_weights_write_quantized(l, n / columns, columns, to->scales, to->quantized)
                                 : rvit_weights_write(l, n, to->dtype, *to->view);
}

/* The static scale of a layer's inputs, from the file or from their bound. */
static rvit_status load_input_scale(rvit_weights_loader *l, int32_t block, rvit_block_linear linear)
{
    rvit_linear_weights *w = &l->model->blocks[block].linears[linear];
    rvit_file_scales file;
    RVIT_TRY(rvit_file_scales_of(l->checkpoint, block, linear, &file));
    float scale = rvit_is_quantized(w->dtype) ? file.input : 0.0f;
    w->bounded = rvit_input_is_bounded(l->model, w->dtype, &file, linear);
    w->one_scale = rvit_inputs_have_one_scale(w->dtype, &file, w->bounded);
    if (scale == 0.0f && !w->bounded)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_place(l, 1, RVIT_F32, &w->input_scale));
    if (l->stream == NULL)
        return RVIT_OK;
    if (w->bounded)
        RVIT_TRY(rvit_weights_bound_input(l, block, linear, &scale));
    return rvit_weights_write_raw(l, &scale, sizeof scale, w->input_scale);
}

/* Queries, keys and values [3 n], from one tensor or from three. */
rvit_status rvit_weights_read_qkv(const rvit_weights_loader *l, rvit_role role, int32_t block, int64_t n, float *values)
{
    if (rvit_weights_has(l, role))
        return rvit_weights_read(l, role, block, 3 * n, values);
    static const rvit_role weights[] = {RVIT_ROLE_Q_WEIGHT, RVIT_ROLE_K_WEIGHT, RVIT_ROLE_V_WEIGHT};
    static const rvit_role biases[] = {RVIT_ROLE_Q_BIAS, RVIT_ROLE_K_BIAS, RVIT_ROLE_V_BIAS};
    for (int64_t i = 0; i < 3; i++) {
        const rvit_role part = role == RVIT_ROLE_QKV_WEIGHT ? weights[i] : biases[i];
        if (rvit_weights_has(l, part))
            RVIT_TRY(rvit_weights_read(l, part, block, n, values + i * n));
        else
            memset(values + i * n, 0, (size_t)n * sizeof *values);
    }
    return RVIT_OK;
}

/* Whether queries and keys must be reordered from the file's layout of rotated pairs to that of the kernels. */
static int rearranges(const rvit_weights_loader *l)
{
    return rvit_model_rotates(l->model) && l->checkpoint->config.rope.layout == RVIT_ROPE_INTERLEAVED;
}

/* Loads queries, keys and values, concatenated, from one tensor or from three. role: the role of the one tensor. */
static rvit_status load_qkv(rvit_weights_loader *l, rvit_role role, int32_t block, int64_t columns, target to)
{
    const rvit_model_info *info = &l->model->info;
    const int64_t n = info->dim * columns;
    if (rvit_weights_has(l, role) && !rearranges(l) && to.quantized == NULL)
        return rvit_weights_load(l, role, block, 3 * n, to.dtype, to.view);
    RVIT_TRY(assign(l, 3 * n, columns, &to));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read_qkv(l, role, block, n, l->values));
    if (rearranges(l)) {
        memcpy(l->more, l->values, 2 * (size_t)n * sizeof *l->more);
        rvit_rope_to_half(l->more, 2 * info->n_heads, info->head_dim, columns, l->values);
    }
    return write(l, 3 * n, columns, &to);
}

static rvit_status load_qkv_bias(rvit_weights_loader *l, int32_t block, rvit_linear_weights *w)
{
    const int64_t n = l->model->info.dim;
    const rvit_dtype dtype = l->model->dtype;
    if (!l->checkpoint->config.qkv_bias) {
        RVIT_TRY(rvit_weights_load_zeros(l, 3 * n, RVIT_F32, &w->bias));
        return dtype == RVIT_F32 ? RVIT_OK : rvit_weights_load_zeros(l, 3 * n, dtype, &w->narrow_bias);
    }
    RVIT_TRY(load_qkv(l, RVIT_ROLE_QKV_BIAS, block, 1, to_view(RVIT_F32, &w->bias)));
    return dtype == RVIT_F32 ? RVIT_OK : load_qkv(l, RVIT_ROLE_QKV_BIAS, block, 1, to_view(dtype, &w->narrow_bias));
}

/* Loads the weight [dim, n] or, with n 1, the bias of a GEMM whose result is added to the residual stream. Folds the layer scale of the
   result into the rows. padded: the elements of a row; those past n are zero. */
static rvit_status load_scaled(rvit_weights_loader *l, rvit_role role, rvit_role scale, int32_t block, int64_t n, int64_t padded, target to)
{
    const int64_t dim = l->model->info.dim;
    if (!l->checkpoint->config.layer_scale && n == padded && to.quantized == NULL)
        return rvit_weights_load(l, role, block, dim * n, to.dtype, to.view);
    RVIT_TRY(assign(l, dim * padded, padded, &to));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(l, role, block, dim * n, l->more));
    memset(l->values, 0, (size_t)(dim * padded) * sizeof *l->values);
    for (int64_t row = 0; row < dim; row++)
        memcpy(l->values + row * padded, l->more + row * n, (size_t)n * sizeof *l->values);
    if (l->checkpoint->config.layer_scale) {
        RVIT_TRY(rvit_weights_read(l, scale, block, dim, l->more));
        for (int64_t row = 0; row < dim; row++)
            for (int64_t i = 0; i < n; i++)
                l->values[row * padded + i] *= l->more[row];
    }
    return write(l, dim * padded, padded, &to);
}

/* Loads fc1's weight or, with columns 1, its bias, padded with zero rows to mlp_width. In a gated MLP, rows of gate and values alternate.
   gate: the role of a separate gate. */
static rvit_status load_fc1(rvit_weights_loader *l, rvit_role role, rvit_role gate, int32_t block, int64_t columns, target to)
{
    const int64_t mlp = l->model->info.mlp_dim, width = l->model->mlp_width, parts = l->model->info.gated ? 2 : 1;
    if (parts == 1 && mlp == width && to.quantized == NULL)
        return rvit_weights_load(l, role, block, mlp * columns, to.dtype, to.view);
    RVIT_TRY(assign(l, parts * width * columns, columns, &to));
    if (l->stream == NULL)
        return RVIT_OK;
    const int separate = rvit_weights_has(l, gate);
    if (separate)
        RVIT_TRY(rvit_weights_read(l, gate, block, mlp * columns, l->more));
    RVIT_TRY(rvit_weights_read(l, role, block, (separate ? 1 : parts) * mlp * columns, l->more + (separate ? mlp * columns : 0)));
    memset(l->values, 0, (size_t)(parts * width * columns) * sizeof *l->values);
    for (int64_t part = 0; part < parts; part++)
        for (int64_t row = 0; row < mlp; row++)
            memcpy(l->values + (row * parts + part) * columns, l->more + (part * mlp + row) * columns, (size_t)columns * sizeof *l->values);
    return write(l, parts * width * columns, columns, &to);
}

static rvit_status load_mlp(rvit_weights_loader *l, int32_t b, rvit_block_weights *w)
{
    const int64_t dim = l->model->info.dim, mlp = l->model->info.mlp_dim, width = l->model->mlp_width;
    const rvit_dtype dtype = l->model->dtype;
    rvit_linear_weights *fc1 = &w->linears[RVIT_BLOCK_FC1], *fc2 = &w->linears[RVIT_BLOCK_FC2];
    const int biased = l->checkpoint->config.mlp_bias;
    target to;
    RVIT_TRY(to_weight(l, b, RVIT_BLOCK_FC1, &to));
    RVIT_TRY(load_fc1(l, RVIT_ROLE_FC1_WEIGHT, RVIT_ROLE_GATE_WEIGHT, b, dim, to));
    RVIT_TRY(biased ? load_fc1(l, RVIT_ROLE_FC1_BIAS, RVIT_ROLE_GATE_BIAS, b, 1, to_view(RVIT_F32, &fc1->bias))
                    : rvit_weights_load_zeros(l, (l->model->info.gated ? 2 : 1) * width, RVIT_F32, &fc1->bias));
    if (biased && l->model->info.activation == RVIT_ACTIVATION_GELU_TANH && !l->model->info.gated && dtype != RVIT_F32)
        RVIT_TRY(load_fc1(l, RVIT_ROLE_FC1_BIAS, RVIT_ROLE_GATE_BIAS, b, 1, to_view(dtype, &fc1->narrow_bias)));
    RVIT_TRY(to_weight(l, b, RVIT_BLOCK_FC2, &to));
    RVIT_TRY(load_scaled(l, RVIT_ROLE_FC2_WEIGHT, RVIT_ROLE_SCALE2, b, mlp, width, to));
    if (fc2->dtype == RVIT_E4M3)
        RVIT_TRY(biased ? load_scaled(l, RVIT_ROLE_FC2_BIAS, RVIT_ROLE_SCALE2, b, 1, 1, to_view(RVIT_BF16, &fc2->narrow_bias))
                        : rvit_weights_load_zeros(l, dim, RVIT_BF16, &fc2->narrow_bias));
    return biased ? load_scaled(l, RVIT_ROLE_FC2_BIAS, RVIT_ROLE_SCALE2, b, 1, 1, to_view(RVIT_F32, &fc2->bias))
                  : rvit_weights_load_zeros(l, dim, RVIT_F32, &fc2->bias);
}

/* The norms inside attention and MLP. */
static rvit_status load_inner_norms(rvit_weights_loader *l, int32_t b, rvit_block_weights *w)
{
    const rvit_model *m = l->model;
    if (m->attention_norm)
        RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_ATTENTION_NORM_GAMMA, RVIT_ROLE_ATTENTION_NORM_BETA, b, &w->attention_norm_gamma,
                                        &w->attention_norm_beta));
    return !m->mlp_norm ? RVIT_OK
                        : rvit_weights_load_norm_of(l, RVIT_ROLE_MLP_NORM_GAMMA, RVIT_ROLE_MLP_NORM_BETA, b, m->info.mlp_dim, m->mlp_width,
                                                    &w->mlp_norm_gamma, &w->mlp_norm_beta);
}

rvit_status rvit_weights_load_block(rvit_weights_loader *l, int32_t b)
{
    const int64_t dim = l->model->info.dim;
    rvit_block_weights *w = &l->model->blocks[b];
    rvit_view *proj_bias = &w->linears[RVIT_BLOCK_PROJ].bias;
    target to;
    RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_NORM1_GAMMA, RVIT_ROLE_NORM1_BETA, b, &w->norm1_gamma, &w->norm1_beta));
    RVIT_TRY(to_weight(l, b, RVIT_BLOCK_QKV, &to));
    RVIT_TRY(load_qkv(l, RVIT_ROLE_QKV_WEIGHT, b, dim, to));
    RVIT_TRY(load_qkv_bias(l, b, &w->linears[RVIT_BLOCK_QKV]));
    RVIT_TRY(to_weight(l, b, RVIT_BLOCK_PROJ, &to));
    RVIT_TRY(load_scaled(l, RVIT_ROLE_PROJ_WEIGHT, RVIT_ROLE_SCALE1, b, dim, dim, to));
    RVIT_TRY(l->checkpoint->config.proj_bias ? load_scaled(l, RVIT_ROLE_PROJ_BIAS, RVIT_ROLE_SCALE1, b, 1, 1, to_view(RVIT_F32, proj_bias))
                                             : rvit_weights_load_zeros(l, dim, RVIT_F32, proj_bias));
    RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_NORM2_GAMMA, RVIT_ROLE_NORM2_BETA, b, &w->norm2_gamma, &w->norm2_beta));
    RVIT_TRY(load_inner_norms(l, b, w));
    RVIT_TRY(load_mlp(l, b, w));
    for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++)
        RVIT_TRY(load_input_scale(l, b, (rvit_block_linear)i));
    return RVIT_OK;
}
