/* Long runs: forwards of a small model with varying numbers of images and kept tokens; eager attention with random lengths; launches of
   recorded attention and runs of a session while another thread creates and destroys devices, streams, programs and sessions. Every result
   must have the same bits as in its first pass, and memory must not grow.

   soak [--forwards N] [--calls N] [--runs N] [OPTIONS OF EVERY TEST PROGRAM] */
#include "model/toy.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

enum { N_BATCHES = 32, MAX_IMAGES = 4, WARM_UP = 200 };

static long n_forwards, n_calls, n_runs;

/* The resident memory of the process in bytes. */
static int64_t resident_size(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %lld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

typedef struct usage {
    int64_t resident;
    rvit_stats stats;
} usage;

static usage usage_now(rvit_stream *stream)
{
    usage h = {resident_size(), RVIT_STATS_INIT};
    expect_ok(rvit_stream_get_stats(stream, &h.stats));
    return h;
}

/* Allows for small growth of page tables and the C library's arenas; a leak of 16 bytes per run fails. */
static void expect_flat(usage before, usage now, const char *what)
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
    static const toy_spec spec = {
        .dim = 64, .depth = 3, .mlp = 64, .image_size = 32, .patch_size = 8, .n_classes = 5, .stored = RVIT_F32, .seed = 77};
    enum { CLASSES = 5 };
    const toy *m = toy_new(&spec);
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_session *session = NULL;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = MAX_IMAGES;
    desc.stream = H.stream[DEVICE];
    prune_in(&desc)->type = RVIT_PRUNE_ATS_PAPER;
    prune_in(&desc)->n_blocks = 1;
    prune_in(&desc)->blocks[0] = 1;
    expect_ok(rvit_checkpoint_open(toy_write(m, "soak.safetensors"), NULL, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    expect_ok(rvit_session_create(model, &desc, &session));
    const float *images[N_BATCHES];
    int32_t n_images[N_BATCHES];
    static float wanted[N_BATCHES][MAX_IMAGES * CLASSES];
    usage before = {0};
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
        args.input.data = images[b];
        expect_ok(rvit_session_run(session, &args, i < N_BATCHES ? wanted[b] : logits));
        if (i >= N_BATCHES && memcmp(logits, wanted[b], sizeof logits) != 0)
            fail_msg("forward %ld differs from the first one of its batch", i);
        if (i == N_BATCHES + WARM_UP - 1)
            before = usage_now(H.stream[DEVICE]);
    }
    expect_flat(before, usage_now(H.stream[DEVICE]), "forwards");
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
    usage before = {0};
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
                fail_msg("a call of round %ld differs from the first one with its lengths", round);
        }
        for (int i = 0; i < ROUND; i++)
            memset(rvit_buffer_host(out[used[i]]), SENTINEL, OUT);
        if (round == 1)
            before = usage_now(stream);
    }
    if (before.resident > 0)
        expect_flat(before, usage_now(stream), "calls");
    for (int i = 0; i < N_BATCHES; i++) {
        rvit_buffer_destroy(lengths[i]);
        rvit_buffer_destroy(out[i]);
    }
    rvit_buffer_destroy(qkv);
}

/* The test's thread launches programs and runs a session, while another thread creates and destroys objects, one cycle per request. */
enum { CYCLE_CLASSES = 3, RUN_ROWS = 12, RUN_DIM = 8, RUN_OUT = RUN_ROWS * RUN_DIM * 4, ROUNDS_PER_CYCLE = 4 };

typedef struct churn {
    rvit_model *model; /* on the device under test */
    const rvit_checkpoint *checkpoint;
    const float *image;
    float wanted[CYCLE_CLASSES];
    sem_t wake;
    atomic_long requested, ended; /* requested -1: the thread ends */
    char failure[256];            /* read only between cycles */
} churn;

#define TRY(call)                                                                                              \
    do {                                                                                                       \
        const rvit_status status = (call);                                                                     \
        if (status != RVIT_OK && !l->failure[0])                                                               \
            snprintf(l->failure, sizeof l->failure, "%s: %s", rvit_status_name(status), rvit_status_detail()); \
    } while (0)

/* Records and launches a program that copies one half of a buffer to the other. */
static rvit_program *copy_program(churn *l, rvit_stream *stream, rvit_buffer *buffer)
{
    rvit_program *program = NULL;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source.buffer = args.destination.buffer = buffer;
    args.destination.offset = args.size = 512;
    TRY(rvit_record_begin(stream));
    TRY(rvit_copy(stream, &args));
    TRY(rvit_record_end(stream, &program));
    if (program)
        TRY(rvit_program_launch(program, stream));
    TRY(rvit_stream_synchronize(stream));
    return program;
}

/* Every fourth cycle has its own device and model. The order of destruction varies where any order is allowed. */
static void run_cycle(churn *l, long number)
{
    rvit_device *device = NULL;
    rvit_model *model = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    rvit_session *session = NULL;
    const int own_device = number % 4 == 0;
    if (own_device) {
        TRY(rvit_device_create(&H.desc, &device));
        if (device)
            TRY(rvit_model_create(device, l->checkpoint, NULL, &model));
    }
    if (own_device && !model) {
        rvit_device_destroy(device);
        return;
    }
    rvit_device *used = own_device ? device : H.device[DEVICE];
    TRY(rvit_stream_create(used, &stream));
    TRY(rvit_buffer_create(used, 1024, (rvit_buffer_type)(number % 3), &buffer));
    rvit_program *program = stream && buffer ? copy_program(l, stream, buffer) : NULL;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.stream = number % 2 ? stream : NULL;
    TRY(rvit_session_create(own_device ? model : l->model, &desc, &session));
    if (number % 8 < 4) {
        rvit_device_destroy(device);
        rvit_model_destroy(model);
    }
    float logits[CYCLE_CLASSES] = {0};
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 1;
    args.input.data = l->image;
    if (session)
        TRY(rvit_session_run(session, &args, logits));
    if (memcmp(logits, l->wanted, sizeof logits) != 0 && !l->failure[0])
        snprintf(l->failure, sizeof l->failure, "the session of cycle %ld gives other bits", number);
    if (number % 3) {
        rvit_program_destroy(program);
        rvit_buffer_destroy(buffer);
    }
    rvit_session_destroy(session);
    rvit_stream_destroy(stream);
    if (number % 3 == 0) {
        rvit_program_destroy(program);
        rvit_buffer_destroy(buffer);
    }
    if (number % 8 >= 4) {
        rvit_model_destroy(model);
        rvit_device_destroy(device);
    }
}

static void *run_cycles(void *argument)
{
    churn *l = argument;
    for (;;) {
        while (sem_wait(&l->wake) != 0)
            ;
        if (atomic_load(&l->requested) < 0)
            return NULL;
        run_cycle(l, atomic_load(&l->ended));
        atomic_fetch_add(&l->ended, 1);
    }
}

/* Requests a cycle, unless one is running. */
static void request_cycle(churn *l)
{
    const long requested = atomic_load(&l->requested);
    if (requested > atomic_load(&l->ended))
        return;
    assert_string_equal(l->failure, "");
    atomic_store(&l->requested, requested + 1);
    sem_post(&l->wake);
}

static void wait_for_cycle(churn *l)
{
    while (atomic_load(&l->requested) > atomic_load(&l->ended))
        usleep(50);
    assert_string_equal(l->failure, "");
}

typedef struct run_batch {
    rvit_buffer *cu, *out;
    rvit_program *program;
    uint8_t wanted[RUN_OUT];
} run_batch;

static void make_run_batch(run_batch *b, rvit_buffer *qkv)
{
    rvit_device *device = H.device[DEVICE];
    rvit_stream *stream = H.stream[DEVICE];
    expect_ok(rvit_buffer_create(device, (MAX_IMAGES + 1) * 4, RVIT_BUFFER_UPLOAD, &b->cu));
    expect_ok(rvit_buffer_create(device, RUN_OUT, RVIT_BUFFER_READBACK, &b->out));
    int32_t *cu = rvit_buffer_host(b->cu);
    cu[0] = 0;
    for (int i = 0; i < MAX_IMAGES; i++)
        cu[i + 1] = cu[i] + random_below(RUN_ROWS / MAX_IMAGES + 1);
    memset(rvit_buffer_host(b->out), SENTINEL, RUN_OUT);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = MAX_IMAGES;
    args.n_heads = 1;
    args.head_dim = RUN_DIM;
    args.max_len = RUN_ROWS / MAX_IMAGES;
    args.rows = RUN_ROWS;
    args.q = args.k = args.v = (rvit_view){qkv, 0};
    args.k.offset = RUN_DIM * 4;
    args.v.offset = 2 * RUN_DIM * 4;
    args.q_stride = args.k_stride = args.v_stride = 3 * RUN_DIM;
    args.cu_seqlens.buffer = b->cu;
    args.out.buffer = b->out;
    expect_ok(rvit_record_begin(stream));
    expect_ok(rvit_attention(stream, &args));
    expect_ok(rvit_record_end(stream, &b->program));
    expect_ok(rvit_program_launch(b->program, stream));
    expect_ok(rvit_stream_synchronize(stream));
    memcpy(b->wanted, rvit_buffer_host(b->out), RUN_OUT);
}

/* Launches every batch once, and runs the session. */
static void run_round(const run_batch *batches, rvit_session *session, const churn *l)
{
    for (int i = 0; i < N_BATCHES; i++) {
        memset(rvit_buffer_host(batches[i].out), SENTINEL, RUN_OUT);
        expect_ok(rvit_program_launch(batches[i].program, H.stream[DEVICE]));
    }
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    for (int i = 0; i < N_BATCHES; i++)
        assert_memory_equal(rvit_buffer_host(batches[i].out), batches[i].wanted, RUN_OUT);
    float logits[CYCLE_CLASSES] = {0};
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 1;
    args.input.data = l->image;
    expect_ok(rvit_session_run(session, &args, logits));
    assert_memory_equal(logits, l->wanted, sizeof logits);
}

/* Checks that resident memory grew by at most 2 MB, and device memory not at all. */
static void expect_usage(const churn *l, usage before, long runs)
{
    const usage now = usage_now(H.stream[DEVICE]);
    printf("runs: %ld and %ld cycles, resident %.2f MB, at first %.2f MB\n", runs, atomic_load(&l->ended), (double)now.resident / 1e6,
           (double)before.resident / 1e6);
    assert_true(now.resident - before.resident <= 2000000);
    assert_int_equal(now.stats.device_size, before.stats.device_size);
    assert_int_equal(now.stats.upload_size, before.stats.upload_size);
    assert_int_equal(now.stats.readback_size, before.stats.readback_size);
    assert_int_equal(now.stats.working_size, before.stats.working_size);
}

static churn L;
static pthread_t churn_thread;

static int start_churn(void **state)
{
    memset(&L, 0, sizeof L);
    return harness_setup(state) || sem_init(&L.wake, 0, 0) || pthread_create(&churn_thread, NULL, run_cycles, &L);
}

/* Waits for the current cycle, also if the test failed. */
static int end_churn(void **state)
{
    while (atomic_load(&L.requested) > atomic_load(&L.ended))
        usleep(50);
    atomic_store(&L.requested, -1);
    sem_post(&L.wake);
    pthread_join(churn_thread, NULL);
    sem_destroy(&L.wake);
    return harness_teardown(state);
}

static void runs_during_churn(void **state)
{
    (void)state;
    static const toy_spec spec = {
        .dim = 64, .depth = 1, .mlp = 16, .image_size = 16, .patch_size = 8, .n_classes = CYCLE_CLASSES, .stored = RVIT_F32, .seed = 5};
    enum { WARM_ROUNDS = 64, REPORT = 1000000 };
    const toy *m = toy_new(&spec);
    rvit_checkpoint *checkpoint = NULL;
    rvit_session *session = NULL;
    rvit_buffer *qkv = NULL;
    run_batch *batches = scratch(N_BATCHES * sizeof *batches);
    expect_ok(rvit_checkpoint_open(toy_write(m, "churn.safetensors"), NULL, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &L.model));
    expect_ok(rvit_session_create(L.model, NULL, &session));
    L.checkpoint = checkpoint;
    L.image = toy_images(m, 1, 6);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 1;
    args.input.data = L.image;
    expect_ok(rvit_session_run(session, &args, L.wanted));
    expect_ok(rvit_buffer_create(H.device[DEVICE], 3 * RUN_OUT, RVIT_BUFFER_UPLOAD, &qkv));
    store_normal(RVIT_F32, rvit_buffer_host(qkv), 0, 3 * RUN_ROWS * RUN_DIM, 1);
    for (int i = 0; i < N_BATCHES; i++)
        make_run_batch(&batches[i], qkv);
    for (int i = 0; i < WARM_ROUNDS; i++) {
        request_cycle(&L);
        run_round(batches, session, &L);
        wait_for_cycle(&L);
    }
    const usage before = usage_now(H.stream[DEVICE]);
    for (long round = 0, runs = 0; runs < n_runs; round++) {
        if (round % ROUNDS_PER_CYCLE == 0)
            request_cycle(&L);
        run_round(batches, session, &L);
        runs += N_BATCHES;
        if (runs % REPORT < N_BATCHES || runs >= n_runs) {
            wait_for_cycle(&L);
            expect_usage(&L, before, runs);
        }
    }
    for (int i = 0; i < N_BATCHES; i++) {
        rvit_program_destroy(batches[i].program);
        rvit_buffer_destroy(batches[i].cu);
        rvit_buffer_destroy(batches[i].out);
    }
    rvit_buffer_destroy(qkv);
    rvit_session_destroy(session);
    rvit_model_destroy(L.model);
    rvit_checkpoint_destroy(checkpoint);
}

SUITE(soak_suite, TEST(forwards), TEST(calls), TEST_OF(runs_during_churn, start_churn, end_churn));

int main(int argc, char **argv)
{
    n_forwards = atol(harness_first_option(&argc, &argv, "--forwards", "100000"));
    n_calls = atol(harness_first_option(&argc, &argv, "--calls", "1000000"));
    n_runs = atol(harness_first_option(&argc, &argv, "--runs", "1000000"));
    static const suite *const suites[] = {&soak_suite};
    return harness_main(argc, argv, 0, suites, 1);
}
