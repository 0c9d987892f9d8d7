/* Raw video frames, as ffmpeg -f rawvideo writes them. */
#ifndef RVIT_CLI_VIDEO_H
#define RVIT_CLI_VIDEO_H

#include "image.h"

enum video_format { VIDEO_NONE, VIDEO_NV12, VIDEO_YUV420P, VIDEO_RGB24, VIDEO_BGR24, VIDEO_GRAY };
enum video_matrix { VIDEO_BT601, VIDEO_BT709 };
enum video_range { VIDEO_LIMITED, VIDEO_FULL };

struct video {
    int32_t width, height;
    enum video_format format;
    enum video_matrix matrix; /* of nv12 and yuv420p alone, and so is the range */
    enum video_range range;
};

/* FFmpeg's name; NULL: no format. */
const char *video_format_name(int format);

/* "640x480". Checks the limits of image_create. */
bool video_parse_size(const char *text, struct video *out, struct image_error *error);

/* Bytes of a frame. Odd edges have half a chroma sample more. */
size_t video_frame_size(const struct video *self);

/* A chroma sample covers its two by two pixels, as in libyuv. Values are the equations' in fixed point, rounded to nearest: within 1 of
   FFmpeg's with -sws_flags neighbor+accurate_rnd+full_chroma_int. out: of the video's size. */
void video_to_rgb(const struct video *self, const uint8_t *frame, const struct image *out);

#endif
