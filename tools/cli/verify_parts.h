/* Shared by the parts of raggedvit verify: verify.c measures a run, verify_report.c prints it. */
#ifndef RVIT_CLI_VERIFY_PARTS_H
#define RVIT_CLI_VERIFY_PARTS_H

#include "inputs.h"
#include "labels.h"
#include "mask.h"
#include "verify_compare.h"

/* State of verify_decisions.c. */
struct decisions {
    bool can_judge, merges;
    bool can_give; /* A can run with the tokens that B kept */
    rvit_session *given_a;
    struct judge_rank *ranks; /* [tokens] */
    bool *equal;              /* [batch]: A and B kept the same tokens of the image so far */
    uint8_t *keep[2];         /* [tokens], of A and B */
};

struct verify {
    const struct options *options;
    struct engine a, b;
    struct prune prune;                     /* resolved for the model */
    struct mask mask;                       /* empty without --prune mask */
    rvit_session *run_a, *run_b, *masked_b; /* masked_b: B with the tokens that A kept, created on demand */
    struct selector select_a, select_b;
    bool fused, can_mask; /* can_mask: masked_b is possible */
    rvit_image_recipe recipe;
    struct inputs inputs; /* noise without paths */
    int64_t n_noise, n_noise_done;
    int32_t batch, tokens;
    float *images;
    int64_t *positions;     /* [batch]: positions of the images among all images */
    int32_t *expected;      /* [inputs.n_given]; NULL: unknown */
    int32_t *right;         /* [batch]: expected classes, if known */
    bool *differs;          /* [batch] */
    uint8_t *given, *masks; /* [n_stages, batch, tokens]: from --mask, and those that A kept */
    float *values[2];       /* [batch, n_values]: for a model without a head */
    struct decisions decisions;
    struct figures figures;
};

/* A value for each precision of both devices, and for each less precise one of two different precisions. */
struct by_dtype {
    double equal[5], mixed[5]; /* bf16: 8 times f16, which has 3 more bits; int8 and fp8: about 6.5 and 15 times bf16 */
};

/* verify.c, with `options`, `prune` and both engines set: creates the sessions, and runs and compares all images. The engines stay open.
   Print a message on failure; return exit codes. */
int verify_open(struct verify *self, const rvit_checkpoint *checkpoint);
int verify_run(struct verify *self);
/* Also after a failure. */
void verify_close(struct verify *self);
/* verify_report.c */
double verify_by_dtype(const struct verify *self, const struct by_dtype *values);
bool verify_is_same_device(const struct verify *self);
/* A block whose difference exceeds this, relative to its largest value, has diverged. About ten times the difference between correct
   devices of these types. */
double verify_block_tolerance(rvit_precision a, rvit_precision b);
/* What exceeds its tolerance; "" if nothing does. */
void verify_explain(const struct figures *figures, char *out, size_t out_size);
bool verify_within_tolerance(const struct figures *figures);
void verify_print_prologue(const struct verify *self);
void verify_print_text(const struct verify *self);
void verify_print_json(const struct verify *self);
/* verify_decisions.c: judges the decisions of the sessions stage by stage. Call after creating the sessions. Prints a message on failure;
   these functions return exit codes. */
int decisions_open(struct verify *self);
/* Adds the last runs of A and B. differs: whether any image has different tokens. Then A runs again with B's tokens if its policy can; else
   an image is judged up to the first stage that differs. */
int decisions_judge(struct verify *self, int32_t n_images, bool differs);
void decisions_close(struct verify *self);
/* verify_reference.c: compares A with the dump options->reference. Returns an exit code. */
int verify_reference(const struct options *options);

#endif
