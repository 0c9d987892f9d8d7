/* The class names in the files beside a checkpoint. */
#ifndef RVIT_CORE_MODEL_CLASS_NAMES_H
#define RVIT_CORE_MODEL_CLASS_NAMES_H

#include "core/file/json.h"

typedef struct rvit_class_names {
    const char **names; /* [n], with the texts in the same memory; NULL: there are none */
    int32_t n;
} rvit_class_names;

/* root: a config.json. Its label_names (timm) or id2label (transformers) is a list of names, or an object that maps numbers to names;
   anything else is ignored. A class without a name is named by its number. */
rvit_status rvit_class_names_read(const rvit_json *root, rvit_alloc *alloc, rvit_class_names *out_names);
void rvit_class_names_free(rvit_alloc *alloc, rvit_class_names *names);

#endif
