/* A strict reader of JSON (RFC 8259) that may be hostile. Its memory comes from the given allocator alone and is bounded before it is asked
   for, so running out of it is always told from a broken text. Strings are UTF-8 without NUL, keys of an object differ, integers fit
   int64_t. */
#ifndef RVIT_CORE_JSON_H
#define RVIT_CORE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "core/alloc.h"

typedef enum rvit_json_type {
    RVIT_JSON_NULL,
    RVIT_JSON_FALSE,
    RVIT_JSON_TRUE,
    RVIT_JSON_INTEGER,
    RVIT_JSON_REAL, /* has a point, an exponent, or is -0 */
    RVIT_JSON_STRING,
    RVIT_JSON_ARRAY,
    RVIT_JSON_OBJECT
} rvit_json_type;

#define RVIT_JSON_MAX_DEPTH 32

/* A value. Those it contains follow it in memory, in the order of the text. */
typedef struct rvit_json {
    rvit_json_type type;
    int32_t n;       /* elements or members */
    int32_t span;    /* values up to the one after it and all it contains */
    const char *key; /* of a member; NULL elsewhere */
    union {
        int64_t integer;
        double real;
        const char *string;
    };
} rvit_json;

typedef struct rvit_json_input {
    const char *path; /* fit to be printed: messages begin with it */
    const char *what; /* what the text is called after it: " the header", "" */
    char *text;       /* [size + 1], with a NUL at the end; strings are made of it in place */
    size_t size;
    int32_t max_depth; /* at most RVIT_JSON_MAX_DEPTH */
    int32_t max_values;
} rvit_json_input;

/* The text's first value. *out_end: the byte after it. *out_root is to be given to rvit_alloc_free; its strings lie in the text. BAD_FILE
   says what is wrong at which byte. */
rvit_status rvit_json_parse(const rvit_json_input *input, rvit_alloc *alloc, rvit_json **out_root, size_t *out_end);

/* for (const rvit_json *v = rvit_json_first(parent); v != NULL; v = rvit_json_next(parent, v)) */
const rvit_json *rvit_json_first(const rvit_json *parent);
const rvit_json *rvit_json_next(const rvit_json *parent, const rvit_json *value);
/* The member of this key; NULL if there is none, or if object is NULL or no object. */
const rvit_json *rvit_json_get(const rvit_json *object, const char *key);

#endif
