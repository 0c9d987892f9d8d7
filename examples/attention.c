/* Makes one ragged attention call on three images of different lengths, packed without padding, on the best device. Checks the result
   against the definition of attention.

   usage: attention */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <raggedvit/raggedvit.h>

enum { IMAGES = 3, HEADS = 3, HEAD_DIM = 64, MAX_LEN = 197, ROWS = 197 + 98 + 20, DIM = HEADS * HEAD_DIM };

static void need(rvit_status status)
{
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        exit(1);
    }
}

/* out = softmax(q k^T / sqrt(HEAD_DIM)) v for one query row of the image with rows first .. last - 1. Row t of qkv has q, k and v of all
   heads: [3, HEADS, HEAD_DIM]. */
static void plain_attention(const float *qkv, int row, int first, int last, int head, double *out)
{
    const float *q = qkv + (size_t)row * 3 * DIM + head * HEAD_DIM;
    double sum = 0;
    for (int d = 0; d < HEAD_DIM; d++)
        out[d] = 0;
    for (int j = first; j < last; j++) {
        const float *k = qkv + (size_t)j * 3 * DIM + DIM + head * HEAD_DIM, *v = k + DIM;
        double logit = 0;
        for (int d = 0; d < HEAD_DIM; d++)
            logit += (double)q[d] * k[d];
        const double weight = exp(logit / sqrt(HEAD_DIM));
        sum += weight;
        for (int d = 0; d < HEAD_DIM; d++)
            out[d] += weight * v[d];
    }
    for (int d = 0; d < HEAD_DIM; d++)
        out[d] /= sum;
}

int main(void)
{
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *qkv = NULL, *lengths = NULL, *out = NULL;
    need(rvit_device_create(NULL, &device));
    need(rvit_stream_create(device, &stream));

    /* UPLOAD and READBACK memory is mapped: the host writes and reads it in place. Use DEVICE memory for data that only the device touches.
     */
    need(rvit_buffer_create(device, ROWS * 3 * DIM * (int64_t)sizeof(float), RVIT_BUFFER_UPLOAD, &qkv));
    need(rvit_buffer_create(device, (IMAGES + 1) * (int64_t)sizeof(int32_t), RVIT_BUFFER_UPLOAD, &lengths));
    need(rvit_buffer_create(device, ROWS * DIM * (int64_t)sizeof(float), RVIT_BUFFER_READBACK, &out));

    /* Image i owns rows cu_seqlens[i] .. cu_seqlens[i + 1] - 1. The device reads them when the op runs, so the host need not know the
       lengths after pruning. */
    const int32_t starts[IMAGES + 1] = {0, 197, 197 + 98, ROWS};
    int32_t *cu_seqlens = rvit_buffer_host(lengths);
    for (int i = 0; i <= IMAGES; i++)
        cu_seqlens[i] = starts[i];
    float *values = rvit_buffer_host(qkv);
    uint32_t random = 1;
    for (int i = 0; i < ROWS * 3 * DIM; i++) {
        random = random * 1664525u + 1013904223u;
        values[i] = (float)(random >> 8) / (1 << 23) - 1;
    }

    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = RVIT_F32;
    args.n_images = IMAGES;
    args.n_heads = HEADS;
    args.head_dim = HEAD_DIM;
    args.max_len = MAX_LEN; /* capacities: upper bounds known to the host */
    args.rows = ROWS;
    args.q = (rvit_view){qkv, 0}; /* q, k and v share one array, as the qkv GEMM of a ViT writes them */
    args.k = (rvit_view){qkv, DIM * sizeof(float)};
    args.v = (rvit_view){qkv, 2 * DIM * sizeof(float)};
    args.q_stride = args.k_stride = args.v_stride = 3 * DIM;
    args.cu_seqlens = (rvit_view){lengths, 0};
    args.out = (rvit_view){out, 0};
    need(rvit_attention(stream, &args)); /* only enqueues */
    need(rvit_stream_synchronize(stream));

    double largest = 0, expected[HEAD_DIM];
    const float *got = rvit_buffer_host(out);
    for (int i = 0; i < IMAGES; i++)
        for (int row = starts[i]; row < starts[i + 1]; row++)
            for (int head = 0; head < HEADS; head++) {
                plain_attention(values, row, starts[i], starts[i + 1], head, expected);
                for (int d = 0; d < HEAD_DIM; d++)
                    largest = fmax(largest, fabs(got[row * DIM + head * HEAD_DIM + d] - expected[d]));
            }
    printf("%d rows of %d images, largest error %.2g\n", ROWS, IMAGES, largest);

    /* The order does not matter: objects keep those that they need alive. */
    rvit_buffer_destroy(out);
    rvit_buffer_destroy(lengths);
    rvit_buffer_destroy(qkv);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
    return largest < 1e-5 ? 0 : 1; /* a NaN fails too */
}
