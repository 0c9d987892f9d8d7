/* Turns an image into a model's input, as the code does it that the model comes from. */
#ifndef RVIT_CLI_PREPROCESS_H
#define RVIT_CLI_PREPROCESS_H

#include "image.h"
#include "resize.h"

enum preprocess_fit {
    PREPROCESS_CROP,   /* the edges are made to cover the resized size, the centre is cut out */
    PREPROCESS_SQUASH, /* both edges get the resized size, the centre is cut out */
    PREPROCESS_BORDER  /* the edges are made to fit into the resized size, the rest is filled */
};
enum preprocess_like {
    PREPROCESS_TIMM,    /* as timm and open_clip do it on images: Pillow resizes; odd margins of a crop are rounded half to even */
    PREPROCESS_HF,      /* as transformers' processors do it on torchvision: PyTorch resizes 8-bit values; the smaller half of an odd
                           margin lies left and above */
    PREPROCESS_HF_FLOAT /* the same, in float32 throughout; takes PREPROCESS_SQUASH without a crop alone */
};

struct preprocess {
    enum preprocess_fit fit;
    enum preprocess_like like;
    enum resize_filter filter;
    int32_t width, height;               /* of the model's input */
    int32_t resize_width, resize_height; /* for PREPROCESS_CROP, equal ones: the length of the shorter edge */
    uint8_t fill[3];                     /* what lies beyond the image */
    float mean[3], deviation[3];
};

/* DeiT's, for an input of size x size. */
struct preprocess preprocess_deit(int32_t size);

/* The size after the resize, and where the input lies in it; negative: it begins beyond the image's edge. */
struct preprocess_geometry {
    int64_t width, height, left, top;
};
struct preprocess_geometry preprocess_plan(const struct preprocess *recipe, int32_t width, int32_t height);
/* The same; whole: of a tile, as below. */
struct preprocess_geometry preprocess_geometry_of(const struct preprocess *recipe, int32_t width, int32_t height, bool whole);

/* out f32 [3, height, width] of an image, or (whole) of one that is squashed to the input whatever the recipe says, a tile of a sheet.
   view, if given, receives the input as 8-bit pixels. */
bool preprocess_image(struct image_view source, const struct preprocess *recipe, bool whole, float *out, struct image *view,
                      struct image_error *error);

/* The same, with the geometry of another image: of the one that source is a smaller copy of. */
bool preprocess_planned(struct image_view source, const struct preprocess *recipe, struct preprocess_geometry plan, float *out,
                        struct image *view, struct image_error *error);

/* (x / 255 - mean) / deviation of a view, one plane for each channel. */
void preprocess_normalize(const struct image *view, const struct preprocess *recipe, float *out);

#endif
