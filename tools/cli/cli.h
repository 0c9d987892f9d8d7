/* Shared by the commands: exit codes and messages. */
#ifndef RVIT_CLI_CLI_H
#define RVIT_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include <raggedvit/raggedvit.h>

/* Documented in --help; part of the interface. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_PARTLY = 1, /* the command ran, but an image could not be read or a verification exceeded its tolerance */
    EXIT_USAGE = 2,
    EXIT_DEVICE = 3, /* the device is not available or does not support the request */
    EXIT_FILE = 4,   /* a required file or every image is missing or invalid */
    EXIT_FAULT = 5   /* out of memory, device lost, output not writable, or internal error */
};

/* Prints "raggedvit: SUBJECT: ..." to standard error, after clearing a progress bar. subject may be NULL. Both may hold arbitrary text:
   unprintable characters are escaped. */
__attribute__((format(printf, 2, 3))) void complain(const char *subject, const char *format, ...);
/* The text of the calling thread's last complaint, truncated, and its status, RVIT_OK if it was not the library's. */
const char *last_complaint(rvit_status *out_status);
/* Muted complaints are not printed, but last_complaint has them. */
void complain_mute(bool is_muted);
/* complain(), then the exit code as a value. A macro, so that it also works with the complain() of the Triton backend. */
#define fail_with(code, ...) (complain(__VA_ARGS__), (int)(code))
/* Prints the library's detail of a failed call and returns the exit code for its status. */
int complain_status(const char *subject, rvit_status status);
/* Whether a run with this status failed only for single images; the others have results. */
static inline bool is_of_images(rvit_status status)
{
    return status == RVIT_INVALID_ARGUMENT || status == RVIT_NOT_FINITE;
}

/* Prints a line to standard output; unprintable characters of text are escaped. */
void print_line(const char *title, const char *text);
/* Records that some output could not be printed. */
void mark_output_lost(void);
/* Call after all output. Returns the exit code; never success if some output could not be written. */
int finish_output(int code);

/* calloc that prints a message on failure. */
void *allocate(size_t n, size_t size);

#endif
