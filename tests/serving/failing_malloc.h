/* Replaces malloc and similar functions of the backend and the library (linker option --wrap), so that a chosen call can fail. The tests
   and the fake server use the original ones. */
#ifndef RVIT_TESTS_FAILING_MALLOC_H
#define RVIT_TESTS_FAILING_MALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* From now on allocation number `call` (the first is 0) fails, once; -1: none. */
void failing_malloc_at(int64_t call);
/* The number of allocations since then. */
int64_t failing_malloc_calls(void);

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
char *__real_strdup(const char *text);

#ifndef RVIT_TESTS_FAILING_MALLOC
#undef strdup
#define malloc __real_malloc
#define calloc __real_calloc
#define strdup __real_strdup
#endif

#endif
