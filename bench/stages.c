/* Measures the parts of a pruned forward: embedding and the blocks before the prune stage, the stage, the blocks after it, the head. The
   ops and their order are those of a session (core/forward/forward.c); each part is recorded as its own program. Weights are random. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "options.h"
#include "report.h"

enum { LIST = 16, DEPTH = 12, BEFORE = 4, CLASSES = 1000, PATCH = 16, REPEATS = 50, N_PARTS = 4 };

typedef struct options {
    const char *json;
    rvit_device_desc device;
    rvit_dtype dtype;
    double keep;
    int32_t batches[LIST], n_batches, size, dim, heads;
} options;

typedef struct block {
    rvit_buffer *qkv, *proj, *fc1, *fc2;
} block;

typedef struct forward {
    bench_device *d;
    const options *o;
    int32_t tokens, batch, n_kept;
    block blocks[DEPTH];
    rvit_buffer *patch, *embedding, *head, *ones, *zeros, *counts;                                       /* weights */
    rvit_buffer *images, *x[2], *normed, *wide, *cu_seqlens, *scores, *keep, *after, *src_rows, *logits; /* activations of a batch */
    /* State while ops are enqueued. */
    rvit_rows rows;
    int32_t max_len;
    rvit_buffer *layout;
    int at; /* index of the current x */
    bool gather;
    int first, last; /* the parts that are measured */
} forward;

/* The DeiT model with this number of heads. */
static const char *model_name(int heads)
{
    return heads == 3 ? "tiny" : heads == 6 ? "small" : heads == 12 ? "base" : NULL;
}

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f16"),
    {"model", "NAME", "DeiT's %s (default: base)", OPTION_CHOICE(options, heads, model_name, 3, 12)},
    {"size", "PX", "edge of an image, a multiple of 16 (default: 224)", OPTION_INTEGER(options, size, PATCH, 16384)},
    {"batch", "LIST", "images, each %s (default: 8,64)", OPTION_INTEGERS(options, batches, n_batches, 1, 4096)},
    {"keep", "R", "fraction that l2 keeps after block 3, %s (default: 0.5)", OPTION_NUMBER(options, keep, 0, 1)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "",
    .text =
        "Measures the parts of a pruned forward: embedding and the blocks before the prune stage, the stage, the blocks after it, and the "
        "head. Weights are random.",
};

static options parse(int argc, char **argv)
{
    options o = {
        .device = RVIT_DEVICE_DESC_INIT, .dtype = RVIT_F16, .batches = {8, 64}, .n_batches = 2, .keep = 0.5, .size = 224, .heads = 12};
    bench_parse("bench_stages", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o);
    if (o.size % PATCH != 0) {
        fprintf(stderr, "bench: --size is %d, expected a multiple of %d\n", o.size, PATCH);
        exit(2);
    }
    o.dim = 64 * o.heads;
    return o;
}

/* As in models: pixels are split into two values if the type would round them. */
static int32_t patch_parts(const options *o)
{
    return o->dtype == RVIT_F32 ? 1 : 2;
}

static int64_t patch_columns(const options *o)
{
    return patch_parts(o) * (int64_t)3 * PATCH * PATCH;
}

static rvit_buffer *weights(bench_device *d, const options *o, int64_t rows, int64_t columns)
{
    return data_random(d, rows * columns, o->dtype, 6);
}

static rvit_buffer *constant(bench_device *d, int64_t n, float value)
{
    float *host = malloc((size_t)n * sizeof *host);
    for (int64_t i = 0; i < n; i++)
        host[i] = value;
    rvit_buffer *buffer = data_upload(d, host, n * 4);
    free(host);
    return buffer;
}

static void load(forward *f, bench_device *d, const options *o)
{
    const int64_t dim = o->dim;
    *f = (forward){.d = d, .o = o, .tokens = 1 + (o->size / PATCH) * (o->size / PATCH)};
    for (int i = 0; i < DEPTH; i++)
        f->blocks[i] =
            (block){weights(d, o, 3 * dim, dim), weights(d, o, dim, dim), weights(d, o, 4 * dim, dim), weights(d, o, dim, 4 * dim)};
    f->patch = weights(d, o, dim, patch_columns(o));
    f->embedding = data_random(d, f->tokens * dim, RVIT_F32, 3);
    f->head = weights(d, o, CLASSES, dim);
    f->ones = constant(d, dim, 1);
    f->zeros = constant(d, 4 * dim, 0);
    int32_t *counts = malloc(((size_t)f->tokens + 1) * sizeof *counts);
    bench_check(rvit_count_table(RVIT_COUNT_FLOOR, o->keep, 0, f->tokens, counts), "counts");
    f->n_kept = counts[f->tokens];
    f->counts = data_upload(d, counts, ((int64_t)f->tokens + 1) * 4);
    free(counts);
}

static void open_batch(forward *f, int32_t batch)
{
    const int64_t rows = (int64_t)batch * f->tokens, dim = f->o->dim, element = rvit_dtype_size(f->o->dtype);
    const int64_t pixels = (int64_t)3 * f->o->size * f->o->size;
    f->batch = batch;
    f->images = data_random(f->d, batch * pixels, RVIT_F32, 0);
    for (int i = 0; i < 2; i++)
        f->x[i] = data_buffer(f->d, rows * dim * 4);
    f->normed = data_buffer(f->d, rows * dim * element);
    const int64_t patch = patch_columns(f->o), widest = patch > 4 * dim ? patch : 4 * dim;
    f->wide = data_buffer(f->d, rows * widest * element);
    f->cu_seqlens = data_buffer(f->d, ((int64_t)batch + 1) * 4);
    f->after = data_buffer(f->d, ((int64_t)batch + 1) * 4);
    f->scores = data_buffer(f->d, rows * 4);
    f->src_rows = data_buffer(f->d, rows * 4);
    f->keep = data_buffer(f->d, (rows + 3) / 4 * 4);
    f->logits = data_buffer(f->d, (int64_t)batch * CLASSES * 4);
}

static void close_batch(forward *f)
{
    rvit_buffer *buffers[] = {f->images, f->x[0],   f->x[1],     f->normed, f->wide,  f->cu_seqlens,
                              f->after,  f->scores, f->src_rows, f->keep,   f->logits};
    bench_device_drain(f->d);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        rvit_buffer_destroy(buffers[i]);
}

static void linear(forward *f, rvit_buffer *x, rvit_buffer *weight, rvit_buffer *out, int32_t in_features, int32_t out_features,
                   rvit_activation activation, bool residual)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = f->o->dtype;
    args.out_dtype = residual ? RVIT_F32 : f->o->dtype;
    args.rows = f->rows;
    args.in_features = in_features;
    args.out_features = out_features;
    args.activation = activation;
    args.x = view(x);
    args.weight = view(weight);
    /* A session's qkv GEMM also adds a 16-bit bias at no cost. The public op cannot, so there is no bias here. */
    if (residual || activation != RVIT_ACTIVATION_NONE || f->o->dtype == RVIT_F32)
        args.bias = view(f->zeros);
    if (residual)
        args.residual = view(out);
    args.out = view(out);
    bench_check(rvit_linear(f->d->stream, &args), "linear");
}

static void layernorm(forward *f)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = RVIT_F32;
    args.out_dtype = f->o->dtype;
    args.rows = f->rows;
    args.dim = f->o->dim;
    args.eps = 1e-6f;
    args.x = view(f->x[f->at]);
    args.gamma = view(f->ones);
    args.beta = view(f->zeros);
    args.out = view(f->normed);
    if (f->gather) {
        args.x_rows = (int64_t)f->batch * f->tokens;
        args.src_rows = view(f->src_rows);
        args.out_x = view(f->x[f->at = 1]);
        f->gather = false;
    }
    bench_check(rvit_layernorm(f->d->stream, &args), "layernorm");
}

static void add_block(forward *f, const block *w)
{
    const int32_t dim = f->o->dim;
    const int64_t element = rvit_dtype_size(f->o->dtype);
    layernorm(f);
    linear(f, f->normed, w->qkv, f->wide, dim, 3 * dim, RVIT_ACTIVATION_NONE, false);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = f->o->dtype;
    args.n_images = f->batch;
    args.n_heads = f->o->heads;
    args.head_dim = 64;
    args.max_len = f->max_len;
    args.rows = f->rows.capacity;
    args.q = view(f->wide);
    args.k = (rvit_view){f->wide, dim * element};
    args.v = (rvit_view){f->wide, 2 * dim * element};
    args.q_stride = args.k_stride = args.v_stride = 3 * (int64_t)dim;
    args.cu_seqlens = view(f->layout);
    args.out = view(f->normed);
    bench_check(rvit_attention(f->d->stream, &args), "attention");
    linear(f, f->normed, w->proj, f->x[f->at], dim, dim, RVIT_ACTIVATION_NONE, true);
    layernorm(f);
    linear(f, f->normed, w->fc1, f->wide, dim, 4 * dim, RVIT_ACTIVATION_GELU, false);
    linear(f, f->wide, w->fc2, f->x[f->at], 4 * dim, dim, RVIT_ACTIVATION_NONE, true);
}

static void add_front(forward *f)
{
    rvit_patchify_args patchify = RVIT_PATCHIFY_ARGS_INIT;
    patchify.dtype = f->o->dtype;
    patchify.n_images = f->batch;
    patchify.channels = 3;
    patchify.image_size = f->o->size;
    patchify.patch_size = PATCH;
    patchify.n_prefix = 1;
    patchify.split = patch_parts(f->o);
    patchify.images = view(f->images);
    patchify.out = view(f->wide);
    patchify.cu_seqlens = view(f->cu_seqlens);
    bench_check(rvit_patchify(f->d->stream, &patchify), "patchify");
    rvit_linear_args embed = RVIT_LINEAR_ARGS_INIT;
    embed.dtype = f->o->dtype;
    embed.out_dtype = RVIT_F32;
    embed.rows = f->rows;
    embed.in_features = (int32_t)patch_columns(f->o);
    embed.out_features = f->o->dim;
    embed.x = view(f->wide);
    embed.weight = view(f->patch);
    embed.residual = view(f->embedding);
    embed.residual_period = f->tokens;
    embed.out = view(f->x[0]);
    bench_check(rvit_linear(f->d->stream, &embed), "embedding");
    for (int i = 0; i < BEFORE; i++)
        add_block(f, &f->blocks[i]);
}

static void add_stage(forward *f)
{
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = RVIT_SELECT_TOP_K;
    args.score = RVIT_SCORE_L2;
    args.n_images = f->batch;
    args.max_len = f->tokens;
    args.rows = (int64_t)f->batch * f->tokens;
    args.n_prefix = 1;
    args.prefix_competes = 1;
    args.dtype = RVIT_F32;
    args.dim = f->o->dim;
    args.x = view(f->x[0]);
    args.counts = view(f->counts);
    args.scores = view(f->scores);
    args.cu_seqlens = view(f->cu_seqlens);
    args.keep = view(f->keep);
    args.out_cu_seqlens = view(f->after);
    args.src_rows = view(f->src_rows);
    bench_check(rvit_select(f->d->stream, &args), "select");
    /* If CLS is not among the best, one row more than the count is kept. */
    f->max_len = f->n_kept < f->tokens ? f->n_kept + 1 : f->tokens;
    f->rows = (rvit_rows){(int64_t)f->batch * f->max_len, {f->after, (int64_t)f->batch * 4}, 1};
    f->layout = f->after;
    f->gather = true;
}

static void add_rest(forward *f)
{
    for (int i = BEFORE; i < DEPTH; i++)
        add_block(f, &f->blocks[i]);
}

static void add_head(forward *f)
{
    rvit_head_args args = RVIT_HEAD_ARGS_INIT;
    args.dtype = RVIT_F32;
    args.weight_dtype = f->o->dtype;
    args.n_images = f->batch;
    args.rows = f->rows.capacity;
    args.dim = f->o->dim;
    args.n_tokens = 1;
    args.n_classes = CLASSES;
    args.eps = 1e-6f;
    args.x = view(f->x[f->at]);
    args.cu_seqlens = view(f->layout);
    args.gamma = view(f->ones);
    args.beta = view(f->zeros);
    args.weight = view(f->head);
    args.logits = view(f->logits);
    bench_check(rvit_head(f->d->stream, &args), "head");
}

static void begin_forward(forward *f)
{
    f->rows = (rvit_rows){(int64_t)f->batch * f->tokens, {NULL, 0}, 0};
    f->max_len = f->tokens;
    f->layout = f->cu_seqlens;
    f->at = 0;
    f->gather = false;
}

static const struct part {
    const char *name;
    void (*add)(forward *f);
} parts[N_PARTS] = {{"front", add_front}, {"prune", add_stage}, {"late", add_rest}, {"head", add_head}};

static void add_parts(void *user)
{
    forward *f = user;
    for (int i = f->first; i <= f->last; i++)
        parts[i].add(f);
}

/* Measures parts first .. last, recorded as one program. */
static json_t *measure(forward *f, int first, int last)
{
    f->first = first;
    f->last = last;
    return bench_device_recorded(f->d, add_parts, f, 1, REPEATS);
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bench_device d = bench_device_open(&o.device);
    json_t *report = report_new("stages", d.device), *rows = json_array();
    forward f;
    load(&f, &d, &o);
    json_object_set_new(report, "model", json_sprintf("deit_%s_patch16_%d", model_name(o.heads), o.size));
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.dtype)));
    json_object_set_new(report, "keep", json_real(o.keep));
    json_object_set_new(report, "floor", bench_device_floor(&d));
    printf("%-6s", "batch");
    for (int i = 0; i < N_PARTS; i++)
        printf(" %9s us", parts[i].name);
    printf(" %9s us\n", "whole");
    for (int b = 0; b < o.n_batches; b++) {
        open_batch(&f, o.batches[b]);
        begin_forward(&f);
        json_decref(measure(&f, 0, N_PARTS - 1)); /* fills the inputs of every part */
        json_t *row = json_pack("{s:i}", "batch", f.batch);
        begin_forward(&f);
        printf("%-6d", f.batch);
        for (int i = 0; i < N_PARTS; i++) {
            json_object_set_new(row, parts[i].name, measure(&f, i, i));
            printf(" %12.1f", json_real_value(json_object_get(json_object_get(row, parts[i].name), "median")));
        }
        begin_forward(&f);
        json_object_set_new(row, "whole", measure(&f, 0, N_PARTS - 1));
        printf(" %12.1f\n", json_real_value(json_object_get(json_object_get(row, "whole"), "median")));
        json_array_append_new(rows, row);
        close_batch(&f);
    }
    json_object_set_new(report, "results", rows);
    const int code = report_write(report, o.json);
    rvit_buffer *shared[] = {f.patch, f.embedding, f.head, f.ones, f.zeros, f.counts};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        rvit_buffer_destroy(shared[i]);
    for (int i = 0; i < DEPTH; i++) {
        rvit_buffer_destroy(f.blocks[i].qkv);
        rvit_buffer_destroy(f.blocks[i].proj);
        rvit_buffer_destroy(f.blocks[i].fc1);
        rvit_buffer_destroy(f.blocks[i].fc2);
    }
    bench_device_close(&d);
    return code;
}
