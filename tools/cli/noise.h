/* Pseudo-random images for a check that needs no files. */
#ifndef RVIT_CLI_NOISE_H
#define RVIT_CLI_NOISE_H

#include <stdbool.h>
#include <stdint.h>

/* Image number `index` of a fixed series: smoothed normal noise, with patches that differ from one another. out f32 [channels, height,
   width]. False when out of memory. */
bool noise_image(int64_t index, int32_t channels, int32_t width, int32_t height, float *out);

#endif
