/* Turns an image into a model's input in the same way as the code that the model comes from. */
#ifndef RVIT_CLI_PREPROCESS_H
#define RVIT_CLI_PREPROCESS_H

#include "image.h"
#include "resize.h"

enum preprocess_fit {
    PREPROCESS_CROP,   /* resize to cover the resized size, then crop the centre */
    PREPROCESS_SQUASH, /* resize both edges to the resized size, then crop the centre */
    PREPROCESS_BORDER  /* resize to fit into the resized size, then fill the rest */
};
enum preprocess_like {
    PREPROCESS_TIMM, /* like timm and open_clip: Pillow resizes; odd crop margins are rounded half to even */
    PREPROCESS_HF, /* like transformers' processors with torchvision: PyTorch resizes 8-bit values; odd crop margins are smaller on the left
                      and top */
    PREPROCESS_HF_FLOAT /* the same in float32; supports only PREPROCESS_SQUASH without a crop */
};

struct preprocess {
    enum preprocess_fit fit;
    enum preprocess_like like;
    enum resize_filter filter;
    int32_t width, height;               /* of the model's input */
    int32_t resize_width, resize_height; /* equal values with PREPROCESS_CROP: length of the shorter edge */
    uint8_t fill[3];                     /* colour outside the image */
    float mean[3], deviation[3];
};

/* DeiT's recipe for an input of size x size. */
struct preprocess preprocess_deit(int32_t size);

/* The size after the resize, and the position of the input in it; negative if it starts outside the image. */
struct preprocess_geometry {
    int64_t width, height, left, top;
};
struct preprocess_geometry preprocess_plan(const struct preprocess *recipe, int32_t width, int32_t height);
/* The same; whole: for a tile, see below. */
struct preprocess_geometry preprocess_geometry_of(const struct preprocess *recipe, int32_t width, int32_t height, bool whole);

/* Prepares an image: out f32 [3, height, width]. whole: squashes it regardless of the recipe, for a tile of a sheet. view, if not NULL,
   receives the input as 8-bit pixels. */
bool preprocess_image(struct image_view source, const struct preprocess *recipe, bool whole, float *out, struct image *view,
                      struct image_error *error);

/* The same with the geometry of the image that source is a smaller copy of. */
bool preprocess_planned(struct image_view source, const struct preprocess *recipe, struct preprocess_geometry plan, float *out,
                        struct image *view, struct image_error *error);

/* (x / 255 - mean) / deviation of a view, one plane per channel. */
void preprocess_normalize(const struct image *view, const struct preprocess *recipe, float *out);

#endif
