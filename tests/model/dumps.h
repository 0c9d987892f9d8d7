/* Reads the dumps of make_dumps.py: float64 outputs of models, with the names, shapes and configuration that recreate each model. */
#ifndef RVIT_TESTS_DUMPS_H
#define RVIT_TESTS_DUMPS_H

#include "harness.h"

#include <jansson.h>

/* Outputs are of the order of 1. A wrong choice must change them by ten times this. */
#define DUMP_TOLERANCE 1e-4

/* The file of the committed dumps. */
extern const char *dump_file;
/* If not NULL, changes the values of each tensor that dump_checkpoint writes. */
extern void (*dump_change)(const char *name, int32_t rank, const int64_t *shape, float *values);

/* The name of dump i of a file; NULL: there are fewer. */
const char *dump_name(const char *path, int i);
json_t *dump_load(const char *path, const char *name);
int64_t dump_integer(const json_t *object, const char *key);
const char *dump_text(const json_t *object, const char *key);
/* Returns the path of a dump's checkpoint, with its config file in the same folder. Writes the checkpoint if the dump names no file. */
const char *dump_checkpoint(const json_t *dump);
/* Opens the checkpoint with the image size and the resampling of the dump, and with the other fields of desc, if not NULL. */
rvit_checkpoint *dump_open(const json_t *dump, const rvit_checkpoint_desc *desc);
/* The values of a tensor of a float32 dump, in scratch memory. */
double *dump_tensor(const json_t *dump, const char *name);
void dump_images(const rvit_model_info *info, int32_t n_images, float *images);
/* The grids [n_images, 2] and the patches of a dump with variable resolution, in scratch memory; NULL for other dumps. */
int32_t *dump_grids(const json_t *dump);
float *dump_patches(const json_t *dump, const rvit_model_info *info);
/* The 8-bit pixels of image i, n values in scratch memory. */
const uint8_t *dump_image_bytes(int32_t i, int64_t n);
/* A session for exactly the images of a dump. */
rvit_session_desc dump_session_desc(const json_t *dump, const rvit_model_info *info);
/* The prune settings of a dump. */
rvit_prune_desc dump_prune(const json_t *prune);
/* Turns the images into tiles of equal patches, if the policy needs them (repeating() in reference_pruned.py). */
void dump_repeat(const json_t *prune, const json_t *dump, const rvit_model_info *info, float *patches);
/* Run all images of a dump; the former with other patches of the same grids. */
void dump_run_patches(const json_t *dump, const rvit_model_info *info, rvit_session *session, const float *patches);
void dump_run_all(const json_t *dump, const rvit_model_info *info, rvit_session *session);
/* The largest difference of the rows from those in `wanted`, which has an array for each image. The row of image n is from[n], or n if from
   is NULL. Returns NaN if there is one. */
double dump_difference(const json_t *wanted, const float *rows, int32_t width, const int32_t *from);
/* Runs the model and returns the largest difference from the dump's outputs: logits, or the features of the CLS token. */
double dump_run(const json_t *dump, const rvit_checkpoint *checkpoint, rvit_dtype dtype, rvit_quantization quantization);
/* The largest absolute value of the dump's outputs. */
double dump_largest(const json_t *dump);

extern const suite dump_heads_suite, dump_pooled_suite, dump_mutants_suite, dump_sessions_suite, dump_variable_resolution_suite,
    dump_pixels_suite, dump_qwen_suite, dump_qwen_batches_suite, dump_qwen_files_suite, dump_qwen_pruned_suite;

#endif
