/* Checkpoints and models. A checkpoint is one or more .safetensors files, or tensors in memory; a model is a
   checkpoint on a device. */
#ifndef RAGGEDVIT_MODEL_H
#define RAGGEDVIT_MODEL_H

#include <raggedvit/image.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable; threads may share it. */
typedef struct rvit_tensors rvit_tensors;

/* Reads and checks the header of a .safetensors file, or of those that an index names
   (*.safetensors.index.json). allocator: copied; NULL: malloc. BAD_FILE names the file and the rule
   of the format that is broken. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_open(const char *path, const rvit_allocator *allocator, rvit_tensors **out);
RVIT_API void rvit_tensors_destroy(rvit_tensors *tensors);
/* 0 of NULL. */
RVIT_API int32_t rvit_tensors_count(const rvit_tensors *tensors);
/* The number of the tensor with this name; -1: there is none. */
RVIT_API int32_t rvit_tensors_find(const rvit_tensors *tensors, const char *name);
/* Tensor number `index`, in the order of the file's data, file after file: name, dtype name ("BF16"),
   rank and shape, of which any may be NULL. The strings and the shape live as long as the tensors.
   INVALID_ARGUMENT past the last one. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_get(const rvit_tensors *tensors, int32_t index, const char **out_name,
                                                     const char **out_dtype, int32_t *out_rank, const int64_t **out_shape);
/* Reads n values of a tensor of type F32, F16 or BF16 as float32, from value `first` on.
   INVALID_ARGUMENT: there is no such tensor, or it has fewer values. BAD_FILE: it is of another type,
   or the file changed since it was opened. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_read(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n,
                                                      float *out_values);

/* Reads n bytes of a tensor of any type as the file stores them, little-endian, from byte `first` on. The
   same failures. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_read_bytes(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n,
                                                            void *out_bytes);
/* The size of a tensor; 0: there is no such tensor. */
RVIT_API int64_t rvit_tensors_size(const rvit_tensors *tensors, int32_t index);

/* Products of 8 bits. The weights of a block's linear layers, but for those that a checkpoint spares, are
   then rows of bytes with a scale for each output channel (FP8: one for all), made when the model is
   loaded; and their inputs rows of bytes with a scale for each row (FP8: one that no input exceeds, but
   behind a gate), made where the rows are computed (rvit_layernorm, rvit_quantize). The result of an
   image still does not depend on its batch. All else is as without: the residual stream, norms, softmax
   and scores are float32, and attention, patches, mergers, poolings and head have dtype. */
typedef enum rvit_quantization {
    RVIT_QUANTIZATION_NONE = 0,
    RVIT_QUANTIZATION_INT8 = 1, /* qkv, proj, fc1 and fc2 in RVIT_I8: for the CPU and for Vulkan */
    RVIT_QUANTIZATION_FP8 = 2   /* qkv, fc1 and fc2 in RVIT_E4M3, proj in dtype: for CUDA; on the CPU a slow reference */
} rvit_quantization;

/* Types by the name that people give, each of which stands for a dtype and a quantization. The first
   three are rvit_dtype's. */
typedef enum rvit_precision {
    RVIT_PRECISION_F32 = 0,
    RVIT_PRECISION_F16 = 1,
    RVIT_PRECISION_BF16 = 2,
    RVIT_PRECISION_INT8 = 3, /* RVIT_QUANTIZATION_INT8; on the CPU dtype is bf16 where the device multiplies it
                                fast (rvit_device_info.native_dtypes), else f32; on Vulkan as of FP8 */
    RVIT_PRECISION_FP8 = 4,  /* RVIT_QUANTIZATION_FP8; dtype is f16, or bf16 if most tensors of the checkpoint are, or if
                                the model may overflow f16 */
    RVIT_PRECISION_AUTO = 5  /* the fastest on the device that is accurate enough for the model. 8 bits are
                                chosen for an architecture whose accuracy with them was measured and falls by
                                at most 0.7 points of top-1 (docs/using.md has the table); else bf16 or f16, where
                                the device multiplies it fast, and else f32. f16 only if no image can overflow it, as
                                the weights tell: they bound what norms and products give.
                                8 bits have the same type beside them. Not bounded: DynamicViT's predictors, and what
                                pixels beyond 65504 give */
} rvit_precision;

typedef struct rvit_precision_choice {
    size_t struct_size;
    rvit_precision precision; /* never AUTO */
    rvit_dtype dtype;         /* these are for rvit_model_desc */
    rvit_quantization quantization;
    char reason[256]; /* of AUTO: why this one, in a line; else empty */
} rvit_precision_choice;
#define RVIT_PRECISION_CHOICE_INIT RVIT_INIT(rvit_precision_choice)

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

#ifdef __cplusplus
}
#endif
#endif
