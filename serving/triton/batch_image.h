/* An image of a request, and how it gets into the memory of a session. */
#ifndef RVIT_TRITON_BATCH_IMAGE_H
#define RVIT_TRITON_BATCH_IMAGE_H

#include "model.h"

struct batch_image {
    const struct image_plan *plan;
    const uint8_t *source; /* the file of ENCODED, or the pixels of an IMAGE that the host resizes; NULL: the image is copied */
    size_t source_size;    /* size of the file; 0: pixels */
    int32_t width, height; /* as received */
    bool is_prepared;      /* resized and normalised on the host, and passed as planes */
    struct image_target target;
    rvit_image image; /* for the run; data points into the session's memory */
    int64_t size;     /* bytes of image */
    int64_t weights;  /* bytes of its resize weights */
    double seconds;   /* time of batch_image_fill */
    bool is_bad;
    struct image_error error;
};

/* Sets target, image, size and weights from width, height and plan. share: maximum bytes; larger images, and those that the device cannot
   resize, are prepared on the host. is_planes: the image is already planes of its target size. Returns false with the reason in error. */
bool batch_image_measure(struct batch_image *self, bool is_planes, int64_t share);
/* Decodes or prepares the image into the session's memory. On failure sets is_bad and error. */
void batch_image_fill(struct batch_image *self);

#endif
