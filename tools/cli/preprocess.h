/* From a picture to what the model sees: timm's recipe for DeiT. */
#ifndef RVIT_CLI_PREPROCESS_H
#define RVIT_CLI_PREPROCESS_H

#include "image.h"

/* The shorter edge goes to `edge`, the longer in proportion with truncation; then a centre crop, its offset rounded half to even. */
struct preprocess_geometry {
    int64_t width, height; /* after the resize */
    int64_t left, top;     /* of the crop */
};
struct preprocess_geometry preprocess_plan(int32_t width, int32_t height, int32_t edge, int32_t crop);

/* floor(size / 0.9), timm's crop_pct for inputs below 384 pixels; the checkpoints of 384 and above are not cropped. */
int32_t preprocess_edge(int32_t size);

/* The model's view of a picture, size x size: resized and cropped, or (a tile) resized as it is. out is created. */
bool preprocess_picture(struct image_view source, int32_t size, struct image *out, struct image_error *error);
bool preprocess_tile(struct image_view source, int32_t size, struct image *out, struct image_error *error);

/* x / 255, ImageNet's mean and standard deviation, one plane a channel: out f32 [3, height, width]. */
void preprocess_normalize(const struct image *view, float *out);

#endif
