#include "file.h"

#include "cli.h"
#include "regular_file.h"

#define MAX_SIZE ((int64_t)1 << 30)

int file_read(const char *path, const char *kind, char **out_data, size_t *out_size)
{
    char reason[256];
    switch (regular_file_read(path, MAX_SIZE, out_data, out_size, reason, sizeof reason)) {
    case REGULAR_FILE_READ:
        return EXIT_OK;
    case REGULAR_FILE_NO_MEMORY:
        return fail_with(EXIT_FAULT, path, "%s", reason);
    case REGULAR_FILE_TOO_LARGE:
        return fail_with(EXIT_FILE, path, "is not %s", kind);
    case REGULAR_FILE_BAD:
        break;
    }
    return fail_with(EXIT_FILE, path, "%s", reason);
}
