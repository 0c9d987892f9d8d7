#include "image_kind.h"

#include <string.h>

#include "image_reader.h"

/* Up to two positions in a file with certain bytes: n bytes at `at`, which must equal one of the choices concatenated in `bytes`. */
struct mark {
    struct image_kind kind;
    struct position {
        size_t at, n, n_choices;
        const char *bytes;
    } positions[2];
};

static const struct mark marks[] = {
    {{"PNG", image_read_png}, {{0, 8, 1, "\x89PNG\r\n\x1a\n"}}},
    {{"JPEG", image_read_jpeg}, {{0, 3, 1, "\xff\xd8\xff"}}},
    {{"WebP", image_read_webp}, {{0, 4, 1, "RIFF"}, {8, 4, 1, "WEBP"}}},
    /* All sizes of the BMP header. */
    {{"BMP", image_read_bmp}, {{0, 2, 1, "BM"}, {14, 4, 7, "\x0c\0\0\0\x28\0\0\0\x34\0\0\0\x38\0\0\0\x40\0\0\0\x6c\0\0\0\x7c\0\0\0"}}},
    {{"AVIF", NULL}, {{4, 4, 1, "ftyp"}, {8, 4, 2, "avifavis"}}},
    {{"HEIF", NULL}, {{4, 4, 1, "ftyp"}, {8, 4, 5, "heicheixhevcmif1msf1"}}},
    {{"GIF", NULL}, {{0, 4, 1, "GIF8"}}},
    {{"TIFF", NULL}, {{0, 4, 2, "II*\0MM\0*"}}},
    {{"JPEG XL", NULL}, {{0, 2, 1, "\xff\x0a"}}},
    {{"JPEG XL", NULL}, {{0, 8, 1, "\0\0\0\x0cJXL "}}},
    {{"JPEG 2000", NULL}, {{0, 8, 1, "\0\0\0\x0cjP  "}}},
    {{"JPEG 2000", NULL}, {{0, 4, 1, "\xff\x4f\xff\x51"}}},
    {{"Photoshop", NULL}, {{0, 4, 1, "8BPS"}}},
};

static bool has(const char *data, size_t size, const struct position *position)
{
    if (position->at + position->n > size)
        return false;
    for (size_t i = 0; i < position->n_choices; i++)
        if (memcmp(data + position->at, position->bytes + i * position->n, position->n) == 0)
            return true;
    return position->n_choices == 0; /* there is no second position */
}

const struct image_kind *image_kind_of(const void *data, size_t size)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has(data, size, &marks[i].positions[0]) && has(data, size, &marks[i].positions[1]))
            return &marks[i].kind;
    return NULL;
}
