/* Included by plain_f32.c and plain_f64.c, which define REAL (the type of the arithmetic), NAME(op), EXP, LOG, SQRT, ERF and TANH. */
#include "plain.h"

#include <stdlib.h>

static REAL activate(rvit_activation activation, REAL x)
{
    switch (activation) {
    case RVIT_ACTIVATION_NONE:
        return x;
    case RVIT_ACTIVATION_GELU:
        return (REAL)0.5 * x * ((REAL)1 + ERF(x * (REAL)0.70710678118654752440));
    case RVIT_ACTIVATION_GELU_TANH:
        return (REAL)0.5 * x * ((REAL)1 + TANH((REAL)0.79788456080286535588 * (x + (REAL)0.044715 * x * x * x)));
    case RVIT_ACTIVATION_QUICK_GELU:
        return x / ((REAL)1 + EXP((REAL)-1.702 * x));
    case RVIT_ACTIVATION_SILU:
        return x / ((REAL)1 + EXP(-x));
    }
    abort();
}

/* Adds n products to the sum with truncated terms (sum_bits). */
static double add_truncated(double sum, const float *x, const float *w, int32_t n, int32_t bits)
{
    double largest = fabs(sum), units = 0;
    for (int32_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)x[i] * w[i]));
    if (largest == 0)
        return 0;
    const double unit = ldexp(1, ilogb(largest) - bits);
    for (int32_t i = 0; i < n; i++)
        units += trunc((double)x[i] * w[i] / unit);
    return (units + trunc(sum / unit)) * unit;
}

static REAL linear_sum(const linear_problem *p, int64_t row, int64_t column)
{
    const float *x = p->x + row * p->in_features, *w = p->weight + column * p->in_features;
    REAL sum = 0;
    for (int32_t i = 0; i < p->in_features && !p->sum_bits; i++)
        sum += (REAL)x[i] * (REAL)w[i];
    for (int32_t i = 0; i < p->in_features && p->sum_bits; i += 32)
        sum = (REAL)add_truncated((double)sum, x + i, w + i, p->in_features - i < 32 ? p->in_features - i : 32, p->sum_bits);
    if (p->x_scales)
        sum *= (REAL)p->x_scales[row] * (REAL)p->weight_scales[column];
    return p->bias ? sum + (REAL)p->bias[column] : sum;
}

void NAME(linear)(const linear_problem *p, REAL *out)
{
    for (int64_t t = 0; t < p->rows; t++)
        for (int64_t o = 0; o < p->out_features; o++) {
            REAL sum = activate(p->activation, linear_sum(p, t, p->gated ? 2 * o : o));
            if (p->gated)
                sum *= linear_sum(p, t, 2 * o + 1);
            if (p->residual)
                sum += (REAL)p->residual[(p->period ? t % p->period : t) * p->out_features + o];
            out[t * p->out_features + o] = sum;
        }
}

void NAME(quantize)(const quantize_problem *p, REAL *out)
{
    const int64_t width = p->gated ? 2 * (int64_t)p->columns : p->columns;
    for (int64_t t = 0; t < p->rows; t++)
        for (int64_t o = 0; o < p->columns; o++) {
            const int64_t i = p->gated ? 2 * o : o;
            const REAL v = activate(p->activation, (REAL)p->x[t * width + i] + (p->bias ? (REAL)p->bias[i] : 0));
            out[t * p->columns + o] = p->gated ? v * ((REAL)p->x[t * width + i + 1] + (p->bias ? (REAL)p->bias[i + 1] : 0)) : v;
        }
}

static void normalise(const norm_problem *p, const float *x, int32_t dim, REAL *out)
{
    const int32_t n = p->features ? p->features : dim;
    REAL mean = 0, variance = 0;
    for (int32_t i = 0; i < n && !p->rms; i++)
        mean += (REAL)x[i];
    mean /= (REAL)n;
    for (int32_t i = 0; i < n; i++)
        variance += ((REAL)x[i] - mean) * ((REAL)x[i] - mean);
    const REAL factor = (REAL)1 / SQRT(variance / (REAL)n + (REAL)p->eps);
    for (int32_t i = 0; i < dim; i++) {
        const REAL normal =
            p->gamma && i < n ? ((REAL)x[i] - mean) * factor * (REAL)p->gamma[i] + (p->beta ? (REAL)p->beta[i] : (REAL)0) : 0;
        out[i] = p->gamma ? normal : (REAL)x[i];
    }
}

void NAME(layernorm)(const layernorm_problem *p, REAL *out)
{
    for (int64_t t = 0; t < p->rows; t++)
        normalise(&p->norm, p->x + t * p->dim, p->dim, out + t * p->dim);
}

/* Attention of one query in one head. keys are transposed, [head_dim, length]; all sums advance together, each in index order. */
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

static REAL dot(const float *a, const float *b, int32_t n)
{
    REAL sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (REAL)a[i] * (REAL)b[i];
    return sum;
}

void NAME(received)(const attention_problem *p, const float *lse, REAL *out)
{
    const int64_t width = (int64_t)p->n_heads * p->head_dim;
    for (int32_t t = 0; t < p->length; t++)
        for (int32_t h = 0; h < p->n_heads; h++) {
            REAL sum = 0;
            for (int32_t i = 0; i < p->length; i++) {
                const int64_t column = (int64_t)h * p->head_dim;
                const REAL logit = dot(p->q + i * width + column, p->k + t * width + column, p->head_dim) * (REAL)p->scale +
                                   (p->key_bias ? (REAL)p->key_bias[t] : (REAL)0);
                sum += isinf(lse[i * p->n_heads + h]) ? (REAL)0 : EXP(logit - (REAL)lse[i * p->n_heads + h]);
            }
            out[t * p->n_heads + h] = sum / (REAL)p->length;
        }
}

static REAL round_with(const attention_backward_problem *p, REAL value)
{
    return p->round ? (REAL)p->round((float)value) : value;
}

/* Adds the gradients of query t of head h. */
static void backward_of(const attention_backward_problem *p, int32_t t, int32_t h, REAL *d_q, REAL *d_k, REAL *d_v, REAL *d_key_bias)
{
    const attention_problem *f = &p->forward;
    const int32_t dim = f->head_dim, heads = f->n_heads;
    const int64_t at = ((int64_t)t * heads + h) * dim;
    REAL delta = dot(p->d_out + at, p->out + at, dim) - (p->d_lse ? (REAL)p->d_lse[t * heads + h] : (REAL)0);
    for (int32_t j = 0; t == 0 && p->d_cls_probs && j < f->length; j++)
        delta += (REAL)p->cls_probs[j * heads + h] * (REAL)p->d_cls_probs[j * heads + h];
    for (int32_t j = 0; j < f->length; j++) {
        const int64_t key = ((int64_t)j * heads + h) * dim;
        const REAL logit = dot(f->q + at, f->k + key, dim) * (REAL)f->scale + (f->key_bias ? (REAL)f->key_bias[j] : (REAL)0);
        const REAL lse = (REAL)p->lse[t * heads + h], weight = lse == -(REAL)INFINITY ? (REAL)0 : EXP(logit - lse);
        REAL product = dot(p->d_out + at, f->v + key, dim);
        if (t == 0 && p->d_cls_probs)
            product += (REAL)p->d_cls_probs[j * heads + h];
        const REAL gradient = weight * (product - delta), rounded_gradient = round_with(p, gradient),
                   rounded_weight = round_with(p, weight);
        d_key_bias[j] += gradient;
        if (p->terms)
            p->terms[j] += fabs((double)gradient);
        for (int32_t i = 0; i < dim; i++) {
            d_q[at + i] += rounded_gradient * (REAL)f->k[key + i];
            d_k[key + i] += rounded_gradient * (REAL)f->q[at + i];
            d_v[key + i] += rounded_weight * (REAL)p->d_out[at + i];
        }
    }
}

void NAME(attention_backward)(const attention_backward_problem *p, REAL *d_q, REAL *d_k, REAL *d_v, REAL *d_key_bias)
{
    const attention_problem *f = &p->forward;
    const int64_t n = (int64_t)f->length * f->n_heads * f->head_dim;
    for (int64_t i = 0; i < n; i++)
        d_q[i] = d_k[i] = d_v[i] = 0;
    for (int32_t j = 0; j < f->length; j++)
        d_key_bias[j] = 0;
    for (int32_t h = 0; h < f->n_heads; h++)
        for (int32_t t = 0; t < f->length; t++)
            backward_of(p, t, h, d_q, d_k, d_v, d_key_bias);
    for (int64_t i = 0; i < n; i++) {
        d_q[i] *= (REAL)f->scale;
        d_k[i] *= (REAL)f->scale;
    }
}

void NAME(head)(const head_problem *p, REAL *logits)
{
    REAL *row = malloc(((size_t)p->n_tokens * (size_t)p->dim + 1) * sizeof *row);
    if (!row)
        abort();
    for (int32_t i = 0; i < p->n_images; i++) {
        const int there = !p->cu || p->cu[i + 1] - p->cu[i] >= p->n_tokens;
        const int64_t begin = p->cu ? p->cu[i] : (int64_t)i * p->n_tokens;
        for (int32_t j = 0; there && j < p->n_tokens; j++)
            normalise(&p->norm, p->x + (begin + j) * p->dim, p->dim, row + (int64_t)j * p->dim);
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

void NAME(pool)(const pool_problem *p, REAL *row)
{
    REAL *normal = malloc((size_t)p->dim * sizeof *normal), total = 0;
    if (!normal)
        abort();
    for (int32_t i = 0; i < p->dim; i++)
        row[i] = 0;
    for (int32_t t = p->first; t < p->length; t++) {
        const REAL size = p->sizes ? (REAL)p->sizes[t] : (REAL)1;
        normalise(&p->norm, p->x + (int64_t)t * p->dim, p->dim, normal);
        total += size;
        for (int32_t i = 0; i < p->dim; i++)
            row[i] += size * normal[i];
    }
    for (int32_t i = 0; p->first < p->length && i < p->dim; i++)
        row[i] /= total;
    free(normal);
}

void NAME(probe)(const probe_problem *p, REAL *out, REAL *probs)
{
    REAL *z = malloc((size_t)p->dim * sizeof *z);
    if (!z)
        abort();
    for (int32_t h = 0; h < p->n_heads; h++) {
        REAL largest = 0, total = 0;
        for (int32_t t = 0; t < p->length; t++) {
            REAL *logit = &probs[t * p->n_heads + h];
            *logit = (REAL)p->logits[(int64_t)t * p->logits_stride + h] + (p->sizes ? LOG((REAL)p->sizes[t]) : (REAL)0);
            largest = t == 0 || *logit > largest ? *logit : largest;
        }
        for (int32_t t = 0; t < p->length; t++)
            total += probs[t * p->n_heads + h] = EXP(probs[t * p->n_heads + h] - largest);
        for (int32_t i = 0; i < p->dim; i++)
            z[i] = 0;
        for (int32_t t = 0; t < p->length; t++) {
            probs[t * p->n_heads + h] /= total;
            for (int32_t i = 0; i < p->dim; i++)
                z[i] += probs[t * p->n_heads + h] * (REAL)p->x[(int64_t)t * p->dim + i];
        }
        for (int32_t j = h * p->head_dim; j < (h + 1) * p->head_dim; j++) {
            out[j] = p->bias && p->length ? (REAL)p->bias[j] : (REAL)0;
            for (int32_t i = 0; i < p->dim; i++)
                out[j] += z[i] * (REAL)p->weight[(int64_t)j * p->dim + i];
        }
    }
    free(z);
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

static REAL cubic(REAL x, REAL a)
{
    x = x < 0 ? -x : x;
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static int32_t floored(REAL x)
{
    const int32_t below = (int32_t)x;
    return below > x ? below - 1 : below;
}

/* The weights [side] of one axis, for a kernel that becomes wider when the table shrinks. */
static void antialiased(int is_cubic, int32_t side, int32_t grid, int32_t i, REAL *weights)
{
    const REAL scale = (REAL)side / (REAL)grid, stretch = scale > 1 ? scale : 1, centre = scale * ((REAL)i + (REAL)0.5);
    REAL sum = 0;
    for (int32_t j = 0; j < side; j++) {
        const REAL x = ((REAL)j - centre + (REAL)0.5) / stretch, distance = x < 0 ? -x : x;
        weights[j] = is_cubic ? cubic(x, (REAL)-0.5) : distance < 1 ? 1 - distance : 0;
        sum += weights[j];
    }
    for (int32_t j = 0; j < side; j++)
        weights[j] /= sum;
}

static void tap(int32_t side, int32_t j, REAL weight, REAL *weights)
{
    weights[j < 0 ? 0 : j < side ? j : side - 1] += weight;
}

static void resample(rvit_resample how, int32_t side, int32_t grid, int32_t i, REAL *weights)
{
    for (int32_t j = 0; j < side; j++)
        weights[j] = 0;
    REAL source = ((REAL)i + (REAL)0.5) * ((REAL)side / (REAL)grid) - (REAL)0.5;
    if (side == grid || how == RVIT_RESAMPLE_NEAREST) {
        weights[(int64_t)i * side / grid] = 1;
        return;
    }
    if (how == RVIT_RESAMPLE_TIMM || how == RVIT_RESAMPLE_BILINEAR_ANTIALIAS) {
        antialiased(how == RVIT_RESAMPLE_TIMM, side, grid, i, weights);
        return;
    }
    if (how == RVIT_RESAMPLE_ALIGN_CORNERS)
        source = grid > 1 ? (REAL)i * ((REAL)(side - 1) / (REAL)(grid - 1)) : 0;
    if (how != RVIT_RESAMPLE_BICUBIC && source < 0)
        source = 0;
    const int32_t below = floored(source);
    const REAL past = source - (REAL)below;
    if (how == RVIT_RESAMPLE_BICUBIC)
        for (int32_t j = -1; j <= 2; j++)
            tap(side, below + j, cubic(past - (REAL)j, (REAL)-0.75), weights);
    else {
        tap(side, below, 1 - past, weights);
        tap(side, below + 1, past, weights);
    }
}

void NAME(embed)(const embed_problem *p, REAL *out)
{
    REAL *down = malloc((size_t)p->table_height * sizeof *down), *across = malloc((size_t)p->table_width * sizeof *across);
    resample(p->resample, p->table_height, p->height, p->y, down);
    resample(p->resample, p->table_width, p->width, p->x, across);
    for (int32_t c = 0; c < p->dim; c++) {
        REAL sum = 0;
        for (int32_t i = 0; i < p->table_height; i++) {
            REAL line = 0;
            for (int32_t j = 0; j < p->table_width; j++)
                if (across[j] != 0)
                    line += across[j] * (REAL)p->table[((int64_t)i * p->table_width + j) * p->dim + c];
            if (down[i] != 0)
                sum += down[i] * line;
        }
        out[c] = (REAL)p->patch[c] + sum;
    }
    free(down);
    free(across);
}
