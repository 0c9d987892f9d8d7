#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "file.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes ownership of memory, which has size bytes and room for a NUL. */
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
    static const char kind[] = "a text file with one item per line";
    char *memory;
    size_t size;
    const int code = file_read(path, kind, &memory, &size);
    if (code != EXIT_OK)
        return code;
    if (memchr(memory, 0, size)) {
        complain(path, "is not %s", kind);
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
