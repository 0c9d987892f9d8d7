/* Runs a fuzz target over files and the files of folders, without a fuzzer. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int n_inputs;

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        if (file != NULL)
            fclose(file);
        return 0;
    }
    const size_t size = (size_t)info.st_size;
    /* Exactly as large as the input, so that a read past it is seen. */
    uint8_t *data = malloc(size > 0 ? size : 1);
    const int ok = data != NULL && fread(data, 1, size, file) == size;
    fclose(file);
    if (ok) {
        (void)LLVMFuzzerTestOneInput(data, size);
        n_inputs++;
    }
    free(data);
    return ok;
}

static int run(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return run_file(path);
    int ok = 1;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char full[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        ok &= run_file(full);
    }
    closedir(folder);
    return ok;
}

int main(int argc, char **argv)
{
    int ok = 1;
    for (int i = 1; i < argc; i++)
        ok &= run(argv[i]);
    printf("%d inputs\n", n_inputs);
    return ok && n_inputs > 0 ? 0 : 1;
}
