/* Finds the best classes of an image. */
#ifndef RVIT_CLI_RANK_H
#define RVIT_CLI_RANK_H

#include <stdint.h>

/* The n best classes by (logit descending, index ascending), NaN last. out [n] */
void rank_classes(const float *logits, int32_t n_classes, int32_t n, int32_t *out);
/* Their softmax probabilities, with float64 sums in the order of the classes. out [n] */
void rank_scores(const float *logits, int32_t n_classes, const int32_t *classes, int32_t n, double *out);

#endif
