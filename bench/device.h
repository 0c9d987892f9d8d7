/* The device of a benchmark. On CUDA it uses a context and a stream of the benchmark's own, so that events can be recorded around the
   work. */
#ifndef RVIT_BENCH_DEVICE_H
#define RVIT_BENCH_DEVICE_H

#include <jansson.h>

#include <raggedvit/raggedvit.h>

#include "clock.h"

typedef struct bench_device {
    rvit_device *device;
    rvit_stream *stream;
    cuda_clock *cuda; /* NULL: host clocks only */
} bench_device;

/* On failure, prints what failed with the library's detail and ends the program. */
void bench_check(rvit_status status, const char *what);

bench_device bench_device_open(const rvit_device_desc *desc);
void bench_device_close(bench_device *d);
/* Device seconds of n calls, divided by n: from events if there are any, else host time until all is done. */
double bench_device_seconds(bench_device *d, const timed *work, int n);
/* The same for single calls, up to n + 3 of them, fewer if they take long. Returns the number of samples. */
int bench_device_samples(bench_device *d, const timed *work, int n, double *samples);
/* Records n calls as one program and replays it up to repeats times, at most BENCH_MAX_REPEATS (options.h). Object with the device time of
   one call in microseconds. This includes the set-up of a first call, so make one before. */
json_t *bench_device_recorded(bench_device *d, void (*call)(void *user), void *user, int n, int repeats);
/* Waits for the stream; user is the bench_device. */
void bench_device_drain(void *device);
/* The clock of empty submits; NULL unless on Vulkan. */
vulkan_clock *bench_device_vulkan(const bench_device *d);
/* Object with the host time in microseconds of an empty launch and an empty graph launch on CUDA, of an empty submit on Vulkan; elsewhere
   JSON null, or a reason. */
json_t *bench_device_floor(bench_device *d);

#endif
