/* The layout, in 32-bit words, of a staging buffer of rvit_images_write, which every backend's preprocess reads: C and CUDA by this header,
   GLSL by shaders/common/interface.h, which has the same numbers. A device validates all of them.

     header        RVIT_IMAGE_HEADER_WORDS
     levels        f32 [3][256]: the normalised value of each 8-bit value, by channel
     row_starts    [n_images + 1]: the first row of each image
     entries       [n_images], at RVIT_IMAGE_ENTRIES(n_images): rvit_image_entry
     then each image's axes, unless an earlier image has the same, and its pixels

   n_images is the capacity. An axis of n outputs is first[n], count[n] and weights[taps][n]: output i is the sum over k < count[i] of
   weights[k][i] times input first[i] + k, in fixed point. */
#ifndef RVIT_CORE_CONTRACT_IMAGE_DESCRIPTOR_H
#define RVIT_CORE_CONTRACT_IMAGE_DESCRIPTOR_H

#include <stdint.h>

#define RVIT_IMAGE_ENTRY_SIDE 65535                      /* RVIT_IMAGE_MAX_SIDE */
#define RVIT_IMAGE_MAX_STAGING (((int64_t)1 << 33) - 16) /* bytes: words are counted in 31 bits */
#define RVIT_IMAGE_HEADER_WORDS 16
#define RVIT_IMAGE_LIVE_IMAGES 0 /* in the header */
#define RVIT_IMAGE_LIVE_UNITS 1  /* in the header: the used size, in units of 16 bytes */
#define RVIT_IMAGE_LEVELS RVIT_IMAGE_HEADER_WORDS
#define RVIT_IMAGE_ROW_STARTS (RVIT_IMAGE_LEVELS + 3 * 256)
#define RVIT_IMAGE_ENTRY_WORDS 32
#define RVIT_IMAGE_ENTRIES(n_images) ((RVIT_IMAGE_ROW_STARTS + (int64_t)(n_images) + 1 + 3) / 4 * 4)

/* Pixel formats. */
#define RVIT_IMAGE_READ_PACKED 0 /* pixel_size bytes per pixel, three of them red, green and blue */
#define RVIT_IMAGE_READ_NV12 1
#define RVIT_IMAGE_READ_F32 2
#define RVIT_IMAGE_READ_F16 3

typedef struct rvit_image_entry {
    int32_t read;
    int32_t on_device;                /* 1: the pixels are in the array `pixels`; 0: in the staging buffer */
    uint32_t offset_low, offset_high; /* bytes, in either */
    uint32_t plane_low, plane_high;   /* bytes from there to the chroma plane, or between planes */
    int32_t width, height, stride;
    int32_t pixel_size, red, green, blue; /* PACKED: bytes per pixel, and the byte of each channel */
    int32_t grid_height, grid_width;
    /* The part of the target that the image covers, in pixels; fill surrounds it. Axis outputs count from left and top. */
    int32_t left, right, top, bottom;
    uint32_t fill;          /* red, green << 8, blue << 16 */
    int32_t x_axis, y_axis; /* offsets in the staging buffer, in words */
    int32_t x_bits, y_bits; /* fraction bits of the weights */
    int32_t down_first;     /* 1: the vertical pass comes first */
    /* NV12, with 16 fraction bits: (luma - luma_zero) * luma_gain, plus each gain below times (chroma - 128) */
    int32_t luma_zero, luma_gain, red_cr, green_cb, green_cr, blue_cb;
    int32_t unused;
} rvit_image_entry;

#endif
