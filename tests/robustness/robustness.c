/* Runs every op that reads lengths or row numbers on the device with garbage for them, on shapes of every kind. No access may leave the
   op's arrays, no input may change, and valid calls must give the same bits as at first. Where the values of one image are NaN, infinite,
   huge, negative or zero, all other images must keep their bits too.

   Calls are enqueued in batches, each on its own arrays, and waited for together. A batch that fails is repeated call by call to find the
   culprit. A case depends only on the seed and its number.

   robustness [--cases N] [--seconds N] [--seed N] [--from N] [--scenes N] and the options of every test program
   --from: the number of the first case   --scenes: shapes at a time; fewer are made sooner */
#include <time.h>

#include "scene.h"

enum {
    BATCH = 32,
    MOST_SCENES = 132,
    EPOCH = 32 * BATCH /* cases, then other scenes */,
    REPORT = 20 * EPOCH,
    MEET_ALL = 50000 /* cases */
};

static long n_cases, first_case;
static long batch_begin = -1; /* of the batch under way */
static double n_seconds;
static uint64_t seed;
static scene scenes[MOST_SCENES];
static int n_scenes;
static long n_calls[RVIT_OP_COUNT];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t mixed(uint64_t what, uint64_t number)
{
    uint64_t bits = seed * 0x9e3779b97f4a7c15u + what * 0xd1342543de82ef95u + number + 1;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return (bits ^ bits >> 31) | 1;
}

static void make_scenes(long epoch)
{
    for (int i = 0; i < n_scenes; i++)
        scene_make(&scenes[i], i, mixed(1, (uint64_t)epoch * MOST_SCENES + (uint64_t)i));
}

static void free_scenes(void)
{
    if (rvit_stream_synchronize(H.stream[DEVICE]) != RVIT_OK)
        print_error("rvit_stream_synchronize: %s\n", rvit_status_detail());
    for (int i = 0; i < n_scenes; i++)
        scene_free(&scenes[i]);
}

/* The scenes of a batch: each another. */
static void choose_scenes(long number, scene *out[BATCH])
{
    int32_t order[MOST_SCENES];
    for (int i = 0; i < n_scenes; i++)
        order[i] = i;
    random_seed(mixed(2, (uint64_t)number));
    random_shuffle(order, n_scenes);
    for (int i = 0; i < BATCH; i++)
        out[i] = &scenes[order[i]];
}

/* Call by call, looking at every scene after each. */
static void find_case(long first, scene *const members[BATCH], const char *damage)
{
    print_error("cases %ld..%ld: %s\n", first, first + BATCH - 1, damage);
    for (int i = 0; i < n_scenes; i++)
        (void)scene_good_call(&scenes[i]);
    for (int i = 0; i < BATCH; i++) {
        scene_scramble(members[i], mixed(3, (uint64_t)(first + i)));
        expect_ok(scene_enqueue(members[i]));
        const rvit_status status = rvit_stream_synchronize(H.stream[DEVICE]);
        const char *found = status == RVIT_OK ? scene_damage(members[i]) : rvit_status_detail();
        if (found) {
            scene_print(members[i]);
            fail_msg("case %ld: %s: %s", first + i, scene_op(members[i]), found);
        }
        for (int other = 0; other < n_scenes; other++)
            if (&scenes[other] != members[i] && (found = scene_good_call(&scenes[other]))) {
                scene_print(members[i]);
                fail_msg("case %ld: %s: after it a %s: %s", first + i, scene_op(members[i]), scene_op(&scenes[other]), found);
            }
    }
    fail_msg("cases %ld..%ld: %s; one by one they break nothing", first, first + BATCH - 1, damage);
}

static void spoil_image(long first, int number)
{
    const char *damage = scene_spoiled_call(&scenes[number], mixed(4, (uint64_t)first * MOST_SCENES + (uint64_t)number));
    if (!damage)
        return;
    scene_print(&scenes[number]);
    fail_msg("with cases %ld..%ld: %s: %s", first, first + BATCH - 1, scene_op(&scenes[number]), damage);
}

/* The cases of a batch that are asked for. */
static void run_batch(long first)
{
    scene *members[BATCH];
    choose_scenes(first / BATCH, members);
    batch_begin = first;
    for (int i = 0; i < BATCH; i++) {
        if (first + i < first_case || first + i >= first_case + n_cases)
            continue;
        scene_scramble(members[i], mixed(3, (uint64_t)(first + i)));
        expect_ok(scene_enqueue(members[i]));
        n_calls[members[i]->d.op.type]++;
    }
    if (rvit_stream_synchronize(H.stream[DEVICE]) != RVIT_OK)
        fail_msg("cases %ld..%ld: %s", first, first + BATCH - 1, rvit_status_detail());
    const char *damage = NULL;
    for (int i = 0; i < BATCH && !damage; i++)
        damage = scene_damage(members[i]);
    if (!damage)
        damage = scene_good_call(&scenes[first / BATCH % n_scenes]);
    if (damage)
        find_case(first, members, damage);
    spoil_image(first, (int)(first / BATCH % n_scenes));
    batch_begin = -1;
}

static void report(long done, double begin)
{
    printf("%ld cases, %.1f s:", done, seconds() - begin);
    for (int op = 0; op < RVIT_OP_COUNT; op++) {
        const scene s = {.d.op.type = (rvit_op_type)op};
        if (n_calls[op] > 0)
            printf(" %s %ld", scene_op(&s), n_calls[op]);
    }
    printf("\n");
}

static void garbage_stays_inside(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* images that overlap write the same rows at the same time: a race in results without meaning */
#endif
    const double begin = seconds();
    long at = first_case / BATCH * BATCH;
    const long end = first_case + n_cases;
    for (long epoch = -1; at < end && (n_seconds <= 0 || seconds() - begin < n_seconds); at += BATCH) {
        if (at / EPOCH != epoch) {
            if (epoch >= 0)
                free_scenes();
            epoch = at / EPOCH;
            make_scenes(epoch);
        }
        run_batch(at);
        /* Every scene, before others take their place. */
        if ((at + BATCH) % EPOCH == 0 || at + BATCH >= end)
            for (int i = 0; i < n_scenes; i++) {
                const char *damage = scene_good_call(&scenes[i]);
                if (damage)
                    fail_msg("after cases %ld..%ld: %s: %s", at / EPOCH * EPOCH, at + BATCH - 1, scene_op(&scenes[i]), damage);
                spoil_image(at, i);
            }
        if ((at + BATCH) % REPORT == 0 && at + BATCH < end)
            report(at + BATCH, begin);
    }
    report(at < end ? at : end, begin);
    char text[800];
    const int all = scene_spoiled_all(text, sizeof text);
    printf("select with a spoiled image: %s\n", text);
    if (!all && at - first_case >= MEET_ALL)
        fail_msg("in %ld cases a mode of select and a value have not met", at - first_case);
}

static int release_scenes(void **state)
{
    if (batch_begin >= 0)
        print_error("it ended in the batch of the cases %ld..%ld; one case alone: --from CASE --cases 1\n", batch_begin,
                    batch_begin + BATCH - 1);
    free_scenes();
    return harness_teardown(state);
}

static const struct CMUnitTest tests[] = {TEST_OF(garbage_stays_inside, harness_setup, release_scenes)};
static const suite robustness_suite = {"robustness", tests, 1};

int main(int argc, char **argv)
{
    static const char *const names[] = {"--cases", "--seconds", "--seed", "--from", "--scenes"};
    const char *values[] = {"100000", "0", "1", "0", "102"};
    for (int i = 0; i < 5; i++) {
        const char *value = harness_first_option(&argc, &argv, names[i], NULL);
        if (value) {
            values[i] = value;
            i = -1;
        }
    }
    n_cases = atol(values[0]);
    n_seconds = atof(values[1]);
    seed = strtoull(values[2], NULL, 0);
    first_case = atol(values[3]);
    n_scenes = atoi(values[4]);
    if (n_scenes < BATCH || n_scenes > MOST_SCENES) {
        fprintf(stderr, "%s: --scenes is %s, expected %d to %d\n", argv[0], values[4], BATCH, MOST_SCENES);
        return 2;
    }
    static const suite *const suites[] = {&robustness_suite};
    return harness_main(argc, argv, 0, suites, 1);
}
