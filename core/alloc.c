#include "core/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"

enum { ALIGNMENT = 64 };

static void *default_allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void default_release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

void rvit_alloc_init(rvit_alloc *alloc, const rvit_allocator *allocator)
{
    static const rvit_allocator default_allocator = {NULL, default_allocate, default_release};
    alloc->allocator = allocator != NULL ? *allocator : default_allocator;
    atomic_init(&alloc->count, 0);
}

void rvit_alloc_copy(rvit_alloc *alloc, const rvit_alloc *source)
{
    alloc->allocator = source->allocator;
    atomic_init(&alloc->count, atomic_load(&source->count));
}

void *rvit_alloc_new(rvit_alloc *alloc, size_t size)
{
    if (size > SIZE_MAX / 2) {
        (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: a request for %zu bytes", size);
        return NULL;
    }
    const size_t rounded = size == 0 ? ALIGNMENT : size;
    void *pointer = alloc->allocator.allocate(alloc->allocator.user, rounded, ALIGNMENT);
    if (pointer == NULL) {
        (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: no %zu bytes left", rounded);
        return NULL;
    }
    atomic_fetch_add(&alloc->count, 1);
    memset(pointer, 0, rounded);
    return pointer;
}

void *rvit_alloc_array(rvit_alloc *alloc, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / size) {
        (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: a request for %zu times %zu bytes", n, size);
        return NULL;
    }
    return rvit_alloc_new(alloc, n * size);
}

void rvit_alloc_free(rvit_alloc *alloc, void *pointer)
{
    if (pointer != NULL)
        alloc->allocator.release(alloc->allocator.user, pointer);
}
