/* The order of weights whose GEMM stages nothing: arrange.comp runs on any device, while those that use it are few. */
#include "vulkan_tests.h"

#include <math.h>

#include "backend_vulkan/vulkan.h"
#include "core/backend.h"

enum { COLUMNS = 48, FEATURES = 192, BEFORE = 64 };

static rvit_op linear_of(rvit_buffer *weight)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = RVIT_F16;
    op.linear.in_features = FEATURES;
    op.linear.out_features = COLUMNS;
    op.linear.weight = (rvit_view){weight, BEFORE};
    return op;
}

/* Where an element goes: in a block of 16 columns and 64 features, of four matrices, a lane has 16 bytes of each. */
static int place_of(int column, int feature)
{
    const int k = feature % 32, matrix = feature % 64 / 32 * 2 + k % 8 / 4;
    const int lane = column % 8 * 4 + k / 8, pair = k % 4 / 2 * 2 + column % 16 / 8;
    const int at = ((matrix * 32 + lane) * 4 + pair) * 2 + k % 2; /* of the block, whose rows have 64 elements */
    return (column / 16 * 16 + at / 64) * FEATURES + feature / 64 * 64 + at % 64;
}

static void arranged_in_place(void **state)
{
    (void)state;
    layer_does("");
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
    vk->physical.matrix.unstaged = 0;
    rvit_vk_arrange_weight(device, &op);
    assert_int_equal(op.hints.arranged, 0);
    vk->physical.matrix.unstaged = 1;
    op.linear.in_features = FEATURES - 32;
    rvit_vk_arrange_weight(device, &op);
    assert_int_equal(op.hints.arranged, 0);
    for (int i = 0; i < COLUMNS * FEATURES; i++)
        assert_int_equal(values[i], i);

    op = linear_of(weight);
    rvit_vk_arrange_weight(device, &op);
    assert_int_equal(op.hints.arranged, 1);
    for (int column = 0; column < COLUMNS; column++)
        for (int feature = 0; feature < FEATURES; feature++)
            assert_int_equal(values[place_of(column, feature)], column * FEATURES + feature);
    for (int i = 0; i < BEFORE; i++) {
        assert_int_equal(((uint8_t *)rvit_buffer_host(weight))[i], SENTINEL);
        assert_int_equal(((uint8_t *)(values + COLUMNS * FEATURES))[i], SENTINEL);
    }
    rvit_buffer_destroy(weight);
    rvit_device_destroy(device);
}

/* A device that holds matrices otherwise finds out by its self-test, and stages. */
static void held_otherwise(void **state)
{
    (void)state;
    layer_does("");
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    desc.tier = RVIT_TIER_MATRIX;
    if (rvit_device_create(&desc, &device) != RVIT_OK)
        skip();
    rvit_vk_device *vk = (rvit_vk_device *)device;
    if (vk->physical.matrix.unstaged) {
        rvit_device_destroy(device);
        skip();
    }
    expect_ok(rvit_vk_self_test(vk));
    vk->physical.matrix.unstaged = 1;
    expect_status(rvit_vk_self_test(vk), RVIT_INTERNAL, "arranged weight");
    rvit_device_destroy(device);
}

/* A GEMM of rows of 16-bit or f32 results, with its weight as it is or arranged, into `out`. */
static void multiply(rvit_device *device, rvit_op op, rvit_buffer *in, rvit_buffer *out, int arranged)
{
    memset(rvit_buffer_host(out), SENTINEL, (size_t)rvit_buffer_size(out));
    op.linear.out.buffer = out;
    op.hints.arranged = 0;
    if (arranged)
        rvit_vk_arrange_weight(device, &op);
    assert_int_equal(op.hints.arranged, arranged);
    op.linear.x.buffer = op.linear.bias.buffer = in;
    expect_ok(rvit_op_prepare(&op));
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_create(device, &stream));
    expect_ok(device->api->stream_enqueue(stream, &op, 1));
    expect_ok(rvit_stream_synchronize(stream));
    rvit_stream_destroy(stream);
}

/* Where a device takes arranged weights, sums are those of row-major ones, in another order. */
static void arranged_equals_row_major(void **state)
{
    (void)state;
    enum { MOST_ROWS = 130, MOST_FEATURES = 192, MOST_COLUMNS = 208, WEIGHT = MOST_COLUMNS * MOST_FEATURES * 2 };
    static const int sizes[][3] = {{1, 64, 16}, {37, 128, 48}, {64, 192, 64}, {130, 64, 208}, {17, 192, 208}};
    rvit_device *device = NULL;
    const rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    if (device->info.tier != RVIT_TIER_MATRIX || !((rvit_vk_device *)device)->physical.matrix.unstaged) {
        rvit_device_destroy(device);
        skip();
    }
    rvit_buffer *in = NULL, *weight = NULL, *out[2] = {NULL, NULL};
    const int64_t x_size = MOST_ROWS * MOST_FEATURES * 2;
    expect_ok(rvit_buffer_create(device, x_size + MOST_COLUMNS * 4, RVIT_BUFFER_UPLOAD, &in));
    expect_ok(rvit_buffer_create(device, WEIGHT, RVIT_BUFFER_UPLOAD, &weight));
    for (int i = 0; i < 2; i++)
        expect_ok(rvit_buffer_create(device, MOST_ROWS * MOST_COLUMNS * 4, RVIT_BUFFER_READBACK, &out[i]));
    random_seed(5);
    store_normal(RVIT_F16, rvit_buffer_host(in), 0, MOST_ROWS * MOST_FEATURES, 1);
    store_normal(RVIT_F32, (char *)rvit_buffer_host(in) + x_size, 0, MOST_COLUMNS, 1);
    for (int i = 0; i < 4 * (int)(sizeof sizes / sizeof sizes[0]); i++) {
        const int *size = sizes[i / 4], gated = i % 2;
        rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
        op.linear.dtype = RVIT_F16;
        op.linear.out_dtype = i % 4 < 2 ? RVIT_F16 : RVIT_F32;
        op.linear.rows.capacity = size[0];
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
        const int64_t n = (int64_t)size[0] * op.linear.out_features, bytes = n * rvit_dtype_size(op.linear.out_dtype);
        for (int64_t e = 0; e < n; e++) {
            const double a = load(op.linear.out_dtype, first, e), b = load(op.linear.out_dtype, second, e);
            if (!(fabs(a - b) <= (i % 4 < 2 ? 1e-3 : 1e-5) * (1 + fabs(a))))
                fail_msg("%d rows of %d features, %d columns: element %lld is %g row-major, %g arranged", size[0], size[1], size[2],
                         (long long)e, a, b);
        }
        assert_memory_equal((const char *)first + bytes, (const char *)second + bytes, MOST_ROWS * MOST_COLUMNS * 4 - (size_t)bytes);
    }
    for (int i = 0; i < 2; i++)
        rvit_buffer_destroy(out[i]);
    rvit_buffer_destroy(in);
    rvit_buffer_destroy(weight);
    rvit_device_destroy(device);
}

SUITE(arrange_suite, TEST(arranged_in_place), TEST(held_otherwise), TEST(arranged_equals_row_major));
