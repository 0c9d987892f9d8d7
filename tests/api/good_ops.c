#include "good_ops.h"

enum { ROWS = 12, IMAGES = 3, MAX_LEN = 6, DIM = 16 };

#define CALL(op)                                                            \
    static rvit_status call_##op(rvit_stream *stream, const any_args *args) \
    {                                                                       \
        return rvit_##op(stream, args ? &args->op : NULL);                  \
    }
CALL(copy)
CALL(patchify)
CALL(linear)
CALL(layernorm)
CALL(attention)
CALL(select)
CALL(mean)
CALL(match)
CALL(merge)
CALL(pack)
CALL(unpack)
CALL(head)

#define VIEW(type, field, alignment, optional)                 \
    {                                                          \
#field, offsetof(type, field), (alignment), (optional) \
    }

rvit_view *view_of(any_args *args, const view_field *field)
{
    return (rvit_view *)(void *)((uint8_t *)args + field->offset);
}

static rvit_view input(const char *name, int64_t size)
{
    array *a = array_input(name, size);
    memset(a->host, 0, (size_t)size);
    return array_view(a, DEVICE);
}

static rvit_view output(const char *name, int64_t size)
{
    return array_view(array_output(name, size), DEVICE);
}

static rvit_view ints(const char *name, const int32_t *values, int n)
{
    array *a = array_input(name, n * 4);
    memcpy(a->host, values, (size_t)n * 4);
    return array_view(a, DEVICE);
}

static rvit_view lengths(void)
{
    static const int32_t cu[IMAGES + 1] = {0, 4, 4, 10};
    return ints("cu_seqlens", cu, IMAGES + 1);
}

static rvit_rows rows(int64_t capacity)
{
    static const int32_t live = 10;
    const rvit_rows r = {capacity, ints("live", &live, 1), 0};
    return r;
}

static rvit_view row_numbers(void)
{
    static const int32_t numbers[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    return ints("src_rows", numbers, ROWS);
}

static void make_copy(good_op *op)
{
    const good_op made = {
        "copy", call_copy, {.copy = RVIT_COPY_ARGS_INIT}, {VIEW(rvit_copy_args, source, 4, 0), VIEW(rvit_copy_args, destination, 4, 0)}};
    *op = made;
    op->args.copy.source = input("source", 64);
    op->args.copy.destination = output("destination", 64);
    op->args.copy.size = 64;
}

static void make_patchify(good_op *op)
{
    const good_op made = {"patchify",
                          call_patchify,
                          {.patchify = RVIT_PATCHIFY_ARGS_INIT},
                          {VIEW(rvit_patchify_args, live_images, 4, 1), VIEW(rvit_patchify_args, images, 16, 0),
                           VIEW(rvit_patchify_args, out, 16, 0), VIEW(rvit_patchify_args, cu_seqlens, 4, 1)}};
    static const int32_t live = 1;
    rvit_patchify_args *a = &op->args.patchify;
    *op = made;
    a->n_images = 2;
    a->channels = 3;
    a->image_size = 8;
    a->patch_size = 4;
    a->n_prefix = 1;
    a->live_images = ints("live_images", &live, 1);
    a->images = input("images", 2 * 3 * 64 * 4);
    a->out = output("out", 2 * 5 * 48 * 4);
    a->cu_seqlens = output("cu_seqlens", 12);
}

static void make_linear(good_op *op)
{
    const good_op made = {"linear",
                          call_linear,
                          {.linear = RVIT_LINEAR_ARGS_INIT},
                          {VIEW(rvit_linear_args, rows.live, 4, 1), VIEW(rvit_linear_args, x, 16, 0), VIEW(rvit_linear_args, weight, 16, 0),
                           VIEW(rvit_linear_args, bias, 16, 1), VIEW(rvit_linear_args, residual, 16, 1),
                           VIEW(rvit_linear_args, out, 16, 0)}};
    rvit_linear_args *a = &op->args.linear;
    *op = made;
    a->rows = rows(ROWS);
    a->in_features = DIM;
    a->out_features = 8;
    a->x = input("x", ROWS * DIM * 4);
    a->weight = input("weight", 8 * DIM * 4);
    a->bias = input("bias", 32);
    a->residual = input("residual", ROWS * 8 * 4);
    a->out = output("out", ROWS * 8 * 4);
}

static void make_layernorm(good_op *op)
{
    const good_op made = {"layernorm",
                          call_layernorm,
                          {.layernorm = RVIT_LAYERNORM_ARGS_INIT},
                          {VIEW(rvit_layernorm_args, rows.live, 4, 1), VIEW(rvit_layernorm_args, x, 16, 0),
                           VIEW(rvit_layernorm_args, src_rows, 16, 1), VIEW(rvit_layernorm_args, gamma, 16, 0),
                           VIEW(rvit_layernorm_args, beta, 16, 0), VIEW(rvit_layernorm_args, out, 16, 0),
                           VIEW(rvit_layernorm_args, out_x, 16, 1)}};
    rvit_layernorm_args *a = &op->args.layernorm;
    *op = made;
    a->rows = rows(ROWS);
    a->x_rows = ROWS;
    a->dim = DIM;
    a->eps = 1e-6f;
    a->x = input("x", ROWS * DIM * 4);
    a->src_rows = row_numbers();
    a->gamma = input("gamma", DIM * 4);
    a->beta = input("beta", DIM * 4);
    a->out = output("out", ROWS * DIM * 4);
    a->out_x = output("out_x", ROWS * DIM * 4);
}

static void make_attention(good_op *op)
{
    const good_op made = {"attention",
                          call_attention,
                          {.attention = RVIT_ATTENTION_ARGS_INIT},
                          {VIEW(rvit_attention_args, q, 16, 0), VIEW(rvit_attention_args, k, 16, 0), VIEW(rvit_attention_args, v, 16, 0),
                           VIEW(rvit_attention_args, cu_seqlens, 4, 0), VIEW(rvit_attention_args, key_bias, 16, 1),
                           VIEW(rvit_attention_args, out, 16, 0), VIEW(rvit_attention_args, cls_probs, 16, 1),
                           VIEW(rvit_attention_args, lse, 16, 1)}};
    rvit_attention_args *a = &op->args.attention;
    *op = made;
    a->n_images = IMAGES;
    a->n_heads = 2;
    a->head_dim = 8;
    a->max_len = MAX_LEN;
    a->rows = ROWS;
    a->q = input("q", ROWS * DIM * 4);
    a->k = input("k", ROWS * DIM * 4);
    a->v = input("v", ROWS * DIM * 4);
    a->cu_seqlens = lengths();
    a->key_bias = input("key_bias", ROWS * 4);
    a->out = output("out", ROWS * DIM * 4);
    a->cls_probs = output("cls_probs", ROWS * 2 * 4);
    a->lse = output("lse", ROWS * 2 * 4);
}

static void add_view(good_op *op, const char *name, size_t offset, int alignment, int optional)
{
    view_field *field = op->views;
    while (field->name)
        field++;
    const view_field added = {name, offset, alignment, optional};
    *field = added;
}

#define ADD(name, alignment, optional) add_view(op, #name, offsetof(rvit_select_args, name), alignment, optional)

static void add_score(good_op *op, rvit_score_type score)
{
    rvit_select_args *a = &op->args.select;
    a->score = score;
    a->scores = score == RVIT_SCORE_GIVEN ? input("scores", ROWS * 4) : output("scores", ROWS * 4);
    ADD(scores, 16, 0);
    if (score == RVIT_SCORE_L2 || score == RVIT_SCORE_PREDICTOR) {
        a->dim = DIM;
        a->x = input("x", ROWS * DIM * 4);
        ADD(x, 16, 0);
    }
    if (score == RVIT_SCORE_CLS_NORM) {
        a->dim = DIM;
        a->x_stride = DIM + 4;
        a->x = input("x", ((ROWS - 1) * (DIM + 4) + DIM) * 4);
        ADD(x, 16, 0);
    }
    if (score == RVIT_SCORE_CLS_ATTENTION || score == RVIT_SCORE_CLS_NORM) {
        a->n_heads = 2;
        a->cls_probs = input("cls_probs", ROWS * 2 * 4);
        ADD(cls_probs, 16, 0);
    }
    if (score == RVIT_SCORE_PREDICTOR) {
        a->weight = input("weight", 2 * DIM * 4);
        a->bias = input("bias", 8);
        ADD(weight, 16, 0);
        ADD(bias, 4, 0);
    }
    if (score == RVIT_SCORE_POSITION) {
        a->position_scores = input("position_scores", MAX_LEN * 4);
        ADD(position_scores, 16, 0);
    }
}

static void make_select(good_op *op, rvit_select_mode mode, rvit_score_type score, int fused)
{
    static const int32_t counts[MAX_LEN + 1] = {0, 1, 1, 2, 2, 3, 3};
    const good_op made = {"select",
                          call_select,
                          {.select = RVIT_SELECT_ARGS_INIT},
                          {VIEW(rvit_select_args, cu_seqlens, 4, 0), VIEW(rvit_select_args, keep, 16, 0),
                           VIEW(rvit_select_args, out_cu_seqlens, 4, 0), VIEW(rvit_select_args, src_rows, 16, 0),
                           VIEW(rvit_select_args, error, 4, 1)}};
    rvit_select_args *a = &op->args.select;
    *op = made;
    a->mode = mode;
    a->n_images = IMAGES;
    a->max_len = MAX_LEN;
    a->rows = ROWS;
    a->n_prefix = 1;
    a->n_samples = 3;
    a->mass = 0.5;
    a->cu_seqlens = lengths();
    a->keep = output("keep", ROWS);
    a->out_cu_seqlens = output("out_cu_seqlens", (IMAGES + 1) * 4);
    a->src_rows = output("src_rows", ROWS * 4);
    a->error = output("error", 4);
    if (mode == RVIT_SELECT_TOP_K) {
        a->counts = ints("counts", counts, MAX_LEN + 1);
        ADD(counts, 16, 0);
    }
    if (mode == RVIT_SELECT_MASK) {
        a->keep_in = input("keep_in", ROWS);
        ADD(keep_in, 16, 0);
    } else
        add_score(op, score);
    if (fused) {
        a->fuse_dim = DIM;
        a->fuse_x = output("fuse_x", ROWS * DIM * 4);
        ADD(fuse_x, 16, 1);
    }
}

static void make_mean(good_op *op)
{
    const good_op made = {
        "mean", call_mean, {.mean = RVIT_MEAN_ARGS_INIT}, {VIEW(rvit_mean_args, cu_seqlens, 4, 0), VIEW(rvit_mean_args, x, 16, 0)}};
    rvit_mean_args *a = &op->args.mean;
    *op = made;
    a->n_images = IMAGES;
    a->max_len = MAX_LEN;
    a->rows = ROWS;
    a->n_prefix = 1;
    a->dim = DIM;
    a->first_column = DIM / 2;
    a->cu_seqlens = lengths();
    a->x = output("x", ROWS * DIM * 4);
}

static void make_match(good_op *op)
{
    const good_op made = {"match",
                          call_match,
                          {.match = RVIT_MATCH_ARGS_INIT},
                          {VIEW(rvit_match_args, k, 16, 0), VIEW(rvit_match_args, cu_seqlens, 4, 0), VIEW(rvit_match_args, metric, 16, 0),
                           VIEW(rvit_match_args, keep, 16, 0), VIEW(rvit_match_args, out_cu_seqlens, 4, 0),
                           VIEW(rvit_match_args, src_rows, 16, 0), VIEW(rvit_match_args, next_rows, 16, 0)}};
    rvit_match_args *a = &op->args.match;
    *op = made;
    a->n_images = IMAGES;
    a->max_len = MAX_LEN;
    a->rows = ROWS;
    a->n_prefix = 1;
    a->n_heads = 2;
    a->head_dim = 8;
    a->merges = 2;
    a->k_stride = DIM + 8;
    a->k = input("k", ((ROWS - 1) * (DIM + 8) + DIM) * 4);
    a->cu_seqlens = lengths();
    a->metric = output("metric", ROWS * 8 * 4);
    a->keep = output("keep", ROWS);
    a->out_cu_seqlens = output("out_cu_seqlens", (IMAGES + 1) * 4);
    a->src_rows = output("src_rows", ROWS * 4);
    a->next_rows = output("next_rows", ROWS * 4);
}

static void make_merge(good_op *op)
{
    static const int32_t ends[ROWS] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const good_op made = {"merge",
                          call_merge,
                          {.merge = RVIT_MERGE_ARGS_INIT},
                          {VIEW(rvit_merge_args, rows.live, 4, 1), VIEW(rvit_merge_args, x, 16, 0), VIEW(rvit_merge_args, sizes, 16, 1),
                           VIEW(rvit_merge_args, src_rows, 16, 0), VIEW(rvit_merge_args, next_rows, 16, 0),
                           VIEW(rvit_merge_args, out_x, 16, 0), VIEW(rvit_merge_args, out_sizes, 16, 0),
                           VIEW(rvit_merge_args, out_key_bias, 16, 0)}};
    rvit_merge_args *a = &op->args.merge;
    *op = made;
    a->rows = rows(ROWS);
    a->x_rows = ROWS;
    a->dim = DIM;
    a->x = input("x", ROWS * DIM * 4);
    a->sizes = input("sizes", ROWS * 4);
    a->src_rows = row_numbers();
    a->next_rows = ints("next_rows", ends, ROWS);
    a->out_x = output("out_x", ROWS * DIM * 4);
    a->out_sizes = output("out_sizes", ROWS * 4);
    a->out_key_bias = output("out_key_bias", ROWS * 4);
}

static void make_pack(good_op *op)
{
    const good_op made = {"pack",
                          call_pack,
                          {.pack = RVIT_PACK_ARGS_INIT},
                          {VIEW(rvit_pack_args, rows.live, 4, 1), VIEW(rvit_pack_args, source, 16, 0),
                           VIEW(rvit_pack_args, src_rows, 16, 0), VIEW(rvit_pack_args, destination, 16, 0)}};
    rvit_pack_args *a = &op->args.pack;
    *op = made;
    a->rows = rows(ROWS);
    a->source_rows = ROWS;
    a->row_size = DIM * 4;
    a->source = input("source", ROWS * DIM * 4);
    a->src_rows = row_numbers();
    a->destination = output("destination", ROWS * DIM * 4);
}

static void make_unpack(good_op *op)
{
    const good_op made = {"unpack",
                          call_unpack,
                          {.unpack = RVIT_UNPACK_ARGS_INIT},
                          {VIEW(rvit_unpack_args, rows.live, 4, 1), VIEW(rvit_unpack_args, destination_rows.live, 4, 1),
                           VIEW(rvit_unpack_args, source, 16, 0), VIEW(rvit_unpack_args, src_rows, 16, 0),
                           VIEW(rvit_unpack_args, base, 16, 1), VIEW(rvit_unpack_args, destination, 16, 0)}};
    rvit_unpack_args *a = &op->args.unpack;
    *op = made;
    a->rows = rows(ROWS);
    a->destination_rows = rows(ROWS);
    a->dim = DIM;
    a->source = input("source", ROWS * DIM * 4);
    a->src_rows = row_numbers();
    a->base = input("base", ROWS * DIM * 4);
    a->destination = output("destination", ROWS * DIM * 4);
}

static void make_head(good_op *op)
{
    const good_op made = {"head",
                          call_head,
                          {.head = RVIT_HEAD_ARGS_INIT},
                          {VIEW(rvit_head_args, x, 16, 0), VIEW(rvit_head_args, cu_seqlens, 4, 0), VIEW(rvit_head_args, gamma, 16, 0),
                           VIEW(rvit_head_args, beta, 16, 0), VIEW(rvit_head_args, weight, 16, 0), VIEW(rvit_head_args, bias, 16, 1),
                           VIEW(rvit_head_args, logits, 16, 0)}};
    rvit_head_args *a = &op->args.head;
    *op = made;
    a->n_images = IMAGES;
    a->rows = ROWS;
    a->dim = DIM;
    a->n_tokens = 1;
    a->n_classes = 7;
    a->eps = 1e-6f;
    a->x = input("x", ROWS * DIM * 4);
    a->cu_seqlens = lengths();
    a->gamma = input("gamma", DIM * 4);
    a->beta = input("beta", DIM * 4);
    a->weight = input("weight", 7 * DIM * 4);
    a->bias = input("bias", 7 * 4);
    a->logits = output("logits", IMAGES * 7 * 4);
}

void good_ops(good_op *out)
{
    make_copy(&out[COPY]);
    make_patchify(&out[PATCHIFY]);
    make_linear(&out[LINEAR]);
    make_layernorm(&out[LAYERNORM]);
    make_attention(&out[ATTENTION]);
    make_select(&out[SELECT_TOP_K], RVIT_SELECT_TOP_K, RVIT_SCORE_GIVEN, 0);
    make_select(&out[SELECT_THRESHOLD], RVIT_SELECT_THRESHOLD, RVIT_SCORE_GIVEN, 0);
    make_select(&out[SELECT_MASK], RVIT_SELECT_MASK, RVIT_SCORE_GIVEN, 0);
    make_select(&out[SELECT_L2], RVIT_SELECT_TOP_K, RVIT_SCORE_L2, 0);
    make_select(&out[SELECT_FUSED], RVIT_SELECT_TOP_K, RVIT_SCORE_CLS_ATTENTION, 1);
    make_select(&out[SELECT_SAMPLE], RVIT_SELECT_SAMPLE, RVIT_SCORE_CLS_NORM, 0);
    make_select(&out[SELECT_MASS], RVIT_SELECT_MASS, RVIT_SCORE_POSITION, 0);
    make_select(&out[SELECT_PREDICTOR], RVIT_SELECT_TOP_K, RVIT_SCORE_PREDICTOR, 0);
    make_mean(&out[MEAN]);
    make_match(&out[MATCH]);
    make_merge(&out[MERGE]);
    make_pack(&out[PACK]);
    make_unpack(&out[UNPACK]);
    make_head(&out[HEAD]);
    arrays_upload();
}
