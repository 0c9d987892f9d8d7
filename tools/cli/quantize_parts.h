/* What the parts of raggedvit quantize share: the weights that get 8 bits, what calibration finds of their inputs, the file, the report. */
#ifndef RVIT_CLI_QUANTIZE_PARTS_H
#define RVIT_CLI_QUANTIZE_PARTS_H

#include "engine.h"
#include "output_file.h"

#include <raggedvit/experimental.h>

/* A linear layer of a block, or a part of one: queries, keys and values may be apart. */
struct quantize_layer {
    int32_t tensor, block;
    rvit_block_layer layer;
    int64_t rows, columns;
    const char *name;
    float *weight;       /* [rows, columns] */
    float *scales;       /* [n_scales] */
    uint8_t *quantized;  /* [rows, columns] */
    int64_t n_scales;    /* rows, or 1 */
    double weight_error; /* root mean square, relative */
    const char *skipped; /* why it stays as it is; NULL: it gets 8 bits */
    struct quantize_input *input;
    double squares, squares_of_errors; /* of the product on the calibration images */
};

/* What goes into a layer of a block. */
struct quantize_input {
    float largest;
    float *largest_of_columns; /* [columns]; NULL: it was not seen */
    int64_t columns;
    float *samples; /* [n_samples, columns]: rows that products are compared on */
    int64_t n_samples, n_seen;
};

struct quantize {
    const struct options *options;
    rvit_checkpoint *checkpoint;
    rvit_tensors *tensors;
    rvit_model_info info;
    rvit_dtype dtype; /* RVIT_I8 or RVIT_E4M3 */
    bool fixed;       /* the scales of inputs are those of the calibration, in the file */
    struct quantize_layer *layers;
    int32_t n_layers;
    struct quantize_input *inputs; /* [4 * depth] */
    struct output_file output;
    int64_t n_images, n_failed; /* of calibration: images that were computed, that could not be read */
};

/* quantize_error.c. The scale of all rows of a layer's input. */
float quantize_fixed_scale(const struct quantize *self, const struct quantize_input *input);
/* Fills in the layer's bytes and scales, and the error of its weight. As the library does it that quantises a model while it loads it: int8
   with a scale for each row, e4m3 with one. */
void quantize_round_weight(const struct quantize *self, struct quantize_layer *layer);
/* Compares products of sampled inputs, computed in float64, with those of the bytes. Returns an exit code. */
int quantize_compare_outputs(const struct quantize *self, struct quantize_layer *layer);
/* Of the layer's product on the calibration images: root mean square, relative. */
double quantize_output_error(const struct quantize_layer *layer);

/* Runs the model in float32 on the images of --calibrate. These print a message on failure and return an exit code. */
int quantize_calibrate(struct quantize *self);
int quantize_write(struct quantize *self);
/* Returns the exit code of the command. */
int quantize_report(const struct quantize *self, const char *path);

#endif
