/* Measures one call of attention, rope or attention_received: on the device by replaying a program of many calls, on the host by enqueueing
   one. The launch of an empty kernel is the floor. All images have the same length; q, k and v are [rows, 3, heads, head_dim], as the qkv
   GEMM writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "options.h"
#include "report.h"

enum { LIST = 16, COUNTED = 10 };

typedef enum bench_op { OP_ATTENTION, OP_ROPE, OP_RECEIVED } bench_op;

typedef struct options {
    const char *json;
    rvit_device_desc device;
    rvit_dtype dtype;
    bench_op op;
    int32_t batches[LIST], lengths[LIST], n_batches, n_lengths, heads, head_dim, calls, repeats;
} options;

typedef struct point {
    bench_device *d;
    bench_op op;
    rvit_attention_args args;
    rvit_rope_args rope;
    rvit_attention_received_args received;
    rvit_buffer *qkv, *cu_seqlens, *out, *lse, *received_out, *table;
    int batch, length;
} point;

static const char *choice_op(int op)
{
    static const char *const names[] = {"attention", "rope", "received"};
    return names[op];
}

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f16"),
    {"op", "NAME", "%s (default: attention)", OPTION_CHOICE(options, op, choice_op, OP_ATTENTION, OP_RECEIVED)},
    {"batch", "LIST", "images, each %s (default: 1,4,16,64,256)", OPTION_INTEGERS(options, batches, n_batches, 1, 4096)},
    {"len", "LIST", "tokens of every image, each %s (default: 197,99,41,21)", OPTION_INTEGERS(options, lengths, n_lengths, 1, 65536)},
    {"heads", "N", "%s (default: 12)", OPTION_INTEGER(options, heads, 1, 1024)},
    {"head-dim", "N", "%s (default: 64)", OPTION_INTEGER(options, head_dim, 1, 1024)},
    BENCH_REPEAT_ROWS(options),
};
static const struct option_command command = {
    .name = "",
    .arguments = "",
    .text =
        "Measures one attention, rope or attention_received on the device and on the host, for each batch size and length, and an empty "
        "launch.",
};

static options parse(int argc, char **argv)
{
    options o = {.device = RVIT_DEVICE_DESC_INIT,
                 .dtype = RVIT_F16,
                 .batches = {1, 4, 16, 64, 256},
                 .n_batches = 5,
                 .lengths = {197, 99, 41, 21},
                 .n_lengths = 4,
                 .heads = 12,
                 .head_dim = 64,
                 .calls = 20,
                 .repeats = 20};
    bench_parse("bench_attention", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o);
    return o;
}

static rvit_status enqueue(const point *p)
{
    rvit_stream *stream = p->d->stream;
    switch (p->op) {
    case OP_ROPE:
        return rvit_rope(stream, &p->rope);
    case OP_RECEIVED:
        return rvit_attention_received(stream, &p->received);
    default:
        return rvit_attention(stream, &p->args);
    }
}

/* Per position: the cosines of head_dim / 2 angles, then their sines. */
static rvit_buffer *make_table(bench_device *d, int32_t n_positions, int32_t head_dim)
{
    const int64_t size = (int64_t)n_positions * head_dim * (int64_t)sizeof(float);
    float *table = malloc((size_t)size);
    if (table == NULL)
        bench_check(RVIT_OUT_OF_HOST_MEMORY, "table");
    for (int32_t p = 0; p < n_positions; p++)
        for (int32_t j = 0; j < head_dim / 2; j++) {
            const double angle = p * pow(100.0, -2.0 * j / head_dim);
            table[p * head_dim + j] = (float)cos(angle);
            table[p * head_dim + head_dim / 2 + j] = (float)sin(angle);
        }
    rvit_buffer *buffer = data_upload(d, table, size);
    free(table);
    return buffer;
}

/* Sets the arguments of rope and attention_received, copied from those of attention where they are the same. */
static void open_others(point *p, const options *o, int64_t rows)
{
    p->lse = data_buffer(p->d, rows * o->heads * 4);
    p->received_out = data_buffer(p->d, rows * o->heads * 4);
    p->table = make_table(p->d, p->length, o->head_dim);
    p->rope = (rvit_rope_args){.struct_size = sizeof p->rope,
                               .dtype = o->dtype,
                               .rows.capacity = rows,
                               .n_heads = o->heads,
                               .head_dim = o->head_dim,
                               .n_positions = p->length,
                               .n_prefix = 1,
                               .q = p->args.q,
                               .k = p->args.k,
                               .q_stride = p->args.q_stride,
                               .k_stride = p->args.k_stride,
                               .table = {p->table, 0}};
    p->received = (rvit_attention_received_args){.struct_size = sizeof p->received,
                                                 .dtype = o->dtype,
                                                 .n_images = p->args.n_images,
                                                 .n_heads = o->heads,
                                                 .head_dim = o->head_dim,
                                                 .max_len = p->length,
                                                 .rows = rows,
                                                 .q = p->args.q,
                                                 .k = p->args.k,
                                                 .q_stride = p->args.q_stride,
                                                 .k_stride = p->args.k_stride,
                                                 .cu_seqlens = p->args.cu_seqlens,
                                                 .lse = {p->lse, 0},
                                                 .out = {p->received_out, 0}};
    rvit_attention_args first = p->args;
    first.lse = p->received.lse;
    bench_check(rvit_attention(p->d->stream, &first), "attention");
}

static point open_point(bench_device *d, const options *o, int batch, int length)
{
    point p = {.d = d, .op = o->op, .args = RVIT_ATTENTION_ARGS_INIT, .batch = batch, .length = length};
    const int64_t rows = (int64_t)batch * length, width = (int64_t)o->heads * o->head_dim, element = rvit_dtype_size(o->dtype);
    p.qkv = data_random(d, rows * 3 * width, o->dtype, 0);
    p.cu_seqlens = data_lengths(d, batch, length);
    p.out = data_buffer(d, rows * width * element);
    p.args.dtype = o->dtype;
    p.args.n_images = batch;
    p.args.n_heads = o->heads;
    p.args.head_dim = o->head_dim;
    p.args.max_len = length;
    p.args.rows = rows;
    p.args.q = view(p.qkv);
    p.args.k = (rvit_view){p.qkv, width * element};
    p.args.v = (rvit_view){p.qkv, 2 * width * element};
    p.args.q_stride = p.args.k_stride = p.args.v_stride = 3 * width;
    p.args.cu_seqlens = view(p.cu_seqlens);
    p.args.out = view(p.out);
    open_others(&p, o, rows);
    bench_check(enqueue(&p), choice_op(p.op)); /* the set-up of the first call is not measured */
    return p;
}

static void close_point(point *p)
{
    bench_device_drain(p->d);
    rvit_buffer_destroy(p->qkv);
    rvit_buffer_destroy(p->cu_seqlens);
    rvit_buffer_destroy(p->out);
    rvit_buffer_destroy(p->lse);
    rvit_buffer_destroy(p->received_out);
    rvit_buffer_destroy(p->table);
}

static void call_once(void *user)
{
    const point *p = user;
    bench_check(enqueue(p), choice_op(p->op));
}

static void drain(void *user)
{
    bench_device_drain(((point *)user)->d);
}

/* The difference of the stream's counters over the eager calls. */
static json_t *count(const rvit_stats *before, const rvit_stats *after)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "launches", (json_int_t)(after->launches - before->launches), "submits",
                     (json_int_t)(after->submits - before->submits), "synchronizations",
                     (json_int_t)(after->synchronizations - before->synchronizations), "host_allocations",
                     (json_int_t)(after->host_allocations - before->host_allocations), "device_allocations",
                     (json_int_t)(after->device_allocations - before->device_allocations));
}

static json_t *measure(point *p, const options *o)
{
    double host[CLOCK_SAMPLES];
    const timed calls = {call_once, drain, p};
    json_t *device_us = bench_device_recorded(p->d, call_once, p, o->calls, o->repeats);
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    bench_check(rvit_stream_get_stats(p->d->stream, &before), "stats");
    for (int i = 0; i < COUNTED; i++)
        call_once(p);
    bench_check(rvit_stream_get_stats(p->d->stream, &after), "stats");
    bench_device_drain(p->d);
    const int n_host = clock_host(&calls, 1e-6 * json_real_value(json_object_get(device_us, "median")), host);
    json_t *host_us = report_samples(host, n_host, 1e6);
    printf("%-6d %-6d %12.2f %12.2f\n", p->batch, p->length, json_real_value(json_object_get(device_us, "median")),
           json_real_value(json_object_get(host_us, "median")));
    return json_pack("{s:i, s:i, s:o, s:o, s:o}", "batch", p->batch, "length", p->length, "device_us", device_us, "host_us", host_us,
                     "ten_calls", count(&before, &after));
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bench_device d = bench_device_open(&o.device);
    json_t *report = report_new("attention", d.device), *rows = json_array();
    json_object_set_new(report, "op", json_string(choice_op(o.op)));
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.dtype)));
    json_object_set_new(report, "heads", json_integer(o.heads));
    json_object_set_new(report, "head_dim", json_integer(o.head_dim));
    json_object_set_new(report, "floor_before", bench_device_floor(&d));
    if (d.cuda != NULL)
        json_object_set_new(report, "copy_bytes_per_second", json_real(cuda_clock_copy(d.cuda, 1ll << 28)));
    printf("%-6s %-6s %12s %12s\n", "batch", "len", "device us", "host us");
    for (int b = 0; b < o.n_batches; b++)
        for (int l = 0; l < o.n_lengths; l++) {
            point p = open_point(&d, &o, o.batches[b], o.lengths[l]);
            json_array_append_new(rows, measure(&p, &o));
            close_point(&p);
        }
    json_object_set_new(report, "results", rows);
    json_object_set_new(report, "floor_after", bench_device_floor(&d));
    const int code = report_write(report, o.json);
    bench_device_close(&d);
    return code;
}
