/* Long runs: forwards of a small model with another number of images, and of tokens kept, each time; and eager attention over random
   lengths. Every result must have the bits of its first pass, and memory must not grow.

   soak [--forwards N] [--calls N] and the options of every test program */
#include "model/toy.h"

#include <unistd.h>

enum { N_BATCHES = 32, MAX_IMAGES = 4, WARM_UP = 200 };

static long n_forwards, n_calls;

/* Pages that the process has in memory, in bytes. */
static int64_t resident_size(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %lld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

typedef struct held {
    int64_t resident;
    rvit_stats stats;
} held;

static held held_now(rvit_stream *stream)
{
    held h = {resident_size(), RVIT_STATS_INIT};
    expect_ok(rvit_stream_get_stats(stream, &h.stats));
    return h;
}

/* A page table or an arena of the C library may still grow a little; a leak of 16 bytes a run would not pass. */
static void expect_flat(held before, held now, const char *what)
{
    printf("%s: resident %.1f MB, then %.1f MB\n", what, (double)before.resident / 1e6, (double)now.resident / 1e6);
    assert_true(now.resident - before.resident <= 1 << 20);
    assert_int_equal(now.stats.host_allocations, before.stats.host_allocations);
    assert_int_equal(now.stats.device_allocations, before.stats.device_allocations);
    assert_int_equal(now.stats.device_size, before.stats.device_size);
    assert_int_equal(now.stats.working_size, before.stats.working_size);
}

static void forwards(void **state)
{
    (void)state;
    static const toy_spec spec = {64, 3, 64, 32, 8, 5, 0, RVIT_F32, 77, 0};
    enum { CLASSES = 5 };
    const toy *m = toy_new(&spec);
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_session *session = NULL;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = MAX_IMAGES;
    desc.stream = H.stream[DEVICE];
    desc.prune.type = RVIT_PRUNE_ATS_PAPER;
    desc.prune.n_blocks = 1;
    desc.prune.blocks[0] = 1;
    expect_ok(rvit_checkpoint_open(toy_write(m, "soak.safetensors"), NULL, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    expect_ok(rvit_session_create(model, &desc, &session));
    const float *images[N_BATCHES];
    int32_t n_images[N_BATCHES];
    static float wanted[N_BATCHES][MAX_IMAGES * CLASSES];
    held before = {0};
    random_seed(1);
    for (int i = 0; i < N_BATCHES; i++) {
        n_images[i] = 1 + i % MAX_IMAGES;
        images[i] = toy_images(m, n_images[i], (uint64_t)i);
    }
    for (long i = 0; i < N_BATCHES + WARM_UP + n_forwards; i++) {
        const int b = i < N_BATCHES ? (int)i : random_below(N_BATCHES);
        float logits[MAX_IMAGES * CLASSES] = {0};
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = n_images[b];
        args.images = images[b];
        expect_ok(rvit_session_run(session, &args, i < N_BATCHES ? wanted[b] : logits));
        if (i >= N_BATCHES && memcmp(logits, wanted[b], sizeof logits) != 0)
            fail_msg("forward %ld differs from the first of its batch", i);
        if (i == N_BATCHES + WARM_UP - 1)
            before = held_now(H.stream[DEVICE]);
    }
    expect_flat(before, held_now(H.stream[DEVICE]), "forwards");
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
}

static void calls(void **state)
{
    (void)state;
    enum { HEADS = 2, DIM = HEADS * 64, MAX_LEN = 64, ROWS = MAX_IMAGES * MAX_LEN, OUT = ROWS * DIM * 2, ROUND = 64 };
    rvit_device *device = H.device[DEVICE];
    rvit_stream *stream = H.stream[DEVICE];
    rvit_buffer *qkv = NULL, *lengths[N_BATCHES] = {NULL}, *out[N_BATCHES] = {NULL};
    uint8_t *wanted = scratch((size_t)N_BATCHES * OUT);
    expect_ok(rvit_buffer_create(device, 3 * OUT, RVIT_BUFFER_UPLOAD, &qkv));
    random_seed(2);
    store_normal(RVIT_F16, rvit_buffer_host(qkv), 0, 3 * ROWS * DIM, 1);
    for (int i = 0; i < N_BATCHES; i++) {
        expect_ok(rvit_buffer_create(device, (MAX_IMAGES + 1) * 4, RVIT_BUFFER_UPLOAD, &lengths[i]));
        expect_ok(rvit_buffer_create(device, OUT, RVIT_BUFFER_READBACK, &out[i]));
        int32_t *cu_seqlens = rvit_buffer_host(lengths[i]);
        cu_seqlens[0] = 0;
        for (int j = 0; j < MAX_IMAGES; j++)
            cu_seqlens[j + 1] = cu_seqlens[j] + random_below(MAX_LEN + 1);
        memset(rvit_buffer_host(out[i]), SENTINEL, OUT);
    }
    held before = {0};
    long done = 0;
    for (long round = 0; done < n_calls; round++) {
        int used[ROUND];
        for (int i = 0; i < ROUND; i++, done++) {
            used[i] = round == 0 ? i % N_BATCHES : random_below(N_BATCHES);
            rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
            args.dtype = RVIT_F16;
            args.n_images = MAX_IMAGES;
            args.n_heads = HEADS;
            args.head_dim = 64;
            args.max_len = MAX_LEN;
            args.rows = ROWS;
            args.q = args.k = args.v = (rvit_view){qkv, 0};
            args.k.offset = DIM * 2;
            args.v.offset = 2 * DIM * 2;
            args.q_stride = args.k_stride = args.v_stride = 3 * DIM;
            args.cu_seqlens = (rvit_view){lengths[used[i]], 0};
            args.out = (rvit_view){out[used[i]], 0};
            expect_ok(rvit_attention(stream, &args));
        }
        expect_ok(rvit_stream_synchronize(stream));
        for (int i = 0; i < ROUND; i++) {
            uint8_t *got = rvit_buffer_host(out[used[i]]);
            if (round == 0)
                memcpy(wanted + (size_t)used[i] * OUT, got, OUT);
            else if (memcmp(wanted + (size_t)used[i] * OUT, got, OUT) != 0)
                fail_msg("a call of round %ld differs from the first with its lengths", round);
        }
        for (int i = 0; i < ROUND; i++)
            memset(rvit_buffer_host(out[used[i]]), SENTINEL, OUT);
        if (round == 1)
            before = held_now(stream);
    }
    if (before.resident > 0)
        expect_flat(before, held_now(stream), "calls");
    for (int i = 0; i < N_BATCHES; i++) {
        rvit_buffer_destroy(lengths[i]);
        rvit_buffer_destroy(out[i]);
    }
    rvit_buffer_destroy(qkv);
}

SUITE(soak_suite, TEST(forwards), TEST(calls));

int main(int argc, char **argv)
{
    n_forwards = atol(harness_first_option(&argc, &argv, "--forwards", "100000"));
    n_calls = atol(harness_first_option(&argc, &argv, "--calls", "1000000"));
    static const suite *const suites[] = {&soak_suite};
    return harness_main(argc, argv, 0, suites, 1);
}
