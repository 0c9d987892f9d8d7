#include "rank.h"

#include <math.h>
#include <stdbool.h>

static bool is_better(float a, float b)
{
    return a > b || (isnan(b) && !isnan(a));
}

void rank_classes(const float *logits, int32_t n_classes, int32_t n, int32_t *out)
{
    int32_t n_out = 0;
    for (int32_t c = 0; c < n_classes; c++) {
        if (n_out == n && !is_better(logits[c], logits[out[n - 1]]))
            continue;
        int32_t rank = n_out < n ? n_out++ : n - 1;
        for (; rank > 0 && is_better(logits[c], logits[out[rank - 1]]); rank--)
            out[rank] = out[rank - 1];
        out[rank] = c;
    }
}

void rank_scores(const float *logits, int32_t n_classes, const int32_t *classes, int32_t n, double *out)
{
    double largest = -INFINITY, sum = 0;
    for (int32_t c = 0; c < n_classes; c++)
        largest = logits[c] > largest ? (double)logits[c] : largest;
    for (int32_t c = 0; c < n_classes; c++)
        sum += exp((double)logits[c] - largest);
    for (int32_t i = 0; i < n; i++)
        out[i] = exp((double)logits[classes[i]] - largest) / sum;
}
