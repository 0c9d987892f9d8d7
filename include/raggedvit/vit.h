/* Vision Transformers: a model is a checkpoint on a device, a session runs images through it, pruned or not.

   Also the two ops that only a ViT needs: patchify and head. */
#ifndef RAGGEDVIT_VIT_H
#define RAGGEDVIT_VIT_H

#include <raggedvit/prune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Cuts images into the rows of the patch embedding's product. Row i * tokens + n_prefix + py * G + px, G = image_size / patch_size and
   tokens = n_prefix + G * G, holds channel c, line y, column x of patch (py, px) at c * patch_size^2 + y * patch_size + x. Prefix
   rows are zero. (DeiT: the stride-16 convolution as a matrix product.) */
typedef struct rvit_patchify_args {
    size_t struct_size;
    rvit_dtype dtype;      /* of out */
    int32_t n_images;      /* at most; the batch the host planned for */
    rvit_view live_images; /* optional: int32 [1], 4-byte aligned: the images that are there, read when the op runs (clamped to
                              0..n_images); rows of the others are not written */
    int32_t channels;
    int32_t image_size; /* pixels; multiple of patch_size */
    int32_t patch_size; /* even */
    int32_t n_prefix;
    rvit_view images;     /* f32 [n_images, channels, image_size, image_size]; UPLOAD memory will do */
    rvit_view out;        /* [n_images * tokens, channels * patch_size^2] */
    rvit_view cu_seqlens; /* optional out: int32 [n_images + 1], 4-byte aligned: min(i, live images) * tokens */
} rvit_patchify_args;
#define RVIT_PATCHIFY_ARGS_INIT RVIT_INIT(rvit_patchify_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_patchify(rvit_stream *stream, const rvit_patchify_args *args);

/* logits[i, :] = concat_{j < n_tokens} layernorm(x[cu_seqlens[i] + j, :]) weight^T + bias. An image with fewer than n_tokens rows gets
   zeros. (A distilled model is n_tokens 2 with both heads side by side, halved.) */
typedef struct rvit_head_args {
    size_t struct_size;
    rvit_dtype dtype;        /* of x */
    rvit_dtype weight_dtype; /* of weight */
    int32_t n_images;
    int64_t rows;     /* rows x holds at most */
    int32_t dim;      /* multiple of 4 */
    int32_t n_tokens; /* 1 or 2 */
    int32_t n_classes;
    float eps;             /* above 0 */
    rvit_view x;           /* [rows, dim] */
    rvit_view cu_seqlens;  /* int32 [n_images + 1], 4-byte aligned */
    rvit_view gamma, beta; /* f32 [dim] */
    rvit_view weight;      /* [n_classes, n_tokens * dim] */
    rvit_view bias;        /* optional: f32 [n_classes] */
    rvit_view logits;      /* f32 [n_images, n_classes] */
} rvit_head_args;
#define RVIT_HEAD_ARGS_INIT RVIT_INIT(rvit_head_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_head(rvit_stream *stream, const rvit_head_args *args);

/* A checkpoint without a device: what `raggedvit inspect` shows. Immutable; may be shared by threads. */
typedef struct rvit_checkpoint rvit_checkpoint;

typedef struct rvit_model_info {
    size_t struct_size;
    char architecture[64]; /* "deit_tiny_patch16_224", made from the geometry */
    char family[32];       /* naming of the tensors: "timm", "deit3" (timm's, but gamma_1 and gamma_2), "hf" (Hugging Face), "dinov2" */
    int32_t image_size, patch_size, channels;
    int32_t dim, n_heads, head_dim, depth, mlp_dim;
    int32_t n_prefix;      /* CLS, then a distillation token if there is one, then registers */
    int32_t tokens;        /* n_prefix + patches */
    int32_t n_classes;     /* 0: the checkpoint has no head */
    float eps;             /* of the layernorms */
    int64_t n_parameters;  /* of the tensors the forward uses */
    int32_t n_tensors;     /* in the files */
    int32_t n_unknown;     /* tensors the forward does not use (predictors of other policies included) */
    int32_t n_by_dtype[3]; /* tensors stored as F32, F16, BF16 */
    int32_t distilled;     /* 1: the logits of the CLS token's head and of the distillation token's are averaged. 0 for a distillation token
                              without a head of its own, as some of Hugging Face's have */
    int32_t n_registers;
    int32_t n_predictors; /* complete DynamicViT predictors: score_predictor.0 .. n_predictors - 1 */
    int32_t n_files;      /* that hold the tensors */
    int32_t trained_size; /* image size that the file's position table is for; another image_size means that it was resampled */
    int64_t weights_size; /* bytes of device memory that a model's weights take; 0 of a checkpoint */
} rvit_model_info;
#define RVIT_MODEL_INFO_INIT RVIT_INIT(rvit_model_info)

/* How a position table is brought to another grid. */
typedef enum rvit_resample {
    RVIT_RESAMPLE_TIMM = 0,    /* antialiased bicubic (a = -0.5), as timm does */
    RVIT_RESAMPLE_BICUBIC = 1, /* bicubic (a = -0.75), as DeiT's and EViT's own code and Hugging Face do */
    RVIT_RESAMPLE_BILINEAR = 2 /* as DynamicViT's and ATS's own code do */
} rvit_resample;

typedef struct rvit_checkpoint_desc {
    size_t struct_size;
    int32_t lenient; /* 1: tensors that nothing uses are no error. score_predictor.*, mask_token and pooler.dense.* never are one */
    const rvit_allocator *allocator; /* copied; NULL: malloc */
    int32_t image_size;              /* 0: the one the position table is for; else it is resampled to this one's grid */
    rvit_resample resample;          /* how */
    float eps;                       /* of the layernorms; 0: 1e-6, or what a Hugging Face config.json beside the file says, else 1e-12 */
} rvit_checkpoint_desc;
#define RVIT_CHECKPOINT_DESC_INIT RVIT_INIT(rvit_checkpoint_desc)

/* Reads a .safetensors file, or the files that an index beside them (*.safetensors.index.json) names, infers the geometry and checks
   every tensor against it. Read are the names of timm's ViT and DeiT (distilled, with registers, with layer scale, without a head),
   of DeiT-III, of DINOv2 and of Hugging Face's ViT and DeiT. BAD_FILE names the file and the tensor, or the rule of the format that is
   broken; UNSUPPORTED what was recognised but is not handled (gated MLPs, norms of queries and keys, heads on averaged patches, an
   activation other than the exact GELU, head_dim other than 64); INVALID_ARGUMENT an image_size that is no multiple of the patch size. desc
   may be NULL. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_open(const char *path, const rvit_checkpoint_desc *desc, rvit_checkpoint **out);
RVIT_API void rvit_checkpoint_destroy(rvit_checkpoint *checkpoint);
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_get_info(const rvit_checkpoint *checkpoint, rvit_model_info *out_info);
/* The index-th tensor in the order of the file's data, file after file: name, dtype name ("F16"), rank, shape, and whether the forward uses
   it. The strings and the shape live as long as the checkpoint. INVALID_ARGUMENT past the last. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_tensor(const rvit_checkpoint *checkpoint, int32_t index, const char **out_name,
                                                           const char **out_dtype, int32_t *out_rank, const int64_t **out_shape,
                                                           int32_t *out_used);
/* The text, as it stands in the file, stored under a key of the file's __metadata__; NULL if there is none. Lives as long as the
 * checkpoint. */
RVIT_API const char *rvit_checkpoint_metadata(const rvit_checkpoint *checkpoint, const char *key);

/* A checkpoint's weights on a device. Immutable; may be shared by threads and sessions. */
typedef struct rvit_model rvit_model;

typedef struct rvit_model_desc {
    size_t struct_size;
    rvit_dtype dtype; /* storage of weights and activations: F32 or F16. The residual stream, LayerNorm, softmax, biases and sums are
                         float32 always, but for the bias of queries, keys and values, which a device may round to dtype */
} rvit_model_desc;
#define RVIT_MODEL_DESC_INIT RVIT_INIT(rvit_model_desc)

/* desc may be NULL. The checkpoint is not needed afterwards. */
RVIT_API RVIT_NODISCARD rvit_status rvit_model_create(rvit_device *device, const rvit_checkpoint *checkpoint, const rvit_model_desc *desc,
                                                      rvit_model **out_model);
RVIT_API void rvit_model_destroy(rvit_model *model);
RVIT_API RVIT_NODISCARD rvit_status rvit_model_get_info(const rvit_model *model, rvit_model_info *out_info);

/* A recorded forward with its memory: planned and allocated once, run many times. One thread at a time. */
typedef struct rvit_session rvit_session;

/* What a run gives beside logits and kept tokens; added up in rvit_session_desc.outputs. */
typedef enum rvit_output {
    RVIT_OUTPUT_FEATURES = 1,     /* every kept row after the final layernorm */
    RVIT_OUTPUT_CLS_ATTENTION = 2 /* the CLS row of the last block's attention */
} rvit_output;

typedef struct rvit_session_desc {
    size_t struct_size;
    int32_t max_images; /* capacity of a run, 1 or more */
    rvit_prune_desc prune;
    int32_t trace;       /* 1: keep what rvit_session_trace (experimental.h) gives; costs memory and copies */
    int32_t outputs;     /* rvit_output, added up */
    int32_t fixed_batch; /* 1: every run has max_images images. Where the policy keeps a fixed number of tokens the host then knows all row
                            counts, and products take the device's dense kernels. Results may differ in the last bits from those of
                            a session without it */
    int32_t dense_fallback; /* 1: time the pruned and the dense forward once while the session is created, and prune nothing if that is not
                               slower: see rvit_session_info. Not with a given mask. 0: prune as asked */
    rvit_stream *stream;    /* where runs are enqueued; must outlive the session. NULL: one of its own */
    rvit_view images; /* optional: where every run finds its images, f32 [max_images, channels, image_size, image_size], in a buffer of
                         the model's device, read when the run executes; rvit_run_args.images is then NULL */
    rvit_view logits; /* optional: where every run leaves its logits, f32 [max_images, n_classes]; rvit_session_logits is then NULL */
} rvit_session_desc;
/* clang-format off */
#define RVIT_SESSION_DESC_INIT {sizeof(rvit_session_desc), 1, RVIT_PRUNE_DESC_INIT, 0, 0, 0, 0, NULL, {NULL, 0}, {NULL, 0}}
/* clang-format on */

/* Bytes that a session takes. */
typedef struct rvit_memory_info {
    size_t struct_size;
    int64_t device_size;   /* device memory: activations, layouts, tables */
    int64_t upload_size;   /* mapped memory: image count, images, given masks, tables */
    int64_t readback_size; /* mapped memory: logits, outputs, the stages' results */
    int64_t trace_size;    /* mapped memory: traced values; 0 without trace */
    int64_t host_size;     /* from the device's allocator */
} rvit_memory_info;
#define RVIT_MEMORY_INFO_INIT RVIT_INIT(rvit_memory_info)

/* What rvit_session_create with this desc would allocate, and nothing allocated that stays. Runs allocate nothing, whatever their images.
   The figures come from the plan that the session is made by. With B = max_images, T = tokens, D = dim, H = n_heads, e = 4 (f32) or 2
   (f16), L_i and M_i the most tokens that an image has before and after stage i (M_-1: T), each array rounded up to 256 bytes:

     device    4 B T D, 4 B M_0 D (the residual stream, and what the first stage leaves), e B T D, 4 (B + 1),
               e B T max(3 D, mlp_dim, channels patch_size^2)
               policies that score by CLS attention: 4 B T H; tome: 4 B T head_dim
               each stage: 4 B L_i (source rows); its results, B L_i, 4 (B + 1), tome 4 B L_i more (next rows)
               each stage, by the policy: 4 B L_i (scores; not mask, not tome), 4 (L_i + 1) (counts, where a fixed number is kept),
               4 L_i (position scores; random), 4 B M_i twice (sizes and key bias; tome)
     upload    4; 4 B channels image_size^2 (unless desc.images is given)
               each stage: B L_i (mask); the counts and position scores again
     readback  4 B n_classes (unless desc.logits is given); features 4 B M D, M of the last stage; CLS attention 4 B T H
               each stage: its results again; 4 (not tome)
     trace     4 B T D for the embedding and for each block; each stage: 4 B L_i
     host      the session object; 8 T; 4 (B + 1)
               each stage: 4 B M_i, tome twice; 4 (T + 1) where a fixed number is kept, all stages' together and not rounded

   desc.dense_fallback times other sessions first, one after the other, and may replace the plan: then each figure is the largest of
   them all.

   Not in the figures is what a backend needs beside them. Its objects for buffers, stream and recorded program are of the host: at most 16
   KiB, and 8 KiB for each block and stage, from the device's allocator. Its working memory is of the device (rvit_stats.working_size): CPU
   none; Vulkan at most 1 KiB, and 1 KiB for each block and stage; CUDA at most 4 KiB + 32 bytes an image, for ats 4 KiB + 16 bytes
   a token of the batch more, and 32 MiB where cuBLASLt splits sums; while a fixed_batch session is created, an input and an output of a
   product more, on which its algorithms are tried out. What drivers keep for themselves is not known. A stream of the caller's keeps the
   list of ops of its longest recording. On the CPU all buffers come from the allocator, too;
   rvit_buffer_create says what it refuses.

   Fails as rvit_session_create does where the desc is at fault; ops are not looked at. desc may be NULL. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_memory(rvit_model *model, const rvit_session_desc *desc, rvit_memory_info *out_memory);

/* The session keeps its model alive. INVALID_ARGUMENT: a prune block the model does not have, keep outside 0..1, a parameter that the
   policy does not have; UNSUPPORTED: DynamicViT on a checkpoint without predictors (names the missing tensor). */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_create(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session);
/* Waits for a pending run. */
RVIT_API void rvit_session_destroy(rvit_session *session);

typedef struct rvit_session_info {
    size_t struct_size;
    int32_t n_stages;
    int32_t fell_back;          /* 1: dense_fallback found the dense forward no slower; n_stages is 0 */
    double dense_us, pruned_us; /* what it measured: microseconds of a forward of max_images images; 0 without dense_fallback */
} rvit_session_info;
#define RVIT_SESSION_INFO_INIT RVIT_INIT(rvit_session_info)
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_info(const rvit_session *session, rvit_session_info *out_info);

/* One run. */
typedef struct rvit_run_args {
    size_t struct_size;
    int32_t n_images;    /* 0..max_images; with fixed_batch max_images */
    const float *images; /* host, f32 [n_images, channels, image_size, image_size], normalised. NULL: they already lie in
                            rvit_session_input, or in rvit_session_desc.images */
    const uint8_t *keep; /* RVIT_PRUNE_MASK: host, uint8 [n_stages, n_images, tokens] over the model's own tokens, nonzero = keep; a
                            stage may only drop (what an earlier one dropped stays dropped); prefix tokens must be kept */
} rvit_run_args;
#define RVIT_RUN_ARGS_INIT RVIT_INIT(rvit_run_args)

/* Enqueues a run: one dispatch, no allocation, no waiting. The images are free again on return. A run not yet waited for:
   INVALID_ARGUMENT, unless runs take nothing from the host (fixed_batch, rvit_session_desc.images, no mask given): these may be enqueued
   one behind another, wait waits for all, results are those of the last, and wait fails if any of them had an error. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_enqueue(rvit_session *session, const rvit_run_args *args);
/* Waits for the enqueued run; its results hold until the next enqueue. INVALID_ARGUMENT names the image and the prune stage whose
   scores are NaN, or cannot be added up (tome has no scores: an image that is NaN gives logits that are). */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_wait(rvit_session *session);
/* enqueue, wait, and a copy of the logits to out_logits, host f32 [n_images, n_classes] (NULL: none). */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_run(rvit_session *session, const rvit_run_args *args, float *out_logits);

/* Where to put images to save a copy: f32 [max_images, channels, image_size, image_size]. Not while a run is pending. NULL with
   rvit_session_desc.images. */
RVIT_API float *rvit_session_input(rvit_session *session);

/* Results of the last run waited for; borrowed, and overwritten by the next enqueue. Stage -1 is the unpruned image. */
RVIT_API const float *rvit_session_logits(const rvit_session *session); /* f32 [n_images, n_classes]; NULL for a model without head */
RVIT_API int32_t rvit_session_n_stages(const rvit_session *session);
/* cu_seqlens after prune stage `stage`: int32 [n_images + 1]; tokens of image i, prefix included: cu[i + 1] - cu[i]. NULL past the
   last stage. */
RVIT_API const int32_t *rvit_session_cu_seqlens(const rvit_session *session, int32_t stage);
/* For each row of an image after a stage, the token of the unpruned image that it holds (prefix first; patch n is n_prefix + n): int32
   [cu[image + 1] - cu[image]]. Ascending, but: a fused token is -1, and comes last; merged tokens (tome) are in ToMe's order, each named by
   the one that the others were merged into. NULL if there is no such stage or image. */
RVIT_API const int32_t *rvit_session_kept(const rvit_session *session, int32_t stage, int32_t image);
/* tome: for each row of an image after a stage, of how many tokens it is the mean: f32 [cu[image + 1] - cu[image]]. NULL otherwise. */
RVIT_API const float *rvit_session_sizes(const rvit_session *session, int32_t stage, int32_t image);
/* rvit_session_kept as a mask over the unpruned image: out_mask uint8 [tokens], 1 = kept. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_mask(const rvit_session *session, int32_t stage, int32_t image, uint8_t *out_mask);
/* RVIT_OUTPUT_FEATURES: f32 [rows, dim], image after image as rvit_session_cu_seqlens of the last stage (-1 if there is none) says.
   An image's CLS row comes first. NULL without that output. */
RVIT_API const float *rvit_session_features(const rvit_session *session);
/* The features of an image's patches back in their places: out f32 [tokens - n_prefix, dim], fill where a patch was dropped. A merged token
   (tome) fills the places of all it stands for; fused tokens have none. UNSUPPORTED without RVIT_OUTPUT_FEATURES. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_grid(const rvit_session *session, int32_t image, float fill, float *out_grid);
/* RVIT_OUTPUT_CLS_ATTENTION: f32 [rows, n_heads], rows as they were in the last block's attention: *out_stage is the stage that laid
   them out. NULL without that output. */
RVIT_API const float *rvit_session_cls_attention(const rvit_session *session, int32_t *out_stage);
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_stats(const rvit_session *session, rvit_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
