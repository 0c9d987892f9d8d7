/* The dumps of tools/dump_reference.py: outputs in float64 of models that are made again from their names, shapes and configuration. */
#ifndef RVIT_TESTS_DUMPS_H
#define RVIT_TESTS_DUMPS_H

#include "harness.h"

#include <jansson.h>

extern const suite dump_pooled_suite;
/* Where the committed dumps lie. */
extern const char *dump_folder;

json_t *dump_load(const char *in, const char *file_name);
int64_t dump_integer(const json_t *object, const char *key);
const char *dump_text(const json_t *object, const char *key);
/* The path of a dump's checkpoint, with its configuration beside it; made if it has none. */
const char *dump_checkpoint(const json_t *dump);
/* The values of a tensor of a float32 dump, in scratch memory. */
double *dump_tensor(const json_t *dump, const char *name);
void dump_images(const rvit_model_info *info, int32_t n_images, float *images);

#endif
