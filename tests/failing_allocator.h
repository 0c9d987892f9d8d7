/* An allocator that fails at a chosen allocation and tracks all of them. */
#ifndef RVIT_TESTS_FAILING_ALLOCATOR_H
#define RVIT_TESTS_FAILING_ALLOCATOR_H

#include <stdatomic.h>

#include "harness.h"

typedef struct failing_allocator {
    rvit_allocator allocator;
    atomic_llong requests, live;
    atomic_llong fail_at; /* index of the allocation that fails; -1: none */
    atomic_int failed;
} failing_allocator;

void failing_allocator_init(failing_allocator *f);

/* A function that allocates, and one that frees again. Both get `context`. */
typedef struct allocation_trial {
    const char *what;
    rvit_status (*attempt)(void *context); /* leaks nothing if it fails */
    void (*undo)(void *context);           /* after an attempt that succeeded */
    void *context;
} allocation_trial;

/* Counts the allocations of a successful attempt, then makes each of them fail in turn. Each time the status must be OUT_OF_HOST_MEMORY (or
   OUT_OF_DEVICE_MEMORY) and nothing may remain allocated. A final attempt must succeed. */
void fail_every_allocation(failing_allocator *f, const allocation_trial *trial);

#endif
