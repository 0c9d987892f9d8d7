/* Heap sort, because qsort has no guaranteed time bound and some implementations allocate. */
#ifndef RVIT_CORE_BASE_SORT_H
#define RVIT_CORE_BASE_SORT_H

#include <stddef.h>

void rvit_sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
