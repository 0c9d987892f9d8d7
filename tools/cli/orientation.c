#include "orientation.h"

#include <stdlib.h>
#include <string.h>

enum { MISSING = -1, UPRIGHT = 1, ORIENTATION_TAG = 0x112 };

struct tiff {
    const uint8_t *data;
    size_t size;
    bool is_big; /* the byte order */
};

/* An n-byte number; the caller has checked the bounds. */
static uint64_t number(const struct tiff *tiff, size_t at, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)tiff->data[at + (size_t)i] << 8 * (tiff->is_big ? n - 1 - i : i);
    return value;
}

enum type { BYTE = 1, ASCII = 2, RATIONAL = 5, UNDEFINED = 7, SIGNED_RATIONAL = 10, FLOAT = 11, DOUBLE = 12, N_TYPES = 17 };

/* Size of a value of each TIFF type; 0: invalid type. */
static const uint8_t type_sizes[N_TYPES] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};

/* Reads the first value of a tag. Signed integers need no special case, because negative values are not orientations. */
static int orientation_at(const struct tiff *tiff, uint32_t type, size_t at)
{
    const uint64_t bits = number(tiff, at, type == RATIONAL || type == SIGNED_RATIONAL ? 4 : type_sizes[type]);
    double value = (double)bits;
    float single;
    switch (type) {
    case BYTE:
    case ASCII:
    case UNDEFINED: /* Pillow does not treat bytes and text as numbers */
        return UPRIGHT;
    case RATIONAL:
        value /= (double)number(tiff, at + 4, 4);
        break;
    case SIGNED_RATIONAL:
        value = (double)(int32_t)bits / (double)(int32_t)number(tiff, at + 4, 4);
        break;
    case FLOAT:
        memcpy(&single, &(uint32_t){(uint32_t)bits}, sizeof single);
        value = (double)single;
        break;
    case DOUBLE:
        memcpy(&value, &bits, sizeof value);
        break;
    default:
        break;
    }
    for (int orientation = UPRIGHT; orientation <= 8; orientation++)
        if (value == orientation)
            return orientation;
    return UPRIGHT;
}

/* Reads the tag in the first directory, which describes the image; the second describes the thumbnail. */
static int orientation_of_directory(const struct tiff *tiff)
{
    enum { ENTRY = 12 };
    uint8_t seen[(UINT16_MAX + 1) / 8] = {0}; /* the first of several equal tags counts */
    uint64_t total = 0;
    const uint64_t directory = number(tiff, 4, 4);
    if (directory > tiff->size - 2)
        return MISSING;
    const uint64_t n_entries = number(tiff, directory, 2);
    size_t entry = directory + 2;
    for (uint64_t i = 0; i < n_entries && tiff->size - entry >= ENTRY; i++, entry += ENTRY) {
        const uint32_t tag = (uint32_t)number(tiff, entry, 2), type = (uint32_t)number(tiff, entry + 2, 2);
        if ((seen[tag / 8] >> tag % 8 & 1) != 0 || type >= N_TYPES || type_sizes[type] == 0)
            continue;
        const uint64_t size = number(tiff, entry + 4, 4) * type_sizes[type];
        uint64_t at = entry + 8;
        if (size > 4) {
            total += size;
            if (total > tiff->size)
                continue;
            at = number(tiff, at, 4);
            if (at > tiff->size || size > tiff->size - at)
                return MISSING; /* a truncated tag ends the directory */
        }
        if (size == 0)
            continue;
        if (tag == ORIENTATION_TAG)
            return orientation_at(tiff, type, at);
        seen[tag / 8] |= (uint8_t)(1 << tag % 8);
    }
    return MISSING;
}

static int orientation_of_exif(const uint8_t *data, size_t size)
{
    enum { HEADER = 8, PREFIX = 6 };
    /* The last three are invalid but accepted. */
    static const char headers[5][4] = {{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 0, 42}, {'M', 'M', 42, 0}, {'M', 'M', 0, 43}};
    for (int i = 0; i < 2 && size >= PREFIX && memcmp(data, "Exif\0", PREFIX) == 0; i++) {
        data += PREFIX;
        size -= PREFIX;
    }
    if (size == 0)
        return MISSING;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (size >= HEADER && memcmp(data, headers[i], sizeof headers[i]) == 0)
            return orientation_of_directory(&(struct tiff){data, size, data[0] == 'M'});
    return UPRIGHT; /* damaged */
}

/* Finds the first attribute or element with the name. */
static int orientation_of_xmp(const uint8_t *data, size_t size)
{
    static const char name[] = {'t', 'i', 'f', 'f', ':', 'O', 'r', 'i', 'e', 'n', 't', 'a', 't', 'i', 'o', 'n'};
    if (size == 0)
        return UPRIGHT;
    const uint8_t *const end = data + size;
    for (const uint8_t *at = data; (at = memchr(at, name[0], (size_t)(end - at))) != NULL;) {
        if ((size_t)(end - at) < sizeof name || memcmp(at, name, sizeof name) != 0) {
            at++;
            continue;
        }
        at += sizeof name;
        const size_t left = (size_t)(end - at), sign = left > 1 && at[0] == '=' && at[1] == '"' ? 2 : left > 0 && at[0] == '>' ? 1 : 0;
        if (sign > 0 && left > sign && at[sign] >= '0' && at[sign] <= '9')
            return at[sign] >= '1' && at[sign] <= '8' ? at[sign] - '0' : UPRIGHT;
    }
    return UPRIGHT;
}

int orientation_of_metadata(const uint8_t *exif, size_t exif_size, const uint8_t *xmp, size_t xmp_size)
{
    const int orientation = exif_size > 0 ? orientation_of_exif(exif, exif_size) : MISSING;
    return orientation == MISSING ? orientation_of_xmp(xmp, xmp_size) : orientation;
}

bool orientation_swaps(int orientation)
{
    return orientation >= 5;
}

bool orientation_apply(int orientation, struct image *image, struct image_error *error)
{
    /* Steps in the source image to the next pixel of a row, and to the next row, of the upright image. */
    const int64_t width = image->width, height = image->height;
    const bool swaps = orientation_swaps(orientation);
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    struct image out;
    if (orientation == UPRIGHT)
        return true;
    if (!image_create(swaps ? image->height : image->width, swaps ? image->width : image->height, &out, error))
        return false;
    const int64_t across = (from_right ? -1 : 1) * 3, down = (from_bottom ? -1 : 1) * width * 3;
    const int64_t step = swaps ? down : across, line_step = swaps ? across : down;
    const uint8_t *line = image->pixels + 3 * ((from_bottom ? height - 1 : 0) * width + (from_right ? width - 1 : 0));
    uint8_t *to = out.pixels;
    for (int32_t y = 0; y < out.height; y++, line += line_step) {
        const uint8_t *from = line;
        for (int32_t x = 0; x < out.width; x++, from += step, to += 3)
            memcpy(to, from, 3);
    }
    image_free(image);
    *image = out;
    return true;
}
