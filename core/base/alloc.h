/* Host memory from the caller's allocator, with a count of allocations. Only alloc.c calls malloc. */
#ifndef RVIT_CORE_BASE_ALLOC_H
#define RVIT_CORE_BASE_ALLOC_H

#include <stdatomic.h>

#include <raggedvit/device.h>

typedef struct rvit_alloc {
    rvit_allocator allocator;
    atomic_llong count; /* allocations made so far */
} rvit_alloc;

/* allocator: the caller's; NULL: malloc. */
void rvit_alloc_init(rvit_alloc *alloc, const rvit_allocator *allocator);
/* Copies the allocator and the current count; the two count separately from then on. */
void rvit_alloc_copy(rvit_alloc *alloc, const rvit_alloc *source);
/* Returns zeroed memory, 64-byte aligned; NULL, with the detail set, when out of memory. size 0 returns a valid pointer. Without a caller's
   allocator, requests of 4 MiB or more are refused if they exceed 15/16 of rvit_available_memory (core/base/system.h). */
void *rvit_alloc_new(rvit_alloc *alloc, size_t size);
/* n * size with an overflow check. */
void *rvit_alloc_array(rvit_alloc *alloc, size_t n, size_t size);
void rvit_alloc_free(rvit_alloc *alloc, void *pointer);

/* Returns RVIT_OUT_OF_HOST_MEMORY from the calling function if the pointer is NULL. */
#define RVIT_TRY_MEMORY(pointer)            \
    do {                                    \
        if ((pointer) == NULL)              \
            return RVIT_OUT_OF_HOST_MEMORY; \
    } while (0)

#endif
