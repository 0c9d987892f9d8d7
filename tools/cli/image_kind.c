#include "image_kind.h"

#include <string.h>

#include "image_reader.h"

/* Up to two places in a file that have certain bytes. */
struct mark {
    struct image_kind kind;
    struct {
        size_t at, n;
        const char *bytes;
    } places[2];
};

static const struct mark marks[] = {
    {{"PNG", image_read_png}, {{0, 8, "\x89PNG\r\n\x1a\n"}}},
    {{"JPEG", image_read_jpeg}, {{0, 3, "\xff\xd8\xff"}}},
    {{"WebP", image_read_webp}, {{0, 4, "RIFF"}, {8, 4, "WEBP"}}},
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x0c\0\0\0"}}}, /* the sizes of its header that there are */
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x28\0\0\0"}}},
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x34\0\0\0"}}},
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x38\0\0\0"}}},
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x40\0\0\0"}}},
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x6c\0\0\0"}}},
    {{"BMP", image_read_bmp}, {{0, 2, "BM"}, {14, 4, "\x7c\0\0\0"}}},
    {{"AVIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "avif"}}},
    {{"AVIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "avis"}}},
    {{"HEIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "heic"}}},
    {{"HEIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "heix"}}},
    {{"HEIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "hevc"}}},
    {{"HEIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "mif1"}}},
    {{"HEIF", NULL}, {{4, 4, "ftyp"}, {8, 4, "msf1"}}},
    {{"GIF", NULL}, {{0, 4, "GIF8"}}},
    {{"TIFF", NULL}, {{0, 4, "II*\0"}}},
    {{"TIFF", NULL}, {{0, 4, "MM\0*"}}},
    {{"JPEG XL", NULL}, {{0, 2, "\xff\x0a"}}},
    {{"JPEG XL", NULL}, {{0, 8, "\0\0\0\x0cJXL "}}},
    {{"JPEG 2000", NULL}, {{0, 8, "\0\0\0\x0cjP  "}}},
    {{"JPEG 2000", NULL}, {{0, 4, "\xff\x4f\xff\x51"}}},
    {{"Photoshop", NULL}, {{0, 4, "8BPS"}}},
};

const struct image_kind *image_kind_of(const void *data, size_t size)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = 0;
        for (; n < 2; n++) {
            const size_t at = marks[i].places[n].at, length = marks[i].places[n].n;
            if (at + length > size || (length > 0 && memcmp((const char *)data + at, marks[i].places[n].bytes, length) != 0))
                break;
        }
        if (n == 2)
            return &marks[i].kind;
    }
    return NULL;
}
