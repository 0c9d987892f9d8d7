/* Loads a KServe v2 server on this machine, compares every answer with that of a direct session, and measures throughput, latency and the
   CPU time of the server. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "direct.h"
#include "load.h"
#include "options.h"
#include "report.h"

enum { LIST = 16 };

typedef enum expectation { EXPECT_DIRECT, EXPECT_SERVER, EXPECT_ZEROS, EXPECTATIONS } expectation;

typedef struct options {
    const char *json, *sheet;
    infer_target target;
    direct_options direct;
    load_options load;
    int32_t clients[LIST], n_clients, rates[LIST], n_rates, n_distinct, edge;
    double wait;
    int32_t transport, input, expect; /* of infer_transport, infer_input, expectation */
} options;

static const char *expectation_name(int value)
{
    static const char *const names[EXPECTATIONS] = {"direct", "server", "zeros"};
    return value >= 0 && value < EXPECTATIONS ? names[value] : NULL;
}

static const struct option_row option_rows[] = {
    {"transport", "NAME", "%s (default: http); shared: tensors are in system shared memory",
     OPTION_CHOICE(options, transport, infer_transport_name, 0, INFER_TRANSPORTS - 1)},
    {"http-port", "N", "port on 127.0.0.1, %s (default: 8000)", OPTION_INTEGER(options, target.http_port, 1, 65535)},
    {"grpc-port", "N", "port on 127.0.0.1, %s (default: 8001)", OPTION_INTEGER(options, target.grpc_port, 1, 65535)},
    {"metrics-port", "N", "port on 127.0.0.1, %s (default: 8002; 0 reads no metrics)",
     OPTION_INTEGER(options, load.metrics_port, 0, 65535)},
    {"server-pid", "N", "process id of the server, to measure its CPU time", OPTION_INTEGER(options, load.server_pid, 1, INT32_MAX)},
    {"clients", "LIST", "connections, each with one request in flight, %s (default: 1); with --rates only the first",
     OPTION_INTEGERS(options, clients, n_clients, 1, LOAD_CLIENTS_MOST)},
    {"rates", "LIST", "requests per second, at random times, %s; latency then counts from the scheduled time (default: one after another)",
     OPTION_INTEGERS(options, rates, n_rates, 1, 10000000)},
    {"wait", "S", "seconds to wait until the model is ready, %s (default: 0)", OPTION_NUMBER(options, wait, 0, 3600)},
    {"seconds", "S", "measured time per point, %s (default: 10)", OPTION_NUMBER(options, load.seconds, 0.1, 86400)},
    {"warm-up", "S", "seconds before that, %s (default: 1)", OPTION_NUMBER(options, load.warm_up, 0, 3600)},
    {"requests", "N", "measures this many requests instead, %s", OPTION_INTEGER(options, load.requests, 1, INT64_MAX)},
    {"images", "N", "images per request, of one size, %s (default: 1)", OPTION_INTEGER(options, load.images, 1, 256)},
    {"input", "NAME", "%s (default: image), pixels or JPEG files", OPTION_CHOICE(options, input, infer_input_name, 0, INFER_INPUTS - 1)},
    {"distinct", "N", "distinct images, %s (default: 100), of 25 sizes", OPTION_INTEGER(options, n_distinct, 1, IMAGE_SET_MOST)},
    {"edge", "N", "makes all of them N x N pixels, %s", OPTION_INTEGER(options, edge, 1, 640)},
    {"sheet", "FILE", "a PNG that they are cut from (default: drawn)", OPTION_TEXT(options, sheet)},
    {"expect", "FROM", "where the right answers come from: %s (default: direct)",
     OPTION_CHOICE(options, expect, expectation_name, 0, EXPECTATIONS - 1)},
    {"checkpoint", "FILE", "direct: the model", OPTION_TEXT(options, direct.checkpoint)},
    {"max-images", "N", "direct: max_batch_size of the server, %s (default: 64)", OPTION_INTEGER(options, direct.max_images, 1, 4096)},
    DIRECT_ROWS(options, direct),
    {"json", "FILE", "also writes the results to FILE", OPTION_TEXT(options, json)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "MODEL",
    .text =
        "Loads a KServe v2 server on this machine with images of mixed sizes, from many clients. Compares each answer bit for bit with the "
        "logits of the image in a direct session. MODEL: the model's name in the server.",
    .example = "serve_load deit --checkpoint repo/deit/1/model.safetensors --transport grpc --clients 1,8,64 --server-pid 4711",
    .min_arguments = 1,
    .max_arguments = 1,
};

static options parse(int argc, char **argv)
{
    options o = {.target = {.http_port = 8000, .grpc_port = 8001},
                 .direct = DIRECT_OPTIONS_INIT,
                 .load = {.seconds = 10, .warm_up = 1, .images = 1, .metrics_port = 8002},
                 .clients = {1},
                 .n_clients = 1,
                 .n_distinct = 100};
    o.target.model = argv[bench_parse("serve_load", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o)];
    o.target.transport = (infer_transport)o.transport;
    o.target.input = (infer_input)o.input;
    o.target.most_images = o.load.images;
    if (o.expect == EXPECT_DIRECT && o.direct.checkpoint == NULL) {
        fprintf(stderr, "bench: --expect direct needs --checkpoint, the file that the server's model has\n");
        exit(2);
    }
    return o;
}

static float *expect(const options *o)
{
    int32_t n_classes = o->target.n_classes;
    float *logits = NULL;
    if (o->expect == EXPECT_DIRECT)
        logits = direct_logits(&o->direct, o->target.image_set, &n_classes);
    else if (o->expect == EXPECT_SERVER)
        logits = load_expect(&o->target);
    if (n_classes != o->target.n_classes) {
        fprintf(stderr, "bench: %s: LOGITS of %d in the server, %d in %s\n", o->target.model, (int)o->target.n_classes, (int)n_classes,
                o->direct.checkpoint);
        exit(1);
    }
    if (logits != NULL && has_equal_logits(logits, o->target.image_set->n, n_classes))
        exit(1);
    return logits;
}

static json_t *describe(const options *o, const load_result *r, int32_t clients, double rate)
{
    json_t *row = json_pack("{s:s, s:s, s:i, s:f, s:i, s:f, s:f}", "transport", infer_transport_name(o->transport), "input",
                            infer_input_name(o->input), "clients", (int)clients, "rate", rate, "images_of_request", (int)o->load.images,
                            "seconds", r->seconds, "images_per_second", r->images_per_second);
    json_t *latency = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "mean", 1e3 * r->mean, "p50", 1e3 * r->p50, "p90", 1e3 * r->p90,
                                "p95", 1e3 * r->p95, "p99", 1e3 * r->p99, "max", 1e3 * r->most, "count", (json_int_t)r->n_latencies);
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"sent", r->sent},       {"right", r->right}, {"failed", r->failed}, {"lost", r->lost},
                  {"swapped", r->swapped}, {"wrong", r->wrong}, {"unsent", r->unsent}};
    const struct {
        const char *name;
        double value;
    } costs[] = {{"server_cpu_us", 1e6 * r->server_cpu},
                 {"client_cpu_us", 1e6 * r->client_cpu},
                 {"mean_batch", r->mean_batch},
                 {"queue_us", r->queue_us},
                 {"infer_us", r->infer_us}};
    json_object_set_new(row, "latency_ms", latency);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        json_object_set_new(row, counts[i].name, json_integer((json_int_t)counts[i].value));
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        json_object_set_new(row, costs[i].name, costs[i].value >= 0 ? json_real(costs[i].value) : json_null());
    if (r->error[0] != '\0')
        json_object_set_new(row, "error", json_string(r->error));
    return row;
}

static bool is_clean(const load_result *r)
{
    return r->right == r->sent && r->sent > 0;
}

/* Right-aligned, or "-" for an unknown value, which is below 0. */
static void print_known(double value, int width, int digits)
{
    if (value >= 0)
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

static void print_row(const options *o, const load_result *r, int32_t clients, double rate)
{
    printf("%-11s %7d %8.0f %9.1f %8.2f %8.2f %8.2f %8.2f %8.2f", infer_transport_name(o->transport), (int)clients, rate,
           r->images_per_second, 1e3 * r->p50, 1e3 * r->p90, 1e3 * r->p95, 1e3 * r->p99, 1e3 * r->most);
    print_known(1e6 * r->server_cpu, 8, 0);
    print_known(1e6 * r->client_cpu, 8, 0);
    print_known(r->mean_batch, 6, 1);
    printf(" %8llu %6llu %5llu %5llu %5llu %6llu%s%s\n", (unsigned long long)r->right, (unsigned long long)r->failed,
           (unsigned long long)r->lost, (unsigned long long)r->swapped, (unsigned long long)r->wrong, (unsigned long long)r->unsent,
           r->error[0] != '\0' ? "  " : "", r->error);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    /* Allows 1024 connections and some other files. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const image_set p = image_set_make(o.n_distinct, o.load.images > 4 ? o.load.images : 4, o.edge, o.sheet, o.input == INFER_FILES);
    int32_t max_clients = 1;
    for (int32_t i = 0; i < o.n_clients; i++)
        max_clients = o.clients[i] > max_clients ? o.clients[i] : max_clients;
    o.target.image_set = &p;
    infer_wait(&o.target, o.wait);
    infer_attach(&o.target, max_clients);
    float *logits = expect(&o);
    o.load.expected = logits;

    json_t *report = report_new("serve_load", NULL), *results = json_array();
    json_object_set_new(report, "model", json_string(o.target.model));
    char server[128];
    infer_server(&o.target, server, sizeof server);
    json_object_set_new(report, "server", json_string(server));
    json_object_set_new(report, "expect", json_string(expectation_name(o.expect)));
    json_object_set_new(report, "distinct_images", json_integer(p.n));
    json_object_set_new(report, "mean_image_bytes", json_real(image_set_mean(&p)));
    json_object_set_new(report, "results", results);
    printf("%-11s %7s %8s %9s %8s %8s %8s %8s %8s %8s %8s %6s %8s %6s %5s %5s %5s %6s\n", "transport", "clients", "rate", "images/s",
           "p50 ms", "p90", "p95", "p99", "max", "srv us", "cli us", "batch", "right", "failed", "lost", "swap", "wrong", "unsent");
    bool clean = true;
    const int32_t n_points = o.n_rates > 0 ? o.n_rates : o.n_clients;
    for (int32_t i = 0; i < n_points; i++) {
        load_options point = o.load;
        point.rate = o.n_rates > 0 ? o.rates[i] : 0;
        point.n_clients = o.clients[o.n_rates > 0 ? 0 : i];
        const load_result r = load_run(&o.target, &point);
        print_row(&o, &r, point.n_clients, point.rate);
        json_array_append_new(results, describe(&o, &r, point.n_clients, point.rate));
        clean = clean && is_clean(&r);
    }
    infer_detach(&o.target);
    free(logits);
    image_set_free((image_set *)&p);
    const int code = report_write(report, o.json);
    return code != 0 ? code : !clean;
}
