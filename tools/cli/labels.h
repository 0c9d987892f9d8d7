/* Class names and expected classes. */
#ifndef RVIT_CLI_LABELS_H
#define RVIT_CLI_LABELS_H

#include "lines.h"

#include <raggedvit/raggedvit.h>

struct labels {
    struct lines names; /* empty: classes are shown by number */
    int32_t n_classes;
};

/* Loads names from the file, else from the checkpoint's metadata or config.json. texts: file of the text embeddings that are the classes,
   for which the checkpoint has no names; NULL: the model's own classes. Prints a message on failure; returns an exit code. */
int labels_load(const char *path, const rvit_checkpoint *checkpoint, const char *texts, int32_t n_classes, struct labels *out);
void labels_free(struct labels *self);
/* The name, or the number as text in a static buffer. */
const char *labels_name(const struct labels *self, int32_t label_class);

/* Reads the expected class of each image, a name or number per line. The caller frees *out_classes. */
int labels_read_expected(const struct labels *self, const char *path, int64_t n_images, int32_t **out_classes);

#endif
