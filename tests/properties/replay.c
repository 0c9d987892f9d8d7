/* A program recorded once and launched with other lengths gives the same bits as the ops one by one. */
#include "properties.h"

#define N_IMAGES 6
#define MAX_LEN 24
#define ROWS 90 /* fewer than N_IMAGES * MAX_LEN: the capacity of rows binds, too */

static rvit_program *record(const pipeline *p)
{
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_ok(pipeline_enqueue(p, H.stream[DEVICE]));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    return program;
}

static void random_lengths(int32_t *lengths, int round)
{
    memset(lengths, 0, N_IMAGES * sizeof *lengths);
    if (round == 0) /* all empty */
        return;
    if (round == 1) { /* one full */
        lengths[3] = MAX_LEN;
        return;
    }
    if (round == 2) { /* exactly the capacity */
        static const int32_t exact[N_IMAGES] = {24, 24, 0, 24, 1, 17};
        memcpy(lengths, exact, sizeof exact);
        return;
    }
    int32_t left = round % 10 == 3 ? ROWS : random_below(ROWS + 1);
    for (int32_t i = 0; i < N_IMAGES; i++) {
        lengths[i] = random_below(4) ? random_below((left < MAX_LEN ? left : MAX_LEN) + 1) : 0;
        left -= lengths[i];
    }
    random_shuffle(lengths, N_IMAGES);
}

/* All results as one block of memory. */
static size_t gather(const pipeline *p, uint8_t *to)
{
    size_t n = 0;
    const array *const more[] = {p->cu_after, p->cu_second, p->error};
    for (int i = 0; i < 3; i++)
        if (more[i]) {
            if (to)
                memcpy(to + n, array_mapping(more[i], DEVICE), (size_t)more[i]->size);
            n += (size_t)more[i]->size;
        }
    for (int o = 0; o < p->n_outputs; o++) {
        const array *a = p->outputs[o].a;
        if (to)
            memcpy(to + n, array_mapping(a, DEVICE), (size_t)a->size);
        n += (size_t)a->size;
    }
    return n;
}

static void replay(rvit_dtype dtype, pipeline_prune prune, int rounds)
{
    if (H.is_slow) /* the first rounds are the special ones, the others are random */
        rounds /= 5;
    pipeline *p = pipeline_new(dtype, prune, N_IMAGES, MAX_LEN, ROWS, 1);
    arrays_upload();
    rvit_program *program = record(p);
    const size_t size = gather(p, NULL);
    uint8_t *eager = scratch(size), *replayed = scratch(size);
    rvit_stream *stream = H.stream[DEVICE];
    int32_t lengths[N_IMAGES];
    uint64_t seed = 42;
    for (int round = 0; round < rounds; round++) {
        random_seed(seed += 1000003);
        random_lengths(lengths, round);
        pipeline_set_lengths(p, lengths, N_IMAGES);
        for (int32_t i = 0; i < N_IMAGES; i++)
            pipeline_set_image(p, i, (uint64_t)(round * 100 + i));
        pipeline_update_mapped(p);
        expect_ok(pipeline_enqueue(p, stream));
        expect_ok(rvit_stream_synchronize(stream));
        gather(p, eager);
        pipeline_update_mapped(p);
        expect_ok(rvit_program_launch(program, stream));
        expect_ok(rvit_stream_synchronize(stream));
        gather(p, replayed);
        if (memcmp(eager, replayed, size)) {
            size_t at = 0;
            while (eager[at] == replayed[at])
                at++;
            fail_msg("round %d (lengths %d %d %d %d %d %d): byte %zu of %zu differs", round, lengths[0], lengths[1], lengths[2], lengths[3],
                     lengths[4], lengths[5], at, size);
        }
    }
    arrays_fetch(DEVICE);
    rvit_program_destroy(program);
    harness_teardown(NULL);
}

static void a_thousand_length_sets(void **state)
{
    (void)state;
    replay(RVIT_F32, PRUNE_CLS, 1000);
}

static void other_policies_and_types(void **state)
{
    (void)state;
    for (int prune = PRUNE_L2; prune <= PRUNE_NOTHING; prune++)
        replay(RVIT_F32, (pipeline_prune)prune, 100);
    replay(RVIT_F16, PRUNE_CLS, 100);
    replay(RVIT_F16, PRUNE_FUSED, 50);
    replay(RVIT_F16, PRUNE_PREDICTOR, 50);
    replay(RVIT_F16, PRUNE_MERGE, 50);
    if (lacks("bf16"))
        return;
    replay(RVIT_BF16, PRUNE_CLS, 50);
    replay(RVIT_BF16, PRUNE_MERGE, 50);
}

/* Launches of one program run one after another, whatever their streams, and several may be enqueued before anyone waits. */
static void launches_from_two_streams(void **state)
{
    (void)state;
    pipeline *p = pipeline_new(RVIT_F32, PRUNE_CLS, N_IMAGES, MAX_LEN, ROWS, 1);
    static const int32_t lengths[N_IMAGES] = {20, 3, 0, 24, 11, 24};
    pipeline_set_lengths(p, lengths, N_IMAGES);
    for (int32_t i = 0; i < N_IMAGES; i++)
        pipeline_set_image(p, i, (uint64_t)i);
    arrays_upload();
    rvit_program *program = record(p);
    rvit_stream *other = NULL;
    expect_ok(rvit_stream_create(H.device[DEVICE], &other));
    const size_t size = gather(p, NULL);
    uint8_t *eager = scratch(size), *replayed = scratch(size);
    pipeline_update_mapped(p);
    expect_ok(pipeline_enqueue(p, H.stream[DEVICE]));
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    gather(p, eager);
    pipeline_update_mapped(p);
    for (int i = 0; i < 20; i++)
        expect_ok(rvit_program_launch(program, i % 2 ? other : H.stream[DEVICE]));
    expect_ok(rvit_stream_synchronize(other));
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    gather(p, replayed);
    assert_memory_equal(eager, replayed, size);
    rvit_program_destroy(program);
    rvit_stream_destroy(other);
}

/* A program goes on working after the stream it was recorded on is gone. */
static void programs_outlive_their_stream(void **state)
{
    (void)state;
    array *source = array_input("source", 64), *destination = array_output("destination", 64);
    memset(source->host, 7, 64);
    arrays_upload();
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = array_view(source, DEVICE);
    args.destination = array_view(destination, DEVICE);
    args.size = 64;
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(stream));
    expect_ok(rvit_copy(stream, &args));
    expect_ok(rvit_record_end(stream, &program));
    rvit_stream_destroy(stream);
    expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    assert_memory_equal(destination->result[DEVICE], source->host, 64);
    rvit_program_destroy(program);
}

/* Ops that are recorded are not run. */
static void recording_runs_nothing(void **state)
{
    (void)state;
    array *source = array_input("source", 64), *destination = array_output("destination", 64);
    memset(source->host, 7, 64);
    arrays_upload();
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = array_view(source, DEVICE);
    args.destination = array_view(destination, DEVICE);
    args.size = 64;
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_ok(rvit_copy(H.stream[DEVICE], &args));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    arrays_fetch(DEVICE);
    array_expect_untouched(destination, DEVICE, 0);
    rvit_program_destroy(program);
}

SUITE(replay_suite, TEST(a_thousand_length_sets), TEST(other_policies_and_types), TEST(launches_from_two_streams),
      TEST(programs_outlive_their_stream), TEST(recording_runs_nothing));
