#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "progress.h"

void complain(const char *subject, const char *format, ...)
{
    va_list arguments;
    progress_wipe();
    fputs("raggedvit: ", stderr);
    if (subject)
        fprintf(stderr, "%s: ", subject);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

int complain_status(const char *subject, rvit_status status)
{
    const char *detail = rvit_status_detail();
    if (!detail[0])
        complain(subject, "%s", rvit_status_name(status));
    else
        complain(subject && strcasestr(detail, subject) ? NULL : subject, "%s", detail);
    switch (status) {
    case RVIT_INVALID_ARGUMENT:
        return EXIT_USAGE;
    case RVIT_UNSUPPORTED:
    case RVIT_UNAVAILABLE:
        return EXIT_DEVICE;
    case RVIT_BAD_FILE:
        return EXIT_FILE;
    default:
        return EXIT_FAULT;
    }
}

void *allocate(size_t n, size_t size)
{
    void *pointer = calloc(n ? n : 1, size);
    if (!pointer)
        complain(NULL, "out of memory");
    return pointer;
}

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

const char *tier_name(rvit_tier tier)
{
    static const char *const names[] = {"auto", "scalar", "subgroup", "matrix"};
    return (unsigned)tier < sizeof names / sizeof names[0] ? names[tier] : "?";
}
