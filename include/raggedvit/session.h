/* Sessions. A session runs images through a model, pruned or not, and holds the results of the last run. */
#ifndef RAGGEDVIT_SESSION_H
#define RAGGEDVIT_SESSION_H

#include <raggedvit/model.h>
#include <raggedvit/prune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A recorded forward and its memory: planned and allocated once, run many times. Used by one thread
   at a time. */
typedef struct rvit_session rvit_session;

/* Optional results of a run, beside logits and kept tokens: OR them into
   rvit_session_desc.outputs. What is not asked for costs neither launches nor memory. */
typedef enum rvit_output {
    RVIT_OUTPUT_FEATURES = 1,      /* every kept row after the final norm, if the model has one */
    RVIT_OUTPUT_CLS_ATTENTION = 2, /* the CLS row of the last block's attention */
    RVIT_OUTPUT_POOLED = 4,        /* for each image the vector that the head reads, after its norm */
    /* For each image the vector that is compared with those of texts: what CLIP's projection gives,
       or SigLIP's attention pooling. In timm's names the architecture tells: a head is a projection
       if the name is one of a CLIP or a PE-Core and the head does not have the classes of ImageNet
       (1000, 11821, 21841 or 21843). */
    RVIT_OUTPUT_PROJECTED = 8,
    RVIT_OUTPUT_NORMALIZED = 16, /* with PROJECTED: divided by its L2 norm, in float64 on the host when it
                                    is first asked for. A vector of zeros stays one */
    /* The rows that block rvit_session_desc.features_block leaves, before any norm (LLaVA reads those
       of block -2) */
    RVIT_OUTPUT_BLOCK_FEATURES = 32,
    /* The attention that each row receives in block rvit_session_desc.received_block: see
       rvit_received */
    RVIT_OUTPUT_RECEIVED_ATTENTION = 64,
    /* What becomes of each square of patches after the last block (Qwen's merger) */
    RVIT_OUTPUT_MERGED = 128,
    /* The same of the rows that earlier blocks leave, each by its own merger (Qwen3-VL's deepstack) */
    RVIT_OUTPUT_DEEPSTACK = 256
} rvit_output;

typedef struct rvit_session_desc {
    size_t struct_size;
    int32_t max_images; /* maximum number of images of a run, 1 or more */
    rvit_prune_desc prune;
    int32_t trace;   /* 1: keep the values that rvit_session_trace (experimental.h) returns;
                        costs memory and copies. 2, 3: RVIT_TRACE_GIVEN and _INPUTS of experimental.h */
    int32_t outputs; /* OR of rvit_output values */
    /* 1: every run has exactly max_images images. If the policy also keeps a fixed number of
       tokens, the host knows all row counts, and GEMMs use the device's dense kernels. The last
       bits of the results may differ from those of a session without fixed_batch. */
    int32_t fixed_batch;
    /* 1: while the session is created, time the pruned and the dense forward once, and prune
       nothing if the dense one is not slower: see rvit_session_info. Ignored with
       RVIT_PRUNE_MASK. 0: prune as asked. */
    int32_t dense_fallback;
    rvit_stream *stream; /* the stream of all runs; must outlive the session. NULL: the session
                            creates its own */
    /* Optional: where every run reads its images, f32 [max_images, channels,
       image_height, image_width], in a buffer of the model's device; with native its patches, which the
       buffer must hold max_tokens of. They are read when the run executes; rvit_run_args.images and
       patches must be NULL. */
    rvit_view images;
    /* Optional: where every run writes its logits, f32 [max_images, n_classes]. rvit_session_logits
       then returns NULL, and NaN in them goes unseen (rvit_session_wait). */
    rvit_view logits;
    /* 1: each run brings device memory of its own for images and logits, in
       rvit_run_args.device_images and device_logits; images and logits above must be absent. Nothing
       is copied. On Vulkan, and with CUDA before 13 (the driver: before 12.3), a run is then three
       dispatches: the patch cut, the recorded program and the head.
       Unless the policy is RVIT_PRUNE_MASK, runs take nothing from the host, so that they may be
       enqueued one after another, whatever their number of images. */
    int32_t run_views;
    /* The blocks of RVIT_OUTPUT_BLOCK_FEATURES and RVIT_OUTPUT_RECEIVED_ATTENTION: from 0, or, below 0,
       from the end: -1 is the last, -2 the one before. */
    int32_t features_block, received_block;
    /* 1: native resolution. The images of a run have grids of their own (rvit_run_args.grids), and all of
       them make one batch without padding. A position table is resampled to the grid of each image, as
       the model's `resample` says; rotary positions follow the grid. An image gives the same bits in
       every batch. Policies count what they keep of each image's own patches. Memory follows from the
       capacities below: see rvit_session_memory.
       Not with fixed_batch or dense_fallback. UNSUPPORTED: the checkpoint was opened with an image size
       of its own; dynamicvit in several blocks; ats without n_samples; hiprune, unless alpha is 0.

       Towers that merge squares of patches (rvit_model_info.merge) run so alone. Both sides of a
       grid are multiples of merge. l2, received, random and pixelprune prune them by whole squares, tome
       merges whole squares, in towers with windows those of one window; other policies are UNSUPPORTED,
       and so is received in a block whose attention is within windows. The
       tokens of an image are in the order of their processor: squares line after line, the patches of a
       square line after line. So are all results, whatever the order that windows of attention give the
       rows inside. An image is a picture, or a pair of frames of a video. */
    int32_t native;
    int32_t max_tokens; /* native: the most tokens of a batch, prefix tokens among them; 0: max_images * max_len */
    int32_t max_len;    /* native: the most tokens of an image, prefix tokens among them; 0: the model's tokens */
    /* Above 0: every run brings pictures of any size in rvit_run_args.pictures, which the device
       resizes, normalises and cuts in the same dispatch (on CUDA a copy engine sends them before);
       images above and run_views must be absent. The bytes of the region that they travel in:
       rvit_images_write with a region of NULL, this max_images, the model's patch_size and n_prefix and
       max_rows of max_images * tokens tells what a run takes; with native n_prefix 0 and max_rows of
       max_tokens, and each picture may have a target of its own (rvit_naflex_grid), whose patches are its
       grid. The session keeps the weights of the sizes that it has lately resized: 512 KiB of the host. */
    int64_t max_picture_bytes;
    const rvit_image_recipe *recipe; /* of the pictures, used during the call only; its height and width are the model's. NULL:
                                        rvit_image_recipe_of_model */
    /* Optional, with max_picture_bytes: memory of the model's device, pixels_size bytes from a multiple of
       16 on, in which pictures of runs may lie (rvit_image.view). A buffer of any kind, the caller's own
       wrapped (cuda.h, vulkan.h) too, which must outlive the session. */
    rvit_view pixels;
    int64_t pixels_size;
    /* Optional: where every run writes what RVIT_OUTPUT_MERGED and RVIT_OUTPUT_DEEPSTACK give, f32 [U, merged_dim] and
       [n_deepstack, U, merged_dim], U the squares of max_tokens, in buffers of the model's device, from multiples of 16 on.
       Nothing of them is copied to the host: rvit_session_merged and rvit_session_deepstack then return NULL, and NaN in
       them goes unseen (rvit_session_wait). They are
       written until the run is done, and what lies behind the batch's squares may be, too. */
    rvit_view merged, deepstack;
} rvit_session_desc;
/* clang-format off */
#define RVIT_SESSION_DESC_INIT \
    {sizeof(rvit_session_desc), 1, RVIT_PRUNE_DESC_INIT, 0, 0, 0, 0, NULL, {NULL, 0}, {NULL, 0}, 0, -1, -1, 0, 0, 0, 0, NULL, \
     {NULL, 0}, 0, {NULL, 0}, {NULL, 0}}
/* clang-format on */

/* The bytes that a session allocates. */
typedef struct rvit_memory_info {
    size_t struct_size;
    int64_t device_size;   /* device memory: activations, layouts, tables */
    int64_t upload_size;   /* mapped memory: image count, images, given masks, tables */
    int64_t readback_size; /* mapped memory: logits, outputs, results of the stages */
    int64_t trace_size;    /* mapped memory: traced values; 0 without trace */
    int64_t host_size;     /* host memory from the device's allocator */
} rvit_memory_info;
#define RVIT_MEMORY_INFO_INIT RVIT_INIT(rvit_memory_info)

/* Returns what rvit_session_create would allocate for this desc; nothing stays allocated. Runs
   allocate nothing, whatever their images. The figures come from the plan from which the session is
   created. Let B = max_images, T = tokens, D = dim, H = n_heads, e = 4 (f32) or 2 (f16); L_i and
   M_i are the most tokens of an image before and after stage i (M_-1 = T). Each array is rounded up
   to 256 bytes:

     device    4 B T D, 4 B M_0 D (the residual stream, before and after the first stage; 4 B T D
               again, stages or not, for a model with norm_pre or a norm of the patches alone), e B T D,
               4 (B + 1), e B T max(3 D, mlp_dim, channels patch_size^2 rounded up to 8, with e 2 twice);
               on the CPU 3 D + mlp_dim is in the place of 3 D
               a quantised model: B T (D + mlp_dim) and 4 B T (rows of bytes and their scales); above
               mlp_dim is then rounded up to 16, and counts twice with a gated MLP without a norm in it
               policies that score by CLS attention: 4 B T H; received, hiprune: that twice; hiprune
               with alpha above 0: B T (anchors), 4 (T + 1) (how many); tome: 4 B T head_dim
               a head, or pooled rows, on another pooling than CLS: 4 B D, for CLS_MEAN twice; for MAP
               also 4 B M H, H rounded up to a multiple of 4 and M of the last stage (mlp_dim above is
               then the larger of the blocks' and the pooling's); map-probe: 4 B T H, and T in the
               place of that M
               received attention as an output: 4 B T H, which policies that score by it have already
               each stage: 4 B L_i (source rows)
               each stage's results: B L_i, 4 (B + 1); for tome also 4 B L_i (next rows)
               each stage, by policy: 4 B L_i (scores; not mask, not tome), 4 (L_i + 1) (counts; if
               a fixed number is kept), 4 L_i (position scores; random), 4 B M_i twice (sizes and
               key bias; tome), 4 B M_i (positions; models with rotary positions)
               desc.run_views without fixed_batch: 4 (B + 1)
               desc.max_picture_bytes rounded up to 16, but none on the CPU
     upload    4; 4 B channels image_height image_width (unless desc.images is given); with desc.run_views none
               of these, but without fixed_batch 4 (B + 1); with desc.max_picture_bytes that, rounded up to
               16, instead of the images
               each stage: B L_i (mask); counts, those of anchors, and position scores again
     readback  4 B n_classes (unless desc.logits or desc.run_views is given); features 4 B M D, M of
               the last stage;
               CLS attention 4 B T H
               pooled rows 4 B D, for CLS_MEAN and distilled models twice
               projected, with desc.logits or desc.run_views: 4 B n_classes
               block features 4 B L D, L the most tokens of an image that the block leaves
               received attention 4 B L H, L of the block's attention
               a quantised model whose checkpoint brings scales of inputs: 4
               each stage: its results again; 4 (B + 1) (not tome)
     trace     4 B T D for the embedding and for each block; with trace 3 together for all blocks
               E B T (3 D + mlp width) more; each stage: 4 B L_i, with trace 2 also B L_i; tome
               4 B L_i head_dim more; hiprune with anchors 5 B T
     host      the session object; 8 T; 4 (B + 1); 4 B; projected and normalised: 4 B n_classes;
               with desc.max_picture_bytes 512 KiB
               each stage: 4 B M_i, for tome twice; 4 (T + 1) if a fixed number is kept, all stages
               together and not rounded

   With desc.native T is max_len, B T is max_tokens, and B L_i and B M_i are the most rows that all
   images together have before and after stage i: with f(n) the tokens that a stage leaves of n, p = f(L_i)
   and c the largest L_i f(n) - p n, the least of the rows before, B times the largest f(n), and
   (p rows before + B c) / L_i. It also takes

     device    4 (B + 1), 16 B T; with rotary positions 4 B T head_dim, 2 head_dim
               pixelprune: 4 B T values and B T, values of a patch as a run gives it; with tau above 0
               also 4 B T
               the residual stream has 4 B T D in the place of 4 B M_0 D; e B T D and e B T max(..) have
               the larger of B T and B in the place of B T
     upload    4, 8 B; 4 B T channels patch_size^2 in the place of the images; with rotary positions
               2 head_dim. With desc.run_views of these, and of those above, the images alone are left out
     host      4 (B + 1)

   With merge m, that is B T / m^2 = U squares, and window w, where W is the lesser of U and
   (U + (w - 1) B) / w. The cut patches have patch_frames times as many columns.

     device    4 (B + 1); with windows 4 (W + 1), 4 U (with stages in the results)
               merged or deepstack: 4 U merged_dim
               received attention in a tower with windows: 4 B T H
               each stage: 4 (B + 1); with windows 4 (W + 1)
               each stage's results, with windows: 4 for each square of B L_i; 4 U once
               tome with windows: no rows are counted as merged, since a window may lack pairs
     upload    4 B T channels patch_frames patch_size^2 in the place of the images
     readback  merged 4 U merged_dim; deepstack 4 U merged_dim n_deepstack (unless desc.merged, desc.deepstack are given)
               what is in the results, again
     host      tome with windows: 4 max_len

   desc.dense_fallback first times other sessions, one after another, and may replace the plan. Each
   figure is then the largest of all these sessions.

   The figures leave out what a backend needs in addition:
     host      objects for buffers, stream and recorded program, from the device's allocator: at
               most 16 KiB, plus 8 KiB for each block and stage
     device    working memory (rvit_stats.working_size). CPU: none. Vulkan: at most 1 KiB, plus
               1 KiB for each block and stage. CUDA: at most 4 KiB + 32 bytes per image; for ats
               another 4 KiB + 16 bytes per token of the batch; 32 MiB if cuBLASLt uses split-K;
               and while a fixed_batch session is created, an input and an output of a GEMM, on which
               cuBLASLt algorithms are timed
   Memory that drivers keep for themselves is unknown. A stream of the caller's keeps the list of
   ops of its longest recording. On the CPU, all buffers come from the allocator too; see
   rvit_buffer_create for the sizes that it refuses.

   Fails as rvit_session_create does if the desc is invalid; does not check whether the device
   supports the ops. desc may be NULL. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_memory(rvit_model *model, const rvit_session_desc *desc, rvit_memory_info *out_memory);

/* The session keeps its model alive. INVALID_ARGUMENT: the model lacks a prune block, keep is
   outside 0..1, or a parameter is set that the policy does not use. UNSUPPORTED: DynamicViT on a
   checkpoint without predictors; the detail names the missing tensor. Or a policy that scores by the
   CLS token, or RVIT_OUTPUT_CLS_ATTENTION, on a model without one; RVIT_OUTPUT_POOLED on a model that
   pools nothing, or of which nothing tells how; RVIT_OUTPUT_PROJECTED where embedding_dim is 0. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_create(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session);
/* Waits for a pending run first. */
RVIT_API void rvit_session_destroy(rvit_session *session);

typedef struct rvit_session_info {
    size_t struct_size;
    int32_t n_stages;
    int32_t fell_back;          /* 1: dense_fallback chose the dense forward; n_stages is 0 */
    double dense_us, pruned_us; /* measured by dense_fallback: microseconds per forward of
                                   max_images images; else 0 */
} rvit_session_info;
#define RVIT_SESSION_INFO_INIT RVIT_INIT(rvit_session_info)
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_info(const rvit_session *session, rvit_session_info *out_info);

/* The arguments of one run. */
typedef struct rvit_run_args {
    size_t struct_size;
    int32_t n_images; /* 0..max_images; exactly max_images with fixed_batch */
    /* Host memory, f32 [n_images, channels, image_height, image_width], normalised. NULL: the
       images are already in rvit_session_input or in rvit_session_desc.images. */
    const float *images;
    /* RVIT_PRUNE_MASK: host memory, uint8 [n_stages, n_images, tokens] over the tokens of the
       unpruned image, nonzero = keep. With native [n_stages, tokens of all images], one image behind
       another. Prefix tokens must be kept; without any, a token of each image.
       A token that an earlier stage dropped stays dropped. */
    const uint8_t *keep;
    /* rvit_session_desc.run_views: buffers of the model's device. device_images: f32 [n_images,
       channels, image_height, image_width], read when the run executes. device_logits: f32 [n_images,
       n_classes], written then, NaN and all (rvit_session_wait); absent for a model without a head. Both may be absent if n_images is
       0. On Vulkan without fixed_batch the buffer of device_images must hold max_images, with native
       max_tokens patches. The buffer handles are free again on return, the memory once the run has
       executed. */
    rvit_view device_images, device_logits;
    /* rvit_session_desc.native, and then required without pictures: host memory, int32 [n_images, 2]: lines and columns of
       each image's grid of patches, 1 to 32767. INVALID_ARGUMENT names the image that is empty or beyond
       max_len or max_tokens; nothing is enqueued then. */
    const int32_t *grids;
    /* The same: host memory, f32 [sum of lines * columns, patch_size * patch_size * channels], normalised:
       the patches of one image behind those of another, line after line, without padding. The values of a
       patch are in the order (y, x, channel), as in the pixel_values of transformers' NaFlex processors.
       With rvit_model_info.merge: [sum of lines * columns, channels * patch_frames * patch_size * patch_size],
       squares line after line and the patches of a square line after line, the values of a patch in the
       order (channel, frame, y, x): the pixel_values of transformers' processor.
       NULL: they are in rvit_session_input, which is then f32 [max_tokens, ..] of these, or in
       rvit_session_desc.images. With run_views device_images holds them; grids stays on the host, so that
       a run must be waited for before the next. */
    const float *patches;
    /* rvit_session_desc.max_picture_bytes: [n_images] pictures, without targets of their own unless the
       session is native; the caller sets each struct_size, to the same value. Those of the host are
       copied once, and free again on return; but those in rvit_session_picture_memory are not copied, and
       stay as they are until the run has been waited for. Those on the device lie in session desc's
       pixels, and are read when the run executes. With native grids and patches are NULL. */
    const rvit_image *pictures;
} rvit_run_args;
#define RVIT_RUN_ARGS_INIT RVIT_INIT(rvit_run_args)

/* Enqueues a run: one dispatch (with pictures on CUDA: a transfer before it), without allocation or
   waiting. args->images may be reused on return.

   While another run is pending the result is INVALID_ARGUMENT, unless runs take nothing from the
   host (rvit_session_desc.run_views, or fixed_batch and images; no given mask). Such runs may be
   enqueued one after another: rvit_session_wait then waits for all, fails if any of them had an
   error, and returns the results of the last. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_enqueue(rvit_session *session, const rvit_run_args *args);
/* Waits for the enqueued run. Its results are valid until the next enqueue. An image has none if its
   scores are NaN or cannot be added up, or if a result that the host is given is not finite: logits,
   outputs. The status is then INVALID_ARGUMENT if its pixels are to blame, which the host gave: NaN,
   infinite or beyond 65504. Else it is NOT_FINITE: weights are not finite, or the model overflows its
   dtype (bf16 and f32 hold more than f16), or the pixels are to blame that only the device has. The
   detail names the image, and the prune stage or the result. The other images have their results all the
   same, and rvit_session_image_status tells which they are.

   Of results with a row for each token each value of an image's first row is read, and the first value of each
   other row; so what overflows tells, but for a single sum of float32 in a row that no norm follows. Results
   that stay on the device are not read: session desc's logits, merged and deepstack, and the device_logits
   of a run. There scores tell, and outputs that are asked for; without both, the caller looks for NaN.

   INTERNAL: the device has left lengths that the session has no room for; there are no results. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_wait(rvit_session *session);
/* OK: image has its results. INVALID_ARGUMENT, NOT_FINITE: its results mean nothing; status and detail are
   those that rvit_session_wait has for the first such image. INVALID_ARGUMENT also where there is no
   result of the image: before the first run, while one is pending, or after a wait that failed in
   another way. Where a wait was for several runs, an image fails that could not be pruned in any of them,
   or whose results of the last are not finite. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_image_status(const rvit_session *session, int32_t image);
/* rvit_session_enqueue and rvit_session_wait, then a copy of the logits to out_logits, host f32
   [n_images, n_classes] (NULL: no copy), but not if an image failed. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_run(rvit_session *session, const rvit_run_args *args, float *out_logits);

/* Images written here save a copy: f32 [max_images, channels, image_height, image_width]; with native
   patches, as rvit_run_args.patches. Do not write while a run is pending. NULL with
   rvit_session_desc.images, run_views or max_picture_bytes. */
RVIT_API float *rvit_session_input(rvit_session *session);

/* Where pictures save the copy: memory of the session that callers, decoders for example, write to
   themselves, *out_size bytes, 64-byte aligned, as long as the session lives. A picture of
   rvit_run_args.pictures whose data lies in it, at a multiple of 4 from its begin, is not copied. What
   does not lie in it, and the weights of the resize, are written behind the last picture in it, which
   therefore leaves room; rvit_images_write tells how much. Fill it from its begin on: all up to there
   travels.

   Neither write nor read it while a run is pending; runs leave what lies before the end of the last
   picture in place. On a GPU it is memory that the device reads over the bus (CUDA: pinned); on Vulkan
   reading it may be slow. NULL and 0 without max_picture_bytes. out_size may be NULL. */
RVIT_API uint8_t *rvit_session_picture_memory(rvit_session *session, int64_t *out_size);

/* Results of the last run waited for: borrowed, and overwritten by the next enqueue. Stage -1 is
   the unpruned image. */
/* Logits: f32 [n_images, n_classes]; NULL for a model without a head. */
RVIT_API const float *rvit_session_logits(const rvit_session *session);
RVIT_API int32_t rvit_session_n_stages(const rvit_session *session);
/* cu_seqlens after prune stage `stage`: int32 [n_images + 1]. Image i has cu[i + 1] - cu[i] tokens,
   prefix included. NULL past the last stage. */
RVIT_API const int32_t *rvit_session_cu_seqlens(const rvit_session *session, int32_t stage);
/* For each row of an image after a stage, the index of its token in the unpruned image (prefix
   first; patch n is n_prefix + n): int32 [cu[image + 1] - cu[image]]. Ascending, with two
   exceptions: a fused token is -1 and comes last; with tome, rows are in ToMe's order, but for towers
   that merge squares of patches, and a merged token has the index of the token that the others were
   merged into. The arrays of a stage's images lie one behind another. NULL if there is no such stage
   or image. */
RVIT_API const int32_t *rvit_session_kept(const rvit_session *session, int32_t stage, int32_t image);
/* tome: for each row of an image after a stage, the number of tokens of which it is the mean: f32
   [cu[image + 1] - cu[image]], one image behind another. Of towers that merge squares of patches: the
   number of squares, the same for the rows of one. NULL for other policies. */
RVIT_API const float *rvit_session_sizes(const rvit_session *session, int32_t stage, int32_t image);
/* rvit_session_kept as a mask over the unpruned image: out_mask uint8 [tokens of that image], 1 = kept. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_mask(const rvit_session *session, int32_t stage, int32_t image, uint8_t *out_mask);
/* RVIT_OUTPUT_FEATURES: f32 [rows, dim], image after image, laid out by rvit_session_cu_seqlens of
   the last stage (-1 without stages). The CLS row of an image comes first. NULL without that
   output. */
RVIT_API const float *rvit_session_features(const rvit_session *session);
/* The features of an image's patches in their original grid positions: out_grid f32 [tokens -
   n_prefix, dim], `fill` where a patch was dropped. A merged token (tome) fills the positions of
   all tokens it stands for; a fused token has no position. UNSUPPORTED without
   RVIT_OUTPUT_FEATURES. The grid is line after line, whatever the order of the tokens. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_grid(const rvit_session *session, int32_t image, float fill, float *out_grid);
/* RVIT_OUTPUT_CLS_ATTENTION: f32 [rows, n_heads], with the rows of the last block's attention;
 *out_stage is the stage whose layout they have. NULL without that output. */
RVIT_API const float *rvit_session_cls_attention(const rvit_session *session, int32_t *out_stage);
/* RVIT_OUTPUT_POOLED: f32 [n_images, width]; *out_width is dim, or twice that: CLS row and mean
   (RVIT_POOLING_CLS_MEAN), or the CLS row and the distillation token's. NULL without that output. */
RVIT_API const float *rvit_session_pooled(const rvit_session *session, int32_t *out_width);
/* RVIT_OUTPUT_PROJECTED: f32 [n_images, embedding_dim], normalised with RVIT_OUTPUT_NORMALIZED. NULL
   without that output. */
RVIT_API const float *rvit_session_projected(const rvit_session *session);
/* RVIT_OUTPUT_BLOCK_FEATURES: f32 [rows, dim], image after image; *out_stage is the stage whose layout
   they have: a stage inside the block or before it shows in what it leaves, one after it does not.
   NULL without that output. */
RVIT_API const float *rvit_session_block_features(const rvit_session *session, int32_t *out_stage);
/* RVIT_OUTPUT_RECEIVED_ATTENTION: f32 [rows, n_heads], with the rows of the block's attention;
 *out_stage is the stage whose layout they have. NULL without that output. */
RVIT_API const float *rvit_session_received_attention(const rvit_session *session, int32_t *out_stage);
/* RVIT_OUTPUT_MERGED: f32 [rows / merge^2, merged_dim], image after image, the squares of an image line after
   line: those of image i are cu[i] / merge^2 .. cu[i + 1] / merge^2 - 1, cu of rvit_session_cu_seqlens of the
   last stage. NULL without that output, and with session desc's merged. */
RVIT_API const float *rvit_session_merged(const rvit_session *session);
/* RVIT_OUTPUT_DEEPSTACK: the same of merger `index`, 0 .. n_deepstack - 1, in the order of their blocks;
 *out_stage is the stage whose layout the rows have, as rvit_session_block_features says. NULL without
   that output, if there is no such merger, and with session desc's deepstack: *out_stage is set there, too. */
RVIT_API const float *rvit_session_deepstack(const rvit_session *session, int32_t index, int32_t *out_stage);
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_stats(const rvit_session *session, rvit_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
