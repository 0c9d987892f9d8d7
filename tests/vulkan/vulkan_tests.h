/* Declarations shared by the files of test_vulkan. */
#ifndef RVIT_TESTS_VULKAN_TESTS_H
#define RVIT_TESTS_VULKAN_TESTS_H

#include "harness.h"

extern const suite drivers_suite, cache_suite, loops_suite, arrange_suite, arrange_failure_suite;

/* Sets the behaviour of the test layer; "": none. */
void set_layer(const char *words);

/* Starts to collect the library's log. */
void log_restart(void);
int logged(const char *text);

rvit_device_desc auto_desc(void);
rvit_device_info info_of(const rvit_device *device);

/* A stream with work: attention over three images. */
enum { W_ROWS = 40, W_DIM = 64, W_CU = W_ROWS * 3 * W_DIM * 4, W_SIZE = 5 * W_ROWS * W_DIM * 4 };
typedef struct workload {
    rvit_device *device;
    rvit_stream *stream;
    rvit_buffer *in, *out;
} workload;
void workload_open(workload *w, rvit_device *device);
/* Stores the output at byte offset `out` of w->out. */
rvit_status workload_attention(workload *w, int64_t out);
rvit_status workload_run(workload *w);
void workload_close(workload *w);
double error_of(rvit_device *device);

#endif
