#include "toy.h"

#include <math.h>

static const float *add(toy *m, const char *name, int rank, int64_t a, int64_t b, int64_t c, int64_t d, float scale, float offset)
{
    toy_tensor *t = &m->tensors[m->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    const int64_t shape[4] = {a, b, c, d};
    t->rank = rank;
    t->n = 1;
    for (int i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        t->n *= shape[i];
    }
    t->values = scratch((size_t)t->n * sizeof(float));
    for (int64_t i = 0; i < t->n; i++)
        t->values[i] = rounded(m->spec.stored, offset + scale * random_normal());
    return t->values;
}

static const float *add_block(toy *m, int block, const char *name, int rank, int64_t a, int64_t b, float scale, float offset)
{
    char full[48];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    return add(m, full, rank, a, b, 0, 0, scale, offset);
}

static void add_predictor(toy *m, int index, const char *layer, int64_t out, int64_t in, float scale)
{
    char full[48];
    snprintf(full, sizeof full, "score_predictor.%d.%s.weight", index, layer);
    add(m, full, in > 0 ? 2 : 1, out, in, 0, 0, scale, in > 0 ? 0 : 1);
    snprintf(full, sizeof full, "score_predictor.%d.%s.bias", index, layer);
    add(m, full, 1, out, 0, 0, 0, 0.2f, 0);
}

static void add_predictors(toy *m)
{
    const int64_t d = m->spec.dim;
    for (int i = 0; i < m->spec.n_predictors; i++) {
        add_predictor(m, i, "in_conv.0", d, 0, 0.2f);
        add_predictor(m, i, "in_conv.1", d, d, 1.5f / sqrtf((float)d));
        add_predictor(m, i, "out_conv.0", d / 2, d, 1.5f / sqrtf((float)d));
        add_predictor(m, i, "out_conv.2", d / 4, d / 2, 1.5f / sqrtf((float)d / 2));
        add_predictor(m, i, "out_conv.4", 2, d / 4, 1.5f / sqrtf((float)d / 4));
    }
}

static void add_map(toy *m)
{
    const int64_t d = m->spec.dim, mlp = m->spec.mlp;
    const float in_d = 1 / sqrtf((float)d);
    toy_map *w = &m->map;
    w->latent = add(m, "attn_pool.latent", 3, 1, 1, d, 0, 1, 0);
    w->q_w = add(m, "attn_pool.q.weight", 2, d, d, 0, 0, 1.3f * in_d, 0);
    w->q_b = add(m, "attn_pool.q.bias", 1, d, 0, 0, 0, 0.2f, 0);
    w->kv_w = add(m, "attn_pool.kv.weight", 2, 2 * d, d, 0, 0, 1.3f * in_d, 0);
    w->kv_b = add(m, "attn_pool.kv.bias", 1, 2 * d, 0, 0, 0, 0.2f, 0);
    w->proj_w = add(m, "attn_pool.proj.weight", 2, d, d, 0, 0, in_d, 0);
    w->proj_b = add(m, "attn_pool.proj.bias", 1, d, 0, 0, 0, 0.1f, 0);
    w->norm_w = add(m, "attn_pool.norm.weight", 1, d, 0, 0, 0, 0.2f, 1);
    w->norm_b = add(m, "attn_pool.norm.bias", 1, d, 0, 0, 0, 0.2f, 0);
    w->fc1_w = add(m, "attn_pool.mlp.fc1.weight", 2, mlp, d, 0, 0, in_d, 0);
    w->fc1_b = add(m, "attn_pool.mlp.fc1.bias", 1, mlp, 0, 0, 0, 0.2f, 0);
    w->fc2_w = add(m, "attn_pool.mlp.fc2.weight", 2, d, mlp, 0, 0, 1 / sqrtf((float)mlp), 0);
    w->fc2_b = add(m, "attn_pool.mlp.fc2.bias", 1, d, 0, 0, 0, 0.1f, 0);
}

const toy *toy_new(const toy_spec *spec)
{
    toy *m = scratch(sizeof *m);
    m->spec = *spec;
    const int32_t d = spec->dim, grid = spec->image_size / spec->patch_size, area = spec->patch_size * spec->patch_size;
    m->n_heads = d / 64;
    m->n_prefix = !spec->no_cls + spec->distilled + spec->n_registers;
    m->tokens = m->n_prefix + grid * grid;
    m->pixels = 3 * spec->image_size * spec->image_size;
    random_seed(spec->seed * 2654435761u + 99);
    const float in_d = 1 / sqrtf((float)d), in_mlp = 1 / sqrtf((float)spec->mlp), in_patch = 1 / sqrtf(3.0f * (float)area);
    if (!spec->no_cls)
        m->cls = add(m, "cls_token", 3, 1, 1, d, 0, 0.5f, 0);
    if (spec->distilled)
        m->dist = add(m, "dist_token", 3, 1, 1, d, 0, 0.5f, 0);
    if (spec->n_registers > 0)
        m->registers = add(m, "reg_token", 3, 1, spec->n_registers, d, 0, 0.5f, 0);
    m->pos = add(m, "pos_embed", 3, 1, m->tokens, d, 0, 0.3f, 0);
    m->patch_w = add(m, "patch_embed.proj.weight", 4, d, 3, spec->patch_size, spec->patch_size, in_patch, 0);
    m->patch_b = add(m, "patch_embed.proj.bias", 1, d, 0, 0, 0, 0.1f, 0);
    for (int i = 0; i < spec->depth; i++) {
        toy_block *b = &m->blocks[i];
        b->norm1_w = add_block(m, i, "norm1.weight", 1, d, 0, 0.2f, 1);
        b->norm1_b = add_block(m, i, "norm1.bias", 1, d, 0, 0.2f, 0);
        b->qkv_w = add_block(m, i, "attn.qkv.weight", 2, 3 * d, d, 1.3f * in_d, 0);
        b->qkv_b = add_block(m, i, "attn.qkv.bias", 1, 3 * d, 0, 0.2f, 0);
        b->proj_w = add_block(m, i, "attn.proj.weight", 2, d, d, in_d, 0);
        b->proj_b = add_block(m, i, "attn.proj.bias", 1, d, 0, 0.1f, 0);
        b->norm2_w = add_block(m, i, "norm2.weight", 1, d, 0, 0.2f, 1);
        b->norm2_b = add_block(m, i, "norm2.bias", 1, d, 0, 0.2f, 0);
        b->fc1_w = add_block(m, i, "mlp.fc1.weight", 2, spec->mlp, d, in_d, 0);
        b->fc1_b = add_block(m, i, "mlp.fc1.bias", 1, spec->mlp, 0, 0.2f, 0);
        b->fc2_w = add_block(m, i, "mlp.fc2.weight", 2, d, spec->mlp, in_mlp, 0);
        b->fc2_b = add_block(m, i, "mlp.fc2.bias", 1, d, 0, 0.1f, 0);
    }
    m->norm_w = add(m, "norm.weight", 1, d, 0, 0, 0, 0.2f, 1);
    m->norm_b = add(m, "norm.bias", 1, d, 0, 0, 0, 0.2f, 0);
    m->head_w = add(m, "head.weight", 2, spec->n_classes, d, 0, 0, in_d, 0);
    m->head_b = add(m, "head.bias", 1, spec->n_classes, 0, 0, 0, 0.1f, 0);
    if (spec->distilled) {
        m->head_dist_w = add(m, "head_dist.weight", 2, spec->n_classes, d, 0, 0, in_d, 0);
        m->head_dist_b = add(m, "head_dist.bias", 1, spec->n_classes, 0, 0, 0, 0.1f, 0);
    }
    add_predictors(m);
    if (spec->pool == TOY_MAP)
        add_map(m);
    return m;
}

const char *toy_write(const toy *m, const char *file_name)
{
    const char *path = temporary_path(file_name);
    const int64_t element = rvit_dtype_size(m->spec.stored);
    const size_t capacity = (size_t)m->n_tensors * 160 + 400;
    static const char *const pools[] = {[TOY_CLS] = "token", [TOY_MEAN] = "avg", [TOY_MAP] = "map"};
    char *header = scratch(capacity);
    int64_t offset = 0;
    size_t used =
        (size_t)snprintf(header, capacity,
                         "{\"__metadata__\":{\"config\":\"{\\\"architecture\\\":\\\"%s\\\",\\\"model_args\\\":{\\\"num_heads\\\":%d,"
                         "\\\"embed_dim\\\":%d,\\\"init_values\\\":null,\\\"depth\\\":%d,\\\"patch_size\\\":%d,\\\"reg_tokens\\\":%d,"
                         "\\\"global_pool\\\":\\\"%s\\\","
                         "\\\"class_token\\\":%s,\\\"pool_include_prefix\\\":%s}}\"}",
                         m->spec.rotary ? "vit_small_patch16_rope_ape_224" : "vit", (int)m->n_heads, (int)m->spec.dim, (int)m->spec.depth,
                         (int)m->spec.patch_size, (int)m->spec.n_registers, pools[m->spec.pool], m->spec.no_cls ? "false" : "true",
                         m->spec.pool == TOY_MAP ? "true" : "false");
    for (int i = 0; i < m->n_tensors; i++) {
        const toy_tensor *t = &m->tensors[i];
        static const char *const dtypes[] = {"F32", "F16", "BF16"};
        used += (size_t)snprintf(header + used, capacity - used, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, dtypes[m->spec.stored]);
        for (int r = 0; r < t->rank; r++)
            used += (size_t)snprintf(header + used, capacity - used, r ? ",%lld" : "%lld", (long long)t->shape[r]);
        used += (size_t)snprintf(header + used, capacity - used, "],\"data_offsets\":[%lld,%lld]}", (long long)offset,
                                 (long long)(offset + t->n * element));
        offset += t->n * element;
    }
    header[used++] = '}';
    while (used % 8)
        header[used++] = ' ';
    FILE *file = fopen(path, "wb");
    if (!file)
        fail_msg("cannot write %s", path);
    const uint64_t size = used;
    int failed = fwrite(&size, 8, 1, file) != 1 || fwrite(header, used, 1, file) != 1;
    for (int i = 0; i < m->n_tensors; i++) {
        const toy_tensor *t = &m->tensors[i];
        uint8_t *data = scratch((size_t)(t->n * element));
        for (int64_t j = 0; j < t->n; j++)
            store(m->spec.stored, data, j, t->values[j]);
        failed |= fwrite(data, (size_t)(t->n * element), 1, file) != 1;
    }
    if (fclose(file) || failed)
        fail_msg("cannot write %s", path);
    return path;
}

float *toy_images(const toy *m, int32_t n, uint64_t seed)
{
    float *images = scratch((size_t)n * (size_t)m->pixels * sizeof *images);
    random_seed(seed * 40503 + 7);
    for (int64_t i = 0; i < (int64_t)n * m->pixels; i++)
        images[i] = random_normal();
    return images;
}

/* out [rows, n_out] = x [rows, n_in] weight^T + bias. */
static void multiply(const double *x, int32_t rows, int32_t n_in, const float *weight, const float *bias, int32_t n_out, double *out)
{
    for (int32_t t = 0; t < rows; t++)
        for (int32_t o = 0; o < n_out; o++) {
            double sum = bias[o];
            for (int32_t i = 0; i < n_in; i++)
                sum += x[(int64_t)t * n_in + i] * weight[(int64_t)o * n_in + i];
            out[(int64_t)t * n_out + o] = sum;
        }
}

static void normalise(const double *x, int32_t rows, int32_t dim, const float *weight, const float *bias, double *out)
{
    for (int32_t t = 0; t < rows; t++, x += dim, out += dim) {
        double mean = 0, variance = 0;
        for (int32_t i = 0; i < dim; i++)
            mean += x[i] / dim;
        for (int32_t i = 0; i < dim; i++)
            variance += (x[i] - mean) * (x[i] - mean) / dim;
        for (int32_t i = 0; i < dim; i++)
            out[i] = (x[i] - mean) / sqrt(variance + 1e-6) * weight[i] + bias[i];
    }
}

/* Rotates the queries and keys of patches. A pair is elements 2 i and 2 i + 1 of a head; the first half of the pairs uses the column, the
   second half the row. */
static void rotate(const toy *m, double *qkv, int32_t rows, const int32_t *tokens)
{
    const int32_t d = m->spec.dim, grid = m->spec.image_size / m->spec.patch_size;
    for (int32_t t = 0; t < rows; t++)
        for (int32_t pair = 0; tokens[t] >= m->n_prefix && pair < d; pair++) { /* d / 2 pairs of queries, then d / 2 of keys */
            const int32_t patch = tokens[t] - m->n_prefix, i = pair % 32;
            const double angle = (i < 16 ? patch % grid : patch / grid) * pow(100, -(i % 16) / 16.0);
            double *u = qkv + (int64_t)t * 3 * d + 2 * pair, v = u[1];
            u[1] = v * cos(angle) + u[0] * sin(angle);
            u[0] = u[0] * cos(angle) - v * sin(angle);
        }
}

/* Attention of all heads over qkv [rows, 3 dim]; sizes weight merged rows. mean_cls: the first row's weights, averaged over heads.
   received: the weights averaged over heads and rows. */
static void attend(const toy *m, const double *qkv, const double *sizes, int32_t rows, double *out, double *mean_cls, double *received)
{
    const int32_t d = m->spec.dim;
    double *weights = scratch((size_t)rows * sizeof *weights);
    memset(mean_cls, 0, (size_t)rows * sizeof *mean_cls);
    memset(received, 0, (size_t)rows * sizeof *received);
    for (int32_t h = 0; h < m->n_heads; h++)
        for (int32_t t = 0; t < rows; t++) {
            const double *q = qkv + (int64_t)t * 3 * d + h * 64;
            double largest = -INFINITY, sum = 0;
            for (int32_t j = 0; j < rows; j++) {
                const double *k = qkv + (int64_t)j * 3 * d + d + h * 64;
                weights[j] = 0;
                for (int i = 0; i < 64; i++)
                    weights[j] += q[i] * k[i] / 8;
                largest = fmax(largest, weights[j]);
            }
            for (int32_t j = 0; j < rows; j++)
                sum += weights[j] = sizes[j] * exp(weights[j] - largest);
            for (int i = 0; i < 64; i++) {
                double o = 0;
                for (int32_t j = 0; j < rows; j++)
                    o += weights[j] / sum * qkv[(int64_t)j * 3 * d + 2 * d + h * 64 + i];
                out[(int64_t)t * d + h * 64 + i] = o;
            }
            for (int32_t j = 0; j < rows; j++) {
                mean_cls[j] += t == 0 ? weights[j] / sum / m->n_heads : 0;
                received[j] += weights[j] / sum / m->n_heads / rows;
            }
        }
}

static const float *prefix_token(const toy *m, int32_t t)
{
    if (t == 0 && !m->spec.no_cls)
        return m->cls;
    return m->spec.distilled ? m->dist : m->registers + (int64_t)(t - !m->spec.no_cls) * m->spec.dim;
}

static void embed(const toy *m, const float *image, double *x)
{
    const int32_t d = m->spec.dim, p = m->spec.patch_size, size = m->spec.image_size, grid = size / p;
    for (int32_t t = 0; t < m->tokens; t++)
        for (int32_t o = 0; o < d; o++) {
            double sum = t < m->n_prefix ? prefix_token(m, t)[o] : m->patch_b[o];
            const int32_t patch = t - m->n_prefix;
            for (int32_t k = 0; patch >= 0 && k < 3 * p * p; k++) {
                const int32_t c = k / (p * p), y = patch / grid * p + k / p % p, column = patch % grid * p + k % p;
                sum += (double)image[(c * size + y) * size + column] * m->patch_w[(int64_t)o * 3 * p * p + k];
            }
            x[(int64_t)t * d + o] = sum + m->pos[(int64_t)t * d + o];
        }
}

/* The keys and values [rows, 2 dim] and the probabilities [n_heads, rows] of attention pooling over normalised rows. */
static void map_attention(const toy *m, const double *normed, const double *sizes, int32_t rows, double *kv, double *probs)
{
    const int32_t d = m->spec.dim;
    double *latent = scratch((size_t)d * sizeof *latent), *q = scratch((size_t)d * sizeof *q);
    for (int32_t i = 0; i < d; i++)
        latent[i] = m->map.latent[i];
    multiply(latent, 1, d, m->map.q_w, m->map.q_b, d, q);
    multiply(normed, rows, d, m->map.kv_w, m->map.kv_b, 2 * d, kv);
    for (int32_t h = 0; h < m->n_heads; h++, probs += rows) {
        double sum = 0;
        for (int32_t t = 0; t < rows; t++) {
            double logit = 0;
            for (int32_t i = h * 64; i < (h + 1) * 64; i++)
                logit += q[i] * kv[(int64_t)t * 2 * d + i] / 8;
            sum += probs[t] = sizes[t] * exp(logit);
        }
        for (int32_t t = 0; t < rows; t++)
            probs[t] /= sum;
    }
}

static void map_pool(const toy *m, const double *normed, const double *sizes, int32_t rows, double *out)
{
    const int32_t d = m->spec.dim, mlp = m->spec.mlp;
    double *kv = scratch((size_t)(rows * 2 * d) * sizeof *kv), *probs = scratch((size_t)(m->n_heads * rows) * sizeof *probs);
    double *mixed = scratch((size_t)d * sizeof *mixed), *hidden = scratch((size_t)mlp * sizeof *hidden);
    map_attention(m, normed, sizes, rows, kv, probs);
    for (int32_t i = 0; i < d; i++)
        for (int32_t t = 0; t < rows; t++)
            mixed[i] += probs[i / 64 * rows + t] * kv[((int64_t)t * 2 + 1) * d + i];
    multiply(mixed, 1, d, m->map.proj_w, m->map.proj_b, d, out);
    normalise(out, 1, d, m->map.norm_w, m->map.norm_b, mixed);
    multiply(mixed, 1, d, m->map.fc1_w, m->map.fc1_b, mlp, hidden);
    for (int32_t i = 0; i < mlp; i++)
        hidden[i] = 0.5 * hidden[i] * (1 + erf(hidden[i] / sqrt(2)));
    multiply(hidden, 1, mlp, m->map.fc2_w, m->map.fc2_b, d, mixed);
    for (int32_t i = 0; i < d; i++)
        out[i] += mixed[i];
}

/* The head's input, from normalised rows: the CLS row, the mean of the patches, or attention pooling. */
static const double *pooled(const toy *m, const double *normed, const double *sizes, int32_t rows)
{
    const int32_t d = m->spec.dim;
    if (m->spec.pool == TOY_CLS)
        return normed;
    double *out = scratch((size_t)d * sizeof *out), total = 0;
    if (m->spec.pool == TOY_MAP) {
        map_pool(m, normed, sizes, rows, out);
        return out;
    }
    for (int32_t t = m->n_prefix; t < rows; t++)
        total += sizes[t];
    for (int32_t t = m->n_prefix; t < rows; t++)
        for (int32_t i = 0; i < d; i++)
            out[i] += sizes[t] / total * normed[(int64_t)t * d + i];
    return out;
}

static double *copied(const double *values, int32_t n)
{
    double *copy = scratch((size_t)n * sizeof *copy);
    memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

static void score(const toy *m, toy_stage *s, const double *x, const double *mean_cls, const double *received, const int32_t *tokens,
                  int32_t rows)
{
    const int32_t d = m->spec.dim;
    s->n_before = rows;
    s->before = scratch((size_t)rows * sizeof *s->before);
    memcpy(s->before, tokens, (size_t)rows * sizeof *tokens);
    s->l2 = scratch((size_t)rows * sizeof *s->l2);
    s->cls_attention = copied(mean_cls, rows);
    s->received = copied(received, rows);
    for (int32_t t = 0; t < rows; t++)
        for (int32_t i = 0; i < d; i++)
            s->l2[t] += x[(int64_t)t * d + i] * x[(int64_t)t * d + i];
    if (m->spec.pool != TOY_MAP)
        return;
    double *normed = scratch((size_t)(rows * d) * sizeof *normed), *kv = scratch((size_t)(rows * 2 * d) * sizeof *kv);
    double *probs = scratch((size_t)(m->n_heads * rows) * sizeof *probs), *ones = scratch((size_t)rows * sizeof *ones);
    for (int32_t t = 0; t < rows; t++)
        ones[t] = 1;
    normalise(x, rows, d, m->norm_w, m->norm_b, normed);
    map_attention(m, normed, ones, rows, kv, probs);
    s->map_probe = scratch((size_t)rows * sizeof *s->map_probe);
    for (int32_t i = 0; i < m->n_heads * rows; i++)
        s->map_probe[i % rows] += probs[i] / m->n_heads;
}

/* Drops the tokens that the stage does not keep, and returns the number of remaining rows. */
static int32_t drop(const toy_stage *s, double *x, int32_t *tokens, int32_t rows, int32_t d)
{
    int32_t left = 0;
    for (int32_t t = 0; t < rows; t++)
        for (int32_t i = 0; i < s->n_kept; i++)
            if (s->kept[i] == tokens[t]) {
                memmove(x + (int64_t)left * d, x + (int64_t)t * d, (size_t)d * sizeof *x);
                tokens[left++] = tokens[t];
                break;
            }
    assert_int_equal(left, s->n_kept);
    return left;
}

/* The metric of tome: the sum of a row's keys over the heads, scaled to length 1. */
static double *metrics(const toy *m, const double *qkv, int32_t rows)
{
    const int32_t d = m->spec.dim;
    double *metric = scratch((size_t)rows * 64 * sizeof *metric);
    for (int32_t t = 0; t < rows; t++) {
        double sum = 0;
        for (int32_t i = 0; i < d; i++)
            metric[t * 64 + i % 64] += qkv[(int64_t)t * 3 * d + d + i];
        for (int32_t i = 0; i < 64; i++)
            sum += metric[t * 64 + i] * metric[t * 64 + i];
        for (int32_t i = 0; i < 64; i++)
            metric[t * 64 + i] /= sqrt(sum);
    }
    return metric;
}

/* partner[t]: the row that row t is merged into, -1 for none. */
static int32_t *match(const toy *m, const double *qkv, int32_t rows, int32_t merges)
{
    const double *metric = metrics(m, qkv, rows);
    int32_t *partner = scratch((size_t)rows * sizeof *partner), *nearest = scratch((size_t)rows * sizeof *nearest);
    double *best = scratch((size_t)rows * sizeof *best);
    for (int32_t a = 0; a < rows; a++) {
        partner[a] = -1;
        best[a] = -INFINITY;
        for (int32_t b = m->n_prefix; a >= m->n_prefix && a % 2 == 0 && b < rows; b++) {
            double dot = 0;
            for (int32_t i = 0; b % 2 && i < 64; i++)
                dot += metric[a * 64 + i] * metric[b * 64 + i];
            if (b % 2 && dot > best[a]) {
                best[a] = dot;
                nearest[a] = b;
            }
        }
    }
    for (int32_t i = 0; i < merges && i < (rows - m->n_prefix) / 2; i++) {
        int32_t next = 0;
        for (int32_t a = 0; a < rows; a++)
            next = best[a] > best[next] ? a : next;
        partner[next] = nearest[next];
        best[next] = -INFINITY;
    }
    return partner;
}

/* Merges rows, and returns the number of remaining ones: the prefix, the even rows that were not merged, then the odd rows. */
static int32_t merge(const toy *m, const double *qkv, double *x, int32_t *tokens, double *sizes, int32_t rows, int32_t merges)
{
    const int32_t d = m->spec.dim, *partner = match(m, qkv, rows, merges);
    const size_t size = (size_t)rows * (size_t)d * sizeof *x;
    double *sums = scratch(size), *weights = scratch((size_t)rows * sizeof *weights);
    int32_t *from = scratch((size_t)rows * sizeof *from), left = 0;
    for (int32_t t = 0; t < rows; t++) {
        const int32_t to = partner[t] < 0 ? t : partner[t];
        weights[to] += sizes[t];
        for (int32_t i = 0; i < d; i++)
            sums[(int64_t)to * d + i] += sizes[t] * x[(int64_t)t * d + i];
    }
    memcpy(from, tokens, (size_t)rows * sizeof *from);
    for (int set = 0; set < 3; set++)
        for (int32_t t = 0; t < rows; t++) {
            if ((t < m->n_prefix ? 0 : 1 + t % 2) != set || partner[t] >= 0)
                continue;
            for (int32_t i = 0; i < d; i++)
                x[(int64_t)left * d + i] = sums[(int64_t)t * d + i] / weights[t];
            sizes[left] = weights[t];
            tokens[left++] = from[t];
        }
    return left;
}

void toy_forward(const toy *m, const float *image, toy_stage *stages, int n_stages, double *logits, toy_trace *out_trace)
{
    const int32_t d = m->spec.dim, mlp = m->spec.mlp;
    int32_t rows = m->tokens, *tokens = scratch((size_t)rows * sizeof *tokens);
    const size_t size = (size_t)rows * (size_t)d * sizeof(double);
    double *x = scratch(size), *y = scratch(size), *z = scratch(size), *qkv = scratch(3 * size);
    double *hidden = scratch((size_t)rows * (size_t)mlp * sizeof(double)), *mean_cls = scratch((size_t)rows * sizeof(double));
    double *sizes = scratch((size_t)rows * sizeof *sizes), *received = scratch((size_t)rows * sizeof *received);
    for (int32_t t = 0; t < rows; t++) {
        tokens[t] = t;
        sizes[t] = 1;
    }
    embed(m, image, x);
    if (out_trace)
        memcpy(out_trace->embedding = scratch(size), x, size);
    for (int i = 0, next = 0; i < m->spec.depth; i++) {
        const toy_block *b = &m->blocks[i];
        normalise(x, rows, d, b->norm1_w, b->norm1_b, y);
        multiply(y, rows, d, b->qkv_w, b->qkv_b, 3 * d, qkv);
        if (m->spec.rotary)
            rotate(m, qkv, rows, tokens);
        attend(m, qkv, sizes, rows, y, mean_cls, received);
        multiply(y, rows, d, b->proj_w, b->proj_b, d, z);
        for (int64_t j = 0; j < (int64_t)rows * d; j++)
            x[j] += z[j];
        toy_stage *stage = next < n_stages && stages[next].block == i ? &stages[next++] : NULL;
        if (stage && stage->merges > 0) {
            rows = merge(m, qkv, x, tokens, sizes, rows, stage->merges);
            stage = NULL;
        }
        if (stage && stage->inside_block) {
            score(m, stage, x, mean_cls, received, tokens, rows);
            rows = drop(stage, x, tokens, rows, d);
        }
        normalise(x, rows, d, b->norm2_w, b->norm2_b, y);
        multiply(y, rows, d, b->fc1_w, b->fc1_b, mlp, hidden);
        for (int64_t j = 0; j < (int64_t)rows * mlp; j++)
            hidden[j] = 0.5 * hidden[j] * (1 + erf(hidden[j] / sqrt(2)));
        multiply(hidden, rows, mlp, b->fc2_w, b->fc2_b, d, z);
        for (int64_t j = 0; j < (int64_t)rows * d; j++)
            x[j] += z[j];
        if (out_trace) {
            out_trace->rows[i] = rows;
            memcpy(out_trace->blocks[i] = scratch(size), x, (size_t)rows * (size_t)d * sizeof *x);
        }
        if (stage && !stage->inside_block) {
            score(m, stage, x, mean_cls, received, tokens, rows);
            rows = drop(stage, x, tokens, rows, d);
        }
    }
    normalise(x, rows, d, m->norm_w, m->norm_b, y);
    multiply(pooled(m, y, sizes, rows), 1, d, m->head_w, m->head_b, m->spec.n_classes, logits);
    if (m->spec.distilled) {
        multiply(y + d, 1, d, m->head_dist_w, m->head_dist_b, m->spec.n_classes, hidden);
        for (int32_t c = 0; c < m->spec.n_classes; c++)
            logits[c] = (logits[c] + hidden[c]) / 2;
    }
}
