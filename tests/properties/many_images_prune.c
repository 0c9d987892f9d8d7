/* The ops of a prune stage over very many images. */
#include <math.h>

#include "many_images.h"
#include "reference/plain.h"
#include "reference/selection.h"

typedef struct stage {
    array *x, *cu, *counts, *keep_in, *scores, *keep, *src_rows, *cu_after, *error;
} stage;

static stage make_stage(int64_t rows, const array *fuse_x)
{
    stage s;
    s.x = fuse_x ? NULL : repeated("x", DIM * 4);
    s.cu = uniform_cu(LENGTH);
    s.counts = array_input("counts", (LENGTH + 1) * 4);
    s.keep_in = array_input("keep_in", rows);
    s.scores = array_output("scores", rows * 4);
    s.keep = array_output("keep", rows);
    s.src_rows = array_output("src_rows", rows * 4);
    s.cu_after = array_output("out_cu_seqlens", (N_IMAGES + 1) * 4);
    s.error = array_output("error", 4);
    for (int i = 0; i <= LENGTH; i++) {
        const int32_t one = i > 0;
        memcpy(s.counts->host + i * 4, &one, 4);
    }
    for (int64_t i = 0; i < rows - 1; i++)
        s.keep_in->host[i] = i % LENGTH == 0 || i / LENGTH % KINDS % (i % LENGTH) == 0;
    return s;
}

static rvit_select_args stage_args(const stage *s, int64_t rows)
{
    rvit_select_args select = RVIT_SELECT_ARGS_INIT;
    select.score = RVIT_SCORE_L2;
    select.n_images = N_IMAGES;
    select.max_len = LENGTH;
    select.rows = rows;
    select.n_prefix = 1;
    select.dim = DIM;
    select.threshold = 9;
    select.k_min = 1;
    select.n_samples = 3;
    select.mass = 0.8;
    select.x = array_view(s->x, DEVICE);
    select.counts = array_view(s->counts, DEVICE);
    select.keep_in = array_view(s->keep_in, DEVICE);
    select.scores = array_view(s->scores, DEVICE);
    select.cu_seqlens = array_view(s->cu, DEVICE);
    select.keep = array_view(s->keep, DEVICE);
    select.out_cu_seqlens = array_view(s->cu_after, DEVICE);
    select.src_rows = array_view(s->src_rows, DEVICE);
    select.error = array_view(s->error, DEVICE);
    return select;
}

static void select_mode(rvit_select_mode mode)
{
    const int64_t rows = N_IMAGES * LENGTH + 1;
    const stage s = make_stage(rows, NULL);
    array *packed = array_output("packed", rows * DIM * 4);
    arrays_upload();
    rvit_select_args select = stage_args(&s, rows);
    select.mode = mode;
    expect_ok(rvit_select(H.stream[DEVICE], &select));
    rvit_pack_args pack = RVIT_PACK_ARGS_INIT;
    pack.rows.capacity = rows;
    pack.rows.live = array_view(s.cu_after, DEVICE);
    pack.rows.live.offset += N_IMAGES * 4;
    pack.source_rows = rows;
    pack.row_size = DIM * 4;
    pack.source = array_view(s.x, DEVICE);
    pack.src_rows = array_view(s.src_rows, DEVICE);
    pack.destination = array_view(packed, DEVICE);
    expect_ok(rvit_pack(H.stream[DEVICE], &pack));
    arrays_fetch(DEVICE);
    selection wanted = {scratch((size_t)rows), scratch((N_IMAGES + 1) * 4), scratch((size_t)rows * 4), 0, scratch(N_IMAGES * 4)};
    const selection_problem p = {.mode = mode,
                                 .n_images = N_IMAGES,
                                 .n_prefix = 1,
                                 .k_min = select.k_min,
                                 .n_samples = select.n_samples,
                                 .threshold = select.threshold,
                                 .mass = select.mass,
                                 .cu = (const int32_t *)(const void *)s.cu->host,
                                 .counts = (const int32_t *)(const void *)s.counts->host,
                                 .scores = (const float *)(const void *)s.scores->result[DEVICE],
                                 .keep_in = s.keep_in->host};
    select_plainly(&p, &wanted);
    const int32_t n_after = wanted.cu[N_IMAGES];
    assert_true(n_after > N_IMAGES && n_after < N_IMAGES * LENGTH);
    assert_memory_equal(s.cu_after->result[DEVICE], wanted.cu, (N_IMAGES + 1) * 4);
    assert_memory_equal(s.keep->result[DEVICE], wanted.keep, (size_t)(rows - 1));
    assert_memory_equal(s.src_rows->result[DEVICE], wanted.src_rows, (size_t)n_after * 4);
    assert_int_equal(*(const int32_t *)(void *)s.error->result[DEVICE], 0);
    for (int32_t i = 0; i < n_after; i++)
        if (memcmp(packed->result[DEVICE] + (int64_t)i * DIM * 4, s.x->host + (int64_t)wanted.src_rows[i] * DIM * 4, DIM * 4))
            fail_msg("mode %d: row %d of the pack is not row %d", mode, i, wanted.src_rows[i]);
    array_expect_untouched(s.keep, DEVICE, rows - 1);
    array_expect_untouched(s.src_rows, DEVICE, (int64_t)n_after * 4);
    array_expect_untouched(packed, DEVICE, (int64_t)n_after * DIM * 4);
    if (mode != RVIT_SELECT_MASK)
        expect_repeated(s.scores, LENGTH * 4);
    harness_teardown(NULL);
}

/* What depends on the number of images, sums and lists, is the same for every mode; two modes stand for all. */
static void select_and_pack(void **state)
{
    (void)state;
    select_mode(RVIT_SELECT_TOP_K);
    select_mode(RVIT_SELECT_MASK);
}

/* The first image with an error is named, one of another kind than those of the images after it. */
static void select_error(void **state)
{
    (void)state;
    skip_if_emulated();
    const int64_t rows = N_IMAGES * LENGTH + 1;
    const stage s = make_stage(rows, NULL);
    for (int i = 0; i < 3; i++)
        store(RVIT_F32, s.x->host, ((int64_t)(N_IMAGES - 1 - i * 1000) * LENGTH + 2) * DIM, i == 2 ? 1e30f : NAN);
    arrays_upload();
    rvit_select_args select = stage_args(&s, rows);
    select.mode = RVIT_SELECT_MASS;
    expect_ok(rvit_select(H.stream[DEVICE], &select));
    arrays_fetch(DEVICE);
    assert_int_equal(*(const int32_t *)(void *)s.error->result[DEVICE], 3 + 3 * (N_IMAGES - 1 - 2000));
}

/* Of the three rows past the prefix one stays, and the other two are fused. */
static void fuse(void **state)
{
    (void)state;
    const int64_t rows = N_IMAGES * LENGTH + 1;
    array *fuse_x = repeated("fuse_x", DIM * 4);
    fuse_x->is_output = 1;
    const stage s = make_stage(rows, fuse_x);
    array *position_scores = array_input("position_scores", LENGTH * 4);
    static const float scores[LENGTH] = {9, 0.25f, 0.75f, 0.5f};
    memcpy(position_scores->host, scores, sizeof scores);
    arrays_upload();
    rvit_select_args select = stage_args(&s, rows);
    select.score = RVIT_SCORE_POSITION;
    select.position_scores = array_view(position_scores, DEVICE);
    select.fuse_dim = DIM;
    select.fuse_x = array_view(fuse_x, DEVICE);
    expect_ok(rvit_select(H.stream[DEVICE], &select));
    arrays_fetch(DEVICE);
    const int32_t *cu = (const int32_t *)(void *)s.cu_after->result[DEVICE], *src = (const int32_t *)(void *)s.src_rows->result[DEVICE];
    for (int32_t i = 0; i < N_IMAGES; i++) {
        const int32_t wanted[] = {i * LENGTH, i * LENGTH + 2, i * LENGTH + 1};
        if (cu[i + 1] != 3 * (i + 1) || memcmp(src + 3 * i, wanted, sizeof wanted))
            fail_msg("image %d: cu_seqlens %d, rows %d, %d and %d", i, cu[i + 1], src[3 * i], src[3 * i + 1], src[3 * i + 2]);
    }
    const float *x = (const float *)(void *)fuse_x->host, *after = (const float *)(void *)fuse_x->result[DEVICE];
    for (int i = 0; i < KINDS * LENGTH * DIM; i++) {
        const float fused = 0.25f * x[i] + (i / DIM % LENGTH == 1 ? 0.5f * x[i + 2 * DIM] : 0);
        assert_true(i / DIM % LENGTH == 1 ? after[i] - fused <= 1e-6f && fused - after[i] <= 1e-6f : after[i] == x[i]);
    }
    expect_repeated(fuse_x, LENGTH * DIM * 4);
}

/* Rows 1 and 3 are B, row 2 is A and goes to the one that is more like it; the others' mean is their own. */
static void match_and_merge(void **state)
{
    (void)state;
    skip_if_emulated();
    const int64_t rows = N_IMAGES * LENGTH + 1;
    array *k = repeated("k", DIM * 4), *x = repeated("x", DIM * 4), *cu = uniform_cu(LENGTH),
          *metric = array_output("metric", rows * DIM * 4);
    array *keep = array_output("keep", rows), *cu_after = array_output("out_cu_seqlens", (N_IMAGES + 1) * 4);
    array *src_rows = array_output("src_rows", rows * 4), *next_rows = array_output("next_rows", rows * 4);
    array *out_x = array_output("out_x", rows * DIM * 4), *sizes = array_output("out_sizes", rows * 4);
    array *key_bias = array_output("out_key_bias", rows * 4);
    arrays_upload();
    rvit_bipartite_match_args match = RVIT_BIPARTITE_MATCH_ARGS_INIT;
    match.n_images = N_IMAGES;
    match.max_len = LENGTH;
    match.rows = rows;
    match.n_prefix = match.n_heads = 1;
    match.head_dim = DIM;
    match.merges = 1;
    match.k = array_view(k, DEVICE);
    match.cu_seqlens = array_view(cu, DEVICE);
    match.metric = array_view(metric, DEVICE);
    match.keep = array_view(keep, DEVICE);
    match.out_cu_seqlens = array_view(cu_after, DEVICE);
    match.src_rows = array_view(src_rows, DEVICE);
    match.next_rows = array_view(next_rows, DEVICE);
    expect_ok(rvit_bipartite_match(H.stream[DEVICE], &match));
    rvit_merge_args merge = RVIT_MERGE_ARGS_INIT;
    merge.rows.capacity = merge.x_rows = rows;
    merge.rows.live = match.out_cu_seqlens;
    merge.rows.live.offset += N_IMAGES * 4;
    merge.dim = DIM;
    merge.x = array_view(x, DEVICE);
    merge.src_rows = match.src_rows;
    merge.next_rows = match.next_rows;
    merge.out_x = array_view(out_x, DEVICE);
    merge.out_sizes = array_view(sizes, DEVICE);
    merge.out_key_bias = array_view(key_bias, DEVICE);
    expect_ok(rvit_merge(H.stream[DEVICE], &merge));
    arrays_fetch(DEVICE);
    const float *m = (const float *)(void *)metric->result[DEVICE], *xs = (const float *)(void *)x->host;
    const int32_t *src = (const int32_t *)(void *)src_rows->result[DEVICE], *next = (const int32_t *)(void *)next_rows->result[DEVICE];
    for (int32_t i = 0; i < N_IMAGES; i++) {
        double product[2] = {0, 0};
        for (int d = 0; d < DIM; d++)
            for (int b = 0; b < 2; b++)
                product[b] += (double)m[(i * LENGTH + 2) * DIM + d] * m[(i * LENGTH + 1 + 2 * b) * DIM + d];
        const int32_t first = i * LENGTH, to = product[1] > product[0] ? 3 : 1;
        const int32_t wanted_src[] = {first, first + 1, first + 3};
        if (((const int32_t *)(void *)cu_after->result[DEVICE])[i + 1] != 3 * (i + 1) ||
            memcmp(src + 3 * i, wanted_src, sizeof wanted_src) || next[first + to] != first + 2 || next[first + 2] != -1 ||
            next[first] != -1 || next[first + 4 - to] != -1)
            fail_msg("image %d: rows %d, %d and %d, should merge row 2 into row %d", i, src[3 * i], src[3 * i + 1], src[3 * i + 2], to);
        for (int r = 0; i < KINDS && r < 3; r++)
            for (int d = 0; d < DIM; d++) {
                const float own = xs[wanted_src[r] * DIM + d], other = xs[(first + 2) * DIM + d];
                const float got = load(RVIT_F32, out_x->result[DEVICE], (3 * i + r) * DIM + d);
                assert_true(wanted_src[r] == first + to ? got == (own + other) / 2 : got == own);
            }
    }
    expect_repeated(metric, LENGTH * DIM * 4);
    expect_repeated(keep, LENGTH);
    expect_repeated(out_x, 3 * DIM * 4);
    expect_repeated(sizes, 12);
    expect_repeated(key_bias, 12);
}

static void mean(void **state)
{
    (void)state;
    const int64_t rows = N_IMAGES * LENGTH + 1;
    array *x = repeated("x", DIM * 4), *cu = uniform_cu(LENGTH);
    x->is_output = 1;
    arrays_upload();
    rvit_mean_args args = RVIT_MEAN_ARGS_INIT;
    args.n_images = N_IMAGES;
    args.max_len = LENGTH;
    args.rows = rows;
    args.n_prefix = 1;
    args.dim = DIM;
    args.first_column = 4;
    args.cu_seqlens = array_view(cu, DEVICE);
    args.x = array_view(x, DEVICE);
    expect_ok(rvit_mean(H.stream[DEVICE], &args));
    arrays_fetch(DEVICE);
    for (int i = 0; i < KINDS; i++) {
        const mean_problem p = {LENGTH, 1, DIM, (const float *)(void *)x->host + i * LENGTH * DIM};
        double exact[DIM];
        float plain[DIM];
        mean_f64(&p, exact);
        mean_f32(&p, plain);
        for (int r = 0; r < LENGTH; r++) {
            const float *got = (const float *)(void *)x->result[DEVICE] + (i * LENGTH + r) * DIM;
            check_close("mean", RVIT_F32, got + 4, exact + 4, plain + 4, DIM - 4);
            assert_memory_equal(got, p.x + r * DIM, 16);
        }
    }
    expect_repeated(x, LENGTH * DIM * 4);
}

SUITE(many_images_prune_suite, TEST(select_and_pack), TEST(select_error), TEST(fuse), TEST(match_and_merge), TEST(mean));
