/* Checks that the CPU backend gives the same bits however it splits its work: attention of a ragged batch with few and many threads, which
   use different query tiles, in each type; a forward with and without op fusion; and float GEMMs that copy rows or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <raggedvit/raggedvit.h>

#include "backend_cpu/cpu.h"
#include "core/base/half.h"

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

enum { MODEL_IMAGES = 16, PIXELS = 3 * 224 * 224, CLASSES = 1000 };

/* The demo's model. tile_rows: rows of all fused tiles; 0: the device chooses. */
static int32_t forward(int32_t n_threads, int64_t tile_rows, rvit_dtype dtype, rvit_quantization quantization, float keep,
                       const float *images, float *logits)
{
    rvit_device_desc device_desc = RVIT_DEVICE_DESC_INIT;
    rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
    rvit_session_desc session_desc = RVIT_SESSION_DESC_INIT;
    rvit_run_args run_args = RVIT_RUN_ARGS_INIT;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    rvit_device *device;
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_session *session;
    device_desc.backend = RVIT_BACKEND_CPU;
    device_desc.n_threads = n_threads;
    model_desc.dtype = dtype;
    model_desc.quantization = quantization;
    assert_int_equal(rvit_device_create(&device_desc, &device), RVIT_OK);
    ((rvit_cpu_device *)device)->tile_rows = tile_rows;
    assert_int_equal(rvit_checkpoint_open(RVIT_EXAMPLES_DATA "/deit_tiny_cifar10.safetensors", NULL, &checkpoint), RVIT_OK);
    assert_int_equal(rvit_model_create(device, checkpoint, &model_desc, &model), RVIT_OK);
    assert_int_equal(rvit_model_get_info(model, &info), RVIT_OK);
    assert_true(info.channels * info.image_size * info.image_size <= PIXELS && info.n_classes <= CLASSES);
    session_desc.max_images = MODEL_IMAGES;
    session_desc.fixed_batch = 1;
    rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
    prune.type = RVIT_PRUNE_L2;
    prune.keep = keep;
    session_desc.prune = keep < 1.0f ? &prune : NULL;
    assert_int_equal(rvit_session_create(model, &session_desc, &session), RVIT_OK);
    run_args.n_images = MODEL_IMAGES;
    run_args.input.data = images;
    assert_int_equal(rvit_session_run(session, &run_args, logits), RVIT_OK);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    rvit_device_destroy(device);
    return MODEL_IMAGES * info.n_classes;
}

static void forward_of_any_split(void **state)
{
    (void)state;
    static const int32_t threads[] = {1, 2, 3, 16};
    static const int64_t tile_rows[] = {0, 16, 40, 384};
    static float images[MODEL_IMAGES * PIXELS], wanted[MODEL_IMAGES * CLASSES], logits[MODEL_IMAGES * CLASSES];
    uint32_t random = 7;
    for (int64_t i = 0; i < (int64_t)MODEL_IMAGES * PIXELS; i++) {
        random = random * 1664525u + 1013904223u;
        images[i] = (float)(random >> 8) * 0x1p-23f - 1.0f;
    }
    for (int kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            const int32_t n = forward(threads[i], tile_rows[i], kind == 0 ? RVIT_F32 : RVIT_BF16,
                                      kind == 2 ? RVIT_QUANTIZATION_INT8 : RVIT_QUANTIZATION_NONE, kind == 3 ? 0.3f : 1.0f, images,
                                      i == 0 ? wanted : logits);
            if (i > 0)
                assert_memory_equal(logits, wanted, n * sizeof *logits);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_of_any_split), cmocka_unit_test(forward_of_any_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
