/* The names of a model's classes, as elements of a BYTES tensor. */
#ifndef RVIT_TRITON_NAMES_H
#define RVIT_TRITON_NAMES_H

#include "api.h"

#include <raggedvit/raggedvit.h>

struct names {
    uint8_t *bytes;   /* of each class its length, uint32 little-endian, then its name */
    uint32_t *starts; /* [n_classes + 1] */
};

/* path: a file of one name a line; NULL: what the checkpoint says, else numbers. */
TRITONSERVER_Error *names_make(struct names *self, const char *path, const rvit_checkpoint *checkpoint, int32_t n_classes);
void names_free(struct names *self);

#endif
