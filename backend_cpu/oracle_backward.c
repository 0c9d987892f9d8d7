/* The gradient of attention in float64, computed directly from the formulas in ops.h. */
#include "backend_cpu/oracle.h"

typedef struct backward {
    const rvit_attention_backward_args *a;
    rvit_cpu_range image;
    int64_t head;
} backward;

/* Element i of a row at this head; and the value of a row and head. */
static double at(const backward *b, rvit_view view, int64_t row, int64_t stride, int64_t i)
{
    return load(rvit_cpu_at(view), row * stride + b->head * b->a->head_dim + i, b->a->dtype);
}

static double value(const backward *b, rvit_view view, int64_t row)
{
    return view.buffer == NULL ? 0.0 : ((const float *)rvit_cpu_at(view))[row * b->a->n_heads + b->head];
}

static double delta_of(const backward *b, int64_t query)
{
    const rvit_attention_backward_args *a = b->a;
    double delta = -value(b, a->d_lse, query);
    for (int64_t i = 0; i < a->head_dim; i++)
        delta += at(b, a->d_out, query, a->d_out_stride, i) * at(b, a->out, query, a->out_stride, i);
    if (query == b->image.begin && a->d_cls_probs.buffer != NULL)
        for (int64_t key = b->image.begin; key < b->image.begin + b->image.len; key++)
            delta += value(b, a->cls_probs, key) * value(b, a->d_cls_probs, key);
    return delta;
}

/* Returns the weight of a key, and the gradient of its logit. */
static double weigh(const backward *b, int64_t query, int64_t key, double delta, double *out_gradient)
{
    const rvit_attention_backward_args *a = b->a;
    const float *key_bias = rvit_cpu_at(a->key_bias);
    double logit = 0.0, gradient = query == b->image.begin ? value(b, a->d_cls_probs, key) : 0.0;
    for (int64_t i = 0; i < a->head_dim; i++) {
        logit += at(b, a->q, query, a->q_stride, i) * at(b, a->k, key, a->k_stride, i);
        gradient += at(b, a->d_out, query, a->d_out_stride, i) * at(b, a->v, key, a->v_stride, i);
    }
    const double lse = value(b, a->lse, query);
    const double weight = lse == -INFINITY ? 0.0 : exp(a->scale * logit + (key_bias != NULL ? key_bias[key] : 0.0) - lse);
    *out_gradient = weight * (gradient - delta);
    return weight;
}

static void put(const backward *b, rvit_view view, int64_t row, int64_t stride, const double *sums, double factor)
{
    for (int64_t i = 0; i < b->a->head_dim; i++)
        store(rvit_cpu_at(view), row * stride + b->head * b->a->head_dim + i, b->a->dtype, factor * sums[i]);
}

static void backward_query(const backward *b, int64_t query)
{
    const rvit_attention_backward_args *a = b->a;
    const double delta = delta_of(b, query);
    double d_q[RVIT_CPU_MAX_HEAD_DIM] = {0}, gradient;
    for (int64_t key = b->image.begin; key < b->image.begin + b->image.len; key++) {
        weigh(b, query, key, delta, &gradient);
        for (int64_t i = 0; i < a->head_dim; i++)
            d_q[i] += gradient * at(b, a->k, key, a->k_stride, i);
    }
    put(b, a->d_q, query, a->d_q_stride, d_q, a->scale);
}

/* Returns the head's term of d_key_bias. */
static double backward_key(const backward *b, int64_t key)
{
    const rvit_attention_backward_args *a = b->a;
    double d_k[RVIT_CPU_MAX_HEAD_DIM] = {0}, d_v[RVIT_CPU_MAX_HEAD_DIM] = {0}, share = 0.0, gradient;
    for (int64_t query = b->image.begin; query < b->image.begin + b->image.len; query++) {
        const double weight = weigh(b, query, key, delta_of(b, query), &gradient);
        share += gradient;
        for (int64_t i = 0; i < a->head_dim; i++) {
            d_v[i] += weight * at(b, a->d_out, query, a->d_out_stride, i);
            d_k[i] += gradient * at(b, a->q, query, a->q_stride, i);
        }
    }
    put(b, a->d_k, key, a->d_k_stride, d_k, a->scale);
    put(b, a->d_v, key, a->d_v_stride, d_v, 1.0);
    return share;
}

static void backward_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_attention_backward_args *a = ((const oracle_job *)context)->args;
    float *d_key_bias = rvit_cpu_at(a->d_key_bias);
    for (int64_t image = begin; image < end; image++) {
        backward b = {a, rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), image, a->rows, a->max_len), 0};
        for (int64_t row = b.image.begin; row < b.image.begin + b.image.len; row++) {
            double sum = 0.0;
            for (b.head = 0; b.head < a->n_heads; b.head++) {
                backward_query(&b, row);
                sum += backward_key(&b, row);
            }
            if (d_key_bias != NULL)
                d_key_bias[row] = (float)sum;
        }
    }
}

void rvit_cpu_oracle_attention_backward(rvit_cpu_device *device, const rvit_attention_backward_args *a)
{
    oracle_job job = {a, a->n_images};
    rvit_cpu_pool_run(device->pool, job.rows, 1, backward_images, &job);
}
