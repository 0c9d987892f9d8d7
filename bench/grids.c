/* Measures the ops that images of different sizes need before the first block: layout, input rows, rotary angles. Patch grids are random.
   Each op is recorded several times into a program, so that the launch of the program hardly counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "options.h"
#include "report.h"

enum { LIST = 16, RUNS = 32, REPEATS = 30, HEAD_DIM = 64, PREFIX = 1, N_OPS = 3 };

typedef struct options {
    const char *json;
    rvit_device_desc device;
    rvit_dtype dtype;
    int32_t batches[LIST], n_batches, max_side, table, dim, resample;
} options;

typedef struct batch {
    bench_device *d;
    const options *o;
    int32_t n_images;
    int64_t rows, used;
    rvit_buffer *grids, *cu_seqlens, *patch_cu_seqlens, *token_map, *patches, *prefix, *table, *x, *frequencies, *angles;
    void (*add)(const struct batch *b); /* the op that is measured */
} batch;

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f16"),
    {"batch", "LIST", "images, each %s (default: 1,16,64,512)", OPTION_INTEGERS(options, batches, n_batches, 1, 4096)},
    {"side", "N", "an image's side has 1 to N patches, at random, %s (default: 32)", OPTION_INTEGER(options, max_side, 1, 512)},
    {"table", "N", "side of the position table, %s (default: 16)", OPTION_INTEGER(options, table, 1, 512)},
    {"dim", "N", "width, a multiple of 4, %s (default: 768)", OPTION_INTEGER(options, dim, 4, 8192)},
    {"resample", "NAME", "%s (default: bilinear-aa)",
     OPTION_CHOICE(options, resample, choice_resample, RVIT_RESAMPLE_BICUBIC, RVIT_RESAMPLE_NEAREST)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "",
    .text = "Measures the layout, the input rows and the rotary angles of a batch of images of random sizes.",
};

static batch open_batch(bench_device *d, const options *o, int32_t n_images)
{
    batch b = {.d = d, .o = o, .n_images = n_images, .rows = (int64_t)n_images * (PREFIX + (int64_t)o->max_side * o->max_side)};
    int32_t *grids = malloc((size_t)n_images * 2 * sizeof *grids);
    uint64_t x = REPORT_SEED;
    for (int32_t i = 0; i < 2 * n_images; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        grids[i] = 1 + (int32_t)((x >> 33) % (uint64_t)o->max_side);
        b.used += i % 2 ? PREFIX + grids[i] * grids[i - 1] : 0;
    }
    float frequencies[HEAD_DIM / 2];
    bench_check(rvit_rope_frequencies(RVIT_ROPE_CENTRED, 100, HEAD_DIM, frequencies), "frequencies");
    b.grids = data_upload(d, grids, (int64_t)n_images * 8);
    b.frequencies = data_upload(d, frequencies, sizeof frequencies);
    b.cu_seqlens = data_buffer(d, (n_images + (int64_t)1) * 4);
    b.patch_cu_seqlens = data_buffer(d, (n_images + (int64_t)1) * 4);
    b.token_map = data_buffer(d, b.rows * 16);
    b.patches = data_random(d, b.rows * o->dim, o->dtype, 0);
    b.prefix = data_random(d, PREFIX * (int64_t)o->dim, RVIT_F32, 0);
    b.table = data_random(d, (int64_t)o->table * o->table * o->dim, RVIT_F32, 0);
    b.x = data_buffer(d, b.rows * o->dim * 4);
    b.angles = data_buffer(d, b.rows * HEAD_DIM * 4);
    free(grids);
    return b;
}

static void close_batch(batch *b)
{
    rvit_buffer *buffers[] = {b->grids, b->frequencies, b->cu_seqlens, b->patch_cu_seqlens, b->token_map, b->patches, b->prefix,
                              b->table, b->x,           b->angles};
    bench_device_drain(b->d);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        rvit_buffer_destroy(buffers[i]);
}

static rvit_rows rows_of(const batch *b)
{
    return (rvit_rows){b->rows, {b->cu_seqlens, (int64_t)b->n_images * 4}, 0};
}

static void add_layout(const batch *b)
{
    rvit_grid_layout_args a = RVIT_GRID_LAYOUT_ARGS_INIT;
    a.n_images = b->n_images, a.n_prefix = PREFIX, a.max_len = (int32_t)(b->rows / b->n_images), a.rows = b->rows;
    a.grids = view(b->grids), a.cu_seqlens = view(b->cu_seqlens), a.patch_cu_seqlens = view(b->patch_cu_seqlens),
    a.token_map = view(b->token_map);
    bench_check(rvit_grid_layout(b->d->stream, &a), "grid_layout");
}

static void add_embed(const batch *b)
{
    rvit_embed_args a = RVIT_EMBED_ARGS_INIT;
    a.dtype = b->o->dtype, a.rows = rows_of(b), a.patch_rows = b->rows, a.dim = b->o->dim, a.n_prefix = PREFIX;
    a.resample = (rvit_resample)b->o->resample, a.table_height = a.table_width = b->o->table;
    a.token_map = view(b->token_map), a.patches = view(b->patches), a.prefix = view(b->prefix), a.table = view(b->table),
    a.out = view(b->x);
    bench_check(rvit_embed(b->d->stream, &a), "embed");
}

static void add_angles(const batch *b)
{
    rvit_grid_rope_args a = RVIT_GRID_ROPE_ARGS_INIT;
    a.rows = rows_of(b), a.head_dim = HEAD_DIM, a.coordinates = RVIT_ROPE_CENTRED;
    a.token_map = view(b->token_map), a.frequencies = view(b->frequencies), a.out = view(b->angles);
    bench_check(rvit_grid_rope(b->d->stream, &a), "grid_rope");
}

static const struct part {
    const char *name;
    void (*add)(const batch *b);
} parts[N_OPS] = {{"grid_layout", add_layout}, {"embed", add_embed}, {"grid_rope", add_angles}};

static void add(void *user)
{
    const batch *b = user;
    b->add(b);
}

static json_t *measure(batch *b, const struct part *part)
{
    b->add = part->add;
    return bench_device_recorded(b->d, add, b, RUNS, REPEATS);
}

int main(int argc, char **argv)
{
    options o = {.device = RVIT_DEVICE_DESC_INIT,
                 .dtype = RVIT_F16,
                 .batches = {1, 16, 64, 512},
                 .n_batches = 4,
                 .max_side = 32,
                 .table = 16,
                 .dim = 768,
                 .resample = RVIT_RESAMPLE_BILINEAR_ANTIALIAS};
    bench_parse("bench_grids", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o);
    bench_device d = bench_device_open(&o.device);
    json_t *report = report_new("grids", d.device), *rows = json_array();
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.dtype)));
    json_object_set_new(report, "resample", json_string(choice_resample(o.resample)));
    json_object_set_new(report, "shape",
                        json_pack("{s:i,s:i,s:i,s:i}", "most_side", o.max_side, "table", o.table, "dim", o.dim, "head_dim", HEAD_DIM));
    printf("%-6s %8s", "batch", "rows");
    for (int i = 0; i < N_OPS; i++)
        printf(" %12s us", parts[i].name);
    printf("   embed GB/s\n");
    for (int i = 0; i < o.n_batches; i++) {
        batch b = open_batch(&d, &o, o.batches[i]);
        json_t *row = json_pack("{s:i,s:I}", "batch", b.n_images, "rows", (json_int_t)b.used);
        double us[N_OPS];
        printf("%-6d %8lld", b.n_images, (long long)b.used);
        for (int p = 0; p < N_OPS; p++) {
            json_t *samples = measure(&b, &parts[p]);
            us[p] = json_real_value(json_object_get(samples, "median"));
            json_object_set_new(row, parts[p].name, samples);
            printf(" %15.2f", us[p]);
        }
        /* The minimal traffic: one patch row read and one row written. */
        const double bytes = (double)b.used * o.dim * (double)(4 + rvit_dtype_size(o.dtype));
        json_object_set_new(row, "embed_gb_s", json_real(bytes / us[1] * 1e-3));
        printf(" %12.0f\n", bytes / us[1] * 1e-3);
        json_array_append_new(rows, row);
        close_batch(&b);
    }
    json_object_set_new(report, "results", rows);
    const int code = report_write(report, o.json);
    bench_device_close(&d);
    return code;
}
