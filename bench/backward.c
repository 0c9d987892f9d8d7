/* Measures the gradient of attention on the device, by replaying a program of many calls. All images have the same length; q, k, v and
   their gradients are [rows, 3, heads, head_dim]. Prints one JSON object per line and point. */
#include <stdio.h>
#include <stdlib.h>

#include "data.h"
#include "options.h"
#include "report.h"

enum { LIST = 16 };

typedef struct options {
    const char *json;
    rvit_device_desc device;
    rvit_dtype dtype;
    int32_t images[LIST], tokens[LIST], heads[LIST], n_images, n_tokens, n_heads, head_dim, extras, calls, repeats;
} options;

typedef struct point {
    bench_device *d;
    rvit_attention_backward_args args;
    rvit_buffer *qkv, *d_qkv, *out, *d_out, *cu_seqlens, *lse, *key_bias, *d_key_bias, *workspace;
} point;

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f16"),
    {"images", "LIST", "images per batch, each %s (default: 16,64,256)", OPTION_INTEGERS(options, images, n_images, 1, 4096)},
    {"tokens", "LIST", "tokens per image, each %s (default: 197,577)", OPTION_INTEGERS(options, tokens, n_tokens, 1, 65536)},
    {"heads", "LIST", "numbers of heads, each %s (default: 3,6,12)", OPTION_INTEGERS(options, heads, n_heads, 1, 1024)},
    {"head-dim", "N", "%s (default: 64)", OPTION_INTEGER(options, head_dim, 8, 128)},
    {"extras", "N", "1: with a key bias and its gradient, %s (default: 0)", OPTION_INTEGER(options, extras, 0, 1)},
    BENCH_REPEAT_ROWS(options),
};
static const struct option_command command = {
    .name = "",
    .arguments = "",
    .text = "Measures the gradient of attention on the device, for each number of heads, batch size and length.",
};

static options parse(int argc, char **argv)
{
    options o = {.device = RVIT_DEVICE_DESC_INIT,
                 .dtype = RVIT_F16,
                 .images = {16, 64, 256},
                 .n_images = 3,
                 .tokens = {197, 577},
                 .n_tokens = 2,
                 .heads = {3, 6, 12},
                 .n_heads = 3,
                 .head_dim = 64,
                 .calls = 20,
                 .repeats = 20};
    bench_parse("bench_backward", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o);
    return o;
}

/* out and lse as the forward writes them. */
static void run_forward(const point *p)
{
    const rvit_attention_backward_args *a = &p->args;
    rvit_attention_args f = RVIT_ATTENTION_ARGS_INIT;
    f.dtype = a->dtype;
    f.n_images = a->n_images;
    f.n_heads = a->n_heads;
    f.head_dim = a->head_dim;
    f.max_len = a->max_len;
    f.rows = a->rows;
    f.q = a->q, f.k = a->k, f.v = a->v;
    f.q_stride = f.k_stride = f.v_stride = a->q_stride;
    f.cu_seqlens = a->cu_seqlens;
    f.key_bias = a->key_bias;
    f.out = a->out;
    f.lse = a->lse;
    bench_check(rvit_attention(p->d->stream, &f), "attention");
}

static void make_arrays(point *p, const options *o)
{
    rvit_attention_backward_args *a = &p->args;
    const int64_t width = (int64_t)a->n_heads * a->head_dim, element = rvit_dtype_size(a->dtype), n = a->rows * width;
    p->qkv = data_random(p->d, 3 * n, a->dtype, 0);
    p->d_qkv = data_buffer(p->d, 3 * n * element);
    p->out = data_buffer(p->d, n * element);
    p->d_out = data_random(p->d, n, a->dtype, 0);
    p->cu_seqlens = data_lengths(p->d, a->n_images, a->max_len);
    p->lse = data_buffer(p->d, a->rows * a->n_heads * 4);
    p->key_bias = o->extras ? data_random(p->d, a->rows, RVIT_F32, 0) : NULL;
    p->d_key_bias = o->extras ? data_buffer(p->d, a->rows * 4) : NULL;
    a->q = view(p->qkv), a->d_q = view(p->d_qkv);
    a->k = (rvit_view){p->qkv, width * element}, a->d_k = (rvit_view){p->d_qkv, width * element};
    a->v = (rvit_view){p->qkv, 2 * width * element}, a->d_v = (rvit_view){p->d_qkv, 2 * width * element};
    a->q_stride = a->k_stride = a->v_stride = a->d_q_stride = a->d_k_stride = a->d_v_stride = 3 * width;
    a->cu_seqlens = view(p->cu_seqlens);
    a->out = view(p->out), a->d_out = view(p->d_out);
    a->lse = view(p->lse);
    a->key_bias = view(p->key_bias), a->d_key_bias = view(p->d_key_bias);
    p->workspace = data_buffer(p->d, rvit_attention_backward_workspace(a));
    a->workspace = view(p->workspace);
}

static void call_once(void *user)
{
    const point *p = user;
    bench_check(rvit_attention_backward(p->d->stream, &p->args), "attention_backward");
}

static point open_point(bench_device *d, const options *o, int heads, int images, int tokens)
{
    point p = {.d = d, .args = RVIT_ATTENTION_BACKWARD_ARGS_INIT};
    p.args.dtype = o->dtype;
    p.args.n_images = images;
    p.args.n_heads = heads;
    p.args.head_dim = o->head_dim;
    p.args.max_len = tokens;
    p.args.rows = (int64_t)images * tokens;
    make_arrays(&p, o);
    run_forward(&p);
    call_once(&p); /* the set-up of the first call is not measured */
    return p;
}

static void close_point(point *p)
{
    bench_device_drain(p->d);
    rvit_buffer *const buffers[] = {p->qkv, p->d_qkv, p->out, p->d_out, p->cu_seqlens, p->lse, p->key_bias, p->d_key_bias, p->workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        rvit_buffer_destroy(buffers[i]);
}

static json_t *measure(point *p, const options *o)
{
    json_t *us = bench_device_recorded(p->d, call_once, p, o->calls, o->repeats);
    const rvit_attention_backward_args *a = &p->args;
    /* The gradient takes five matrix multiplications. */
    const double flops = 10.0 * a->n_images * a->n_heads * a->max_len * a->max_len * a->head_dim;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "dtype", rvit_enum_name(RVIT_ENUM_DTYPE, a->dtype), "heads", a->n_heads,
                     "head_dim", a->head_dim, "images", a->n_images, "tokens", a->max_len, "extras", o->extras, "tflops",
                     1e-6 * flops / json_real_value(json_object_get(us, "median")), "device_us", us);
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bench_device d = bench_device_open(&o.device);
    json_t *report = report_new("backward", d.device), *rows = json_array();
    for (int h = 0; h < o.n_heads; h++)
        for (int l = 0; l < o.n_tokens; l++)
            for (int b = 0; b < o.n_images; b++) {
                point p = open_point(&d, &o, o.heads[h], o.images[b], o.tokens[l]);
                json_t *row = measure(&p, &o);
                json_dumpf(row, stdout, JSON_COMPACT);
                printf("\n");
                fflush(stdout);
                json_array_append_new(rows, row);
                close_point(&p);
            }
    json_object_set_new(report, "results", rows);
    const int code = report_write(report, o.json);
    bench_device_close(&d);
    return code;
}
