/* Finds EXIF and XMP in JPEG and PNG files. */
#include "orientation.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

/* Pillow's limits for PNG texts: of one text and of all unpacked texts. MIN_TEXT is added for each text. */
#define MAX_TEXT ((size_t)1 << 20)
#define MAX_TEXTS ((size_t)64 << 20)
#define MIN_TEXT ((size_t)1 << 10)

struct part {
    const uint8_t *data;
    size_t size;
    uint8_t *own; /* allocated data, or NULL */
    size_t room;  /* capacity of own */
};

struct metadata {
    struct part exif, xmp, profile; /* profile: EXIF in hexadecimal */
    size_t unpacked;
    bool out_of_memory;
};

static void set(struct part *part, const uint8_t *data, size_t size, uint8_t *own)
{
    free(part->own);
    *part = (struct part){data, size, own, 0};
}

static int judge(struct metadata *self)
{
    const int orientation =
        self->out_of_memory ? 0 : orientation_of_metadata(self->exif.data, self->exif.size, self->xmp.data, self->xmp.size);
    free(self->exif.own);
    free(self->xmp.own);
    free(self->profile.own);
    return orientation;
}

/* JPEG */

/* Appends a further EXIF segment of a JPEG to the first. */
static void append(struct metadata *self, const uint8_t *data, size_t size)
{
    struct part *exif = &self->exif;
    if (!exif->own || size > exif->room - exif->size) {
        const size_t room = 2 * (exif->size + size);
        uint8_t *joined = malloc(room);
        if (!joined) {
            self->out_of_memory = true;
            return;
        }
        memcpy(joined, exif->data, exif->size);
        set(exif, joined, exif->size, joined);
        exif->room = room;
    }
    memcpy(exif->own + exif->size, data, size);
    exif->size += size;
}

static void read_app1(struct metadata *self, const uint8_t *data, size_t size)
{
    static const char exif[6] = "Exif\0", xmp[29] = "http://ns.adobe.com/xap/1.0/";
    if (size >= sizeof exif && memcmp(data, exif, sizeof exif) == 0) {
        if (self->exif.size == 0)
            set(&self->exif, data, size, NULL);
        else
            append(self, data + sizeof exif, size - sizeof exif);
    } else if (size >= sizeof xmp && memcmp(data, xmp, sizeof xmp) == 0) {
        set(&self->xmp, data + sizeof xmp, size - sizeof xmp, NULL);
    }
}

int orientation_of_jpeg(const uint8_t *data, size_t size)
{
    enum { APP1 = 0xe1, START_OF_SCAN = 0xda, END = 0xd9, RESTART_0 = 0xd0, START = 0xd8, TEMPORARY = 1 };
    struct metadata self = {0};
    for (size_t at = 2; at + 4 <= size && !self.out_of_memory;) {
        const uint8_t marker = data[at + 1];
        if (data[at] != 0xff || marker == 0xff || marker == 0) { /* stray bytes, which libjpeg also skips */
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
        if (marker == APP1)
            read_app1(&self, data + at + 2, length - 2);
        at += length;
    }
    return judge(&self);
}

/* PNG */

static uint32_t big_32(const uint8_t *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

/* Unpacks a compressed text. Returns false if it is damaged or too long, or if out of memory. */
static bool unpack(struct metadata *self, const uint8_t *data, size_t size, struct part *out)
{
    if (self->unpacked >= MAX_TEXTS)
        return false;
    uint8_t *text = malloc(MAX_TEXT);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = text, .avail_out = (uInt)MAX_TEXT};
    if (!text || inflateInit(&stream) != Z_OK) {
        free(text);
        self->out_of_memory = true;
        return false;
    }
    const int status = inflate(&stream, Z_SYNC_FLUSH);
    const size_t n = MAX_TEXT - stream.avail_out;
    (void)inflateEnd(&stream);
    self->unpacked += n + MIN_TEXT;
    if (status == Z_STREAM_END || ((status == Z_OK || status == Z_BUF_ERROR) && n < MAX_TEXT)) {
        set(out, text, n, text);
        return true;
    }
    free(text);
    return false;
}

/* The data after n zero-terminated texts, or NULL if there are fewer. */
static const uint8_t *skip_texts(const uint8_t *data, const uint8_t *end, int n)
{
    for (; n > 0 && data; n--) {
        data = memchr(data, 0, (size_t)(end - data));
        data = data ? data + 1 : NULL;
    }
    return data;
}

/* tEXt: key, text. zTXt: key, compression method, text. iTXt: key, compression flag and method, language, translated key, text. */
static void read_text(struct metadata *self, const char *chunk, const uint8_t *data, size_t size)
{
    static const char exif[] = "exif", xmp[] = "XML:com.adobe.xmp", profile[] = "Raw profile type exif";
    const uint8_t *const end = data + size, *text = skip_texts(data, end, 1);
    if (!text)
        return;
    const bool is_plain = chunk[0] == 't', is_international = chunk[0] == 'i';
    const char *key = (const char *)data;
    struct part *part = strcmp(key, xmp) == 0       ? &self->xmp
                        : strcmp(key, profile) == 0 ? &self->profile
                        : strcmp(key, exif) == 0    ? &self->exif
                                                    : NULL;
    if (!part)
        return;
    if (part == &self->exif && !is_plain) { /* Pillow cannot read EXIF there and ignores the orientation */
        set(part, (const uint8_t *)exif, sizeof exif, NULL);
        return;
    }
    bool is_packed = !is_plain;
    if (is_international) {
        if (end - text < 2 || (text[0] != 0 && text[1] != 0))
            return;
        is_packed = text[0] != 0;
        text = skip_texts(text + 2, end, 2);
    } else if (is_packed) {
        text = text < end && *text == 0 ? text + 1 : NULL;
    }
    if (!text)
        return;
    if (!is_packed)
        set(part, text, (size_t)(end - text), NULL);
    else if (!unpack(self, text, (size_t)(end - text), part) && !is_international)
        set(part, NULL, 0, NULL);
}

static int digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes the profile, pairs of hexadecimal digits after three title lines, to EXIF data. */
static void read_profile(struct metadata *self)
{
    if (self->profile.size == 0)
        return;
    const uint8_t *at = self->profile.data, *const end = at + self->profile.size;
    for (int line = 0; line < 3 && at; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return;
    uint8_t *bytes = malloc((size_t)(end - at) / 2 + 1);
    size_t n = 0;
    if (!bytes) {
        self->out_of_memory = true;
        return;
    }
    while (at < end) {
        if (*at == ' ' || (*at >= '\t' && *at <= '\r')) {
            at++;
            continue;
        }
        const int high = digit(*at), low = end - at > 1 ? digit(at[1]) : -1;
        if (high < 0 || low < 0) { /* damaged: the image is not turned, even if XMP has an orientation */
            bytes[0] = 0;
            n = 1;
            break;
        }
        bytes[n++] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    set(&self->exif, bytes, n, bytes);
}

int orientation_of_png(const uint8_t *data, size_t size)
{
    enum { MAGIC = 8, AROUND = 12 }; /* AROUND: length, name and checksum of a chunk */
    struct metadata self = {0};
    bool is_animated = false, has_pixels = false, has_exif = false;
    for (size_t at = MAGIC; size - at >= AROUND && !self.out_of_memory;) {
        const size_t length = big_32(data + at);
        const char *chunk = (const char *)data + at + 4;
        const uint8_t *body = data + at + 8;
        if (length > size - at - AROUND || memcmp(chunk, "IEND", 4) == 0)
            break;
        is_animated |= memcmp(chunk, "acTL", 4) == 0;
        has_pixels |= memcmp(chunk, "IDAT", 4) == 0;
        if (is_animated && has_pixels && memcmp(chunk, "fcTL", 4) == 0)
            break; /* the following chunks belong to the second image */
        if (memcmp(chunk, "eXIf", 4) == 0) {
            /* One "Exif" prefix in the file is skipped; a second one counts as damage. */
            const bool is_damaged = length >= 12 && memcmp(body, "Exif\0\0Exif\0", 12) == 0;
            set(&self.exif, body, is_damaged ? 1 : length, NULL);
            has_exif = true;
        } else if (memcmp(chunk, "tEXt", 4) == 0 || memcmp(chunk, "zTXt", 4) == 0 || memcmp(chunk, "iTXt", 4) == 0) {
            read_text(&self, chunk, body, length);
        }
        at += length + AROUND;
    }
    if (!has_exif && self.exif.size == 0 && !self.out_of_memory)
        read_profile(&self);
    return judge(&self);
}
