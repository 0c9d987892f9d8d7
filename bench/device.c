#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef RVIT_HAVE_CUDA
#include <raggedvit/cuda.h>
#endif

#include "options.h"
#include "report.h"

void bench_check(rvit_status status, const char *what)
{
    if (status == RVIT_OK)
        return;
    fprintf(stderr, "bench: %s: %s: %s\n", what, rvit_status_name(status), rvit_status_detail());
    exit(1);
}

bench_device bench_device_open(const rvit_device_desc *desc)
{
    bench_device d = {NULL, NULL, NULL};
#ifdef RVIT_HAVE_CUDA
    if (desc->backend == RVIT_BACKEND_CUDA && desc->index <= 0) {
        const char *reason = "";
        d.cuda = cuda_clock_open(&reason);
        if (d.cuda == NULL) {
            fprintf(stderr, "bench: %s\n", reason);
            exit(1);
        }
        bench_check(rvit_cuda_device_create(cuda_clock_context(d.cuda), NULL, &d.device), "device");
        bench_check(rvit_stream_wrap(d.device, cuda_clock_stream(d.cuda), &d.stream), "stream");
        return d;
    }
#endif
    bench_check(rvit_device_create(desc, &d.device), "device");
    bench_check(rvit_stream_create(d.device, &d.stream), "stream");
    return d;
}

void bench_device_close(bench_device *d)
{
    rvit_stream_destroy(d->stream);
    rvit_device_destroy(d->device);
    cuda_clock_close(d->cuda);
}

void bench_device_drain(void *user)
{
    bench_device *d = user;
    bench_check(rvit_stream_synchronize(d->stream), "synchronize");
}

double bench_device_seconds(bench_device *d, const timed *work, int n)
{
    return d->cuda != NULL ? cuda_clock_gpu(d->cuda, work, n) : clock_drained(work, n);
}

int bench_device_samples(bench_device *d, const timed *work, int n, double *samples)
{
    const double begin = report_seconds();
    int taken = 0;
    for (int i = -3; i < n && (taken < 3 || report_seconds() - begin < 1); i++) {
        const double took = bench_device_seconds(d, work, 1);
        if (i >= 0 || took > 0.1) /* long work needs no warm-up */
            samples[taken++] = took;
    }
    return taken;
}

typedef struct recording {
    bench_device *d;
    rvit_program *program;
} recording;

static void replay(void *user)
{
    const recording *self = user;
    bench_check(rvit_program_launch(self->program, self->d->stream), "launch");
}

static void drain(void *user)
{
    bench_device_drain(((const recording *)user)->d);
}

json_t *bench_device_recorded(bench_device *d, void (*call)(void *user), void *user, int n, int repeats)
{
    recording self = {d, NULL};
    double samples[BENCH_MAX_REPEATS + 3];
    bench_check(rvit_record_begin(d->stream), "record");
    for (int i = 0; i < n; i++)
        call(user);
    bench_check(rvit_record_end(d->stream, &self.program), "record");
    const timed replays = {replay, drain, &self};
    const int taken = bench_device_samples(d, &replays, repeats, samples);
    bench_device_drain(d);
    rvit_program_destroy(self.program);
    return report_samples(samples, taken, 1e6 / n);
}

vulkan_clock *bench_device_vulkan(const bench_device *d)
{
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    bench_check(rvit_device_get_info(d->device, &info), "device");
    return info.backend == RVIT_BACKEND_VULKAN ? vulkan_clock_open() : NULL;
}

json_t *bench_device_floor(bench_device *d)
{
    if (d->cuda == NULL) {
        double samples[CLOCK_SAMPLES];
        vulkan_clock *clock = bench_device_vulkan(d);
        const int n = clock != NULL ? vulkan_clock_floor(clock, samples) : 0;
        vulkan_clock_close(clock);
        return n > 0 ? json_pack("{s:o}", "empty_submit_us", report_samples(samples, n, 1e6)) : json_null();
    }
    const cuda_floor floor = cuda_clock_floor(d->cuda);
    if (floor.launch == NULL)
        return json_pack("{s:s}", "skipped", floor.reason);
    json_t *out = json_object();
    const timed works[] = {{floor.launch, cuda_clock_drain, d->cuda}, {floor.graph, cuda_clock_drain, d->cuda}};
    static const char *const names[] = {"empty_launch_us", "empty_graph_launch_us"};
    for (int i = 0; i < 2; i++) {
        double samples[CLOCK_SAMPLES];
        const int n = clock_host(&works[i], 0, samples);
        json_object_set_new(out, names[i], report_samples(samples, n, 1e6));
    }
    return out;
}
