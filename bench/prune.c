/* Measures the steps around attention: scoring and selecting by the rule of each policy, merging, packing, unpacking, and the layernorm
   that also packs. All images have the same length, as before a prune stage of a ViT. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "options.h"
#include "report.h"

enum { LIST = 16 };

typedef struct options {
    const char *json;
    rvit_device_desc device;
    rvit_dtype dtype;
    double keep;
    int32_t batches[LIST], n_batches, length, heads, head_dim, calls, repeats;
} options;

typedef struct stage {
    bench_device *d;
    const options *o;
    int32_t batch, length, dim;
    int64_t rows, kept;                                                     /* kept: rows that pack and similar steps process */
    rvit_buffer *x, *qkv, *cls_probs, *cu_seqlens, *counts, *gamma;         /* inputs */
    rvit_buffer *scores, *keep, *after, *src_rows, *next_rows, *metric;     /* arrays of select and bipartite_match */
    rvit_buffer *packed, *normed, *grid, *sizes, *key_bias, *packed_source; /* arrays of the steps that move rows; packed_source: rows that
                                                                               a layout names */
} stage;

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f16"),
    {"batch", "LIST", "images, each %s (default: 1,16,64,256)", OPTION_INTEGERS(options, batches, n_batches, 1, 4096)},
    {"len", "N", "tokens per image before the stage, %s (default: 197)", OPTION_INTEGER(options, length, 2, 65536)},
    {"keep", "R", "kept fraction, %s (default: 0.5)", OPTION_NUMBER(options, keep, 0, 1)},
    {"heads", "N", "%s (default: 12)", OPTION_INTEGER(options, heads, 1, 1024)},
    {"head-dim", "N", "%s (default: 64)", OPTION_INTEGER(options, head_dim, 1, 1024)},
    BENCH_REPEAT_ROWS(options),
};
static const struct option_command command = {
    .name = "",
    .arguments = "",
    .text = "Measures the steps around attention: scoring and selecting by the rule of each policy, merging, packing, unpacking, and the "
            "layernorm that also packs. --dtype: type of q, k, v and of normalised rows.",
};

static options parse(int argc, char **argv)
{
    options o = {.device = RVIT_DEVICE_DESC_INIT,
                 .dtype = RVIT_F16,
                 .batches = {1, 16, 64, 256},
                 .n_batches = 4,
                 .length = 197,
                 .keep = 0.5,
                 .heads = 12,
                 .head_dim = 64,
                 .calls = 20,
                 .repeats = 20};
    bench_parse("bench_prune", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o);
    return o;
}

static void select_by(const stage *s, rvit_select_mode mode, rvit_score_type score, bool fuse)
{
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = mode;
    args.score = score;
    args.n_images = s->batch;
    args.max_len = s->length;
    args.rows = s->rows;
    args.n_prefix = 1;
    args.threshold = 0.775f * (float)s->dim; /* about the mean of the squared norms */
    args.n_samples = (int32_t)(s->o->keep * (s->length - 1));
    args.mass = s->o->keep;
    args.dim = s->dim;
    args.n_heads = s->o->heads;
    args.cls_probs = view(s->cls_probs);
    args.dtype = RVIT_F32;
    args.x = view(s->x);
    if (score == RVIT_SCORE_CLS_NORM) { /* the value vectors in qkv */
        args.dtype = s->o->dtype;
        args.x = (rvit_view){s->qkv, 2 * (int64_t)s->dim * rvit_dtype_size(s->o->dtype)};
        args.x_stride = 3 * (int64_t)s->dim;
    }
    args.counts = view(s->counts);
    args.scores = view(s->scores);
    args.cu_seqlens = view(s->cu_seqlens);
    args.keep = view(s->keep);
    args.out_cu_seqlens = view(s->after);
    args.src_rows = view(s->src_rows);
    if (fuse) {
        args.fuse_dtype = RVIT_F32;
        args.fuse_dim = s->dim;
        args.fuse_x = view(s->x);
    }
    bench_check(rvit_select(s->d->stream, &args), "select");
}

static void select_l2(void *s)
{
    select_by(s, RVIT_SELECT_TOP_K, RVIT_SCORE_L2, false);
}

static void select_threshold(void *s)
{
    select_by(s, RVIT_SELECT_THRESHOLD, RVIT_SCORE_L2, false);
}

static void select_cls(void *s)
{
    select_by(s, RVIT_SELECT_TOP_K, RVIT_SCORE_CLS_ATTENTION, false);
}

static void select_fused(void *s)
{
    select_by(s, RVIT_SELECT_TOP_K, RVIT_SCORE_CLS_ATTENTION, true);
}

static void select_sample(void *s)
{
    select_by(s, RVIT_SELECT_SAMPLE, RVIT_SCORE_CLS_NORM, false);
}

static void select_mass(void *s)
{
    select_by(s, RVIT_SELECT_MASS, RVIT_SCORE_CLS_NORM, false);
}

static void match(void *user)
{
    const stage *s = user;
    rvit_bipartite_match_args args = RVIT_BIPARTITE_MATCH_ARGS_INIT;
    args.dtype = s->o->dtype;
    args.n_images = s->batch;
    args.max_len = s->length;
    args.rows = s->rows;
    args.n_prefix = 1;
    args.n_heads = s->o->heads;
    args.head_dim = s->o->head_dim;
    args.merges = 8;
    args.k = (rvit_view){s->qkv, s->dim * rvit_dtype_size(s->o->dtype)};
    args.k_stride = 3 * (int64_t)s->dim;
    args.cu_seqlens = view(s->cu_seqlens);
    args.metric = view(s->metric);
    args.keep = view(s->keep);
    args.out_cu_seqlens = view(s->after);
    args.src_rows = view(s->src_rows);
    args.next_rows = view(s->next_rows);
    bench_check(rvit_bipartite_match(s->d->stream, &args), "match");
}

/* Uses the layout of the last bipartite_match. */
static void merge(void *user)
{
    const stage *s = user;
    rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
    args.dtype = RVIT_F32;
    args.rows = (rvit_rows){s->rows, {s->after, (int64_t)s->batch * 4}, 0};
    args.x_rows = s->rows;
    args.dim = s->dim;
    args.x = view(s->x);
    args.src_rows = view(s->src_rows);
    args.next_rows = view(s->next_rows);
    args.out_x = view(s->packed);
    args.out_sizes = view(s->sizes);
    args.out_key_bias = view(s->key_bias);
    bench_check(rvit_merge(s->d->stream, &args), "merge");
}

static void pack(void *user)
{
    const stage *s = user;
    rvit_pack_args args = RVIT_PACK_ARGS_INIT;
    args.rows.capacity = s->kept;
    args.source_rows = s->rows;
    args.row_size = 4 * (int64_t)s->dim;
    args.source = view(s->x);
    args.src_rows = view(s->packed_source);
    args.destination = view(s->packed);
    bench_check(rvit_pack(s->d->stream, &args), "pack");
}

static void unpack(void *user)
{
    const stage *s = user;
    rvit_unpack_args args = RVIT_UNPACK_ARGS_INIT;
    args.dtype = RVIT_F32;
    args.rows.capacity = s->kept;
    args.destination_rows.capacity = s->rows;
    args.dim = s->dim;
    args.source = view(s->packed);
    args.src_rows = view(s->packed_source);
    args.destination = view(s->grid);
    bench_check(rvit_unpack(s->d->stream, &args), "unpack");
}

static void layernorm(const stage *s, bool gather)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = RVIT_F32;
    args.out_dtype = s->o->dtype;
    args.rows.capacity = s->kept;
    args.x_rows = s->rows;
    args.dim = s->dim;
    args.eps = 1e-6f;
    args.x = view(s->x);
    args.gamma = args.beta = view(s->gamma);
    args.out = view(s->normed);
    if (gather) {
        args.src_rows = view(s->packed_source);
        args.out_x = view(s->packed);
    }
    bench_check(rvit_layernorm(s->d->stream, &args), "layernorm");
}

static void layernorm_plain(void *s)
{
    layernorm(s, false);
}

static void layernorm_gather(void *s)
{
    layernorm(s, true);
}

static void copy(void *user)
{
    const stage *s = user;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = view(s->x);
    args.destination = view(s->packed);
    args.size = s->kept * 4 * s->dim;
    bench_check(rvit_copy(s->d->stream, &args), "copy");
}

static const struct step {
    const char *name, *what;
    void (*call)(void *stage);
} steps[] = {
    {"select l2", "squared norms, the best k", select_l2},
    {"select l2 threshold", "squared norms, those above a threshold", select_threshold},
    {"select cls", "CLS attention, the best k", select_cls},
    {"select cls fused", "the same, and the dropped rows summed to one token", select_fused},
    {"select sample", "CLS attention times value norms, sampled", select_sample},
    {"select mass", "the same, up to a share of the sum", select_mass},
    {"match", "finds 8 pairs of similar keys", match},
    {"merge", "averages these pairs", merge},
    {"pack", "gathers kept rows, f32", pack},
    {"unpack", "scatters them back to the grid", unpack},
    {"layernorm", "normalises the kept rows", layernorm_plain},
    {"layernorm gather", "gathers and normalises the kept rows", layernorm_gather},
    {"copy", "copies the kept rows by the driver", copy},
};
enum { N_STEPS = sizeof steps / sizeof steps[0] };

static stage open_stage(bench_device *d, const options *o, int32_t batch)
{
    const int32_t n_kept = (int32_t)(o->keep * (o->length - 1)), dim = o->heads * o->head_dim;
    stage s = {.d = d, .o = o, .batch = batch, .length = o->length, .dim = dim};
    s.rows = (int64_t)batch * o->length;
    s.kept = (int64_t)batch * (n_kept + 1);
    int32_t *counts = malloc((size_t)o->length * sizeof *counts + sizeof *counts);
    bench_check(rvit_count_table(RVIT_COUNT_FLOOR, o->keep, 1, o->length, counts), "counts");
    s.counts = data_upload(d, counts, ((int64_t)o->length + 1) * 4);
    free(counts);
    int32_t *source = malloc((size_t)s.kept * sizeof *source);
    for (int64_t i = 0; i < s.kept; i++) /* evenly spread */
        source[i] = (int32_t)(i / (n_kept + 1) * o->length + i % (n_kept + 1) * o->length / (n_kept + 1));
    s.packed_source = data_upload(d, source, s.kept * 4);
    free(source);
    s.x = data_random(d, s.rows * dim, RVIT_F32, 0);
    s.qkv = data_random(d, s.rows * 3 * dim, o->dtype, 0);
    s.gamma = data_random(d, dim, RVIT_F32, 0);
    s.cu_seqlens = data_lengths(d, batch, o->length);
    rvit_buffer **rows_of_4[] = {&s.scores, &s.src_rows, &s.next_rows, &s.sizes, &s.key_bias};
    for (int i = 0; i < 5; i++)
        *rows_of_4[i] = data_buffer(d, s.rows * 4);
    s.keep = data_buffer(d, s.rows + 4);
    s.after = data_buffer(d, ((int64_t)batch + 1) * 4);
    s.metric = data_buffer(d, s.rows * 4 * o->head_dim);
    s.cls_probs = data_buffer(d, s.rows * 4 * o->heads);
    rvit_buffer **arrays[] = {&s.packed, &s.normed, &s.grid};
    for (int i = 0; i < 3; i++)
        *arrays[i] = data_buffer(d, s.rows * 4 * dim);

    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    const int64_t element = rvit_dtype_size(o->dtype);
    args.dtype = o->dtype;
    args.n_images = batch;
    args.n_heads = o->heads;
    args.head_dim = o->head_dim;
    args.max_len = o->length;
    args.rows = s.rows;
    args.q = view(s.qkv);
    args.k = (rvit_view){s.qkv, dim * element};
    args.v = (rvit_view){s.qkv, 2 * dim * element};
    args.q_stride = args.k_stride = args.v_stride = 3 * (int64_t)dim;
    args.cu_seqlens = view(s.cu_seqlens);
    args.out = view(s.normed);
    args.cls_probs = view(s.cls_probs);
    bench_check(rvit_attention(d->stream, &args), "attention");
    return s;
}

static void close_stage(stage *s)
{
    rvit_buffer *buffers[] = {s->x,      s->qkv,    s->cls_probs, s->cu_seqlens, s->counts,    s->gamma,
                              s->scores, s->keep,   s->after,     s->src_rows,   s->next_rows, s->metric,
                              s->packed, s->normed, s->grid,      s->sizes,      s->key_bias,  s->packed_source};
    bench_device_drain(s->d);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        rvit_buffer_destroy(buffers[i]);
}

static void drain(void *user)
{
    bench_device_drain(((const stage *)user)->d);
}

static json_t *measure(stage *s, const struct step *step)
{
    double host[CLOCK_SAMPLES];
    const timed calls = {step->call, drain, s};
    step->call(s); /* the set-up of the first call is not measured */
    json_t *device_us = bench_device_recorded(s->d, step->call, s, s->o->calls, s->o->repeats);
    const int n_host = clock_host(&calls, 1e-6 * json_real_value(json_object_get(device_us, "median")), host);
    json_t *host_us = report_samples(host, n_host, 1e6);
    printf("%-6d %-20s %12.2f %12.2f   %s\n", s->batch, step->name, json_real_value(json_object_get(device_us, "median")),
           json_real_value(json_object_get(host_us, "median")), step->what);
    return json_pack("{s:i, s:s, s:s, s:i, s:f, s:o, s:o}", "batch", s->batch, "step", step->name, "what", step->what, "length", s->length,
                     "kept", (double)s->kept / s->batch, "device_us", device_us, "host_us", host_us);
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bench_device d = bench_device_open(&o.device);
    json_t *report = report_new("prune", d.device), *rows = json_array();
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.dtype)));
    json_object_set_new(report, "heads", json_integer(o.heads));
    json_object_set_new(report, "head_dim", json_integer(o.head_dim));
    json_object_set_new(report, "floor", bench_device_floor(&d));
    printf("%-6s %-20s %12s %12s\n", "batch", "step", "device us", "host us");
    for (int b = 0; b < o.n_batches; b++) {
        stage s = open_stage(&d, &o, o.batches[b]);
        for (int i = 0; i < N_STEPS; i++)
            json_array_append_new(rows, measure(&s, &steps[i]));
        close_stage(&s);
    }
    json_object_set_new(report, "results", rows);
    const int code = report_write(report, o.json);
    bench_device_close(&d);
    return code;
}
