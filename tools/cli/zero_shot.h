/* Zero-shot classification: the classes are texts, whose embeddings lie in a .safetensors file. */
#ifndef RVIT_CLI_ZERO_SHOT_H
#define RVIT_CLI_ZERO_SHOT_H

#include "cli.h"

/* What becomes of the cosine between image and text. */
enum zero_shot_scores {
    ZERO_SHOT_SOFTMAX, /* CLIP: the softmax over all texts of scale * cosine */
    ZERO_SHOT_SIGMOID, /* SigLIP: sigmoid(scale * cosine + bias), of each text by itself */
    ZERO_SHOT_COSINE   /* the cosine itself: scale and bias of a SigLIP are not known */
};

struct options;

struct zero_shot {
    const char *path;
    int32_t n_texts, width;
    enum zero_shot_scores scores;
    double scale, bias;
    const char *scale_from; /* the file that holds logit_scale; NULL: none does */
    float *texts;           /* [n_texts, width], of length 1 */
};

/* Reads --text-embeddings for a model. Prints a message on failure; returns an exit code. */
int zero_shot_open(const struct options *options, const rvit_model_info *model, struct zero_shot *out);
/* May be called if it was never opened. */
void zero_shot_free(struct zero_shot *self);

/* scale * cosine + bias, or the cosine, of each text: out [n_texts]. image: [width], of length 1. */
void zero_shot_score(const struct zero_shot *self, const float *image, float *out);
/* "softmax" */
const char *zero_shot_scores_name(const struct zero_shot *self);
/* How scores are made, for people. */
void zero_shot_describe(const struct zero_shot *self, char *out, size_t size);

#endif
