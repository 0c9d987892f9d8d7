/* Direct sessions on a checkpoint, like those of the server's instances, and their logits. */
#ifndef RVIT_SERVING_DIRECT_H
#define RVIT_SERVING_DIRECT_H

#include <raggedvit/raggedvit.h>

#include "image_set.h"
#include "policy.h"

enum { DIRECT_DEVICES = 8 };

typedef struct direct_options {
    const char *checkpoint, *prune;
    rvit_device_desc device;
    rvit_dtype dtype;
    int32_t max_images;
    int32_t devices[DIRECT_DEVICES], n_devices; /* indices within the backend; none: only device.index */
} direct_options;

#define DIRECT_OPTIONS_INIT                                                                   \
    {                                                                                         \
        .prune = "none", .device = RVIT_DEVICE_DESC_INIT, .dtype = RVIT_F32, .max_images = 64 \
    }

/* Rows of the option table of T. `member` is its direct_options. */
#define DIRECT_ROWS(T, member)                                                                                                             \
    {"backend", "NAME", "%s (auto: the first GPU, else the CPU)",                                                                          \
     OPTION_CHOICE(T, member.device.backend, choice_backend, RVIT_BACKEND_AUTO, CHOICE_LAST_BACKEND)},                                     \
        {"devices", "LIST", "devices of that backend, each %s (the first)", OPTION_INTEGERS(T, member.devices, member.n_devices, 0, 255)}, \
        {"dtype", "TYPE", "%s (f32)", OPTION_CHOICE(T, member.dtype, choice_dtype, RVIT_F32, RVIT_BF16)},                                  \
        {"threads-cpu", "N", "CPU backend: threads of a device, %s (0: as many as the process may use)",                                   \
         OPTION_INTEGER(T, member.device.n_threads, 0, 1024)},                                                                             \
    {                                                                                                                                      \
        "prune", "'NAME SETTING=X'", "the policy and its settings (none)", OPTION_TEXT(T, member.prune)                                    \
    }

/* A model on one device. */
typedef struct direct {
    rvit_device *device;
    rvit_model *model;
    rvit_model_info info;
    policy prune;
} direct;

/* All functions here end the program on failure. index: of the device within the backend; -1: the first. */
direct direct_open(const direct_options *options, int32_t index);
void direct_close(direct *d);

/* A session for up to max_images of these images; not fixed_batch. */
rvit_session *direct_session(const direct *d, const image_set *p, int32_t max_images);
rvit_image direct_image(const image_set *p, int32_t index);

/* The logits of all images, f32 [n, n_classes], from one run per image in a session for max_images. Free with free(). */
float *direct_logits(const direct_options *options, const image_set *p, int32_t *out_n_classes);
/* Whether two images have the same logits, so that swapped answers would not be noticed. Prints the two. */
int has_equal_logits(const float *logits, int32_t n, int32_t n_classes);

#endif
