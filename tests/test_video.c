/* Compares the conversion of raw video frames to RGB with the equations of BT.601 and BT.709 in float64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/cli/video.h"

static double clamped(double value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* The equations for 8-bit samples; limited range: luma from 16 (black) to 235 (white), chroma from 16 to 240. */
static void equations(const struct video *video, int y8, int cb8, int cr8, double out[3])
{
    const double kr = video->matrix == VIDEO_BT709 ? 0.2126 : 0.299, kb = video->matrix == VIDEO_BT709 ? 0.0722 : 0.114;
    const bool full = video->range == VIDEO_FULL;
    const double y = full ? y8 / 255.0 : (y8 - 16) / 219.0;
    const double cb = (cb8 - 128) / (full ? 255.0 : 224.0), cr = (cr8 - 128) / (full ? 255.0 : 224.0);
    const double red = y + 2 * (1 - kr) * cr, blue = y + 2 * (1 - kb) * cb;
    out[0] = clamped(255 * red);
    out[1] = clamped(255 * (y - kr * red - kb * blue) / (1 - kr - kb));
    out[2] = clamped(255 * blue);
}

static struct image new_image(const struct video *video)
{
    struct image out;
    struct image_error error;
    assert_true(image_create(video->width, video->height, &out, &error));
    memset(out.pixels, 0xa5, 3 * (size_t)video->width * (size_t)video->height);
    return out;
}

/* All luma values with every fifth value of each chroma component, which includes both ends and the middle. */
static void test_equations(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const struct video video = {.width = 512, .height = 2, .format = VIDEO_NV12, .matrix = kind & 1, .range = kind >> 1};
        struct image out = new_image(&video);
        uint8_t *frame = malloc(video_frame_size(&video));
        assert_non_null(frame);
        for (int cb = 0; cb < 256; cb += cb == 125 ? 3 : cb == 128 ? 2 : 5)
            for (int cr = 0; cr < 256; cr += cr == 125 ? 3 : cr == 128 ? 2 : 5) {
                for (int i = 0; i < 1024; i++)
                    frame[i] = (uint8_t)(i % 256);
                for (int i = 0; i < 256; i++) {
                    frame[1024 + 2 * i] = (uint8_t)cb;
                    frame[1025 + 2 * i] = (uint8_t)cr;
                }
                video_to_rgb(&video, frame, &out);
                for (int y = 0; y < 256; y++) {
                    double wanted[3];
                    equations(&video, y, cb, cr, wanted);
                    for (int c = 0; c < 3; c++)
                        if (fabs(out.pixels[3 * y + c] - wanted[c]) > 0.51)
                            fail_msg("kind %d, %d %d %d, colour %d: %d, expected %g", kind, y, cb, cr, c, out.pixels[3 * y + c], wanted[c]);
                }
            }
        free(frame);
        image_free(&out);
    }
}

/* Position of the samples: in frames with odd sizes the last chroma sample covers one column or line. */
static void test_layouts(void **state)
{
    (void)state;
    struct video video = {.width = 5, .height = 3, .range = VIDEO_FULL};
    uint8_t nv12[27], yuv420p[27];
    struct image a = new_image(&video), b = new_image(&video);
    for (int i = 0; i < 15; i++)
        nv12[i] = yuv420p[i] = (uint8_t)(10 * i);
    for (int i = 0; i < 6; i++) {
        nv12[15 + 2 * i] = yuv420p[15 + i] = (uint8_t)(100 + 7 * i);
        nv12[16 + 2 * i] = yuv420p[21 + i] = (uint8_t)(90 + 11 * i);
    }
    video.format = VIDEO_NV12;
    assert_int_equal(video_frame_size(&video), sizeof nv12);
    video_to_rgb(&video, nv12, &a);
    video.format = VIDEO_YUV420P;
    assert_int_equal(video_frame_size(&video), sizeof yuv420p);
    video_to_rgb(&video, yuv420p, &b);
    assert_memory_equal(a.pixels, b.pixels, 45);
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 5; x++) {
            const int sample = y / 2 * 3 + x / 2;
            double wanted[3];
            equations(&video, 10 * (5 * y + x), 100 + 7 * sample, 90 + 11 * sample, wanted);
            for (int c = 0; c < 3; c++)
                assert_true(fabs(a.pixels[3 * (5 * y + x) + c] - wanted[c]) < 0.51);
        }
    image_free(&a);
    image_free(&b);
}

/* The output of FFmpeg (libswscale 9, flags neighbor+accurate_rnd+full_chroma_int) for a frame of 8 x 4 pixels: BT.601 limited and full,
   BT.709 limited and full. */
static const uint8_t ffmpeg[4][96] = {
    {35,  11,  0,  33,  10,  0,   104, 200, 115, 131, 227, 142, 62, 10, 0,  80,  29,  0,   188, 117, 189, 205, 134, 205,
     206, 182, 74, 255, 238, 130, 0,   50,  0,   164, 255, 175, 79, 28, 0,  69,  17,  0,   250, 179, 251, 178, 107, 179,
     70,  157, 41, 0,   68,  0,   118, 120, 122, 25,  27,  29,  16, 56, 19, 173, 213, 177, 169, 121, 35,  191, 144, 57,
     37,  124, 8,  78,  165, 49,  199, 201, 202, 44,  46,  47,  2,  42, 5,  230, 255, 234, 135, 88,  1,   44,  0,   0},
    {46,  26,  0,  45,  25,  0,   105, 189, 114, 128, 212, 137, 70, 25, 0,  86,  41,  0,   178, 116, 179, 192, 130, 193,
     193, 173, 78, 241, 221, 126, 0,   60,  0,   156, 240, 165, 85, 40, 0,  76,  31,  0,   231, 169, 232, 169, 107, 170,
     75,  151, 50, 0,   75,  0,   118, 119, 121, 38,  39,  41,  29, 64, 32, 164, 199, 167, 162, 120, 44,  181, 139, 63,
     47,  123, 22, 82,  158, 57,  187, 188, 190, 54,  55,  57,  17, 52, 20, 213, 248, 216, 133, 91,  15,  55,  13,  0},
    {38,  7,   0,  37,  6,   0,   97,  186, 113, 124, 213, 140, 68, 9,  0,  86,  28,  0,   193, 128, 191, 210, 145, 207,
     209, 178, 69, 255, 234, 125, 0,   36,  0,   157, 245, 173, 85, 27, 0,  75,  16,  0,   255, 190, 253, 183, 118, 181,
     64,  142, 37, 0,   53,  0,   118, 120, 122, 25,  27,  29,  13, 50, 18, 170, 207, 176, 174, 121, 31,  196, 143, 53,
     31,  109, 5,  72,  150, 45,  198, 201, 202, 44,  46,  48,  0,  36, 4,  227, 255, 233, 140, 87,  0,   50,  0,   0},
    {49,  22,  0,  48,  21,  0,   98,  176, 112, 121, 199, 135, 75, 24, 0,  91,  40,  0,   183, 126, 181, 197, 140, 195,
     196, 169, 73, 244, 217, 121, 0,   47,  0,   149, 227, 163, 90, 39, 0,  81,  30,  0,   236, 179, 234, 174, 117, 172,
     70,  138, 46, 0,   62,  0,   117, 119, 121, 37,  39,  41,  26, 59, 31, 161, 194, 166, 167, 120, 40,  186, 139, 59,
     42,  110, 18, 77,  145, 53,  186, 188, 190, 53,  55,  57,  14, 47, 19, 210, 243, 215, 138, 91,  11,  60,  13,  0},
};

static void test_ffmpeg(void **state)
{
    (void)state;
    uint8_t frame[48];
    uint32_t random = 12345;
    for (int i = 0; i < 48; i++) {
        random = random * 1664525u + 1013904223u;
        frame[i] = (uint8_t)(i < 32 ? 16 + (random >> 24) % 220 : 72 + (random >> 24) % 113);
    }
    for (int kind = 0; kind < 4; kind++) {
        const struct video video = {.width = 8, .height = 4, .format = VIDEO_NV12, .matrix = kind >> 1, .range = kind & 1};
        struct image out = new_image(&video);
        assert_int_equal(video_frame_size(&video), sizeof frame);
        video_to_rgb(&video, frame, &out);
        for (int i = 0; i < 96; i++)
            if (abs(out.pixels[i] - ffmpeg[kind][i]) > 1)
                fail_msg("kind %d, value %d: %d, FFmpeg's %d", kind, i, out.pixels[i], ffmpeg[kind][i]);
        image_free(&out);
    }
}

static void test_packed(void **state)
{
    (void)state;
    struct video video = {.width = 3, .height = 2, .format = VIDEO_RGB24};
    struct image out = new_image(&video);
    uint8_t frame[18];
    for (int i = 0; i < 18; i++)
        frame[i] = (uint8_t)(11 * i);
    assert_int_equal(video_frame_size(&video), 18);
    video_to_rgb(&video, frame, &out);
    assert_memory_equal(out.pixels, frame, 18);
    video.format = VIDEO_BGR24;
    assert_int_equal(video_frame_size(&video), 18);
    video_to_rgb(&video, frame, &out);
    for (int i = 0; i < 18; i++)
        assert_int_equal(out.pixels[i], frame[i / 3 * 3 + 2 - i % 3]);
    video.format = VIDEO_GRAY;
    assert_int_equal(video_frame_size(&video), 6);
    video_to_rgb(&video, frame, &out);
    for (int i = 0; i < 18; i++)
        assert_int_equal(out.pixels[i], frame[i / 3]);
    image_free(&out);
}

static void test_sizes(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "x",   "640",  "640x", "x480", "640X480",       "640x480x3",
                                      "0x5", "5x0", "-5x5", " 5x5", "5x5 ", "99999999999x1", "100000x100000"};
    struct video video;
    struct image_error error;
    assert_true(video_parse_size("640x480", &video, &error));
    assert_int_equal(video.width, 640);
    assert_int_equal(video.height, 480);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (video_parse_size(bad[i], &video, &error))
            fail_msg("'%s' was taken", bad[i]);
    assert_non_null(strstr(error.text, "pixels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equations), cmocka_unit_test(test_layouts), cmocka_unit_test(test_ffmpeg),
        cmocka_unit_test(test_packed),    cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
