/* malloc and its like of the backend and of the library in this program, by the linker's --wrap: one of them can be made to fail. The tests
   and the fake server take theirs past it. */
#ifndef RVIT_TESTS_FAILING_MALLOC_H
#define RVIT_TESTS_FAILING_MALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* From now on the call-th allocation fails (the first is 0), once; -1: none does. */
void failing_malloc_at(int64_t call);
/* Allocations since then. */
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
