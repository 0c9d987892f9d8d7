/* What the benchmarks work on: device memory and seeded numbers. */
#ifndef RVIT_BENCH_DATA_H
#define RVIT_BENCH_DATA_H

#include "device.h"

/* Of every series of random numbers; stands in each report. */
#define DATA_SEED 0x9e3779b97f4a7c15ull

rvit_buffer *data_buffer(bench_device *d, int64_t size);
rvit_buffer *data_upload(bench_device *d, const void *host, int64_t size);
/* n numbers of 2^-3 to 2 with either sign, times 2^-shift. */
rvit_buffer *data_random(bench_device *d, int64_t n, rvit_dtype dtype, uint32_t shift);
/* cu_seqlens of images that are all of one length. */
rvit_buffer *data_lengths(bench_device *d, int32_t n_images, int32_t length);

/* Normal deviates: the scale of normalised pixels, and nothing that compresses or saturates. */
void data_noise(float *images, size_t n);
/* The first tiles of a sheet of square pictures, prepared as the tool does it: out f32 [n, 3, size, size]; with fewer tiles than n they
   repeat. Ends the program where it cannot. */
void data_tiles(const char *sheet, int tile, int n, int size, float *out);

#endif
