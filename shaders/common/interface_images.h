/* The interface between host code and the image shaders: see interface.h. The layout of the staging buffer is that of
   core/contract/image_descriptor.h; host code asserts that they agree. */
#ifndef RVIT_SHADERS_INTERFACE_IMAGES_H
#define RVIT_SHADERS_INTERFACE_IMAGES_H

#include "interface.h"

#define RVIT_TABLE_LIVE_IMAGES 0
#define RVIT_TABLE_LEVELS 16
#define RVIT_TABLE_ROW_STARTS 784
#define RVIT_TABLE_SIDE 65535
#define RVIT_TABLE_ENTRY_WORDS 32

/* Word offsets in an image descriptor. */
#define RVIT_ENTRY_READ 0
#define RVIT_ENTRY_ON_DEVICE 1
#define RVIT_ENTRY_OFFSET_LOW 2
#define RVIT_ENTRY_OFFSET_HIGH 3
#define RVIT_ENTRY_PLANE_LOW 4
#define RVIT_ENTRY_PLANE_HIGH 5
#define RVIT_ENTRY_WIDTH 6
#define RVIT_ENTRY_HEIGHT 7
#define RVIT_ENTRY_STRIDE 8
#define RVIT_ENTRY_PIXEL_SIZE 9
#define RVIT_ENTRY_RED 10
#define RVIT_ENTRY_GREEN 11
#define RVIT_ENTRY_BLUE 12
#define RVIT_ENTRY_GRID_HEIGHT 13
#define RVIT_ENTRY_GRID_WIDTH 14
#define RVIT_ENTRY_LEFT 15
#define RVIT_ENTRY_RIGHT 16
#define RVIT_ENTRY_TOP 17
#define RVIT_ENTRY_BOTTOM 18
#define RVIT_ENTRY_FILL 19
#define RVIT_ENTRY_X_AXIS 20
#define RVIT_ENTRY_Y_AXIS 21
#define RVIT_ENTRY_X_BITS 22
#define RVIT_ENTRY_Y_BITS 23
#define RVIT_ENTRY_DOWN_FIRST 24
#define RVIT_ENTRY_LUMA_ZERO 25
#define RVIT_ENTRY_LUMA_GAIN 26
#define RVIT_ENTRY_RED_CR 27
#define RVIT_ENTRY_GREEN_CB 28
#define RVIT_ENTRY_GREEN_CR 29
#define RVIT_ENTRY_BLUE_CB 30

#define RVIT_READ_PACKED 0
#define RVIT_READ_NV12 1
#define RVIT_READ_F32 2
#define RVIT_READ_F16 3

/* preprocess_fetch.comp: a thread copies 16 bytes. */
struct rvit_fetch_push {
    int units; /* at capacity */
    int source_at, staging_at;
};

/* preprocess.comp: a workgroup takes a tile of TILE x TILE pixels of a patch; LINES lines of the first pass are kept. */
#define RVIT_PREPROCESS_TILE 16
#define RVIT_PREPROCESS_LINES 64
#define RVIT_PREPROCESS_FLAGS 1
#define RVIT_PREPROCESS_HAS_CU_SEQLENS 1
#define RVIT_PREPROCESS_HAS_GRIDS 2
struct rvit_preprocess_push {
    int n_images, rows, patch_size, out_stride;
    int part;                                                 /* as in patchify */
    int entries_at;                                           /* words from the start of the staging buffer */
    int n_words;                                              /* of the staging buffer, as uint */
    int pixels_size;                                          /* bytes, as uint; 0: absent */
    int words_at, pixels_at, out_at, cu_seqlens_at, grids_at; /* out_at in units of two elements */
};

#endif
