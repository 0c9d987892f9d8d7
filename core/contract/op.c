/* The arrays of each op, and the device-independent rules for its args. */
#include "core/contract/op.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"
#include "core/contract/image_descriptor.h"

const char *rvit_op_name(rvit_op_type type)
{
    static const char *const names[] = {
#define RVIT_OP(TYPE, name) #name,
#include "core/contract/ops.def"
    };
    return (int)type >= 0 && type < RVIT_OP_COUNT ? names[type] : "unknown op";
}

/* The sum of this many 32-bit integers, times this number, fits in 64 bits. */
enum { MAX_SUMMED = 1 << 16 };

/* Functions for the expressions of ops.def. */

static int64_t ints(int64_t n)
{
    return 4 * n;
}

static int64_t floats(int64_t n)
{
    return 4 * n;
}

static int64_t matrix(int64_t rows, int64_t columns, rvit_dtype dtype)
{
    return rows * columns * rvit_dtype_size(dtype);
}

/* Bytes of rows of `width` elements, `stride` elements apart. */
static int64_t strided(int64_t rows, int64_t stride, int64_t width, rvit_dtype dtype)
{
    return rows == 0 ? 0 : ((rows - 1) * stride + width) * rvit_dtype_size(dtype);
}

static int64_t pixels(const rvit_patchify_args *a)
{
    return (int64_t)a->n_images * a->channels * a->image_height * a->image_width;
}

static int64_t patch_rows(const rvit_patchify_args *a)
{
    return a->n_images * (a->n_prefix + (int64_t)(a->image_height / a->patch_size) * (a->image_width / a->patch_size));
}

static int64_t patch_elements(const rvit_patchify_args *a)
{
    return patch_rows(a) * a->out_stride;
}

static int64_t groups_of(const rvit_grid_layout_args *a)
{
    return a->merge > 1 ? a->rows / (a->merge * a->merge) : a->rows;
}

static int64_t residual_rows(const rvit_linear_args *a)
{
    return a->residual_period == 0 ? a->rows.capacity : a->residual_period;
}

/* Elements of a row of all heads, for any op with heads. */
#define HEADS_WIDTH(a) ((int64_t)(a)->n_heads * (a)->head_dim)

/* Whether select scores rows with this score type. */
static int scores_by(const rvit_select_args *a, rvit_score_type score)
{
    return a->mode != RVIT_SELECT_MASK && a->score == score;
}

/* Whether select reads the rows themselves. */
static int scores_rows(const rvit_select_args *a)
{
    return scores_by(a, RVIT_SCORE_L2) || scores_by(a, RVIT_SCORE_CLS_NORM) || scores_by(a, RVIT_SCORE_PREDICTOR);
}

/* Whether select reads the attention of the CLS token. */
static int scores_cls(const rvit_select_args *a)
{
    return scores_by(a, RVIT_SCORE_CLS_ATTENTION) || scores_by(a, RVIT_SCORE_CLS_NORM);
}

/* Rules. They bound capacities so that no multiplication below overflows: rows < 2^31, elements of a row < 2^31. */

static rvit_status check_range(const rvit_op *op, const char *name, int64_t value, int64_t min, int64_t max)
{
    if (value < min || value > max)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is %lld, expected %lld..%lld", rvit_op_name(op->type), name, (long long)value,
                         (long long)min, (long long)max);
    return RVIT_OK;
}

static rvit_status check_multiple(const rvit_op *op, const char *name, int64_t value, int64_t factor)
{
    if (value % factor != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is %lld, expected a multiple of %lld", rvit_op_name(op->type), name,
                         (long long)value, (long long)factor);
    return RVIT_OK;
}

static rvit_status check_dtype(const rvit_op *op, const char *name, rvit_dtype dtype)
{
    if (!rvit_op_takes(dtype))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s: %d is not a valid dtype", rvit_op_name(op->type), name, (int)dtype);
    return RVIT_OK;
}

static rvit_status check_floats(const rvit_op *op, const char *name, rvit_dtype dtype)
{
    RVIT_TRY(check_dtype(op, name, dtype));
    if (rvit_is_quantized(dtype))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is %s, expected f32, f16 or bf16", rvit_op_name(op->type), name,
                         rvit_enum_name(RVIT_ENUM_DTYPE, dtype));
    return RVIT_OK;
}

static rvit_status check_quantized_width(const rvit_op *op, const char *name, int64_t n)
{
    RVIT_TRY(check_range(op, name, n, 16, RVIT_MAX_QUANTIZED_COLUMNS));
    return check_multiple(op, name, n, 16);
}

/* Refuses an array of quantized rows when the rows are not quantized. */
static rvit_status check_absent(const rvit_op *op, const char *name, rvit_view view, const char *of, rvit_dtype dtype)
{
    if (view.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is given, but %s is %s, which has no scales", rvit_op_name(op->type), name, of,
                         rvit_enum_name(RVIT_ENUM_DTYPE, dtype));
    return RVIT_OK;
}

static rvit_status check_eps(const rvit_op *op, float eps)
{
    if (!(eps > 0.0f) || !isfinite(eps))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: eps is %g, expected a finite value above 0", rvit_op_name(op->type), (double)eps);
    return RVIT_OK;
}

static rvit_status check_norm(const rvit_op *op, rvit_norm norm, float eps, rvit_view beta)
{
    RVIT_TRY(check_range(op, "norm", norm, RVIT_NORM_LAYER, RVIT_NORM_RMS));
    if (norm == RVIT_NORM_RMS && beta.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: beta is given, but an RMS norm has none", rvit_op_name(op->type));
    return check_eps(op, eps);
}

/* Without gamma there is no norm. */
static rvit_status check_optional_norm(const rvit_op *op, rvit_norm norm, float eps, rvit_view gamma, rvit_view beta)
{
    if (gamma.buffer != NULL)
        return check_norm(op, norm, eps, beta);
    if (beta.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: beta is given without gamma", rvit_op_name(op->type));
    return check_range(op, "norm", norm, RVIT_NORM_LAYER, RVIT_NORM_RMS);
}

static rvit_status check_rows(const rvit_op *op, const char *name, int64_t rows)
{
    return check_range(op, name, rows, 0, INT32_MAX - 1);
}

static rvit_status check_live_rows(const rvit_op *op, const char *name, const rvit_rows *rows)
{
    RVIT_TRY(check_rows(op, name, rows->capacity));
    return check_range(op, "padded", rows->padded, RVIT_ROWS_EXACT, RVIT_ROWS_PADDED);
}

static rvit_status check_images(const rvit_op *op, int64_t n_images)
{
    return check_range(op, "n_images", n_images, 0, INT32_MAX - 1);
}

/* The images of a ragged batch, and its rows. */
static rvit_status check_batch(const rvit_op *op, int64_t n_images, int64_t max_len, int64_t rows)
{
    RVIT_TRY(check_images(op, n_images));
    RVIT_TRY(check_range(op, "max_len", max_len, 0, INT32_MAX - 1));
    return check_rows(op, "rows", rows);
}

static rvit_status check_dim(const rvit_op *op, const char *name, int64_t dim)
{
    RVIT_TRY(check_range(op, name, dim, 4, 1 << 24));
    return check_multiple(op, name, dim, 4);
}

/* Checks the row length of an output that may be quantized, and its scales. */
static rvit_status check_out(const rvit_op *op, const char *name, int64_t n, rvit_dtype dtype, rvit_view scales, rvit_view static_scale,
                             rvit_view saturated)
{
    if (rvit_is_quantized(dtype))
        return check_quantized_width(op, name, n);
    RVIT_TRY(check_absent(op, "out_scales", scales, "out_dtype", dtype));
    RVIT_TRY(check_absent(op, "static_scale", static_scale, "out_dtype", dtype));
    RVIT_TRY(check_absent(op, "saturated", saturated, "out_dtype", dtype));
    return check_dim(op, name, n);
}

static rvit_status prepare_copy(rvit_op *op)
{
    RVIT_TRY(check_range(op, "size", op->copy.size, 0, INT64_MAX / 2));
    return check_multiple(op, "size", op->copy.size, 4);
}

/* Height or width of an image. */
static rvit_status check_side(const rvit_op *op, const char *name, int32_t side)
{
    const rvit_patchify_args *a = &op->patchify;
    RVIT_TRY(check_range(op, name, side, a->patch_size, 1 << 14));
    return a->crop ? RVIT_OK : check_multiple(op, name, side, a->patch_size);
}

/* The patch rows that patchify and preprocess write; width: values per patch. */
static rvit_status prepare_patches(rvit_op *op, rvit_dtype dtype, int32_t width, int32_t *split, int32_t *out_stride)
{
    if (*split == 0)
        *split = 1;
    RVIT_TRY(check_range(op, "split", *split, 1, 2));
    if (*split == 2 && dtype == RVIT_F32)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: split is 2, expected 1 with dtype f32, which needs no split", rvit_op_name(op->type));
    if (*out_stride == 0)
        *out_stride = *split * width;
    RVIT_TRY(check_range(op, "out_stride", *out_stride, *split * width, 1 << 23));
    return check_multiple(op, "out_stride", *out_stride, 2 * *split);
}

/* Prepared args always have image_height and image_width, and image_size 0. */
static rvit_status prepare_patchify(rvit_op *op)
{
    rvit_patchify_args *a = &op->patchify;
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_range(op, "channels", a->channels, 1, 64));
    RVIT_TRY(check_range(op, "patch_size", a->patch_size, 2, 256));
    RVIT_TRY(check_multiple(op, "patch_size", a->patch_size, 2));
    RVIT_TRY(check_range(op, "crop", a->crop, 0, 1));
    if (a->image_height == 0 && a->image_width == 0) {
        RVIT_TRY(check_side(op, "image_size", a->image_size));
        a->image_height = a->image_width = a->image_size;
        a->image_size = 0;
    }
    if (a->image_size != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "patchify: image_size is %d, expected 0 with image_height and image_width set",
                         (int)a->image_size);
    RVIT_TRY(check_side(op, "image_height", a->image_height));
    RVIT_TRY(check_side(op, "image_width", a->image_width));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, 1024));
    const int32_t width = a->channels * a->patch_size * a->patch_size;
    RVIT_TRY(prepare_patches(op, a->dtype, width, &a->split, &a->out_stride));
    return check_rows(op, "n_images * tokens", patch_rows(a));
}

static rvit_status prepare_preprocess(rvit_op *op)
{
    rvit_preprocess_args *a = &op->preprocess;
    RVIT_TRY(check_range(op, "n_images", a->n_images, 0, 1 << 20));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    RVIT_TRY(check_range(op, "patch_size", a->patch_size, 2, 256));
    RVIT_TRY(check_multiple(op, "patch_size", a->patch_size, 2));
    RVIT_TRY(prepare_patches(op, a->dtype, 3 * a->patch_size * a->patch_size, &a->split, &a->out_stride));
    const int64_t min = 4 * (RVIT_IMAGE_ENTRIES(a->n_images) + (int64_t)a->n_images * RVIT_IMAGE_ENTRY_WORDS);
    RVIT_TRY(check_range(op, "source_size", a->source_size, min, RVIT_IMAGE_MAX_STAGING));
    RVIT_TRY(check_multiple(op, "source_size", a->source_size, 16));
    return check_range(op, "pixels_size", a->pixels_size, 0, (int64_t)1 << 40);
}

static rvit_status prepare_linear(rvit_op *op)
{
    const rvit_linear_args *a = &op->linear;
    const int quantized = rvit_is_quantized(a->dtype);
    if (!quantized && a->out_dtype != a->dtype && a->out_dtype != RVIT_F32)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "linear: out_dtype is %s, expected %s (dtype) or f32",
                         rvit_enum_name(RVIT_ENUM_DTYPE, a->out_dtype), rvit_enum_name(RVIT_ENUM_DTYPE, a->dtype));
    if (quantized && rvit_is_quantized(a->out_dtype) && (a->out_dtype == RVIT_I8 || a->dtype == RVIT_I8))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "linear: out_dtype is %s with dtype %s, expected f32, f16, bf16 or, with e4m3, e4m3",
                         rvit_enum_name(RVIT_ENUM_DTYPE, a->out_dtype), rvit_enum_name(RVIT_ENUM_DTYPE, a->dtype));
    if (a->out_dtype == RVIT_E4M3 && a->residual.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "linear: residual is given, but out_dtype is e4m3, which takes none");
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(quantized ? check_quantized_width(op, "in_features", a->in_features) : check_dim(op, "in_features", a->in_features));
    RVIT_TRY(check_out(op, "out_features", a->out_features, a->out_dtype, a->out_scales, a->static_scale, a->saturated));
    RVIT_TRY(check_range(op, "activation", a->activation, RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_SILU));
    RVIT_TRY(check_range(op, "gated", a->gated, 0, 1));
    if (!quantized) {
        RVIT_TRY(check_absent(op, "x_scales", a->x_scales, "dtype", a->dtype));
        RVIT_TRY(check_absent(op, "weight_scales", a->weight_scales, "dtype", a->dtype));
    }
    return check_rows(op, "residual_period", a->residual_period);
}

static rvit_status prepare_layernorm(rvit_op *op)
{
    rvit_layernorm_args *a = &op->layernorm;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "x_rows", a->x_rows));
    RVIT_TRY(check_out(op, "dim", a->dim, a->out_dtype, a->out_scales, a->static_scale, a->saturated));
    RVIT_TRY(check_norm(op, a->norm, a->eps, a->beta));
    if (a->features == 0)
        a->features = a->dim;
    RVIT_TRY(check_range(op, "features", a->features, 1, a->dim));
    if (a->x_rows == 0) {
        if (a->src_rows.buffer != NULL && a->rows.capacity > 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "layernorm: src_rows needs x_rows, the number of rows of x");
        a->x_rows = a->rows.capacity;
    }
    if (a->src_rows.buffer == NULL && a->x_rows < a->rows.capacity)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "layernorm: x_rows is %lld, expected at least rows.capacity, %lld", (long long)a->x_rows,
                         (long long)a->rows.capacity);
    return RVIT_OK;
}

static rvit_status prepare_quantize(rvit_op *op)
{
    const rvit_quantize_args *a = &op->quantize;
    if (!rvit_is_quantized(a->out_dtype))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "quantize: out_dtype is %s, expected int8 or e4m3",
                         rvit_enum_name(RVIT_ENUM_DTYPE, a->out_dtype));
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_quantized_width(op, "columns", a->columns));
    RVIT_TRY(check_range(op, "activation", a->activation, RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_SILU));
    return check_range(op, "gated", a->gated, 0, 1);
}

static rvit_status check_stride(const rvit_op *op, const char *name, int64_t *stride, int64_t width, int64_t factor)
{
    if (*stride == 0)
        *stride = width;
    RVIT_TRY(check_range(op, name, *stride, width, 1 << 28));
    return check_multiple(op, name, *stride, factor);
}

static rvit_status check_head_dim(const rvit_op *op, int64_t n_heads, int64_t head_dim)
{
    RVIT_TRY(check_range(op, "n_heads", n_heads, 1, 1 << 16));
    RVIT_TRY(check_range(op, "head_dim", head_dim, 8, 128));
    return check_multiple(op, "head_dim", head_dim, 8);
}

/* Shared by attention, its gradient and received. */
static rvit_status check_heads(const rvit_op *op, int64_t n_images, int64_t n_heads, int64_t head_dim, int64_t max_len, int64_t rows)
{
    RVIT_TRY(check_head_dim(op, n_heads, head_dim));
    return check_batch(op, n_images, max_len, rows);
}

static rvit_status check_scale(const rvit_op *op, float *scale, int32_t head_dim)
{
    if (!isfinite(*scale))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: scale is not finite", rvit_op_name(op->type));
    if (*scale == 0.0f)
        *scale = 1.0f / sqrtf((float)head_dim);
    return RVIT_OK;
}

/* v may be NULL. */
static rvit_status check_strides(const rvit_op *op, int64_t *q, int64_t *k, int64_t *v, int64_t width)
{
    RVIT_TRY(check_stride(op, "q_stride", q, width, 8));
    RVIT_TRY(check_stride(op, "k_stride", k, width, 8));
    return v == NULL ? RVIT_OK : check_stride(op, "v_stride", v, width, 8);
}

static rvit_status prepare_attention(rvit_op *op)
{
    rvit_attention_args *a = &op->attention;
    RVIT_TRY(check_heads(op, a->n_images, a->n_heads, a->head_dim, a->max_len, a->rows));
    RVIT_TRY(check_scale(op, &a->scale, a->head_dim));
    const int64_t width = HEADS_WIDTH(a);
    RVIT_TRY(check_strides(op, &a->q_stride, &a->k_stride, &a->v_stride, width));
    return check_stride(op, "out_stride", &a->out_stride, width, 8);
}

static rvit_status prepare_attention_backward(rvit_op *op)
{
    rvit_attention_backward_args *a = &op->attention_backward;
    RVIT_TRY(check_heads(op, a->n_images, a->n_heads, a->head_dim, a->max_len, a->rows));
    RVIT_TRY(check_scale(op, &a->scale, a->head_dim));
    const int64_t width = HEADS_WIDTH(a);
    RVIT_TRY(check_strides(op, &a->q_stride, &a->k_stride, &a->v_stride, width));
    RVIT_TRY(check_stride(op, "out_stride", &a->out_stride, width, 8));
    RVIT_TRY(check_stride(op, "d_out_stride", &a->d_out_stride, width, 8));
    RVIT_TRY(check_stride(op, "d_q_stride", &a->d_q_stride, width, 8));
    RVIT_TRY(check_stride(op, "d_k_stride", &a->d_k_stride, width, 8));
    return check_stride(op, "d_v_stride", &a->d_v_stride, width, 8);
}

static rvit_status prepare_attention_received(rvit_op *op)
{
    rvit_attention_received_args *a = &op->attention_received;
    RVIT_TRY(check_heads(op, a->n_images, a->n_heads, a->head_dim, a->max_len, a->rows));
    RVIT_TRY(check_scale(op, &a->scale, a->head_dim));
    return check_strides(op, &a->q_stride, &a->k_stride, NULL, HEADS_WIDTH(a));
}

static rvit_status prepare_rope(rvit_op *op)
{
    rvit_rope_args *a = &op->rope;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_head_dim(op, a->n_heads, a->head_dim));
    RVIT_TRY(check_range(op, "n_positions", a->n_positions, 1, INT32_MAX - 1));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    return check_strides(op, &a->q_stride, &a->k_stride, NULL, HEADS_WIDTH(a));
}

/* No model exceeds these. A GPU workgroup keeps MAX_TABLE_SIDE and MAX_PREFIX entries in shared memory. */
enum { MAX_GROUP = 64, MAX_TABLE_SIDE = 512, MAX_PREFIX = 1024, MAX_WINDOW = 1 << 14 };

static rvit_status prepare_grid_layout(rvit_op *op)
{
    rvit_grid_layout_args *a = &op->grid_layout;
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, MAX_PREFIX));
    RVIT_TRY(check_range(op, "merge", a->merge, 0, 2));
    RVIT_TRY(check_rows(op, "patch_rows", a->patch_rows));
    RVIT_TRY(check_range(op, "patch_merge", a->patch_merge, 0, 1));
    RVIT_TRY(check_range(op, "window", a->window, 0, MAX_WINDOW));
    RVIT_TRY(check_range(op, "max_windows", a->max_windows, 0, 1 << 30));
    if (a->merge == 0)
        a->merge = 1;
    if (a->patch_rows == 0)
        a->patch_rows = a->rows;
    if (a->window == 0 && a->window_cu_seqlens.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "grid_layout: window_cu_seqlens is given, but window is 0");
    if (a->window == 0 && a->group_cu_seqlens.buffer == NULL && a->group_rows.buffer == NULL)
        return RVIT_OK;
    if (a->n_prefix > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "grid_layout: %s, but n_prefix is %d: prefix tokens do not belong to a merge group",
                         a->window > 0 ? "window is above 0" : "group_cu_seqlens or group_rows is given", (int)a->n_prefix);
    const int32_t area = a->merge * a->merge;
    a->max_len -= a->max_len % area;
    a->rows -= a->rows % area;
    a->patch_rows -= a->patch_rows % area;
    return RVIT_OK;
}

static rvit_status prepare_embed(rvit_op *op)
{
    rvit_embed_args *a = &op->embed;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "patch_rows", a->patch_rows));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, MAX_PREFIX));
    if (a->n_prefix == 0 && a->prefix.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "embed: prefix is given, but n_prefix is 0");
    if (a->table.buffer == NULL)
        return RVIT_OK;
    RVIT_TRY(check_range(op, "resample", a->resample, RVIT_RESAMPLE_BICUBIC, RVIT_RESAMPLE_NEAREST));
    RVIT_TRY(check_range(op, "table_height", a->table_height, 1, MAX_TABLE_SIDE));
    return check_range(op, "table_width", a->table_width, 1, MAX_TABLE_SIDE);
}

static rvit_status check_coordinate(const rvit_op *op, const char *name, float value, float min)
{
    if (!isfinite(value) || value < min)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is %g, expected a finite value%s", rvit_op_name(op->type), name, (double)value,
                         min == 0 ? " of 0 or more" : "");
    return RVIT_OK;
}

static rvit_status prepare_pixelprune(rvit_op *op)
{
    rvit_pixelprune_args *a = &op->pixelprune;
    const int32_t max_channels = sizeof a->limits / sizeof *a->limits;
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, MAX_PREFIX));
    RVIT_TRY(check_range(op, "merge", a->merge, 0, 2));
    RVIT_TRY(check_rows(op, "patch_rows", a->patch_rows));
    RVIT_TRY(check_dim(op, "columns", a->columns));
    RVIT_TRY(check_stride(op, "stride", &a->stride, a->columns, 4));
    RVIT_TRY(check_range(op, "interleaved", a->interleaved, 0, 1));
    if (a->merge == 0)
        a->merge = 1;
    RVIT_TRY(check_range(op, "patch_merge", a->patch_merge, 0, 1));
    if (a->group_rows.buffer != NULL && a->n_prefix > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "pixelprune: group_rows is given, but n_prefix is %d: prefix tokens do not belong to a merge group",
                         (int)a->n_prefix);
    if (a->patch_rows == 0)
        a->patch_rows = a->rows;
    if (a->channels == 0)
        a->channels = 1;
    RVIT_TRY(check_range(op, "channels", a->channels, 1, max_channels));
    RVIT_TRY(check_multiple(op, "columns", a->columns, a->channels));
    for (int32_t c = 0; c < max_channels; c++)
        if (!(a->limits[c] >= 0.0f && isfinite(a->limits[c])) || (c >= a->channels && a->limits[c] != 0.0f))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "pixelprune: limits[%d] is %g, expected %s", (int)c, (double)a->limits[c],
                             c < a->channels ? "a finite value of 0 or more" : "0 past the last channel");
    return RVIT_OK;
}

static rvit_status prepare_grid_rope(rvit_op *op)
{
    const rvit_grid_rope_args *a = &op->grid_rope;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_head_dim(op, 1, a->head_dim));
    RVIT_TRY(check_range(op, "coordinates", a->coordinates, RVIT_ROPE_INDEX, RVIT_ROPE_CENTRED));
    RVIT_TRY(check_range(op, "order", a->order, RVIT_ROPE_YX, RVIT_ROPE_XY));
    RVIT_TRY(check_coordinate(op, "offset", a->offset, -INFINITY));
    RVIT_TRY(check_coordinate(op, "reference_height", a->reference_height, 0));
    RVIT_TRY(check_coordinate(op, "reference_width", a->reference_width, 0));
    if (a->coordinates == RVIT_ROPE_CENTRED && (a->reference_height > 0 || a->reference_width > 0))
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "grid_rope: reference_height or reference_width is given, but centred coordinates have none");
    return RVIT_OK;
}

static rvit_status prepare_score(rvit_op *op)
{
    rvit_select_args *a = &op->select;
    RVIT_TRY(check_range(op, "score", a->score, RVIT_SCORE_GIVEN, RVIT_SCORE_POSITION));
    if (a->score == RVIT_SCORE_CLS_ATTENTION || a->score == RVIT_SCORE_CLS_NORM)
        RVIT_TRY(check_range(op, "n_heads", a->n_heads, 1, 1 << 16));
    if (!scores_rows(a))
        return RVIT_OK;
    RVIT_TRY(check_dim(op, "dim", a->dim));
    return check_stride(op, "x_stride", &a->x_stride, a->dim, 4);
}

/* Rows of a group share a score, so a group is kept or dropped as a whole. */
static rvit_status prepare_groups(rvit_op *op)
{
    rvit_select_args *a = &op->select;
    RVIT_TRY(check_range(op, "group_size", a->group_size, 0, MAX_GROUP));
    if (a->group_size == 0)
        a->group_size = 1;
    if (a->group_size == 1)
        return RVIT_OK;
    if (a->mode != RVIT_SELECT_TOP_K && a->mode != RVIT_SELECT_THRESHOLD)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "select: group_size is %d, but only TOP_K and THRESHOLD select groups of rows",
                         (int)a->group_size);
    if (a->score != RVIT_SCORE_L2 && a->score != RVIT_SCORE_CLS_ATTENTION)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "select: group_size is %d, but only L2 and CLS_ATTENTION score groups of rows",
                         (int)a->group_size);
    if (a->n_prefix > 0 || a->anchors.buffer != NULL || a->fuse_x.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "select: group_size is %d, but %s given, which is not supported with groups of rows",
                         (int)a->group_size,
                         a->n_prefix > 0             ? "n_prefix is"
                         : a->anchors.buffer != NULL ? "anchors is"
                                                     : "fuse_x is");
    return RVIT_OK;
}

static rvit_status prepare_select(rvit_op *op)
{
    const rvit_select_args *a = &op->select;
    RVIT_TRY(prepare_groups(op));
    RVIT_TRY(check_range(op, "mode", a->mode, RVIT_SELECT_TOP_K, RVIT_SELECT_MASS));
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    RVIT_TRY(check_range(op, "prefix_competes", a->prefix_competes, 0, 1));
    RVIT_TRY(check_range(op, "error_stays", a->error_stays, 0, 1));
    RVIT_TRY(check_range(op, "image_errors", a->image_errors, 0, 1));
    switch (a->mode) {
    case RVIT_SELECT_THRESHOLD:
        if (isnan(a->threshold))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "select: threshold is NaN");
        RVIT_TRY(check_range(op, "k_min", a->k_min, 0, INT32_MAX - 1));
        break;
    case RVIT_SELECT_SAMPLE:
        RVIT_TRY(check_range(op, "n_samples", a->n_samples, 1, MAX_SUMMED));
        RVIT_TRY(check_range(op, "max_len", a->max_len, 0, MAX_SUMMED));
        break;
    case RVIT_SELECT_MASS:
        if (!(a->mass >= 0.0 && a->mass <= 1.0))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "select: mass is %g, expected 0..1", a->mass);
        RVIT_TRY(check_range(op, "max_len", a->max_len, 0, MAX_SUMMED));
        break;
    case RVIT_SELECT_TOP_K:
    case RVIT_SELECT_MASK:
        break;
    }
    if (a->anchors.buffer != NULL) {
        if (a->mode != RVIT_SELECT_TOP_K || a->score != RVIT_SCORE_CLS_ATTENTION)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "select: anchors is given, but only TOP_K by CLS_ATTENTION uses anchors");
        RVIT_TRY(check_range(op, "anchor_columns", a->anchor_columns, 1, INT32_MAX - 1));
    }
    if (a->fuse_x.buffer != NULL) {
        if (a->mode != RVIT_SELECT_TOP_K)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "select: fuse_x is given, but only TOP_K fuses rows");
        RVIT_TRY(check_dim(op, "fuse_dim", a->fuse_dim));
    }
    return a->mode == RVIT_SELECT_MASK ? RVIT_OK : prepare_score(op);
}

static rvit_status prepare_grid_relayout(rvit_op *op)
{
    const rvit_grid_relayout_args *a = &op->grid_relayout;
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_windows", a->n_windows, 0, 1 << 30));
    return check_range(op, "group_size", a->group_size, 1, MAX_GROUP);
}

static rvit_status prepare_mean(rvit_op *op)
{
    const rvit_mean_args *a = &op->mean;
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_range(op, "first_column", a->first_column, 0, a->dim - 1));
    return check_multiple(op, "first_column", a->first_column, 4);
}

static rvit_status prepare_bipartite_match(rvit_op *op)
{
    rvit_bipartite_match_args *a = &op->bipartite_match;
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    RVIT_TRY(check_head_dim(op, a->n_heads, a->head_dim));
    RVIT_TRY(check_range(op, "merges", a->merges, 0, INT32_MAX - 1));
    RVIT_TRY(check_range(op, "group_size", a->group_size, 0, RVIT_BIPARTITE_MATCH_MAX_GROUP));
    RVIT_TRY(check_range(op, "n_windows", a->n_windows, 0, 1 << 30));
    if (a->group_size == 0)
        a->group_size = 1;
    if (a->group_size > 1 && a->n_prefix > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "bipartite_match: group_size is %d, but n_prefix is %d: prefix tokens do not belong to a group",
                         (int)a->group_size, (int)a->n_prefix);
    if (a->group_size == 1 && a->window_cu_seqlens.buffer != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "bipartite_match: window_cu_seqlens is given, but group_size is 1: single rows left by a stage are not in "
                         "window order");
    return check_stride(op, "k_stride", &a->k_stride, HEADS_WIDTH(a), 8);
}

static rvit_status prepare_merge(rvit_op *op)
{
    const rvit_merge_args *a = &op->merge;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "x_rows", a->x_rows));
    return check_dim(op, "dim", a->dim);
}

static rvit_status prepare_positions(rvit_op *op)
{
    const rvit_positions_args *a = &op->positions;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "source_rows", a->source_rows));
    return a->positions.buffer != NULL ? RVIT_OK : check_range(op, "n_positions", a->n_positions, 1, INT32_MAX - 1);
}

static rvit_status prepare_pack(rvit_op *op)
{
    const rvit_pack_args *a = &op->pack;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "source_rows", a->source_rows));
    RVIT_TRY(check_range(op, "row_size", a->row_size, 4, 1 << 28));
    return check_multiple(op, "row_size", a->row_size, 4);
}

static rvit_status prepare_unpack(rvit_op *op)
{
    const rvit_unpack_args *a = &op->unpack;
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_live_rows(op, "destination_rows.capacity", &a->destination_rows));
    return check_dim(op, "dim", a->dim);
}

static rvit_status prepare_head(rvit_op *op)
{
    const rvit_head_args *a = &op->head;
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_range(op, "n_tokens", a->n_tokens, 1, 2));
    RVIT_TRY(check_range(op, "n_classes", a->n_classes, 1, 1 << 24));
    if (a->cu_seqlens.buffer == NULL && a->rows < (int64_t)a->n_images * a->n_tokens)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "head: rows is %lld, expected at least n_images * n_tokens, %lld, without cu_seqlens",
                         (long long)a->rows, (long long)a->n_images * a->n_tokens);
    return check_optional_norm(op, a->norm, a->eps, a->gamma, a->beta);
}

static rvit_status prepare_pool(rvit_op *op)
{
    rvit_pool_args *a = &op->pool;
    RVIT_TRY(check_range(op, "mode", a->mode, RVIT_POOL_MEAN, RVIT_POOL_FIRST));
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_stride(op, "out_stride", &a->out_stride, a->dim, 4));
    return check_optional_norm(op, a->norm, a->eps, a->gamma, a->beta);
}

static rvit_status prepare_attention_pool(rvit_op *op)
{
    rvit_attention_pool_args *a = &op->attention_pool;
    RVIT_TRY(check_batch(op, a->n_images, a->max_len, a->rows));
    RVIT_TRY(check_range(op, "n_heads", a->n_heads, 1, 1 << 16));
    RVIT_TRY(check_range(op, "head_dim", a->head_dim, 4, 192));
    RVIT_TRY(check_multiple(op, "head_dim", a->head_dim, 4));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    return check_stride(op, "logits_stride", &a->logits_stride, a->n_heads, 1);
}

/* One function per op, in the order of ops.def. */
/* clang-format off */
#define RVIT_OP(TYPE, name) static rvit_status check_dtypes_##name(const rvit_op *op) { const rvit_##name##_args *a = &op->name; (void)a;
#define RVIT_DTYPE(name, field, when) if (when) RVIT_TRY(check_floats(op, #field, a->field));
#define RVIT_DTYPE_OR_QUANTIZED(name, field, when) if (when) RVIT_TRY(check_dtype(op, #field, a->field));
#define RVIT_OP_END(TYPE, name) return RVIT_OK; }
#include "core/contract/ops.def"

#define RVIT_OP(TYPE, name) static int has_dtype_##name(const rvit_op *op, rvit_dtype dtype) { \
    const rvit_##name##_args *a = &op->name; (void)a, (void)dtype;
#define RVIT_DTYPE(name, field, when) if ((when) && a->field == dtype) return 1;
#define RVIT_OP_END(TYPE, name) return 0; }
#include "core/contract/ops.def"

enum { READ = 1, WRITE = 2, OPTIONAL = 4, LIVE = 8, NONE = -1 };

static rvit_access access_of(const char *name, rvit_view view, int use, int64_t alignment, int64_t size, int in_place)
{
    const rvit_view absent = {NULL, 0};
    return (rvit_access){.name = name,
                         .view = use == 0 ? absent : view,
                         .size = size,
                         .alignment = (int32_t)alignment,
                         .reads = (use & READ) != 0,
                         .writes = (use & WRITE) != 0,
                         .optional = use == 0 || (use & OPTIONAL) != 0,
                         .live = (use & LIVE) != 0,
                         .in_place = (int8_t)in_place};
}

/* Do not compute the size of an absent array: the values it depends on were not checked. */
#define RVIT_OP(TYPE, name) static int list_##name(const rvit_op *op, rvit_access *out) { const rvit_##name##_args *a = &op->name;
#define RVIT_ARRAY(name, slot, field, use, alignment, size, in_place) \
    out[RVIT_SLOT(name, slot)] = access_of(#field, a->field, use, alignment, (use) != 0 && a->field.buffer != NULL ? (size) : 0, in_place);
#define RVIT_OP_END(TYPE, name) return RVIT_N_SLOTS_##name; } \
    _Static_assert(RVIT_N_SLOTS_##name <= RVIT_OP_MAX_ACCESSES, "too many arrays: raise RVIT_OP_MAX_ACCESSES");
#include "core/contract/ops.def"
/* clang-format on */

static const struct {
    rvit_status (*check_dtypes)(const rvit_op *op);
    rvit_status (*prepare)(rvit_op *op);
    int (*has_dtype)(const rvit_op *op, rvit_dtype dtype);
    int (*list)(const rvit_op *op, rvit_access *out);
} ops[] = {
#define RVIT_OP(TYPE, name) {check_dtypes_##name, prepare_##name, has_dtype_##name, list_##name},
#include "core/contract/ops.def"
};

rvit_status rvit_op_prepare(rvit_op *op)
{
    if ((int)op->type < 0 || op->type >= RVIT_OP_COUNT)
        return rvit_fail(RVIT_INTERNAL, "%d is not a valid op type", (int)op->type);
    RVIT_TRY(ops[op->type].check_dtypes(op));
    return ops[op->type].prepare(op);
}

int rvit_op_has_dtype(const rvit_op *op, rvit_dtype dtype)
{
    return ops[op->type].has_dtype(op, dtype);
}

int rvit_op_accesses(const rvit_op *op, rvit_access out[RVIT_OP_MAX_ACCESSES])
{
    return ops[op->type].list(op, out);
}

int64_t rvit_attention_backward_workspace(const rvit_attention_backward_args *args)
{
    RVIT_ENTRY;
    rvit_op op = {.type = RVIT_OP_ATTENTION_BACKWARD};
    const rvit_attention_backward_args *a = &op.attention_backward;
    if (rvit_args_copy(&op.attention_backward, sizeof op.attention_backward, args, "attention_backward args") != RVIT_OK ||
        check_range(&op, "n_heads", a->n_heads, 1, 1 << 16) != RVIT_OK || check_rows(&op, "rows", a->rows) != RVIT_OK)
        return -1;
    return rvit_backward_numbers_size(a) + (a->d_key_bias.buffer != NULL ? rvit_backward_shares_size(a) : 0);
}
