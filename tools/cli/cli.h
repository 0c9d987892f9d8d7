/* What the commands share: exit codes, messages, and the list of commands. */
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
    EXIT_DEVICE = 3, /* unavailable, or cannot do what was asked */
    EXIT_FILE = 4,   /* a file that all depends on, or every image */
    EXIT_FAULT = 5   /* out of memory, device lost, output not writable, internal */
};

struct options;

int run_devices(const struct options *options);
int run_classify(const struct options *options);
int run_verify(const struct options *options);
int run_inspect(const struct options *options);
int run_policies(const struct options *options);
int run_bench(const struct options *options);

/* "raggedvit: SUBJECT: ..." on standard error, after wiping a progress bar. subject may be NULL. Both may hold text from anywhere: what is
   not fit to be printed is escaped. */
__attribute__((format(printf, 2, 3))) void complain(const char *subject, const char *format, ...);
/* The same with the library's own sentence for a call that failed; returns the exit code that goes with the status. */
int complain_status(const char *subject, rvit_status status);

/* A line of standard output; what of the text is not fit to be printed is escaped. */
void print_line(const char *title, const char *text);
/* Notes that something could not even be printed. */
void lose_output(void);
/* After all output: the exit code, which is no success if some of the output could not be written. */
int finish_output(int code);

/* malloc that complains. */
void *allocate(size_t n, size_t size);

/* Seconds of a clock that only goes forward. */
double now(void);

#endif
