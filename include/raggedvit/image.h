/* Pictures of any size: bytes on the host or on the device, and the op that makes the input rows of a
   patch embedding of them; also patchify, which makes them of normalised images of one size.

   rvit_images_write describes a batch of pictures in a region of memory that the caller provides: where
   each lies, how it is resized and cut, the weights of the resize, and the pictures themselves if they
   are on the host. rvit_preprocess resizes, crops, normalises and cuts all of them in one op, whatever
   their sizes. What travels is in the region, so that a recorded op takes other pictures with each
   launch. */
#ifndef RAGGEDVIT_IMAGE_H
#define RAGGEDVIT_IMAGE_H

#include <raggedvit/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How pictures are fitted to the input of a model. */
typedef enum rvit_fit {
    RVIT_FIT_UNKNOWN = 0,
    RVIT_FIT_CROP = 1,   /* the shorter edge is resized, the centre cut out */
    RVIT_FIT_SQUASH = 2, /* both edges are resized, whatever the picture's shape; the centre cut out if they are larger */
    RVIT_FIT_BORDER = 3, /* the longer edge is resized, the picture set in the middle of the colour `fill` */
    RVIT_FIT_OTHER = 4   /* in a way that is not known here; the fact "fit" says what the files tell */
} rvit_fit;

/* Filters that pictures are resized with, as Pillow defines them. */
typedef enum rvit_filter {
    RVIT_FILTER_UNKNOWN = 0,
    RVIT_FILTER_BILINEAR = 1,
    RVIT_FILTER_BICUBIC = 2,
    RVIT_FILTER_OTHER = 3, /* of a checkpoint: one that is not known here */
    RVIT_FILTER_LANCZOS = 4,
    RVIT_FILTER_BOX = 5,
    RVIT_FILTER_HAMMING = 6,
    RVIT_FILTER_NEAREST = 7
} rvit_filter;

/* The code that prepares a model's pictures. It settles what filter and fit leave open: rounding. */
typedef enum rvit_processor {
    RVIT_PROCESSOR_UNKNOWN = 0,
    RVIT_PROCESSOR_TIMM = 1,    /* timm's and open_clip's: Pillow's resize of 8-bit pictures */
    RVIT_PROCESSOR_HF = 2,      /* transformers' (5, on torchvision): PyTorch's resize of 8-bit tensors */
    RVIT_PROCESSOR_HF_FLOAT = 3 /* DINOv3's of transformers: scaled to 0..1 first, then resized in float32 */
} rvit_processor;

typedef enum rvit_image_format {
    RVIT_IMAGE_RGB8 = 0,
    RVIT_IMAGE_BGR8 = 1,
    RVIT_IMAGE_RGBA8 = 2, /* alpha is dropped, as Pillow's convert("RGB") does */
    RVIT_IMAGE_GRAY8 = 3, /* the three channels are equal */
    /* A plane of luma, then one of interleaved chroma, Cb first, of half the width and height, both
       rounded up. Each pixel takes the nearest chroma, that of its block of 2 x 2, and becomes RGB8
       before anything else: FFmpeg and libyuv do the same without a filter. Values are those of the
       equations of the standard, rounded to the nearest. */
    RVIT_IMAGE_NV12 = 4,
    /* Three planes, already resized to the target's size and normalised: they are cut into patches and
       nothing else. Lines and planes begin at multiples of an element. */
    RVIT_IMAGE_PLANAR_F32 = 5,
    RVIT_IMAGE_PLANAR_F16 = 6
} rvit_image_format;

typedef enum rvit_image_matrix { RVIT_IMAGE_BT601 = 0, RVIT_IMAGE_BT709 = 1 } rvit_image_matrix;

#define RVIT_IMAGE_MAX_SIDE 65535

/* A picture in the caller's memory. */
typedef struct rvit_image {
    size_t struct_size;
    /* On the host, of any alignment; NULL: on the device, at view. What lies in the region of
       rvit_images_write already is not copied: see there. */
    const void *data;
    /* In the buffer of rvit_images_args.pixels, from its offset on. The view's offset is a multiple of
       4. */
    rvit_view view;
    int32_t width, height; /* pixels, 1..RVIT_IMAGE_MAX_SIDE */
    int64_t stride;        /* bytes between lines. 0: those of a line */
    rvit_image_format format;
    rvit_image_matrix matrix; /* of NV12 */
    int32_t full_range;       /* of NV12: 1: luma 0..255; 0: luma 16..235, chroma 16..240 */
    /* NV12: bytes from data to the chroma plane, of the same stride; 0: it follows the luma's last
       line. PLANAR: bytes between planes; 0: they follow each other. */
    int64_t plane_offset;
    /* Multiples of the patch size. 0: the recipe's size. Else the picture is squashed to this size,
       whatever the recipe's fit. */
    int32_t target_width, target_height;
} rvit_image;
#define RVIT_IMAGE_INIT RVIT_INIT(rvit_image)

/* What is done with pictures. With v an 8-bit value after the resize, in float32 and in this order:
     TIMM  (v / 255 - mean) / std
     HF    (v - mean * 255) / (std * 255); v * (1 / 255) where mean is 0 and std 1
   These 256 values of each channel are computed on the host, so that every device gives the same. */
typedef struct rvit_image_recipe {
    size_t struct_size;
    rvit_fit fit;                        /* UNKNOWN: CROP */
    rvit_filter filter;                  /* UNKNOWN: BICUBIC. HF: BILINEAR or BICUBIC */
    rvit_processor processor;            /* UNKNOWN: TIMM. HF_FLOAT is UNSUPPORTED */
    int32_t height, width;               /* the target: what a model takes. Lines and columns past the last whole patch are not read */
    int32_t resize_height, resize_width; /* before the crop: see rvit_model_info. 0: height and width */
    float mean[3], std[3];               /* std above 0 */
    int32_t fill[3];                     /* colour beyond a picture's edges, 0..255 */
    /* Of NaFlex: the most patches that the model's processor gives a picture; 0: not told. Not used
       here: whoever runs pictures at their own shape sets their targets (rvit_naflex_grid). */
    int32_t max_patches;
} rvit_image_recipe;
#define RVIT_IMAGE_RECIPE_INIT RVIT_INIT(rvit_image_recipe)

typedef struct rvit_images_args {
    size_t struct_size;
    const rvit_image_recipe *recipe;
    const rvit_image *images; /* [n_images]; the caller sets each struct_size, to the same value */
    int32_t n_images;
    int32_t max_images; /* rvit_preprocess_args.n_images */
    int64_t max_rows;   /* rvit_preprocess_args.rows */
    int32_t patch_size, n_prefix;
    rvit_view pixels; /* as in rvit_preprocess_args; for pictures on the device */
    int64_t pixels_size;
    int32_t one_target; /* 1: pictures with a target of their own are refused */
} rvit_images_args;
#define RVIT_IMAGES_ARGS_INIT RVIT_INIT(rvit_images_args)

/* Writes what rvit_preprocess reads to region, host memory of `size` bytes whose address is a multiple
   of 16, and *out_size, the bytes written, a multiple of 16. region NULL: nothing is written, *out_size
   tells what would be, and the pictures' data may be NULL. Every picture takes what it takes alone, or
   less: two of one size share their weights. Allocates nothing.

   Pictures in place: one whose data lies in the region, from rvit_images_table_size on and at a multiple
   of 4 from the region's begin, is not copied, and keeps its stride. The weights and the pictures that
   are copied are written behind the last picture in place, so that there must be room; what travels is
   all from the region's begin to there, in use or not. Nothing before the end of the last picture in
   place is changed but the table.

   INVALID_ARGUMENT: a size, a stride, a format or a target is wrong, a picture is in the region but not
   as above, the rows are more than max_rows, or the region is too small. UNSUPPORTED: the picture is too
   thin to be resized, or the processor does not do this. The detail names the picture ("image 3"). */
RVIT_API RVIT_NODISCARD rvit_status rvit_images_write(const rvit_images_args *args, void *region, int64_t size, int64_t *out_size);
/* The bytes at a region's begin that rvit_images_write keeps for itself, a multiple of 64: where
   pictures in place may begin. */
RVIT_API int64_t rvit_images_table_size(int32_t max_images);

/* Cuts images into the input rows of the patch embedding's GEMM. Let GH = image_height / patch_size
   and GW = image_width / patch_size, rounded down, and tokens = n_prefix + GH * GW. Row i * tokens +
   n_prefix + py * GW + px is patch (py, px) of image i; channel c, line y, column x of the patch is
   at c * patch_size^2 + y * patch_size + x. Prefix rows are zero. (DeiT: the convolution of stride
   16 as a GEMM.)

   With parts 2 a row of a 16-bit dtype says its values almost as f32 does. It is two halves of
   out_stride / 2 elements: the values rounded to dtype, and in the same order what the rounding took
   from them, rounded in turn. A GEMM whose weight stands twice in each row adds the two up: pixels are
   then off by at most 2^-22 of their size in f16 (2^-25 below 1/8), and by 2^-16 in bf16. */
typedef struct rvit_patchify_args {
    size_t struct_size;
    rvit_dtype dtype;      /* of out */
    int32_t n_images;      /* capacity in images */
    rvit_view live_images; /* optional: int32 [1], 4-byte aligned: number of images present, read
                              when the op runs and clamped to 0..n_images. Rows of the others are
                              not written */
    int32_t channels;
    int32_t image_size; /* pixels, of square images; multiple of patch_size. 0 if image_height and
                           image_width are given */
    int32_t patch_size; /* even */
    int32_t n_prefix;
    rvit_view images;     /* f32 [n_images, channels, image_height, image_width]; may be in an
                             UPLOAD buffer */
    rvit_view out;        /* [n_images * tokens, parts * channels * patch_size^2], rows out_stride
                             apart */
    rvit_view cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned: min(i, live images)
                           * tokens */
    int32_t image_height; /* pixels; multiple of patch_size. 0 with image_width 0: image_size */
    int32_t image_width;
    int32_t crop;       /* 1: sides need not be multiples of patch_size. The lines and columns past the
                           last whole patch are not read (SigLIP: patches of 14 in 384 pixels) */
    int32_t out_stride; /* elements between rows of out, a multiple of 2 * parts; what no value fills is
                           set to zero. 0: parts * channels * patch_size^2. GEMMs are fastest with a
                           multiple of 8 */
    int32_t parts;      /* 1 or 2, with dtype f32 1. 0: 1 */
} rvit_patchify_args;
#define RVIT_PATCHIFY_ARGS_INIT RVIT_INIT(rvit_patchify_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_patchify(rvit_stream *stream, const rvit_patchify_args *args);

/* The rows that the pictures of a region become: of image i first n_prefix rows of zeros, then its
   patches, laid out as rvit_patchify does it. The resize is exact in integers: two passes, each rounded
   to 8 bits, with the weights of the processor.

   What source holds beyond the pictures of its region is not read. A region that rvit_images_write did
   not write gives rows without meaning, but nothing outside of the arrays is touched. */
typedef struct rvit_preprocess_args {
    size_t struct_size;
    rvit_dtype dtype;    /* of out */
    int32_t n_images;    /* capacity in images */
    int64_t rows;        /* capacity in rows of out */
    int32_t patch_size;  /* even */
    int32_t out_stride;  /* elements between rows of out, a multiple of 2 * parts; what no value fills is set to zero. 0: parts * 3 *
                            patch_size^2 */
    rvit_view source;    /* what rvit_images_write has written; 16-byte aligned; may be in an UPLOAD buffer */
    int64_t source_size; /* capacity in bytes, a multiple of 16 */
    rvit_view pixels;    /* optional: what pictures on the device lie in; 16-byte aligned */
    int64_t pixels_size; /* bytes */
    /* Optional: source_size bytes of scratch in device memory, 16-byte aligned. What of the region is
       used is copied there first, so that memory of the host is read once and in order. Without it
       pixels are read from source several times. The CPU backend does not use it. */
    rvit_view staging;
    rvit_view out;        /* [rows, parts * 3 * patch_size^2], rows out_stride apart */
    rvit_view cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned */
    rvit_view grids;      /* optional out: int32 [n_images, 2], 4-byte aligned: rows and columns of patches; 0, 0 past the last picture */
    int32_t parts;        /* as in rvit_patchify_args: 1 or 2, with dtype f32 1. 0: 1 */
} rvit_preprocess_args;
#define RVIT_PREPROCESS_ARGS_INIT RVIT_INIT(rvit_preprocess_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_preprocess(rvit_stream *stream, const rvit_preprocess_args *args);

/* The grid that NaFlex brings a picture of this many pixels to, as transformers and timm do: the
   largest scale, found by halving 1e-6..100 until it is known to 1e-5, at which lines * columns is at
   most max_patches, each side rounded up to whole patches. out_grid, int32 [2]: lines, columns; the
   picture is then resized to patch_size times these, whatever its shape. INVALID_ARGUMENT: a side is
   not in 1..2^20, patch_size not in 1..256, or max_patches below 1. */
RVIT_API RVIT_NODISCARD rvit_status rvit_naflex_grid(int32_t height, int32_t width, int32_t patch_size, int32_t max_patches,
                                                     int32_t *out_grid);

/* The grid that Qwen2.5-VL and Qwen3-VL bring a picture of this many pixels to, as transformers' processor does:
   each side rounded to the nearest multiple of merge * patch_size, halves to even; where that is more than
   max_pixels, or less than min_pixels, the sides scaled by the square root of the ratio and rounded down, or up.
   out_grid as above. INVALID_ARGUMENT: a side is not in 1..2^20, or more than 200 times the other; patch_size is
   not in 1..256, merge not in 1..16; or not 1 <= min_pixels <= max_pixels <= 2^40. */
RVIT_API RVIT_NODISCARD rvit_status rvit_qwen_grid(int32_t height, int32_t width, int32_t patch_size, int32_t merge, int64_t min_pixels,
                                                   int64_t max_pixels, int32_t *out_grid);

#ifdef __cplusplus
}
#endif
#endif
