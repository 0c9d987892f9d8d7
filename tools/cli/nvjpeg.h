/* JPEG files decoded on a CUDA device by nvJPEG: by the GPU's engines for it where it has them, else by kernels. What it does not take,
   the processor decodes, and this is counted. Its colours differ a little from libjpeg's (docs/using.md). */
#ifndef RVIT_CLI_NVJPEG_H
#define RVIT_CLI_NVJPEG_H

#include <raggedvit/device.h>

#include "image.h"

struct nvjpeg;         /* of a device; threads share it */
struct nvjpeg_decoder; /* of one thread at a time */

enum nvjpeg_way { NVJPEG_BY_ENGINE, NVJPEG_BY_KERNELS, NVJPEG_BY_OTHERS, NVJPEG_N_WAYS };

/* What has been decoded so far. */
struct nvjpeg_counts {
    int64_t images[NVJPEG_N_WAYS];
    int64_t n_failures;      /* images that nvJPEG should have decoded, but did not; they are among those of others */
    char first_failure[128]; /* what it said of the first; else empty */
};

/* Prints a message on failure; returns an exit code. *out is NULL then. */
int nvjpeg_open(rvit_device *device, struct nvjpeg **out);
/* After its decoders. */
void nvjpeg_close(struct nvjpeg *self);
/* The file that was opened: "libnvjpeg.so.13". */
const char *nvjpeg_name(const struct nvjpeg *self);
struct nvjpeg_counts nvjpeg_count(struct nvjpeg *self);

/* Returns NULL if there is no memory; nvjpeg_load goes without then. */
struct nvjpeg_decoder *nvjpeg_decoder_create(struct nvjpeg *shared);
void nvjpeg_decoder_destroy(struct nvjpeg_decoder *self);

/* As image_load and image_load_to. The decoder may be NULL. */
bool nvjpeg_load(struct nvjpeg *shared, struct nvjpeg_decoder *self, const char *path, struct image *out, struct image_error *error);
bool nvjpeg_load_to(struct nvjpeg *shared, struct nvjpeg_decoder *self, const char *path, const struct image_taker *taker,
                    struct image_error *error);

#endif
