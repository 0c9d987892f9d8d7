/* Reads dumps of tools/reference/dump_reference.py: what a model's own code computes. */
#ifndef RVIT_CLI_REFERENCE_H
#define RVIT_CLI_REFERENCE_H

#include "cli.h"
#include "json.h"

#include <raggedvit/model.h>

enum { REFERENCE_LOGITS, REFERENCE_POOLED, REFERENCE_FEATURES, REFERENCE_OUTPUTS };

/* An output of both the dump and the model. */
struct reference_output {
    int32_t index;  /* of the tensor; -1: not in the dump */
    int64_t length; /* values per image */
    /* Over all images. */
    double largest_difference, largest;
    double squares_of_differences, squares;
};

struct reference {
    const char *path;
    rvit_tensors *tensors;
    json_t *metadata; /* text by name */
    int32_t images;   /* index of the tensor */
    int64_t n_images, image_length;
    struct reference_output outputs[REFERENCE_OUTPUTS];
};

/* "logits" */
const char *reference_name(int output);
/* Opens a dump and checks that its shapes match the model. Prints a message on failure; returns an exit code. */
int reference_open(const char *path, const rvit_model_info *model, struct reference *out);
/* May be called if it was never opened. */
void reference_close(struct reference *self);
/* Text of the metadata, or "". */
const char *reference_text(const struct reference *self, const char *name);

/* Read n images from `first` on, or their values of an output. Values that are not finite are an error. Print a message on failure; return
   an exit code. */
int reference_images(const struct reference *self, int64_t first, int64_t n, float *out);
int reference_values(const struct reference *self, int output, int64_t first, int64_t n, float *out);

/* The largest allowed difference, relative to the largest value of an output: twice the error of PyTorch in that type according to the
   dump, but at least the rounding error of any correct sum. */
double reference_tolerance(const struct reference *self, int output, rvit_precision precision);
/* The relative root mean square error of PyTorch in a type according to the dump; 0: unknown. */
double reference_rms(const struct reference *self, int output, rvit_precision precision);
/* Whether the dump was made from this checkpoint file: 1 or 0, or -1 if unknown or the file cannot be read. */
int reference_is_of_file(const struct reference *self, const char *checkpoint);

#endif
