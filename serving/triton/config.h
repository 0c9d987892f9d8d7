/* clang-format off */
/* What a model's config.pbtxt says. Its fields, besides `backend: "raggedvit"`, which alone is a whole config:

   max_batch_size       the most images of a run and of a request, up to 4096; 64 where it is 0 or missing
   input, output        a choice of those of tensors.h. Where none is given all inputs are declared, and all outputs that the model has
                        but POOLED. What is given must have the name, type and dims of tensors.h; its other fields are kept as they are
   dynamic_batching     where no scheduling is given: on, without a delay (public_tensors.c says why)
   instance_group       KIND_GPU: the CUDA device of that number. KIND_CPU: the CPU. KIND_MODEL: the first device that there is. Where
                        none is given: two on each GPU, else one on the CPU. Instances share the weights of a device
   parameters           string_values, all optional:
     backend            cuda, vulkan, cpu, or auto: KIND_GPU is cuda, KIND_CPU is cpu
     dtype              f32, f16, bf16, int8, fp8 or auto (rvit_precision); f16 on a GPU, f32 on the CPU
     policy             the prune policy, by the name that `raggedvit policies` lists; none
     keep, blocks, threshold, mass, samples, merge, alpha, object-block, tau, seed
                        of that policy, as on the command line
     settings           up to 15 further policies that a request may choose by its parameters `policy` and `keep`:
                        "l2 keep=0.5; l2 keep=0.7; none". Each takes the memory of a session in each instance
     max_tokens         the most tokens of a run, before pruning, and of a request; max_batch_size times those of an image. Models of a
                        fixed size run max_tokens / tokens images at a time
     max_patches        images keep their shape and get at most so many patches (NaFlex); as the model's files say, else all images get
                        the model's size
     max_image_bytes    bytes of memory for the images of a run, with the weights of their resize; 2 MiB for each of max_batch_size, at
                        least 24 MiB and at most 256 MiB. Images that take more than their share of it are resized on the host
     small_batch        gives each setting a second session, for runs of at most so many images: one image in a session for 64 takes
                        0.79 ms, in one for 1 0.54 (DeiT-B f16 on an H100). On a GPU the last bits of an answer then depend on how many
                        images ran with it, which they do not otherwise
     top                classes in CLASSES, SCORES and LABELS, up to 100; 5, or all if there are fewer
     labels             a file of class names, one a line, relative to the folder of the version; without it the checkpoint's own, else
                        numbers
     checkpoint         the file with the weights, or the index of several, in the folder of the version; model.safetensors
     image_size         pixels, of square images; resamples the position table
     architecture       a name of timm's, for weights without a config beside them
     fit, filter, crop, mean, std
                        how images are prepared, as on the command line; as the model's files say
     threads            CPU: gives each instance a device of its own with so many threads, and a copy of the weights. Without it instances
                        share one device with all processors, and take turns
     decode_threads     of the model: how many ENCODED images are decoded at a time, and images resized on the host; half of the
                        processors, at least 1 */
/* clang-format on */
#ifndef RVIT_TRITON_CONFIG_H
#define RVIT_TRITON_CONFIG_H

#include <jansson.h>

#include "recipe.h"
#include "settings.h"

struct config {
    json_t *root; /* of the ModelConfig; owns the texts below */
    int32_t max_batch_size;
    int32_t backend, dtype; /* rvit_backend, rvit_precision */
    const char *policy, *further;
    struct setting first;
    int32_t max_tokens, max_patches; /* 0: not given, as of all that follow */
    int64_t max_image_bytes;
    int32_t small_batch, top;
    const char *labels, *checkpoint, *architecture;
    int32_t image_size, threads, decode_threads;
    struct recipe_options recipe;
    int given; /* CONFIG_DTYPE, RECIPE_MEAN, RECIPE_DEVIATION, and what settings need */
};
enum { CONFIG_DTYPE = 1 << 16 };

/* Reads the configuration of a model. It owns memory even after a failure. */
TRITONSERVER_Error *config_read(TRITONBACKEND_Model *model, struct config *out);
void config_free(struct config *self);

/* Processors that this process may use. */
int32_t config_processors(void);

#endif
