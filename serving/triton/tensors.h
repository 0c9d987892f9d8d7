/* The inputs and outputs of models, and those that a model's configuration declares. Shapes are without the first dimension, the number of
   images. A request has exactly one of the inputs:

     IMAGE    UINT8 [h, w, 3]   RGB, of any size
     ENCODED  BYTES [1]         a PNG, JPEG, WebP or BMP file
     PIXELS   FP32 [3, H, W]    normalised, of the model's size; NaFlex: multiples of the patch size

     LOGITS     FP32 [n_classes]      only with classes, like the next three
     CLASSES    INT32 [top]           best first
     SCORES     FP32 [top]            their softmax
     LABELS     BYTES [top]           their names
     POOLED     FP32 [width]          input of the head; only if declared
     EMBEDDING  FP32 [embedding_dim]  projected, with L2 norm 1
     MASK       UINT8 [tokens]        1: the token is kept after the last stage. Not for NaFlex models
     TOKENS     INT32 [1]             tokens kept after the last stage */
#ifndef RVIT_TRITON_TENSORS_H
#define RVIT_TRITON_TENSORS_H

#include "config.h"

enum input_kind { INPUT_IMAGE, INPUT_ENCODED, INPUT_PIXELS, N_INPUTS };
enum output_kind {
    OUTPUT_LOGITS,
    OUTPUT_CLASSES,
    OUTPUT_SCORES,
    OUTPUT_LABELS,
    OUTPUT_POOLED,
    OUTPUT_EMBEDDING,
    OUTPUT_MASK,
    OUTPUT_TOKENS,
    N_OUTPUTS
};

struct tensor {
    const char *name;
    TRITONSERVER_DataType type;
    const char *config_type; /* name in config.pbtxt */
};
extern const struct tensor tensors_inputs[N_INPUTS], tensors_outputs[N_OUTPUTS];
/* Index of a name, or -1. */
int tensors_find_input(const char *name);
int tensors_find_output(const char *name);

struct tensors {
    int64_t input_dims[N_INPUTS][3]; /* -1: any */
    int32_t n_input_dims[N_INPUTS];
    int64_t width[N_OUTPUTS]; /* 0: the model has no such output */
    unsigned inputs, outputs; /* declared; bits 1 << kind */
};

/* variable_resolution: each image has its own shape. */
void tensors_of_model(const rvit_model_info *info, bool variable_resolution, int32_t n_classes, int32_t top, struct tensors *out);
/* Checks the declarations of the configuration, or completes them and updates the server. Sets config->max_batch_size. */
TRITONSERVER_Error *tensors_declare(struct tensors *self, TRITONBACKEND_Model *model, struct config *config);

#endif
