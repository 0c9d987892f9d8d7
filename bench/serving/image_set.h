/* The images of the serving measurements: mixed sizes, drawn from a seed or cut from a PNG, as pixels or as JPEG files. */
#ifndef RVIT_SERVING_IMAGE_SET_H
#define RVIT_SERVING_IMAGE_SET_H

#include <stddef.h>
#include <stdint.h>

enum { IMAGE_SET_SIZES = 25, IMAGE_SET_MOST = 1024 };

/* `group` consecutive images have the same size, so that a request can carry several of one shape. */
typedef struct image_set {
    int32_t n, group;
    int32_t *widths, *heights; /* [n] */
    uint8_t *pixels;           /* RGB, without padding, images concatenated */
    size_t *at;                /* [n + 1]: offsets into pixels */
    /* The concatenated input data of the requests: the pixels, or for each JPEG file its length as four bytes and the file, which is how
       the protocol encodes an element of BYTES. */
    uint8_t *payload;
    size_t *payload_at; /* [n + 1] */
} image_set;

/* n images, rounded up to whole groups, of at most IMAGE_SET_SIZES sizes, or all edge x edge if edge is above 0. sheet: a PNG that they are
   cut from; NULL: gradients, shapes and texture. jpeg: the payload is JPEG files, and the pixels are those that the tool's reader decodes
   from them. Ends the program on failure. */
image_set image_set_make(int32_t n, int32_t group, int32_t edge, const char *sheet, int jpeg);
/* Sizes only, without pixels: the largest and the mean bytes of an image. */
size_t image_set_largest(const image_set *p);
double image_set_mean(const image_set *p);
void image_set_free(image_set *p);

/* The next number of a pseudo-random sequence; any state except 0 starts one. */
uint64_t image_set_random(uint64_t *state);
/* The index of the first of `images` consecutive images of one group, chosen at random. */
int32_t image_set_pick(const image_set *p, int32_t images, uint64_t *state);

#endif
