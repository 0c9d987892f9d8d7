#include "plain_jpeg.h"

#include <string.h>

#define MAX_SCANS 100

enum marker {
    SOF0 = 0xc0, /* baseline */
    SOF1 = 0xc1, /* more tables */
    SOF2 = 0xc2, /* progressive */
    DHT = 0xc4,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    APP15 = 0xef,
    COM = 0xfe
};

struct reader {
    const uint8_t *data;
    size_t size;
    struct plain_jpeg *out;
    bool has_frame, is_jfif, is_adobe, restarts;
    int n_scans;
    uint8_t ids[3]; /* ids of the components */
};

static int32_t number(const uint8_t *bytes)
{
    return bytes[0] << 8 | bytes[1];
}

/* One or two luma samples per chroma sample, horizontally and vertically. */
static bool is_usual_sampling(const uint8_t *components)
{
    const int luma = components[1];
    return (luma == 0x11 || luma == 0x21 || luma == 0x12 || luma == 0x22) && components[4] == 0x11 && components[7] == 0x11;
}

static bool read_frame(struct reader *self, const uint8_t *segment, size_t length)
{
    enum { HEADER = 6, COMPONENT = 3 };
    if (self->has_frame || length < HEADER + COMPONENT || segment[0] != 8)
        return false;
    self->has_frame = true;
    self->out->height = number(segment + 1);
    self->out->width = number(segment + 3);
    const int n_components = segment[5];
    const uint8_t *components = segment + HEADER;
    if (self->out->height == 0 || self->out->width == 0 || (n_components != 1 && n_components != 3) ||
        length != HEADER + COMPONENT * (size_t)n_components)
        return false;
    self->out->is_grey = n_components == 1;
    for (int c = 0; c < n_components; c++)
        self->ids[c] = components[COMPONENT * c];
    return self->out->is_grey || is_usual_sampling(components);
}

/* Files may also hold RGB. The JFIF or Adobe marker shows it, else the component ids. */
static bool is_ycbcr(const struct reader *self)
{
    const bool counted = self->ids[1] == self->ids[0] + 1 && self->ids[2] == self->ids[0] + 2 && self->ids[0] <= 1;
    return counted || ((self->is_jfif || self->is_adobe) && memcmp(self->ids, "RGB", 3) != 0);
}

static bool read_segment(struct reader *self, int marker, const uint8_t *segment, size_t length)
{
    switch (marker) {
    case SOF0:
    case SOF1:
    case SOF2:
        return read_frame(self, segment, length);
    case SOS:
        return self->has_frame && ++self->n_scans <= MAX_SCANS && (self->out->is_grey || is_ycbcr(self));
    case DRI:
        self->restarts = length >= 2 && number(segment) > 0;
        return length == 2;
    case APP0:
        self->is_jfif |= length >= 5 && memcmp(segment, "JFIF", 5) == 0;
        return true;
    case APP14:
        if (length < 12 || memcmp(segment, "Adobe", 5) != 0)
            return true;
        self->is_adobe = true;
        return segment[11] != 0; /* 0: no colour transform */
    default:
        return marker == DHT || marker == DQT || marker == COM || (marker > APP0 && marker <= APP15);
    }
}

/* The offset of the marker after a scan's compressed data; the file's size if there is none or a restart marker is out of order. */
static size_t end_of_scan(const struct reader *self, size_t at)
{
    int restart = RST0;
    for (const uint8_t *found; at < self->size && (found = memchr(self->data + at, 0xff, self->size - at));) {
        const size_t position = (size_t)(found - self->data);
        at = position + 1;
        if (at == self->size)
            break;
        const int next = self->data[at];
        if (next == 0xff)
            continue;
        if (next != 0 && (next < RST0 || next > RST7))
            return position;
        if (next != 0 && (!self->restarts || next != restart))
            break;
        if (next != 0)
            restart = restart == RST7 ? RST0 : restart + 1;
        at++;
    }
    return self->size;
}

bool plain_jpeg_read(const uint8_t *data, size_t size, struct plain_jpeg *out)
{
    struct reader self = {.data = data, .size = size, .out = out};
    size_t at = 2;
    if (size < at || data[0] != 0xff || data[1] != SOI)
        return false;
    while (size - at >= 2 && data[at] == 0xff) {
        const int marker = data[++at];
        if (marker == 0xff)
            continue;
        at++;
        if (marker == EOI) {
            out->size = at;
            return self.n_scans > 0;
        }
        if (size - at < 2)
            break;
        const size_t length = (size_t)number(data + at);
        if (length < 2 || length > size - at || !read_segment(&self, marker, data + at + 2, length - 2))
            break;
        at += length;
        if (marker == SOS)
            at = end_of_scan(&self, at);
    }
    return false;
}
