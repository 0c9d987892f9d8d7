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
CALL(score)
CALL(select)
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
    const rvit_rows r = {capacity, ints("live", &live, 1)};
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

static void make_score(good_op *op, rvit_score_type type)
{
    const good_op l2 = {"score",
                        call_score,
                        {.score = RVIT_SCORE_ARGS_INIT},
                        {VIEW(rvit_score_args, rows.live, 4, 1), VIEW(rvit_score_args, x, 16, 0), VIEW(rvit_score_args, scores, 16, 0)}};
    const good_op cls = {
        "score",
        call_score,
        {.score = RVIT_SCORE_ARGS_INIT},
        {VIEW(rvit_score_args, rows.live, 4, 1), VIEW(rvit_score_args, cls_probs, 16, 0), VIEW(rvit_score_args, scores, 16, 0)}};
    rvit_score_args *a = &op->args.score;
    *op = type == RVIT_SCORE_L2 ? l2 : cls;
    a->type = type;
    a->rows = rows(ROWS);
    a->scores = output("scores", ROWS * 4);
    if (type == RVIT_SCORE_L2) {
        a->dim = DIM;
        a->x = input("x", ROWS * DIM * 4);
    } else {
        a->n_heads = 2;
        a->cls_probs = input("cls_probs", ROWS * 2 * 4);
    }
}

static void make_select(good_op *op, rvit_select_mode mode)
{
    static const int32_t counts[MAX_LEN + 1] = {0, 1, 1, 2, 2, 3, 3};
    const good_op made = {"select",
                          call_select,
                          {.select = RVIT_SELECT_ARGS_INIT},
                          {VIEW(rvit_select_args, cu_seqlens, 4, 0), VIEW(rvit_select_args, keep, 16, 0),
                           VIEW(rvit_select_args, out_cu_seqlens, 4, 0), VIEW(rvit_select_args, src_rows, 16, 0),
                           VIEW(rvit_select_args, error, 4, 1)}};
    const view_field more[3] = {VIEW(rvit_select_args, scores, 16, 0), VIEW(rvit_select_args, keep_in, 16, 0),
                                VIEW(rvit_select_args, counts, 16, 0)};
    rvit_select_args *a = &op->args.select;
    *op = made;
    op->views[5] = more[mode == RVIT_SELECT_MASK];
    if (mode == RVIT_SELECT_TOP_K)
        op->views[6] = more[2];
    a->mode = mode;
    a->n_images = IMAGES;
    a->max_len = MAX_LEN;
    a->rows = ROWS;
    a->n_prefix = 1;
    a->cu_seqlens = lengths();
    a->keep = output("keep", ROWS);
    a->out_cu_seqlens = output("out_cu_seqlens", (IMAGES + 1) * 4);
    a->src_rows = output("src_rows", ROWS * 4);
    a->error = output("error", 4);
    if (mode == RVIT_SELECT_TOP_K)
        a->counts = ints("counts", counts, MAX_LEN + 1);
    if (mode == RVIT_SELECT_MASK)
        a->keep_in = input("keep_in", ROWS);
    else
        a->scores = input("scores", ROWS * 4);
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
    make_score(&out[SCORE_L2], RVIT_SCORE_L2);
    make_score(&out[SCORE_CLS], RVIT_SCORE_CLS_ATTENTION);
    make_select(&out[SELECT_TOP_K], RVIT_SELECT_TOP_K);
    make_select(&out[SELECT_THRESHOLD], RVIT_SELECT_THRESHOLD);
    make_select(&out[SELECT_MASK], RVIT_SELECT_MASK);
    make_pack(&out[PACK]);
    make_unpack(&out[UNPACK]);
    make_head(&out[HEAD]);
    arrays_upload();
}
