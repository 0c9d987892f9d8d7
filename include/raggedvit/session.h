/* Sessions. A session runs batches of images through a model, with or without pruning, and holds the results of
   the last run. */
#ifndef RAGGEDVIT_SESSION_H
#define RAGGEDVIT_SESSION_H

#include <raggedvit/model.h>
#include <raggedvit/prune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A recorded forward and its memory: planned and allocated once, run many times. Only one thread at a time may
   use it. */
typedef struct rvit_session rvit_session;

/* Optional results of a run besides logits and kept tokens. OR them into rvit_session_desc.outputs. An output that
   is not requested costs neither launches nor memory. */
typedef enum rvit_output {
    RVIT_OUTPUT_FEATURES = 1,      /* all kept rows after the final norm, if the model has one */
    RVIT_OUTPUT_CLS_ATTENTION = 2, /* the CLS row of the last block's attention */
    RVIT_OUTPUT_POOLED = 4,        /* the input vector of the head for each image, after its norm */
    /* The embedding of each image in the space of text embeddings: the output of CLIP's projection, or of SigLIP's
       attention pooling. With timm names the architecture decides: a head is a projection if the name is that of a
       CLIP or PE-Core model and the head does not have the number of classes of an ImageNet variant (1000, 11821,
       21841 or 21843). */
    RVIT_OUTPUT_PROJECTED = 8,
    /* With PROJECTED: divided by its L2 norm, in float64 on the host, when it is first requested. A zero vector stays
       zero. */
    RVIT_OUTPUT_NORMALIZED = 16,
    /* The rows after block rvit_session_desc.features_block, before any norm (LLaVA reads those of block -2). */
    RVIT_OUTPUT_BLOCK_FEATURES = 32,
    /* The attention that each row receives in block rvit_session_desc.received_block: see rvit_attention_received. */
    RVIT_OUTPUT_RECEIVED_ATTENTION = 64,
    RVIT_OUTPUT_MERGED = 128,   /* the merged row of each merge group after the last block (Qwen's merger) */
    RVIT_OUTPUT_DEEPSTACK = 256 /* merged rows of earlier blocks, each by a merger of its own (Qwen3-VL's deepstack) */
} rvit_output;

/* The input of a session's runs. n_images images; C, H and W are the model's channels, image_height and
   image_width; p is its patch_size, v the values of a patch.

     kind      rvit_input.data                               the session needs
     TENSOR    const float [n_images, C, H, W], normalised   fixed resolution
     PATCHES   const float [patches, v], normalised, and     variable_resolution
               grids, int32 [n_images, 2]: rows and
               columns of patches of each image
     IMAGES    const rvit_image [n_images]: pixels of any    input_bytes; either resolution
               size and format, which the device resizes,
               normalises and cuts in the same dispatch

   Patches follow each other without padding, image after image, in raster order. The values of a patch are in the
   order (y, x, channel), v = p * p * C, as in the pixel_values of transformers' NaFlex processors. With
   rvit_model_info.merge, the merge groups of an image are in raster order and so are the patches of a group, and
   the values of a patch are in the order (channel, frame, y, x), v = C * patch_frames * p * p: the pixel_values of
   transformers' processor. */
typedef enum rvit_input_kind { RVIT_INPUT_TENSOR = 0, RVIT_INPUT_PATCHES = 1, RVIT_INPUT_IMAGES = 2 } rvit_input_kind;

/* Where the input lies.

     HOST     Host memory. rvit_session_enqueue copies the data, which may be reused on return. Data that the
              caller has written to rvit_session_input_memory is not copied.
     FIXED    Device memory, rvit_session_desc.input_view, the same for all runs. Read when a run executes.
     RUN      Device memory, rvit_input.view, of each run; rvit_run_args.logits is then required, too. Read when
              the run executes. On Vulkan, and with CUDA before 13 (driver before 12.3), a run is three
              dispatches: cutting the patches, the recorded program, the head.

   FIXED and RUN are for TENSOR and PATCHES. */
typedef enum rvit_input_memory { RVIT_INPUT_HOST = 0, RVIT_INPUT_FIXED = 1, RVIT_INPUT_RUN = 2 } rvit_input_memory;

typedef struct rvit_session_desc {
    size_t struct_size;
    int32_t max_images; /* maximum number of images of a run, 1 or more (default: 1) */
    /* Blocks of RVIT_OUTPUT_BLOCK_FEATURES and RVIT_OUTPUT_RECEIVED_ATTENTION: from 0, or from the end: -1
       (default) is the last block, -2 the one before. */
    int32_t features_block, received_block;
    int32_t outputs;              /* OR of rvit_output values */
    const rvit_prune_desc *prune; /* NULL: no pruning. Read during the call only */
    rvit_stream *stream;          /* of all runs; must outlive the session. NULL: a stream of the session's own */

    rvit_input_kind input;          /* of all runs */
    rvit_input_memory input_memory; /* IMAGES: HOST */
    /* FIXED: float [max_images, C, H, W], or [max_tokens, v] patches, in a buffer of the model's device. IMAGES,
       optional: memory of the device, up to the end of the buffer, in which images of runs may lie
       (rvit_image.view); offset a multiple of 16. The buffer must outlive the session. */
    rvit_view input_view;
    /* IMAGES: bytes of the staging buffer in which images and their resize weights travel. rvit_images_write with
       staging NULL, this max_images and the model's patch_size says what a run needs: max_rows is max_images *
       tokens and n_prefix the model's; with variable_resolution, max_tokens and 0. */
    int64_t input_bytes;
    /* IMAGES: height and width are the model's. NULL: rvit_model_get_recipe. Read during the call only */
    const rvit_image_recipe *recipe;

    /* 1: images have grids of their own, and those of a run make one batch without padding. A position table is
       resampled to each grid, as rvit_model_info.resample says; rotary positions follow the grid. An image gives
       the same bits in every batch. Policies count what they keep of each image's own patches. With IMAGES, the
       target of an image is its grid (rvit_image_recipe_grid). Not with fixed_batch or dense_fallback.
       UNSUPPORTED: the checkpoint was opened with an image size of its own; dynamicvit in several blocks; ats
       without n_samples; hiprune, unless alpha is 0.

       Models that merge patches (rvit_model_info.merge) need it. Both sides of a grid are then multiples of merge.
       l2, received, random and pixelprune drop whole merge groups, tome merges whole groups (in models with
       attention windows, those of one window); other policies are UNSUPPORTED, and so is received in a block with
       attention windows. Tokens and results are in the order of the processor, whatever the order that windows
       give the rows inside: merge groups in raster order, and the patches of a group in raster order. An image is
       a still image, or a pair of video frames. */
    int32_t variable_resolution;
    /* variable_resolution: the most tokens of an image (0: the model's tokens) and of a batch (0: max_images *
       max_len), prefix tokens included. */
    int32_t max_len, max_tokens;

    /* 1: every run has exactly max_images images. If the policy also keeps a fixed number of tokens, the host
       knows all row counts, and GEMMs use the device's dense kernels. The last bits of results may differ from
       those without fixed_batch. */
    int32_t fixed_batch;
    /* 1: time the pruned and the dense forward once during creation, and do not prune if the dense one is not
       slower: see rvit_session_info. Ignored with RVIT_PRUNE_MASK. */
    int32_t dense_fallback;

    /* Optional: where every run writes its logits, f32 [max_images, n_classes], and what RVIT_OUTPUT_MERGED and
       RVIT_OUTPUT_DEEPSTACK give, f32 [G, merged_dim] and [n_deepstack, G, merged_dim], where G is the number of
       merge groups in max_tokens. In buffers of the model's device, at multiples of 16. The host gets no copy
       (data of rvit_result_view is NULL), and rvit_session_wait does not see NaN in them. Rows after the batch's
       may be written, too. */
    rvit_view logits, merged, deepstack;

    int32_t trace; /* 0. Other values keep intermediate values for debugging and are not part of the stable API */
} rvit_session_desc;
#define RVIT_SESSION_DESC_INIT RVIT_INIT_WITH(rvit_session_desc, .max_images = 1, .features_block = -1, .received_block = -1)

/* The bytes that a session allocates. docs/memory.md lists its arrays. */
typedef struct rvit_memory_info {
    size_t struct_size;
    int64_t device_size;   /* device memory: activations, layouts, tables */
    int64_t upload_size;   /* mapped memory: input, masks, tables */
    int64_t readback_size; /* mapped memory: logits, outputs, results of the stages */
    int64_t trace_size;    /* mapped memory: traced values */
    int64_t host_size;     /* host memory from the device's allocator */
} rvit_memory_info;
#define RVIT_MEMORY_INFO_INIT RVIT_INIT(rvit_memory_info)

/* Returns what rvit_session_create would allocate for this desc (NULL: RVIT_SESSION_DESC_INIT); nothing stays
   allocated. Runs allocate nothing. The sizes leave out what a backend needs in addition (docs/memory.md has
   bounds) and memory that drivers keep for themselves. Fails as rvit_session_create does if the desc is invalid,
   but does not check whether the device supports the ops. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_memory(rvit_model *model, const rvit_session_desc *desc, rvit_memory_info *out_memory);

/* Creates a session, which keeps its model alive. desc NULL: RVIT_SESSION_DESC_INIT. INVALID_ARGUMENT: a field is out
   of range or contradicts another, the model lacks a prune block, or a parameter is set that the policy does not use.
   UNSUPPORTED: the model lacks what the policy or an output needs: DynamicViT's predictors (the detail names the
   missing tensor), a CLS token, a known pooling, an embedding_dim. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_create(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session);
/* Waits for a pending run first. */
RVIT_API void rvit_session_destroy(rvit_session *session);

typedef struct rvit_session_info {
    size_t struct_size;
    int32_t n_stages;           /* prune stages */
    int32_t fell_back;          /* 1: dense_fallback chose the dense forward; n_stages is 0 */
    double dense_us, pruned_us; /* dense_fallback: measured microseconds per forward of max_images images; else 0 */
} rvit_session_info;
#define RVIT_SESSION_INFO_INIT RVIT_INIT(rvit_session_info)
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_info(const rvit_session *session, rvit_session_info *out_info);

/* The images of one run: see rvit_input_kind. */
typedef struct rvit_input {
    rvit_input_kind kind; /* the session's */
    /* HOST. NULL: the input is in rvit_session_input_memory already; IMAGES need data. For IMAGES the caller sets
       each struct_size, to the same value; images without variable_resolution have no target of their own. */
    const void *data;
    /* PATCHES: host memory, 1 to 32767 each; required whatever the memory. INVALID_ARGUMENT names the image that
       is empty or beyond max_len or max_tokens, and nothing is enqueued. */
    const int32_t *grids;
    /* RUN: float in a buffer of the model's device. Absent only if n_images is 0. On Vulkan without fixed_batch
       the buffer must hold max_images, or max_tokens patches. The handle may be destroyed on return, the memory
       once the run has executed. */
    rvit_view view;
} rvit_input;

/* The arguments of one run. */
typedef struct rvit_run_args {
    size_t struct_size;
    int32_t n_images; /* 0..max_images; exactly max_images with fixed_batch */
    rvit_input input;
    /* RVIT_PRUNE_MASK: host memory, uint8 [n_stages, n_images, tokens] over the tokens of the unpruned image,
       nonzero = keep; with variable_resolution [n_stages, tokens of all images], image after image. Prefix tokens
       must be kept; without any, at least one token of each image. A token that an earlier stage dropped stays
       dropped. */
    const uint8_t *keep;
    /* RVIT_INPUT_RUN: f32 [n_images, n_classes] in a buffer of the model's device. Absent for a model without a
       head, or if n_images is 0. As rvit_input.view otherwise. */
    rvit_view logits;
} rvit_run_args;
#define RVIT_RUN_ARGS_INIT RVIT_INIT(rvit_run_args)

/* Enqueues a run: one dispatch (IMAGES on CUDA: a transfer before it), without allocation or waiting.

   While another run is pending the result is INVALID_ARGUMENT, unless runs take nothing from the host:
   RVIT_INPUT_RUN, or RVIT_INPUT_FIXED with fixed_batch; TENSOR; no RVIT_PRUNE_MASK. Such runs may be enqueued one
   after another: rvit_session_wait then waits for all, fails if any of them had an error, and gives the results of
   the last. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_enqueue(rvit_session *session, const rvit_run_args *args);
/* Waits for the enqueued run. Its results are valid until the next enqueue. An image fails, and has no results, if
   its scores are NaN or cannot be added up, or if its logits or outputs in host memory are not finite. The status
   is INVALID_ARGUMENT if pixels in host memory are the cause: NaN, infinite, or beyond 65504. Otherwise it is
   NOT_FINITE: weights are not finite, the model overflows its dtype (bf16 and f32 have a larger range than f16),
   or pixels in device memory are the cause. The detail names the first such image, and the prune stage or the
   result. The other images keep their results; rvit_session_image_status says which images failed.

   Results with one row per token are sampled: all values of an image's first row, and the first value of each
   other row. NaN and infinity spread, so this finds all of them except a single float32 sum that overflows in a
   row that no norm follows. Results in device memory (logits, merged and deepstack of rvit_session_desc, logits of
   rvit_run_args) are not checked. Scores and other outputs still are; a session without these leaves the check to
   the caller.

   INTERNAL: the device has written lengths that exceed the session's capacity; there are no results. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_wait(rvit_session *session);
/* OK: the image has results. INVALID_ARGUMENT, NOT_FINITE: it failed; status and detail are those that
   rvit_session_wait returns for the first such image. INVALID_ARGUMENT also if there is no result of the image:
   before the first run, while one is pending, or after a wait that failed in another way. After a wait for several
   runs, an image has failed if it could not be pruned in any of them, or if its results of the last run are not
   finite. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_image_status(const rvit_session *session, int32_t image);
/* rvit_session_enqueue and rvit_session_wait, then a copy of the logits to out_logits, host f32 [n_images,
   n_classes] (NULL: no copy). Nothing is copied if an image failed. UNSUPPORTED: out_logits is given, but the
   logits are in device memory or the model has no head. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_run(rvit_session *session, const rvit_run_args *args, float *out_logits);

/* With RVIT_INPUT_HOST: the session's host memory for the input, *out_size bytes (out_size may be NULL), 64-byte
   aligned, as long as the session lives. Decoders that write here save a copy. Do not read or write it while a run
   is pending. On a GPU the device reads it over the bus (CUDA: pinned); on Vulkan it may be slow to read. NULL and
   0 with FIXED and RUN.
     TENSOR    float [max_images, C, H, W]
     PATCHES   float [max_tokens, v]
     IMAGES    bytes. An image whose data lies in it, at a multiple of 4 from its begin, is not copied. Other images
               and the resize weights are written after the last image in it, so leave room there
               (rvit_images_write says how much). Fill it from its begin: everything up to the end of what is
               written is transferred. Bytes before the end of the last image in it are not changed. */
RVIT_API void *rvit_session_input_memory(rvit_session *session, int64_t *out_size);

/* The results of a run. Each is an array of rows: one per image, or one per token of a layout. The layout of stage
   s (-1: the unpruned images) gives image i the rows cu[i] .. cu[i + 1] - 1, where cu is RVIT_RESULT_CU_SEQLENS of
   index s; rvit_result_view.stage says which layout a result has. From FEATURES on, a result needs the RVIT_OUTPUT
   of the same name. index is 0 unless noted. */
typedef enum rvit_result {
    RVIT_RESULT_LOGITS = 0, /* f32 [n_images, n_classes]. UNSUPPORTED: the model has no head */
    /* index: the stage. int32 [n_images + 1] */
    RVIT_RESULT_CU_SEQLENS = 1,
    /* index: the stage, from 0. int32 [rows]: the token of the unpruned image that each row holds (prefix first;
       patch n is n_prefix + n). Ascending within an image, with two exceptions. A fused token is -1 and comes
       last. With tome, rows are in ToMe's order, unless the model merges patches (rvit_model_info.merge), and a
       merged token has the index of the token that the others were merged into. */
    RVIT_RESULT_KEPT = 2,
    /* index: the stage, from 0. f32 [rows]: the number of tokens that each row is the mean of; for a model that
       merges patches, the number of merge groups. UNSUPPORTED: the policy does not merge tokens */
    RVIT_RESULT_SIZES = 3,
    RVIT_RESULT_FEATURES = 4,      /* f32 [rows, dim] after the last stage. The CLS row of an image comes first */
    RVIT_RESULT_CLS_ATTENTION = 5, /* f32 [rows, n_heads], the rows of the last block's attention */
    /* f32 [n_images, width]. width is dim, or 2 * dim: the CLS row and the mean
       (RVIT_POOLING_CLS_MEAN), or the CLS row and the distillation token's */
    RVIT_RESULT_POOLED = 6,
    RVIT_RESULT_PROJECTED = 7, /* f32 [n_images, embedding_dim] */
    /* f32 [rows, dim]. A stage before or inside the block is part of the layout, a
       stage after the block is not */
    RVIT_RESULT_BLOCK_FEATURES = 8,
    RVIT_RESULT_RECEIVED_ATTENTION = 9, /* f32 [rows, n_heads], the rows of the block's attention */
    /* f32 [rows / merge^2, merged_dim] after the last stage. Image i has the rows cu[i] /
       merge^2 .. cu[i + 1] / merge^2 - 1, its merge groups in raster order */
    RVIT_RESULT_MERGED = 10,
    RVIT_RESULT_DEEPSTACK = 11,       /* index: the merger, 0..n_deepstack - 1. The same of an earlier block */
    RVIT_RESULT_RESERVED = 0x7fffffff /* values from 1000 on are reserved */
} rvit_result;

typedef struct rvit_result_view {
    size_t struct_size;
    const void *data; /* host memory [rows, width]. NULL: only the caller's device memory has the result */
    rvit_dtype dtype;
    int32_t width; /* elements of a row */
    int64_t rows;
    int32_t stage; /* the stage whose layout the rows have; -1: that of the unpruned images, or one row per image */
} rvit_result_view;
#define RVIT_RESULT_VIEW_INIT RVIT_INIT(rvit_result_view)

/* Returns a result of the last finished run. The memory belongs to the session and is valid until the next
   enqueue. UNSUPPORTED: the session was created without that output. INVALID_ARGUMENT: `what` or index is out of
   range, or there is no finished run. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get(const rvit_session *session, rvit_result what, int32_t index,
                                                     rvit_result_view *out_view);
/* RVIT_RESULT_KEPT of one image as a mask over its tokens before pruning: out_mask uint8 [tokens of the image], 1
   = kept. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_keep_mask(const rvit_session *session, int32_t stage, int32_t image, uint8_t *out_mask);
/* RVIT_RESULT_FEATURES of one image's patches at their positions in the image, in raster order: out_grid f32
   [tokens - n_prefix, dim], `fill` where a patch was dropped. A merged token (tome) fills the positions of all
   tokens that it stands for; a fused token has no position. UNSUPPORTED: the session was created without
   RVIT_OUTPUT_FEATURES. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_feature_grid(const rvit_session *session, int32_t image, float fill, float *out_grid);
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_stats(const rvit_session *session, rvit_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
