/* What a region of rvit_images_write holds, in 32-bit words: read by every backend's preprocess, in C and CUDA from here, in GLSL from
   shaders/common/interface.h, which has the same numbers. A device trusts none of them.

     header        RVIT_IMAGE_HEADER_WORDS
     levels        f32 [3][256]: what an 8-bit value of each channel becomes
     row_starts    [n_images + 1]: the first row of each image
     entries       [n_images], at RVIT_IMAGE_ENTRIES(n_images): rvit_image_entry
     then for each picture its axes, unless an earlier one has them, and its pixels

   n_images is the capacity. An axis of n outputs is first[n], count[n] and weights[taps][n]: output i is the sum over k < count[i] of
   weights[k][i] times input first[i] + k, in fixed point. */
#ifndef RVIT_CORE_CONTRACT_IMAGE_DESCRIPTOR_H
#define RVIT_CORE_CONTRACT_IMAGE_DESCRIPTOR_H

#include <stdint.h>

#define RVIT_IMAGE_ENTRY_SIDE 65535                      /* RVIT_IMAGE_MAX_SIDE */
#define RVIT_IMAGE_MAX_STAGING (((int64_t)1 << 33) - 16) /* bytes: words are counted in 31 bits */
#define RVIT_IMAGE_HEADER_WORDS 16
#define RVIT_IMAGE_LIVE_IMAGES 0 /* of the header */
#define RVIT_IMAGE_LIVE_UNITS 1  /* 16-byte units of the region that are used */
#define RVIT_IMAGE_LEVELS RVIT_IMAGE_HEADER_WORDS
#define RVIT_IMAGE_ROW_STARTS (RVIT_IMAGE_LEVELS + 3 * 256)
#define RVIT_IMAGE_ENTRY_WORDS 32
#define RVIT_IMAGE_ENTRIES(n_images) ((RVIT_IMAGE_ROW_STARTS + (int64_t)(n_images) + 1 + 3) / 4 * 4)

/* How pixels are read. */
#define RVIT_IMAGE_READ_PACKED 0 /* pixel_size bytes each, of which three are red, green and blue */
#define RVIT_IMAGE_READ_NV12 1
#define RVIT_IMAGE_READ_F32 2
#define RVIT_IMAGE_READ_F16 3

typedef struct rvit_image_entry {
    int32_t read;
    int32_t on_device;                /* 1: at offset of pixels, 0: of the region */
    uint32_t offset_low, offset_high; /* bytes */
    uint32_t plane_low, plane_high;   /* bytes from there to the chroma plane, or between planes */
    int32_t width, height, stride;
    int32_t pixel_size, red, green, blue; /* of PACKED: bytes, and the byte of each channel */
    int32_t grid_height, grid_width;
    /* The part of the target that the picture covers, in pixels; fill lies around it. Outputs of the axes count from left and top. */
    int32_t left, right, top, bottom;
    uint32_t fill;          /* red, green << 8, blue << 16 */
    int32_t x_axis, y_axis; /* words from the region's begin */
    int32_t x_bits, y_bits; /* of the fractions of their weights */
    int32_t down_first;     /* 1: the vertical pass comes first */
    /* NV12, with 16 bits of fraction: luma - luma_zero times luma_gain, plus these times chroma - 128 */
    int32_t luma_zero, luma_gain, red_cr, green_cb, green_cr, blue_cb;
    int32_t unused;
} rvit_image_entry;

#endif
