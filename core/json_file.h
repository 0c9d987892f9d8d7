/* Whole JSON files of moderate size: the index of a sharded checkpoint, a model's config. */
#ifndef RVIT_CORE_JSON_FILE_H
#define RVIT_CORE_JSON_FILE_H

#include <jansson.h>

#include "core/alloc.h"

/* BAD_FILE names the file and what is wrong with it; its top level is an object without doubled keys. The result is the caller's to
   json_decref. */
rvit_status rvit_json_read(const char *path, rvit_alloc *alloc, json_t **out_root);

#endif
