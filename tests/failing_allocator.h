/* An allocator that fails at the i-th request from now on, and knows what it has given out. */
#ifndef RVIT_TESTS_FAILING_ALLOCATOR_H
#define RVIT_TESTS_FAILING_ALLOCATOR_H

#include <stdatomic.h>

#include "harness.h"

typedef struct failing_allocator {
    rvit_allocator allocator;
    atomic_llong requests, live;
    atomic_llong fail_at; /* the request that fails, counted by requests; -1: none does */
    atomic_int failed;
} failing_allocator;

void failing_allocator_init(failing_allocator *f);

/* What is tried: 1 step that allocates, and the one that undoes it. Both get `context`. */
typedef struct allocation_trial {
    const char *what;
    rvit_status (*attempt)(void *context); /* leaves nothing behind if it fails */
    void (*undo)(void *context);           /* after an attempt that worked */
    void *context;
} allocation_trial;

/* Counts the requests of an attempt that works, then makes each of them fail in its turn: the status is OUT_OF_HOST_MEMORY (or
   OUT_OF_DEVICE_MEMORY), nothing stays allocated, and the attempt after the last works. */
void fail_every_allocation(failing_allocator *f, const allocation_trial *trial);

#endif
