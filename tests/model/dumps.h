/* The dumps of make_dumps.py: outputs in float64 of models that are made again from their names, shapes and configuration. */
#ifndef RVIT_TESTS_DUMPS_H
#define RVIT_TESTS_DUMPS_H

#include "harness.h"

#include <jansson.h>

/* Outputs are of the order of 1. A wrong choice must change them by ten times this. */
#define DUMP_TOLERANCE 1e-4

/* The committed dumps. */
extern const char *dump_file;
/* Changes the values of each tensor that dump_checkpoint writes; NULL: none. */
extern void (*dump_change)(const char *name, int32_t rank, const int64_t *shape, float *values);

/* The name of dump i of a file; NULL: there are fewer. */
const char *dump_name(const char *path, int i);
json_t *dump_load(const char *path, const char *name);
int64_t dump_integer(const json_t *object, const char *key);
const char *dump_text(const json_t *object, const char *key);
/* The path of a dump's checkpoint, with its configuration beside it; made if it has none. */
const char *dump_checkpoint(const json_t *dump);
/* A checkpoint with the image size and the resampling of the dump; desc: NULL, or what to give beside them. */
rvit_checkpoint *dump_open(const json_t *dump, const rvit_checkpoint_desc *desc);
/* The values of a tensor of a float32 dump, in scratch memory. */
double *dump_tensor(const json_t *dump, const char *name);
void dump_images(const rvit_model_info *info, int32_t n_images, float *images);
/* Of a dump of native resolution: the grids [n_images, 2], and the patches of all images, in scratch memory. NULL: it is of another kind.
 */
int32_t *dump_grids(const json_t *dump);
float *dump_patches(const json_t *dump, const rvit_model_info *info);
/* The bytes of image i, in scratch memory. */
const uint8_t *dump_image_bytes(int32_t i, int64_t n);
/* A session for the images of a dump; of native resolution exactly large enough. */
rvit_session_desc dump_session_desc(const json_t *dump, const rvit_model_info *info);
/* What the dump says of a policy. */
rvit_prune_desc dump_prune(const json_t *prune);
/* Turns the images into equal blocks of patches, if the pruning needs them. */
void dump_repeat(const json_t *prune, const json_t *dump, const rvit_model_info *info, float *patches);
/* Runs all images of a dump; or, of native resolution, other patches of the same grids. */
void dump_run_patches(const json_t *dump, const rvit_model_info *info, rvit_session *session, const float *patches);
void dump_run_all(const json_t *dump, const rvit_model_info *info, rvit_session *session);
/* The largest difference of the rows from those in `wanted`, an array for each image; of image n from[n], or n, is the row. NaN passes. */
double dump_difference(const json_t *wanted, const float *rows, int32_t width, const int32_t *from);
/* Runs the model and returns the largest difference from the dump's outputs: logits, or the features of the CLS token. */
double dump_run(const json_t *dump, const rvit_checkpoint *checkpoint, rvit_dtype dtype, rvit_quantization quantization);
/* The largest absolute value of the dump's outputs. */
double dump_largest(const json_t *dump);

extern const suite dump_heads_suite, dump_pooled_suite, dump_mutants_suite, dump_sessions_suite, dump_variable_resolution_suite,
    dump_pixels_suite, dump_qwen_suite, dump_qwen_batches_suite, dump_qwen_files_suite, dump_qwen_pruned_suite;

#endif
