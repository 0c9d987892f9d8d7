#include "selection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

typedef struct candidate {
    float score;
    int32_t index;
    uint64_t units;
} candidate;

enum { NAN_SCORE = 1, DROPPED_PREFIX = 2, CANNOT_ADD = 3 };

/* Score descending with NaN last, then index ascending. */
static int best_first(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    const int a_nan = isnan(a->score), b_nan = isnan(b->score);
    if (a_nan != b_nan)
        return a_nan - b_nan;
    if (!a_nan && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index - b->index;
}

static int worst_first(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return a->index - b->index;
}

static void keep_first(const candidate *sorted, int32_t n, uint8_t *keep)
{
    for (int32_t i = 0; i < n; i++)
        keep[sorted[i].index] = 1;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Returns the error if the scores cannot be summed, else 0. */
static int check_sum(const candidate *c, int32_t n)
{
    float largest = 0;
    int bad = 0;
    for (int32_t i = 0; i < n; i++) {
        if (isnan(c[i].score))
            return NAN_SCORE;
        bad |= isinf(c[i].score) || c[i].score < 0;
        largest = fmaxf(largest, c[i].score);
    }
    return n > 1 && (bad || largest == 0) ? CANNOT_ADD : 0;
}

/* Converts scores to units of 2^-32 times the power of two above the largest score, rounded down. The exponent is at least that of the
   smallest normal number. */
static void count_units(candidate *c, int32_t n)
{
    double largest = 0;
    for (int32_t i = 0; i < n; i++)
        largest = fmax(largest, c[i].score);
    int exponent;
    frexp(largest, &exponent);
    if (exponent < -125)
        exponent = -125;
    for (int32_t i = 0; i < n; i++)
        c[i].units = (uint64_t)floor(ldexp(c[i].score, 32 - exponent));
}

static uint64_t distance(wide a, wide b)
{
    return (uint64_t)(a > b ? a - b : b - a);
}

/* Samples and sums both ascend, so the search for a sample's rank begins at the previous rank and ends at the first sum that is not below
   the sample. */
static void sample(candidate *c, int32_t n, int32_t n_samples, uint8_t *keep)
{
    qsort(c, (size_t)n, sizeof *c, worst_first);
    uint64_t *sums = calloc((size_t)n, sizeof *sums);
    if (!sums)
        abort();
    for (int32_t r = 1; r < n; r++)
        sums[r] = sums[r - 1] + c[r].units;
    uint64_t first = 0;
    for (int32_t r = 0; r < n && first == 0; r++)
        first = sums[r];
    const uint64_t steps = n_samples > 1 ? (uint64_t)n_samples - 1 : 1;
    int32_t pick = 0;
    for (int32_t k = 0; k < n_samples; k++) {
        const wide y = (wide)first * steps + (wide)(uint32_t)k * (sums[n - 1] - first);
        for (int32_t r = pick; r < n; r++) {
            if (distance((wide)sums[r] * steps, y) < distance((wide)sums[pick] * steps, y))
                pick = r;
            if ((wide)sums[r] * steps >= y)
                break;
        }
        keep[c[pick].index] = 1;
    }
    free(sums);
}

static void mass(candidate *c, int32_t n, double part, uint8_t *keep)
{
    qsort(c, (size_t)n, sizeof *c, best_first);
    wide all = 0, sum = 0;
    for (int32_t i = 0; i < n; i++)
        all += c[i].units;
    const wide bound = all * (wide)floor(part * 0x1p32) >> 32;
    for (int32_t i = 0; i < n; i++) {
        sum += c[i].units;
        if (i > 0 && sum > bound)
            break;
        keep[c[i].index] = 1;
    }
}

static int added_up(const selection_problem *p, candidate *c, int32_t n, uint8_t *keep)
{
    const int error = check_sum(c, n);
    if (error || n < 2) {
        keep_first(c, error && n > 1 && p->mode == RVIT_SELECT_SAMPLE ? smaller(p->n_samples, n - 1) : n, keep);
        return error;
    }
    count_units(c, n);
    if (p->mode == RVIT_SELECT_SAMPLE)
        sample(c, n, p->n_samples, keep);
    else
        mass(c, n, p->mass, keep);
    return 0;
}

static int scored(const selection_problem *p, candidate *c, int32_t n, uint8_t *keep)
{
    if (p->mode == RVIT_SELECT_SAMPLE || p->mode == RVIT_SELECT_MASS)
        return added_up(p, c, n, keep);
    int32_t k = 0, error = 0;
    for (int32_t i = 0; i < n; i++) {
        error |= isnan(c[i].score) != 0;
        k += c[i].score >= p->threshold;
    }
    if (p->mode == RVIT_SELECT_THRESHOLD && k < p->k_min)
        k = smaller(p->k_min, n);
    if (p->mode == RVIT_SELECT_TOP_K)
        k = p->counts[n] < 0 ? 0 : smaller(p->counts[n], n);
    qsort(c, (size_t)n, sizeof *c, best_first);
    keep_first(c, k, keep);
    return error ? NAN_SCORE : 0;
}

/* keep and the scores are of one image. */
static int one_image(const selection_problem *p, int32_t begin, int32_t length, uint8_t *keep)
{
    const int32_t prefix = smaller(p->n_prefix, length);
    const int32_t first = p->mode == RVIT_SELECT_TOP_K && p->prefix_competes ? 0 : prefix, n = length - first;
    int error = 0;
    if (p->mode == RVIT_SELECT_MASK) {
        for (int32_t i = 0; i < length; i++) {
            keep[i] = p->keep_in[begin + i] != 0;
            if (i < prefix && !keep[i])
                error = DROPPED_PREFIX;
        }
    } else {
        candidate *c = calloc((size_t)n + 1, sizeof *c);
        if (!c)
            abort();
        for (int32_t i = 0; i < n; i++) {
            c[i].score = p->scores[begin + first + i];
            c[i].index = first + i;
        }
        error = scored(p, c, n, keep);
        free(c);
    }
    for (int32_t i = 0; i < prefix; i++)
        keep[i] = 1;
    return error;
}

void select_plainly(const selection_problem *p, selection *out)
{
    int32_t n_kept = 0;
    out->error = 0;
    out->cu[0] = 0;
    memset(out->keep, 0, (size_t)p->cu[p->n_images]);
    for (int32_t image = 0; image < p->n_images; image++) {
        const int32_t begin = p->cu[image], length = p->cu[image + 1] - begin;
        const int error = one_image(p, begin, length, out->keep + begin);
        out->image_errors[image] = error;
        if (error && out->error == 0)
            out->error = error + 3 * image;
        int32_t dropped = -1;
        for (int32_t i = begin; i < begin + length; i++) {
            if (out->keep[i])
                out->src_rows[n_kept++] = i;
            else if (dropped < 0)
                dropped = i;
        }
        if (p->fused && dropped >= 0)
            out->src_rows[n_kept++] = dropped;
        out->cu[image + 1] = n_kept;
    }
}
