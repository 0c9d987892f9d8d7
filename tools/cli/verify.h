/* A run of verify: what verify.c measures and verify_report.c prints. */
#ifndef RVIT_CLI_VERIFY_H
#define RVIT_CLI_VERIFY_H

#include "inputs.h"
#include "mask.h"
#include "verify_compare.h"

struct verify {
    const struct options *options;
    struct engine a, b;
    struct prune prune;                     /* settled for the model */
    struct mask mask;                       /* with --prune mask, else empty */
    rvit_session *run_a, *run_b, *masked_b; /* masked_b: B with the tokens that A kept; made when it is first needed */
    struct selector select_a, select_b;
    bool fused, can_mask; /* masked_b is possible */
    struct inputs inputs; /* no paths: noise */
    int64_t n_noise, n_noise_done;
    int32_t batch, tokens;
    float *images;
    int64_t *positions;     /* [batch]: the images' places among all */
    bool *differs;          /* [batch] */
    uint8_t *given, *masks; /* [n_stages, batch, tokens]: of --mask, and A's */
    float *values[2];       /* [batch, n_values]: of a model without head */
    struct figures figures;
};

/* By storage: both f32, both f16, one of each. */
double verify_by_dtype(const struct verify *self, double f32, double f16, double mixed);
bool verify_is_same_device(const struct verify *self);
bool verify_within_tolerance(const struct figures *figures);
void verify_print_prologue(const struct verify *self);
void verify_print_text(const struct verify *self);
void verify_print_json(const struct verify *self);

#endif
