#include "match_run.h"

#include <math.h>

#include "reference/plain.h"

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

int32_t *match_targets(const match_case *c, int32_t image, const match_result *found)
{
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin;
    int32_t *targets = scratch((size_t)length * 4);
    for (int32_t i = 0; i < length; i++)
        targets[i] = -1;
    for (int32_t i = 0; i < length; i++) {
        int32_t at = found->next_rows[begin + i];
        for (int32_t steps = 0; found->keep[begin + i] && at >= 0; steps++) {
            if (at < begin || at >= begin + length || steps > length)
                fail_msg("match: the list of row %d of image %d leads to row %d", i, image, at - begin);
            targets[at - begin] = i;
            at = found->next_rows[at];
        }
    }
    return targets;
}

/* Prefix, unmerged rows of A, rows of B; a merged row in the list of one of B, each list ascending. */
static void check_layout(const match_case *c, int32_t image, const match_result *found)
{
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin;
    const int32_t prefix = smaller(c->n_prefix, length), n_merged = smaller(c->merges, (length - prefix) / 2);
    const int32_t *targets = match_targets(c, image, found);
    int32_t at = found->cu[image], merged = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int32_t i = 0; i < length; i++) {
            const int which = i < prefix ? 0 : i % 2 ? 2 : 1;
            if (which != pass)
                continue;
            if (found->keep[begin + i] > 1 || (found->keep[begin + i] == 0) != (targets[i] >= 0))
                fail_msg("match: keep of row %d of image %d is %d, its target %d", i, image, found->keep[begin + i], targets[i]);
            if (targets[i] >= 0) {
                if (which != 1 || targets[i] < prefix || targets[i] % 2 == 0)
                    fail_msg("match: row %d of image %d may not be merged into row %d", i, image, targets[i]);
                merged++;
            } else if (at >= found->cu[image + 1] || found->src_rows[at++] != begin + i)
                fail_msg("match: image %d: row %d is not where it belongs in src_rows", image, i);
        }
    if (merged != n_merged || at != found->cu[image + 1] || at - found->cu[image] != length - n_merged)
        fail_msg("match: image %d of %d rows: %d merged, should be %d; %d rows after", image, length, merged, n_merged,
                 found->cu[image + 1] - found->cu[image]);
    for (int32_t i = 0; i < length; i++) {
        int32_t wanted = -1;
        const int32_t target = targets[i] >= 0 ? targets[i] : i;
        for (int32_t j = length - 1; j >= 0; j--)
            if (targets[j] == target && (j > i || target == i))
                wanted = begin + j;
        if (found->next_rows[begin + i] != wanted)
            fail_msg("match: next_rows of row %d of image %d is %d, should be %d", i, image, found->next_rows[begin + i], wanted);
    }
}

static void check_metric(const match_case *c, side s, const float *metric)
{
    float *k = scratch((size_t)(c->b.live * c->n_heads * c->head_dim) * 4);
    for (int64_t i = 0; i < c->b.live * c->n_heads * c->head_dim; i++)
        k[i] = rounded(c->dtype, c->k[i]);
    const metric_problem p = {c->b.live, c->n_heads, c->head_dim, k};
    const int64_t n = c->b.live * c->head_dim;
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain), *got = scratch((size_t)n * sizeof *got);
    metric_f64(&p, exact);
    metric_f32(&p, plain);
    for (int64_t t = 0; t < c->b.live; t++) {
        const int64_t first = t * c->head_dim;
        int has_nan = 0;
        for (int32_t i = 0; i < c->head_dim; i++)
            has_nan |= isnan(exact[first + i]);
        /* There is nothing that a row with a NaN must give. */
        for (int32_t i = 0; i < c->head_dim; i++) {
            got[first + i] = has_nan ? 0 : metric[first + i];
            if (has_nan)
                exact[first + i] = plain[first + i] = 0;
        }
    }
    char what[96];
    snprintf(what, sizeof what, "metric %s, %d heads of %d (%s)", rvit_dtype_name(c->dtype), c->n_heads, c->head_dim,
             s == ORACLE ? "oracle" : H.backend_name);
    if (s == ORACLE)
        check_oracle(what, RVIT_F32, got, exact, n);
    else
        check_close(what, RVIT_F32, got, exact, plain, n);
}

static rvit_match_args make_args(const match_case *c)
{
    rvit_match_args args = RVIT_MATCH_ARGS_INIT;
    args.dtype = c->dtype;
    args.n_images = c->b.n_images;
    args.max_len = c->max_len ? c->max_len : c->b.max_len;
    args.rows = c->b.rows;
    args.n_prefix = c->n_prefix;
    args.n_heads = c->n_heads;
    args.head_dim = c->head_dim;
    args.merges = c->merges;
    args.k_stride = c->k_stride;
    return args;
}

void match_check(const match_case *c, match_observer *judge)
{
    const batch *b = &c->b;
    const int64_t element = rvit_dtype_size(c->dtype), width = (int64_t)c->n_heads * c->head_dim;
    const int64_t stride = c->k_stride ? c->k_stride : width;
    array *k = array_input("k", b->rows * stride * element), *cu = array_cu(b);
    array *metric = array_output("metric", b->rows * c->head_dim * 4), *keep = array_output("keep", b->rows);
    array *out_cu = array_output("out_cu_seqlens", (b->n_images + 1) * 4), *src_rows = array_output("src_rows", b->rows * 4);
    array *next_rows = array_output("next_rows", b->rows * 4);
    for (int64_t t = 0; t < b->live; t++)
        for (int64_t i = 0; i < width; i++)
            store(c->dtype, k->host, t * stride + c->k_column + i, c->k[t * width + i]);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_match_args args = make_args(c);
        args.k = array_view(k, s);
        args.k.offset += c->k_column * element;
        args.cu_seqlens = array_view(cu, s);
        args.metric = array_view(metric, s);
        args.keep = array_view(keep, s);
        args.out_cu_seqlens = array_view(out_cu, s);
        args.src_rows = array_view(src_rows, s);
        args.next_rows = array_view(next_rows, s);
        if (!supported(s, type_feature(c->dtype), rvit_match(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        const match_result found = {.metric = (const float *)(const void *)metric->result[s],
                                    .keep = keep->result[s],
                                    .cu = (const int32_t *)(const void *)out_cu->result[s],
                                    .src_rows = (const int32_t *)(const void *)src_rows->result[s],
                                    .next_rows = (const int32_t *)(const void *)next_rows->result[s]};
        assert_int_equal(found.cu[0], 0);
        for (int32_t image = 0; image < b->n_images; image++)
            if (found.cu[image + 1] < found.cu[image] || found.cu[image + 1] > b->live)
                fail_msg("match: out_cu_seqlens[%d] is %d", image + 1, found.cu[image + 1]);
        check_metric(c, s, found.metric);
        for (int32_t image = 0; image < b->n_images; image++)
            check_layout(c, image, &found);
        array_expect_untouched(metric, s, b->live * c->head_dim * 4);
        array_expect_untouched(keep, s, b->live);
        array_expect_untouched(next_rows, s, b->live * 4);
        array_expect_untouched(src_rows, s, b->live * 4);
        judge(c, s, &found);
    }
    harness_teardown(NULL);
}
