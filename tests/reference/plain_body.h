/* Included by plain_f32.c and plain_f64.c, which define REAL (the arithmetic's type), NAME(op), and EXP, LOG, SQRT, ERF. */
#include "plain.h"

#include <stdlib.h>

void NAME(linear)(const linear_problem *p, REAL *out)
{
    for (int64_t t = 0; t < p->rows; t++)
        for (int32_t o = 0; o < p->out_features; o++) {
            const float *x = p->x + t * p->in_features, *w = p->weight + (int64_t)o * p->in_features;
            REAL sum = 0;
            for (int32_t i = 0; i < p->in_features; i++)
                sum += (REAL)x[i] * (REAL)w[i];
            if (p->bias)
                sum += (REAL)p->bias[o];
            if (p->gelu)
                sum = (REAL)0.5 * sum * ((REAL)1 + ERF(sum * (REAL)0.70710678118654752440));
            if (p->residual)
                sum += (REAL)p->residual[(p->period ? t % p->period : t) * p->out_features + o];
            out[t * p->out_features + o] = sum;
        }
}

static void normalise(const float *x, int32_t dim, float eps, const float *gamma, const float *beta, REAL *out)
{
    REAL mean = 0, variance = 0;
    for (int32_t i = 0; i < dim; i++)
        mean += (REAL)x[i];
    mean /= (REAL)dim;
    for (int32_t i = 0; i < dim; i++)
        variance += ((REAL)x[i] - mean) * ((REAL)x[i] - mean);
    const REAL factor = (REAL)1 / SQRT(variance / (REAL)dim + (REAL)eps);
    for (int32_t i = 0; i < dim; i++)
        out[i] = ((REAL)x[i] - mean) * factor * (REAL)gamma[i] + (REAL)beta[i];
}

void NAME(layernorm)(const layernorm_problem *p, REAL *out)
{
    for (int64_t t = 0; t < p->rows; t++)
        normalise(p->x + t * p->dim, p->dim, p->eps, p->gamma, p->beta, out + t * p->dim);
}

/* One query against one head. keys lie transposed, [head_dim, length], and sums go on side by side: each still adds in index order. */
static void attend(const attention_problem *p, const float *q, const float *keys, const float *v, REAL *logits, REAL *out, REAL *out_lse)
{
    const int32_t n = p->length, dim = p->head_dim;
    REAL largest = 0, sum = 0;
    for (int32_t j = 0; j < n; j++)
        logits[j] = 0;
    for (int32_t i = 0; i < dim; i++)
        for (int32_t j = 0; j < n; j++)
            logits[j] += (REAL)q[i] * (REAL)keys[(int64_t)i * n + j];
    for (int32_t j = 0; j < n; j++) {
        logits[j] = logits[j] * (REAL)p->scale + (p->key_bias ? (REAL)p->key_bias[j] : (REAL)0);
        if (j == 0 || logits[j] > largest)
            largest = logits[j];
    }
    for (int32_t j = 0; j < n; j++) {
        logits[j] = EXP(logits[j] - largest);
        sum += logits[j];
    }
    for (int32_t i = 0; i < dim; i++)
        out[i] = 0;
    for (int32_t j = 0; j < n; j++)
        for (int32_t i = 0; i < dim; i++)
            out[i] += logits[j] * (REAL)v[(int64_t)j * p->n_heads * dim + i];
    for (int32_t i = 0; i < dim; i++)
        out[i] /= sum;
    for (int32_t j = 0; j < n; j++)
        logits[j] /= sum;
    *out_lse = largest + LOG(sum);
}

void NAME(attention)(const attention_problem *p, REAL *out, REAL *cls, REAL *lse)
{
    const int32_t width = p->n_heads * p->head_dim;
    REAL *logits = malloc(((size_t)p->length + 1) * sizeof *logits);
    float *keys = malloc(((size_t)p->length * (size_t)p->head_dim + 1) * sizeof *keys);
    if (!logits || !keys)
        abort();
    for (int32_t h = 0; h < p->n_heads; h++) {
        const int32_t column = h * p->head_dim;
        for (int32_t i = 0; i < p->head_dim; i++)
            for (int32_t j = 0; j < p->length; j++)
                keys[(int64_t)i * p->length + j] = p->k[(int64_t)j * width + column + i];
        for (int32_t t = 0; t < p->length; t++) {
            const int64_t at = (int64_t)t * width + column;
            attend(p, p->q + at, keys, p->v + column, logits, out + at, &lse[t * p->n_heads + h]);
            for (int32_t j = 0; t == 0 && j < p->length; j++)
                cls[j * p->n_heads + h] = logits[j];
        }
    }
    free(keys);
    free(logits);
}

void NAME(head)(const head_problem *p, REAL *logits)
{
    REAL *row = malloc(((size_t)p->n_tokens * (size_t)p->dim + 1) * sizeof *row);
    if (!row)
        abort();
    for (int32_t i = 0; i < p->n_images; i++) {
        const int there = p->cu[i + 1] - p->cu[i] >= p->n_tokens;
        for (int32_t j = 0; there && j < p->n_tokens; j++)
            normalise(p->x + ((int64_t)p->cu[i] + j) * p->dim, p->dim, p->eps, p->gamma, p->beta, row + (int64_t)j * p->dim);
        for (int32_t c = 0; c < p->n_classes; c++) {
            const float *w = p->weight + (int64_t)c * p->n_tokens * p->dim;
            REAL sum = 0;
            for (int32_t k = 0; there && k < p->n_tokens * p->dim; k++)
                sum += row[k] * (REAL)w[k];
            logits[(int64_t)i * p->n_classes + c] = there && p->bias ? sum + (REAL)p->bias[c] : sum;
        }
    }
    free(row);
}

void NAME(predictor)(const predictor_problem *p, REAL *scores)
{
    for (int64_t t = 0; t < p->rows; t++) {
        REAL o[2];
        for (int c = 0; c < 2; c++) {
            REAL sum = 0;
            for (int32_t i = 0; i < p->dim; i++)
                sum += (REAL)p->x[t * p->dim + i] * (REAL)p->weight[c * p->dim + i];
            o[c] = sum + (REAL)p->bias[c];
        }
        const REAL largest = o[0] > o[1] ? o[0] : o[1];
        scores[t] = o[0] - largest - LOG(EXP(o[0] - largest) + EXP(o[1] - largest));
    }
}

void NAME(fuse)(const fuse_problem *p, REAL *row)
{
    for (int32_t i = 0; i < p->dim; i++) {
        row[i] = 0;
        for (int32_t t = 0; t < p->length; t++)
            if (!p->keep[t])
                row[i] += (REAL)p->scores[t] * (REAL)p->x[(int64_t)t * p->dim + i];
    }
}

void NAME(mean)(const mean_problem *p, REAL *row)
{
    for (int32_t i = 0; i < p->dim; i++) {
        row[i] = 0;
        for (int32_t t = p->first; t < p->length; t++)
            row[i] += (REAL)p->x[(int64_t)t * p->dim + i];
        if (p->first < p->length)
            row[i] /= (REAL)(p->length - p->first);
    }
}

void NAME(metric)(const metric_problem *p, REAL *metric)
{
    for (int64_t t = 0; t < p->rows; t++) {
        REAL *m = metric + t * p->head_dim, square = 0;
        for (int32_t i = 0; i < p->head_dim; i++) {
            m[i] = 0;
            for (int32_t h = 0; h < p->n_heads; h++)
                m[i] += (REAL)p->k[(t * p->n_heads + h) * p->head_dim + i];
            square += m[i] * m[i];
        }
        for (int32_t i = 0; square > 0 && i < p->head_dim; i++)
            m[i] /= SQRT(square);
    }
}

void NAME(merge)(const merge_problem *p, REAL *row, REAL *size, REAL *key_bias)
{
    REAL total = 0;
    for (int32_t j = 0; j < p->n; j++)
        total += p->sizes ? (REAL)p->sizes[p->list[j]] : (REAL)1;
    for (int32_t i = 0; i < p->dim; i++) {
        REAL sum = 0;
        for (int32_t j = 0; j < p->n; j++)
            sum += (REAL)p->x[(int64_t)p->list[j] * p->dim + i] * (p->sizes ? (REAL)p->sizes[p->list[j]] : (REAL)1);
        row[i] = sum / total;
    }
    *size = total;
    *key_bias = LOG(total);
}
