/* The data of the benchmarks: device memory and seeded numbers. */
#ifndef RVIT_BENCH_DATA_H
#define RVIT_BENCH_DATA_H

#include "device.h"

rvit_buffer *data_buffer(bench_device *d, int64_t size);
rvit_buffer *data_upload(bench_device *d, const void *host, int64_t size);
/* n numbers of magnitude 2^-3 to 2 and random sign, times 2^-shift. */
rvit_buffer *data_random(bench_device *d, int64_t n, rvit_dtype dtype, uint32_t shift);
/* cu_seqlens of images of equal length. */
rvit_buffer *data_lengths(bench_device *d, int32_t n_images, int32_t length);

/* All of a buffer. */
static inline rvit_view view(rvit_buffer *buffer)
{
    return (rvit_view){buffer, 0};
}

/* Normal deviates: they have the scale of normalised pixels, do not compress and do not saturate. */
void data_noise(float *images, size_t n);
/* The first n tiles of a sheet of square images, prepared as the tool does: out f32 [n, 3, size, size]; if the sheet has fewer, they
   repeat. Ends the program on failure. */
void data_tiles(const char *sheet, int tile, int n, int size, float *out);

#endif
