/* Where an allocation was made to fail: the calls that led there, appended as addresses in the program to the file that
   RVIT_TEST_ALLOCATION_SITES names. tests/allocation_sites.sh tells by it which sites no test has reached. */
#ifndef RVIT_TESTS_ALLOCATION_SITES_H
#define RVIT_TESTS_ALLOCATION_SITES_H

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>

static inline void allocation_failed(void)
{
    extern const char __executable_start[];
    const char *path = getenv("RVIT_TEST_ALLOCATION_SITES");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    void *frames[8];
    const int n = backtrace(frames, 8);
    /* A frame is where its call returns to: one byte before is the call. */
    for (int i = 1; i < n; i++)
        fprintf(file, "0x%tx\n", (const char *)frames[i] - __executable_start - 1);
    fclose(file);
}

#endif
