/* How long a process waits for its first result: device, checkpoint, model, session, one image. The kernels that a device has compiled are
   kept in a file, so that a second run starts with a warm cache. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "report.h"

enum { STEPS = 5 };

static void usage(FILE *out)
{
    fputs("usage: bench_start MODEL [options]\n"
          "  --backend cpu|vulkan|cuda|auto  default auto\n"
          "  --tier scalar|subgroup|matrix   default the device's\n"
          "  --dtype f32|f16                 default f16\n"
          "  --cache FILE                    read if it is there, and written\n"
          "  --json FILE                     write the results there as well\n",
          out);
}

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

int main(int argc, char **argv)
{
    static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
                                            {"tier", required_argument, NULL, 't'},
                                            {"dtype", required_argument, NULL, 'y'},
                                            {"cache", required_argument, NULL, 'c'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static const char *const names[STEPS] = {"device_ms", "checkpoint_ms", "model_ms", "session_ms", "first_run_ms"};
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    rvit_model_desc precision = RVIT_MODEL_DESC_INIT;
    precision.dtype = RVIT_F16;
    const char *cache = NULL, *json = NULL;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'b')
            desc.backend = bench_backend(optarg);
        else if (c == 't')
            desc.tier = bench_tier(optarg);
        else if (c == 'y')
            precision.dtype = optarg[1] == '3' ? RVIT_F32 : RVIT_F16;
        else if (c == 'c')
            cache = optarg;
        else if (c == 'j')
            json = optarg;
        else {
            usage(c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (optind != argc - 1) {
        usage(stderr);
        return 2;
    }
    void *blob = cache != NULL ? read_file(cache, &desc.cache_size) : NULL;
    desc.cache_data = blob;

    rvit_device *device;
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_session *session;
    rvit_session_desc session_desc = RVIT_SESSION_DESC_INIT;
    session_desc.max_images = 1;
    session_desc.prune.type = RVIT_PRUNE_L2;
    double at[STEPS + 1] = {report_seconds()};
    bench_check(rvit_device_create(&desc, &device), "device");
    at[1] = report_seconds();
    bench_check(rvit_checkpoint_open(argv[optind], NULL, &checkpoint), "checkpoint");
    at[2] = report_seconds();
    bench_check(rvit_model_create(device, checkpoint, &precision, &model), "model");
    at[3] = report_seconds();
    bench_check(rvit_session_create(model, &session_desc, &session), "session");
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    bench_check(rvit_model_get_info(model, &info), "model");
    float *logits = calloc((size_t)info.n_classes, sizeof *logits), *images = rvit_session_input(session);
    for (int64_t i = 0; i < (int64_t)info.channels * info.image_size * info.image_size; i++)
        images[i] = (float)(i % 7) - 3.0f;
    at[4] = report_seconds();
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = 1;
    bench_check(rvit_session_run(session, &run, logits), "run");
    at[5] = report_seconds();

    json_t *report = report_new("start", device);
    json_object_set_new(report, "model", json_string(info.architecture));
    json_object_set_new(report, "dtype", json_string(rvit_dtype_name(precision.dtype)));
    json_object_set_new(report, "cache_bytes", json_integer((json_int_t)desc.cache_size));
    for (int i = 0; i < STEPS; i++) {
        json_object_set_new(report, names[i], json_real(1e3 * (at[i + 1] - at[i])));
        printf("%-14s %8.2f\n", names[i], 1e3 * (at[i + 1] - at[i]));
    }
    json_object_set_new(report, "first_result_ms", json_real(1e3 * (at[STEPS] - at[0])));
    printf("%-14s %8.2f (%zu bytes of cache)\n", "first_result_ms", 1e3 * (at[STEPS] - at[0]), desc.cache_size);
    if (cache != NULL)
        write_cache(device, cache);
    const int code = report_write(report, json);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    rvit_device_destroy(device);
    free(logits);
    free(blob);
    return code;
}
