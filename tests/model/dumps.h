/* What the suites of test_dumps share: a dump, and the model and the images that it stands for. */
#ifndef RVIT_TESTS_DUMPS_H
#define RVIT_TESTS_DUMPS_H

#include "harness.h"

#include <jansson.h>

extern const suite pooled_suite;
extern const char *data; /* the folder of the committed dumps */

json_t *load_dump(const char *in, const char *file_name);
int64_t integer(const json_t *object, const char *key);
const char *text(const json_t *object, const char *key);
rvit_dtype type_of(const char *name);
/* Where the checkpoint of a dump lies; made if it has none. */
const char *checkpoint_of(const json_t *dump);
void fill_images(const rvit_model_info *info, int32_t n_images, float *images);
/* The number from which value i of tensor `stream` of a dump is made. */
float noise(uint64_t stream, uint64_t i);

#endif
