/* Tests the weight layout for GEMMs with direct loads. Any device can run arrange.comp, but few use the result. Also tests attention on
   those few. */
#include "vulkan_tests.h"

#include <math.h>

#include "backend_vulkan/vulkan.h"
#include "core/contract/backend.h"

enum { COLUMNS = 128, FEATURES = 192, BEFORE = 64 };

static rvit_op linear_of(rvit_buffer *weight)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = RVIT_F16;
    op.linear.in_features = FEATURES;
    op.linear.out_features = COLUMNS;
    op.linear.weight = (rvit_view){weight, BEFORE};
    return op;
}

/* The position of an element. A block of 64 x 64 has four matrices along the columns and four along the features. In each, a lane has 16
   bytes of two columns. */
static int index_of(int column, int feature)
{
    const int k = feature % 32, step = feature % 64 / 32 * 2 + k % 8 / 4;
    const int lane = column % 64 / 8 * 4 + k / 8, pair = k % 4 / 2 * 2 + column % 2;
    const int at = ((step * 32 + lane) * 4 + pair) * 2 + k % 2; /* index within 16 columns, as rows of 64 elements */
    return (column / 64 * 64 + column % 8 / 2 * 16 + at / 64) * FEATURES + feature / 64 * 64 + at % 64;
}

static void arrange(rvit_device *device, rvit_op *op)
{
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_create(device, &stream));
    expect_ok(rvit_vk_arrange_weight(stream, op));
    expect_ok(rvit_stream_synchronize(stream));
    rvit_stream_destroy(stream);
}

static void arranged_in_place(void **state)
{
    (void)state;
    set_layer("");
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    desc.skip_self_test = 1;
    expect_ok(rvit_device_create(&desc, &device));
    rvit_vk_device *vk = (rvit_vk_device *)device;
    rvit_buffer *weight = NULL;
    expect_ok(rvit_buffer_create(device, BEFORE + COLUMNS * FEATURES * 2 + BEFORE, RVIT_BUFFER_UPLOAD, &weight));
    memset(rvit_buffer_host(weight), SENTINEL, BEFORE + COLUMNS * FEATURES * 2 + BEFORE);
    uint16_t *values = (uint16_t *)((char *)rvit_buffer_host(weight) + BEFORE);
    for (int i = 0; i < COLUMNS * FEATURES; i++)
        values[i] = (uint16_t)i;

    rvit_op op = linear_of(weight);
    device->info.tier = RVIT_TIER_MATRIX;
    vk->physical.matrix.in_rows = 0;
    arrange(device, &op);
    assert_int_equal(op.hints.arranged, 0);
    vk->physical.matrix.in_rows = 1;
    op.linear.in_features = FEATURES - 32;
    arrange(device, &op);
    assert_int_equal(op.hints.arranged, 0);
    op = linear_of(weight);
    op.linear.out_features = COLUMNS - 16;
    arrange(device, &op);
    assert_int_equal(op.hints.arranged, 0);
    for (int i = 0; i < COLUMNS * FEATURES; i++)
        assert_int_equal(values[i], i);

    op = linear_of(weight);
    arrange(device, &op);
    assert_int_equal(op.hints.arranged, 1);
    for (int column = 0; column < COLUMNS; column++)
        for (int feature = 0; feature < FEATURES; feature++)
            assert_int_equal(values[index_of(column, feature)], column * FEATURES + feature);
    for (int i = 0; i < BEFORE; i++) {
        assert_int_equal(((uint8_t *)rvit_buffer_host(weight))[i], SENTINEL);
        assert_int_equal(((uint8_t *)(values + COLUMNS * FEATURES))[i], SENTINEL);
    }
    rvit_buffer_destroy(weight);
    rvit_device_destroy(device);
}

/* Arguments that cannot be arranged are an error instead of being silently ignored. */
static void fails_to_arrange(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *weight = NULL;
    rvit_device_desc desc = auto_desc();
    desc.skip_self_test = 1;
    set_layer("");
    expect_ok(rvit_device_create(&desc, &device));
    device->info.tier = RVIT_TIER_MATRIX;
    ((rvit_vk_device *)device)->physical.matrix.in_rows = 1;
    expect_ok(rvit_buffer_create(device, BEFORE + COLUMNS * FEATURES * 2, RVIT_BUFFER_UPLOAD, &weight));
    expect_ok(rvit_stream_create(device, &stream));
    rvit_op op = linear_of(weight);
    set_layer("no_shaders");
    expect_status(rvit_vk_arrange_weight(stream, &op), RVIT_OUT_OF_DEVICE_MEMORY, "vkCreateShaderModule");
    assert_int_equal(op.hints.arranged, 0);
    set_layer("");
    expect_ok(rvit_vk_arrange_weight(stream, &op));
    assert_int_equal(op.hints.arranged, 1);
    expect_ok(rvit_stream_synchronize(stream));
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(weight);
    rvit_device_destroy(device);
}

/* A device with another matrix layout fails its self-test and falls back to shared memory. */
static void other_matrix_layout(void **state)
{
    (void)state;
    set_layer("");
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    desc.tier = RVIT_TIER_MATRIX;
    if (rvit_device_create(&desc, &device) != RVIT_OK)
        skip();
    rvit_vk_device *vk = (rvit_vk_device *)device;
    if (vk->physical.matrix.in_rows) {
        rvit_device_destroy(device);
        skip();
    }
    expect_ok(rvit_vk_self_test(vk));
    vk->physical.matrix.in_rows = 1;
    expect_status(rvit_vk_self_test(vk), RVIT_INTERNAL, "arranged weight");
    rvit_device_destroy(device);
}

static void run(rvit_device *device, rvit_op *op)
{
    expect_ok(rvit_op_prepare(op));
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_create(device, &stream));
    expect_ok(device->api->stream_enqueue(stream, op, 1));
    expect_ok(rvit_stream_synchronize(stream));
    rvit_stream_destroy(stream);
}

/* A GEMM with 16-bit or f32 results and a plain or an arranged weight, into `out`. */
static void multiply(rvit_device *device, rvit_op op, rvit_buffer *in, rvit_buffer *out, int arranged)
{
    memset(rvit_buffer_host(out), SENTINEL, (size_t)rvit_buffer_size(out));
    op.linear.out.buffer = out;
    op.hints.arranged = 0;
    if (arranged)
        arrange(device, &op);
    assert_int_equal(op.hints.arranged, arranged);
    op.linear.x.buffer = op.linear.bias.buffer = in;
    run(device, &op);
}

/* On devices that support arranged weights, the results equal those of row-major weights up to the order of summation. */
static void arranged_equals_row_major(void **state)
{
    (void)state;
    enum { MOST_ROWS = 6300, MOST_FEATURES = 320, MOST_COLUMNS = 320, WEIGHT = MOST_COLUMNS * MOST_FEATURES * 2 };
    /* With one multiprocessor assumed, many workgroups and therefore the larger tiles seem faster. */
    static const int sizes[][4] = {{1, 64, 64, 0},   {37, 128, 128, 0},  {64, 192, 64, 0},  {130, 320, 192, 0}, {17, 192, 320, 0},
                                   {96, 64, 192, 1}, {400, 128, 256, 1}, {131, 64, 320, 1}, {6300, 64, 128, 1}};
    rvit_device *device = NULL;
    const rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    if (device->info.tier != RVIT_TIER_MATRIX || !((rvit_vk_device *)device)->physical.matrix.in_rows) {
        rvit_device_destroy(device);
        skip();
    }
    const uint32_t processors = ((rvit_vk_device *)device)->physical.matrix.processors;
    rvit_buffer *in = NULL, *weight = NULL, *out[2] = {NULL, NULL};
    const int64_t x_size = MOST_ROWS * MOST_FEATURES * 2;
    expect_ok(rvit_buffer_create(device, x_size + MOST_COLUMNS * 4 + 4, RVIT_BUFFER_UPLOAD, &in));
    expect_ok(rvit_buffer_create(device, WEIGHT, RVIT_BUFFER_UPLOAD, &weight));
    for (int i = 0; i < 2; i++)
        expect_ok(rvit_buffer_create(device, MOST_ROWS * MOST_COLUMNS * 4, RVIT_BUFFER_READBACK, &out[i]));
    random_seed(5);
    store_normal(RVIT_F16, rvit_buffer_host(in), 0, MOST_ROWS * MOST_FEATURES, 1);
    store_normal(RVIT_F32, (char *)rvit_buffer_host(in) + x_size, 0, MOST_COLUMNS, 1);
    for (int i = 0; i < 4 * (int)(sizeof sizes / sizeof sizes[0]); i++) {
        const int *size = sizes[i / 4], gated = i % 2;
        ((rvit_vk_device *)device)->physical.matrix.processors = size[3] != 0 ? 1 : processors;
        rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
        op.linear.dtype = RVIT_F16;
        op.linear.out_dtype = i % 4 < 2 ? RVIT_F16 : RVIT_F32;
        const int32_t live = size[0] - size[0] / 4; /* the rest is not written */
        memcpy((char *)rvit_buffer_host(in) + x_size + MOST_COLUMNS * 4, &live, sizeof live);
        op.linear.rows = (rvit_rows){size[0], {in, x_size + MOST_COLUMNS * 4}, 0};
        op.linear.in_features = size[1];
        op.linear.out_features = gated ? size[2] / 2 : size[2];
        op.linear.gated = gated;
        op.linear.activation = RVIT_ACTIVATION_GELU;
        op.linear.weight.buffer = weight;
        op.linear.bias.offset = x_size;
        for (int arranged = 0; arranged < 2; arranged++) {
            random_seed(6);
            store_normal(RVIT_F16, rvit_buffer_host(weight), 0, (int64_t)size[1] * size[2], 0.1f);
            multiply(device, op, in, out[arranged], arranged);
        }
        const void *first = rvit_buffer_host(out[0]), *second = rvit_buffer_host(out[1]);
        const int64_t n = (int64_t)live * op.linear.out_features, bytes = n * rvit_dtype_size(op.linear.out_dtype);
        for (int64_t e = 0; e < n; e++) {
            const double a = load(op.linear.out_dtype, first, e), b = load(op.linear.out_dtype, second, e);
            if (!(fabs(a - b) <= (i % 4 < 2 ? 1e-3 : 1e-5) * (1 + fabs(a))))
                fail_msg("%d rows of %d features, %d columns: element %lld is %g row-major, %g arranged", size[0], size[1], size[2],
                         (long long)e, a, b);
        }
        assert_memory_equal((const char *)first + bytes, (const char *)second + bytes,
                            (size_t)MOST_ROWS * MOST_COLUMNS * 4 - (size_t)bytes);
    }
    for (int i = 0; i < 2; i++)
        rvit_buffer_destroy(out[i]);
    rvit_buffer_destroy(in);
    rvit_buffer_destroy(weight);
    rvit_device_destroy(device);
}

/* attention_rows.comp: the number of query matrices per subgroup does not change any bit. */
static void query_rows_do_not_change_bits(void **state)
{
    (void)state;
    enum { ROWS = 300, HEADS = 2, DIM = 128, QKV = ROWS * 3 * DIM * 2, BIAS = ROWS * 4, PROBS = ROWS * HEADS * 4 };
    static const int32_t ends[] = {0, 40, 41, 240, 300};
    rvit_device *device = NULL;
    const rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    rvit_vk_matrix *matrix = &((rvit_vk_device *)device)->physical.matrix;
    if (device->info.tier != RVIT_TIER_MATRIX || !matrix->in_rows) {
        rvit_device_destroy(device);
        skip();
    }
    rvit_buffer *in = NULL, *out[2] = {NULL, NULL};
    expect_ok(rvit_buffer_create(device, QKV + BIAS + (int64_t)sizeof ends, RVIT_BUFFER_UPLOAD, &in));
    random_seed(7);
    store_normal(RVIT_F16, rvit_buffer_host(in), 0, ROWS * 3 * DIM, 2);
    store_normal(RVIT_F32, (char *)rvit_buffer_host(in) + QKV, 0, ROWS, 1);
    memcpy((char *)rvit_buffer_host(in) + QKV + BIAS, ends, sizeof ends);
    const uint32_t processors = matrix->processors;
    for (int form = 0; form < 4; form++) {
        for (int two = 0; two < 2; two++) {
            if (form == 0)
                expect_ok(rvit_buffer_create(device, ROWS * DIM * 2 + 2 * PROBS, RVIT_BUFFER_READBACK, &out[two]));
            rvit_op op = {.type = RVIT_OP_ATTENTION, .attention = RVIT_ATTENTION_ARGS_INIT};
            op.attention.dtype = RVIT_F16;
            op.attention.n_images = 4;
            op.attention.n_heads = HEADS;
            op.attention.head_dim = DIM / HEADS;
            op.attention.max_len = 199;
            op.attention.rows = ROWS;
            op.attention.q = (rvit_view){in, 0};
            op.attention.k = (rvit_view){in, DIM * 2};
            op.attention.v = (rvit_view){in, 2 * DIM * 2};
            op.attention.q_stride = op.attention.k_stride = op.attention.v_stride = 3 * DIM;
            op.attention.cu_seqlens = (rvit_view){in, QKV + BIAS};
            op.attention.out = (rvit_view){out[two], 0};
            if (form % 2 != 0)
                op.attention.key_bias = (rvit_view){in, QKV};
            if (form >= 2) {
                op.attention.cls_probs = (rvit_view){out[two], ROWS * DIM * 2};
                op.attention.lse = (rvit_view){out[two], ROWS * DIM * 2 + PROBS};
            }
            memset(rvit_buffer_host(out[two]), SENTINEL, (size_t)rvit_buffer_size(out[two]));
            matrix->processors = two ? 1 : processors;
            run(device, &op);
        }
        assert_memory_equal(rvit_buffer_host(out[0]), rvit_buffer_host(out[1]), ROWS * DIM * 2 + 2 * PROBS);
        for (int i = 0; i < ROWS * DIM; i++)
            assert_true(fabs(load(RVIT_F16, rvit_buffer_host(out[0]), i)) < 16);
    }
    for (int i = 0; i < 2; i++)
        rvit_buffer_destroy(out[i]);
    rvit_buffer_destroy(in);
    rvit_device_destroy(device);
}

SUITE(arrange_suite, TEST(arranged_in_place), TEST(other_matrix_layout), TEST(arranged_equals_row_major),
      TEST(query_rows_do_not_change_bits));

/* Requires the layer of failing drivers. */
SUITE(arrange_failure_suite, TEST(fails_to_arrange));
