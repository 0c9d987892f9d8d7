#include "select_run.h"

#include <math.h>

#include "reference/plain.h"

typedef struct select_arrays {
    array *counts, *scores, *keep_in, *cu, *keep, *out_cu, *src_rows, *error;
    array *x, *cls_probs, *weight, *bias, *position_scores, *anchors, *fuse_x;
} select_arrays;

/* 32 partial sums, then a pairwise tree; multiplication and addition are rounded one by one (the build forbids contraction). */
float l2_in_the_fixed_order(const float *x, int32_t dim)
{
    float lanes[32] = {0};
    for (int32_t i = 0; i < dim; i++) {
        const float square = x[i] * x[i];
        lanes[i % 32] = lanes[i % 32] + square;
    }
    for (int offset = 16; offset; offset /= 2)
        for (int l = 0; l < offset; l++)
            lanes[l] += lanes[l + offset];
    return lanes[0];
}

float heads_in_the_fixed_order(const float *probs, int32_t n_heads)
{
    float sum = 0;
    for (int32_t h = 0; h < n_heads; h++)
        sum += probs[h];
    return sum * (1.0f / (float)n_heads);
}

selection select_wanted(const select_case *c, const float *scores)
{
    const batch *b = &c->b;
    selection r = {scratch((size_t)b->live), scratch((size_t)(b->n_images + 1) * 4), scratch((size_t)b->live * 4), 0,
                   scratch((size_t)b->n_images * 4)};
    const selection_problem p = {.mode = c->mode,
                                 .n_images = b->n_images,
                                 .n_prefix = c->n_prefix,
                                 .prefix_competes = c->prefix_competes,
                                 .k_min = c->k_min,
                                 .n_samples = c->n_samples,
                                 .fused = c->fuse_x != NULL,
                                 .threshold = c->threshold,
                                 .mass = c->mass,
                                 .cu = b->cu,
                                 .counts = c->counts,
                                 .scores = scores ? scores : c->scores,
                                 .keep_in = c->keep_in};
    select_plainly(&p, &r);
    return r;
}

static array *floats(const char *name, const float *values, int64_t n)
{
    array *a = array_input(name, n * 4);
    memcpy(a->host, values, (size_t)n * 4);
    return a;
}

static int uses_x(const select_case *c)
{
    return c->mode != RVIT_SELECT_MASK &&
           (c->score == RVIT_SCORE_L2 || c->score == RVIT_SCORE_CLS_NORM || c->score == RVIT_SCORE_PREDICTOR);
}

static select_arrays make_arrays(const select_case *c, int32_t max_len)
{
    const batch *b = &c->b;
    const int scored = c->mode != RVIT_SELECT_MASK;
    const int64_t element = rvit_dtype_size(c->dtype), stride = c->x_stride ? c->x_stride : c->dim;
    select_arrays a;
    memset(&a, 0, sizeof a);
    a.cu = array_cu(b);
    if (c->mode == RVIT_SELECT_TOP_K) {
        a.counts = array_input("counts", (max_len + 1) * 4);
        memcpy(a.counts->host, c->counts, (size_t)(max_len + 1) * 4);
    }
    if (scored)
        a.scores = c->score == RVIT_SCORE_GIVEN ? array_input("scores", b->rows * 4) : array_output("scores", b->rows * 4);
    if (scored && c->score == RVIT_SCORE_GIVEN && b->live)
        memcpy(a.scores->host, c->scores, (size_t)b->live * 4);
    if (!scored) {
        a.keep_in = array_input("keep_in", b->rows);
        memcpy(a.keep_in->host, c->keep_in, (size_t)b->live);
    }
    if (uses_x(c)) {
        a.x = array_input("x", b->rows * stride * element);
        for (int64_t t = 0; t < b->live; t++)
            for (int32_t i = 0; i < c->dim; i++)
                store(c->dtype, a.x->host, t * stride + c->x_column + i, c->x[t * c->dim + i]);
    }
    if (scored && (c->score == RVIT_SCORE_CLS_ATTENTION || c->score == RVIT_SCORE_CLS_NORM)) {
        a.cls_probs = array_input("cls_probs", b->rows * c->n_heads * 4);
        memcpy(a.cls_probs->host, c->cls_probs, (size_t)(b->live * c->n_heads) * 4);
    }
    if (scored && c->score == RVIT_SCORE_PREDICTOR) {
        a.weight = array_input("weight", 2 * c->dim * element);
        for (int32_t i = 0; i < 2 * c->dim; i++)
            store(c->dtype, a.weight->host, i, c->weight[i]);
        a.bias = floats("bias", c->bias, 2);
    }
    if (scored && c->score == RVIT_SCORE_POSITION)
        a.position_scores = floats("position_scores", c->position_scores, max_len);
    if (c->anchors) {
        a.anchors = array_input("anchors", b->rows);
        memcpy(a.anchors->host, c->anchors, (size_t)b->live);
    }
    if (c->fuse_x) {
        a.fuse_x = array_output("fuse_x", b->rows * c->fuse_dim * rvit_dtype_size(c->fuse_dtype));
        memset(a.fuse_x->host, POISON, (size_t)a.fuse_x->size);
        for (int64_t i = 0; i < b->live * c->fuse_dim; i++)
            store(c->fuse_dtype, a.fuse_x->host, i, c->fuse_x[i]);
    }
    a.keep = array_output("keep", b->rows);
    a.out_cu = array_output("out_cu_seqlens", (b->n_images + 1) * 4);
    a.src_rows = array_output("src_rows", b->rows * 4);
    a.error = c->no_error_view ? NULL : array_output("error", 4 * (1 + (int64_t)b->n_images));
    return a;
}

static rvit_select_args make_args(const select_case *c, const select_arrays *a, int32_t max_len, side s)
{
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = c->mode;
    args.score = c->score;
    args.n_images = c->b.n_images;
    args.max_len = max_len;
    args.rows = c->b.rows;
    args.n_prefix = c->n_prefix;
    args.prefix_competes = c->prefix_competes;
    args.threshold = c->threshold;
    args.k_min = c->k_min;
    args.n_samples = c->n_samples;
    args.mass = c->mass;
    args.dtype = c->dtype;
    args.dim = c->dim;
    args.n_heads = c->n_heads;
    args.x_stride = c->x_stride;
    args.x = array_view(a->x, s);
    args.x.offset += c->x_column * rvit_dtype_size(c->dtype);
    args.cls_probs = array_view(a->cls_probs, s);
    args.weight = array_view(a->weight, s);
    args.bias = array_view(a->bias, s);
    args.position_scores = array_view(a->position_scores, s);
    args.anchors = array_view(a->anchors, s);
    args.anchor_columns = c->anchor_columns;
    args.counts = array_view(a->counts, s);
    args.scores = array_view(a->scores, s);
    args.keep_in = array_view(a->keep_in, s);
    args.cu_seqlens = array_view(a->cu, s);
    args.fuse_dtype = c->fuse_dtype;
    args.fuse_dim = c->fuse_dim;
    args.fuse_x = array_view(a->fuse_x, s);
    args.keep = array_view(a->keep, s);
    args.out_cu_seqlens = array_view(a->out_cu, s);
    args.src_rows = array_view(a->src_rows, s);
    args.error = array_view(a->error, s);
    args.error_stays = c->error_stays;
    args.group_size = c->unit;
    args.image_errors = c->image_errors;
    return args;
}

static const char *side_name(side s)
{
    return s == ORACLE ? "oracle" : H.backend_name;
}

static void expect_same(const char *what, const void *got, const void *wanted, int64_t n, int64_t element, side s)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp((const uint8_t *)got + i * element, (const uint8_t *)wanted + i * element, (size_t)element)) {
            int32_t g = 0, w = 0;
            memcpy(&g, (const uint8_t *)got + i * element, (size_t)element);
            memcpy(&w, (const uint8_t *)wanted + i * element, (size_t)element);
            fail_msg("select: %s[%lld] of %lld is %d, should be %d (%s)", what, (long long)i, (long long)n, g, w, side_name(s));
        }
}

static void expect_score(const select_case *c, side s, int64_t t, float got, float wanted)
{
    if (memcmp(&got, &wanted, 4) && !(isnan(got) && isnan(wanted)))
        fail_msg("score type %d, %s, dim %d, %d heads: row %lld scores %a, should be %a (%s)", c->score,
                 rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), c->dim, c->n_heads, (long long)t, (double)got, (double)wanted, side_name(s));
}

/* Attention times norm, each summed in a fixed order. The score may be off by less than 8 units in the last place; the oracle's must be
   exact. */
static void expect_norm_score(const select_case *c, side s, int64_t t, float got, const float *row)
{
    const float *probs = c->cls_probs + t * c->n_heads;
    double exact = (double)heads_in_the_fixed_order(probs, c->n_heads) * sqrt(l2_in_the_fixed_order(row, c->dim)), sum = 0, square = 0;
    for (int32_t h = 0; h < c->n_heads; h++)
        sum += probs[h];
    for (int32_t i = 0; i < c->dim; i++)
        square += (double)row[i] * row[i];
    if (s == ORACLE)
        exact = sum / c->n_heads * sqrt(square);
    if (isnan(exact) ? !isnan(got) : !(fabs(got - exact) <= (s == ORACLE ? 0x1p-23 : 0x1p-21) * exact || got == (float)exact))
        fail_msg("cls norm, %s, dim %d, %d heads: row %lld scores %.9g, should be %.9g (%s)", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
                 c->dim, c->n_heads, (long long)t, (double)got, exact, side_name(s));
}

static void check_predictor(const select_case *c, side s, const float *scores, const float *x)
{
    float *weight = scratch((size_t)c->dim * 8);
    for (int32_t i = 0; i < 2 * c->dim; i++)
        weight[i] = rounded(c->dtype, c->weight[i]);
    const predictor_problem p = {.rows = c->b.live, .dim = c->dim, .x = x, .weight = weight, .bias = c->bias};
    double *exact = scratch((size_t)c->b.live * sizeof *exact);
    float *plain = scratch((size_t)c->b.live * sizeof *plain);
    predictor_f64(&p, exact);
    predictor_f32(&p, plain);
    for (int64_t t = 0; t < c->b.live; t++)
        if (isnan(exact[t])) {
            if (!isnan(scores[t]))
                fail_msg("predictor: row %lld has a NaN and scores %.9g (%s)", (long long)t, (double)scores[t], side_name(s));
            exact[t] = plain[t] = 0;
        }
    float *finite = scratch((size_t)c->b.live * sizeof *finite);
    for (int64_t t = 0; t < c->b.live; t++)
        finite[t] = isnan(scores[t]) && exact[t] == 0 ? 0 : scores[t];
    if (s == ORACLE)
        check_oracle("predictor", RVIT_F32, finite, exact, c->b.live);
    else
        check_close("predictor", RVIT_F32, finite, exact, plain, c->b.live);
}

/* What is added to the scores of each row: from each anchor to what lies around it. */
static float *anchor_bonuses(const select_case *c)
{
    float *bonus = scratch((size_t)c->b.live * 4);
    for (int32_t image = 0; c->anchors && image < c->b.n_images; image++) {
        const int64_t first = c->b.cu[image] + c->n_prefix, n = c->b.cu[image + 1] - first;
        for (int64_t t = 0; t < n; t++) {
            const int64_t around[] = {t, t - 1, t + 1, t - c->anchor_columns, t + c->anchor_columns};
            for (int i = 0; c->anchors[first + t] && i < 5; i++)
                bonus[first + (around[i] < 0 ? 0 : around[i] >= n ? n - 1 : around[i])] = 2;
        }
    }
    return bonus;
}

static float own_score(const select_case *c, const float *x, int32_t t)
{
    return c->score == RVIT_SCORE_L2 ? l2_in_the_fixed_order(x + (int64_t)t * c->dim, c->dim)
                                     : heads_in_the_fixed_order(c->cls_probs + (int64_t)t * c->n_heads, c->n_heads);
}

/* The mean of the rows of its unit. */
static float shared_score(const select_case *c, const float *x, int32_t image, int32_t t)
{
    const int32_t unit = c->unit > 1 ? c->unit : 1, first = t - (t - c->b.cu[image]) % unit;
    float sum = own_score(c, x, first);
    for (int32_t other = first + 1; other < first + unit && other < c->b.cu[image + 1]; other++)
        sum = sum + own_score(c, x, other);
    return unit == 1 ? sum : sum * (1.0f / (float)unit);
}

static void check_scores(const select_case *c, side s, const float *scores)
{
    const batch *b = &c->b;
    const float *bonus = anchor_bonuses(c);
    float *x = uses_x(c) ? scratch((size_t)(b->live * c->dim) * 4) : NULL;
    for (int64_t i = 0; x && i < b->live * c->dim; i++)
        x[i] = rounded(c->dtype, c->x[i]);
    for (int32_t image = 0; image < b->n_images; image++)
        for (int32_t t = b->cu[image]; t < b->cu[image + 1]; t++) {
            if (c->score == RVIT_SCORE_L2)
                expect_score(c, s, t, scores[t], shared_score(c, x, image, t));
            if (c->score == RVIT_SCORE_CLS_ATTENTION)
                expect_score(c, s, t, scores[t], shared_score(c, x, image, t) + bonus[t]);
            if (c->score == RVIT_SCORE_POSITION)
                expect_score(c, s, t, scores[t], c->position_scores[t - b->cu[image]]);
            if (c->score == RVIT_SCORE_CLS_NORM)
                expect_norm_score(c, s, t, scores[t], x + (int64_t)t * c->dim);
        }
    if (c->score == RVIT_SCORE_PREDICTOR)
        check_predictor(c, s, scores, x);
}

static void check_fused(const select_case *c, side s, const array *fuse_x, const uint8_t *keep, const float *scores)
{
    const int64_t row = c->fuse_dim * rvit_dtype_size(c->fuse_dtype);
    const float *before = loaded(c->fuse_dtype, fuse_x->host, 0, c->b.live * c->fuse_dim);
    double *exact = scratch((size_t)c->fuse_dim * sizeof *exact);
    float *plain = scratch((size_t)c->fuse_dim * sizeof *plain);
    array_expect_untouched(fuse_x, s, c->b.live * row);
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t begin = c->b.cu[image], end = c->b.cu[image + 1];
        int32_t dropped = begin;
        while (dropped < end && keep[dropped])
            dropped++;
        for (int32_t t = begin; t < end; t++)
            if (t != dropped && memcmp(fuse_x->result[s] + t * row, fuse_x->host + t * row, (size_t)row))
                fail_msg("select: row %d of fuse_x has changed, and is not the first dropped one of image %d (%s)", t, image, side_name(s));
        if (dropped == end)
            continue;
        const fuse_problem p = {.length = end - begin,
                                .dim = c->fuse_dim,
                                .keep = keep + begin,
                                .scores = scores + begin,
                                .x = before + (int64_t)begin * c->fuse_dim};
        fuse_f64(&p, exact);
        fuse_f32(&p, plain);
        const float *got = loaded(c->fuse_dtype, fuse_x->result[s], (int64_t)dropped * c->fuse_dim, c->fuse_dim);
        char what[96];
        snprintf(what, sizeof what, "the fused token of image %d, %s (%s)", image, rvit_enum_name(RVIT_ENUM_DTYPE, c->fuse_dtype),
                 side_name(s));
        if (isnan(plain[0]))
            assert_true(isnan(got[0]));
        else if (s == ORACLE)
            check_oracle(what, c->fuse_dtype, got, exact, c->fuse_dim);
        else
            check_close(what, c->fuse_dtype, got, exact, plain, c->fuse_dim);
    }
}

/* Bytes that an op does not write keep their values. */
static void expect_errors(const select_case *c, const select_arrays *a, const selection *wanted, side s)
{
    const int32_t n = 1 + c->b.n_images, n_written = c->image_errors ? n : 1;
    int32_t *errors = scratch((size_t)n * 4);
    memcpy(errors, a->error->host, (size_t)n * 4);
    for (int32_t i = 0; i < n_written; i++) {
        const int32_t error = i == 0 ? wanted->error : wanted->image_errors[i - 1];
        if (error != 0 || !c->error_stays)
            errors[i] = error;
    }
    expect_same("error", a->error->result[s], errors, n, 4, s);
}

void select_check_and_observe(const select_case *c, select_observer *observer)
{
    const batch *b = &c->b;
    const int32_t max_len = c->max_len ? c->max_len : b->max_len;
    const select_arrays a = make_arrays(c, max_len);
    const int scored = c->mode != RVIT_SELECT_MASK;
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        const rvit_select_args args = make_args(c, &a, max_len, s);
        const rvit_status status = rvit_select(H.stream[s], &args);
        if (!supported(s, type_feature(a.fuse_x ? c->fuse_dtype : a.x ? c->dtype : RVIT_F32), status))
            continue;
        arrays_fetch(s);
        const float *scores = scored ? loaded(RVIT_F32, a.scores->result[s], 0, b->live) : NULL;
        if (scored && c->score != RVIT_SCORE_GIVEN) {
            check_scores(c, s, scores);
            array_expect_untouched(a.scores, s, b->live * 4);
        }
        const selection wanted = select_wanted(c, scores);
        expect_same("out_cu_seqlens", a.out_cu->result[s], wanted.cu, b->n_images + 1, 4, s);
        expect_same("keep", a.keep->result[s], wanted.keep, b->live, 1, s);
        expect_same("src_rows", a.src_rows->result[s], wanted.src_rows, wanted.cu[b->n_images], 4, s);
        if (a.error)
            expect_errors(c, &a, &wanted, s);
        array_expect_untouched(a.keep, s, b->live);
        array_expect_untouched(a.src_rows, s, (int64_t)wanted.cu[b->n_images] * 4);
        if (a.fuse_x)
            check_fused(c, s, a.fuse_x, wanted.keep, scores);
        if (observer)
            observer(c, s, &wanted, scores, a.fuse_x ? loaded(c->fuse_dtype, a.fuse_x->result[s], 0, b->live * c->fuse_dim) : NULL);
    }
    harness_teardown(NULL);
}

void select_check(const select_case *c)
{
    select_check_and_observe(c, NULL);
}

int32_t *count_table(double keep, int32_t max_len)
{
    int32_t *counts = scratch((size_t)(max_len + 1) * 4);
    expect_ok(rvit_count_table(RVIT_COUNT_CEIL, keep, 0, max_len, counts));
    return counts;
}

batch full_batch(int64_t padding_rows)
{
    int32_t lengths[EVERY_LENGTH];
    const int32_t n = every_length(lengths);
    return batch_of(lengths, n, padding_rows);
}

float *make_scores(int64_t n, score_kind kind)
{
    static const uint32_t extremes[] = {0x7f800000, 0xff800000, 0x00000001, 0x80000001, 0x7f7fffff, 0xff7fffff, 0, 0x80000000, 0x3f800000};
    float *scores = scratch((size_t)n * 4);
    for (int64_t i = 0; i < n; i++) {
        scores[i] = random_normal();
        if (kind == COARSE)
            scores[i] = (float)random_below(4);
        if (kind == EQUAL)
            scores[i] = 1.5f;
        if (kind == SIGNED_ZEROS)
            scores[i] = random_below(2) ? 0.0f : -0.0f;
        if (kind == EXTREME)
            memcpy(&scores[i], &extremes[random_below(9)], 4);
        if (kind == SORTED || kind == REVERSED)
            scores[i] = kind == SORTED ? (float)i : (float)-i;
    }
    return scores;
}

float *make_normal(int64_t n, float scale)
{
    float *values = scratch((size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        values[i] = scale * random_normal();
    return values;
}

float *make_probs(int64_t n)
{
    float *probs = scratch((size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        probs[i] = (float)(random_bits() >> 8) * 0x1p-24f;
    return probs;
}
