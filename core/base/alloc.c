#include "core/base/alloc.h"

#include <stdio.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/status.h"
#include "core/base/system.h"

enum { ALIGNMENT = 64, LARGE = 4 << 20 };

static void *default_allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    return rvit_aligned_alloc(size, alignment);
}

static void default_release(void *user, void *pointer)
{
    (void)user;
    rvit_aligned_free(pointer);
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

static void describe_size(char text[32], uint64_t size)
{
    if (size < (uint64_t)1 << 30)
        snprintf(text, 32, "%.1f MiB", (double)size / (1 << 20));
    else
        snprintf(text, 32, "%.1f GiB", (double)size / (1 << 30));
}

/* A system that overcommits may grant memory it does not have, then kill the process when it touches that memory. So compare a large
   request with the available memory; reading a few files costs much less than zeroing it. A caller's allocator sets its own limits. */
static int is_too_large(const rvit_alloc *alloc, size_t size)
{
    if (size < LARGE || alloc->allocator.allocate != default_allocate)
        return 0;
    const int64_t available = rvit_available_memory("");
    if (available == INT64_MAX || size <= (uint64_t)(available - available / 16))
        return 0;
    char asked[32], there[32];
    describe_size(asked, size);
    describe_size(there, (uint64_t)available);
    (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: cannot allocate %s: only %s are available, and 1/16 stays free", asked, there);
    return 1;
}

void *rvit_alloc_new(rvit_alloc *alloc, size_t size)
{
    if (size > SIZE_MAX / 2) {
        (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: cannot allocate %zu bytes", size);
        return NULL;
    }
    const size_t rounded = size == 0 ? ALIGNMENT : size;
    if (is_too_large(alloc, rounded))
        return NULL;
    void *pointer = alloc->allocator.allocate(alloc->allocator.user, rounded, ALIGNMENT);
    if (pointer == NULL) {
        (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: the allocation of %zu bytes failed", rounded);
        return NULL;
    }
    atomic_fetch_add(&alloc->count, 1);
    /* Always zeroed: touching the pages here prevents page faults during a forward. */
    memset(pointer, 0, rounded);
    return pointer;
}

void *rvit_alloc_array(rvit_alloc *alloc, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / size) {
        (void)rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "host memory: cannot allocate %zu times %zu bytes", n, size);
        return NULL;
    }
    return rvit_alloc_new(alloc, n * size);
}

void rvit_alloc_free(rvit_alloc *alloc, void *pointer)
{
    if (pointer != NULL)
        alloc->allocator.release(alloc->allocator.user, pointer);
}
