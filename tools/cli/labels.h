/* Class names and expected classes. */
#ifndef RVIT_CLI_LABELS_H
#define RVIT_CLI_LABELS_H

#include "lines.h"

#include <raggedvit/raggedvit.h>

struct labels {
    struct lines names; /* if empty, classes are shown as numbers */
    int32_t n_classes;
};

/* Loads names from the file, else from the checkpoint's metadata, else from its config.json, else none. texts: the file with the embeddings
   of the texts that are the classes, whose names the checkpoint does not have; NULL: they are the model's. Prints a message on failure;
   returns an exit code. */
int labels_load(const char *path, const rvit_checkpoint *checkpoint, const char *texts, int32_t n_classes, struct labels *out);
void labels_free(struct labels *self);
/* The name, or the number in a static buffer. */
const char *labels_name(const struct labels *self, int32_t label_class);

/* The expected class of each of n_images images: a name or a number a line. The caller frees *out_classes. */
int labels_read_expected(const struct labels *self, const char *path, int64_t n_images, int32_t **out_classes);

#endif
