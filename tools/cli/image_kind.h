/* What kind of image a file is, told by its first bytes. */
#ifndef RVIT_CLI_IMAGE_KIND_H
#define RVIT_CLI_IMAGE_KIND_H

#include <stdbool.h>
#include <stddef.h>

struct image_reader;

struct image_kind {
    const char *name;                         /* "PNG" */
    bool (*read)(struct image_reader *input); /* NULL: images of this kind are not read */
};

#define IMAGE_KIND_BYTES 18 /* of a file, which tell */

/* NULL: no image that is known here. */
const struct image_kind *image_kind_of(const void *data, size_t size);

#endif
