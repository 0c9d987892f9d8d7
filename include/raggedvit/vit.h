/* Vision Transformers. A model is a checkpoint on a device; a session runs images through it,
   pruned or not. Also the ops that only a ViT needs: pool, probe and head. */
#ifndef RAGGEDVIT_VIT_H
#define RAGGEDVIT_VIT_H

#include <raggedvit/grids.h>
#include <raggedvit/images.h>
#include <raggedvit/precision.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rvit_pool_mode {
    RVIT_POOL_MEAN = 0, /* the mean of the rows past the prefix */
    RVIT_POOL_FIRST = 1 /* the first row: the CLS token */
} rvit_pool_mode;

/* One row for each image:
       MEAN   out[i, :] = sum_t sizes[t] * norm(x[t, :]) / sum_t sizes[t], t over the rows of image i
              from row n_prefix of the image on
       FIRST  out[i, :] = norm(x[cu_seqlens[i], :])
   An image without such rows gets zeros. Without gamma the rows are taken as they are. The result of
   an image does not depend on the other images of the batch, bit for bit. */
typedef struct rvit_pool_args {
    size_t struct_size;
    rvit_dtype dtype;     /* of x */
    rvit_dtype out_dtype; /* of out */
    rvit_pool_mode mode;
    int32_t n_images;
    int32_t max_len;       /* maximum length of an image, in rows */
    int32_t n_prefix;      /* MEAN: rows of each image that do not count; 0: all count */
    int64_t rows;          /* capacity of x in rows */
    int32_t dim;           /* multiple of 4 */
    rvit_norm norm;        /* with gamma */
    float eps;             /* above 0; not used without gamma */
    rvit_view x;           /* [rows, dim] */
    rvit_view cu_seqlens;  /* int32 [n_images + 1], 4-byte aligned */
    rvit_view sizes;       /* MEAN, optional: f32 [rows], the tokens that a row stands for (rvit_merge);
                              above 0. Absent: 1 */
    rvit_view gamma, beta; /* optional: f32 [dim]; beta with gamma only, and not with RMS */
    rvit_view out;         /* [n_images, dim]; 8-byte alignment suffices for 16-bit elements */
    int64_t out_stride;    /* elements between rows of out, multiple of 4; 0: dim */
} rvit_pool_args;
#define RVIT_POOL_ARGS_INIT RVIT_INIT(rvit_pool_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_pool(rvit_stream *stream, const rvit_pool_args *args);

/* Attention pooling: one query for each head, the same for all images, attends to the rows of an image.
   The query is folded into the keys' weights: logits = x U^T with U[h, :] = Wk_h^T q_h / sqrt(head_dim),
   which rvit_linear computes. For image i and head h, with t over the rows of the image,
       p_t = softmax_t(logits[t, h] + ln sizes[t])
       z = sum_t p_t x[t, :]
       out[i, h * head_dim + j] = weight[h * head_dim + j, :] . z + bias[h * head_dim + j]
   weight and bias are those of the values. An image without rows gets zeros. The result of an image
   does not depend on the other images of the batch, bit for bit. (The MAP head of SigLIP.) */
typedef struct rvit_probe_args {
    size_t struct_size;
    rvit_dtype dtype;     /* of x and weight */
    rvit_dtype out_dtype; /* of out */
    int32_t n_images;
    int32_t n_heads;
    int32_t head_dim;      /* multiple of 4, 4..192 */
    int32_t max_len;       /* maximum length of an image, in rows */
    int64_t rows;          /* capacity of x in rows */
    int32_t dim;           /* multiple of 4 */
    rvit_view x;           /* [rows, dim], after the norm */
    rvit_view logits;      /* f32 [rows, n_heads] */
    int64_t logits_stride; /* elements between rows of logits, at least n_heads; 0: n_heads */
    rvit_view sizes;       /* optional: f32 [rows], the tokens that a row stands for (rvit_merge); above 0 */
    rvit_view cu_seqlens;  /* int32 [n_images + 1], 4-byte aligned */
    rvit_view weight;      /* [n_heads * head_dim, dim] */
    rvit_view bias;        /* optional: f32 [n_heads * head_dim] */
    rvit_view out;         /* [n_images, n_heads * head_dim] */
    rvit_view probs;       /* optional out: f32 [rows, n_heads], p */
} rvit_probe_args;
#define RVIT_PROBE_ARGS_INIT RVIT_INIT(rvit_probe_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_probe(rvit_stream *stream, const rvit_probe_args *args);

/* logits[i, :] = concat_{j < n_tokens} norm(x[cu_seqlens[i] + j, :]) weight^T + bias. An image with
   fewer than n_tokens rows gets zeros. (A distilled model uses n_tokens 2, with the weights of both
   heads side by side and halved.) Without cu_seqlens the rows of image i are i * n_tokens and those
   after it: x is [n_images * n_tokens, dim], as rvit_pool and rvit_probe write it. Without gamma the
   rows are taken as they are. */
typedef struct rvit_head_args {
    size_t struct_size;
    rvit_dtype dtype;        /* of x */
    rvit_dtype weight_dtype; /* of weight */
    int32_t n_images;
    int64_t rows;     /* capacity of x in rows */
    int32_t dim;      /* multiple of 4 */
    int32_t n_tokens; /* 1 or 2 */
    int32_t n_classes;
    float eps;             /* above 0; not used without gamma */
    rvit_view x;           /* [rows, dim] */
    rvit_view cu_seqlens;  /* optional: int32 [n_images + 1], 4-byte aligned. Without it rows is at
                              least n_images * n_tokens */
    rvit_view gamma, beta; /* optional: f32 [dim]; beta with gamma only, and not with RMS */
    rvit_view weight;      /* [n_classes, n_tokens * dim] */
    rvit_view bias;        /* optional: f32 [n_classes] */
    rvit_view logits;      /* f32 [n_images, n_classes] */
    rvit_norm norm;        /* with gamma */
} rvit_head_args;
#define RVIT_HEAD_ARGS_INIT RVIT_INIT(rvit_head_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_head(rvit_stream *stream, const rvit_head_args *args);

/* A checkpoint, independent of any device; `raggedvit inspect` shows one. Immutable; threads may
   share it. */
typedef struct rvit_checkpoint rvit_checkpoint;

/* How a model makes the input of its head, or its one vector of an image, from its rows. */
typedef enum rvit_pooling {
    RVIT_POOLING_UNKNOWN = 0,
    RVIT_POOLING_CLS = 1,       /* the CLS row after the final norm */
    RVIT_POOLING_MEAN = 2,      /* the mean of the patch rows after the final norm */
    RVIT_POOLING_MEAN_NORM = 3, /* the norm of the mean of the patch rows (timm's fc_norm) */
    RVIT_POOLING_MEAN_RAW = 4,  /* the mean of the patch rows, without a norm */
    RVIT_POOLING_CLS_MEAN = 5,  /* CLS row and mean of the patch rows, side by side */
    RVIT_POOLING_MAP = 6,       /* attention of a learned query (SigLIP's head) */
    RVIT_POOLING_NONE = 7       /* nothing is pooled */
} rvit_pooling;

/* What tells a model where a patch lies. */
typedef enum rvit_position {
    RVIT_POSITION_UNKNOWN = 0,
    RVIT_POSITION_TABLE = 1, /* a table added to the embedding */
    RVIT_POSITION_ROPE = 2,  /* rotary: queries and keys are rotated */
    RVIT_POSITION_BOTH = 3,
    RVIT_POSITION_NONE = 4
} rvit_position;

typedef struct rvit_model_info {
    size_t struct_size;
    char architecture[64]; /* for example "deit_tiny_patch16_224"; derived from the geometry */
    char family[32];       /* naming scheme of the tensors: "timm", "deit3" (timm's, but with
                              gamma_1 and gamma_2), "dinov2", "hf" (Hugging Face's ViT and DeiT),
                              "hf-dinov2", "hf-dinov3", "hf-clip", "hf-siglip", "hf-aimv2",
                              "open_clip", "torchvision", "naflexvit" (timm's), "hf-qwen2.5-vl",
                              "hf-qwen3-vl" */
    int32_t image_size; /* 0: images are not square, see image_height; may exceed a multiple of patch_size: the lines and columns past the
                           last whole patch are not read */
    int32_t patch_size, channels;
    int32_t dim, n_heads, head_dim, depth, mlp_dim;
    int32_t n_prefix;      /* CLS, if any, then the distillation token, if any, then the registers */
    int32_t tokens;        /* n_prefix + patches */
    int32_t n_classes;     /* 0: the checkpoint has no head. With attention pooling and no head after
                              it, dim: the pooled vectors are returned as logits */
    float eps;             /* of the layernorms */
    int64_t n_parameters;  /* in the tensors that the forward uses */
    int32_t n_tensors;     /* number of tensors in the files */
    int32_t n_unknown;     /* tensors that the forward does not use (including predictors of other
                              policies) */
    int32_t n_by_dtype[3]; /* number of tensors stored as F32, F16, BF16 */
    int32_t distilled;     /* 1: logits are the mean of the CLS head's and the distillation head's.
                              0 for a distillation token without a head of its own, as in some
                              Hugging Face checkpoints */
    int32_t n_registers;
    int32_t n_predictors; /* complete DynamicViT predictors: score_predictor.0 .. n_predictors -
                             1 */
    int32_t n_files;      /* number of files that hold the tensors; 0: the caller's memory does */
    int32_t trained_size; /* image size of the position table in the file; it was resampled if
                             image_size differs */
    int64_t weights_size; /* bytes of device memory that the weights of a model take; 0 for a
                             checkpoint */
    /* What the weights may not tell; rvit_checkpoint_fact says where each came from. */
    rvit_activation activation; /* of the MLPs */
    int32_t gated;              /* 1: the MLPs multiply by a gate (SwiGLU) */
    int32_t rms_norm;           /* 1: norms that subtract no mean */
    int32_t norm_pre;           /* 1: a norm between the embedding and the first block */
    int32_t final_norm;         /* 1: a norm after the last block */
    rvit_pooling pooling;
    rvit_position position;
    rvit_resample resample;            /* how the position table was resampled, if it was */
    int32_t image_height, image_width; /* of the input, in pixels */
    /* Preparation of pictures, as the files beside the weights tell it. Values go from 0 to 1
       before mean and std. 0: not told. */
    float mean[3], std[3];
    rvit_filter filter;
    rvit_fit fit;
    float crop; /* share of the resized edges that the model sees */
    /* Width of the vectors that are compared with those of texts (CLIP, SigLIP): what
       RVIT_OUTPUT_PROJECTED gives. 0: the model has none. */
    int32_t embedding_dim;
    rvit_processor processor;
    int32_t resize_height, resize_width;       /* of pictures before the crop, for this image_height and
                                                  image_width. RVIT_FIT_CROP: what their edges have to cover;
                                                  if both are equal, the length of the shorter edge.
                                                  RVIT_FIT_BORDER: what they have to fit into */
    int32_t fill[3];                           /* colour beyond a picture's edges, 0..255 */
    int32_t processor_height, processor_width; /* the input that Hugging Face's processor makes; 0: not told.
                                                  The model takes image_height and image_width */
    int32_t max_patches;                       /* NaFlex: the most patches that a picture is given, the max_patches of
                                                  rvit_naflex_grid; 0: not told */
    /* Towers that merge squares of patches, as Qwen2.5-VL's and Qwen3-VL's do; all 0 of others. They run
       in sessions with rvit_session_desc.native alone; image_height and image_width are then no more
       than the default of max_len. */
    int32_t merge;                  /* patches a side of a square that becomes one row */
    int32_t merged_dim;             /* width of such a row */
    int32_t n_deepstack;            /* blocks whose rows are merged too: RVIT_OUTPUT_DEEPSTACK */
    int32_t window;                 /* side of the windows of attention, in squares; 0: there are none */
    int32_t patch_frames;           /* frames of a patch: those of a still are equal */
    int64_t min_pixels, max_pixels; /* of pictures after the resize, for rvit_qwen_grid; 0: not told */
    int32_t quantization;           /* rvit_quantization of a model; 0 for a checkpoint */
} rvit_model_info;
#define RVIT_MODEL_INFO_INIT RVIT_INIT(rvit_model_info)

/* How the files beside a model prepare pictures. Where they do not tell: crop, bicubic, Pillow's
   resize, and nine tenths of the picture, all of it from 384 pixels on. A NaFlex processor is a squash
   with max_patches above 0. UNSUPPORTED: fit or filter is OTHER, the processor resizes in float32, mean and std are not told, or the model
   does not have three channels. */
RVIT_API RVIT_NODISCARD rvit_status rvit_image_recipe_of_model(const rvit_model_info *info, rvit_image_recipe *out_recipe);

typedef struct rvit_checkpoint_desc {
    size_t struct_size;
    int32_t lenient;                 /* 1: accept tensors that nothing uses, but not in the blocks or
                                        the embedding, where they would belong to what is computed.
                                        score_predictor.*, mask_token, pooler.dense.* and the text
                                        half of CLIP are always accepted */
    const rvit_allocator *allocator; /* copied; NULL: malloc */
    int32_t image_size;              /* 0: the size of the position table; without a table that of a
                                        file beside the weights. Any other size resamples the table
                                        to its grid */
    rvit_resample resample;          /* resampling method */
    float eps;                       /* of the layernorms. 0: not given */
    /* What weights do not tell, where no file beside them does, or against it. 0, NULL: not
       given. */
    int32_t n_heads;
    rvit_activation activation;
    rvit_pooling pooling;
    rvit_position position;
    const char *architecture; /* a name of timm's ("vit_base_patch16_224"), which stands for all of
                                 these; or "vit": exact GELU, eps 1e-6, a position table, a head on
                                 the CLS row */
    int32_t describe;         /* 1: open a model that the library recognises but cannot run, too;
                                 rvit_model_create then gives the reasons */
    const char *config;       /* the text of a config.json, timm's or Hugging Face's, that takes the
                                 place of the files beside the weights and of their metadata; read
                                 during the call. NULL: none */
} rvit_checkpoint_desc;
#define RVIT_CHECKPOINT_DESC_INIT RVIT_INIT(rvit_checkpoint_desc)

/* Reads a .safetensors file, or the files named by an index beside them (*.safetensors.index.json).
   Infers the geometry and checks every tensor against it. Known naming schemes: timm's ViT, DeiT,
   CLIP, EVA and NaFlexViT, DeiT-III, DINOv2, Hugging Face's ViT, DeiT, DINOv2 (with registers), CLIP,
   SigLIP, SigLIP2 (NaFlex too), DINOv3 and AIMv2, open_clip and torchvision, and the vision towers of
   Hugging Face's Qwen2.5-VL and Qwen3-VL, alone or in the files of the whole model. desc may be NULL.

   Weights do not tell everything: neither the number of heads nor the activation, the eps of the
   norms, what the head reads, or whether positions are rotary. These come, the first that knows one
   being believed, from
     1. desc: n_heads, activation, eps, pooling, position, architecture;
     2. the text in desc.config; without it a config.json beside the file (timm's or Hugging
        Face's), an open_clip_config.json, a processor_config.json, a preprocessor_config.json, else
        the text of such a config.json under "config" in the file's metadata. Such a text may hold a
        preprocessor_config.json under "preprocessor_config";
     3. the name of a timm architecture in that file, else under "architecture" in the metadata;
     4. for a Hugging Face file, the defaults of its model_type;
     5. for a bare file with the tensors of published plain models in timm's names that all compute
        the same (the DeiT and ViT but those that others resemble), what these have.
   If none knows, the model is refused, and the detail names the facts and the options that supply
   them. rvit_checkpoint_fact says what was taken from where.

   A prefix that the names of all tensors share ("module.", "model.") is left out of the names.

   Linear layers of the blocks may have 8 bits, all of one kind, as compressed-tensors and ModelOpt
   write them: X.weight of I8 or F8_E4M3, X.weight_scale [rows, 1], [rows] or one, weight = q * scale,
   and optionally X.input_scale, one for all inputs. Scales are F32, F16 or BF16, from 2^-100 to 2^100.

   BAD_FILE names the file and the tensor, or the rule of the format that is broken, or the field of
   the config that is malformed or contradicts the tensors. UNSUPPORTED names all that keeps the
   model from running: facts that are missing, and parts that are recognised but not implemented.
   INVALID_ARGUMENT: image_size is not a multiple of the patch size, or a field of desc is out of
   range or contradicts the tensors. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_open(const char *path, const rvit_checkpoint_desc *desc, rvit_checkpoint **out);

/* A tensor in the caller's memory. */
typedef struct rvit_tensor_desc {
    size_t struct_size;
    const char *name;
    rvit_dtype dtype;
    int32_t rank;         /* 0..8 */
    const int64_t *shape; /* [rank]; NULL with rank 0 */
    const void *data;     /* host memory: contiguous, in the order of rows, of any alignment */
} rvit_tensor_desc;
#define RVIT_TENSOR_DESC_INIT RVIT_INIT(rvit_tensor_desc)

/* A checkpoint of tensors in memory, under the names that a file would have (a state_dict of timm
   or of Hugging Face). tensors [n_tensors]: the caller sets each struct_size, to the same value. The
   descs and shapes are needed during the call only; names and data are borrowed, unchanged, until
   the checkpoint is destroyed. There is no config.json: give what the weights do not tell in desc,
   or its text in desc.config.

   Errors as for rvit_checkpoint_open, of "tensors in memory" instead of a file. INVALID_ARGUMENT: a
   desc is malformed, or two tensors have one name. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_from_tensors(const rvit_tensor_desc *tensors, int32_t n_tensors,
                                                                 const rvit_checkpoint_desc *desc, rvit_checkpoint **out);
RVIT_API void rvit_checkpoint_destroy(rvit_checkpoint *checkpoint);
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_get_info(const rvit_checkpoint *checkpoint, rvit_model_info *out_info);
/* Tensor number `index` in the order of the file's data, file after file: name, dtype name ("F16"),
   rank, shape, and whether the forward uses it. The strings and the shape live as long as the
   checkpoint. INVALID_ARGUMENT past the last one. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_tensor(const rvit_checkpoint *checkpoint, int32_t index, const char **out_name,
                                                           const char **out_dtype, int32_t *out_rank, const int64_t **out_shape,
                                                           int32_t *out_used);
/* Fact number `index` that is known about the model beyond its geometry, for people: its name
   ("activation"), its value ("quick GELU") and where that came from ("config.json: hidden_act", "the
   weights", "given", or what was assumed). The strings live as long as the checkpoint.
   INVALID_ARGUMENT past the last one. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_fact(const rvit_checkpoint *checkpoint, int32_t index, const char **out_name,
                                                         const char **out_value, const char **out_origin);
/* Why a checkpoint that was opened with rvit_checkpoint_desc.describe cannot be run; "" if it can. */
RVIT_API const char *rvit_checkpoint_obstacles(const rvit_checkpoint *checkpoint);
/* The text stored under a key of the file's __metadata__, verbatim; NULL if there is none. It lives
   as long as the checkpoint. */
RVIT_API const char *rvit_checkpoint_metadata(const rvit_checkpoint *checkpoint, const char *key);
/* The name of class `index` in the config.json, be it a file, metadata or given: from label_names
   (timm) or id2label (transformers). A class that these leave out is named by its number. NULL past
   the last class that is named, or if the config names none. It lives as long as the checkpoint. */
RVIT_API const char *rvit_checkpoint_class_name(const rvit_checkpoint *checkpoint, int32_t index);

/* The weights of a checkpoint on a device. Threads and sessions may share it; only
   rvit_model_update changes it. */
typedef struct rvit_model rvit_model;

typedef struct rvit_model_desc {
    size_t struct_size;
    rvit_dtype dtype; /* storage type of weights and activations. Weights that the file stores in it
                         are not rounded, but for those that are folded into others (layer scale,
                         the query of attention pooling). The residual stream, LayerNorm, softmax,
                         biases and sums are always float32, except that a device may round the
                         bias of queries, keys and values, and that before a tanh GELU, to dtype */
    rvit_quantization quantization;
} rvit_model_desc;
#define RVIT_MODEL_DESC_INIT RVIT_INIT(rvit_model_desc)

/* desc may be NULL. The checkpoint is not needed afterwards. Without a quantization weights of 8 bits
   are converted to dtype as others are. With one, a checkpoint that has them is computed with its own:
   their scales, and those of inputs where it has these; layers that it has in 16 or 32 bits stay so.
   UNSUPPORTED: the device does not compute in dtype, or with the quantization; or with a quantization
   dim is not a multiple of 16, or the checkpoint's weights have 8 bits of another kind. */
RVIT_API RVIT_NODISCARD rvit_status rvit_model_create(rvit_device *device, const rvit_checkpoint *checkpoint, const rvit_model_desc *desc,
                                                      rvit_model **out_model);
RVIT_API void rvit_model_destroy(rvit_model *model);

/* What a precision is on a device, for a checkpoint; the same answer every time. AUTO, and 8 bits, read
   the weights on GPUs: f16 is chosen only where it holds what the model can give. UNSUPPORTED: the
   device lacks it, as rvit_model_create would say. BAD_FILE: the weights cannot be read. */
RVIT_API RVIT_NODISCARD rvit_status rvit_precision_choose(const rvit_device *device, const rvit_checkpoint *checkpoint,
                                                          rvit_precision precision, rvit_precision_choice *out_choice);

/* Replaces the weights by those of a checkpoint of the same geometry, in place: sessions stay, and
   their next runs use the new weights. Returns when the weights are on the device. No run of any of
   the model's sessions may be pending, and none may start before it returns: wait or synchronise
   first. INVALID_ARGUMENT: the geometry, the eps or the number of predictors differs, or of a
   quantised model which layers have 8 bits or scales for their inputs; the detail names the field, and
   nothing has changed. After any other failure, as of a file that changed meanwhile, the weights are
   undefined until an update succeeds. */
RVIT_API RVIT_NODISCARD rvit_status rvit_model_update(rvit_model *model, const rvit_checkpoint *checkpoint);
RVIT_API RVIT_NODISCARD rvit_status rvit_model_get_info(const rvit_model *model, rvit_model_info *out_info);

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
