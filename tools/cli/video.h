/* Raw video frames in the formats of ffmpeg -f rawvideo. */
#ifndef RVIT_CLI_VIDEO_H
#define RVIT_CLI_VIDEO_H

#include "image.h"

enum video_format { VIDEO_NONE, VIDEO_NV12, VIDEO_YUV420P, VIDEO_RGB24, VIDEO_BGR24, VIDEO_GRAY };
enum video_matrix { VIDEO_BT601, VIDEO_BT709 };
enum video_range { VIDEO_LIMITED, VIDEO_FULL };

struct video {
    int32_t width, height;
    enum video_format format;
    enum video_matrix matrix; /* matrix and range: only of nv12 and yuv420p */
    enum video_range range;
};

/* FFmpeg's name, or NULL. */
const char *video_format_name(int format);

/* Parses "640x480" and checks the limits of image_create. */
bool video_parse_size(const char *text, struct video *out, struct image_error *error);

/* Bytes of a frame. Odd edges are rounded up to a whole chroma sample. */
size_t video_frame_size(const struct video *self);

/* Converts a frame to RGB. A chroma sample covers two by two pixels, as in libyuv. Fixed-point arithmetic with rounding to nearest, within
   1 of FFmpeg with -sws_flags neighbor+accurate_rnd+full_chroma_int. out has the size of the video. */
void video_to_rgb(const struct video *self, const uint8_t *frame, const struct image *out);

#endif
