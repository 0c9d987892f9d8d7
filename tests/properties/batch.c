/* An image's results do not depend on its position in the batch, on other images, or on the contents of unused memory. */
#include "properties.h"

#include <math.h>

static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};

static const int32_t lengths[] = {17, 0, 1, 40, 64, 5, 0, 65, 33, 2, 16, 80};
#define N_IMAGES ((int32_t)(sizeof lengths / sizeof lengths[0]))
#define ROWS 400
#define MAX_LEN 80

static pipeline *filled(rvit_dtype dtype, pipeline_prune prune, const int32_t *order)
{
    pipeline *p = pipeline_new(dtype, prune, N_IMAGES, MAX_LEN, ROWS, 0);
    int32_t ordered[N_IMAGES];
    for (int32_t i = 0; i < N_IMAGES; i++)
        ordered[i] = lengths[order ? order[i] : i];
    pipeline_set_lengths(p, ordered, N_IMAGES);
    for (int32_t i = 0; i < N_IMAGES; i++)
        pipeline_set_image(p, i, (uint64_t)(order ? order[i] : i));
    return p;
}

static void expect_same_image(const pipeline *a, int32_t image_a, const pipeline *b, int32_t image_b, const char *what)
{
    for (int o = 0; o < a->n_outputs; o++) {
        int64_t size_a, size_b;
        const uint8_t *part_a = pipeline_part(a, o, image_a, &size_a), *part_b = pipeline_part(b, o, image_b, &size_b);
        if (a->outputs[o].content == VALUES && (size_a != size_b || memcmp(part_a, part_b, (size_t)size_a)))
            fail_msg("%s: %s of image %d (of %d rows) differs", what, a->outputs[o].a->name, image_a, lengths[image_a]);
    }
    int64_t size_a, size_b;
    const uint8_t *all_a = pipeline_image(a, image_a, &size_a), *all_b = pipeline_image(b, image_b, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(all_a, all_b, (size_t)size_a);
}

static void permuting_images_permutes_outputs(void **state)
{
    (void)state;
    for (int t = 0; t < n_types(); t++)
        for (int prune = PRUNE_CLS; prune <= PRUNE_NOTHING; prune++)
            for (int round = 0; round < 3; round++) {
                if (leaves_out(t + prune + round, 3))
                    continue;
                int32_t order[N_IMAGES];
                for (int32_t i = 0; i < N_IMAGES; i++)
                    order[i] = round == 0 ? N_IMAGES - 1 - i : i;
                random_seed((uint64_t)round);
                if (round)
                    random_shuffle(order, N_IMAGES);
                pipeline *straight = filled(types[t], (pipeline_prune)prune, NULL);
                pipeline *permuted = filled(types[t], (pipeline_prune)prune, order);
                arrays_upload();
                expect_ok(pipeline_enqueue(straight, H.stream[DEVICE]));
                expect_ok(pipeline_enqueue(permuted, H.stream[DEVICE]));
                arrays_fetch(DEVICE);
                for (int32_t i = 0; i < N_IMAGES; i++)
                    expect_same_image(straight, order[i], permuted, i, "permuted");
                harness_teardown(NULL);
            }
}

/* At equal capacities, bit for bit. */
static void one_call_equals_many(void **state)
{
    (void)state;
    for (int t = 0; t < n_types(); t++)
        for (int prune = PRUNE_CLS; prune <= PRUNE_NOTHING; prune++) {
            if (leaves_out(t + prune, 2))
                continue;
            pipeline *together = filled(types[t], (pipeline_prune)prune, NULL);
            pipeline *alone[N_IMAGES];
            for (int32_t i = 0; i < N_IMAGES; i++) {
                alone[i] = pipeline_new(types[t], (pipeline_prune)prune, N_IMAGES, MAX_LEN, ROWS, 0);
                pipeline_set_lengths(alone[i], &lengths[i], 1);
                pipeline_set_image(alone[i], 0, (uint64_t)i);
            }
            arrays_upload();
            expect_ok(pipeline_enqueue(together, H.stream[DEVICE]));
            for (int32_t i = 0; i < N_IMAGES; i++)
                expect_ok(pipeline_enqueue(alone[i], H.stream[DEVICE]));
            arrays_fetch(DEVICE);
            for (int32_t i = 0; i < N_IMAGES; i++)
                expect_same_image(together, i, alone[i], 0, "alone");
            harness_teardown(NULL);
        }
}

/* At other capacities another tile may be chosen: then within rounding. The selection by a given mask stays the same. */
static void capacities_do_not_matter(void **state)
{
    (void)state;
    pipeline *wide = filled(RVIT_F32, PRUNE_MASK, NULL);
    pipeline *tight = pipeline_new(RVIT_F32, PRUNE_MASK, 1, 65, 65, 0);
    pipeline_set_lengths(tight, &lengths[7], 1);
    pipeline_set_image(tight, 0, 7);
    arrays_upload();
    expect_ok(pipeline_enqueue(wide, H.stream[DEVICE]));
    expect_ok(pipeline_enqueue(tight, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    for (int o = 0; o < wide->n_outputs; o++) {
        int64_t size_a, size_b;
        const uint8_t *a = pipeline_part(wide, o, 7, &size_a), *b = pipeline_part(tight, o, 0, &size_b);
        if (wide->outputs[o].layout == SECOND) /* follows from scores that are off by rounding */
            continue;
        assert_int_equal(size_a, size_b);
        if (wide->outputs[o].content == VALUES && wide->outputs[o].row_size >= 4)
            for (int64_t i = 0; i < size_a / 4; i++) {
                const double x = load(RVIT_F32, a, i), y = load(RVIT_F32, b, i);
                if (!(fabs(x - y) <= 1e-5 * (1 + fabs(x))))
                    fail_msg("%s differs: %.9g and %.9g", wide->outputs[o].a->name, x, y);
            }
    }
}

static void expect_dense(const pipeline *p, const array *pruned, const array *dense, int64_t row_size)
{
    const int32_t *cu = (const int32_t *)(const void *)p->cu->result[DEVICE];
    if (memcmp(pruned->result[DEVICE], dense->result[DEVICE], (size_t)(cu[p->n_images] * row_size)))
        fail_msg("%s differs from that of the dense forward", pruned->name);
}

/* A9: pruning that keeps everything is the dense forward, bit for bit. */
static void keeping_all_equals_dense(void **state)
{
    (void)state;
    for (int t = 0; t < n_types(); t++)
        for (int prune = PRUNE_CLS; prune <= PRUNE_MASK; prune++) {
            if (!pipeline_can_keep_all((pipeline_prune)prune))
                continue;
            const int64_t row = 32 * rvit_dtype_size(types[t]);
            pipeline *pruned = filled(types[t], (pipeline_prune)prune, NULL), *dense = filled(types[t], PRUNE_NOTHING, NULL);
            if (pruned->keep_in)
                memset(pruned->keep_in->host, 1, (size_t)pruned->rows);
            else
                expect_ok(rvit_count_table(RVIT_COUNT_CEIL, 1, 0, MAX_LEN, (int32_t *)(void *)pruned->counts->host));
            arrays_upload();
            expect_ok(pipeline_enqueue(pruned, H.stream[DEVICE]));
            expect_ok(pipeline_enqueue(dense, H.stream[DEVICE]));
            arrays_fetch(DEVICE);
            assert_memory_equal(pruned->cu_after->result[DEVICE], pruned->cu->host, (N_IMAGES + 1) * 4);
            const int32_t *src_rows = (const int32_t *)(const void *)pruned->src_rows->result[DEVICE];
            for (int32_t i = 0; i < ((const int32_t *)(const void *)pruned->cu->host)[N_IMAGES]; i++)
                assert_int_equal(src_rows[i], i);
            expect_dense(pruned, pruned->x3, dense->x3, row);
            if (pruned->unpacked)
                expect_dense(pruned, pruned->unpacked, dense->x3, row);
            expect_dense(pruned, pruned->packed, dense->x1, row);
            expect_dense(pruned, pruned->scores_after, dense->scores_after, 4);
            assert_memory_equal(pruned->cu_second->result[DEVICE], dense->cu_second->result[DEVICE], (N_IMAGES + 1) * 4);
            assert_memory_equal(pruned->logits->result[DEVICE], dense->logits->result[DEVICE], (size_t)dense->logits->size);
            assert_memory_equal(pruned->pooled->result[DEVICE], dense->pooled->result[DEVICE], (size_t)dense->pooled->size);
            assert_memory_equal(pruned->probed->result[DEVICE], dense->probed->result[DEVICE], (size_t)dense->probed->size);
            harness_teardown(NULL);
        }
}

/* The pack and the gather of layernorm are the same rows; unpack puts them back where they were. */
static void pack_gather_and_unpack_agree(void **state)
{
    (void)state;
    for (int t = 0; t < n_types(); t++) {
        const int64_t row = 32 * rvit_dtype_size(types[t]);
        pipeline *p = filled(types[t], PRUNE_CLS, NULL);
        pipeline_run(p);
        const int32_t n_after = ((const int32_t *)(const void *)p->cu_after->result[DEVICE])[N_IMAGES];
        const int32_t *src_rows = (const int32_t *)(const void *)p->src_rows->result[DEVICE];
        assert_memory_equal(p->packed->result[DEVICE], p->x2->result[DEVICE], (size_t)(n_after * row));
        for (int32_t i = 0; i < n_after; i++)
            assert_memory_equal(p->unpacked->result[DEVICE] + src_rows[i] * row, p->x3->result[DEVICE] + i * row, (size_t)row);
        assert_memory_equal(p->logits->result[DEVICE], p->logits_copy->result[DEVICE], (size_t)p->logits->size);
        harness_teardown(NULL);
    }
}

/* The row of a token that nothing was merged into is that of the pack; the sizes add up to the tokens there were. */
static void pack_and_merge_agree(void **state)
{
    (void)state;
    for (int t = 0; t < n_types(); t++) {
        const int64_t row = 32 * rvit_dtype_size(types[t]);
        pipeline *p = filled(types[t], PRUNE_MERGE, NULL);
        pipeline_run(p);
        const int32_t n_after = ((const int32_t *)(const void *)p->cu_after->result[DEVICE])[N_IMAGES];
        float sum = 0;
        for (int32_t i = 0; i < n_after; i++) {
            const float size = load(RVIT_F32, p->sizes->result[DEVICE], i);
            if (size == 1)
                assert_memory_equal(p->packed->result[DEVICE] + i * row, p->x2->result[DEVICE] + i * row, (size_t)row);
            sum += size;
        }
        assert_true(sum == (float)((const int32_t *)(const void *)p->cu->host)[N_IMAGES]);
        harness_teardown(NULL);
    }
}

/* What lies in memory that nobody may read, NaN or zero or anything, changes nothing. */
static void poison_changes_nothing(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, POISON, 0x7f};
    for (int t = 0; t < n_types(); t++)
        for (int prune = PRUNE_CLS; prune <= PRUNE_NOTHING; prune++) {
            pipeline *p[3];
            for (int i = 0; i < 3; i++) {
                p[i] = filled(types[t], (pipeline_prune)prune, NULL);
                pipeline_fill_unused(p[i], bytes[i]);
            }
            arrays_upload();
            for (int i = 0; i < 3; i++)
                expect_ok(pipeline_enqueue(p[i], H.stream[DEVICE]));
            arrays_fetch(DEVICE);
            for (int i = 1; i < 3; i++)
                for (int32_t image = 0; image < N_IMAGES; image++)
                    expect_same_image(p[0], image, p[i], image, "poisoned");
            harness_teardown(NULL);
        }
}

SUITE(batch_suite, TEST(permuting_images_permutes_outputs), TEST(one_call_equals_many), TEST(capacities_do_not_matter),
      TEST(keeping_all_equals_dense), TEST(pack_gather_and_unpack_agree), TEST(pack_and_merge_agree), TEST(poison_changes_nothing));
