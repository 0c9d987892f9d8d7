/* Writes a checkpoint of a DeiT with random weights, for a server. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "random_model.h"

int main(int argc, char **argv)
{
    const int heads = argc == 3 ? atoi(argv[1]) : 0;
    struct random_model model;
    char bytes[1 << 16];
    if (heads != 3 && heads != 6 && heads != 12) {
        fprintf(stderr, "serve_model HEADS FILE: writes a DeiT of random weights and of 3 (tiny), 6 (small) or 12 (base) heads\n");
        return EXIT_USAGE;
    }
    if (random_model_open(heads, &model) != EXIT_OK)
        return EXIT_FAULT;
    FILE *in = fopen(model.path, "rb"), *out = fopen(argv[2], "wb");
    size_t n = 0;
    int good = in != NULL && out != NULL;
    while (good && (n = fread(bytes, 1, sizeof bytes, in)) > 0)
        good = fwrite(bytes, 1, n, out) == n;
    good = good && !ferror(in);
    if (out != NULL && fclose(out) != 0)
        good = 0;
    if (in != NULL)
        fclose(in);
    random_model_close(&model);
    if (!good)
        fprintf(stderr, "serve_model: %s: cannot be written\n", argv[2]);
    return good ? EXIT_OK : EXIT_FILE;
}
