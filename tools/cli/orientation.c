#include "orientation.h"

#include <stdlib.h>
#include <string.h>

#define UPRIGHT 1
#define ORIENTATION_TAG 0x112

struct tiff {
    const uint8_t *data;
    size_t size;
    bool is_big; /* the byte order */
};

/* A number of n bytes; the caller has checked that they are there. */
static uint32_t number(const struct tiff *tiff, size_t at, int n)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint32_t)tiff->data[at + (size_t)i] << 8 * (tiff->is_big ? n - 1 - i : i);
    return value;
}

/* The tag in the first directory, which is the whole picture's; the second is the thumbnail's. */
static int orientation_of_tiff(const uint8_t *data, size_t size)
{
    enum { HEADER = 8, ENTRY = 12, IS_SHORT = 3, IS_LONG = 4 };
    if (size < HEADER || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return UPRIGHT;
    const struct tiff tiff = {data, size, data[0] == 'M'};
    const size_t directory = number(&tiff, 4, 4);
    if (directory > size - 2)
        return UPRIGHT;
    const uint32_t n_entries = number(&tiff, directory, 2);
    size_t entry = directory + 2;
    for (uint32_t i = 0; i < n_entries && size - entry >= ENTRY; i++, entry += ENTRY) {
        const uint32_t type = number(&tiff, entry + 2, 2), count = number(&tiff, entry + 4, 4);
        if (number(&tiff, entry, 2) != ORIENTATION_TAG || count != 1 || (type != IS_SHORT && type != IS_LONG))
            continue;
        const uint32_t value = number(&tiff, entry + 8, type == IS_SHORT ? 2 : 4);
        return value >= 1 && value <= 8 ? (int)value : UPRIGHT;
    }
    return UPRIGHT;
}

int orientation_of_jpeg(const uint8_t *data, size_t size)
{
    static const uint8_t name[6] = {'E', 'x', 'i', 'f', 0, 0};
    enum { APP1 = 0xe1, START_OF_SCAN = 0xda, END = 0xd9, RESTART_0 = 0xd0, START = 0xd8, TEMPORARY = 1 };
    for (size_t at = 2; at + 4 <= size;) {
        const uint8_t marker = data[at + 1];
        if (data[at] != 0xff || marker == 0xff || marker == 0) { /* stray bytes, which libjpeg passes over too */
            at++;
            continue;
        }
        if (marker == START_OF_SCAN || marker == END)
            break;
        at += 2;
        if ((marker >= RESTART_0 && marker <= START) || marker == TEMPORARY)
            continue;
        const size_t length = (size_t)data[at] << 8 | data[at + 1];
        if (length < 2 || length > size - at)
            break;
        if (marker == APP1 && length >= 2 + sizeof name && memcmp(data + at + 2, name, sizeof name) == 0)
            return orientation_of_tiff(data + at + 2 + sizeof name, length - 2 - sizeof name);
        at += length;
    }
    return UPRIGHT;
}

int orientation_of_png(const uint8_t *data, size_t size)
{
    enum { MAGIC = 8, AROUND = 12 }; /* AROUND: a chunk's length, name and checksum */
    for (size_t at = MAGIC; size - at >= AROUND;) {
        const struct tiff file = {data, size, true};
        const size_t length = number(&file, at, 4);
        if (length > size - at - AROUND)
            break;
        if (memcmp(data + at + 4, "eXIf", 4) == 0)
            return orientation_of_tiff(data + at + 8, length);
        at += length + AROUND;
    }
    return UPRIGHT;
}

bool orientation_swaps(int orientation)
{
    return orientation >= 5;
}

bool orientation_apply(int orientation, struct image *picture, struct image_error *error)
{
    /* Where the upright picture's next pixel of a line, and its next line, lie in the one that is there. */
    const int64_t width = picture->width, height = picture->height;
    const bool swaps = orientation_swaps(orientation);
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    struct image out;
    if (orientation == UPRIGHT)
        return true;
    if (!image_create(swaps ? picture->height : picture->width, swaps ? picture->width : picture->height, &out, error))
        return false;
    const int64_t across = (from_right ? -1 : 1) * 3, down = (from_bottom ? -1 : 1) * width * 3;
    const int64_t step = swaps ? down : across, line_step = swaps ? across : down;
    const uint8_t *line = picture->pixels + 3 * ((from_bottom ? height - 1 : 0) * width + (from_right ? width - 1 : 0));
    uint8_t *to = out.pixels;
    for (int32_t y = 0; y < out.height; y++, line += line_step) {
        const uint8_t *from = line;
        for (int32_t x = 0; x < out.width; x++, from += step, to += 3)
            memcpy(to, from, 3);
    }
    image_free(picture);
    *picture = out;
    return true;
}
