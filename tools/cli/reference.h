/* What a model's own code computes, as tools/reference/dump_reference.py has written it. */
#ifndef RVIT_CLI_REFERENCE_H
#define RVIT_CLI_REFERENCE_H

#include "cli.h"
#include "json.h"

#include <raggedvit/model.h>

enum { REFERENCE_LOGITS, REFERENCE_POOLED, REFERENCE_FEATURES, REFERENCE_OUTPUTS };

/* An output that the dump and the model have in common. */
struct reference_output {
    int32_t index;  /* of the tensor; -1: not in the dump */
    int64_t length; /* values of an image */
    /* Over all images. */
    double largest_difference, largest;
    double squares_of_differences, squares;
};

struct reference {
    const char *path;
    rvit_tensors *tensors;
    json_t *metadata; /* texts by name */
    int32_t images;   /* index of the tensor */
    int64_t n_images, image_length;
    struct reference_output outputs[REFERENCE_OUTPUTS];
};

/* "logits" */
const char *reference_name(int output);
/* Opens a dump and checks that it is of a model of this shape. Prints a message on failure; returns an exit code, like all functions here.
 */
int reference_open(const char *path, const rvit_model_info *model, struct reference *out);
/* May be called if it was never opened. */
void reference_close(struct reference *self);
/* Text of the metadata; "" if it is not there. */
const char *reference_text(const struct reference *self, const char *name);

/* Images first .. first + n - 1, or the values of an output for these, all finite. */
int reference_images(const struct reference *self, int64_t first, int64_t n, float *out);
int reference_values(const struct reference *self, int output, int64_t first, int64_t n, float *out);

/* The largest difference that is allowed, relative to the largest value of an output: twice what PyTorch itself is off in that type, as the
   dump says, and not less than what any correct sum may be off. */
double reference_tolerance(const struct reference *self, int output, rvit_precision precision);
/* What PyTorch itself is off in a type, as the dump says: in the root mean square, relative to that of the values. 0: it does not say. */
double reference_rms(const struct reference *self, int output, rvit_precision precision);
/* Whether the dump was made with this very file of weights: 1, 0, or -1: it does not say, or the file cannot be read. */
int reference_is_of_file(const struct reference *self, const char *checkpoint);

#endif
