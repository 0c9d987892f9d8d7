/* From a picture to what the model sees: timm's recipe. */
#ifndef RVIT_CLI_PREPROCESS_H
#define RVIT_CLI_PREPROCESS_H

#include "image.h"

/* What differs from checkpoint to checkpoint. */
struct preprocess {
    double crop; /* the share of the shorter edge that is left, 0..1: timm's crop_pct; 0: 0.9 below 384 pixels, 1 from there on */
    float mean[3], deviation[3];
};
/* DeiT's: ImageNet's mean and standard deviation. */
extern const struct preprocess preprocess_imagenet;

/* The shorter edge goes to `edge`, the longer in proportion with truncation; then a centre crop, its offset rounded half to even. */
struct preprocess_geometry {
    int64_t width, height; /* after the resize */
    int64_t left, top;     /* of the crop */
};
struct preprocess_geometry preprocess_plan(int32_t width, int32_t height, int32_t edge, int32_t crop);

/* What the shorter edge goes to: floor(size / crop). */
int32_t preprocess_edge(int32_t size, double crop);

/* The model's view of a picture, size x size: resized and cropped, or (a tile) resized as it is. out is created. */
bool preprocess_picture(struct image_view source, int32_t size, double crop, struct image *out, struct image_error *error);
bool preprocess_tile(struct image_view source, int32_t size, struct image *out, struct image_error *error);

/* (x / 255 - mean) / deviation, one plane a channel: out f32 [3, height, width]. */
void preprocess_normalize(const struct image *view, const struct preprocess *recipe, float *out);

#endif
