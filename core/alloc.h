/* Host memory through the caller's allocator, counted. The only file that calls malloc is alloc.c. */
#ifndef RVIT_CORE_ALLOC_H
#define RVIT_CORE_ALLOC_H

#include <stdatomic.h>

#include <raggedvit/device.h>

typedef struct rvit_alloc {
    rvit_allocator allocator;
    atomic_llong count; /* allocations made so far */
} rvit_alloc;

/* Takes the caller's allocator, or malloc's for NULL. */
void rvit_alloc_init(rvit_alloc *alloc, const rvit_allocator *allocator);
/* Copies the allocator of source and starts a new count at its count. */
void rvit_alloc_copy(rvit_alloc *alloc, const rvit_alloc *source);
/* Zeroed, 64-byte aligned; NULL with the detail set when out of memory. size 0 gives a valid pointer. Of malloc's memory a request of 4
   MiB or more is refused beyond 15/16 of what rvit_available_memory gives (core/system.h). */
void *rvit_alloc_new(rvit_alloc *alloc, size_t size);
/* n * size with an overflow check. */
void *rvit_alloc_array(rvit_alloc *alloc, size_t n, size_t size);
void rvit_alloc_free(rvit_alloc *alloc, void *pointer);

#endif
