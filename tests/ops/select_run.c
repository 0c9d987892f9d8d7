#include "select_run.h"

#include <math.h>

typedef struct candidate {
    float score;
    int32_t index;
} candidate;

/* Score descending with NaN last, then index ascending. */
static int compare(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    const int a_nan = isnan(a->score), b_nan = isnan(b->score);
    if (a_nan != b_nan)
        return a_nan - b_nan;
    if (!a_nan && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index - b->index;
}

static void top_k(const select_case *c, int32_t begin, int32_t length, uint8_t *keep)
{
    const int32_t first = c->prefix_competes || length < c->n_prefix ? 0 : c->n_prefix;
    const int32_t n = c->prefix_competes ? length : length > c->n_prefix ? length - c->n_prefix : 0;
    int32_t k = c->counts[n];
    k = k < 0 ? 0 : k > n ? n : k;
    candidate *candidates = scratch((size_t)(n + 1) * sizeof *candidates);
    for (int32_t i = 0; i < n; i++) {
        candidates[i].score = c->scores[begin + first + i];
        candidates[i].index = first + i;
    }
    qsort(candidates, (size_t)n, sizeof *candidates, compare);
    for (int32_t i = 0; i < k; i++)
        keep[begin + candidates[i].index] = 1;
}

/* Only rows that are ranked or compared count: a prefix row that does not compete may hold anything. */
static int32_t image_error(const select_case *c, int32_t image)
{
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin;
    const int32_t first = c->mode == RVIT_SELECT_TOP_K && c->prefix_competes ? 0 : c->n_prefix;
    if (c->mode == RVIT_SELECT_MASK) {
        for (int32_t i = 0; i < length && i < c->n_prefix; i++)
            if (!c->keep_in[begin + i])
                return 2 + 2 * image;
        return 0;
    }
    for (int32_t i = first; i < length; i++)
        if (isnan(c->scores[begin + i]))
            return 1 + 2 * image;
    return 0;
}

select_result select_by_sorting(const select_case *c)
{
    const batch *b = &c->b;
    select_result r = {scratch((size_t)b->live), scratch((size_t)(b->n_images + 1) * 4), scratch((size_t)b->live * 4), 0};
    int32_t n_kept = 0;
    for (int32_t image = 0; image < b->n_images; image++) {
        const int32_t begin = b->cu[image], length = b->cu[image + 1] - begin;
        if (c->mode == RVIT_SELECT_TOP_K)
            top_k(c, begin, length, r.keep);
        for (int32_t i = 0; i < length; i++) {
            if (c->mode == RVIT_SELECT_THRESHOLD)
                r.keep[begin + i] = c->scores[begin + i] >= c->threshold;
            if (c->mode == RVIT_SELECT_MASK)
                r.keep[begin + i] = c->keep_in[begin + i] != 0;
            if (i < c->n_prefix)
                r.keep[begin + i] = 1;
            if (r.keep[begin + i])
                r.src_rows[n_kept++] = begin + i;
        }
        r.cu[image + 1] = n_kept;
        if (r.error == 0)
            r.error = image_error(c, image);
    }
    return r;
}

static void expect_same(const char *what, const void *got, const void *wanted, int64_t n, int64_t element, side s)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp((const uint8_t *)got + i * element, (const uint8_t *)wanted + i * element, (size_t)element)) {
            int32_t g = 0, w = 0;
            memcpy(&g, (const uint8_t *)got + i * element, (size_t)element);
            memcpy(&w, (const uint8_t *)wanted + i * element, (size_t)element);
            fail_msg("select: %s[%lld] of %lld is %d, should be %d (%s)", what, (long long)i, (long long)n, g, w,
                     s == ORACLE ? "oracle" : H.backend_name);
        }
}

void select_check(const select_case *c)
{
    const batch *b = &c->b;
    const int32_t max_len = c->max_len ? c->max_len : b->max_len;
    array *counts = c->mode == RVIT_SELECT_TOP_K ? array_input("counts", (max_len + 1) * 4) : NULL;
    array *scores = c->mode == RVIT_SELECT_MASK ? NULL : array_input("scores", b->rows * 4);
    array *keep_in = c->mode == RVIT_SELECT_MASK ? array_input("keep_in", b->rows) : NULL;
    array *cu = array_cu(b), *keep = array_output("keep", b->rows), *src_rows = array_output("src_rows", b->rows * 4);
    array *out_cu = array_output("out_cu_seqlens", (b->n_images + 1) * 4), *error = c->no_error_view ? NULL : array_output("error", 4);
    if (counts)
        memcpy(counts->host, c->counts, (size_t)(max_len + 1) * 4);
    if (scores && b->live)
        memcpy(scores->host, c->scores, (size_t)b->live * 4);
    if (keep_in && b->live)
        memcpy(keep_in->host, c->keep_in, (size_t)b->live);
    arrays_upload();
    const select_result wanted = select_by_sorting(c);
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_select_args args = RVIT_SELECT_ARGS_INIT;
        args.mode = c->mode;
        args.n_images = b->n_images;
        args.max_len = max_len;
        args.rows = b->rows;
        args.n_prefix = c->n_prefix;
        args.prefix_competes = c->prefix_competes;
        args.threshold = c->threshold;
        args.counts = array_view(counts, s);
        args.scores = array_view(scores, s);
        args.keep_in = array_view(keep_in, s);
        args.cu_seqlens = array_view(cu, s);
        args.keep = array_view(keep, s);
        args.out_cu_seqlens = array_view(out_cu, s);
        args.src_rows = array_view(src_rows, s);
        args.error = array_view(error, s);
        expect_ok(rvit_select(H.stream[s], &args));
        arrays_fetch(s);
        expect_same("out_cu_seqlens", out_cu->result[s], wanted.cu, b->n_images + 1, 4, s);
        expect_same("keep", keep->result[s], wanted.keep, b->live, 1, s);
        expect_same("src_rows", src_rows->result[s], wanted.src_rows, wanted.cu[b->n_images], 4, s);
        if (error)
            expect_same("error", error->result[s], &wanted.error, 1, 4, s);
        array_expect_untouched(keep, s, b->live);
        array_expect_untouched(src_rows, s, (int64_t)wanted.cu[b->n_images] * 4);
    }
    harness_teardown(NULL);
}
