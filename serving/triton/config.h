/* clang-format off */
/* A model's config.pbtxt. `backend: "raggedvit"` alone is a complete configuration. Other fields:

   max_batch_size       maximum images of a run and of a request, up to 4096 (default: 64, also for 0)
   input, output        a selection of those in tensors.h (default: all inputs, and all outputs of the model except POOLED). Name, type and
                        dims must be those of tensors.h; other fields are kept
   dynamic_batching     enabled without a delay unless a scheduling is configured (tensors.c says why)
   instance_group       KIND_GPU: the CUDA device of that number. KIND_CPU: the CPU. KIND_MODEL: the first available device. Default: two
                        instances per GPU, else one on the CPU. Instances share the weights of a device
   parameters           string_values, all optional:
     backend            cuda, vulkan, cpu or auto (default: cuda for KIND_GPU, cpu for KIND_CPU)
     dtype              f32, f16, bf16, int8, fp8 or auto (default: f16 on a GPU, f32 on the CPU)
     policy             pruning policy, a name that `raggedvit policies` lists (default: none)
     keep, blocks, threshold, mass, samples, merge, alpha, object-block, tau, seed
                        its parameters, as on the command line
     settings           up to 15 further policies, which requests choose by their parameters `policy` and `keep`:
                        "l2 keep=0.5; l2 keep=0.7; none". Each takes the memory of a session in each instance
     max_tokens         maximum tokens of a run, before pruning, and of a request (default: max_batch_size times those of an image). Models
                        of a fixed size run max_tokens / tokens images at a time
     max_patches        images keep their aspect ratio and get at most this many patches (NaFlex) (default: from the model's files, else all
                        images get the model's size)
     max_image_bytes    memory for the images of a run and their resize weights (default: 2 MiB for each of max_batch_size, from 24 to 256
                        MiB). Images that exceed their share are resized on the host
     small_batch        gives each setting a second session for runs of at most this many images: one image takes 0.79 ms in a session for
                        64 and 0.54 ms in one for 1 (DeiT-B f16 on an H100). On a GPU the last bits of an answer then depend on the number
                        of images in its run, which they otherwise do not
     top                classes in CLASSES, SCORES and LABELS, up to 100 (default: 5, or all if there are fewer)
     labels             file of class names, one per line, relative to the folder of the version (default: the checkpoint's, else numbers)
     checkpoint         file with the weights, or the index of several, in the folder of the version (default: model.safetensors)
     image_size         input resolution in pixels; the position embedding is resampled to it
     architecture       timm name of the model, for weights without a config
     fit, filter, crop, mean, std
                        image preparation, as on the command line (default: from the model's files)
     threads            CPU: gives each instance its own device with this many threads and its own copy of the weights (default: instances
                        share a device with all cores and take turns)
     decode_threads     threads of the model that decode ENCODED images and resize images on the host (default: half of the cores) */
/* clang-format on */
#ifndef RVIT_TRITON_CONFIG_H
#define RVIT_TRITON_CONFIG_H

#include <jansson.h>

#include "recipe.h"
#include "settings.h"

struct config {
    json_t *root; /* the ModelConfig, which owns the strings below */
    int32_t max_batch_size;
    int32_t backend, dtype; /* rvit_backend, rvit_precision */
    const char *policy, *further;
    struct setting first;
    int32_t max_tokens, max_patches; /* 0: not set, here and below */
    int64_t max_image_bytes;
    int32_t small_batch, top;
    const char *labels, *checkpoint, *architecture;
    int32_t image_size, threads, decode_threads;
    struct recipe_options recipe;
    int given; /* CONFIG_DTYPE, RECIPE_MEAN, RECIPE_DEVIATION and rvit_prune_parameter bits */
};
enum { CONFIG_DTYPE = 1 << 16 };

/* Reads the configuration of a model. Free it even after a failure. */
TRITONSERVER_Error *config_read(TRITONBACKEND_Model *model, struct config *out);
void config_free(struct config *self);

/* The number of CPUs that this process may use. */
int32_t config_processors(void);

#endif
