#include "bipartite_match_run.h"

#include <math.h>

#include "reference/plain.h"

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t unit_of(const match_case *c)
{
    return c->unit == 0 ? 1 : c->unit;
}

int32_t match_units(const match_case *c, int32_t image)
{
    return (c->b.cu[image + 1] - c->b.cu[image]) / unit_of(c);
}

static int32_t window_of(const match_case *c, int32_t image, int32_t unit)
{
    const int32_t row = c->b.cu[image] + unit * unit_of(c);
    int32_t window = 0, past = c->n_windows;
    while (window + 1 < past) {
        const int32_t middle = (window + past) / 2;
        *(c->windows[middle] <= row ? &window : &past) = middle;
    }
    return window;
}

int match_allows(const match_case *c, int32_t image, int32_t a, int32_t b)
{
    if (a < c->n_prefix || b < c->n_prefix || a % 2 != 0 || b % 2 != 1)
        return 0;
    return c->windows == NULL || window_of(c, image, a) == window_of(c, image, b);
}

int32_t match_merges(const match_case *c, int32_t image)
{
    const int32_t n = match_units(c, image), prefix = smaller(c->n_prefix, n);
    int32_t with_partner = 0;
    /* If it has a partner, one of its neighbours is one. */
    for (int32_t a = prefix; a < n; a++)
        with_partner += (a > 0 && match_allows(c, image, a, a - 1)) || (a + 1 < n && match_allows(c, image, a, a + 1));
    return smaller(smaller(c->merges, (n - prefix) / 2), with_partner);
}

int32_t *match_targets(const match_case *c, int32_t image, const match_result *found)
{
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin, unit = unit_of(c), n = length / unit;
    int32_t *targets = scratch((size_t)(length + 1) * 4);
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
    /* Row j of a unit goes where its first goes, into row j. */
    for (int32_t i = 0; i < length; i++) {
        const int32_t first = i / unit * unit, wanted = targets[first] < 0 || i >= n * unit ? -1 : targets[first] + i % unit;
        if (targets[i] != wanted || (targets[first] >= 0 && targets[first] % unit != 0))
            fail_msg("match: row %d of image %d goes to row %d, the first of its unit to %d", i, image, targets[i], targets[first]);
    }
    for (int32_t k = 0; k < n; k++)
        targets[k] = targets[k * unit] < 0 ? -1 : targets[k * unit] / unit;
    return targets;
}

/* Prefix, unmerged units of A, units of B, or with units of several rows all in their order; a merged unit in the list of one of B, each
   list ascending. */
static void check_layout(const match_case *c, int32_t image, const match_result *found)
{
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin, unit = unit_of(c), n = length / unit;
    const int32_t prefix = smaller(c->n_prefix, n), n_merged = match_merges(c, image);
    const int32_t *targets = match_targets(c, image, found);
    int32_t at = found->cu[image], merged = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int32_t i = 0; i < length; i++) {
            const int32_t k = i / unit, target = k < n ? targets[k] : -1, which = unit > 1 || k < prefix ? 0 : k % 2 ? 2 : 1;
            if (which != pass)
                continue;
            if (found->keep[begin + i] > 1 || (found->keep[begin + i] == 0) != (target >= 0))
                fail_msg("match: keep of row %d of image %d is %d, its target %d", i, image, found->keep[begin + i], target);
            if (target >= 0) {
                if (!match_allows(c, image, k, target))
                    fail_msg("match: unit %d of image %d may not be merged into unit %d", k, image, target);
                merged += i % unit == 0;
            } else if (at >= found->cu[image + 1] || found->src_rows[at++] != begin + i)
                fail_msg("match: image %d: row %d is not where it belongs in src_rows", image, i);
        }
    if (merged != n_merged || at != found->cu[image + 1] || at - found->cu[image] != length - unit * n_merged)
        fail_msg("match: image %d of %d rows: %d merged, should be %d; %d rows after", image, length, merged, n_merged,
                 found->cu[image + 1] - found->cu[image]);
    for (int32_t k = 0; k < n; k++) {
        int32_t wanted = -1;
        const int32_t target = targets[k] >= 0 ? targets[k] : k;
        for (int32_t j = n - 1; j >= 0; j--)
            if (targets[j] == target && (j > k || target == k))
                wanted = j;
        for (int32_t i = k * unit; i < (k + 1) * unit; i++)
            if (found->next_rows[begin + i] != (wanted < 0 ? -1 : begin + wanted * unit + i % unit))
                fail_msg("match: next_rows of row %d of image %d is %d, should be of unit %d", i, image, found->next_rows[begin + i],
                         wanted);
    }
    for (int32_t i = n * unit; i < length; i++)
        if (found->next_rows[begin + i] != -1)
            fail_msg("match: next_rows of row %d of image %d, behind the last unit, is %d", i, image, found->next_rows[begin + i]);
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
    snprintf(what, sizeof what, "metric %s, %d heads of %d (%s)", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), c->n_heads, c->head_dim,
             s == ORACLE ? "oracle" : H.backend_name);
    if (s == ORACLE)
        check_oracle(what, RVIT_F32, got, exact, n);
    else
        check_close(what, RVIT_F32, got, exact, plain, n);
}

static rvit_bipartite_match_args make_args(const match_case *c)
{
    rvit_bipartite_match_args args = RVIT_BIPARTITE_MATCH_ARGS_INIT;
    args.dtype = c->dtype;
    args.n_images = c->b.n_images;
    args.max_len = c->max_len ? c->max_len : c->b.max_len;
    args.rows = c->b.rows;
    args.n_prefix = c->n_prefix;
    args.n_heads = c->n_heads;
    args.head_dim = c->head_dim;
    args.merges = c->merges;
    args.k_stride = c->k_stride;
    args.group_size = c->unit;
    args.n_windows = c->n_windows;
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
    array *windows = c->windows == NULL ? NULL : array_input("window_cu_seqlens", 4 * (c->n_windows + (int64_t)1));
    if (windows != NULL)
        memcpy(windows->host, c->windows, 4 * ((size_t)c->n_windows + 1));
    for (int64_t t = 0; t < b->live; t++)
        for (int64_t i = 0; i < width; i++)
            store(c->dtype, k->host, t * stride + c->k_column + i, c->k[t * width + i]);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_bipartite_match_args args = make_args(c);
        args.k = array_view(k, s);
        args.k.offset += c->k_column * element;
        args.cu_seqlens = array_view(cu, s);
        if (windows != NULL)
            args.window_cu_seqlens = array_view(windows, s);
        args.metric = array_view(metric, s);
        args.keep = array_view(keep, s);
        args.out_cu_seqlens = array_view(out_cu, s);
        args.src_rows = array_view(src_rows, s);
        args.next_rows = array_view(next_rows, s);
        if (!supported(s, type_feature(c->dtype), rvit_bipartite_match(H.stream[s], &args)))
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
