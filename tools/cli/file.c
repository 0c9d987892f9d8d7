#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

#define MAX_SIZE ((int64_t)1 << 30)

int file_read(const char *path, const char *kind, char **out_data, size_t *out_size)
{
    struct stat status;
    FILE *file = stat(path, &status) == 0 ? fopen(path, "rb") : NULL;
    if (!file) {
        complain(path, "cannot be read: %s", strerror(errno));
        return EXIT_FILE;
    }
    if (!S_ISREG(status.st_mode) || status.st_size > MAX_SIZE) {
        fclose(file);
        complain(path, "is not %s", kind);
        return EXIT_FILE;
    }
    const size_t size = (size_t)status.st_size;
    char *data = allocate(size + 1, 1);
    const bool complete = data && fread(data, 1, size, file) == size;
    fclose(file);
    if (!data)
        return EXIT_FAULT;
    if (!complete) {
        complain(path, "cannot be read to its end");
        free(data);
        return EXIT_FILE;
    }
    *out_data = data;
    *out_size = size;
    return EXIT_OK;
}
