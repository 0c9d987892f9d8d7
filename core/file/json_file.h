/* Reads whole JSON files of moderate size: the index of a sharded checkpoint, a model's config. */
#ifndef RVIT_CORE_FILE_JSON_FILE_H
#define RVIT_CORE_FILE_JSON_FILE_H

#include "core/file/json.h"

typedef struct rvit_json_file {
    char *text;
    rvit_json *root; /* an object; its strings point into text */
} rvit_json_file;

/* BAD_FILE names the file and the error. */
rvit_status rvit_json_file_read(const char *path, rvit_alloc *alloc, rvit_json_file *out_file);
void rvit_json_file_free(rvit_alloc *alloc, rvit_json_file *file);

#endif
