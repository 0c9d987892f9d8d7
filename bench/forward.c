/* How long a whole forward takes, dense and pruned, per batch size: host memory in, logits in host memory out, one synchronise.
   The variants take turns, so that a change of clock or load touches all alike. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { MAX_VARIANTS = 64, MAX_SAMPLES = 4096 };

typedef struct variant {
    int batch;
    double keep; /* 1: dense, no pruning */
    rvit_session *session;
    double samples[MAX_SAMPLES];
    int n_samples;
} variant;

typedef struct options {
    const char *model, *json;
    rvit_device_desc device;
    rvit_model_desc precision;
    rvit_prune_type prune;
    int batches[16], n_batches;
    double keeps[16], seconds;
    int n_keeps;
} options;

static void usage(FILE *out)
{
    fputs("usage: bench_forward MODEL [options]\n"
          "  --backend cpu|vulkan|auto  default auto\n"
          "  --threads N                CPU threads; default one a core\n"
          "  --dtype f32|f16            default f32\n"
          "  --prune NAME               policy of the pruned variants; default l2\n"
          "  --batch N,N,...            default 1,32\n"
          "  --keep R,R,...             kept fractions; 1 is the dense forward; default 1,0.5,0.2\n"
          "  --seconds S                measuring time for each variant; default 3\n"
          "  --json FILE                write the results there as well\n",
          out);
}

static void check(rvit_status status, const char *what)
{
    if (status == RVIT_OK)
        return;
    fprintf(stderr, "bench_forward: %s: %s: %s\n", what, rvit_status_name(status), rvit_status_detail());
    exit(1);
}

static int parse_list(const char *text, double *values, int capacity)
{
    int n = 0;
    while (*text != '\0' && n < capacity) {
        char *end;
        values[n++] = strtod(text, &end);
        if (end == text || (*end != ',' && *end != '\0')) {
            fprintf(stderr, "bench_forward: '%s' is not a list of numbers\n", text);
            exit(2);
        }
        text = *end == ',' ? end + 1 : end;
    }
    return n;
}

static rvit_backend parse_backend(const char *name)
{
    for (int b = RVIT_BACKEND_AUTO; b <= RVIT_BACKEND_VULKAN; b++)
        if (strcmp(name, rvit_backend_name((rvit_backend)b)) == 0)
            return (rvit_backend)b;
    fprintf(stderr, "bench_forward: no backend is called '%s'\n", name);
    exit(2);
}

static options parse(int argc, char **argv)
{
    static const struct option long_options[] = {{"backend", required_argument, NULL, 'd'}, {"threads", required_argument, NULL, 't'},
                                                 {"dtype", required_argument, NULL, 'y'},   {"prune", required_argument, NULL, 'p'},
                                                 {"batch", required_argument, NULL, 'b'},   {"keep", required_argument, NULL, 'k'},
                                                 {"seconds", required_argument, NULL, 's'}, {"json", required_argument, NULL, 'j'},
                                                 {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    options o = {.device = RVIT_DEVICE_DESC_INIT,
                 .precision = RVIT_MODEL_DESC_INIT,
                 .prune = RVIT_PRUNE_L2,
                 .batches = {1, 32},
                 .n_batches = 2,
                 .keeps = {1.0, 0.5, 0.2},
                 .n_keeps = 3,
                 .seconds = 3.0};
    double list[16];
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (c) {
        case 'd':
            o.device.backend = parse_backend(optarg);
            break;
        case 't':
            o.device.n_threads = atoi(optarg);
            break;
        case 'y':
            o.precision.dtype = strcmp(optarg, "f16") == 0 ? RVIT_F16 : RVIT_F32;
            break;
        case 'p':
            check(rvit_prune_from_name(optarg, &o.prune), "--prune");
            break;
        case 'b':
            o.n_batches = parse_list(optarg, list, 16);
            for (int i = 0; i < o.n_batches; i++)
                o.batches[i] = (int)list[i];
            break;
        case 'k':
            o.n_keeps = parse_list(optarg, o.keeps, 16);
            break;
        case 's':
            o.seconds = atof(optarg);
            break;
        case 'j':
            o.json = optarg;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind != argc - 1 || o.n_batches * o.n_keeps > MAX_VARIANTS) {
        usage(stderr);
        exit(2);
    }
    o.model = argv[optind];
    return o;
}

/* Normal deviates: the scale of normalised pixels, and nothing that compresses or saturates. */
static void fill_images(float *images, size_t n)
{
    unsigned long long state = 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < n; i++) {
        double u[2];
        for (int j = 0; j < 2; j++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            u[j] = ((double)(state >> 11) + 1.0) / 9007199254740993.0;
        }
        images[i] = (float)(sqrt(-2.0 * log(u[0])) * cos(6.283185307179586 * u[1]));
    }
}

static double run(variant *v, const float *images)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = v->batch;
    args.images = images;
    const double begin = report_seconds();
    check(rvit_session_run(v->session, &args, NULL), "run");
    return report_seconds() - begin;
}

static void measure(variant *variants, int n, const float *images, double seconds)
{
    for (int i = 0; i < n; i++) {
        run(&variants[i], images);
        run(&variants[i], images);
    }
    const double end = report_seconds() + seconds * n;
    for (int sample = 0; sample < MAX_SAMPLES && (sample < 5 || report_seconds() < end); sample++)
        for (int i = 0; i < n; i++) {
            /* A turn is about equally long for every batch size. */
            const int repeats = sample == 0 || variants[i].batch >= 8 ? 1 : 8 / variants[i].batch;
            for (int r = 0; r < repeats && variants[i].n_samples < MAX_SAMPLES; r++)
                variants[i].samples[variants[i].n_samples++] = run(&variants[i], images);
        }
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    rvit_device *device;
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    check(rvit_device_create(&o.device, &device), "device");
    check(rvit_checkpoint_open(o.model, NULL, &checkpoint), "checkpoint");
    check(rvit_checkpoint_get_info(checkpoint, &info), "checkpoint");
    check(rvit_model_create(device, checkpoint, &o.precision, &model), "model");
    rvit_checkpoint_destroy(checkpoint);

    variant *variants = calloc(MAX_VARIANTS, sizeof *variants);
    int n = 0, largest = 0;
    for (int b = 0; b < o.n_batches; b++) {
        for (int k = 0; k < o.n_keeps; k++, n++) {
            rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
            desc.max_images = variants[n].batch = o.batches[b];
            variants[n].keep = o.keeps[k];
            if (o.keeps[k] < 1.0) {
                desc.prune.type = o.prune;
                desc.prune.keep = o.keeps[k];
            }
            check(rvit_session_create(model, &desc, &variants[n].session), "session");
        }
        largest = o.batches[b] > largest ? o.batches[b] : largest;
    }
    const size_t n_values = (size_t)largest * (size_t)info.channels * (size_t)info.image_size * (size_t)info.image_size;
    float *images = malloc(n_values * sizeof *images);
    fill_images(images, n_values);
    measure(variants, n, images, o.seconds);

    rvit_prune_info policy = RVIT_PRUNE_INFO_INIT;
    for (int32_t i = 0; rvit_prune_list(i, &policy) == RVIT_OK && policy.type != o.prune;)
        i++;
    json_t *report = report_new("forward", device), *rows = json_array();
    json_object_set_new(report, "model", json_string(info.architecture));
    json_object_set_new(report, "dtype", json_string(rvit_dtype_name(o.precision.dtype)));
    printf("%-6s %-8s %-5s %12s %12s %10s\n", "batch", "prune", "keep", "ms/image", "images/s", "speed-up");
    for (int i = 0; i < n; i++) {
        const variant *dense = &variants[i / o.n_keeps * o.n_keeps];
        const char *name = variants[i].keep < 1.0 ? policy.name : "none";
        json_t *samples = report_samples(variants[i].samples, variants[i].n_samples, 1e3 / variants[i].batch);
        const double ms = json_real_value(json_object_get(samples, "median"));
        const double speed_up = dense->samples[dense->n_samples / 2] / variants[i].samples[variants[i].n_samples / 2];
        json_array_append_new(rows, json_pack("{s:i, s:s, s:f, s:o, s:f}", "batch", variants[i].batch, "prune", name, "keep",
                                              variants[i].keep, "ms_per_image", samples, "images_per_second", 1e3 / ms));
        printf("%-6d %-8s %-5.2f %12.3f %12.1f", variants[i].batch, name, variants[i].keep, ms, 1e3 / ms);
        if (dense->keep >= 1.0)
            printf(" %9.2fx", speed_up);
        putchar('\n');
        rvit_session_destroy(variants[i].session);
    }
    json_object_set_new(report, "results", rows);
    json_object_set_new(report, "peak_memory_bytes", json_integer(report_peak_memory()));
    printf("peak memory %.0f MB\n", (double)report_peak_memory() / 1e6);
    int code = 0;
    if (o.json != NULL && json_dump_file(report, o.json, JSON_INDENT(1)) != 0) {
        fprintf(stderr, "bench_forward: %s: cannot write\n", o.json);
        code = 1;
    }
    json_decref(report);
    free(images);
    free(variants);
    rvit_model_destroy(model);
    rvit_device_destroy(device);
    return code;
}
