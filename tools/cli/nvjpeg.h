/* Decodes JPEG files with nvJPEG on a CUDA device, by the GPU's JPEG engines or else by kernels. The CPU decodes files that nvJPEG does not
   support, and these are counted. The colours differ slightly from libjpeg's (docs/using.md). */
#ifndef RVIT_CLI_NVJPEG_H
#define RVIT_CLI_NVJPEG_H

#include <raggedvit/device.h>

#include "image.h"

struct nvjpeg;         /* of a device, shared by threads */
struct nvjpeg_decoder; /* used by one thread at a time */

enum nvjpeg_way { NVJPEG_BY_ENGINE, NVJPEG_BY_KERNELS, NVJPEG_BY_OTHERS, NVJPEG_N_WAYS };

/* The images decoded so far. */
struct nvjpeg_counts {
    int64_t images[NVJPEG_N_WAYS];
    int64_t n_failures;      /* images that nvJPEG failed to decode, also counted in NVJPEG_BY_OTHERS */
    char first_failure[128]; /* reason of the first failure */
};

/* Prints a message and sets *out to NULL on failure; returns an exit code. */
int nvjpeg_open(rvit_device *device, struct nvjpeg **out);
/* Destroy its decoders first. */
void nvjpeg_close(struct nvjpeg *self);
/* The opened file: "libnvjpeg.so.13". */
const char *nvjpeg_name(const struct nvjpeg *self);
struct nvjpeg_counts nvjpeg_count(struct nvjpeg *self);

/* Returns NULL if out of memory, which nvjpeg_load accepts. */
struct nvjpeg_decoder *nvjpeg_decoder_create(struct nvjpeg *shared);
void nvjpeg_decoder_destroy(struct nvjpeg_decoder *self);

/* Like image_load and image_load_to. The decoder may be NULL. */
bool nvjpeg_load(struct nvjpeg *shared, struct nvjpeg_decoder *self, const char *path, struct image *out, struct image_error *error);
bool nvjpeg_load_to(struct nvjpeg *shared, struct nvjpeg_decoder *self, const char *path, const struct image_taker *taker,
                    struct image_error *error);

#endif
