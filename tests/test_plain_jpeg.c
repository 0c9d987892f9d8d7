/* Tests the check, based on a JPEG file's markers, whether all decoders give the same pixels for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/cli/plain_jpeg.h"

#include "image_files.h"

enum { MOST = 1024 };

/* The offset of a marker. */
static size_t find(const uint8_t *data, size_t size, uint8_t marker)
{
    for (size_t i = 2; i + 1 < size; i++)
        if (data[i] == 0xff && data[i + 1] == marker)
            return i;
    fail();
    return 0;
}

/* Checks a copy that ends where its memory ends. */
static bool is_plain(const uint8_t *data, size_t size, struct plain_jpeg *out)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    const bool plain = plain_jpeg_read(copy, size, out);
    free(copy);
    return plain;
}

static bool is_plain_with(const uint8_t *data, size_t size, size_t at, uint8_t value)
{
    uint8_t changed[MOST];
    struct plain_jpeg out;
    assert_true(size <= MOST && at < size);
    memcpy(changed, data, size);
    changed[at] = value;
    return is_plain(changed, size, &out);
}

static void kinds(void **state)
{
    (void)state;
    struct plain_jpeg out = {0};
    assert_true(is_plain(jpeg_420, sizeof jpeg_420, &out));
    assert_int_equal(out.width, 17);
    assert_int_equal(out.height, 13);
    assert_false(out.is_grey);
    assert_int_equal(out.size, sizeof jpeg_420);
    assert_true(is_plain(jpeg_progressive, sizeof jpeg_progressive, &out));
    assert_true(is_plain(jpeg_exif, sizeof jpeg_exif, &out));
    assert_int_equal(out.width, 10); /* before the orientation is applied */
    assert_true(is_plain(jpeg_grey, sizeof jpeg_grey, &out));
    assert_true(out.is_grey);
    assert_false(is_plain(jpeg_cmyk, sizeof jpeg_cmyk, &out));
    assert_false(is_plain(png_rgb, sizeof png_rgb, &out));
}

static void truncated_files(void **state)
{
    (void)state;
    struct plain_jpeg out;
    for (size_t size = 0; size < sizeof jpeg_420; size++)
        assert_false(is_plain(jpeg_420, size, &out));
    for (size_t size = 0; size < sizeof jpeg_progressive; size++)
        assert_false(is_plain(jpeg_progressive, size, &out));
}

static void trailing_data_is_ignored(void **state)
{
    (void)state;
    uint8_t twice[2 * sizeof jpeg_420];
    struct plain_jpeg out;
    memcpy(twice, jpeg_420, sizeof jpeg_420);
    memcpy(twice + sizeof jpeg_420, jpeg_420, sizeof jpeg_420);
    assert_true(is_plain(twice, sizeof twice, &out));
    assert_int_equal(out.size, sizeof jpeg_420);
}

static void frames(void **state)
{
    (void)state;
    const size_t size = sizeof jpeg_420, frame = find(jpeg_420, size, 0xc0), scan = find(jpeg_420, size, 0xda);
    assert_true(is_plain_with(jpeg_420, size, frame + 1, 0xc1));
    assert_false(is_plain_with(jpeg_420, size, frame + 1, 0xc3));  /* lossless */
    assert_false(is_plain_with(jpeg_420, size, frame + 1, 0xc9));  /* arithmetic coding */
    assert_false(is_plain_with(jpeg_420, size, frame + 4, 12));    /* 12 bits per sample */
    assert_false(is_plain_with(jpeg_420, size, frame + 6, 0));     /* the height is given later */
    assert_false(is_plain_with(jpeg_420, size, frame + 9, 2));     /* components */
    assert_true(is_plain_with(jpeg_420, size, frame + 11, 0x12));  /* 4:4:0 */
    assert_false(is_plain_with(jpeg_420, size, frame + 11, 0x41)); /* 4:1:1 */
    assert_false(is_plain_with(jpeg_420, size, frame + 14, 0x21)); /* chroma planes with different sampling */
    assert_false(is_plain_with(jpeg_420, size, frame + 1, 0xdb));  /* no frame */
    assert_false(is_plain_with(jpeg_420, size, scan + 1, 0xfe));   /* no scan */
    assert_false(is_plain_with(jpeg_420, size, size - 20, 0xff));  /* a marker among the data */
    assert_false(is_plain_with(jpeg_420, size, frame + 2, 0xff));  /* a segment past the end */
}

static void colours(void **state)
{
    (void)state;
    uint8_t changed[sizeof jpeg_420];
    struct plain_jpeg out;
    const size_t frame = find(jpeg_420, sizeof jpeg_420, 0xc0);
    memcpy(changed, jpeg_420, sizeof changed);
    for (int c = 0; c < 3; c++)
        changed[frame + 10 + 3 * (size_t)c] = (uint8_t) "RGB"[c];
    assert_false(is_plain(changed, sizeof changed, &out));
    for (int c = 0; c < 3; c++)
        changed[frame + 10 + 3 * (size_t)c] = (uint8_t)(7 + 2 * c);
    assert_true(is_plain(changed, sizeof changed, &out)); /* JFIF */
    changed[6] = 'X';
    assert_false(is_plain(changed, sizeof changed, &out)); /* the colour space is unknown */
    memcpy(changed, jpeg_420, sizeof changed);
    changed[6] = 'X';
    assert_true(is_plain(changed, sizeof changed, &out)); /* component names 1, 2, 3 mean YCbCr */
    changed[3] = 0xee;
    memcpy(changed + 6, "Adobe\0\144\0\0\0\0", 11);
    changed[17] = 0; /* no transform: RGB */
    assert_false(is_plain(changed, sizeof changed, &out));
    changed[17] = 1;
    assert_true(is_plain(changed, sizeof changed, &out));
}

/* A file with these restart markers in dummy data; only the order of the markers is checked. */
static bool with_restarts(int interval, const uint8_t *markers, size_t n_markers)
{
    static const uint8_t head[] = {0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0, 0xff, 0xdd, 0, 4, 0};
    static const uint8_t scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 5, 0xff, 0, 6};
    uint8_t file[MOST];
    struct plain_jpeg out;
    size_t size = sizeof head;
    memcpy(file, head, size);
    file[size++] = (uint8_t)interval;
    memcpy(file + size, scan, sizeof scan);
    size += sizeof scan;
    for (size_t i = 0; i < n_markers; i++) {
        file[size++] = 0xff;
        file[size++] = markers[i];
        file[size++] = 9;
    }
    file[size++] = 0xff;
    file[size++] = 0xd9;
    return is_plain(file, size, &out);
}

static void restarts(void **state)
{
    (void)state;
    static const uint8_t right[] = {0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd0}, lost[] = {0xd0, 0xd2}, late[] = {0xd1};
    assert_true(with_restarts(0, NULL, 0));
    assert_true(with_restarts(1, right, sizeof right));
    assert_false(with_restarts(0, right, sizeof right));
    assert_false(with_restarts(1, lost, sizeof lost));
    assert_false(with_restarts(1, late, sizeof late));
}

static void scans(void **state)
{
    (void)state;
    static const uint8_t head[] = {0xff, 0xd8, 0xff, 0xc2, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0};
    static const uint8_t scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0, 5};
    static const uint8_t end[] = {0xff, 0xd9};
    for (int n = 0; n <= 101; n++) {
        uint8_t file[2048];
        struct plain_jpeg out;
        size_t size = sizeof head;
        memcpy(file, head, size);
        for (int i = 0; i < n; i++, size += sizeof scan)
            memcpy(file + size, scan, sizeof scan);
        memcpy(file + size, end, sizeof end);
        assert_int_equal(is_plain(file, size + sizeof end, &out), n >= 1 && n <= 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),  cmocka_unit_test(truncated_files), cmocka_unit_test(trailing_data_is_ignored),
        cmocka_unit_test(frames), cmocka_unit_test(colours),         cmocka_unit_test(restarts),
        cmocka_unit_test(scans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
