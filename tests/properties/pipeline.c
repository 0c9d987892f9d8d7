#include "pipeline.h"

#include <math.h>

#define TRY(call)                      \
    do {                               \
        const rvit_status s_ = (call); \
        if (s_ != RVIT_OK)             \
            return s_;                 \
    } while (0)

static array *weights(rvit_dtype dtype, int64_t n, float scale)
{
    array *a = array_input("weights", n * rvit_dtype_size(dtype));
    store_normal(dtype, a->host, 0, n, scale);
    return a;
}

int pipeline_can_keep_all(pipeline_prune prune)
{
    return prune != PRUNE_SAMPLE && prune != PRUNE_MERGE && prune != PRUNE_NOTHING;
}

/* Only strictly ascending lists of rows can be unpacked. */
static int unpacks(const pipeline *p)
{
    return p->prune != PRUNE_NOTHING && p->prune != PRUNE_FUSED && p->prune != PRUNE_MERGE;
}

static void add_output(pipeline *p, array *a, pipeline_layout layout, int64_t row_size, pipeline_content content)
{
    const pipeline_output output = {a, layout, row_size, content};
    if (a)
        p->outputs[p->n_outputs++] = output;
}

static void make_results(pipeline *p, int mapped)
{
    const rvit_buffer_type type = mapped ? RVIT_BUFFER_READBACK : RVIT_BUFFER_DEVICE;
    const int64_t row = p->dim * rvit_dtype_size(p->dtype), rows = p->rows, cu = (p->n_images + 1) * 4;
    const int prunes = p->prune != PRUNE_NOTHING, merges = p->prune == PRUNE_MERGE;
    const int scores = prunes && !merges && p->prune != PRUNE_MASK;
    const struct {
        array **out;
        const char *name;
        int64_t size;
    } results[] = {{&p->cls_probs, "cls_probs", rows * p->n_heads * 4},
                   {&p->lse, "lse", rows * p->n_heads * 4},
                   {&p->received, "received", rows * p->n_heads * 4},
                   {&p->positions_after, "positions_after", prunes ? rows * 4 : 0},
                   {&p->scores, "scores", scores ? rows * 4 : 0},
                   {&p->metric, "metric", merges ? rows * p->dim / p->n_heads * 4 : 0},
                   {&p->keep, "keep", prunes ? rows : 0},
                   {&p->cu_after, "cu_after", prunes ? cu : 0},
                   {&p->src_rows, "src_rows", prunes ? rows * 4 : 0},
                   {&p->next_rows, "next_rows", merges ? rows * 4 : 0},
                   {&p->sizes, "sizes", merges ? rows * 4 : 0},
                   {&p->key_bias, "key_bias", merges ? rows * 4 : 0},
                   {&p->error, "error", prunes && !merges ? 4 : 0},
                   {&p->x3, "x3", rows * row},
                   {&p->packed, "packed", prunes ? rows * row : 0},
                   {&p->unpacked, "unpacked", unpacks(p) ? rows * row : 0},
                   {&p->scores_after, "scores_after", rows * 4},
                   {&p->keep_after, "keep_after", rows},
                   {&p->cu_second, "cu_second", cu},
                   {&p->src_second, "src_second", rows * 4},
                   {&p->logits, "logits", p->n_images * PIPELINE_CLASSES * 4},
                   {&p->logits_copy, "logits_copy", p->n_images * PIPELINE_CLASSES * 4},
                   {&p->pooled, "pooled", p->n_images * p->dim * 4},
                   {&p->probed, "probed", p->n_images * row},
                   {&p->probs, "probs", rows * p->n_heads * 4}};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i].size) {
            *results[i].out = array_mapped(results[i].name, results[i].size, type);
            (*results[i].out)->is_output = 1;
            memset((*results[i].out)->host, SENTINEL, (size_t)results[i].size);
        }
    add_output(p, p->cls_probs, BEFORE, p->n_heads * 4, VALUES);
    add_output(p, p->lse, BEFORE, p->n_heads * 4, VALUES);
    add_output(p, p->received, BEFORE, p->n_heads * 4, VALUES);
    add_output(p, p->positions_after, AFTER, 4, VALUES);
    add_output(p, p->scores, BEFORE, 4, VALUES);
    add_output(p, p->metric, BEFORE, p->dim / p->n_heads * 4, VALUES);
    add_output(p, p->keep, BEFORE, 1, VALUES);
    add_output(p, p->src_rows, AFTER, 4, ROWS_BEFORE);
    add_output(p, p->next_rows, BEFORE, 4, ROWS_BEFORE);
    add_output(p, p->sizes, AFTER, 4, VALUES);
    add_output(p, p->key_bias, AFTER, 4, VALUES);
    add_output(p, p->x3, AFTER, row, VALUES);
    add_output(p, p->packed, AFTER, row, VALUES);
    add_output(p, p->unpacked, BEFORE, row, VALUES);
    add_output(p, p->scores_after, AFTER, 4, VALUES);
    add_output(p, p->keep_after, AFTER, 1, VALUES);
    add_output(p, p->src_second, SECOND, 4, ROWS_AFTER);
    add_output(p, p->logits, PER_IMAGE, PIPELINE_CLASSES * 4, VALUES);
    add_output(p, p->logits_copy, PER_IMAGE, PIPELINE_CLASSES * 4, VALUES);
    add_output(p, p->pooled, PER_IMAGE, p->dim * 4, VALUES);
    add_output(p, p->probed, PER_IMAGE, row, VALUES);
    add_output(p, p->probs, AFTER, p->n_heads * 4, VALUES);
}

pipeline *pipeline_new(rvit_dtype dtype, pipeline_prune prune, int32_t n_images, int32_t max_len, int64_t rows, int mapped)
{
    pipeline *p = scratch(sizeof *p);
    p->dtype = dtype;
    p->prune = prune;
    p->n_images = n_images;
    p->max_len = max_len;
    p->rows = rows;
    p->dim = 32;
    p->n_heads = 2;
    const int32_t d = p->dim;
    const int64_t row = d * rvit_dtype_size(dtype);
    const float scale = 1 / sqrtf((float)d);
    random_seed(1234);
    p->qkv_weight = weights(dtype, 3 * d * d, 2 * scale);
    p->projection_weight = weights(dtype, d * d, scale);
    p->up_weight = weights(dtype, 2 * d * d, scale);
    p->down_weight = weights(dtype, 2 * d * d, scale);
    p->head_weight = weights(dtype, PIPELINE_CLASSES * d, scale);
    p->bias = weights(RVIT_F32, 3 * d, 0.5f);
    p->gamma = weights(RVIT_F32, d, 1);
    p->beta = weights(RVIT_F32, d, 0.2f);
    p->angles = weights(RVIT_F32, (int64_t)max_len * d / p->n_heads, 1);
    const rvit_buffer_type type = mapped ? RVIT_BUFFER_UPLOAD : RVIT_BUFFER_DEVICE;
    p->x = array_mapped("x", rows * row, type);
    p->cu = array_mapped("cu_seqlens", (n_images + 1) * 4, type);
    p->positions = array_mapped("positions", rows * 4, type);
    if (prune == PRUNE_MASK)
        p->keep_in = array_mapped("keep_in", rows, type);
    if (pipeline_can_keep_all(prune) && prune != PRUNE_MASK) {
        p->counts = array_input("counts", (max_len + 1) * 4);
        expect_ok(rvit_count_table(RVIT_COUNT_CEIL, 0.6, 1, max_len, (int32_t *)(void *)p->counts->host));
    }
    p->y = array_output("y", rows * row);
    p->qkv = array_output("qkv", rows * 3 * row);
    p->attended = array_output("attended", rows * row);
    p->x1 = array_output("x1", rows * row);
    p->z = array_output("z", rows * row);
    p->x2 = array_output("x2", rows * row);
    p->hidden = array_output("hidden", rows * 2 * row);
    p->probe_logits = array_output("probe_logits", rows * 16);
    make_results(p, mapped);
    pipeline_set_lengths(p, NULL, 0);
    return p;
}

void pipeline_set_lengths(pipeline *p, const int32_t *lengths, int32_t n)
{
    int32_t row = 0;
    for (int32_t i = 0; i <= p->n_images; i++) {
        memcpy(p->cu->host + i * 4, &row, 4);
        row += i < n ? lengths[i] : 0;
    }
    assert_true(row <= p->rows);
    memset(p->x->host, POISON, (size_t)p->x->size);
    memset(p->positions->host, POISON, (size_t)p->positions->size);
}

static int32_t int_at(const uint8_t *data, int64_t index)
{
    int32_t value;
    memcpy(&value, data + index * 4, 4);
    return value;
}

void pipeline_set_image(pipeline *p, int32_t image, uint64_t seed)
{
    const int32_t begin = int_at(p->cu->host, image), end = int_at(p->cu->host, image + 1);
    random_seed(seed * 0x9e3779b97f4a7c15u + 77);
    store_normal(p->dtype, p->x->host, (int64_t)begin * p->dim, (int64_t)(end - begin) * p->dim, 1);
    for (int32_t t = begin; t < end; t++)
        memcpy(p->positions->host + (int64_t)t * 4, &(int32_t){t - begin}, 4);
    for (int32_t t = begin; p->keep_in && t < end; t++)
        p->keep_in->host[t] = t == begin || random_below(2);
}

void pipeline_fill_unused(pipeline *p, uint8_t byte)
{
    const int64_t row = p->dim * rvit_dtype_size(p->dtype), used = int_at(p->cu->host, p->n_images) * row;
    memset(p->x->host + used, byte, (size_t)(p->x->size - used));
    const int64_t numbered = int_at(p->cu->host, p->n_images) * (int64_t)4;
    memset(p->positions->host + numbered, byte, (size_t)(p->positions->size - numbered));
    array *const between[] = {p->y, p->qkv, p->attended, p->x1, p->z, p->x2, p->hidden, p->probe_logits};
    for (size_t i = 0; i < sizeof between / sizeof between[0]; i++)
        memset(between[i]->host, byte, (size_t)between[i]->size);
    for (int o = 0; o < p->n_outputs; o++)
        memset(p->outputs[o].a->host, byte, (size_t)p->outputs[o].a->size);
}

void pipeline_update_mapped(pipeline *p)
{
    array *const inputs[] = {p->x, p->cu, p->keep_in, p->positions, p->cu_after, p->cu_second, p->error};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (inputs[i])
            memcpy(array_mapping(inputs[i], DEVICE), inputs[i]->host, (size_t)inputs[i]->size);
    for (int o = 0; o < p->n_outputs; o++)
        memcpy(array_mapping(p->outputs[o].a, DEVICE), p->outputs[o].a->host, (size_t)p->outputs[o].a->size);
}

static rvit_rows live_rows(const pipeline *p, const array *cu)
{
    rvit_rows rows = {p->rows, array_view(cu, DEVICE), 0};
    rows.live.offset += p->n_images * 4;
    return rows;
}

static rvit_status linear(const pipeline *p, rvit_stream *stream, rvit_rows rows, const array *x, const array *weight,
                          const array *residual, const array *out, int32_t in_features, int32_t out_features, rvit_activation activation)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = p->dtype;
    args.rows = rows;
    args.in_features = in_features;
    args.out_features = out_features;
    args.activation = activation;
    args.x = array_view(x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.bias = array_view(p->bias, DEVICE);
    args.residual = array_view(residual, DEVICE);
    args.out = array_view(out, DEVICE);
    return rvit_linear(stream, &args);
}

static rvit_status layernorm(const pipeline *p, rvit_stream *stream, rvit_rows rows, const array *x, const array *src_rows,
                             const array *out, const array *out_x)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = args.out_dtype = p->dtype;
    args.rows = rows;
    args.x_rows = p->rows;
    args.dim = p->dim;
    args.eps = 1e-6f;
    args.x = array_view(x, DEVICE);
    args.src_rows = array_view(src_rows, DEVICE);
    args.gamma = array_view(p->gamma, DEVICE);
    args.beta = array_view(p->beta, DEVICE);
    args.out = array_view(out, DEVICE);
    args.out_x = array_view(out_x, DEVICE);
    return rvit_layernorm(stream, &args);
}

/* Rotates the queries and keys where they are. */
static rvit_status rope(const pipeline *p, rvit_stream *stream)
{
    rvit_rope_args args = RVIT_ROPE_ARGS_INIT;
    args.dtype = p->dtype;
    args.rows = live_rows(p, p->cu);
    args.n_heads = p->n_heads;
    args.head_dim = p->dim / p->n_heads;
    args.n_positions = p->max_len;
    args.n_prefix = 1;
    args.q = args.k = array_view(p->qkv, DEVICE);
    args.k.offset += p->dim * rvit_dtype_size(p->dtype);
    args.q_stride = args.k_stride = 3 * p->dim;
    args.table = array_view(p->angles, DEVICE);
    args.positions = array_view(p->positions, DEVICE);
    return rvit_rope(stream, &args);
}

static rvit_status received(const pipeline *p, rvit_stream *stream)
{
    rvit_attention_received_args args = RVIT_ATTENTION_RECEIVED_ARGS_INIT;
    args.dtype = p->dtype;
    args.n_images = p->n_images;
    args.n_heads = p->n_heads;
    args.head_dim = p->dim / p->n_heads;
    args.max_len = p->max_len;
    args.rows = p->rows;
    args.q = args.k = array_view(p->qkv, DEVICE);
    args.k.offset += p->dim * rvit_dtype_size(p->dtype);
    args.q_stride = args.k_stride = 3 * p->dim;
    args.cu_seqlens = array_view(p->cu, DEVICE);
    args.lse = array_view(p->lse, DEVICE);
    args.out = array_view(p->received, DEVICE);
    return rvit_attention_received(stream, &args);
}

static rvit_status positions(const pipeline *p, rvit_stream *stream)
{
    rvit_positions_args args = RVIT_POSITIONS_ARGS_INIT;
    args.rows = live_rows(p, p->cu_after);
    args.source_rows = p->rows;
    args.src_rows = array_view(p->src_rows, DEVICE);
    args.keep = array_view(p->keep, DEVICE);
    args.positions = array_view(p->positions, DEVICE);
    args.out = array_view(p->positions_after, DEVICE);
    return rvit_positions(stream, &args);
}

static rvit_status attention(const pipeline *p, rvit_stream *stream)
{
    const int64_t part = p->dim * rvit_dtype_size(p->dtype);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = p->dtype;
    args.n_images = p->n_images;
    args.n_heads = p->n_heads;
    args.head_dim = p->dim / p->n_heads;
    args.max_len = p->max_len;
    args.rows = p->rows;
    args.q = args.k = args.v = array_view(p->qkv, DEVICE);
    args.k.offset += part;
    args.v.offset += 2 * part;
    args.q_stride = args.k_stride = args.v_stride = 3 * p->dim;
    args.cu_seqlens = array_view(p->cu, DEVICE);
    args.out = array_view(p->attended, DEVICE);
    args.cls_probs = array_view(p->cls_probs, DEVICE);
    args.lse = array_view(p->lse, DEVICE);
    return rvit_attention(stream, &args);
}

/* LN, D -> D, the mean of the latter half, D -> D/2, D/2 -> D/4. */
static rvit_status predict(const pipeline *p, rvit_stream *stream)
{
    const rvit_rows before = live_rows(p, p->cu);
    const int32_t d = p->dim;
    TRY(layernorm(p, stream, before, p->x1, NULL, p->y, NULL));
    TRY(linear(p, stream, before, p->y, p->projection_weight, NULL, p->attended, d, d, RVIT_ACTIVATION_GELU));
    rvit_mean_args mean = RVIT_MEAN_ARGS_INIT;
    mean.dtype = p->dtype;
    mean.n_images = p->n_images;
    mean.max_len = p->max_len;
    mean.rows = p->rows;
    mean.n_prefix = 1;
    mean.dim = d;
    mean.first_column = d / 2;
    mean.cu_seqlens = array_view(p->cu, DEVICE);
    mean.x = array_view(p->attended, DEVICE);
    TRY(rvit_mean(stream, &mean));
    TRY(linear(p, stream, before, p->attended, p->up_weight, NULL, p->hidden, d, d / 2, RVIT_ACTIVATION_GELU));
    return linear(p, stream, before, p->hidden, p->down_weight, NULL, p->y, d / 2, d / 4, RVIT_ACTIVATION_GELU);
}

static rvit_select_args selection(const pipeline *p, const array *cu, const array *scores, const array *keep, const array *out_cu,
                                  const array *src_rows)
{
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.n_images = p->n_images;
    args.max_len = p->max_len;
    args.rows = p->rows;
    args.n_prefix = 1;
    args.dtype = p->dtype;
    args.dim = p->dim;
    args.scores = array_view(scores, DEVICE);
    args.cu_seqlens = array_view(cu, DEVICE);
    args.keep = array_view(keep, DEVICE);
    args.out_cu_seqlens = array_view(out_cu, DEVICE);
    args.src_rows = array_view(src_rows, DEVICE);
    return args;
}

static rvit_status merge(const pipeline *p, rvit_stream *stream)
{
    rvit_bipartite_match_args match = RVIT_BIPARTITE_MATCH_ARGS_INIT;
    match.dtype = p->dtype;
    match.n_images = p->n_images;
    match.max_len = p->max_len;
    match.rows = p->rows;
    match.n_prefix = 1;
    match.n_heads = p->n_heads;
    match.head_dim = p->dim / p->n_heads;
    match.merges = 6;
    match.k_stride = 3 * p->dim;
    match.k = array_view(p->qkv, DEVICE);
    match.k.offset += p->dim * rvit_dtype_size(p->dtype);
    match.cu_seqlens = array_view(p->cu, DEVICE);
    match.metric = array_view(p->metric, DEVICE);
    match.keep = array_view(p->keep, DEVICE);
    match.out_cu_seqlens = array_view(p->cu_after, DEVICE);
    match.src_rows = array_view(p->src_rows, DEVICE);
    match.next_rows = array_view(p->next_rows, DEVICE);
    TRY(rvit_bipartite_match(stream, &match));
    rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
    args.dtype = p->dtype;
    args.rows = live_rows(p, p->cu_after);
    args.x_rows = p->rows;
    args.dim = p->dim;
    args.x = array_view(p->x1, DEVICE);
    args.src_rows = match.src_rows;
    args.next_rows = match.next_rows;
    args.out_x = array_view(p->x2, DEVICE);
    args.out_sizes = array_view(p->sizes, DEVICE);
    args.out_key_bias = array_view(p->key_bias, DEVICE);
    return rvit_merge(stream, &args);
}

rvit_status pipeline_enqueue_stage(const pipeline *p, rvit_stream *stream)
{
    if (p->prune == PRUNE_MERGE)
        return merge(p, stream);
    if (p->prune == PRUNE_PREDICTOR)
        TRY(predict(p, stream));
    rvit_select_args args = selection(p, p->cu, p->scores, p->keep, p->cu_after, p->src_rows);
    args.mode = p->prune == PRUNE_MASK ? RVIT_SELECT_MASK : p->prune == PRUNE_SAMPLE ? RVIT_SELECT_SAMPLE : RVIT_SELECT_TOP_K;
    args.prefix_competes = p->prune == PRUNE_L2;
    args.counts = array_view(p->counts, DEVICE);
    args.keep_in = array_view(p->keep_in, DEVICE);
    args.error = array_view(p->error, DEVICE);
    args.n_heads = p->n_heads;
    args.cls_probs = array_view(p->cls_probs, DEVICE);
    args.n_samples = 16;
    if (p->prune == PRUNE_CLS || p->prune == PRUNE_FUSED)
        args.score = RVIT_SCORE_CLS_ATTENTION;
    if (p->prune == PRUNE_L2) {
        args.score = RVIT_SCORE_L2;
        args.x = array_view(p->x1, DEVICE);
    }
    if (p->prune == PRUNE_SAMPLE) {
        args.score = RVIT_SCORE_CLS_NORM;
        args.x = array_view(p->qkv, DEVICE);
        args.x.offset += 2 * p->dim * rvit_dtype_size(p->dtype);
        args.x_stride = 3 * p->dim;
    }
    if (p->prune == PRUNE_PREDICTOR) {
        args.score = RVIT_SCORE_PREDICTOR;
        args.dim = p->dim / 4;
        args.x = array_view(p->y, DEVICE);
        args.weight = array_view(p->head_weight, DEVICE);
        args.bias = array_view(p->bias, DEVICE);
    }
    if (p->prune == PRUNE_FUSED) {
        args.fuse_dtype = p->dtype;
        args.fuse_dim = p->dim;
        args.fuse_x = array_view(p->x1, DEVICE);
    }
    return rvit_select(stream, &args);
}

static rvit_status second_stage(const pipeline *p, rvit_stream *stream)
{
    rvit_select_args args = selection(p, p->cu_after ? p->cu_after : p->cu, p->scores_after, p->keep_after, p->cu_second, p->src_second);
    args.mode = RVIT_SELECT_MASS;
    args.mass = 0.6;
    args.score = RVIT_SCORE_L2;
    args.x = array_view(p->x3, DEVICE);
    return rvit_select(stream, &args);
}

static rvit_status pack_and_unpack(const pipeline *p, rvit_stream *stream)
{
    rvit_pack_args pack = RVIT_PACK_ARGS_INIT;
    pack.rows = live_rows(p, p->cu_after);
    pack.source_rows = p->rows;
    pack.row_size = p->dim * rvit_dtype_size(p->dtype);
    pack.source = array_view(p->x1, DEVICE);
    pack.src_rows = array_view(p->src_rows, DEVICE);
    pack.destination = array_view(p->packed, DEVICE);
    TRY(rvit_pack(stream, &pack));
    if (!unpacks(p))
        return RVIT_OK;
    rvit_unpack_args unpack = RVIT_UNPACK_ARGS_INIT;
    unpack.dtype = p->dtype;
    unpack.rows = live_rows(p, p->cu_after);
    unpack.destination_rows = live_rows(p, p->cu);
    unpack.dim = p->dim;
    unpack.fill = 0.25f;
    unpack.source = array_view(p->x3, DEVICE);
    unpack.src_rows = array_view(p->src_rows, DEVICE);
    unpack.destination = array_view(p->unpacked, DEVICE);
    return rvit_unpack(stream, &unpack);
}

static rvit_status head(const pipeline *p, rvit_stream *stream)
{
    rvit_head_args args = RVIT_HEAD_ARGS_INIT;
    args.dtype = args.weight_dtype = p->dtype;
    args.n_images = p->n_images;
    args.rows = p->rows;
    args.dim = p->dim;
    args.n_tokens = 1;
    args.n_classes = PIPELINE_CLASSES;
    args.eps = 1e-6f;
    args.x = array_view(p->x3, DEVICE);
    args.cu_seqlens = array_view(p->cu_after ? p->cu_after : p->cu, DEVICE);
    args.gamma = array_view(p->gamma, DEVICE);
    args.beta = array_view(p->beta, DEVICE);
    args.weight = array_view(p->head_weight, DEVICE);
    args.bias = array_view(p->bias, DEVICE);
    args.logits = array_view(p->logits, DEVICE);
    TRY(rvit_head(stream, &args));
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.source = array_view(p->logits, DEVICE);
    copy.destination = array_view(p->logits_copy, DEVICE);
    copy.size = p->logits->size;
    return rvit_copy(stream, &copy);
}

/* The norms of the rows that are left, averaged by their sizes. */
static rvit_status pool(const pipeline *p, rvit_stream *stream)
{
    rvit_pool_args args = RVIT_POOL_ARGS_INIT;
    args.dtype = p->dtype;
    args.n_images = p->n_images;
    args.max_len = p->max_len;
    args.n_prefix = 1;
    args.rows = p->rows;
    args.dim = p->dim;
    args.eps = 1e-6f;
    args.x = array_view(p->x3, DEVICE);
    args.cu_seqlens = array_view(p->cu_after ? p->cu_after : p->cu, DEVICE);
    args.sizes = array_view(p->sizes, DEVICE);
    args.gamma = array_view(p->gamma, DEVICE);
    args.beta = array_view(p->beta, DEVICE);
    args.out = array_view(p->pooled, DEVICE);
    return rvit_pool(stream, &args);
}

static rvit_status probe(const pipeline *p, rvit_stream *stream)
{
    rvit_linear_args logits = RVIT_LINEAR_ARGS_INIT;
    logits.dtype = p->dtype;
    logits.out_dtype = RVIT_F32;
    logits.rows = live_rows(p, p->cu_after ? p->cu_after : p->cu);
    logits.in_features = p->dim;
    logits.out_features = 4;
    logits.x = array_view(p->x3, DEVICE);
    logits.weight = array_view(p->head_weight, DEVICE);
    logits.out = array_view(p->probe_logits, DEVICE);
    TRY(rvit_linear(stream, &logits));
    rvit_attention_pool_args args = RVIT_ATTENTION_POOL_ARGS_INIT;
    args.dtype = args.out_dtype = p->dtype;
    args.n_images = p->n_images;
    args.n_heads = p->n_heads;
    args.head_dim = p->dim / p->n_heads;
    args.max_len = p->max_len;
    args.rows = p->rows;
    args.dim = p->dim;
    args.x = array_view(p->x3, DEVICE);
    args.logits = array_view(p->probe_logits, DEVICE);
    args.logits_stride = 4;
    args.sizes = array_view(p->sizes, DEVICE);
    args.cu_seqlens = array_view(p->cu_after ? p->cu_after : p->cu, DEVICE);
    args.weight = array_view(p->projection_weight, DEVICE);
    args.bias = array_view(p->bias, DEVICE);
    args.out = array_view(p->probed, DEVICE);
    args.probs = array_view(p->probs, DEVICE);
    return rvit_attention_pool(stream, &args);
}

rvit_status pipeline_enqueue(const pipeline *p, rvit_stream *stream)
{
    const rvit_rows before = live_rows(p, p->cu), after = live_rows(p, p->cu_after ? p->cu_after : p->cu);
    const int32_t d = p->dim;
    TRY(layernorm(p, stream, before, p->x, NULL, p->y, NULL));
    TRY(linear(p, stream, before, p->y, p->qkv_weight, NULL, p->qkv, d, 3 * d, RVIT_ACTIVATION_NONE));
    TRY(rope(p, stream));
    TRY(attention(p, stream));
    TRY(received(p, stream));
    TRY(linear(p, stream, before, p->attended, p->projection_weight, p->x, p->x1, d, d, RVIT_ACTIVATION_NONE));
    if (p->prune != PRUNE_NOTHING)
        TRY(pipeline_enqueue_stage(p, stream));
    if (p->prune != PRUNE_NOTHING)
        TRY(positions(p, stream));
    /* The rows that stay: gathered by the layernorm, or already merged, or all of them. */
    const array *stay = p->prune == PRUNE_NOTHING ? p->x1 : p->x2;
    if (p->prune == PRUNE_NOTHING || p->prune == PRUNE_MERGE)
        TRY(layernorm(p, stream, after, stay, NULL, p->z, NULL));
    else
        TRY(layernorm(p, stream, after, p->x1, p->src_rows, p->z, p->x2));
    TRY(linear(p, stream, after, p->z, p->up_weight, NULL, p->hidden, d, 2 * d, RVIT_ACTIVATION_GELU));
    TRY(linear(p, stream, after, p->hidden, p->down_weight, stay, p->x3, 2 * d, d, RVIT_ACTIVATION_NONE));
    if (p->prune != PRUNE_NOTHING)
        TRY(pack_and_unpack(p, stream));
    TRY(second_stage(p, stream));
    TRY(head(p, stream));
    TRY(pool(p, stream));
    return probe(p, stream);
}

void pipeline_run(pipeline *p)
{
    arrays_upload();
    expect_ok(pipeline_enqueue(p, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
}

static const int32_t *layout(const pipeline *p, pipeline_layout which)
{
    const array *cu = which == SECOND ? p->cu_second : which == AFTER && p->cu_after ? p->cu_after : p->cu;
    return (const int32_t *)(const void *)cu->result[DEVICE];
}

const uint8_t *pipeline_part(const pipeline *p, int output, int32_t image, int64_t *out_size)
{
    const pipeline_output *o = &p->outputs[output];
    int32_t begin = image, end = image + 1;
    if (o->layout != PER_IMAGE) {
        begin = layout(p, o->layout)[image];
        end = layout(p, o->layout)[image + 1];
    }
    assert_true(begin >= 0 && begin <= end && end * o->row_size <= o->a->size);
    *out_size = (end - begin) * o->row_size;
    return o->a->result[DEVICE] + begin * o->row_size;
}

uint8_t *pipeline_image(const pipeline *p, int32_t image, int64_t *out_size)
{
    int64_t total = 0, size;
    for (int o = 0; o < p->n_outputs; o++) {
        pipeline_part(p, o, image, &size);
        total += size;
    }
    uint8_t *all = scratch((size_t)total), *at = all;
    for (int o = 0; o < p->n_outputs; o++) {
        const pipeline_content content = p->outputs[o].content;
        const uint8_t *part = pipeline_part(p, o, image, &size);
        memcpy(at, part, (size_t)size);
        for (int64_t i = 0; content != VALUES && i < size / 4; i++) {
            const int32_t row = int_at(part, i), relative = row - layout(p, content == ROWS_BEFORE ? BEFORE : AFTER)[image];
            if (row >= 0)
                memcpy(at + i * 4, &relative, 4);
        }
        at += size;
    }
    *out_size = total;
    return all;
}
