/* Loads the weights of a block. */
#include "core/vit_weights.h"

#include <string.h>

#include "core/checkpoint.h"

/* Queries, keys and values [3 n], from wherever the file has them. */
static rvit_status read_qkv(const rvit_weights_loader *l, rvit_role role, int32_t block, int64_t n, float *values)
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

/* Whether queries and keys are to be brought from the file's layout of rotated pairs to that of the kernels. */
static int rearranges(const rvit_weights_loader *l)
{
    return rvit_model_rotates(l->model) && l->checkpoint->config.rope.layout == RVIT_ROPE_INTERLEAVED;
}

/* Loads queries, keys and values one after another, whether the file stores them together or apart. role: that of all three together. */
static rvit_status load_qkv(rvit_weights_loader *l, rvit_role role, int32_t block, int64_t n, rvit_dtype dtype, rvit_view *view)
{
    const rvit_model_info *info = &l->model->info;
    if (rvit_weights_has(l, role) && !rearranges(l))
        return rvit_weights_load(l, role, block, 3 * n, dtype, view);
    RVIT_TRY(rvit_weights_place(l, 3 * n, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(read_qkv(l, role, block, n, l->values));
    if (rearranges(l)) {
        memcpy(l->more, l->values, 2 * (size_t)n * sizeof *l->more);
        rvit_rope_to_half(l->more, 2 * info->n_heads, info->head_dim, n / info->dim, l->values);
    }
    return rvit_weights_write(l, 3 * n, dtype, *view);
}

static rvit_status load_qkv_bias(rvit_weights_loader *l, int32_t block, rvit_block_weights *w)
{
    const int64_t n = l->model->info.dim;
    if (!l->checkpoint->config.qkv_bias) {
        RVIT_TRY(rvit_weights_load_zeros(l, 3 * n, RVIT_F32, &w->qkv_bias));
        return l->model->dtype == RVIT_F32 ? RVIT_OK : rvit_weights_load_zeros(l, 3 * n, l->model->dtype, &w->qkv_bias_narrow);
    }
    RVIT_TRY(load_qkv(l, RVIT_ROLE_QKV_BIAS, block, n, RVIT_F32, &w->qkv_bias));
    if (l->model->dtype == RVIT_F32)
        return RVIT_OK;
    return load_qkv(l, RVIT_ROLE_QKV_BIAS, block, n, l->model->dtype, &w->qkv_bias_narrow);
}

/* Loads the weight [dim, n] or, with n 1, the bias of a GEMM whose result is added to the residual stream. The layer scale of the result is
   folded into the rows. padded: the row's elements, of which those past the file's n are zero. */
static rvit_status load_scaled(rvit_weights_loader *l, rvit_role role, rvit_role scale, int32_t block, int64_t n, int64_t padded,
                               rvit_dtype dtype, rvit_view *view)
{
    const int64_t dim = l->model->info.dim;
    if (!l->checkpoint->config.layer_scale && n == padded)
        return rvit_weights_load(l, role, block, dim * n, dtype, view);
    RVIT_TRY(rvit_weights_place(l, dim * padded, dtype, view));
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
    return rvit_weights_write(l, dim * padded, dtype, *view);
}

/* Loads fc1's weight or, with columns 1, its bias: padded to mlp_width rows that are zero; of a gated MLP a row of the gate and one of the
   values in turn. gate: the role of the gate where it lies apart. */
static rvit_status load_fc1(rvit_weights_loader *l, rvit_role role, rvit_role gate, int32_t block, int64_t columns, rvit_dtype dtype,
                            rvit_view *view)
{
    const int64_t mlp = l->model->info.mlp_dim, width = l->model->mlp_width, parts = l->model->info.gated ? 2 : 1;
    if (parts == 1 && mlp == width)
        return rvit_weights_load(l, role, block, mlp * columns, dtype, view);
    RVIT_TRY(rvit_weights_place(l, parts * width * columns, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    const int apart = rvit_weights_has(l, gate);
    if (apart)
        RVIT_TRY(rvit_weights_read(l, gate, block, mlp * columns, l->more));
    RVIT_TRY(rvit_weights_read(l, role, block, (apart ? 1 : parts) * mlp * columns, l->more + (apart ? mlp * columns : 0)));
    memset(l->values, 0, (size_t)(parts * width * columns) * sizeof *l->values);
    for (int64_t part = 0; part < parts; part++)
        for (int64_t row = 0; row < mlp; row++)
            memcpy(l->values + (row * parts + part) * columns, l->more + (part * mlp + row) * columns, (size_t)columns * sizeof *l->values);
    return rvit_weights_write(l, parts * width * columns, dtype, *view);
}

static rvit_status load_mlp(rvit_weights_loader *l, int32_t b, rvit_block_weights *w)
{
    const int64_t dim = l->model->info.dim, mlp = l->model->info.mlp_dim, width = l->model->mlp_width;
    const rvit_dtype dtype = l->model->dtype;
    RVIT_TRY(load_fc1(l, RVIT_ROLE_FC1_WEIGHT, RVIT_ROLE_GATE_WEIGHT, b, dim, dtype, &w->fc1_weight));
    if (!l->checkpoint->config.mlp_bias) {
        RVIT_TRY(rvit_weights_load_zeros(l, (l->model->info.gated ? 2 : 1) * width, RVIT_F32, &w->fc1_bias));
        RVIT_TRY(load_scaled(l, RVIT_ROLE_FC2_WEIGHT, RVIT_ROLE_SCALE2, b, mlp, width, dtype, &w->fc2_weight));
        return rvit_weights_load_zeros(l, dim, RVIT_F32, &w->fc2_bias);
    }
    RVIT_TRY(load_fc1(l, RVIT_ROLE_FC1_BIAS, RVIT_ROLE_GATE_BIAS, b, 1, RVIT_F32, &w->fc1_bias));
    if (l->model->info.activation == RVIT_ACTIVATION_GELU_TANH && !l->model->info.gated && dtype != RVIT_F32)
        RVIT_TRY(load_fc1(l, RVIT_ROLE_FC1_BIAS, RVIT_ROLE_GATE_BIAS, b, 1, dtype, &w->fc1_bias_narrow));
    RVIT_TRY(load_scaled(l, RVIT_ROLE_FC2_WEIGHT, RVIT_ROLE_SCALE2, b, mlp, width, dtype, &w->fc2_weight));
    return load_scaled(l, RVIT_ROLE_FC2_BIAS, RVIT_ROLE_SCALE2, b, 1, 1, RVIT_F32, &w->fc2_bias);
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
    const rvit_dtype dtype = l->model->dtype;
    rvit_block_weights *w = &l->model->blocks[b];
    RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_NORM1_GAMMA, RVIT_ROLE_NORM1_BETA, b, &w->norm1_gamma, &w->norm1_beta));
    RVIT_TRY(load_qkv(l, RVIT_ROLE_QKV_WEIGHT, b, dim * dim, dtype, &w->qkv_weight));
    RVIT_TRY(load_qkv_bias(l, b, w));
    RVIT_TRY(load_scaled(l, RVIT_ROLE_PROJ_WEIGHT, RVIT_ROLE_SCALE1, b, dim, dim, dtype, &w->proj_weight));
    RVIT_TRY(l->checkpoint->config.proj_bias ? load_scaled(l, RVIT_ROLE_PROJ_BIAS, RVIT_ROLE_SCALE1, b, 1, 1, RVIT_F32, &w->proj_bias)
                                             : rvit_weights_load_zeros(l, dim, RVIT_F32, &w->proj_bias));
    RVIT_TRY(rvit_weights_load_norm(l, RVIT_ROLE_NORM2_GAMMA, RVIT_ROLE_NORM2_BETA, b, &w->norm2_gamma, &w->norm2_beta));
    RVIT_TRY(load_inner_norms(l, b, w));
    return load_mlp(l, b, w);
}
