/* raw_pixels IMAGE...: writes the pixels of the images to standard output, in FFmpeg's format rgb24. */
#include <stdio.h>

#include "tools/cli/image_file.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct image image;
        struct image_error error;
        if (!image_load(argv[i], &image, &error)) {
            fprintf(stderr, "%s: %s\n", argv[i], error.text);
            return 1;
        }
        const size_t size = 3 * (size_t)image.width * (size_t)image.height;
        const size_t n_written = fwrite(image.pixels, 1, size, stdout);
        image_free(&image);
        if (n_written != size)
            return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
