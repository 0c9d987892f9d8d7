#include "lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

#define MAX_FILE_SIZE ((int64_t)1 << 30)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes memory over: size bytes and room for a closing zero. */
static int split(char *memory, size_t size, char separator, struct lines *out)
{
    *out = (struct lines){.memory = memory};
    memory[size] = 0;
    int64_t n = 1;
    for (size_t i = 0; i < size; i++)
        n += memory[i] == separator;
    out->text = allocate((size_t)n, sizeof *out->text);
    if (!out->text) {
        lines_free(out);
        return EXIT_FAULT;
    }
    for (char *at = memory;;) {
        char *end = strchr(at, separator);
        char *next = end ? end + 1 : NULL;
        if (!end)
            end = at + strlen(at);
        while (at < end && is_blank(*at))
            at++;
        while (end > at && is_blank(end[-1]))
            end--;
        *end = 0;
        if (next || *at)
            out->text[out->n_lines++] = at;
        if (!next)
            return EXIT_OK;
        at = next;
    }
}

int lines_read(const char *path, struct lines *out)
{
    struct stat status;
    FILE *file = stat(path, &status) == 0 ? fopen(path, "rb") : NULL;
    if (!file) {
        complain(path, "cannot be read: %s", strerror(errno));
        return EXIT_FILE;
    }
    if (!S_ISREG(status.st_mode) || status.st_size > MAX_FILE_SIZE) {
        fclose(file);
        complain(path, "is not a text file of one item a line");
        return EXIT_FILE;
    }
    const size_t size = (size_t)status.st_size;
    char *memory = allocate(size + 1, 1);
    const bool complete = memory && fread(memory, 1, size, file) == size;
    fclose(file);
    if (!memory)
        return EXIT_FAULT;
    if (!complete || memchr(memory, 0, size)) {
        complain(path, complete ? "is not a text file of one item a line" : "cannot be read to its end");
        free(memory);
        return EXIT_FILE;
    }
    return split(memory, size, '\n', out);
}

int lines_split(const char *text, char separator, struct lines *out)
{
    const size_t size = strlen(text);
    char *memory = allocate(size + 1, 1);
    if (!memory)
        return EXIT_FAULT;
    memcpy(memory, text, size);
    return split(memory, size, separator, out);
}

void lines_free(struct lines *list)
{
    free(list->text);
    free(list->memory);
    *list = (struct lines){0};
}
