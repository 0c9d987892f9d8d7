/* Images of any size, and the ops that turn them into the input rows of a patch embedding.

   rvit_images_write describes a batch of images in a staging buffer that the caller provides: where each
   image lies, how it is resized and cropped, the resize weights and, if the images are on the host, the
   images themselves. rvit_preprocess then resizes, crops, normalises and cuts all of them in one op,
   whatever their sizes. Everything the op needs is in the staging buffer, so a recorded op can take other
   images with each launch. rvit_image_prepare does the same for one image on the host. rvit_patchify cuts
   normalised images that all have one size. */
#ifndef RAGGEDVIT_IMAGE_H
#define RAGGEDVIT_IMAGE_H

#include <raggedvit/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an image is fitted to the input size of a model. */
typedef enum rvit_fit {
    RVIT_FIT_UNKNOWN = 0,
    RVIT_FIT_CROP = 1,   /* resize the shorter edge, then crop the centre */
    RVIT_FIT_SQUASH = 2, /* resize both edges, ignoring the aspect ratio; crop the centre if they are larger */
    RVIT_FIT_BORDER = 3, /* resize the longer edge and centre the image on the colour `fill` */
    RVIT_FIT_OTHER = 4   /* not supported; the fact "fit" says what the files ask for */
} rvit_fit;

/* Resize filters, as defined by Pillow. */
typedef enum rvit_filter {
    RVIT_FILTER_UNKNOWN = 0,
    RVIT_FILTER_BILINEAR = 1,
    RVIT_FILTER_BICUBIC = 2,
    RVIT_FILTER_OTHER = 3, /* a filter of a checkpoint that is not supported */
    RVIT_FILTER_LANCZOS = 4,
    RVIT_FILTER_BOX = 5,
    RVIT_FILTER_HAMMING = 6,
    RVIT_FILTER_NEAREST = 7
} rvit_filter;

/* The code whose preprocessing is reproduced. It determines the rounding, which filter and fit leave
   open. */
typedef enum rvit_processor {
    RVIT_PROCESSOR_UNKNOWN = 0,
    RVIT_PROCESSOR_TIMM = 1,    /* timm and open_clip: Pillow's resize of 8-bit images */
    RVIT_PROCESSOR_HF = 2,      /* transformers 5 (torchvision): PyTorch's resize of 8-bit tensors */
    RVIT_PROCESSOR_HF_FLOAT = 3 /* DINOv3 in transformers: scale to 0..1, then resize in float32 */
} rvit_processor;

typedef enum rvit_image_format {
    RVIT_IMAGE_RGB8 = 0,
    RVIT_IMAGE_BGR8 = 1,
    RVIT_IMAGE_RGBA8 = 2, /* alpha is dropped, as Pillow's convert("RGB") does */
    RVIT_IMAGE_GRAY8 = 3, /* the three channels are equal */
    /* A luma plane, then an interleaved chroma plane, Cb first, of half the width and height, both rounded
       up. Each pixel takes the chroma of its 2 x 2 block and is converted to RGB8 before anything else, as
       FFmpeg and libyuv do without a filter. Values follow the equations of the standard, rounded to
       nearest. */
    RVIT_IMAGE_NV12 = 4,
    /* Three planes, already resized to the target size and normalised; they are only cut into patches.
       Rows and planes begin at multiples of an element. */
    RVIT_IMAGE_PLANAR_F32 = 5,
    RVIT_IMAGE_PLANAR_F16 = 6
} rvit_image_format;

typedef enum rvit_image_matrix { RVIT_IMAGE_BT601 = 0, RVIT_IMAGE_BT709 = 1 } rvit_image_matrix;

#define RVIT_IMAGE_MAX_SIDE 65535

/* An image in the caller's memory. */
typedef struct rvit_image {
    size_t struct_size;
    /* Host memory of any alignment; NULL: the image is on the device, at view. An image that already lies in
       the staging buffer of rvit_images_write is not copied. */
    const void *data;
    /* In the buffer of rvit_images_args.pixels, at or after its offset. The offset of the view is a
       multiple of 4. */
    rvit_view view;
    int32_t width, height; /* pixels, 1..RVIT_IMAGE_MAX_SIDE */
    int64_t stride;        /* bytes between rows of pixels; 0: contiguous */
    rvit_image_format format;
    rvit_image_matrix matrix; /* NV12 */
    int32_t full_range;       /* NV12: 1: luma 0..255; 0: luma 16..235, chroma 16..240 */
    /* NV12: bytes from data to the chroma plane, which has the same stride; 0: it follows the last luma row.
       PLANAR: bytes between planes; 0: contiguous. */
    int64_t plane_offset;
    /* Multiples of the patch size; 0: the size of the recipe. Otherwise the image is resized to exactly this
       size, whatever the fit of the recipe. */
    int32_t target_width, target_height;
    /* If the image is a smaller copy, such as a JPEG decoded at 1/2, the size of the original: the resized size
       and the crop are those of the original. 0: width and height. Planar images do not use it. */
    int32_t original_width, original_height;
} rvit_image;
#define RVIT_IMAGE_INIT RVIT_INIT(rvit_image)

/* How images are prepared. With v an 8-bit value after the resize, in float32 and in this order:
     TIMM  (v / 255 - mean) / std
     HF    (v - mean * 255) / (std * 255); v * (1 / 255) where mean is 0 and std 1
   These 256 values of each channel are computed on the host, so that every device gives the same.
     HF_FLOAT  (u - mean) / std with u the value v / 255, resized in float32. Only rvit_image_prepare does it:
               rvit_images_write takes the result as PLANAR_F32 */
typedef struct rvit_image_recipe {
    size_t struct_size;
    rvit_fit fit;             /* UNKNOWN: CROP */
    rvit_filter filter;       /* UNKNOWN: BICUBIC. HF and HF_FLOAT: BILINEAR or BICUBIC */
    rvit_processor processor; /* UNKNOWN: TIMM. HF_FLOAT: only with SQUASH and without a crop */
    int32_t height, width;    /* the target: what a model takes. Lines and columns past the last whole patch are not read */
    /* The size before the crop; 0: height and width. CROP: the resized image covers it; if both are equal, it is the length
       of the shorter edge. BORDER: the resized image fits into it. */
    int32_t resize_height, resize_width;
    float mean[3], std[3]; /* std above 0 */
    int32_t fill[3];       /* colour beyond an image's edges, 0..255 */
    /* For images at their own aspect ratio: rvit_image_recipe_grid reads these, the resize does not. 0: unknown. */
    int32_t patch_size;             /* pixels */
    int32_t merge;                  /* patches a side of a merge group (Qwen); 0: nothing is merged */
    int32_t max_patches;            /* NaFlex: the most patches of an image */
    int64_t min_pixels, max_pixels; /* Qwen: limits of an image after the resize */
    /* The input size of Hugging Face's processor, for information; 0: unknown. The target is what counts. */
    int32_t processor_height, processor_width;
} rvit_image_recipe;
#define RVIT_IMAGE_RECIPE_INIT RVIT_INIT(rvit_image_recipe)

/* What a recipe makes of an image, in pixels: the size after the resize, and the target, which begins at (left,
   top) of the resized image. Negative left and top: the target begins outside, in the colour `fill`. */
typedef struct rvit_image_geometry {
    size_t struct_size;
    int64_t width, height, left, top;
    int32_t target_width, target_height;
} rvit_image_geometry;
#define RVIT_IMAGE_GEOMETRY_INIT RVIT_INIT(rvit_image_geometry)

/* Prepares one image on the host. out: f32 [3, target_height, target_width], the values that rvit_preprocess
   computes, for rvit_patchify, for RVIT_INPUT_TENSOR or as a PLANAR_F32 image. NULL: the pixels are not
   read, and data may be NULL. out_geometry: NULL or RVIT_IMAGE_GEOMETRY_INIT. allocator: for scratch memory during
   the call; NULL: malloc. Any number of threads may call it.

   The image may have sides of up to 2^24 pixels. The sides of a target need not be multiples of a patch size; they
   are at most 16384. INVALID_ARGUMENT: a size, a stride, the format or a field of the recipe is wrong, or the image
   is on a device. UNSUPPORTED: the image is too thin to be
   resized, or the processor does not support the recipe. OUT_OF_HOST_MEMORY: the function needs about the memory of
   the image and of the target. */
RVIT_API RVIT_NODISCARD rvit_status rvit_image_prepare(const rvit_image_recipe *recipe, const rvit_image *image,
                                                       const rvit_allocator *allocator, float *out, rvit_image_geometry *out_geometry);

typedef struct rvit_images_args {
    size_t struct_size;
    const rvit_image_recipe *recipe;
    const rvit_image *images; /* [n_images]; the caller sets each struct_size, to the same value */
    int32_t n_images;
    int32_t max_images; /* rvit_preprocess_args.n_images */
    int64_t max_rows;   /* rvit_preprocess_args.rows */
    int32_t patch_size, n_prefix;
    rvit_view pixels; /* as in rvit_preprocess_args; for images on the device */
    int64_t pixels_size;
    int32_t one_target; /* 1: images with a target of their own are INVALID_ARGUMENT */
} rvit_images_args;
#define RVIT_IMAGES_ARGS_INIT RVIT_INIT(rvit_images_args)

/* Writes the input of rvit_preprocess to staging, a staging buffer of `size` bytes in host memory whose
   address is a multiple of 16. *out_size is the number of bytes written, a multiple of 16. If staging is
   NULL, nothing is written, *out_size is the size needed, and the data of the images may be NULL. An image
   never needs more room in a batch than by itself; images of one size share their weights. Allocates
   nothing.

   Images in place: an image whose data lies in the staging buffer, at a multiple of 4 from its begin and
   not before rvit_images_table_size, is not copied and keeps its stride. The resize weights and the copied
   images are written after the last image in place, so leave room there. Everything up to the end of what
   is written is transferred, used or not. Of the bytes before the end of the last image in place, only the
   table is changed.

   INVALID_ARGUMENT: a size, stride, format or target is wrong; an image overlaps the staging buffer in
   another way; the images need more than max_rows rows; or the staging buffer is too small. UNSUPPORTED:
   the image is too thin to be resized, or the processor does not support the recipe. The detail text names
   the image ("image 3"). */
RVIT_API RVIT_NODISCARD rvit_status rvit_images_write(const rvit_images_args *args, void *staging, int64_t size, int64_t *out_size);
/* The bytes at the begin of the staging buffer that rvit_images_write reserves, a multiple of 64. Images in
   place may begin after them. */
RVIT_API int64_t rvit_images_table_size(int32_t max_images);

/* Cuts normalised images into the input rows of the patch embedding GEMM. With GH = image_height /
   patch_size and GW = image_width / patch_size, rounded down, and tokens = n_prefix + GH * GW, row
   i * tokens + n_prefix + py * GW + px is patch (py, px) of image i. Channel c, row y, column x of the
   patch is at c * patch_size^2 + y * patch_size + x. Prefix rows are zero. (DeiT: the convolution of stride
   16 as a GEMM.)

   With split = 2, a value of a 16-bit dtype is split into a high part, the value rounded to dtype, and a
   low part, the rounded remainder. A row holds all high parts and then all low parts, in halves of
   out_stride / 2 elements. A GEMM whose weight is repeated in each row adds the two. Pixels are then
   accurate to 2^-22 of their size in f16 (2^-25 below 1/8) and to 2^-16 in bf16. */
typedef struct rvit_patchify_args {
    size_t struct_size;
    rvit_dtype dtype;      /* of out */
    int32_t n_images;      /* capacity in images */
    rvit_view live_images; /* optional: int32 [1], 4-byte aligned: number of images present, read
                              when the op runs and clamped to 0..n_images. The rows of further
                              images are not written */
    int32_t channels;
    int32_t image_size; /* side of square images in pixels, a multiple of patch_size; 0: use
                           image_height and image_width */
    int32_t patch_size; /* even */
    int32_t n_prefix;
    rvit_view images;     /* f32 [n_images, channels, image_height, image_width]; may be in an
                             UPLOAD buffer */
    rvit_view out;        /* [n_images * tokens, split * channels * patch_size^2], rows out_stride
                             apart */
    rvit_view cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned: min(i, live images)
                           * tokens */
    int32_t image_height; /* pixels; multiple of patch_size. 0 with image_width 0: image_size */
    int32_t image_width;
    int32_t crop;       /* 1: sides need not be multiples of patch_size. Rows and columns past the last
                           whole patch are not read (SigLIP: patches of 14 in 384 pixels) */
    int32_t out_stride; /* elements between rows of out, a multiple of 2 * split; unused elements are set
                           to zero. 0: split * channels * patch_size^2. GEMMs are fastest with a multiple
                           of 8 */
    int32_t split;      /* 1 or 2; 1 with dtype f32; 0: 1 */
} rvit_patchify_args;
#define RVIT_PATCHIFY_ARGS_INIT RVIT_INIT(rvit_patchify_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_patchify(rvit_stream *stream, const rvit_patchify_args *args);

/* Makes the input rows of the images in a staging buffer: for image i, n_prefix rows of zeros, then its
   patches, laid out as by rvit_patchify. The resize is exact in integers: two passes, each rounded to 8
   bits, with the weights of the processor.

   Bytes of source past the images are not read. If the contents do not come from rvit_images_write, the
   output is meaningless, but no access leaves the arrays. */
typedef struct rvit_preprocess_args {
    size_t struct_size;
    rvit_dtype dtype;    /* of out */
    int32_t n_images;    /* capacity in images */
    int64_t rows;        /* capacity in rows of out */
    int32_t patch_size;  /* even */
    int32_t out_stride;  /* elements between rows of out, a multiple of 2 * split; unused elements are set to zero. 0: parts *
                            3 * patch_size^2 */
    rvit_view source;    /* the output of rvit_images_write; 16-byte aligned; may be in an UPLOAD buffer */
    int64_t source_size; /* capacity in bytes, a multiple of 16 */
    rvit_view pixels;    /* optional: the memory of images on the device; 16-byte aligned */
    int64_t pixels_size; /* bytes */
    /* Optional: source_size bytes of device scratch memory, 16-byte aligned. The used part of source is
       copied there first, so host memory is read once and in order. Without it, pixels are read from source
       several times. The CPU backend does not use it. */
    rvit_view staging;
    rvit_view out;        /* [rows, split * 3 * patch_size^2], rows out_stride apart */
    rvit_view cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned */
    rvit_view grids;      /* optional out: int32 [n_images, 2], 4-byte aligned: rows and columns of patches; 0, 0 past the last image */
    int32_t split;        /* as in rvit_patchify_args: 1 or 2; 1 with dtype f32; 0: 1 */
} rvit_preprocess_args;
#define RVIT_PREPROCESS_ARGS_INIT RVIT_INIT(rvit_preprocess_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_preprocess(rvit_stream *stream, const rvit_preprocess_args *args);

/* The patch grid to which a model for images of any aspect ratio resizes an image of height x width pixels: out_grid, int32
   [2]: rows, columns. The image is resized to patch_size times these, and its aspect ratio changes with it.
     merge > 0    Qwen2.5-VL, Qwen3-VL: each side is rounded to the nearest multiple of merge * patch_size, halves to even. If
                  that exceeds max_pixels, or is below min_pixels, the sides are scaled by the square root of the ratio and
                  rounded down, or up.
     otherwise    NaFlex: the largest scale at which rows * columns is at most max_patches, each side rounded up to whole
                  patches. The scale is found by bisection of 1e-6..100 to 1e-5, as transformers and timm do.
   UNSUPPORTED: merge and max_patches are 0. INVALID_ARGUMENT: a side is not in 1..2^20; patch_size is not in 1..256; with
   merge, a side is more than 200 times the other, merge is above 16, or not 1 <= min_pixels <= max_pixels <= 2^40. */
RVIT_API RVIT_NODISCARD rvit_status rvit_image_recipe_grid(const rvit_image_recipe *recipe, int32_t height, int32_t width,
                                                           int32_t *out_grid);

#ifdef __cplusplus
}
#endif
#endif
