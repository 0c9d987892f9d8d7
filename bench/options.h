/* The command lines of the benchmarks. */
#ifndef RVIT_BENCH_OPTIONS_H
#define RVIT_BENCH_OPTIONS_H

#include "choices.h"

enum { BENCH_MAX_REPEATS = 1000 };

/* The options that all benchmarks have. T has the members device, dtype and json; default_ is the name of its default dtype. */
#define BENCH_ROWS(T, last_dtype, default_)                                                                           \
    {"backend", "NAME", "%s (default: auto, the first GPU, else the CPU)",                                            \
     OPTION_CHOICE(T, device.backend, choice_backend, RVIT_BACKEND_AUTO, CHOICE_LAST_BACKEND)},                       \
        {"tier", "NAME", "kernels: %s (default: auto, the highest of the device)",                                    \
         OPTION_CHOICE(T, device.tier, choice_tier, RVIT_TIER_AUTO, RVIT_TIER_MATRIX)},                               \
        {"kernels", "NAME", "the CPU's kernels by the names in raggedvit/device.h (default: the fastest)",            \
         OPTION_TEXT(T, device.kernels)},                                                                             \
        {"dtype", "TYPE", "%s (default: " default_ ")", OPTION_CHOICE(T, dtype, choice_dtype, RVIT_F32, last_dtype)}, \
    {                                                                                                                 \
        "json", "FILE", "also writes the results to FILE", OPTION_TEXT(T, json)                                       \
    }

/* The options of benchmarks that replay recorded calls. T has the members calls and repeats. */
#define BENCH_REPEAT_ROWS(T)                                                                                   \
    {"calls", "N", "calls in a recording, %s (default: 20)", OPTION_INTEGER(T, calls, 1, 10000)},              \
    {                                                                                                          \
        "repeats", "N", "replays measured, %s (default: 20)", OPTION_INTEGER(T, repeats, 1, BENCH_MAX_REPEATS) \
    }

void bench_complain(const char *sentence);
/* Fills `options`, which holds the defaults, and returns the index in argv of the first argument. Ends the program after --help, and with 2
   if the command line is wrong. */
int bench_parse(const char *program, const struct option_row *rows, size_t n_rows, const struct option_command *command, int argc,
                char **argv, void *options);

#endif
