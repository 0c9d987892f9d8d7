/* The clocks of the benchmarks: host time of calls that only enqueue, and GPU time between two events where there is a CUDA driver. */
#ifndef RVIT_BENCH_CLOCK_H
#define RVIT_BENCH_CLOCK_H

/* call runs or enqueues the work; drain waits until it is done. */
typedef struct timed {
    void (*call)(void *user);
    void (*drain)(void *user);
    void *user;
} timed;

enum { CLOCK_CALLS = 100, CLOCK_SAMPLES = 50 };

/* Host seconds per call, up to CLOCK_SAMPLES samples: each of CLOCK_CALLS calls back to back, measured before the drain, so that no call
   waits for room in the queue. Fewer calls and samples if a call takes long on the device (device_seconds). Returns the number of
   samples. */
int clock_host(const timed *work, double device_seconds, double samples[CLOCK_SAMPLES]);
/* Seconds from the first of n calls until the drain returns, divided by n. */
double clock_drained(const timed *work, int n);

/* The first Vulkan device, opened beside the library's, to measure the submit of an empty command buffer with a fence. The library's next
   submit then waits about 150 us for the GPU to switch, so nothing else is measured meanwhile. */
typedef struct vulkan_clock vulkan_clock;

/* NULL if there is none. */
vulkan_clock *vulkan_clock_open(void);
void vulkan_clock_close(vulkan_clock *clock);
/* Host seconds of one submit, and waits for it. Called after a wait, it gives the floor of any submit after a wait. */
double vulkan_clock_submit(vulkan_clock *clock);
/* Host seconds of consecutive submits. Returns the number of samples. */
int vulkan_clock_floor(vulkan_clock *clock, double samples[CLOCK_SAMPLES]);

/* The CUDA driver, opened at run time, with its own stream on the device's primary context. */
typedef struct cuda_clock cuda_clock;

/* NULL without driver or device; *reason then says why. */
cuda_clock *cuda_clock_open(const char **reason);
void cuda_clock_close(cuda_clock *clock);
void *cuda_clock_context(const cuda_clock *clock);
void *cuda_clock_stream(const cuda_clock *clock);
void cuda_clock_drain(void *clock);
/* Seconds between two events around the work that n calls enqueue on the clock's stream, divided by n. */
double cuda_clock_gpu(cuda_clock *clock, const timed *work, int n);

/* Launches of an empty kernel, directly and as the only node of a graph: the floor of any call, and of any forward. user is the cuda_clock.
   Both are NULL if the driver rejects the kernel; *reason then says why. */
typedef struct cuda_floor {
    void (*launch)(void *clock), (*graph)(void *clock);
    const char *reason;
} cuda_floor;
cuda_floor cuda_clock_floor(cuda_clock *clock);
/* Bytes read and written per second by the driver's device-to-device copy of `size` bytes; 0 if it fails. */
double cuda_clock_copy(cuda_clock *clock, long long size);

#endif
