/* The class names of a model as elements of a BYTES tensor. */
#ifndef RVIT_TRITON_NAMES_H
#define RVIT_TRITON_NAMES_H

#include "api.h"

#include <raggedvit/raggedvit.h>

struct names {
    uint8_t *bytes;   /* per class: length as little-endian uint32, then the name */
    uint32_t *starts; /* [n_classes + 1] */
};

/* path: a file with one name per line; NULL: names of the checkpoint, else numbers. */
TRITONSERVER_Error *names_make(struct names *self, const char *path, const rvit_checkpoint *checkpoint, int32_t n_classes);
void names_free(struct names *self);

#endif
