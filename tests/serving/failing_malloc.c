#define RVIT_TESTS_FAILING_MALLOC
#include "failing_malloc.h"

#include <stdatomic.h>

static atomic_llong calls, fail_at = -1;

void failing_malloc_at(int64_t call)
{
    atomic_store(&calls, 0);
    atomic_store(&fail_at, call);
}

int64_t failing_malloc_calls(void)
{
    return atomic_load(&calls);
}

static int fails(void)
{
    return atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void *__real_realloc(void *pointer, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return fails() ? NULL : __real_realloc(pointer, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return fails() ? 12 /* ENOMEM */ : __real_posix_memalign(out, alignment, size);
}
