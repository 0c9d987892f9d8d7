/* Measures the time to a process's first result: device, checkpoint, model, session, one image. Compiled kernels are kept in a file, so
   that a second run starts with a warm cache. */
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "options.h"
#include "report.h"

enum { STEPS = 5 };

typedef struct options {
    const char *json, *cache;
    rvit_device_desc device;
    rvit_dtype dtype;
} options;

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f16"),
    {"cache", "FILE", "the cache of compiled kernels: read if it exists, then written", OPTION_TEXT(options, cache)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "MODEL",
    .text = "Measures the time to the first result of a process: device, checkpoint, model, session, one image.",
    .min_arguments = 1,
    .max_arguments = 1,
};

/* The objects opened on the way to the first result. */
typedef struct opened {
    rvit_device *device;
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_session *session;
    rvit_model_info info;
} opened;

static void *read_file(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    void *data = malloc(1 << 26);
    *out_size = data != NULL ? fread(data, 1, 1 << 26, file) : 0;
    fclose(file);
    return data;
}

static void write_cache(rvit_device *device, const char *path)
{
    size_t size = 0;
    bench_check(rvit_device_get_cache(device, NULL, 0, &size), "cache");
    void *data = malloc(size + 1);
    bench_check(rvit_device_get_cache(device, data, size, &size), "cache");
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        fprintf(stderr, "bench_start: %s: cannot write\n", path);
    free(data);
}

/* seconds [STEPS + 1]: start time of each step, and end of the last. */
static opened first_result(const options *o, const char *path, double *seconds)
{
    opened out = {.info = RVIT_MODEL_INFO_INIT};
    rvit_model_desc precision = RVIT_MODEL_DESC_INIT;
    precision.dtype = o->dtype;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 1;
    rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
    prune.type = RVIT_PRUNE_L2;
    desc.prune = &prune;
    seconds[0] = report_seconds();
    bench_check(rvit_device_create(&o->device, &out.device), "device");
    seconds[1] = report_seconds();
    bench_check(rvit_checkpoint_open(path, NULL, &out.checkpoint), "checkpoint");
    seconds[2] = report_seconds();
    bench_check(rvit_model_create(out.device, out.checkpoint, &precision, &out.model), "model");
    seconds[3] = report_seconds();
    bench_check(rvit_session_create(out.model, &desc, &out.session), "session");
    bench_check(rvit_model_get_info(out.model, &out.info), "model");
    float *logits = calloc((size_t)out.info.n_classes, sizeof *logits), *images = rvit_session_input_memory(out.session, NULL);
    for (int64_t i = 0; i < (int64_t)out.info.channels * out.info.image_size * out.info.image_size; i++)
        images[i] = (float)(i % 7) - 3.0f;
    seconds[4] = report_seconds();
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = 1;
    bench_check(rvit_session_run(out.session, &run, logits), "run");
    seconds[5] = report_seconds();
    free(logits);
    return out;
}

int main(int argc, char **argv)
{
    static const char *const names[STEPS] = {"device_ms", "checkpoint_ms", "model_ms", "session_ms", "first_run_ms"};
    options o = {.device = RVIT_DEVICE_DESC_INIT, .dtype = RVIT_F16};
    const char *path = argv[bench_parse("bench_start", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o)];
    void *blob = o.cache != NULL ? read_file(o.cache, &o.device.cache_size) : NULL;
    o.device.cache_data = blob;
    double at[STEPS + 1];
    opened all = first_result(&o, path, at);

    json_t *report = report_new("start", all.device);
    json_object_set_new(report, "model", json_string(all.info.architecture));
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.dtype)));
    json_object_set_new(report, "cache_bytes", json_integer((json_int_t)o.device.cache_size));
    for (int i = 0; i < STEPS; i++) {
        json_object_set_new(report, names[i], json_real(1e3 * (at[i + 1] - at[i])));
        printf("%-14s %8.2f\n", names[i], 1e3 * (at[i + 1] - at[i]));
    }
    json_object_set_new(report, "first_result_ms", json_real(1e3 * (at[STEPS] - at[0])));
    printf("%-14s %8.2f (%zu bytes of cache)\n", "first_result_ms", 1e3 * (at[STEPS] - at[0]), o.device.cache_size);
    if (o.cache != NULL)
        write_cache(all.device, o.cache);
    const int code = report_write(report, o.json);
    rvit_session_destroy(all.session);
    rvit_model_destroy(all.model);
    rvit_checkpoint_destroy(all.checkpoint);
    rvit_device_destroy(all.device);
    free(blob);
    return code;
}
