/* Zero-shot classification: the classes are texts with embeddings in a .safetensors file. */
#ifndef RVIT_CLI_ZERO_SHOT_H
#define RVIT_CLI_ZERO_SHOT_H

#include "cli.h"

/* How scores are computed from the cosine between image and text. */
enum zero_shot_scores {
    ZERO_SHOT_SOFTMAX, /* CLIP: softmax of scale * cosine over all texts */
    ZERO_SHOT_SIGMOID, /* SigLIP: sigmoid(scale * cosine + bias) of each text */
    ZERO_SHOT_COSINE   /* the cosine: scale or bias of a SigLIP is unknown */
};

struct options;

struct zero_shot {
    const char *path;
    int32_t n_texts, width;
    enum zero_shot_scores scores;
    double scale, bias;
    const char *scale_from; /* the file that has logit_scale, or NULL */
    float *texts;           /* [n_texts, width], rows of length 1 */
};

/* Reads --text-embeddings for a model. Prints a message on failure; returns an exit code. */
int zero_shot_open(const struct options *options, const rvit_model_info *model, struct zero_shot *out);
/* May be called if it was never opened. */
void zero_shot_free(struct zero_shot *self);

/* Computes scale * cosine + bias, or the cosine, of each text: out [n_texts]. image: [width], of length 1. */
void zero_shot_score(const struct zero_shot *self, const float *image, float *out);
/* "softmax" */
const char *zero_shot_scores_name(const struct zero_shot *self);
/* Describes how scores are computed. */
void zero_shot_describe(const struct zero_shot *self, char *out, size_t size);

#endif
