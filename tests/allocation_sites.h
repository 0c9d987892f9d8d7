/* Appends the call stack of an allocation that a test made fail to the file RVIT_TEST_ALLOCATION_SITES, as addresses in the program.
   tests/allocation_sites.sh reports the sites that no test has reached. */
#ifndef RVIT_TESTS_ALLOCATION_SITES_H
#define RVIT_TESTS_ALLOCATION_SITES_H

#include <stdio.h>
#include <stdlib.h>

#if defined(__GLIBC__)
#include <execinfo.h>
#else /* musl has no backtrace */
#define backtrace(frames, n) 0
#endif

static inline void allocation_failed(void)
{
    extern const char __executable_start[];
    const char *path = getenv("RVIT_TEST_ALLOCATION_SITES");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    void *frames[8];
    const int n = backtrace(frames, 8);
    /* A frame is a return address: the call ends one byte before. */
    for (int i = 1; i < n; i++)
        fprintf(file, "0x%tx\n", (const char *)frames[i] - __executable_start - 1);
    fclose(file);
}

#endif
