/* The pictures of the serving measurements: of mixed sizes, made from a seed or cut from a PNG, as pixels and as JPEG files. */
#ifndef RVIT_SERVING_PICTURES_H
#define RVIT_SERVING_PICTURES_H

#include <stddef.h>
#include <stdint.h>

enum { PICTURES_SIZES = 25, PICTURES_MOST = 1024 };

/* Of equal size are those of a group: group pictures in a row, so that a request can carry several of one shape. */
typedef struct pictures {
    int32_t n, group;
    int32_t *widths, *heights; /* [n] */
    uint8_t *pixels;           /* RGB, without padding, one picture behind another */
    size_t *at;                /* [n + 1]: offsets into pixels */
    /* What requests carry, one picture behind another. The pixels; or of JPEG files their length as four bytes, then the file, as the
       protocol writes an element of BYTES. */
    uint8_t *payload;
    size_t *payload_at; /* [n + 1] */
} pictures;

/* n pictures, rounded up to whole groups; of at most PICTURES_SIZES sizes, or all of edge x edge where that is
   above 0. sheet: a PNG that they are cut from; NULL: gradients, shapes and
   texture. jpeg: the payload is JPEG files, and the pixels are what the tool's reader decodes them to. Ends the program on failure. */
pictures pictures_make(int32_t n, int32_t group, int32_t edge, const char *sheet, int jpeg);
/* Sizes only, without pixels: the largest and the mean bytes of a picture. */
size_t pictures_largest(const pictures *p);
double pictures_mean(const pictures *p);
void pictures_free(pictures *p);

/* Numbers of a sequence; any state but 0 begins one. */
uint64_t pictures_random(uint64_t *state);
/* One of the whole groups' slices of `images` pictures in a row: the index of its first. */
int32_t pictures_pick(const pictures *p, int32_t images, uint64_t *state);

#endif
