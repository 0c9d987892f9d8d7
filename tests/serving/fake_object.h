/* The fake server's objects: what they begin with, and how broken rules are noted. */
#ifndef RVIT_TESTS_FAKE_OBJECT_H
#define RVIT_TESTS_FAKE_OBJECT_H

#include <stdatomic.h>

#include "failing_malloc.h"
#include "fake_server.h"

/* Those up to FAKE_REQUEST are the server's own. */
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

/* A zeroed object of the server's list. */
void *fake_object_new(enum fake_kind kind, size_t size, void (*free_contents)(void *object));
/* Notes a broken rule unless this is a live object of the kind; then returns 0. */
int fake_object_check(const void *object, enum fake_kind kind, const char *function);
/* The same, and the object is dead from now on. */
int fake_object_end(void *object, enum fake_kind kind, const char *function);
void fake_broken_rule(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether this call is the one that is to fail. */
int fake_call_fails(void);
/* The error of a function that fails, as it does if it was called wrongly. */
TRITONSERVER_Error *fake_failure(const char *function);
char *fake_copy_text(const char *text);

/* Begins a function of the server's that can fail. */
#define FAKE_CALL(object, kind)                                                  \
    do {                                                                         \
        if (!fake_object_check((object), (kind), __func__) || fake_call_fails()) \
            return fake_failure(__func__);                                       \
    } while (0)

#endif
