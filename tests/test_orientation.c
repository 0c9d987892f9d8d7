/* Tests the orientation from unusual and damaged EXIF and XMP, which equals that of ImageOps.exif_transpose in Pillow 13
   (python/tests/test_turned.py compares the two on such files). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "tools/cli/orientation.h"

enum { BYTE = 1, ASCII, SHORT, LONG, RATIONAL, SBYTE, UNDEFINED, SSHORT, SLONG, SRATIONAL, FLOAT, DOUBLE, IFD, LONG8 = 16 };
enum { TAG = 0x112, MAKER = 0x10f, OUTSIDE = 1 /* the value's offset points outside the data */ };

struct entry {
    int tag, type;
    uint32_t count;
    double value; /* of each item; for text, the digit */
    int flags;
};

struct bytes {
    uint8_t data[4096];
    size_t size;
};

static void put(struct bytes *out, const void *data, size_t size)
{
    assert_true(size <= sizeof out->data - out->size);
    if (size > 0)
        memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put_number(struct bytes *out, bool big, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        put(out, &(uint8_t){(uint8_t)(value >> 8 * (big ? n - 1 - i : i))}, 1);
}

static void put_value(struct bytes *out, bool big, int type, double value)
{
    static const int sizes[] = {0, 1, 1, 2, 4, 4, 1, 1, 2, 4, 4, 4, 8, 4, 0, 0, 8};
    const float single = (float)value;
    uint64_t bits = type == ASCII ? (uint64_t)value + '0' : (uint64_t)(int64_t)value;
    if (type == FLOAT)
        memcpy(&bits, &single, sizeof single);
    if (type == DOUBLE)
        memcpy(&bits, &value, sizeof value);
    if (type == RATIONAL || type == SRATIONAL) { /* over 2, or -2 */
        bits = (uint64_t)(int64_t)(type == RATIONAL ? 2 * value : -2 * value);
        put_number(out, big, bits, 4);
        bits = (uint64_t)(int64_t)(type == RATIONAL ? 2 : -2);
    }
    put_number(out, big, bits, type > LONG8 ? 1 : sizes[type]);
}

/* A directory of n entries, followed by their long values. */
static struct bytes make_tiff(bool big, const struct entry *entries, size_t n)
{
    struct bytes out = {.size = 0}, values = {.size = 0};
    put(&out, big ? "MM\0*" : "II*\0", 4);
    put_number(&out, big, 8, 4);
    put_number(&out, big, n, 2);
    for (size_t i = 0; i < n; i++) {
        struct bytes value = {.size = 0};
        for (uint32_t k = 0; k < entries[i].count && k < 8; k++)
            put_value(&value, big, entries[i].type, entries[i].value);
        put_number(&out, big, (uint64_t)entries[i].tag, 2);
        put_number(&out, big, (uint64_t)entries[i].type, 2);
        put_number(&out, big, entries[i].count, 4);
        if (value.size > 4 || entries[i].count > 8) {
            put_number(&out, big, entries[i].flags & OUTSIDE ? 100000 : 8 + 2 + 12 * n + 4 + values.size, 4);
            put(&values, value.data, value.size);
        } else {
            put(&value, "\0\0\0", 4 - value.size);
            put(&out, value.data, 4);
        }
    }
    put_number(&out, big, 0, 4);
    put(&out, values.data, values.size);
    return out;
}

#define ATTRIBUTE(n) "<rdf tiff:Orientation=\"" n "\"/>"
#define ELEMENT(n) "<tiff:Orientation>" n "</tiff:Orientation>"

static const struct {
    const char *name;
    int wanted;
    struct entry entries[4];
    const char *xmp;
} cases[] = {
    {"nothing", 1, {{0}}, NULL},
    {"short", 6, {{TAG, SHORT, 1, 6, 0}}, NULL},
    {"long", 6, {{TAG, LONG, 1, 6, 0}}, NULL},
    {"signed byte", 6, {{TAG, SBYTE, 1, 6, 0}}, NULL},
    {"signed short", 6, {{TAG, SSHORT, 1, 6, 0}}, NULL},
    {"signed long", 6, {{TAG, SLONG, 1, 6, 0}}, NULL},
    {"negative", 1, {{TAG, SSHORT, 1, -6, 0}}, NULL},
    {"directory", 6, {{TAG, IFD, 1, 6, 0}}, NULL},
    {"eight bytes", 6, {{TAG, LONG8, 1, 6, 0}}, NULL},
    {"rational", 6, {{TAG, RATIONAL, 1, 6, 0}}, NULL},
    {"signed rational", 6, {{TAG, SRATIONAL, 1, 6, 0}}, NULL},
    {"rational between", 1, {{TAG, RATIONAL, 1, 5.5, 0}}, NULL},
    {"float", 6, {{TAG, FLOAT, 1, 6, 0}}, NULL},
    {"double", 6, {{TAG, DOUBLE, 1, 6, 0}}, NULL},
    {"double between", 1, {{TAG, DOUBLE, 1, 6.5, 0}}, NULL},
    {"byte", 1, {{TAG, BYTE, 1, 6, 0}}, ATTRIBUTE("8")},
    {"text", 1, {{TAG, ASCII, 1, 6, 0}}, ATTRIBUTE("8")},
    {"undefined", 1, {{TAG, UNDEFINED, 1, 6, 0}}, ATTRIBUTE("8")},
    {"no type", 8, {{TAG, 99, 1, 6, 0}}, ATTRIBUTE("8")},
    {"two values", 6, {{TAG, SHORT, 2, 6, 0}}, NULL},
    {"many values", 6, {{TAG, SHORT, 5, 6, 0}}, NULL},
    {"no value", 8, {{TAG, SHORT, 0, 6, 0}}, ATTRIBUTE("8")},
    {"no value, then one", 6, {{TAG, SHORT, 0, 3, 0}, {TAG, SHORT, 1, 6, 0}}, NULL},
    {"values outside", 8, {{TAG, SHORT, 5, 6, OUTSIDE}}, ATTRIBUTE("8")},
    {"more values than data", 6, {{TAG, SHORT, 1U << 31, 3, 0}, {TAG, SHORT, 1, 6, 0}}, NULL},
    {"0", 1, {{TAG, SHORT, 1, 0, 0}}, ATTRIBUTE("8")},
    {"9", 1, {{TAG, SHORT, 1, 9, 0}}, ATTRIBUTE("8")},
    {"twice", 6, {{TAG, SHORT, 1, 6, 0}, {TAG, SHORT, 1, 3, 0}}, NULL},
    {"behind another", 6, {{MAKER, ASCII, 6, 7, 0}, {TAG, SHORT, 1, 6, 0}}, NULL},
    {"behind a broken one", 8, {{MAKER, ASCII, 6, 7, OUTSIDE}, {TAG, SHORT, 1, 6, 0}}, ATTRIBUTE("8")},
    {"behind one broken twice", 6, {{MAKER, SHORT, 1, 7, 0}, {MAKER, ASCII, 6, 7, OUTSIDE}, {TAG, SHORT, 1, 6, 0}}, NULL},
    {"XMP, attribute", 8, {{0}}, ATTRIBUTE("8")},
    {"XMP, element", 8, {{0}}, ELEMENT("8")},
    {"XMP, 0", 1, {{0}}, ATTRIBUTE("0")},
    {"XMP, the first", 3, {{0}}, "tiff:Orientation 6 " ELEMENT("3") ATTRIBUTE("8")},
    {"XMP, another sign", 1, {{0}}, "<tiff:Orientation='8'>"},
    {"XMP, cut off", 1, {{0}}, "<tiff:Orientation=\""},
    {"both", 6, {{TAG, SHORT, 1, 6, 0}}, ATTRIBUTE("8")},
    {"both, EXIF silent", 8, {{MAKER, SHORT, 1, 6, 0}}, ATTRIBUTE("8")},
};

static void put_segment(struct bytes *out, const char *name, size_t name_size, const uint8_t *data, size_t size)
{
    put(out, "\xff\xe1", 2);
    put_number(out, true, 2 + name_size + size, 2);
    put(out, name, name_size);
    put(out, data, size);
}

static void put_chunk(struct bytes *out, const char *name, const char *key, size_t key_size, const uint8_t *data, size_t size)
{
    put_number(out, true, key_size + size, 4);
    put(out, name, 4);
    put(out, key, key_size);
    put(out, data, size);
    put_number(out, true, 0, 4); /* libpng checks the CRC, this code does not */
}

/* A title and bytes as hexadecimal digits, plain or compressed. */
static struct bytes make_profile(const uint8_t *data, size_t size, bool packs)
{
    struct bytes text = {.size = 0}, out = {.size = 0};
    char line[64];
    put(&text, line, (size_t)snprintf(line, sizeof line, "\nexif\n%8zu", size));
    for (size_t i = 0; i < size; i++)
        put(&text, line, (size_t)snprintf(line, sizeof line, "%s%02x", i % 36 == 0 ? "\n" : "", data[i]));
    if (!packs)
        return text;
    uLongf packed = sizeof out.data - 1;
    assert_int_equal(compress(out.data + 1, &packed, text.data, text.size), Z_OK);
    out.size = packed + 1;
    return out;
}

#define EXIF "Exif\0"
#define XAP "http://ns.adobe.com/xap/1.0/"
#define XMP_KEY "XML:com.adobe.xmp"
#define PROFILE_KEY "Raw profile type exif"

enum way { JPEG_FILE, JPEG_IN_TWO, JPEG_WITH_REST, PNG_CHUNK, PNG_LATE, PNG_PROFILE, PNG_PACKED, WEBP_CHUNK, N_WAYS };

static int orientation_by(enum way way, const struct bytes *tiff, const char *xmp)
{
    struct bytes file = {.size = 0}, text;
    const size_t xmp_size = xmp ? strlen(xmp) : 0;
    const uint8_t *xmp_bytes = (const uint8_t *)xmp;
    const bool is_png = way >= PNG_CHUNK && way < WEBP_CHUNK;
    put(&file, is_png ? "\x89PNG\r\n\x1a\n" : "\xff\xd8", is_png ? 8 : 2);
    if (way == PNG_LATE)
        put_chunk(&file, "IDAT", "", 0, NULL, 0);
    if (is_png && xmp)
        put_chunk(&file, "iTXt", XMP_KEY "\0\0\0en\0", sizeof XMP_KEY + 6, xmp_bytes, xmp_size);
    else if (xmp)
        put_segment(&file, XAP, sizeof XAP, xmp_bytes, xmp_size);
    switch (way) {
    case JPEG_IN_TWO:
        put_segment(&file, EXIF, 6, tiff->data, tiff->size / 2);
        put_segment(&file, EXIF, 6, tiff->data + tiff->size / 2, tiff->size - tiff->size / 2);
        break;
    case PNG_CHUNK:
    case PNG_LATE:
        put_chunk(&file, "eXIf", "", 0, tiff->data, tiff->size);
        break;
    case PNG_PROFILE:
        text = make_profile(tiff->data, tiff->size, false);
        put_chunk(&file, "tEXt", PROFILE_KEY, sizeof PROFILE_KEY, text.data, text.size);
        break;
    case PNG_PACKED:
        text = make_profile(tiff->data, tiff->size, true);
        text.data[0] = 0; /* the compression method */
        put_chunk(&file, "zTXt", PROFILE_KEY, sizeof PROFILE_KEY, text.data, text.size);
        break;
    default:
        put_segment(&file, EXIF, 6, tiff->data, tiff->size);
        break;
    }
    if (is_png)
        put_chunk(&file, "IEND", "", 0, NULL, 0);
    else
        put(&file, "\xff\xda\0\2", 4);
    if (way == JPEG_WITH_REST || way == PNG_LATE) /* data after the end is ignored */
        put_segment(&file, EXIF, 6, (const uint8_t *)"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\7\0\0\0", 22);
    return way == WEBP_CHUNK ? orientation_of_metadata(tiff->data, tiff->size, xmp_bytes, xmp_size)
           : is_png          ? orientation_of_png(file.data, file.size)
                             : orientation_of_jpeg(file.data, file.size);
}

static void test_every_kind_in_every_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int big = 0; big < 2; big++)
            for (int way = 0; way < N_WAYS; way++) {
                size_t n = 0;
                while (n < 4 && cases[i].entries[n].tag != 0)
                    n++;
                const struct bytes tiff = make_tiff(big, cases[i].entries, n);
                const int found = orientation_by((enum way)way, &tiff, cases[i].xmp);
                if (found != cases[i].wanted)
                    fail_msg("%s, %s-endian, way %d: %d, not %d", cases[i].name, big ? "big" : "little", way, found, cases[i].wanted);
            }
}

static void test_values(void **state)
{
    (void)state;
    for (int value = 0; value < 12; value++)
        for (int way = 0; way < N_WAYS; way++) {
            const struct entry entry = {TAG, SHORT, 1, value, 0};
            const struct bytes tiff = make_tiff(value % 2 == 0, &entry, 1);
            assert_int_equal(orientation_by((enum way)way, &tiff, NULL), value >= 1 && value <= 8 ? value : 1);
        }
}

/* Truncated data; only a thumbnail's directory; invalid headers, and the ones that Pillow reads nevertheless. */
static void test_damage(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int wanted;
    } headers[] = {{"II\0*", 6}, {"II+\0", 1}, {"XX*\0", 1}, {"MM\0*", 1}};
    const struct entry entry = {TAG, SHORT, 1, 6, 0};
    struct bytes tiff = make_tiff(false, &entry, 1);
    const struct bytes whole = tiff;
    for (size_t cut = 0; cut <= whole.size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1); /* so that a sanitizer detects a read past the end */
        assert_non_null(copy);
        memcpy(copy, whole.data, cut);
        const int wanted = cut >= 8 + 2 + 12 ? 6 : cut >= 8 || cut == 0 ? 8 : 1; /* XMP is used if the directory is truncated */
        assert_int_equal(orientation_of_metadata(copy, cut, (const uint8_t *)ATTRIBUTE("8"), sizeof ATTRIBUTE("8") - 1), wanted);
        free(copy);
    }
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        memcpy(tiff.data, headers[i].header, 4);
        for (int way = 0; way < N_WAYS; way++)
            assert_int_equal(orientation_by((enum way)way, &tiff, ATTRIBUTE("8")), i == 3 ? 8 : headers[i].wanted);
    }
    struct bytes second = make_tiff(true, NULL, 0); /* an empty directory, followed by the thumbnail's */
    second.size -= 4;
    put_number(&second, true, second.size + 4, 4);
    put(&second, make_tiff(true, &entry, 1).data + 8, 2 + 12 + 4);
    for (int way = 0; way < N_WAYS; way++)
        assert_int_equal(orientation_by((enum way)way, &second, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_in_every_file),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
