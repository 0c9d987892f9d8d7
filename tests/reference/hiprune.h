/* HiPrune's choice among the patches of an image, in float64: anchors in the object block, the patches around them, then the best others in
   the second to last block. */
#ifndef RVIT_TESTS_REFERENCE_HIPRUNE_H
#define RVIT_TESTS_REFERENCE_HIPRUNE_H

#include <math.h>
#include <stdint.h>

typedef struct hiprune_problem {
    int32_t n, columns; /* patches; columns of their grid */
    double keep, alpha;
    const double *object, *last; /* [n]: the attention received in the two blocks */
} hiprune_problem;

/* Takes the k best patches that are not taken yet; the lower index wins a tie. Returns the relative margin of the choice. */
static inline double take_best(const double *scores, int32_t n, int32_t k, uint8_t *taken)
{
    double least = INFINITY, next = -1;
    for (int32_t j = 0; j < k; j++) {
        int32_t best = -1;
        for (int32_t i = 0; i < n; i++)
            if (!taken[i] && (best < 0 || scores[i] > scores[best]))
                best = i;
        taken[best] = 1;
        least = scores[best];
    }
    for (int32_t i = 0; i < n; i++)
        if (!taken[i] && scores[i] > next)
            next = scores[i];
    return k > 0 && next >= 0 ? (least - next) / least : INFINITY;
}

/* Marks the kept patches in taken [n] and the anchors in anchors [n]; the caller zeroes both. Returns the smallest margin. */
static inline double hiprune_plainly(const hiprune_problem *p, uint8_t *anchors, uint8_t *taken)
{
    int32_t tokens = (int32_t)trunc(p->n * p->keep), n_taken = 0;
    tokens = tokens < 1 ? 1 : tokens;
    const double part = tokens * p->alpha / 5;
    int32_t n_anchors = (int32_t)floor(part + 0.5);
    n_anchors -= part + 0.5 == n_anchors && n_anchors % 2 == 1;
    n_anchors = n_anchors < tokens / 5 ? n_anchors : tokens / 5;
    const double margin = take_best(p->object, p->n, n_anchors, anchors);
    for (int32_t i = 0; i < p->n; i++) {
        const int64_t around[] = {i, (int64_t)i - 1, (int64_t)i + 1, (int64_t)i - p->columns, (int64_t)i + p->columns};
        for (int j = 0; anchors[i] && j < 5; j++)
            taken[around[j] < 0 ? 0 : around[j] >= p->n ? p->n - 1 : around[j]] = 1;
    }
    for (int32_t i = 0; i < p->n; i++)
        n_taken += taken[i];
    return fmin(margin, take_best(p->last, p->n, tokens - n_taken, taken));
}

#endif
