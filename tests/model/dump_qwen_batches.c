/* Qwen's vision encoders: the results of an image do not depend on the other images, and one recording serves all grids within its
 * capacities. */
#include "core/session/session.h"

#include "dump_qwen.h"

#include <math.h>
#include "tools/cli/session_results.h"

/* Consecutive images of a batch. */
typedef struct gridded {
    int32_t n_images;
    const int32_t *grids;
    const float *patches;
} gridded;

static int64_t row_values(const qwen_encoder *t)
{
    return (int64_t)t->info.channels * t->info.patch_frames * t->info.patch_size * t->info.patch_size;
}

/* The results of a run, in scratch memory: cu_seqlens, and for each merge group its merged row, its deepstack row, its features, and its
   size where groups were merged. */
enum { N_VALUES = 4 };
typedef struct answer {
    const int32_t *cu;
    const float *values[N_VALUES];
    int64_t width[N_VALUES], groups[N_VALUES]; /* values of a merge group; merge groups */
} answer;

static const void *copy_of(const void *data, int64_t size)
{
    return memcpy(scratch((size_t)size + 1), data, (size_t)size);
}

static answer answer_of(const qwen_encoder *t, const rvit_session *session, const gridded *b)
{
    const int32_t last = session_n_stages(session) - 1;
    answer a = {.cu = copy_of(session_cu_seqlens(session, last), 4 * ((int64_t)b->n_images + 1)),
                .width = {t->info.merged_dim, t->info.merged_dim, 4 * (int64_t)t->info.dim, 4}};
    const rvit_result_view deepstack = session_result(session, RVIT_RESULT_DEEPSTACK, t->info.n_deepstack - 1);
    for (int k = 0; k < N_VALUES; k++)
        a.groups[k] = session_cu_seqlens(session, k == 1 && deepstack.data != NULL ? deepstack.stage : last)[b->n_images] / 4;
    a.values[0] = copy_of(session_floats(session, RVIT_RESULT_MERGED), 4 * a.groups[0] * a.width[0]);
    if (deepstack.data != NULL)
        a.values[1] = copy_of(deepstack.data, 4 * a.groups[1] * a.width[1]);
    a.values[2] = copy_of(session_floats(session, RVIT_RESULT_FEATURES), 4 * a.groups[2] * a.width[2]);
    const float *sizes = last < 0 ? NULL : session_sizes(session, last, 0); /* the images are contiguous */
    if (sizes != NULL)
        a.values[3] = copy_of(sizes, 4 * a.groups[3] * a.width[3]);
    return a;
}

static rvit_status enqueue(rvit_session *session, const gridded *b)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = b->n_images;
    args.input.kind = RVIT_INPUT_PATCHES;
    args.input.grids = b->grids;
    args.input.data = b->patches;
    return rvit_session_run(session, &args, NULL);
}

static answer run(const qwen_encoder *t, rvit_session *session, const gridded *b)
{
    expect_ok(enqueue(session, b));
    return answer_of(t, session, b);
}

/* Checks that image i of one answer equals image j of the other. */
static void expect_same(const answer *all, int32_t i, const answer *one, int32_t j)
{
    const int64_t begin = all->cu[i] / 4, groups = (all->cu[i + 1] - all->cu[i]) / 4, other = one->cu[j] / 4;
    assert_int_equal(groups, one->cu[j + 1] / 4 - other);
    for (int k = 0; k < N_VALUES; k++)
        if (all->values[k] != NULL)
            assert_memory_equal(all->values[k] + begin * all->width[k], one->values[k] + other * all->width[k],
                                (size_t)(4 * groups * all->width[k]));
}

static rvit_session_desc desc_of(const qwen_encoder *t)
{
    rvit_session_desc desc = dump_session_desc(t->dump, &t->info);
    desc.outputs = RVIT_OUTPUT_MERGED | RVIT_OUTPUT_FEATURES | (t->info.n_deepstack > 0 ? RVIT_OUTPUT_DEEPSTACK : 0);
    return desc;
}

static void independent_images(void **state)
{
    (void)state;
    for (int d = 0; d < N_QWEN_DUMPS; d++) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        const rvit_session_desc desc = desc_of(&t);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        const int32_t *grids = dump_grids(t.dump);
        const float *at = dump_patches(t.dump, &t.info);
        const answer mixed = run(&t, session, &(gridded){desc.max_images, grids, at});
        rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
        expect_ok(rvit_session_get_stats(session, &before));
        for (int32_t i = 0; i < desc.max_images; i++) {
            const answer single = run(&t, session, &(gridded){1, grids + 2 * i, at});
            expect_same(&mixed, i, &single, 0);
            at += grids[2 * i] * grids[2 * i + 1] * row_values(&t);
        }
        expect_ok(rvit_session_get_stats(session, &after));
        /* One dispatch and one wait per run, and no allocation. */
        assert_int_equal(after.host_allocations, before.host_allocations);
        assert_int_equal(after.device_allocations, before.device_allocations);
        assert_int_equal(after.submits - before.submits, desc.max_images);
        assert_int_equal(after.synchronizations - before.synchronizations, desc.max_images);
        rvit_session_destroy(session);
        qwen_close(&t);
    }
}

/* Whatever the device wrote to keep masks and row indices, the host's functions stay within their output arrays. */
static void follow_garbage(const qwen_encoder *t, rvit_session *session, int32_t n_images)
{
    const rvit_session_plan *plan = session->plan;
    const int32_t last = plan->schedule.n_stages - 1;
    for (int32_t s = -1; s <= last; s++) {
        const rvit_session_array none = {.arena = RVIT_ARENA_NONE},
                                 of[] = {s < 0 ? plan->first_group_rows : plan->stages[s].group_rows, s < 0 ? none : plan->stages[s].keep,
                                         s < 0 ? none : plan->stages[s].next_rows};
        for (int k = 0; k < 3; k++) {
            uint8_t *bytes = rvit_session_host(session, of[k]);
            for (int64_t i = 0; bytes != NULL && i < of[k].size; i++)
                bytes[i] = (uint8_t)(random_below(3) ? random_bits() % 2 : random_bits());
        }
    }
    session->has_kept = 0;
    const int32_t *cu = session_cu_seqlens(session, -1);
    for (int32_t i = 0; i < n_images; i++) {
        const int32_t tokens = cu[i + 1] - cu[i];
        uint8_t *mask = scratch((size_t)tokens + 1);
        float *grid = scratch(((size_t)tokens * (size_t)t->info.dim + 1) * sizeof *grid);
        mask[tokens] = 77;
        grid[(int64_t)tokens * t->info.dim] = 77;
        expect_ok(rvit_session_keep_mask(session, last, i, mask));
        expect_ok(rvit_session_feature_grid(session, i, 0.0f, grid));
        assert_int_equal(mask[tokens], 77);
        assert_true(grid[(int64_t)tokens * t->info.dim] == 77);
    }
}

/* A bad image does not change the others, with every policy that these models support. */
static void neighbours(void **state)
{
    (void)state;
    static const rvit_prune_type policies[] = {RVIT_PRUNE_NONE,     RVIT_PRUNE_L2,   RVIT_PRUNE_RANDOM,
                                               RVIT_PRUNE_RECEIVED, RVIT_PRUNE_TOME, RVIT_PRUNE_PIXELPRUNE};
    static const float bad[] = {NAN, INFINITY, 3e38f};
    int n = 0;
    random_seed(9);
    for (int d = 0; d < N_QWEN_DUMPS; d++)
        for (int p = 0; p < 6; p++) {
            if (leaves_out(d + p, 3))
                continue;
            qwen_encoder t = qwen_open(qwen_dumps[d]);
            rvit_session_desc desc = desc_of(&t);
            rvit_session *session = NULL;
            desc.outputs = RVIT_OUTPUT_MERGED | RVIT_OUTPUT_FEATURES;
            *prune_in(&desc) = (rvit_prune_desc)RVIT_PRUNE_DESC_INIT;
            prune_in(&desc)->type = policies[p];
            if (policies[p] == RVIT_PRUNE_RECEIVED || policies[p] == RVIT_PRUNE_L2 || policies[p] == RVIT_PRUNE_RANDOM) {
                prune_in(&desc)->n_blocks = 1;
                prune_in(&desc)->blocks[0] = 1;
            }
            const rvit_status status = rvit_session_create(t.model, &desc, &session);
            if (status != RVIT_UNSUPPORTED && desc.max_images > 2) { /* UNSUPPORTED: received where block 1 has windows */
                expect_ok(status);
                float *patches = dump_patches(t.dump, &t.info);
                const gridded b = {desc.max_images, dump_grids(t.dump), patches};
                const answer wanted = run(&t, session, &b);
                const int64_t first = b.grids[0] * b.grids[1] * row_values(&t), many = b.grids[2] * b.grids[3] * row_values(&t);
                for (int v = 0; v < 3; v++) {
                    for (int64_t i = 0; i < many; i += v == 0 ? many : 1)
                        patches[first + i] = bad[v];
                    const rvit_status found = enqueue(session, &b);
                    if (found != RVIT_OK)
                        expect_status(found, RVIT_INVALID_ARGUMENT, "image 1");
                    const answer now = answer_of(&t, session, &b);
                    for (int32_t i = 0; i < b.n_images; i++)
                        if (i != 1)
                            expect_same(&wanted, i, &now, i);
                    if (policies[p] != RVIT_PRUNE_NONE)
                        follow_garbage(&t, session, b.n_images);
                }
                n++;
            }
            rvit_session_destroy(session);
            qwen_close(&t);
        }
    assert_true(n >= (H.is_slow ? 2 : 10));
}

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Compares with a new session that has only the capacities these grids need; on CUDA, where the capacities choose the GEMMs, with one of
   the same capacities. merges: merge groups that tome merges in each block. */
static void replays_of(int32_t merges)
{
    enum { MAX_IMAGES = 5, MAX_TOKENS = 162, MAX_LEN = 83, RUNS = 60 };
    uint32_t random = 7;
    for (int d = 0; d < N_QWEN_DUMPS; d++) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        float *patches = scratch((size_t)(MAX_TOKENS * row_values(&t)) * sizeof *patches);
        rvit_session_desc desc = desc_of(&t);
        desc.max_images = MAX_IMAGES;
        desc.max_tokens = MAX_TOKENS;
        desc.max_len = MAX_LEN;
        prune_in(&desc)->type = merges > 0 ? RVIT_PRUNE_TOME : RVIT_PRUNE_NONE;
        prune_in(&desc)->merges = merges > 0 ? merges : -1;
        rvit_session *session = NULL, *own = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        for (int r = 0; r < (H.is_slow ? 2 : H.desc.backend == RVIT_BACKEND_CUDA ? RUNS / 10 : RUNS); r++) {
            int32_t grids[2 * MAX_IMAGES], n_images = 0, tokens = 0, longest = 0;
            for (const int32_t most = 1 + (int32_t)(next(&random) % MAX_IMAGES); n_images < most; n_images++) {
                const int32_t h = 2 + 2 * (int32_t)(next(&random) % 5), w = 2 + 2 * (int32_t)(next(&random) % 4);
                if (tokens + h * w > MAX_TOKENS)
                    break;
                grids[2 * n_images] = h;
                grids[2 * n_images + 1] = w;
                tokens += h * w;
                longest = h * w > longest ? h * w : longest;
            }
            for (int64_t i = 0; i < tokens * row_values(&t); i++)
                patches[i] = (float)(int32_t)(next(&random) % 2049 - 1024) / 512;
            rvit_session_desc tight = desc;
            if (H.desc.backend != RVIT_BACKEND_CUDA) {
                tight.max_images = n_images;
                tight.max_tokens = tokens;
                tight.max_len = longest;
            }
            expect_ok(rvit_session_create(t.model, &tight, &own));
            const gridded b = {n_images, grids, patches};
            const answer again = run(&t, session, &b), first = run(&t, own, &b);
            assert_memory_equal(again.cu, first.cu, ((size_t)n_images + 1) * sizeof(int32_t));
            for (int k = 0; k < N_VALUES; k++)
                if (again.values[k] != NULL)
                    assert_memory_equal(again.values[k], first.values[k], (size_t)(4 * again.groups[k] * again.width[k]));
            rvit_session_destroy(own);
        }
        rvit_session_destroy(session);
        qwen_close(&t);
    }
}

static void replays(void **state)
{
    (void)state;
    replays_of(0);
    replays_of(3);
}

static int64_t round_up_256(int64_t size)
{
    return (size + 255) / 256 * 256;
}

/* rvit_session_memory counts the memory that these models need. */
static void memory(void **state)
{
    (void)state;
    for (int d = 0; d < N_QWEN_DUMPS; d++) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        rvit_memory_info plain = RVIT_MEMORY_INFO_INIT, more = RVIT_MEMORY_INFO_INIT;
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        desc.variable_resolution = 1;
        desc.input = RVIT_INPUT_PATCHES;
        desc.max_images = 7;
        desc.max_tokens = 200;
        desc.max_len = 80;
        expect_ok(rvit_session_memory(t.model, &desc, &plain));
        desc.outputs = RVIT_OUTPUT_MERGED | (t.info.n_deepstack > 0 ? RVIT_OUTPUT_DEEPSTACK : 0);
        expect_ok(rvit_session_memory(t.model, &desc, &more));
        const int64_t b = desc.max_images, bt = desc.max_tokens, groups = bt / 4, dim = t.info.dim, values = row_values(&t);
        const int64_t mlp = (t.info.mlp_dim + 7) / 8 * 8;
        /* On the CPU, qkv and the MLP's rows exist at the same time. */
        const int64_t most = H.desc.backend == RVIT_BACKEND_CPU ? 3 * dim + mlp
                             : 3 * dim > mlp                    ? 3 * dim
                                                                : mlp,
                      wide = most > values ? most : values;
        const int64_t windows = t.info.window == 0 ? 0 : (groups + (t.info.window - 1) * b) / t.info.window;
        const int64_t limited = windows < groups ? windows : groups;
        const int64_t tables = round_up_256(2 * t.info.head_dim);
        const int64_t device = 3 * round_up_256(4 * bt * dim) + round_up_256(4 * bt * wide) + 3 * round_up_256(4 * (b + 1)) +
                               round_up_256(16 * bt) + round_up_256(4 * bt * t.info.head_dim) + tables +
                               (t.info.window == 0 ? 0 : round_up_256(4 * (limited + 1)) + round_up_256(4 * groups));
        assert_int_equal(plain.device_size, device);
        assert_int_equal(plain.upload_size, 2 * round_up_256(4) + round_up_256(8 * b) + round_up_256(4 * bt * values) + tables);
        assert_int_equal(more.device_size - plain.device_size, round_up_256(4 * groups * t.info.merged_dim));
        assert_int_equal(more.readback_size,
                         round_up_256(4 * groups * t.info.merged_dim) + round_up_256(4 * t.info.n_deepstack * groups * t.info.merged_dim));
        qwen_close(&t);
    }
}

/* Each run provides its patches in device memory. */
static void views(void **state)
{
    (void)state;
    for (int d = 0; d < N_QWEN_DUMPS; d += 3) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        rvit_session_desc desc = desc_of(&t);
        rvit_session *session = NULL, *viewing = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        desc.input_memory = RVIT_INPUT_RUN;
        expect_ok(rvit_session_create(t.model, &desc, &viewing));
        const int32_t *grids = dump_grids(t.dump);
        const float *patches = dump_patches(t.dump, &t.info);
        const gridded all = {desc.max_images, grids, patches};
        const answer wanted = run(&t, session, &all);
        rvit_buffer *buffer = NULL;
        const int64_t size = 4 * desc.max_tokens * row_values(&t);
        expect_ok(rvit_buffer_create(H.device[DEVICE], size, RVIT_BUFFER_UPLOAD, &buffer));
        memcpy(rvit_buffer_host(buffer), patches, (size_t)size);
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = desc.max_images;
        args.input.kind = RVIT_INPUT_PATCHES;
        args.input.grids = grids;
        args.input.view.buffer = buffer;
        expect_ok(rvit_session_run(viewing, &args, NULL));
        assert_memory_equal(session_floats(viewing, RVIT_RESULT_MERGED), wanted.values[0],
                            (size_t)(4 * wanted.groups[0] * wanted.width[0]));
        rvit_session_destroy(viewing);
        rvit_session_destroy(session);
        rvit_buffer_destroy(buffer);
        qwen_close(&t);
    }
}

/* An update reaches a session, but is refused if its config has other full-attention or deepstack blocks. */
static void updates(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2_5_vl", "qwen3_vl"}, *const keys[] = {"fullatt_block_indexes", "deepstack_visual_indexes"};
    static const char *const words[] = {"different full attention blocks", "different deepstack blocks"};
    for (int d = 0; d < 2; d++) {
        qwen_encoder t = qwen_open(names[d]);
        const rvit_session_desc desc = desc_of(&t);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        rvit_checkpoint *same = dump_open(t.dump, NULL);
        expect_ok(rvit_model_update(t.model, same));
        rvit_checkpoint_destroy(same);
        json_t *vision = json_object_get(json_object_get(t.dump, "config"), "vision_config");
        assert_int_equal(json_object_set_new(vision, keys[d], d == 0 ? json_pack("[i]", 2) : json_pack("[i, i]", 0, 2)), 0);
        rvit_checkpoint *other = dump_open(t.dump, NULL);
        expect_status(rvit_model_update(t.model, other), RVIT_INVALID_ARGUMENT, words[d]);
        rvit_session_destroy(session);
        expect_ok(rvit_model_update(t.model, other));
        rvit_checkpoint_destroy(other);
        qwen_close(&t);
    }
}

SUITE(dump_qwen_batches_suite, TEST(independent_images), TEST(replays), TEST(memory), TEST(views), TEST(updates), TEST(neighbours));
