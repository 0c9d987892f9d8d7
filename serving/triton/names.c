#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "failure.h"
#include "labels.h"

static void put(struct names *self, int32_t label_class, const char *name)
{
    const uint32_t length = (uint32_t)strlen(name);
    uint8_t *out = self->bytes + self->starts[label_class];
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(length >> 8 * i);
    memcpy(out + 4, name, length);
    self->starts[label_class + 1] = self->starts[label_class] + 4 + length;
}

static TRITONSERVER_Error *put_all(struct names *self, const struct labels *labels)
{
    size_t size = 0;
    for (int32_t i = 0; i < labels->n_classes; i++)
        size += 4 + strlen(labels_name(labels, i));
    if (size > UINT32_MAX)
        return invalid("the class names take more than 4 GiB");
    self->starts = calloc((size_t)labels->n_classes + 1, sizeof *self->starts);
    self->bytes = malloc(size + 1);
    if (!self->starts || !self->bytes)
        return failure_out_of_memory();
    for (int32_t i = 0; i < labels->n_classes; i++)
        put(self, i, labels_name(labels, i));
    return NULL;
}

TRITONSERVER_Error *names_make(struct names *self, const char *path, const rvit_checkpoint *checkpoint, int32_t n_classes)
{
    rvit_checkpoint_info info = RVIT_CHECKPOINT_INFO_INIT;
    struct labels labels;
    if (labels_load(path, checkpoint, NULL, n_classes, &labels) != EXIT_OK)
        return failure_of_complaint("parameter labels");
    if (!path && labels.names.n_lines == 0 &&
        (rvit_checkpoint_metadata(checkpoint, "classes") ||
         (rvit_checkpoint_get_info(checkpoint, &info) == RVIT_OK && info.n_class_names > 0)))
        log_line(TRITONSERVER_LOG_WARN, "raggedvit: the checkpoint does not name %d classes; they are shown by number", n_classes);
    TRITONSERVER_Error *error = put_all(self, &labels);
    labels_free(&labels);
    return error;
}

void names_free(struct names *self)
{
    free(self->bytes);
    free(self->starts);
    *self = (struct names){0};
}
