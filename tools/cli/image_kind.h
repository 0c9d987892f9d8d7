/* Recognises image formats by the first bytes of a file. */
#ifndef RVIT_CLI_IMAGE_KIND_H
#define RVIT_CLI_IMAGE_KIND_H

#include <stdbool.h>
#include <stddef.h>

struct image_reader;

struct image_kind {
    const char *name;                         /* "PNG" */
    bool (*read)(struct image_reader *input); /* NULL: the format is not supported */
};

#define IMAGE_KIND_BYTES 18 /* bytes of a file needed to recognise it */

/* Returns NULL for an unknown format. */
const struct image_kind *image_kind_of(const void *data, size_t size);

#endif
