/* Tests decoding and resizing of image files in the command line tool. The bicubic resize equals Pillow's, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jpeglib.h>
#include <png.h>

#include "tests/deit_recipe.h"
#include "tools/cli/image_file.h"
#include "tools/cli/image_png.h"
#include "tools/cli/preprocess.h"

#include "image_files.h"

#define N_FILES (sizeof image_files / sizeof image_files[0])

static char folder[64];
static char path[128];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/raggedvit-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/image", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static uint32_t crc32_of(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static size_t byte_count(const struct image *image)
{
    return (size_t)image->width * (size_t)image->height * 3;
}

enum { NOISE, BLACK_AND_WHITE, RAMP };

static struct image make_image(int kind, int32_t width, int32_t height)
{
    struct image out;
    struct image_error error;
    uint32_t random = 12345u + (uint32_t)kind;
    assert_true(image_create(width, height, &out, &error));
    for (size_t i = 0; i < byte_count(&out); i++) {
        const size_t line = (size_t)width * 3;
        random = random * 1664525u + 1013904223u;
        out.pixels[i] = (uint8_t)(kind == NOISE ? random >> 24 : kind == BLACK_AND_WHITE ? (random >> 31) * 255 : i % line + i / line * 5);
    }
    return out;
}

static struct image resized(const struct image *in, int32_t width, int32_t height)
{
    struct image out;
    struct image_error error;
    assert_true(preprocess_resize(image_whole(in), width, height, &out, &error));
    return out;
}

/* The checksums are those of Pillow 13's Image.resize(..., BICUBIC). */
static const struct golden {
    int kind;
    int32_t width, height, to_width, to_height;
    uint32_t crc;
} goldens[] = {
    {.width = 32, .height = 32, .to_width = 224, .to_height = 224, .crc = 0x341f62ba},
    {.kind = 1, .width = 451, .height = 300, .to_width = 372, .to_height = 248, .crc = 0xcf354f55},
    {.kind = 2, .width = 500, .height = 375, .to_width = 330, .to_height = 248, .crc = 0x30c21379},
    {.width = 375, .height = 500, .to_width = 248, .to_height = 330, .crc = 0xc485be07},
    {.kind = 1, .width = 333, .height = 500, .to_width = 256, .to_height = 384, .crc = 0x4b3534fc},
    {.kind = 2, .width = 64, .height = 48, .to_width = 7, .to_height = 5, .crc = 0x01bfeda8},
    {.width = 7, .height = 5, .to_width = 64, .to_height = 48, .crc = 0xb70986c8},
    {.kind = 1, .width = 100, .height = 80, .to_width = 100, .to_height = 20, .crc = 0x72a0be79},
    {.kind = 2, .width = 100, .height = 80, .to_width = 20, .to_height = 80, .crc = 0x0a5197f4},
    {.width = 100, .height = 80, .to_width = 160, .to_height = 20, .crc = 0x1285d478},
    {.kind = 1, .width = 20, .height = 90, .to_width = 60, .to_height = 31, .crc = 0xc7a2a59e},
    {.kind = 2, .width = 1, .height = 1, .to_width = 5, .to_height = 4, .crc = 0x9fefa85b},
    {.width = 1, .height = 9, .to_width = 6, .to_height = 3, .crc = 0x04f38ad9},
    {.kind = 1, .width = 9, .height = 1, .to_width = 3, .to_height = 6, .crc = 0x54202ce8},
    {.kind = 2, .width = 2, .height = 3, .to_width = 3, .to_height = 2, .crc = 0x9bbf56d6},
    {.width = 3, .height = 2, .to_width = 2, .to_height = 3, .crc = 0x14c0370f},
    {.kind = 1, .width = 200, .height = 150, .to_width = 200, .to_height = 150, .crc = 0x2d153491},
    {.kind = 2, .width = 224, .height = 224, .to_width = 384, .to_height = 384, .crc = 0x2fa85df6},
    {.width = 600, .height = 37, .to_width = 24, .to_height = 224, .crc = 0xb7e0baa2},
    {.kind = 1, .width = 37, .height = 600, .to_width = 224, .to_height = 24, .crc = 0xd466135a},
};

static void test_resize_equals_pillow(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        const struct golden *golden = &goldens[i];
        struct image in = make_image(golden->kind, golden->width, golden->height);
        struct image out = resized(&in, golden->to_width, golden->to_height);
        if (crc32_of(out.pixels, byte_count(&out)) != golden->crc)
            fail_msg("%d x %d to %d x %d differs", golden->width, golden->height, golden->to_width, golden->to_height);
        image_free(&in);
        image_free(&out);
    }
}

static void test_same_size_is_a_copy(void **state)
{
    (void)state;
    struct image in = make_image(NOISE, 61, 43), out = resized(&in, 61, 43);
    assert_memory_equal(in.pixels, out.pixels, byte_count(&in));
    image_free(&in);
    image_free(&out);
}

static void test_every_kind_of_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        const struct image_file *file = &image_files[i];
        struct image image;
        struct image_error error;
        if (!image_decode(file->data, file->size, &image, &error))
            fail_msg("%s: %s", file->name, error.text);
        assert_int_equal(image.width, file->width);
        assert_int_equal(image.height, file->height);
        if (crc32_of(image.pixels, byte_count(&image)) != file->crc)
            fail_msg("%s: other pixels", file->name);
        image_free(&image);
    }
}

/* Decodes a copy that ends where its memory ends, so that a sanitizer detects a read past the end. */
static bool decode_copy(const uint8_t *data, size_t size, struct image *out, struct image_error *error)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    const bool ok = image_decode(copy, size, out, error);
    free(copy);
    return ok;
}

static void test_truncated_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        const struct image_file *file = &image_files[i];
        for (size_t size = 0; size < file->size; size++) {
            struct image image;
            struct image_error error = {""};
            if (decode_copy(file->data, size, &image, &error)) {
                /* A file may only lack last bytes that contain no pixels: JPEG's end marker, BMP's padding. */
                const size_t end = strncmp(file->name, "jpeg", 4) == 0 ? 2 : strncmp(file->name, "bmp", 3) == 0 ? 4 : 0;
                if (size + end < file->size)
                    fail_msg("%s cut to %zu bytes was taken", file->name, size);
                assert_int_equal(crc32_of(image.pixels, byte_count(&image)), file->crc);
                image_free(&image);
            } else if (error.text[0] == 0) {
                fail_msg("%s cut to %zu bytes: no reason given", file->name, size);
            }
        }
    }
}

static void test_mutated_files(void **state)
{
    (void)state;
    int n_refused = 0;
    for (size_t i = 0; i < N_FILES; i++) {
        const struct image_file *file = &image_files[i];
        uint8_t *copy = malloc(file->size);
        assert_non_null(copy);
        for (size_t at = 0; at < file->size; at++)
            for (int bit = 0; bit < 8; bit += 3) {
                struct image image;
                struct image_error error = {""};
                memcpy(copy, file->data, file->size);
                copy[at] ^= (uint8_t)(1 << bit);
                if (decode_copy(copy, file->size, &image, &error)) {
                    assert_true(image.width > 0 && image.height > 0);
                    image_free(&image);
                } else {
                    assert_true(error.text[0] != 0);
                    n_refused++;
                }
            }
        free(copy);
    }
    assert_true(n_refused > 1000);
}

static void write_bytes(const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* An APP1 segment with one tag; the value has 2 or 4 bytes. */
static size_t make_exif(uint8_t *out, bool big, uint8_t tag, uint8_t type, uint32_t value)
{
    static const uint8_t little_tiff[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t big_tiff[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    static const int orders[3][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}}; /* a big-endian 2-byte value is in the first two bytes */
    const int *shifts = orders[!big ? 0 : type == 4 ? 1 : 2];
    uint8_t *tiff = out + 10;
    memcpy(out,
           "\xff\xe1\0\x22"
           "Exif\0",
           10);
    memcpy(tiff, big ? big_tiff : little_tiff, sizeof big_tiff);
    tiff[big ? 11 : 10] = tag;
    tiff[big ? 13 : 12] = type;
    for (int i = 0; i < 4; i++)
        tiff[18 + i] = (uint8_t)(value >> 8 * shifts[i]);
    return 10 + sizeof big_tiff;
}

/* Decodes the file with bytes inserted at an offset. */
static bool decode_with(const uint8_t *file, size_t size, size_t at, const uint8_t *more, size_t n_more, struct image *out)
{
    uint8_t *whole = malloc(size + n_more);
    struct image_error error;
    assert_non_null(whole);
    memcpy(whole, file, at);
    memcpy(whole + at, more, n_more);
    memcpy(whole + at + n_more, file + at, size - at);
    const bool ok = image_decode(whole, size + n_more, out, &error);
    free(whole);
    return ok;
}

/* The checksums are those of ImageOps.exif_transpose(...).convert("RGB") in Pillow 13. */
static void test_orientation(void **state)
{
    (void)state;
    static const uint32_t crcs[] = {0xc743d4d8, 0xc743d4d8, 0x36eabebf, 0xdb3ced5d, 0x8b901693,
                                    0x0fdedcf7, 0x30219937, 0x42206b74, 0x776143b8, 0xc743d4d8};
    for (uint32_t n = 0; n < 10; n++)
        for (int kind = 0; kind < 4; kind++) {
            uint8_t exif[64];
            struct image image;
            const size_t size = make_exif(exif, kind & 1, 0x12, kind & 2 ? 4 : 3, n);
            assert_true(decode_with(jpeg_420, sizeof jpeg_420, 2, exif, size, &image));
            assert_int_equal(image.width, n >= 5 && n <= 8 ? 13 : 17);
            assert_int_equal(image.height, n >= 5 && n <= 8 ? 17 : 13);
            if (crc32_of(image.pixels, byte_count(&image)) != crcs[n])
                fail_msg("orientation %u, kind %d: other pixels", n, kind);
            image_free(&image);
        }
    int32_t width, height;
    struct image_error error;
    write_bytes(jpeg_exif, sizeof jpeg_exif);
    assert_true(image_load_size(path, &width, &height, &error));
    assert_int_equal(width, 7);
    assert_int_equal(height, 10);
    assert_int_equal(unlink(path), 0);
    width = height = 0;
    assert_true(image_decode_size(jpeg_exif, sizeof jpeg_exif, &width, &height, &error));
    assert_int_equal(width, 7);
    assert_int_equal(height, 10);
    assert_false(image_decode_size(jpeg_exif, 20, &width, &height, &error));
    assert_non_null(strstr(error.text, "JPEG"));
}

/* A truncated or changed EXIF segment may change the orientation, but the image must still be read. */
static void test_broken_exif(void **state)
{
    (void)state;
    uint8_t exif[64];
    struct image image;
    for (int big = 0; big < 2; big++) {
        const size_t size = make_exif(exif, big, 0x12, 3, 6);
        for (size_t cut = 4; cut < size; cut++) {
            exif[3] = (uint8_t)(cut - 2);
            assert_true(decode_with(jpeg_420, sizeof jpeg_420, 2, exif, cut, &image));
            assert_int_equal(image.width, cut < 32 ? 17 : 13);
            image_free(&image);
        }
        for (size_t at = 4; at < size; at++)
            for (int bit = 0; bit < 8; bit++) {
                (void)make_exif(exif, big, 0x12, 3, 6);
                exif[at] ^= (uint8_t)(1 << bit);
                assert_true(decode_with(jpeg_420, sizeof jpeg_420, 2, exif, size, &image));
                image_free(&image);
            }
        (void)make_exif(exif, big, 0x13, 3, 6); /* another tag */
        assert_true(decode_with(jpeg_420, sizeof jpeg_420, 2, exif, size, &image));
        assert_int_equal(image.width, 17);
        image_free(&image);
    }
}

/* JPEG files in YCCK, and in CMYK without Adobe's marker; both are inverted, as Pillow reads them. */
static void test_cmyk_kinds(void **state)
{
    (void)state;
    uint8_t file[sizeof jpeg_cmyk];
    struct image image;
    struct image_error error;
    memcpy(file, jpeg_cmyk, sizeof file);
    assert_memory_equal(file + 2,
                        "\xff\xee\0\x0e"
                        "Adobe",
                        9);
    file[17] = 2; /* YCCK */
    assert_true(image_decode(file, sizeof file, &image, &error));
    assert_int_equal(crc32_of(image.pixels, byte_count(&image)), 0x580406e4);
    image_free(&image);
    memmove(file + 2, file + 18, sizeof file - 18);
    assert_true(image_decode(file, sizeof file - 16, &image, &error));
    assert_int_equal(crc32_of(image.pixels, byte_count(&image)), 0xa5327d86);
    image_free(&image);
}

static void expect_refusal(const char *name, const char *word)
{
    struct image image;
    struct image_error error = {""};
    assert_false(image_load(name, &image, &error));
    if (strstr(error.text, word) == NULL)
        fail_msg("expected \"%s\" in: %s", word, error.text);
}

static void test_refusals(void **state)
{
    (void)state;
    static const uint8_t huge[] = {0x89, 'P',  'N',  'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I',  'H', 'D', 'R', 0,
                                   1,    0x86, 0xa0, 0,   1,    0x86, 0xa0, 8,    2, 0, 0, 0,  0x37, 0,   0,   0};
    static const struct {
        const char *bytes;
        size_t size;
        const char *sentence;
    } kinds[] = {{"no image at all", 17, "not a PNG, JPEG, WebP or BMP image"},
                 {"BMW is a maker of cars", 22, "not a PNG, JPEG, WebP or BMP image"},
                 {"GIF89a and so on", 16, "GIF is not supported; PNG, JPEG, WebP and BMP are"},
                 {"\0\0\0\x20"
                  "ftypavif",
                  12, "AVIF is not supported"},
                 {"\0\0\0\x18"
                  "ftypheic",
                  12, "HEIF is not supported"},
                 {"\0\0\0\x18"
                  "ftypisom",
                  12, "not a PNG"}, /* a video */
                 {"II*\0\x08\0\0\0", 8, "TIFF is not supported"},
                 {"RIFF\x0c\0\0\0WEBPVP8 ", 16, "WebP"}};
    static const struct {
        size_t at, size;
        const char *bytes, *sentence;
    } changes[] = {{28, 1, "\2", "BMP with 2 bits per pixel; supported: 1, 4, 8, 16, 24 and 32"},
                   {30, 1, "\4", "BMP with 16 bits per pixel and compression 4; supported: none"},
                   {30, 1, "\1", "and compression 1"},
                   {18, 4, "\xff\xff\xff\x7f", "pixels, expected 1 to 200000000 in total"},
                   {18, 4, "\xff\xff\xff\xff", "pixels, expected 1 to 200000000 in total"},
                   {22, 4, "\0\0\0\x80", "pixels, expected 1 to 200000000 in total"},
                   {22, 1, "\7", "broken BMP: the file ends too early"},
                   {10, 4, "\xff\xff\xff\xff", "broken BMP: the file ends too early"},
                   {30, 1, "\3", "BMP with the colour masks"}}; /* its colour masks are read as pixels */
    expect_refusal(path, "No such file");
    expect_refusal(folder, "folder");
    expect_refusal("/dev/null", "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(path, "not a regular file");
    assert_int_equal(unlink(path), 0);
    write_bytes("", 0);
    expect_refusal(path, "empty");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_bytes(kinds[i].bytes, kinds[i].size);
        expect_refusal(path, kinds[i].sentence);
    }
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t bmp[sizeof bmp_16];
        memcpy(bmp, bmp_16, sizeof bmp);
        memcpy(bmp + changes[i].at, changes[i].bytes, changes[i].size);
        write_bytes(bmp, sizeof bmp);
        expect_refusal(path, changes[i].sentence);
    }
    write_bytes(image_files[0].data, image_files[0].size - 20);
    expect_refusal(path, "broken PNG");
    write_bytes(huge, sizeof huge);
    expect_refusal(path, "PNG");
}

static void test_write_and_load(void **state)
{
    (void)state;
    struct image image = make_image(NOISE, 23, 9), loaded;
    struct image_error error;
    int32_t width, height;
    assert_true(image_write_png(path, &image, &error));
    assert_true(image_load(path, &loaded, &error));
    assert_int_equal(loaded.width, 23);
    assert_int_equal(loaded.height, 9);
    assert_memory_equal(loaded.pixels, image.pixels, byte_count(&image));
    assert_true(image_load_size(path, &width, &height, &error));
    assert_int_equal(width, 23);
    assert_int_equal(height, 9);
    assert_false(image_write_png(folder, &image, &error));
    assert_string_equal(error.text, "is a folder, not a file");
    image_free(&image);
    image_free(&loaded);
}

static void test_size_limit(void **state)
{
    (void)state;
    struct image image;
    struct image_error error;
    assert_false(image_create(100000, 100000, &image, &error));
    assert_non_null(strstr(error.text, "pixels"));
    assert_false(image_create(0, 5, &image, &error));
}

struct bytes {
    uint8_t *data;
    size_t size;
};

/* Creates a grey progressive JPEG of one colour, with the last scan repeated `repeats` times. */
static struct bytes make_scans(JDIMENSION width, JDIMENSION height, size_t repeats)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    uint8_t *file = NULL;
    unsigned long size = 0;
    JSAMPROW line = calloc(width, 1);
    assert_non_null(line);
    jpeg.err = jpeg_std_error(&manager);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &file, &size);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 1;
    jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < height)
        jpeg_write_scanlines(&jpeg, &line, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(line);
    size_t scan = size - 2; /* the end marker; the last scan is before it */
    while (file[scan] != 0xff || file[scan + 1] != 0xda)
        scan--;
    const size_t scan_size = size - 2 - scan;
    struct bytes out = {malloc(scan + repeats * scan_size + 2), scan};
    assert_non_null(out.data);
    memcpy(out.data, file, scan);
    for (size_t i = 0; i < repeats; i++, out.size += scan_size)
        memcpy(out.data + out.size, file + scan, scan_size);
    memcpy(out.data + out.size, file + size - 2, 2);
    out.size += 2;
    free(file);
    return out;
}

static void expect_scans(JDIMENSION width, JDIMENSION height, size_t repeats, const char *refusal)
{
    const struct bytes file = make_scans(width, height, repeats);
    struct image image;
    struct image_error error = {""};
    const clock_t start = clock();
    const bool ok = image_decode(file.data, file.size, &image, &error);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (ok)
        image_free(&image);
    if (ok != (refusal == NULL) || (refusal != NULL && strstr(error.text, refusal) == NULL))
        fail_msg("%zu scans of %u x %u: %s after %.2f s", repeats, width, height, ok ? "taken" : error.text, seconds);
    if (seconds > 5)
        fail_msg("%zu scans of %u x %u take %.1f s", repeats, width, height, seconds);
    free(file.data);
}

/* A few bytes of a file can cost as much time as the whole image. */
static void test_jpeg_of_many_scans(void **state)
{
    (void)state;
    expect_scans(64, 64, 1, NULL);
    expect_scans(64, 64, 400, NULL);
    expect_scans(64, 64, 600, "JPEG with more than 500 scans");
    expect_scans(1000, 1000, 100, NULL);
    expect_scans(5000, 4000, 20000, "JPEG with 201 or more scans of 20000000 pixels");
}

static struct bytes make_jpeg(const struct image *image, int quality)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    uint8_t *file = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&manager);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &file, &size);
    jpeg.image_width = (JDIMENSION)image->width;
    jpeg.image_height = (JDIMENSION)image->height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW line = image->pixels + 3 * (size_t)jpeg.next_scanline * (size_t)image->width;
        jpeg_write_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return (struct bytes){file, size};
}

/* The smallest sufficient size is decoded; the model's input differs little and covers the same region. */
static void test_reduced_jpeg(void **state)
{
    (void)state;
    static const struct {
        int32_t min_width, min_height, width, height;
    } cases[] = {{1600, 10, 1600, 1072}, {800, 1, 800, 536}, {801, 536, 1600, 1072}, {400, 269, 800, 536},    {400, 268, 400, 268},
                 {200, 134, 200, 134},   {1, 1, 200, 134},   {0, 0, 1600, 1072},     {2000, 2000, 1600, 1072}};
    const rvit_image_recipe recipe = deit_recipe(112);
    struct image rough = make_image(NOISE, 120, 80), photo = resized(&rough, 1600, 1072), odd = resized(&rough, 1604, 1073), image;
    struct image_error error;
    const struct bytes file = make_jpeg(&photo, 90), odd_file = make_jpeg(&odd, 90);
    static float values[2][3 * 112 * 112];
    write_bytes(file.data, file.size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(image_load_reduced(path, cases[i].min_width, cases[i].min_height, &image, &error));
        if (image.width != cases[i].width || image.height != cases[i].height)
            fail_msg("at least %d x %d: %d x %d", cases[i].min_width, cases[i].min_height, image.width, image.height);
        image_free(&image);
    }
    rvit_image original = RVIT_IMAGE_INIT;
    original.width = 1600;
    original.height = 1072;
    rvit_image_geometry geometry = RVIT_IMAGE_GEOMETRY_INIT;
    assert_true(preprocess_image(&recipe, &original, NULL, &geometry, &error));
    for (int32_t i = 0; i < 2; i++) {
        assert_true(image_load_reduced(path, 3 * i * (int32_t)geometry.width, 3 * i * (int32_t)geometry.height, &image, &error));
        assert_int_equal(image.width, i ? 800 : 1600);
        rvit_image source = preprocess_source(image_whole(&image));
        source.original_width = original.width;
        source.original_height = original.height;
        assert_true(preprocess_image(&recipe, &source, values[i], NULL, &error));
        image_free(&image);
    }
    double sum = 0, largest = 0; /* in 8-bit steps */
    const size_t n = sizeof values[0] / sizeof values[0][0];
    for (size_t i = 0; i < n; i++) {
        const double difference = fabs((double)(values[0][i] - values[1][i])) * 255 * (double)recipe.std[i / (n / 3)];
        sum += difference;
        largest = difference > largest ? difference : largest;
    }
    if (sum / (double)n > 1 || largest > 12.5 || largest == 0)
        fail_msg("the input differs by %.2f in the mean, by %.1f at most", sum / (double)n, largest);
    print_message("the input differs by %.2f in the mean, by %.1f at most\n", sum / (double)n, largest);
    write_bytes(odd_file.data, odd_file.size); /* 1073 lines are not a multiple of 2 */
    assert_true(image_load_reduced(path, 10, 10, &image, &error));
    assert_int_equal(image.width, 1604);
    image_free(&image);
    assert_int_equal(unlink(path), 0);
    image_free(&odd);
    free(odd_file.data);
    image_free(&rough);
    image_free(&photo);
    free(file.data);
}

struct written {
    struct bytes bytes;
    size_t capacity;
};

static void png_append(png_structp png, png_bytep data, size_t size)
{
    struct written *out = png_get_io_ptr(png);
    assert_true(out->bytes.size + size <= out->capacity);
    memcpy(out->bytes.data + out->bytes.size, data, size);
    out->bytes.size += size;
}

static void png_append_nothing(png_structp png)
{
    (void)png;
}

/* A tiny PNG with a compressed comment of that length. */
static struct bytes make_comment(size_t length)
{
    struct written out = {{malloc(1 << 20), 0}, 1 << 20};
    uint8_t pixel = 77;
    char key[] = "Comment", *text = calloc(length + 1, 1);
    assert_non_null(out.bytes.data);
    assert_non_null(text);
    memset(text, 'a', length);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_text comment = {.compression = PNG_TEXT_COMPRESSION_zTXt, .key = key, .text = text, .text_length = length};
    png_set_write_fn(png, &out, png_append, png_append_nothing);
    png_set_IHDR(png, info, 1, 1, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_set_text(png, info, &comment, 1);
    png_write_info(png, info);
    png_write_row(png, &pixel);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    free(text);
    return out.bytes;
}

static long peak_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* Compressed comments are never decompressed, so they cost neither time nor memory. */
static void test_png_of_large_comments(void **state)
{
    (void)state;
    enum { REPEATS = 60, HEAD = 8 + 25 };
    const struct bytes one = make_comment(7000000);
    size_t end = HEAD; /* end of the comment */
    while (memcmp(one.data + end + 4, "IDAT", 4) != 0)
        end++;
    struct bytes all = {malloc(one.size + REPEATS * (end - HEAD)), HEAD};
    assert_non_null(all.data);
    memcpy(all.data, one.data, HEAD);
    for (int i = 0; i < REPEATS; i++, all.size += end - HEAD)
        memcpy(all.data + all.size, one.data + HEAD, end - HEAD);
    memcpy(all.data + all.size, one.data + end, one.size - end);
    all.size += one.size - end;
    struct image image;
    struct image_error error = {""};
    const long before = peak_kib();
    assert_true(image_decode(all.data, all.size, &image, &error));
    assert_int_equal(image.pixels[2], 77);
    if (peak_kib() - before > 100000)
        fail_msg("%zu bytes took %ld MB", all.size, (peak_kib() - before) / 1000);
    image_free(&image);
    free(all.data);
    free(one.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize_equals_pillow),  cmocka_unit_test(test_same_size_is_a_copy), cmocka_unit_test(test_every_kind_of_file),
        cmocka_unit_test(test_truncated_files),       cmocka_unit_test(test_mutated_files),       cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_broken_exif),           cmocka_unit_test(test_cmyk_kinds),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_write_and_load),        cmocka_unit_test(test_size_limit),          cmocka_unit_test(test_jpeg_of_many_scans),
        cmocka_unit_test(test_png_of_large_comments), cmocka_unit_test(test_reduced_jpeg),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
