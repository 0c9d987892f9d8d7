/* Shared by the commands: exit codes and messages. */
#ifndef RVIT_CLI_CLI_H
#define RVIT_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include <raggedvit/raggedvit.h>

/* Documented in --help; part of the interface. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_PARTLY = 1, /* the work ran, but an image was unreadable, or a verification is beyond its tolerance */
    EXIT_USAGE = 2,
    EXIT_DEVICE = 3, /* the device is unavailable, or cannot run the request */
    EXIT_FILE = 4,   /* a required file, or every image, is missing or bad */
    EXIT_FAULT = 5   /* out of memory, device lost, output not writable, internal */
};

/* Prints "raggedvit: SUBJECT: ..." to standard error, after clearing a progress bar. subject may be NULL. Both may hold arbitrary text:
   unprintable characters are escaped. */
__attribute__((format(printf, 2, 3))) void complain(const char *subject, const char *format, ...);
/* The same, with the exit code as its value. A macro: a program with a complain() of its own, as Triton's backend is, has this one too. */
#define fail_with(code, ...) (complain(__VA_ARGS__), (int)(code))
/* The same, with the library's detail for a failed call; returns the exit code for the status. */
int complain_status(const char *subject, rvit_status status);
/* Whether a run that was enqueued failed with this status for single images, the others of which have their results. */
static inline bool is_of_images(rvit_status status)
{
    return status == RVIT_INVALID_ARGUMENT || status == RVIT_NOT_FINITE;
}

/* Prints a line to standard output; unprintable characters of text are escaped. */
void print_line(const char *title, const char *text);
/* Records that some output could not be printed. */
void lose_output(void);
/* Call after all output. Returns the exit code; never success if some output could not be written. */
int finish_output(int code);

/* malloc that prints a message on failure. */
void *allocate(size_t n, size_t size);

#endif
