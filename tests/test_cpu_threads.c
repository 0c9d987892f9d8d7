/* How the CPU backend splits its work changes no bit: attention of a ragged batch with few and with many threads, whose tiles of queries
   differ, in each type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <raggedvit/raggedvit.h>

#include "core/half.h"

enum { IMAGES = 6, ROWS = 1051, HEADS = 2, DIM = 64, WIDTH = HEADS * DIM };
static const int32_t cu_seqlens[IMAGES + 1] = {0, 197, 237, 237, 238, 815, ROWS};

typedef struct results {
    uint8_t out[ROWS * WIDTH * 4];
    _Alignas(16) float cls_probs[ROWS * HEADS];
    _Alignas(16) float lse[ROWS * HEADS];
} results;

static uint8_t qkv[ROWS * 3 * WIDTH * 4];
static results expected, found;

static void fill(rvit_dtype dtype)
{
    uint32_t state = 7;
    for (int64_t i = 0; i < (int64_t)ROWS * 3 * WIDTH; i++) {
        state = state * 1664525u + 1013904223u;
        const float value = (float)(state >> 8) * 0x1p-23f - 1.0f;
        if (dtype == RVIT_F32)
            ((float *)(void *)qkv)[i] = value;
        else
            ((uint16_t *)(void *)qkv)[i] = dtype == RVIT_F16 ? rvit_f32_to_f16(value) : rvit_f32_to_bf16(value);
    }
}

static void run(rvit_dtype dtype, int32_t n_threads, results *to)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = n_threads;
    rvit_device *device;
    rvit_stream *stream;
    rvit_buffer *input, *lengths, *output;
    const int64_t element = rvit_dtype_size(dtype);
    assert_int_equal(rvit_device_create(&desc, &device), RVIT_OK);
    assert_int_equal(rvit_stream_create(device, &stream), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, sizeof qkv, RVIT_BUFFER_DEVICE, &input), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, sizeof cu_seqlens, RVIT_BUFFER_DEVICE, &lengths), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, sizeof *to, RVIT_BUFFER_DEVICE, &output), RVIT_OK);
    assert_int_equal(rvit_stream_write(stream, (rvit_view){input, 0}, qkv, sizeof qkv), RVIT_OK);
    assert_int_equal(rvit_stream_write(stream, (rvit_view){lengths, 0}, cu_seqlens, sizeof cu_seqlens), RVIT_OK);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = dtype;
    args.n_images = IMAGES;
    args.n_heads = HEADS;
    args.head_dim = DIM;
    args.max_len = 577;
    args.rows = ROWS;
    args.q = (rvit_view){input, 0};
    args.k = (rvit_view){input, WIDTH * element};
    args.v = (rvit_view){input, 2 * WIDTH * element};
    args.q_stride = args.k_stride = args.v_stride = 3 * WIDTH;
    args.cu_seqlens = (rvit_view){lengths, 0};
    args.out = (rvit_view){output, 0};
    args.cls_probs = (rvit_view){output, offsetof(results, cls_probs)};
    args.lse = (rvit_view){output, offsetof(results, lse)};
    assert_int_equal(rvit_attention(stream, &args), RVIT_OK);
    assert_int_equal(rvit_stream_read(stream, (rvit_view){output, 0}, to, sizeof *to), RVIT_OK);
    assert_int_equal(rvit_stream_synchronize(stream), RVIT_OK);
    rvit_buffer_destroy(input);
    rvit_buffer_destroy(lengths);
    rvit_buffer_destroy(output);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
}

static void attention_of_any_split(void **state)
{
    (void)state;
    static const int32_t threads[] = {2, 5, 16, 31};
    for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++) {
        fill((rvit_dtype)dtype);
        run((rvit_dtype)dtype, 1, &expected);
        for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            run((rvit_dtype)dtype, threads[i], &found);
            assert_memory_equal(&found, &expected, sizeof found);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_of_any_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
