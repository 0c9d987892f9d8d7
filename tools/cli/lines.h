/* Text files with one item per line: lists, class names, expected classes. */
#ifndef RVIT_CLI_LINES_H
#define RVIT_CLI_LINES_H

#include <stdint.h>

struct lines {
    char **text; /* [n_lines], without leading and trailing blanks; without an empty last line */
    int64_t n_lines;
    char *memory;
};

/* Prints a message on failure; returns an exit code. */
int lines_read(const char *path, struct lines *out);
/* The items of a comma separated text. */
int lines_split(const char *text, char separator, struct lines *out);
void lines_free(struct lines *list);

#endif
