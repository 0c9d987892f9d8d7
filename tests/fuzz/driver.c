/* Runs a fuzz target on files and folders of files, without a fuzzer. A file NAME.pack contains many inputs, each after its length in four
   bytes, little-endian (tests/fuzz/fuzz_corpus.py). */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int n_inputs;

static int run_input(const uint8_t *bytes, size_t size)
{
    /* A copy of exactly the input's size, so that a sanitizer detects a read past its end. */
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL)
        return 0;
    if (size > 0)
        memcpy(data, bytes, size);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_inputs++;
    return 1;
}

static int run_pack(const char *path, const uint8_t *data, size_t size)
{
    while (size >= 4) {
        const size_t length = data[0] | data[1] << 8 | data[2] << 16 | (size_t)data[3] << 24;
        if (length > size - 4)
            break;
        if (!run_input(data + 4, length))
            return 0;
        data += 4 + length;
        size -= 4 + length;
    }
    if (size > 0)
        fprintf(stderr, "%s ends within an input\n", path);
    return size == 0;
}

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
    uint8_t *data = malloc(size > 0 ? size : 1);
    int ok = data != NULL && fread(data, 1, size, file) == size;
    fclose(file);
    const char *dot = strrchr(path, '.');
    if (ok)
        ok = dot != NULL && strcmp(dot, ".pack") == 0 ? run_pack(path, data, size) : run_input(data, size);
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
