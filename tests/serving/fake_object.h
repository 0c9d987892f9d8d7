/* The common header of the fake server's objects, and the functions that check how the backend uses them. */
#ifndef RVIT_TESTS_FAKE_OBJECT_H
#define RVIT_TESTS_FAKE_OBJECT_H

#include <stdatomic.h>

#include "failing_malloc.h"
#include "fake_server.h"

/* Kinds up to FAKE_REQUEST are owned by the server. */
enum fake_kind {
    FAKE_BACKEND = 0x5eed,
    FAKE_ATTRIBUTE,
    FAKE_MODEL,
    FAKE_INSTANCE,
    FAKE_INPUT,
    FAKE_OUTPUT,
    FAKE_REQUEST,
    FAKE_RESPONSE,
    FAKE_ERROR,
    FAKE_MESSAGE,
    FAKE_PARAMETER,
    FAKE_FAMILY,
    FAKE_METRIC_ARGS,
    FAKE_METRIC
};

typedef struct fake_object {
    enum fake_kind kind;
    atomic_int live;
    struct fake_object *next;
    void (*free_contents)(void *object); /* by fake_server_end; may be NULL */
} fake_object;

/* Allocates a zeroed object and adds it to the server's list. */
void *fake_object_new(enum fake_kind kind, size_t size, void (*free_contents)(void *object));
/* Returns 1 if this is a live object of the kind; otherwise records a violation and returns 0. */
int fake_object_check(const void *object, enum fake_kind kind, const char *function);
/* The same, and marks the object as deleted. */
int fake_object_end(void *object, enum fake_kind kind, const char *function);
void fake_broken_rule(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether this call is the one chosen to fail. */
int fake_call_fails(void);
/* The error returned by a function that fails or was called incorrectly. */
TRITONSERVER_Error *fake_failure(const char *function);
char *fake_copy_text(const char *text);

/* The first statement of each server function that can fail. */
#define FAKE_CALL(object, kind)                                                  \
    do {                                                                         \
        if (!fake_object_check((object), (kind), __func__) || fake_call_fails()) \
            return fake_failure(__func__);                                       \
    } while (0)

#endif
