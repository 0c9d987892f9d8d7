/* Sizes at which Mesa's software driver would end loops early are rejected, and those just below give correct results. */
#include "vulkan_tests.h"

#include <math.h>

#include "backend_vulkan/vulkan.h"

enum { SELECT, MATCH, N_KINDS };
#define MOST_ROWS 65536 /* the number of values that select sums */

/* One image of len rows. */
static void fill(rvit_op *op, int kind, int32_t len)
{
    if (kind == SELECT) {
        op->type = RVIT_OP_SELECT;
        op->select.mode = RVIT_SELECT_SAMPLE;
        op->select.n_samples = len / 2;
        op->select.n_images = 1;
        op->select.max_len = len;
        op->select.rows = len;
        op->select.n_prefix = 1;
    } else {
        op->type = RVIT_OP_BIPARTITE_MATCH;
        op->bipartite_match.n_images = 1;
        op->bipartite_match.max_len = len;
        op->bipartite_match.rows = len;
        op->bipartite_match.n_prefix = 1;
        op->bipartite_match.n_heads = 1;
        op->bipartite_match.head_dim = 8;
        op->bipartite_match.merges = len / 3;
        op->bipartite_match.group_size = 1;
    }
}

static int fits(int kind, int32_t len)
{
    rvit_op op = {0};
    op.select.struct_size = kind == SELECT ? sizeof op.select : sizeof op.bipartite_match;
    fill(&op, kind, len);
    return rvit_vk_loops_fit((const rvit_vk_device *)H.device[DEVICE], &op) == NULL;
}

static int32_t longest(int kind)
{
    int32_t low = 1, high = 1 << 24;
    assert_true(fits(kind, low));
    assert_false(fits(kind, high));
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (fits(kind, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Compares the kept rows of the longest length on the device and the CPU. The summands have one bit, so that rounding does not matter. */
static void compare_with_cpu(int kind, int32_t len)
{
    rvit_device *devices[2] = {H.device[DEVICE], NULL};
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    expect_ok(rvit_device_create(&desc, &devices[1]));
    const int64_t align = ((int64_t)len * 4 + 255) / 256 * 256;
    int32_t *kept[2];
    for (int i = 0; i < 2; i++) {
        rvit_stream *stream = NULL;
        rvit_buffer *in = NULL, *out = NULL;
        expect_ok(rvit_stream_create(devices[i], &stream));
        expect_ok(rvit_buffer_create(devices[i], 256 + align * 8, RVIT_BUFFER_UPLOAD, &in));
        expect_ok(rvit_buffer_create(devices[i], 256 + align * 16, RVIT_BUFFER_READBACK, &out));
        ((int32_t *)rvit_buffer_host(in))[0] = 0;
        ((int32_t *)rvit_buffer_host(in))[1] = len;
        float *values = (float *)rvit_buffer_host(in) + 64;
        random_seed(11);
        for (int64_t r = 0; r < len * 8; r++)
            values[r] = kind == SELECT ? (float)(1 + random_below(1 << 20)) : 0;
        for (int32_t r = 0; r < len && kind == MATCH; r++)
            values[r * 8 + random_below(8)] = random_below(2) ? 1.0f : -1.0f;
        rvit_op op = {0};
        fill(&op, kind, len);
        const rvit_view v[] = {{out, 0}, {out, 256}, {out, 256 + align}, {out, 256 + 2 * align}, {out, 256 + 3 * align}};
        if (kind == SELECT) {
            op.select.struct_size = sizeof op.select;
            op.select.cu_seqlens = (rvit_view){in, 0};
            op.select.scores = (rvit_view){in, 256};
            op.select.out_cu_seqlens = v[0];
            op.select.src_rows = v[1];
            op.select.keep = v[2];
            expect_ok(rvit_select(stream, &op.select));
        } else {
            op.bipartite_match.struct_size = sizeof op.bipartite_match;
            op.bipartite_match.cu_seqlens = (rvit_view){in, 0};
            op.bipartite_match.k = (rvit_view){in, 256};
            op.bipartite_match.out_cu_seqlens = v[0];
            op.bipartite_match.src_rows = v[1];
            op.bipartite_match.keep = v[2];
            op.bipartite_match.next_rows = v[3];
            op.bipartite_match.metric = v[4];
            expect_ok(rvit_bipartite_match(stream, &op.bipartite_match));
        }
        expect_ok(rvit_stream_synchronize(stream));
        const char *host = rvit_buffer_host(out);
        kept[i] = scratch((size_t)align + 8);
        memcpy(kept[i], host, 8);
        memcpy(kept[i] + 2, host + 256, (size_t)kept[i][1] * 4);
        rvit_stream_destroy(stream);
        rvit_buffer_destroy(in);
        rvit_buffer_destroy(out);
    }
    rvit_device_destroy(devices[1]);
    assert_true(kept[0][1] > len / 4 && kept[0][1] < len);
    assert_memory_equal(kept[0], kept[1], (size_t)(kept[0][1] + 2) * 4);
}

static void refused(void **state)
{
    (void)state;
    const rvit_vk_device *device = (const rvit_vk_device *)H.device[DEVICE];
    if (device->physical.driver.id != VK_DRIVER_ID_MESA_LLVMPIPE)
        skip();
    for (int kind = 0; kind < N_KINDS; kind++) {
        const int32_t len = longest(kind);
        print_message("%s of one image: up to %d rows\n", kind == SELECT ? "select" : "match", (int)len);
        assert_true(len >= 1369);
        rvit_vk_device other = *device;
        other.physical.driver.id = VK_DRIVER_ID_MESA_RADV;
        rvit_op op = {0};
        fill(&op, kind, len + 1);
        const char *reason = rvit_vk_loops_fit(device, &op);
        assert_non_null(reason);
        assert_non_null(strstr(reason, "65,535"));
        assert_null(rvit_vk_loops_fit(&other, &op));
        compare_with_cpu(kind, len < MOST_ROWS ? len : MOST_ROWS);
    }
}

enum { POOL, POOL_NORM, PROBE, N_POOLS, POOL_DIM = 64 };

/* One image of len rows. */
static rvit_op pool_of(int kind, int32_t len)
{
    rvit_op op = {.type = RVIT_OP_POOL};
    if (kind == PROBE) {
        op.type = RVIT_OP_ATTENTION_POOL;
        op.attention_pool = (rvit_attention_pool_args){.struct_size = sizeof op.attention_pool,
                                                       .n_images = 1,
                                                       .n_heads = 1,
                                                       .head_dim = 4,
                                                       .max_len = len,
                                                       .rows = len,
                                                       .dim = POOL_DIM};
    } else {
        op.pool = (rvit_pool_args){.struct_size = sizeof op.pool,
                                   .n_images = 1,
                                   .max_len = len,
                                   .rows = len,
                                   .dim = POOL_DIM,
                                   .norm = RVIT_NORM_RMS,
                                   .eps = 1e-6f};
    }
    return op;
}

static int pool_fits(int kind, int32_t len, rvit_view gamma)
{
    rvit_op op = pool_of(kind, len);
    if (kind == POOL_NORM)
        op.pool.gamma = gamma;
    return rvit_vk_loops_fit((const rvit_vk_device *)H.device[DEVICE], &op) == NULL;
}

/* The rows of the first half are -1, those of the second 1: a loop that ends early gives a mean other than 0. */
static void pool_halves(int kind, int32_t len, const array *x, const array *logits, const array *ones, const array *cu, const array *out)
{
    rvit_op op = pool_of(kind, len);
    for (int64_t i = 0; i < (int64_t)len * POOL_DIM; i++)
        store(RVIT_F32, x->host, i, i < (int64_t)len / 2 * POOL_DIM ? -1 : 1);
    const int32_t lengths[2] = {0, len};
    memcpy(cu->host, lengths, sizeof lengths);
    arrays_upload();
    if (kind == PROBE) {
        op.attention_pool.x = array_view(x, DEVICE);
        op.attention_pool.logits = array_view(logits, DEVICE);
        op.attention_pool.cu_seqlens = array_view(cu, DEVICE);
        op.attention_pool.weight = array_view(ones, DEVICE);
        op.attention_pool.out = array_view(out, DEVICE);
        expect_ok(rvit_attention_pool(H.stream[DEVICE], &op.attention_pool));
    } else {
        op.pool.x = array_view(x, DEVICE);
        op.pool.cu_seqlens = array_view(cu, DEVICE);
        op.pool.gamma = array_view(kind == POOL_NORM ? ones : NULL, DEVICE);
        op.pool.out = array_view(out, DEVICE);
        expect_ok(rvit_pool(H.stream[DEVICE], &op.pool));
    }
    arrays_fetch(DEVICE);
    for (int i = 0; i < (kind == PROBE ? 4 : POOL_DIM); i++)
        if (!(fabs(load(RVIT_F32, out->result[DEVICE], i)) <= (kind == PROBE ? POOL_DIM : 1) * (2.0 / len + 1e-5)))
            fail_msg("pool of kind %d, %d rows: %g, should be 0", kind, (int)len, (double)load(RVIT_F32, out->result[DEVICE], i));
}

static void refused_pools(void **state)
{
    (void)state;
    if (((const rvit_vk_device *)H.device[DEVICE])->physical.driver.id != VK_DRIVER_ID_MESA_LLVMPIPE)
        skip();
    enum { MOST = 200000 };
    for (int kind = 0; kind < N_POOLS; kind++) {
        array *ones = array_input("ones", 4 * POOL_DIM * 4), *cu = array_input("cu_seqlens", 8), *out = array_output("out", POOL_DIM * 4);
        for (int i = 0; i < 4 * POOL_DIM; i++)
            store(RVIT_F32, ones->host, i, 1);
        int32_t low = 1, high = 1 << 30;
        while (high - low > 1) {
            const int32_t middle = low + (high - low) / 2;
            *(pool_fits(kind, middle, array_view(ones, DEVICE)) ? &low : &high) = middle;
        }
        print_message("pool of kind %d of one image: up to %d rows\n", kind, (int)low);
        assert_true(low >= 4096 && high < 1 << 30);
        const int32_t len = low < MOST ? low : MOST;
        array *x = array_input("x", (int64_t)len * POOL_DIM * 4), *logits = array_input("logits", (int64_t)len * 4);
        memset(logits->host, 0, (size_t)logits->size);
        pool_halves(kind, len, x, logits, ones, cu, out);
        harness_teardown(NULL);
    }
}

SUITE(loops_suite, TEST(refused), TEST(refused_pools));
