/* An image of a request on its way into the memory of a session. */
#ifndef RVIT_TRITON_BATCH_IMAGE_H
#define RVIT_TRITON_BATCH_IMAGE_H

#include "model.h"

struct batch_image {
    const struct image_plan *plan;
    const uint8_t *source; /* ENCODED: the file. IMAGE that is resized here: its pixels. Else NULL: it is copied */
    size_t source_size;    /* of the file; 0: pixels */
    int32_t width, height; /* as it came */
    bool is_prepared;      /* resized and normalised here, and handed over as planes */
    struct image_target target;
    rvit_image image; /* for the run. data: its place */
    int64_t size;     /* bytes of that */
    int64_t weights;  /* bytes of the weights of its resize */
    double seconds;   /* that batch_image_fill took */
    bool is_bad;
    struct image_error error;
};

/* What it takes: target, image, size and weights, of width, height and plan. share: the bytes that it may take; larger images, and those
   that the device does not resize, are prepared here. is_planes: it comes as planes of its target's size. False: the error says why it
   cannot be. */
bool batch_image_measure(struct batch_image *self, bool is_planes, int64_t share);
/* Decodes or prepares it to its place. On failure it is bad, and the error says why. */
void batch_image_fill(struct batch_image *self);

#endif
