/* Reads BMP files with 1 to 32 bits per pixel, palettes, RLE or masks, with the same values as Pillow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_reader.h"

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, MASKS_HEADER = 52 };
enum compression { PLAIN, RLE8, RLE4, BITFIELDS };

struct bmp {
    struct image_reader *input;
    const uint8_t *data;
    size_t size;
    uint32_t header, compression, bits;
    int32_t width, height;
    bool is_top_down;
    size_t pixels; /* offset in the file */
    uint32_t n_colours;
    uint8_t palette[256][3];
    struct mask {
        uint32_t bits, max; /* largest value */
        int shift;
    } masks[3]; /* red, green, blue */
};

static uint32_t number(const uint8_t *data, int n)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint32_t)data[i] << 8 * i;
    return value;
}

static bool fail(const struct bmp *self, const char *what)
{
    return image_fail(self->input->error, "broken BMP: %s", what);
}

static bool ends_early(const struct bmp *self)
{
    return fail(self, "the file ends too early");
}

/* Rows are stored from the bottom up unless the header says otherwise. */
static uint8_t *line_of(const struct bmp *self, int32_t y)
{
    const struct image *out = &self->input->result;
    return out->pixels + 3 * (size_t)out->width * (size_t)(self->is_top_down ? y : self->height - 1 - y);
}

/* Header */

static bool set_mask(struct mask *mask, uint32_t bits)
{
    *mask = (struct mask){.bits = bits};
    if (bits == 0)
        return false;
    while ((bits >> mask->shift & 1) == 0)
        mask->shift++;
    mask->max = bits >> mask->shift;
    return (mask->max & (mask->max + 1)) == 0 && mask->max <= 255;
}

static bool read_masks(struct bmp *self, size_t *end)
{
    uint32_t bits[3] = {0x7c00, 0x3e0, 0x1f};
    if (self->bits > 16)
        memcpy(bits, (uint32_t[]){0xff0000, 0xff00, 0xff}, sizeof bits);
    if (self->compression == BITFIELDS) {
        if (self->size < FILE_HEADER + MASKS_HEADER)
            return ends_early(self);
        const uint8_t *masks = self->data + FILE_HEADER + INFO_HEADER;
        const bool are_none = self->bits == 32 && number(masks, 4) == 0 && number(masks + 4, 4) == 0 && number(masks + 8, 4) == 0;
        for (int c = 0; c < 3 && !are_none; c++)
            bits[c] = number(masks + 4 * c, 4);
        if (*end < FILE_HEADER + MASKS_HEADER) /* they follow a short header and are part of a long one */
            *end = FILE_HEADER + MASKS_HEADER;
    }
    for (int c = 0; c < 3; c++)
        if (!set_mask(&self->masks[c], bits[c]) || (self->bits < 32 && bits[c] >> self->bits != 0))
            return image_fail(self->input->error, "BMP with the colour masks %#x, %#x, %#x; each mask must have 1 to 8 consecutive bits",
                              bits[0], bits[1], bits[2]);
    return true;
}

static bool read_palette(struct bmp *self, uint32_t n, size_t *end)
{
    const size_t entry = self->header == CORE_HEADER ? 3 : 4, max = (size_t)1 << self->bits;
    n = n == 0 ? (uint32_t)max : n;
    if (n > 65536)
        return fail(self, "the palette has more than 65536 colours");
    if (n * entry > self->size - *end)
        return ends_early(self);
    self->n_colours = n < max ? n : (uint32_t)max;
    for (uint32_t i = 0; i < self->n_colours; i++)
        for (int c = 0; c < 3; c++)
            self->palette[i][c] = self->data[*end + i * entry + (size_t)(2 - c)];
    *end += n * entry;
    return true;
}

static bool check_kind(struct bmp *self)
{
    char *text = self->input->error->text;
    const size_t room = sizeof self->input->error->text;
    const uint32_t bits = self->bits;
    if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32) {
        snprintf(text, room, "BMP with %u bits per pixel; supported: 1, 4, 8, 16, 24 and 32", bits);
        return false;
    }
    if (self->compression == PLAIN || (self->compression == RLE8 && bits == 8) || (self->compression == RLE4 && bits == 4) ||
        (self->compression == BITFIELDS && bits >= 16))
        return true;
    snprintf(text, room,
             "BMP with %u bits per pixel and compression %u; supported: none (0), RLE8 (1, 8 bits), RLE4 (2, 4 bits) and masks (3)", bits,
             self->compression);
    return false;
}

static bool read_header(struct bmp *self)
{
    const uint8_t *info = self->data + FILE_HEADER;
    self->header = number(info, 4);
    size_t end = FILE_HEADER + (size_t)self->header;
    uint32_t n_colours = 0;
    if (self->size < end)
        return ends_early(self);
    if (self->header == CORE_HEADER) {
        self->width = (int32_t)number(info + 4, 2);
        self->height = (int32_t)number(info + 6, 2);
        self->bits = number(info + 10, 2);
    } else {
        self->width = (int32_t)number(info + 4, 4);
        self->height = (int32_t)number(info + 8, 4);
        self->bits = number(info + 14, 2);
        self->compression = number(info + 16, 4);
        n_colours = number(info + 32, 4);
        self->is_top_down = self->height < 0;
        self->height = self->is_top_down && self->height > INT32_MIN ? -self->height : self->height;
    }
    if (!check_kind(self) || (self->bits >= 16 && !read_masks(self, &end)) || (self->bits < 16 && !read_palette(self, n_colours, &end)))
        return false;
    const size_t stored = number(self->data + 10, 4);
    const bool is_palette = self->bits < 16 && stored == FILE_HEADER + (size_t)self->header; /* some programs forget the palette */
    self->pixels = stored == 0 || is_palette ? end : stored;
    return self->pixels <= self->size || ends_early(self);
}

/* Pixels */

static bool put(const struct bmp *self, uint8_t *out, uint32_t index)
{
    if (index >= self->n_colours)
        return fail(self, "a pixel has a colour that is not in the palette");
    memcpy(out, self->palette[index], 3);
    return true;
}

static bool read_line(const struct bmp *self, const uint8_t *from, uint8_t *out)
{
    const uint32_t bits = self->bits, n_bytes = bits / 8;
    for (int32_t x = 0; x < self->width; x++, out += 3) {
        if (bits <= 8) {
            const uint32_t at = (uint32_t)x * bits, index = from[at / 8] >> (8 - bits - at % 8) & ((1U << bits) - 1);
            if (!put(self, out, index))
                return false;
            continue;
        }
        const uint32_t value = number(from + (size_t)x * n_bytes, (int)n_bytes);
        for (int c = 0; c < 3; c++) {
            const struct mask *mask = &self->masks[c];
            out[c] = (uint8_t)(((value & mask->bits) >> mask->shift) * 255 / mask->max);
        }
    }
    return true;
}

static bool read_plain(const struct bmp *self)
{
    const uint64_t used = ((uint64_t)self->width * self->bits + 7) / 8, stride = (used + 3) / 4 * 4;
    if (stride * (uint64_t)(self->height - 1) + used > self->size - self->pixels)
        return ends_early(self);
    for (int32_t y = 0; y < self->height; y++)
        if (!read_line(self, self->data + self->pixels + stride * (uint64_t)y, line_of(self, y)))
            return false;
    return true;
}

/* Writes n pixels from column x on. With 4 bits a byte has two codes. step 0 repeats one byte. */
static bool put_run(const struct bmp *self, int32_t x, int32_t y, uint32_t n, const uint8_t *codes, uint32_t step)
{
    if (y >= self->height || n > (uint32_t)(self->width - x))
        return fail(self, "a run of pixels ends outside the image");
    uint8_t *out = line_of(self, y) + 3 * (size_t)x;
    for (uint32_t i = 0; i < n; i++, out += 3) {
        const uint8_t code = codes[self->bits == 4 ? i / 2 * step : i * step];
        if (!put(self, out, self->bits == 8 ? code : i % 2 == 0 ? code >> 4 : code & 15U))
            return false;
    }
    return true;
}

/* Pixels outside all runs have the first colour. */
static void clear(const struct bmp *self)
{
    const struct image *out = &self->input->result;
    for (size_t i = 0; i < (size_t)out->width * (size_t)out->height; i++)
        memcpy(out->pixels + 3 * i, self->palette[0], 3);
}

static bool read_runs(const struct bmp *self)
{
    enum { LINE_ENDS, IMAGE_ENDS, MOVE };
    const uint8_t *at = self->data + self->pixels, *const end = self->data + self->size;
    int32_t x = 0, y = 0;
    clear(self);
    while (end - at >= 2) {
        const uint32_t n = at[0], code = at[1];
        at += 2;
        if (n > 0) {
            if (!put_run(self, x, y, n, at - 1, 0))
                return false;
            x += (int32_t)n;
        } else if (code == LINE_ENDS) {
            x = 0;
            y++;
        } else if (code == IMAGE_ENDS) {
            break;
        } else if (code == MOVE) {
            if (end - at < 2)
                break;
            x += at[0];
            y += at[1];
            at += 2;
            if (x > self->width || y > self->height)
                return fail(self, "a run of pixels begins outside the image");
        } else {
            const uint32_t n_bytes = self->bits == 8 ? code : (code + 1) / 2;
            if ((size_t)(end - at) < n_bytes)
                break;
            if (!put_run(self, x, y, code, at, 1))
                return false;
            x += (int32_t)code;
            at += n_bytes;
            at += n_bytes % 2 == 1 && at < end; /* runs start at even offsets */
        }
        if (y > self->height)
            return fail(self, "more lines than the header says");
    }
    return y >= self->height || (y == self->height - 1 && x == self->width) || ends_early(self);
}

bool image_read_bmp(struct image_reader *input)
{
    struct bmp self = {.input = input, .data = input->data, .size = input->size};
    if (!read_header(&self) || !image_reader_create(input, self.width, self.height))
        return false;
    return input->size_only || (self.compression == RLE8 || self.compression == RLE4 ? read_runs(&self) : read_plain(&self));
}
