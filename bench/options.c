#include "options.h"

#include <stdio.h>
#include <stdlib.h>

void bench_complain(const char *sentence)
{
    fprintf(stderr, "bench: %s\n", sentence);
}

int bench_parse(const char *program, const struct option_row *rows, size_t n_rows, const struct option_command *command, int argc,
                char **argv, void *options)
{
    const struct option_table table = {.program = program, .prefix = "--", .rows = rows, .n_rows = n_rows, .complain = bench_complain};
    int first = 0;
    const enum option_result result = option_table_parse(&table, command, argc, argv, options, &first);
    if (result != OPTION_PARSED)
        exit(result == OPTION_HELPED ? 0 : 2);
    return first;
}
