#include "core/base/proc_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

FILE *rvit_proc_open(const char *root, const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return n < 0 || n >= (int)sizeof path ? NULL : fopen(path, "re");
}

int rvit_proc_line(FILE *file, char *line, int size)
{
    while (fgets(line, size, file) != NULL) {
        const size_t length = strcspn(line, "\n");
        if (line[length] == '\n' || feof(file)) {
            line[length] = '\0';
            return 1;
        }
        int c;
        do
            c = getc(file);
        while (c != '\n' && c != EOF);
    }
    return 0;
}

int rvit_proc_number(const char *root, const char *folder, const char *name, const char *key, int64_t *out_number)
{
    FILE *file = rvit_proc_open(root, folder, name);
    if (file == NULL)
        return 0;
    char line[256];
    const size_t length = strlen(key);
    int found = 0;
    while (!found && rvit_proc_line(file, line, sizeof line)) {
        char *end = line;
        /* strtoll saturates. */
        const long long number = strncmp(line, key, length) == 0 ? strtoll(line + length, &end, 10) : 0;
        found = end > line + length && (*end == '\0' || *end == ' ');
        if (found)
            *out_number = number;
        if (length == 0)
            break;
    }
    fclose(file);
    return found;
}
