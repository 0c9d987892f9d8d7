/* Shared by the parts of raggedvit quantize: weights, calibration of their inputs, file and report. */
#ifndef RVIT_CLI_QUANTIZE_PARTS_H
#define RVIT_CLI_QUANTIZE_PARTS_H

#include "engine.h"
#include "output_file.h"

#include <raggedvit/experimental.h>

/* A linear layer of a block, or a part of it: queries, keys and values may be separate tensors. */
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
    const char *skipped; /* why it is not quantized; NULL: it is */
    struct quantize_input *input;
    double squares, squares_of_errors; /* of the outputs on the calibration images */
};

/* The input of a layer. */
struct quantize_input {
    float largest;
    float *largest_of_columns; /* [columns]; NULL without calibration */
    int64_t columns;
    float *samples; /* [n_samples, columns]: rows on which outputs are compared */
    int64_t n_samples, n_seen;
};

struct quantize {
    const struct options *options;
    rvit_checkpoint *checkpoint;
    rvit_tensors *tensors;
    rvit_model_info info;
    rvit_dtype dtype; /* RVIT_I8 or RVIT_E4M3 */
    bool fixed;       /* the file has input scales from the calibration */
    struct quantize_layer *layers;
    int32_t n_layers;
    struct quantize_input *inputs; /* [4 * depth] */
    struct output_file output;
    int64_t n_images, n_failed; /* calibration images that were used, and that could not be read */
};

/* quantize_error.c. The input scale of a layer, equal for all rows. */
float quantize_fixed_scale(const struct quantize *self, const struct quantize_input *input);
/* Quantizes the layer's weight and sets its scales and error, in the same way as the library while it loads a model: int8 has a scale per
   row, e4m3 one scale. */
void quantize_round_weight(const struct quantize *self, struct quantize_layer *layer);
/* Compares float64 outputs for sampled inputs with those of the quantized weight and inputs. Returns an exit code. */
int quantize_compare_outputs(const struct quantize *self, struct quantize_layer *layer);
/* Relative root mean square error of the layer's output on the calibration images. */
double quantize_output_error(const struct quantize_layer *layer);

/* Runs the model in float32 on the calibration images. These functions print a message on failure and return an exit code. */
int quantize_calibrate(struct quantize *self);
int quantize_write(struct quantize *self);
/* Returns the exit code of the command. */
int quantize_report(const struct quantize *self, const char *path);

#endif
