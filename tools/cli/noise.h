/* Pseudo-random images, for checks without files. */
#ifndef RVIT_CLI_NOISE_H
#define RVIT_CLI_NOISE_H

#include <stdbool.h>
#include <stdint.h>

/* Writes image `index` of a fixed series: smoothed normal noise with distinct patches. out f32 [channels, height, width]. Returns false if
   out of memory. */
bool noise_image(int64_t index, int32_t channels, int32_t width, int32_t height, float *out);

#endif
