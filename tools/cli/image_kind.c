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

#define BMP_OF(header)                 \
    {                                  \
        {"BMP", image_read_bmp},       \
        {                              \
            {0, 2, "BM"},              \
            {                          \
                14, 4, header "\0\0\0" \
            }                          \
        }                              \
    }
#define ISO_OF(name, brand) \
    {                       \
        {name, NULL},       \
        {                   \
            {4, 4, "ftyp"}, \
            {               \
                8, 4, brand \
            }               \
        }                   \
    }

static const struct mark marks[] = {
    {{"PNG", image_read_png}, {{0, 8, "\x89PNG\r\n\x1a\n"}}},
    {{"JPEG", image_read_jpeg}, {{0, 3, "\xff\xd8\xff"}}},
    {{"WebP", image_read_webp}, {{0, 4, "RIFF"}, {8, 4, "WEBP"}}},
    BMP_OF("\x0c"), /* the sizes of its header that there are */
    BMP_OF("\x28"),
    BMP_OF("\x34"),
    BMP_OF("\x38"),
    BMP_OF("\x40"),
    BMP_OF("\x6c"),
    BMP_OF("\x7c"),
    ISO_OF("AVIF", "avif"),
    ISO_OF("AVIF", "avis"),
    ISO_OF("HEIF", "heic"),
    ISO_OF("HEIF", "heix"),
    ISO_OF("HEIF", "hevc"),
    ISO_OF("HEIF", "mif1"),
    ISO_OF("HEIF", "msf1"),
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
