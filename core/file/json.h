/* A strict JSON parser (RFC 8259) for untrusted input. All its memory comes from `alloc` and is bounded before it is allocated, so running
   out of memory never looks like malformed text. Strings are UTF-8 without NUL, the keys of an object are unique, integers fit int64_t. */
#ifndef RVIT_CORE_FILE_JSON_H
#define RVIT_CORE_FILE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/alloc.h"

typedef enum rvit_json_type {
    RVIT_JSON_NULL,
    RVIT_JSON_FALSE,
    RVIT_JSON_TRUE,
    RVIT_JSON_INTEGER,
    RVIT_JSON_REAL, /* has a decimal point or an exponent, or is -0 */
    RVIT_JSON_STRING,
    RVIT_JSON_ARRAY,
    RVIT_JSON_OBJECT
} rvit_json_type;

#define RVIT_JSON_MAX_DEPTH 32

/* A value. The values that it contains follow it in memory, in the order of the text. */
typedef struct rvit_json {
    rvit_json_type type;
    int32_t n;       /* elements or members */
    int32_t span;    /* number of values in it, including itself */
    const char *key; /* of a member; NULL elsewhere */
    union {
        int64_t integer;
        double real;
        const char *string;
    };
} rvit_json;

typedef struct rvit_json_input {
    const char *path; /* printable; messages begin with it */
    const char *what; /* name of the text in messages, after the path: " the header", "" */
    char *text;       /* [size + 1], with a NUL at the end; strings are decoded in place */
    size_t size;
    int32_t max_depth; /* at most RVIT_JSON_MAX_DEPTH */
    int32_t max_values;
} rvit_json_input;

/* Parses the first value of the text; *out_end: the offset of the byte after it. Free *out_root with rvit_alloc_free; its strings point
   into the text. BAD_FILE gives the error and its byte. */
rvit_status rvit_json_parse(const rvit_json_input *input, rvit_alloc *alloc, rvit_json **out_root, size_t *out_end);

/* for (const rvit_json *v = rvit_json_first(parent); v != NULL; v = rvit_json_next(parent, v)) */
const rvit_json *rvit_json_first(const rvit_json *parent);
const rvit_json *rvit_json_next(const rvit_json *parent, const rvit_json *value);
/* The member with this key; NULL if there is none, or if `object` is NULL or not an object. */
const rvit_json *rvit_json_get(const rvit_json *object, const char *key);

#endif
