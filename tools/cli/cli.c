#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "printable.h"
#include "progress.h"

static _Thread_local struct {
    char text[512];
    rvit_status status;
} last;

const char *last_complaint(rvit_status *out_status)
{
    *out_status = last.status;
    return last.text;
}

static bool muted;

void complain_mute(bool is_muted)
{
    muted = is_muted;
}

static void print_complaint(const char *subject, const char *text)
{
    progress_wipe();
    fputs("raggedvit: ", stderr);
    if (subject) {
        printable_print(stderr, subject);
        fputs(": ", stderr);
    }
    printable_print(stderr, text);
    fputc('\n', stderr);
}

void complain(const char *subject, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    const char *known = text ? text : "out of memory";
    last.status = RVIT_OK;
    snprintf(last.text, sizeof last.text, "%s%s%s", subject ? subject : "", subject ? ": " : "", known);
    if (!muted)
        print_complaint(subject, known);
    free(text);
}

/* Whether the detail names the subject, in any case: "CUDA: no device", "cuda". */
static bool mentions(const char *detail, const char *subject)
{
    const size_t length = strlen(subject);
    for (; strlen(detail) >= length; detail++)
        if (strncasecmp(detail, subject, length) == 0)
            return true;
    return false;
}

int complain_status(const char *subject, rvit_status status)
{
    const char *detail = rvit_status_detail();
    if (!detail[0])
        complain(subject, "%s", rvit_status_name(status));
    else
        complain(subject && mentions(detail, subject) ? NULL : subject, "%s", detail);
    last.status = status;
    switch (status) {
    case RVIT_INVALID_ARGUMENT:
        return EXIT_USAGE;
    case RVIT_NOT_FINITE:
        return EXIT_PARTLY;
    case RVIT_UNSUPPORTED:
    case RVIT_UNAVAILABLE:
        return EXIT_DEVICE;
    case RVIT_BAD_FILE:
        return EXIT_FILE;
    default:
        return EXIT_FAULT;
    }
}

void print_line(const char *title, const char *text)
{
    fputs(title, stdout);
    printable_print(stdout, text);
    putchar('\n');
}

static bool output_lost;

void mark_output_lost(void)
{
    output_lost = true;
}

int finish_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout) && !output_lost)
        return code;
    complain(NULL, "standard output cannot be written");
    return code == EXIT_OK || code == EXIT_PARTLY ? EXIT_FAULT : code;
}

void *allocate(size_t n, size_t size)
{
    void *pointer = calloc(n ? n : 1, size);
    if (!pointer)
        complain(NULL, "out of memory");
    return pointer;
}
