/* The checks of selftest on single ops: attention over images of odd lengths, with inputs that every type holds exactly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "selftest_parts.h"
#include "verify_parts.h"

enum { N_IMAGES = 8, N_HEADS = 2, HEAD_DIM = 64, WIDTH = N_HEADS * HEAD_DIM, ROWS = 969, MAX_LEN = 577 };
static const int32_t lengths[N_IMAGES] = {1, 2, 63, 64, 0, 65, 197, 577};
static const int32_t in_order[N_IMAGES] = {0, 1, 2, 3, 4, 5, 6, 7}, reordered[N_IMAGES] = {6, 4, 2, 7, 0, 5, 1, 3};

struct attention {
    rvit_stream *stream;
    rvit_buffer *qkv, *cu_seqlens, *out, *cls_probs;
    rvit_attention_args args;
};

static void attention_close(struct attention *self)
{
    rvit_stream_destroy(self->stream);
    rvit_buffer_destroy(self->qkv);
    rvit_buffer_destroy(self->cu_seqlens);
    rvit_buffer_destroy(self->out);
    rvit_buffer_destroy(self->cls_probs);
}

/* Close out also after a failure. */
static rvit_status attention_open(rvit_device *device, rvit_dtype dtype, struct attention *out)
{
    const int64_t size = rvit_dtype_size(dtype), q = WIDTH * size;
    *out = (struct attention){.args = RVIT_ATTENTION_ARGS_INIT};
    rvit_status status = rvit_stream_create(device, &out->stream);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, 3 * ROWS * q, RVIT_BUFFER_UPLOAD, &out->qkv);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, (N_IMAGES + 1) * 4, RVIT_BUFFER_UPLOAD, &out->cu_seqlens);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, ROWS * q, RVIT_BUFFER_READBACK, &out->out);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, ROWS * N_HEADS * 4, RVIT_BUFFER_READBACK, &out->cls_probs);
    rvit_attention_args *args = &out->args;
    args->dtype = dtype;
    args->n_images = N_IMAGES;
    args->n_heads = N_HEADS;
    args->head_dim = HEAD_DIM;
    args->max_len = MAX_LEN;
    args->rows = ROWS;
    args->q = (rvit_view){out->qkv, 0};
    args->k = (rvit_view){out->qkv, q};
    args->v = (rvit_view){out->qkv, 2 * q};
    args->q_stride = args->k_stride = args->v_stride = 3 * WIDTH;
    args->cu_seqlens.buffer = out->cu_seqlens;
    args->out.buffer = out->out;
    args->cls_probs.buffer = out->cls_probs;
    return status;
}

/* value: a multiple of 1/32 of at most 8 bits, which has no rounding. */
static void store(void *data, rvit_dtype dtype, int64_t index, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == RVIT_F32)
        ((float *)data)[index] = value;
    else if (dtype == RVIT_BF16)
        ((uint16_t *)data)[index] = (uint16_t)(bits >> 16);
    else
        ((uint16_t *)data)[index] = (uint16_t)(value == 0 ? 0 : bits >> 31 << 15 | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
}

static float random_value(uint32_t seed)
{
    seed = (seed ^ seed >> 16) * 0x7feb352du;
    seed = (seed ^ seed >> 15) * 0x846ca68bu;
    return (float)((int32_t)((seed ^ seed >> 16) % 127) - 63) / 32;
}

/* Writes images order[0..n) and runs the op; the other images are empty. same_values: the values of an image depend only on the column. */
static rvit_status attention_run(struct attention *self, const int32_t *order, int32_t n, bool same_values)
{
    int32_t *cu_seqlens = rvit_buffer_host(self->cu_seqlens);
    void *qkv = rvit_buffer_host(self->qkv);
    int64_t at = 0;
    cu_seqlens[0] = 0;
    for (int32_t i = 0; i < N_IMAGES; i++) {
        const int32_t image = i < n ? order[i] : -1, length = i < n ? lengths[image] : 0;
        for (int32_t row = 0; row < length; row++)
            for (uint32_t column = 0; column < 3 * WIDTH; column++, at++) {
                const bool same = same_values && column >= 2 * WIDTH;
                store(qkv, self->args.dtype, at, random_value(((uint32_t)image << 20 | (same ? 0 : (uint32_t)row)) * 3 * WIDTH + column));
            }
        cu_seqlens[i + 1] = cu_seqlens[i] + length;
    }
    const rvit_status status = rvit_attention(self->stream, &self->args);
    return status == RVIT_OK ? rvit_stream_synchronize(self->stream) : status;
}

/* What the last run wrote for the image at this place, copied to out; returns the number of bytes. */
static size_t attention_take(const struct attention *self, int32_t place, void *out)
{
    const int32_t *cu_seqlens = rvit_buffer_host(self->cu_seqlens);
    const size_t row = (size_t)(WIDTH * rvit_dtype_size(self->args.dtype)), probs = N_HEADS * 4;
    const size_t begin = (size_t)cu_seqlens[place], n = (size_t)cu_seqlens[place + 1] - begin;
    memcpy(out, (const char *)rvit_buffer_host(self->out) + begin * row, n * row);
    memcpy((char *)out + n * row, (const char *)rvit_buffer_host(self->cls_probs) + begin * probs, n * probs);
    return n * (row + probs);
}

static bool compare(struct selftest *self, const struct attention *a, const struct attention *b, double tolerance)
{
    double error = 0, largest = 0, error_of_probs = 0;
    int32_t where = 0;
    const int32_t *cu_seqlens = rvit_buffer_host(a->cu_seqlens);
    for (int32_t i = 0; i < N_IMAGES; i++) {
        for (int64_t at = (int64_t)cu_seqlens[i] * WIDTH; at < (int64_t)cu_seqlens[i + 1] * WIDTH; at++) {
            const double x = element_at(rvit_buffer_host(a->out), a->args.dtype, at), y = (double)((float *)rvit_buffer_host(b->out))[at];
            if (!(fabs(x - y) <= error)) {
                error = isfinite(x) ? fabs(x - y) : INFINITY;
                where = lengths[i];
            }
            largest = fmax(largest, fabs(y));
        }
        for (int64_t at = (int64_t)cu_seqlens[i] * N_HEADS; at < (int64_t)cu_seqlens[i + 1] * N_HEADS; at++) {
            const double d =
                fabs((double)((float *)rvit_buffer_host(a->cls_probs))[at] - (double)((float *)rvit_buffer_host(b->cls_probs))[at]);
            error_of_probs = d <= error_of_probs ? error_of_probs : isfinite(d) ? d : INFINITY;
        }
    }
    if (error / largest <= tolerance && error_of_probs <= tolerance)
        return true;
    return check_fails(self, "off by %.3g of the largest value (image of %d rows), attention weights by %.3g; the tolerance is %g",
                       error / largest, where, error_of_probs, tolerance);
}

static double tolerance_of(const struct selftest *self)
{
    return verify_block_tolerance(self->engine.choice.precision, RVIT_PRECISION_F32);
}

static bool as_oracle(struct selftest *self)
{
    struct attention here, oracle = {0};
    rvit_status status = attention_open(self->engine.device, self->engine.choice.dtype, &here);
    if (status == RVIT_OK)
        status = attention_open(self->oracle.device, RVIT_F32, &oracle);
    if (status == RVIT_OK)
        status = attention_run(&here, in_order, N_IMAGES, false);
    if (status == RVIT_OK)
        status = attention_run(&oracle, in_order, N_IMAGES, false);
    const bool passed = status == RVIT_OK ? compare(self, &here, &oracle, tolerance_of(self)) : check_status_fails(self, NULL, status);
    attention_close(&here);
    attention_close(&oracle);
    return passed;
}

static bool check_sums(struct selftest *self, const struct attention *a)
{
    const int32_t *cu_seqlens = rvit_buffer_host(a->cu_seqlens);
    const float *probs = rvit_buffer_host(a->cls_probs);
    const double tolerance = tolerance_of(self);
    for (int32_t i = 0; i < N_IMAGES; i++) {
        for (int32_t head = 0; head < N_HEADS && lengths[i] > 0; head++) {
            double sum = 0;
            for (int32_t row = cu_seqlens[i]; row < cu_seqlens[i + 1]; row++)
                sum += (double)probs[row * N_HEADS + head];
            if (!(fabs(sum - 1) <= tolerance))
                return check_fails(self, "the weights of a row add up to %.9g (image of %d rows)", sum, lengths[i]);
        }
        for (int32_t row = cu_seqlens[i]; row < cu_seqlens[i + 1]; row++)
            for (int64_t column = 0; column < WIDTH; column++) {
                const double value = element_at(rvit_buffer_host(a->qkv), a->args.dtype, (int64_t)row * 3 * WIDTH + 2 * WIDTH + column);
                const double out = element_at(rvit_buffer_host(a->out), a->args.dtype, (int64_t)row * WIDTH + column);
                if (!(fabs(out - value) <= 2 * tolerance))
                    return check_fails(self, "values that are all %g give %.9g (image of %d rows)", value, out, lengths[i]);
            }
    }
    return true;
}

static bool weights_add_up(struct selftest *self)
{
    struct attention here;
    rvit_status status = attention_open(self->engine.device, self->engine.choice.dtype, &here);
    if (status == RVIT_OK)
        status = attention_run(&here, in_order, N_IMAGES, true);
    const bool passed = status == RVIT_OK ? check_sums(self, &here) : check_status_fails(self, NULL, status);
    attention_close(&here);
    return passed;
}

/* Runs all images, then the batches of `orders`, and compares each image bit by bit. */
static bool same_bits(struct selftest *self, const int32_t *const *orders, const int32_t *counts, int n_orders)
{
    struct attention here;
    const size_t capacity = (size_t)MAX_LEN * (WIDTH * 4 + N_HEADS * 4);
    char *images[N_IMAGES] = {NULL}, *again = allocate(capacity, 1);
    bool passed = again != NULL;
    rvit_status status = attention_open(self->engine.device, self->engine.choice.dtype, &here);
    if (status == RVIT_OK)
        status = attention_run(&here, in_order, N_IMAGES, false);
    for (int32_t i = 0; i < N_IMAGES && passed && status == RVIT_OK; i++) {
        images[i] = allocate((size_t)lengths[i] * (WIDTH * 4 + N_HEADS * 4), 1);
        passed = images[i] != NULL;
        if (passed)
            (void)attention_take(&here, i, images[i]);
    }
    if (!passed)
        check_complained(self, NULL);
    for (int o = 0; o < n_orders && passed && status == RVIT_OK; o++) {
        status = attention_run(&here, orders[o], counts[o], false);
        for (int32_t place = 0; place < counts[o] && passed && status == RVIT_OK; place++) {
            const int32_t image = orders[o][place];
            const size_t size = attention_take(&here, place, again);
            if (memcmp(again, images[image], size) != 0)
                passed = check_fails(self, "an image of %d rows has other bits, at place %d of %d", lengths[image], place, counts[o]);
        }
    }
    if (status != RVIT_OK)
        passed = check_status_fails(self, NULL, status);
    attention_close(&here);
    for (int32_t i = 0; i < N_IMAGES; i++)
        free(images[i]);
    free(again);
    return passed;
}

static bool batches_do_not_matter(struct selftest *self)
{
    const int32_t *const orders[] = {reordered, &in_order[0], &in_order[2], &in_order[5], &in_order[7]};
    static const int32_t counts[] = {N_IMAGES, 1, 1, 1, 1};
    return same_bits(self, orders, counts, 5);
}

static bool runs_repeat(struct selftest *self)
{
    const int32_t *const orders[] = {in_order, in_order, in_order};
    static const int32_t counts[] = {N_IMAGES, N_IMAGES, N_IMAGES};
    return same_bits(self, orders, counts, 3);
}

const struct check selftest_op_checks[SELFTEST_OP_CHECKS] = {{"attention of 0 to 577 rows: as float64 sums", as_oracle},
                                                             {"attention: weights add up to 1, equal values stay", weights_add_up},
                                                             {"attention: same bits alone and in another order", batches_do_not_matter},
                                                             {"attention: same bits again", runs_repeat}};
