/* Tests VkBuffers that the application owns. */
#include "app.h"

enum { N = 4096 };
#define STORAGE VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
#define TRANSFER (VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)

static void bad_descs(void **state)
{
    (void)state;
    app_buffer b = app_buffer_open(APP, N + 4, STORAGE);
    const rvit_memory_desc good = app_buffer_desc(&b);
    rvit_memory_desc desc = good;
    rvit_buffer *buffer = NULL;
#define BAD(change, word) \
    desc = good;          \
    change;               \
    expect_status(rvit_buffer_wrap(APP->rvit, &desc, &buffer), RVIT_INVALID_ARGUMENT, word)
    BAD(desc.vk_buffer = 0, "vk_buffer");
    BAD(desc.vk_buffer_size = 0, "size");
    BAD(desc.vk_buffer_size = 8, "size");
    BAD(desc.vk_buffer_size = -1, "negative");
    BAD(desc.vk_buffer_size = (int64_t)1 << 40, "memory");
    BAD(desc.vk_usage = 0, "VK_BUFFER_USAGE_STORAGE_BUFFER_BIT");
    BAD(desc.vk_usage = (uint32_t)TRANSFER, "VK_BUFFER_USAGE_STORAGE_BUFFER_BIT");
    BAD(desc.offset = 8, "multiple");
    BAD(desc.offset = -16, "offset");
    BAD(desc.offset = N + 16, "size");
    BAD((desc.offset = N + 16, desc.size = 16), "small");
    BAD(desc.size = N + 4, "small"); /* too large once rounded up to 16 */
    BAD(desc.size = -1, "negative");
    BAD(desc.size = INT64_MAX, "small");
    BAD((desc.offset = N, desc.size = 16), "small");
    expect_status(rvit_buffer_wrap(APP->rvit, NULL, &buffer), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_buffer_wrap(APP->rvit, &good, NULL), RVIT_INVALID_ARGUMENT, "out_buffer");
    expect_status(rvit_buffer_wrap(NULL, &good, &buffer), RVIT_INVALID_ARGUMENT, "device");
    for (rvit_memory_type type = RVIT_MEMORY_HOST; type <= RVIT_MEMORY_CUDA; type++) {
        desc.type = type;
        expect_status(rvit_buffer_wrap(APP->rvit, &desc, &buffer), RVIT_UNSUPPORTED, "vulkan");
    }
    assert_null(buffer);
    desc = good;
    desc.offset = 16;
    expect_ok(rvit_buffer_wrap(APP->rvit, &desc, &buffer));
    assert_int_equal(rvit_buffer_size(buffer), N - 16); /* multiples of 16 */
    assert_null(rvit_buffer_host(buffer));
    uint64_t handle = 0;
    int64_t offset = 0;
    expect_ok(rvit_buffer_handle(buffer, &handle, &offset));
    assert_true(handle == (uint64_t)b.handle && offset == 16);
    expect_status(rvit_buffer_handle(NULL, &handle, &offset), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_buffer_set(buffer, &desc, 16), RVIT_UNSUPPORTED, "VkBuffer");
    /* Without the transfer usage bits it cannot be copied. */
    uint32_t words[4] = {1, 2, 3, 4};
    expect_status(rvit_stream_write(H.stream[DEVICE], (rvit_view){buffer, 0}, words, 16), RVIT_UNSUPPORTED,
                  "VK_BUFFER_USAGE_TRANSFER_DST_BIT");
    expect_status(rvit_stream_read(H.stream[DEVICE], (rvit_view){buffer, 0}, words, 16), RVIT_UNSUPPORTED,
                  "VK_BUFFER_USAGE_TRANSFER_SRC_BIT");
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_stream_get_stats(H.stream[DEVICE], &stats));
    rvit_buffer_destroy(buffer);
    app_buffer_close(APP, &b);
}

/* The application's commands use the library's buffers. */
static void library_buffers_in_commands(void **state)
{
    (void)state;
    rvit_buffer *own = NULL;
    uint64_t handle = 0;
    int64_t offset = -1;
    expect_ok(rvit_buffer_create(APP->rvit, N, RVIT_BUFFER_READBACK, &own));
    expect_ok(rvit_buffer_handle(own, &handle, &offset));
    assert_int_equal(offset, 0);
    const VkCommandBuffer commands = app_begin(APP);
    APP->vk.vkCmdFillBuffer(commands, (VkBuffer)handle, 0, N, 77);
    app_end(APP, commands);
    app_run(APP, commands);
    for (int i = 0; i < N / 4; i++)
        assert_int_equal(((const int32_t *)rvit_buffer_host(own))[i], 77);
    rvit_buffer_destroy(own);
}

/* Attention on parts of one VkBuffer, at offsets that the device does not accept for descriptors, and with each part wrapped separately.
   Memory between the parts must not change. Without the usage bit for texel buffers a software device uses another kernel. */
static void parts(void **state)
{
    (void)state;
    enum { DIM = 64, ROWS = 20, QKV = ROWS * 3 * DIM * 4, OUT = ROWS * DIM * 4 };
    const int64_t at[] = {16, 16 + QKV + 48, 16 + QKV + 48 + 16 + 80}, end = at[2] + OUT;
    float results[3][ROWS * DIM];
    for (int variant = 0; variant < 3; variant++) {
        app_buffer b = app_buffer_open(APP, end + 32, STORAGE | (variant == 2 ? VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT : 0));
        rvit_buffer *buffers[3] = {NULL, NULL, NULL};
        for (int i = 0; i < 3; i++) {
            rvit_memory_desc desc = app_buffer_desc(&b);
            if (variant > 0) {
                desc.offset = at[i];
                desc.size = i == 0 ? QKV : i == 1 ? 12 : OUT;
            }
            expect_ok(rvit_buffer_wrap(APP->rvit, &desc, &buffers[i]));
        }
        static const int32_t cu[] = {0, 13, ROWS};
        random_seed(7);
        store_normal(RVIT_F32, (char *)b.host + at[0], 0, ROWS * 3 * DIM, 1);
        memcpy((char *)b.host + at[1], cu, sizeof cu);
        rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
        args.n_images = 2;
        args.n_heads = 1;
        args.head_dim = DIM;
        args.max_len = args.rows = ROWS;
        const int64_t first = variant > 0 ? 0 : at[0];
        args.q = (rvit_view){buffers[0], first};
        args.k = (rvit_view){buffers[0], first + DIM * 4};
        args.v = (rvit_view){buffers[0], first + 2 * DIM * 4};
        args.q_stride = args.k_stride = args.v_stride = 3 * DIM;
        args.cu_seqlens = (rvit_view){buffers[1], variant > 0 ? 0 : at[1]};
        args.out = (rvit_view){buffers[2], variant > 0 ? 0 : at[2]};
        expect_ok(rvit_attention(H.stream[DEVICE], &args));
        expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
        memcpy(results[variant], (char *)b.host + at[2], OUT);
        const uint8_t *bytes = b.host;
        for (int64_t i = 0; i < b.size; i++)
            if (i < at[0] || (i >= at[0] + QKV && i < at[1]) || (i >= at[1] + 12 && i < at[2]) || i >= end)
                assert_int_equal(bytes[i], SENTINEL);
        for (int i = 0; i < 3; i++)
            rvit_buffer_destroy(buffers[i]);
        app_buffer_close(APP, &b);
    }
    assert_memory_equal(results[0], results[1], OUT);
    assert_true(largest_difference(results[0], results[2], ROWS * DIM) < 1e-5);
}

/* Each copy reads the result of the previous one, through a separate wrapper. The library orders them by the VkBuffer. */
static void ordered_across_wrappers(void **state)
{
    (void)state;
    enum { PARTS = 8, PART = 256 };
    app_buffer b = app_buffer_open(APP, PARTS * PART, STORAGE | TRANSFER);
    rvit_buffer *buffers[PARTS - 1] = {NULL};
    for (int i = 0; i < PARTS - 1; i++) {
        rvit_memory_desc desc = app_buffer_desc(&b);
        desc.offset = i * PART;
        desc.size = 2 * PART;
        expect_ok(rvit_buffer_wrap(APP->rvit, &desc, &buffers[i]));
    }
    for (int i = 0; i < PART; i++)
        ((uint8_t *)b.host)[i] = (uint8_t)i;
    rvit_stream *stream = NULL;
    const VkCommandBuffer commands = app_begin(APP);
    expect_ok(rvit_stream_wrap(APP->rvit, commands, &stream));
    for (int i = 0; i < PARTS - 1; i++) {
        rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
        copy.source = (rvit_view){buffers[i], 0};
        copy.destination = (rvit_view){buffers[i], PART};
        copy.size = PART;
        expect_ok(rvit_copy(stream, &copy));
    }
    app_end(APP, commands);
    app_run(APP, commands);
    for (int i = 0; i < PARTS * PART; i++)
        assert_int_equal(((const uint8_t *)b.host)[i], (uint8_t)i);
    rvit_stream_destroy(stream);
    for (int i = 0; i < PARTS - 1; i++)
        rvit_buffer_destroy(buffers[i]);
    app_buffer_close(APP, &b);
}

SUITE(app_buffer_suite, APP_TEST(bad_descs), APP_TEST(library_buffers_in_commands), APP_TEST(parts), APP_TEST(ordered_across_wrappers));
