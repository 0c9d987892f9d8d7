/* Every view of every op: missing, past its buffer's end, before its beginning, misaligned, on another device. */
#include "api.h"
#include "bad_input.h"

void expect_refused(const good_op *op, const any_args *invalid, const char *word)
{
    const rvit_status status = op->call(H.stream[DEVICE], invalid);
    if (status != RVIT_INVALID_ARGUMENT)
        fail_msg("%s with a bad %s gives %s", op->name, word, rvit_status_name(status));
    if (!strstr(rvit_status_detail(), op->name))
        fail_msg("the detail does not name the op %s: %s", op->name, rvit_status_detail());
    expect_status(op->call(H.stream[DEVICE], invalid), RVIT_INVALID_ARGUMENT, word);
    /* Refused while recording, too, and not collected. */
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_status(op->call(H.stream[DEVICE], invalid), RVIT_INVALID_ARGUMENT, word);
    expect_status(rvit_record_end(H.stream[DEVICE], &program), RVIT_INVALID_ARGUMENT, NULL);
    assert_null(program);
}

void expect_nothing_written(void)
{
    arrays_fetch(DEVICE);
    arrays_expect_unwritten(DEVICE);
}

static void expect_all_work(const good_op *ops)
{
    for (int i = 0; i < N_GOOD_OPS; i++) {
        (void)good_op_works(&ops[i]);
        expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    }
    arrays_fetch(DEVICE);
}

/* Calls `spoil` for every view of every op and expects the call to be refused. */
static void spoil_each(int (*spoil)(rvit_view *view, const view_field *field))
{
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    int n = 0;
    for (int i = 0; i < N_GOOD_OPS; i++)
        for (const view_field *field = ops[i].views; field->name; field++) {
            any_args args = ops[i].args;
            assert_non_null(view_of(&args, field)->buffer);
            if (!spoil(view_of(&args, field), field))
                continue;
            expect_refused(&ops[i], &args, field->name);
            n++;
        }
    assert_true(n > 30);
    expect_nothing_written();
    expect_all_work(ops);
}

static int remove_view(rvit_view *view, const view_field *field)
{
    const rvit_view none = {NULL, 0};
    *view = none;
    return !field->optional;
}

static int end_of_buffer(rvit_view *view, const view_field *field)
{
    (void)field;
    view->offset = rvit_buffer_size(view->buffer) / 16 * 16;
    return 1;
}

static int far_past_the_end(rvit_view *view, const view_field *field)
{
    (void)field;
    view->offset = INT64_MAX / 16 * 16;
    return 1;
}

static int negative(rvit_view *view, const view_field *field)
{
    (void)field;
    view->offset = -16;
    return 1;
}

static int misaligned(rvit_view *view, const view_field *field)
{
    view->offset += field->alignment / 2;
    return 1;
}

static void missing_views(void **state)
{
    (void)state;
    spoil_each(remove_view);
}

static void views_past_the_end(void **state)
{
    (void)state;
    spoil_each(end_of_buffer);
    harness_teardown(NULL);
    spoil_each(far_past_the_end);
    harness_teardown(NULL);
    spoil_each(negative);
}

static void misaligned_views(void **state)
{
    (void)state;
    spoil_each(misaligned);
}

static rvit_buffer *foreign_buffer;

static int foreign(rvit_view *view, const view_field *field)
{
    (void)field;
    view->buffer = foreign_buffer;
    view->offset = 0;
    return 1;
}

static void buffers_of_another_device(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    expect_ok(rvit_device_create(&desc, &device));
    expect_ok(rvit_buffer_create(device, 1 << 16, RVIT_BUFFER_DEVICE, &foreign_buffer));
    spoil_each(foreign);
    rvit_buffer_destroy(foreign_buffer);
    rvit_device_destroy(device);
}

/* The last byte of an array must be there: a buffer smaller by one is refused, one that just holds it is not. Recorded only, since what
   lies in such a buffer is undefined. */
static void views_that_just_fit(void **state)
{
    (void)state;
    static const view_field no_view = {NULL, 0, 0, 0};
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    for (int i = 0; i < N_GOOD_OPS; i++)
        for (const view_field *field = good_op_works(&ops[i]) ? ops[i].views : &no_view; field->name; field++) {
            any_args args = ops[i].args;
            rvit_view *view = view_of(&args, field);
            const int64_t size = array_of(view->buffer)->size;
            rvit_buffer *exact = NULL, *small = NULL;
            rvit_program *program = NULL;
            expect_ok(rvit_buffer_create(H.device[DEVICE], 32 + size, RVIT_BUFFER_DEVICE, &exact));
            expect_ok(rvit_buffer_create(H.device[DEVICE], 32 + size - 1, RVIT_BUFFER_DEVICE, &small));
            view->offset = 32;
            view->buffer = small;
            expect_refused(&ops[i], &args, field->name);
            view->buffer = exact;
            expect_ok(rvit_record_begin(H.stream[DEVICE]));
            expect_ok(ops[i].call(H.stream[DEVICE], &args));
            expect_ok(rvit_record_end(H.stream[DEVICE], &program));
            rvit_program_destroy(program);
            rvit_buffer_destroy(exact);
            rvit_buffer_destroy(small);
        }
}

/* Outputs that overlap an input, or another output. */
static void overlapping_views(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
#define OVERLAP(op, word, ...)                 \
    do {                                       \
        any_args args = ops[op].args;          \
        __VA_ARGS__;                           \
        expect_refused(&ops[op], &args, word); \
    } while (0)
    OVERLAP(COPY, "destination", args.copy.destination = args.copy.source);
    OVERLAP(COPY, "destination", args.copy.destination = args.copy.source; args.copy.destination.offset += 60);
    OVERLAP(PACK, "destination", args.pack.destination = args.pack.source);
    OVERLAP(PACK, "destination", args.pack.destination = args.pack.source; args.pack.rows.capacity = 2; args.pack.destination.offset += 64);
    OVERLAP(UNPACK, "destination", args.unpack.destination = args.unpack.source);
    OVERLAP(LAYERNORM, "out", args.layernorm.out = args.layernorm.x);
    OVERLAP(LAYERNORM, "out_x", args.layernorm.out_x = args.layernorm.x);
    OVERLAP(LAYERNORM, "out_x", args.layernorm.out_x = args.layernorm.out);
    OVERLAP(LINEAR, "out", args.linear.out = args.linear.x);
    OVERLAP(LINEAR, "out", args.linear.out = args.linear.residual; args.linear.out.offset += 16);
    OVERLAP(LINEAR, "out", args.linear.out = args.linear.residual; args.linear.residual_period = 2);
    OVERLAP(LAYERNORM, "out_scales", args.layernorm.out_dtype = RVIT_I8; args.layernorm.out_scales = args.layernorm.gamma);
    OVERLAP(QUANTIZE, "out", args.quantize.out = args.quantize.x);
    OVERLAP(QUANTIZE, "out_scales", args.quantize.out_scales = args.quantize.out);
    OVERLAP(QUANTIZE, "saturated", args.quantize.saturated = args.quantize.out_scales);
    OVERLAP(SELECT_TOP_K, "out_cu_seqlens", args.select.out_cu_seqlens = args.select.cu_seqlens);
    OVERLAP(SELECT_MASK, "keep", args.select.keep = args.select.keep_in);
    OVERLAP(SELECT_FUSED, "fuse_x", args.select.fuse_x = args.select.cls_probs; args.select.rows = 1; args.select.fuse_dim = 4);
    OVERLAP(SELECT_L2, "scores", args.select.scores = args.select.x);
    OVERLAP(SELECT_L2, "scores", args.select.scores = args.select.counts; args.select.rows = 6);
    OVERLAP(SELECT_PREDICTOR, "keep", args.select.keep = args.select.scores);
    OVERLAP(SELECT_SAMPLE, "src_rows", args.select.src_rows = args.select.scores);
    OVERLAP(MEAN, "x", args.mean.cu_seqlens = args.mean.x);
    OVERLAP(BIPARTITE_MATCH, "metric", args.bipartite_match.metric = args.bipartite_match.k);
    OVERLAP(BIPARTITE_MATCH, "next_rows", args.bipartite_match.next_rows = args.bipartite_match.src_rows);
    OVERLAP(BIPARTITE_MATCH, "out_cu_seqlens", args.bipartite_match.out_cu_seqlens = args.bipartite_match.cu_seqlens);
    OVERLAP(MERGE, "out_x", args.merge.out_x = args.merge.x);
    OVERLAP(MERGE, "out_sizes", args.merge.out_sizes = args.merge.sizes);
    OVERLAP(MERGE, "out_key_bias", args.merge.out_key_bias = args.merge.out_sizes);
    OVERLAP(ATTENTION, "out", args.attention.out = args.attention.q);
    OVERLAP(ATTENTION, "lse", args.attention.lse = args.attention.cls_probs);
    OVERLAP(ATTENTION_BACKWARD, "d_q", args.attention_backward.d_q = args.attention_backward.q);
    OVERLAP(ATTENTION_BACKWARD, "d_out", args.attention_backward.d_v = args.attention_backward.d_out);
    OVERLAP(ATTENTION_BACKWARD, "d_k", args.attention_backward.d_v = args.attention_backward.d_k);
    OVERLAP(ATTENTION_BACKWARD, "workspace", args.attention_backward.workspace = args.attention_backward.d_q);
    OVERLAP(ATTENTION_BACKWARD, "d_key_bias", args.attention_backward.d_key_bias = args.attention_backward.key_bias);
    /* Rows between each other: columns that meet, and strides that differ. */
    OVERLAP(ATTENTION_BACKWARD, "d_q", args.attention_backward.d_k = args.attention_backward.d_q;
            args.attention_backward.d_q_stride = args.attention_backward.d_k_stride = 32; args.attention_backward.rows = 5;
            args.attention_backward.d_k.offset += 48);
    OVERLAP(ATTENTION_BACKWARD, "d_q", args.attention_backward.d_k = args.attention_backward.d_q; args.attention_backward.d_q_stride = 32;
            args.attention_backward.d_k_stride = 40; args.attention_backward.rows = 4; args.attention_backward.d_k.offset += 64);
    OVERLAP(HEAD, "logits", args.head.logits = args.head.bias);
    OVERLAP(ATTENTION_POOL, "out", args.attention_pool.out = args.attention_pool.x);
    OVERLAP(ATTENTION_POOL, "probs", args.attention_pool.probs = args.attention_pool.logits);
    OVERLAP(POOL, "out", args.pool.out = args.pool.x);
    OVERLAP(POOL, "out", args.pool.out = args.pool.sizes; args.pool.n_images = 1; args.pool.dim = 4);
#undef OVERLAP
    expect_nothing_written();
    expect_all_work(ops);
}

SUITE(bad_views_suite, TEST(missing_views), TEST(views_past_the_end), TEST(misaligned_views), TEST(buffers_of_another_device),
      TEST(views_that_just_fit), TEST(overlapping_views));
