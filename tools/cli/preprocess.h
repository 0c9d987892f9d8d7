/* Turns a picture into the model's input: timm's recipe. */
#ifndef RVIT_CLI_PREPROCESS_H
#define RVIT_CLI_PREPROCESS_H

#include "image.h"

/* The parameters that depend on the checkpoint. */
struct preprocess {
    double crop; /* fraction of the shorter edge that is kept, 0..1: timm's crop_pct; 0: 0.9 below 384 pixels, else 1 */
    float mean[3], deviation[3];
};
/* DeiT's: ImageNet's mean and standard deviation. */
extern const struct preprocess preprocess_imagenet;

/* Resizes the shorter edge to `edge` and the longer in proportion, truncated; then crops the centre, its offset rounded half to even. */
struct preprocess_geometry {
    int64_t width, height; /* after the resize */
    int64_t left, top;     /* of the crop */
};
struct preprocess_geometry preprocess_plan(int32_t width, int32_t height, int32_t edge, int32_t crop);

/* Size of the shorter edge after resizing: floor(size / crop). */
int32_t preprocess_edge(int32_t size, double crop);

/* The model's view of a picture, size x size: resized and cropped, or (for a tile) only resized. Creates out. */
bool preprocess_picture(struct image_view source, int32_t size, double crop, struct image *out, struct image_error *error);
bool preprocess_tile(struct image_view source, int32_t size, struct image *out, struct image_error *error);

/* (x / 255 - mean) / deviation, one plane per channel: out f32 [3, height, width]. */
void preprocess_normalize(const struct image *view, const struct preprocess *recipe, float *out);

#endif
