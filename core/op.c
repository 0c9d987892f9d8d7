/* What each op touches, and the rules its args obey on every device. */
#include "core/op.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/device.h"

const char *rvit_op_name(rvit_op_type type)
{
    static const char *const names[RVIT_OP_COUNT] = {"copy", "patchify", "linear", "layernorm", "attention", "select",
                                                     "mean", "match",    "merge",  "pack",      "unpack",    "head"};
    return (int)type >= 0 && type < RVIT_OP_COUNT ? names[type] : "unknown op";
}

int64_t rvit_dtype_size(rvit_dtype dtype)
{
    switch (dtype) {
    case RVIT_F32:
        return 4;
    case RVIT_F16:
    case RVIT_BF16:
        return 2;
    }
    return 0;
}

const char *rvit_dtype_name(rvit_dtype dtype)
{
    switch (dtype) {
    case RVIT_F32:
        return "f32";
    case RVIT_F16:
        return "f16";
    case RVIT_BF16:
        return "bf16";
    }
    return "unknown dtype";
}

/* Sums of that many integers of 32 bits, times as many, fit in 64. */
enum { MAX_SUMMED = 1 << 16 };

/* Rules. Capacities are bounded so that no product of them below overflows: rows < 2^31, a row's elements < 2^31. */

static rvit_status check_range(const rvit_op *op, const char *name, int64_t value, int64_t least, int64_t most)
{
    if (value < least || value > most)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is %lld, expected %lld..%lld", rvit_op_name(op->type), name, (long long)value,
                         (long long)least, (long long)most);
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
    if (rvit_dtype_size(dtype) == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is %d, which is none", rvit_op_name(op->type), name, (int)dtype);
    return RVIT_OK;
}

static rvit_status check_eps(const rvit_op *op, float eps)
{
    if (!(eps > 0.0f) || !isfinite(eps))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: eps is %g, expected a finite value above 0", rvit_op_name(op->type), (double)eps);
    return RVIT_OK;
}

static rvit_status check_rows(const rvit_op *op, const char *name, int64_t rows)
{
    return check_range(op, name, rows, 0, INT32_MAX - 1);
}

static rvit_status check_live_rows(const rvit_op *op, const char *name, const rvit_rows *rows)
{
    RVIT_TRY(check_rows(op, name, rows->capacity));
    return check_range(op, "padded", rows->padded, RVIT_ROWS_EXACT, RVIT_ROWS_SPARE);
}

static rvit_status check_images(const rvit_op *op, int64_t n_images)
{
    return check_range(op, "n_images", n_images, 0, INT32_MAX - 1);
}

static rvit_status check_dim(const rvit_op *op, const char *name, int64_t dim)
{
    RVIT_TRY(check_range(op, name, dim, 4, 1 << 24));
    return check_multiple(op, name, dim, 4);
}

static rvit_status prepare_copy(rvit_op *op)
{
    RVIT_TRY(check_range(op, "size", op->copy.size, 0, INT64_MAX / 2));
    return check_multiple(op, "size", op->copy.size, 4);
}

static rvit_status prepare_patchify(rvit_op *op)
{
    const rvit_patchify_args *a = &op->patchify;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_range(op, "channels", a->channels, 1, 64));
    RVIT_TRY(check_range(op, "patch_size", a->patch_size, 2, 256));
    RVIT_TRY(check_multiple(op, "patch_size", a->patch_size, 2));
    RVIT_TRY(check_range(op, "image_size", a->image_size, a->patch_size, 1 << 14));
    RVIT_TRY(check_multiple(op, "image_size", a->image_size, a->patch_size));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, 1024));
    const int64_t grid = a->image_size / a->patch_size;
    return check_rows(op, "n_images * tokens", a->n_images * (a->n_prefix + grid * grid));
}

static rvit_status prepare_linear(rvit_op *op)
{
    const rvit_linear_args *a = &op->linear;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_dtype(op, "out_dtype", a->out_dtype));
    if (a->out_dtype != a->dtype && a->out_dtype != RVIT_F32)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "linear: out_dtype is %s, expected %s (dtype) or f32", rvit_dtype_name(a->out_dtype),
                         rvit_dtype_name(a->dtype));
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_dim(op, "in_features", a->in_features));
    RVIT_TRY(check_dim(op, "out_features", a->out_features));
    RVIT_TRY(check_range(op, "activation", a->activation, RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_GELU));
    if (a->bias_narrow.buffer != NULL && (a->bias.buffer == NULL || a->out_dtype == RVIT_F32))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "linear: bias_narrow is given, but %s",
                         a->bias.buffer == NULL ? "bias is not" : "out_dtype is f32");
    return check_rows(op, "residual_period", a->residual_period);
}

static rvit_status prepare_layernorm(rvit_op *op)
{
    rvit_layernorm_args *a = &op->layernorm;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_dtype(op, "out_dtype", a->out_dtype));
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "x_rows", a->x_rows));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_eps(op, a->eps));
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

static rvit_status check_stride(const rvit_op *op, const char *name, int64_t *stride, int64_t width, int64_t factor)
{
    if (*stride == 0)
        *stride = width;
    RVIT_TRY(check_range(op, name, *stride, width, 1 << 28));
    return check_multiple(op, name, *stride, factor);
}

static rvit_status prepare_attention(rvit_op *op)
{
    rvit_attention_args *a = &op->attention;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_range(op, "n_heads", a->n_heads, 1, 1 << 16));
    RVIT_TRY(check_range(op, "head_dim", a->head_dim, 8, 128));
    RVIT_TRY(check_multiple(op, "head_dim", a->head_dim, 8));
    RVIT_TRY(check_range(op, "max_len", a->max_len, 0, INT32_MAX - 1));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    if (!isfinite(a->scale))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "attention: scale is not finite");
    if (a->scale == 0.0f)
        a->scale = 1.0f / sqrtf((float)a->head_dim);
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    RVIT_TRY(check_stride(op, "q_stride", &a->q_stride, width, 8));
    RVIT_TRY(check_stride(op, "k_stride", &a->k_stride, width, 8));
    RVIT_TRY(check_stride(op, "v_stride", &a->v_stride, width, 8));
    return check_stride(op, "out_stride", &a->out_stride, width, 8);
}

/* The arrays and sizes that a score is made from. */
static rvit_status prepare_score(rvit_op *op)
{
    rvit_select_args *a = &op->select;
    RVIT_TRY(check_range(op, "score", a->score, RVIT_SCORE_GIVEN, RVIT_SCORE_POSITION));
    if (a->score == RVIT_SCORE_CLS_ATTENTION || a->score == RVIT_SCORE_CLS_NORM)
        RVIT_TRY(check_range(op, "n_heads", a->n_heads, 1, 1 << 16));
    if (a->score != RVIT_SCORE_L2 && a->score != RVIT_SCORE_CLS_NORM && a->score != RVIT_SCORE_PREDICTOR)
        return RVIT_OK;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    return check_stride(op, "x_stride", &a->x_stride, a->dim, 4);
}

static rvit_status prepare_select(rvit_op *op)
{
    const rvit_select_args *a = &op->select;
    RVIT_TRY(check_range(op, "mode", a->mode, RVIT_SELECT_TOP_K, RVIT_SELECT_MASS));
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_range(op, "max_len", a->max_len, 0, INT32_MAX - 1));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    RVIT_TRY(check_range(op, "prefix_competes", a->prefix_competes, 0, 1));
    RVIT_TRY(check_range(op, "error_stays", a->error_stays, 0, 1));
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
    if (a->fuse_x.buffer != NULL) {
        if (a->mode != RVIT_SELECT_TOP_K)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "select: fuse_x is given, but only the k best can be fused");
        RVIT_TRY(check_dtype(op, "fuse_dtype", a->fuse_dtype));
        RVIT_TRY(check_dim(op, "fuse_dim", a->fuse_dim));
    }
    return a->mode == RVIT_SELECT_MASK ? RVIT_OK : prepare_score(op);
}

static rvit_status prepare_mean(rvit_op *op)
{
    const rvit_mean_args *a = &op->mean;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_range(op, "max_len", a->max_len, 0, INT32_MAX - 1));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 0, INT32_MAX - 1));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_range(op, "first_column", a->first_column, 0, a->dim - 1));
    return check_multiple(op, "first_column", a->first_column, 4);
}

static rvit_status prepare_match(rvit_op *op)
{
    rvit_match_args *a = &op->match;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_range(op, "max_len", a->max_len, 0, INT32_MAX - 1));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    RVIT_TRY(check_range(op, "n_prefix", a->n_prefix, 1, INT32_MAX - 1));
    RVIT_TRY(check_range(op, "n_heads", a->n_heads, 1, 1 << 16));
    RVIT_TRY(check_range(op, "head_dim", a->head_dim, 8, 128));
    RVIT_TRY(check_multiple(op, "head_dim", a->head_dim, 8));
    RVIT_TRY(check_range(op, "merges", a->merges, 0, INT32_MAX - 1));
    return check_stride(op, "k_stride", &a->k_stride, (int64_t)a->n_heads * a->head_dim, 8);
}

static rvit_status prepare_merge(rvit_op *op)
{
    const rvit_merge_args *a = &op->merge;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_rows(op, "x_rows", a->x_rows));
    return check_dim(op, "dim", a->dim);
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
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_live_rows(op, "rows.capacity", &a->rows));
    RVIT_TRY(check_live_rows(op, "destination_rows.capacity", &a->destination_rows));
    return check_dim(op, "dim", a->dim);
}

static rvit_status prepare_head(rvit_op *op)
{
    const rvit_head_args *a = &op->head;
    RVIT_TRY(check_dtype(op, "dtype", a->dtype));
    RVIT_TRY(check_dtype(op, "weight_dtype", a->weight_dtype));
    RVIT_TRY(check_images(op, a->n_images));
    RVIT_TRY(check_rows(op, "rows", a->rows));
    RVIT_TRY(check_dim(op, "dim", a->dim));
    RVIT_TRY(check_range(op, "n_tokens", a->n_tokens, 1, 2));
    RVIT_TRY(check_range(op, "n_classes", a->n_classes, 1, 1 << 24));
    return check_eps(op, a->eps);
}

rvit_status rvit_op_prepare(rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_COPY:
        return prepare_copy(op);
    case RVIT_OP_PATCHIFY:
        return prepare_patchify(op);
    case RVIT_OP_LINEAR:
        return prepare_linear(op);
    case RVIT_OP_LAYERNORM:
        return prepare_layernorm(op);
    case RVIT_OP_ATTENTION:
        return prepare_attention(op);
    case RVIT_OP_SELECT:
        return prepare_select(op);
    case RVIT_OP_MEAN:
        return prepare_mean(op);
    case RVIT_OP_MATCH:
        return prepare_match(op);
    case RVIT_OP_MERGE:
        return prepare_merge(op);
    case RVIT_OP_PACK:
        return prepare_pack(op);
    case RVIT_OP_UNPACK:
        return prepare_unpack(op);
    case RVIT_OP_HEAD:
        return prepare_head(op);
    case RVIT_OP_COUNT:
        break;
    }
    return rvit_fail(RVIT_INTERNAL, "op type %d is none", (int)op->type);
}

/* Accesses. */

typedef struct access_list {
    rvit_access *items;
    int n;
} access_list;

enum { READ = 1, WRITE = 2, OPTIONAL = 4 };

static rvit_access *add(access_list *list, const char *name, rvit_view view, int64_t size, int alignment, int flags)
{
    rvit_access *access = &list->items[list->n++];
    *access = (rvit_access){.name = name,
                            .view = view,
                            .size = size,
                            .alignment = alignment,
                            .reads = (flags & READ) != 0,
                            .writes = (flags & WRITE) != 0,
                            .optional = (flags & OPTIONAL) != 0,
                            .in_place = -1};
    return access;
}

/* Bytes of rows of `width` elements that lie `stride` elements apart. */
static int64_t strided(int64_t rows, int64_t stride, int64_t width, int64_t element)
{
    return rows == 0 ? 0 : ((rows - 1) * stride + width) * element;
}

static void access_patchify(const rvit_patchify_args *a, access_list *list)
{
    const int64_t grid = a->image_size / a->patch_size;
    const int64_t area = (int64_t)a->image_size * a->image_size;
    const int64_t tokens = a->n_prefix + grid * grid;
    const int64_t width = (int64_t)a->channels * a->patch_size * a->patch_size;
    add(list, "live_images", a->live_images, 4, 4, READ | OPTIONAL);
    add(list, "images", a->images, a->n_images * area * a->channels * 4, 16, READ);
    add(list, "out", a->out, a->n_images * tokens * width * rvit_dtype_size(a->dtype), 16, WRITE);
    add(list, "cu_seqlens", a->cu_seqlens, (a->n_images + 1) * (int64_t)4, 4, WRITE | OPTIONAL);
}

static void access_linear(const rvit_linear_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype), out_element = rvit_dtype_size(a->out_dtype);
    const int64_t rows = a->rows.capacity;
    const int64_t residual_rows = a->residual_period == 0 ? rows : a->residual_period;
    add(list, "rows.live", a->rows.live, 4, 4, READ | OPTIONAL);
    add(list, "x", a->x, rows * a->in_features * element, 16, READ);
    add(list, "weight", a->weight, (int64_t)a->out_features * a->in_features * element, 16, READ);
    add(list, "bias", a->bias, (int64_t)a->out_features * 4, 16, READ | OPTIONAL);
    add(list, "residual", a->residual, residual_rows * a->out_features * out_element, 16, READ | OPTIONAL);
    rvit_access *out = add(list, "out", a->out, rows * a->out_features * out_element, 16, WRITE);
    if (a->residual_period == 0)
        out->in_place = (int8_t)(list->n - 2);
    add(list, "bias_narrow", a->bias_narrow, (int64_t)a->out_features * out_element, 16, READ | OPTIONAL);
}

static void access_layernorm(const rvit_layernorm_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype);
    const int64_t rows = a->rows.capacity;
    add(list, "rows.live", a->rows.live, 4, 4, READ | OPTIONAL);
    add(list, "x", a->x, a->x_rows * a->dim * element, 16, READ);
    add(list, "src_rows", a->src_rows, rows * 4, 16, READ | OPTIONAL);
    add(list, "gamma", a->gamma, (int64_t)a->dim * 4, 16, READ);
    add(list, "beta", a->beta, (int64_t)a->dim * 4, 16, READ);
    add(list, "out", a->out, rows * a->dim * rvit_dtype_size(a->out_dtype), 16, WRITE);
    add(list, "out_x", a->out_x, rows * a->dim * element, 16, WRITE | OPTIONAL);
}

static void access_attention(const rvit_attention_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype);
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    add(list, "q", a->q, strided(a->rows, a->q_stride, width, element), 16, READ);
    add(list, "k", a->k, strided(a->rows, a->k_stride, width, element), 16, READ);
    add(list, "v", a->v, strided(a->rows, a->v_stride, width, element), 16, READ);
    add(list, "cu_seqlens", a->cu_seqlens, (a->n_images + 1) * (int64_t)4, 4, READ);
    add(list, "key_bias", a->key_bias, a->rows * 4, 16, READ | OPTIONAL);
    add(list, "out", a->out, strided(a->rows, a->out_stride, width, element), 16, WRITE);
    add(list, "cls_probs", a->cls_probs, a->rows * a->n_heads * 4, 16, WRITE | OPTIONAL);
    add(list, "lse", a->lse, a->rows * a->n_heads * 4, 16, WRITE | OPTIONAL);
}

/* What the scores are made from, and the scores. */
static void access_score(const rvit_select_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype);
    const int alignment = element == 4 ? 16 : 8;
    if (a->score == RVIT_SCORE_L2 || a->score == RVIT_SCORE_CLS_NORM || a->score == RVIT_SCORE_PREDICTOR)
        add(list, "x", a->x, strided(a->rows, a->x_stride, a->dim, element), alignment, READ);
    if (a->score == RVIT_SCORE_CLS_ATTENTION || a->score == RVIT_SCORE_CLS_NORM)
        add(list, "cls_probs", a->cls_probs, a->rows * a->n_heads * 4, 16, READ);
    if (a->score == RVIT_SCORE_PREDICTOR) {
        add(list, "weight", a->weight, 2 * a->dim * element, 16, READ);
        add(list, "bias", a->bias, 8, 4, READ);
    }
    if (a->score == RVIT_SCORE_POSITION)
        add(list, "position_scores", a->position_scores, (int64_t)a->max_len * 4, 16, READ);
    add(list, "scores", a->scores, a->rows * 4, 16, a->score == RVIT_SCORE_GIVEN ? READ : WRITE);
}

static void access_select(const rvit_select_args *a, access_list *list)
{
    if (a->mode == RVIT_SELECT_TOP_K)
        add(list, "counts", a->counts, (a->max_len + (int64_t)1) * 4, 16, READ);
    if (a->mode == RVIT_SELECT_MASK)
        add(list, "keep_in", a->keep_in, a->rows, 16, READ);
    else
        access_score(a, list);
    add(list, "cu_seqlens", a->cu_seqlens, (a->n_images + (int64_t)1) * 4, 4, READ);
    if (a->fuse_x.buffer != NULL)
        add(list, "fuse_x", a->fuse_x, a->rows * a->fuse_dim * rvit_dtype_size(a->fuse_dtype), 16, READ | WRITE);
    add(list, "keep", a->keep, a->rows, 16, WRITE);
    add(list, "out_cu_seqlens", a->out_cu_seqlens, (a->n_images + (int64_t)1) * 4, 4, WRITE);
    add(list, "src_rows", a->src_rows, a->rows * 4, 16, WRITE);
    add(list, "error", a->error, 4, 4, WRITE | OPTIONAL);
}

static void access_mean(const rvit_mean_args *a, access_list *list)
{
    add(list, "cu_seqlens", a->cu_seqlens, (a->n_images + (int64_t)1) * 4, 4, READ);
    add(list, "x", a->x, a->rows * a->dim * rvit_dtype_size(a->dtype), 16, READ | WRITE);
}

static void access_match(const rvit_match_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype);
    add(list, "k", a->k, strided(a->rows, a->k_stride, (int64_t)a->n_heads * a->head_dim, element), 16, READ);
    add(list, "cu_seqlens", a->cu_seqlens, (a->n_images + (int64_t)1) * 4, 4, READ);
    add(list, "metric", a->metric, a->rows * a->head_dim * 4, 16, WRITE);
    add(list, "keep", a->keep, a->rows, 16, WRITE);
    add(list, "out_cu_seqlens", a->out_cu_seqlens, (a->n_images + (int64_t)1) * 4, 4, WRITE);
    add(list, "src_rows", a->src_rows, a->rows * 4, 16, WRITE);
    add(list, "next_rows", a->next_rows, a->rows * 4, 16, WRITE);
}

static void access_merge(const rvit_merge_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype);
    add(list, "rows.live", a->rows.live, 4, 4, READ | OPTIONAL);
    add(list, "x", a->x, a->x_rows * a->dim * element, 16, READ);
    add(list, "sizes", a->sizes, a->x_rows * 4, 16, READ | OPTIONAL);
    add(list, "src_rows", a->src_rows, a->rows.capacity * 4, 16, READ);
    add(list, "next_rows", a->next_rows, a->x_rows * 4, 16, READ);
    add(list, "out_x", a->out_x, a->rows.capacity * a->dim * element, 16, WRITE);
    add(list, "out_sizes", a->out_sizes, a->rows.capacity * 4, 16, WRITE);
    add(list, "out_key_bias", a->out_key_bias, a->rows.capacity * 4, 16, WRITE);
}

static void access_pack(const rvit_pack_args *a, access_list *list)
{
    const int alignment = a->row_size % 16 == 0 ? 16 : 4;
    add(list, "rows.live", a->rows.live, 4, 4, READ | OPTIONAL);
    add(list, "source", a->source, a->source_rows * a->row_size, alignment, READ);
    add(list, "src_rows", a->src_rows, a->rows.capacity * 4, 16, READ);
    add(list, "destination", a->destination, a->rows.capacity * a->row_size, alignment, WRITE);
}

static void access_unpack(const rvit_unpack_args *a, access_list *list)
{
    const int64_t element = rvit_dtype_size(a->dtype);
    const int64_t grid = a->destination_rows.capacity * a->dim * element;
    add(list, "rows.live", a->rows.live, 4, 4, READ | OPTIONAL);
    add(list, "destination_rows.live", a->destination_rows.live, 4, 4, READ | OPTIONAL);
    add(list, "source", a->source, a->rows.capacity * a->dim * element, 16, READ);
    add(list, "src_rows", a->src_rows, a->rows.capacity * 4, 16, READ);
    add(list, "base", a->base, grid, 16, READ | OPTIONAL);
    rvit_access *destination = add(list, "destination", a->destination, grid, 16, WRITE);
    destination->in_place = (int8_t)(list->n - 2);
}

static void access_head(const rvit_head_args *a, access_list *list)
{
    const int64_t width = (int64_t)a->n_tokens * a->dim;
    add(list, "x", a->x, a->rows * a->dim * rvit_dtype_size(a->dtype), 16, READ);
    add(list, "cu_seqlens", a->cu_seqlens, (a->n_images + (int64_t)1) * 4, 4, READ);
    add(list, "gamma", a->gamma, (int64_t)a->dim * 4, 16, READ);
    add(list, "beta", a->beta, (int64_t)a->dim * 4, 16, READ);
    add(list, "weight", a->weight, a->n_classes * width * rvit_dtype_size(a->weight_dtype), 16, READ);
    add(list, "bias", a->bias, (int64_t)a->n_classes * 4, 16, READ | OPTIONAL);
    add(list, "logits", a->logits, (int64_t)a->n_images * a->n_classes * 4, 16, WRITE);
}

int rvit_op_accesses(const rvit_op *op, rvit_access out[RVIT_OP_MAX_ACCESSES])
{
    access_list list = {out, 0};
    switch (op->type) {
    case RVIT_OP_COPY:
        add(&list, "source", op->copy.source, op->copy.size, 4, READ);
        add(&list, "destination", op->copy.destination, op->copy.size, 4, WRITE);
        break;
    case RVIT_OP_PATCHIFY:
        access_patchify(&op->patchify, &list);
        break;
    case RVIT_OP_LINEAR:
        access_linear(&op->linear, &list);
        break;
    case RVIT_OP_LAYERNORM:
        access_layernorm(&op->layernorm, &list);
        break;
    case RVIT_OP_ATTENTION:
        access_attention(&op->attention, &list);
        break;
    case RVIT_OP_SELECT:
        access_select(&op->select, &list);
        break;
    case RVIT_OP_MEAN:
        access_mean(&op->mean, &list);
        break;
    case RVIT_OP_MATCH:
        access_match(&op->match, &list);
        break;
    case RVIT_OP_MERGE:
        access_merge(&op->merge, &list);
        break;
    case RVIT_OP_PACK:
        access_pack(&op->pack, &list);
        break;
    case RVIT_OP_UNPACK:
        access_unpack(&op->unpack, &list);
        break;
    case RVIT_OP_HEAD:
        access_head(&op->head, &list);
        break;
    case RVIT_OP_COUNT:
        break;
    }
    return list.n;
}

static rvit_status check_access(const rvit_device *device, const char *op_name, const rvit_access *access)
{
    const rvit_view view = access->view;
    if (view.buffer == NULL)
        return access->optional ? RVIT_OK : rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is missing", op_name, access->name);
    if (view.buffer->device != device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s lies in a buffer of another device", op_name, access->name);
    if (view.offset < 0 || view.offset % access->alignment != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is at offset %lld, expected a multiple of %d", op_name, access->name,
                         (long long)view.offset, (int)access->alignment);
    if (access->size > view.buffer->size || view.offset > view.buffer->size - access->size)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s needs %lld bytes from offset %lld, its buffer holds %lld", op_name, access->name,
                         (long long)access->size, (long long)view.offset, (long long)view.buffer->size);
    return RVIT_OK;
}

static int overlap(const rvit_access *a, const rvit_access *b)
{
    return a->view.buffer != NULL && a->view.buffer == b->view.buffer && a->size > 0 && b->size > 0 &&
           a->view.offset < b->view.offset + b->size && b->view.offset < a->view.offset + a->size;
}

rvit_status rvit_op_check(rvit_device *device, rvit_op *op)
{
    const char *name = rvit_op_name(op->type);
    RVIT_TRY(rvit_op_prepare(op));
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    for (int i = 0; i < n; i++)
        RVIT_TRY(check_access(device, name, &accesses[i]));
    for (int i = 0; i < n; i++) {
        if (!accesses[i].writes)
            continue;
        for (int j = 0; j < n; j++) {
            const int allowed = accesses[i].in_place == j && accesses[i].view.offset == accesses[j].view.offset;
            if (j != i && !allowed && overlap(&accesses[i], &accesses[j]))
                return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s overlaps %s", name, accesses[i].name, accesses[j].name);
        }
    }
    const char *reason = device->api->supports(device, op);
    if (reason != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s", name, reason);
    return RVIT_OK;
}
