/* The common head of every benchmark's JSON, and the statistics of its samples. */
#ifndef RVIT_BENCH_REPORT_H
#define RVIT_BENCH_REPORT_H

#include <jansson.h>

#include <raggedvit/raggedvit.h>

/* Seed of every series of random numbers; written to each report. */
#define REPORT_SEED 0x9e3779b97f4a7c15ull

double report_seconds(void);

/* Object with date, machine, operating system, compiler, seed, library version and the device, unless that is NULL. */
json_t *report_new(const char *benchmark, const rvit_device *device);

/* Object with median, p10, p90, minimum and count of n samples (sorted in place), each multiplied by scale. */
json_t *report_samples(double *samples, int n, double scale);

/* Writes a report to a file, if path is not NULL, and releases it. Returns the program's exit code. */
int report_write(json_t *report, const char *path);

/* Highest resident memory of this process so far, bytes. */
long report_peak_memory(void);

#endif
