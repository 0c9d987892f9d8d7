/* Checkpoints and models. A checkpoint is one or more .safetensors files, or tensors in memory; a model is a
   checkpoint on a device. */
#ifndef RAGGEDVIT_MODEL_H
#define RAGGEDVIT_MODEL_H

#include <raggedvit/image.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A listing of tensors. Immutable; threads may share it. */
typedef struct rvit_tensors rvit_tensors;

/* Reads and checks the header of a .safetensors file, or of the files that an index names
   (*.safetensors.index.json). allocator is copied; NULL: malloc. BAD_FILE names the file and the broken
   rule of the format. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_open(const char *path, const rvit_allocator *allocator, rvit_tensors **out_tensors);
RVIT_API void rvit_tensors_destroy(rvit_tensors *tensors);
/* 0 of NULL. */
RVIT_API int32_t rvit_tensors_count(const rvit_tensors *tensors);
/* The index of the tensor with this name; -1 if there is none. */
RVIT_API int32_t rvit_tensors_find(const rvit_tensors *tensors, const char *name);

/* The linear layers of a block. */
typedef enum rvit_block_layer { RVIT_LAYER_QKV = 0, RVIT_LAYER_PROJ = 1, RVIT_LAYER_FC1 = 2, RVIT_LAYER_FC2 = 3 } rvit_block_layer;

typedef struct rvit_tensor_info {
    size_t struct_size;
    /* The strings and the shape live as long as the rvit_tensors. */
    const char *name;
    const char *dtype;    /* as the format calls it: "BF16" */
    const int64_t *shape; /* [rank] */
    int64_t size;         /* bytes */
    int32_t rank;
    /* Of rvit_checkpoint_info.tensors; of an opened file 0, -1 and 0. */
    int32_t used;           /* 1: the forward uses the tensor */
    int32_t block;          /* the block whose linear layer has the tensor as its weight, or as a part of it (queries, keys,
                               values; a gate); -1: none */
    rvit_block_layer layer; /* that layer */
} rvit_tensor_info;
#define RVIT_TENSOR_INFO_INIT RVIT_INIT(rvit_tensor_info)
/* Describes tensor `index`. Tensors are in the order of their data, file after file. INVALID_ARGUMENT:
   there is no such tensor. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_get(const rvit_tensors *tensors, int32_t index, rvit_tensor_info *out_info);
/* Reads n values of an F32, F16 or BF16 tensor as float32, from value `first` on. INVALID_ARGUMENT: there is
   no such tensor, or it has fewer values. BAD_FILE: the tensor has another dtype, or the file changed after it
   was opened. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_read(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n,
                                                      float *out_values);

/* Reads n bytes of a tensor of any dtype as the file stores them, little-endian, from byte `first` on. Errors
   as for rvit_tensors_read. */
RVIT_API RVIT_NODISCARD rvit_status rvit_tensors_read_bytes(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n,
                                                            void *out_bytes);

/* int8 and fp8 GEMMs. The weights of a block's linear layers, except those that a checkpoint leaves in 16 or 32
   bits, are quantized when the model is loaded, with one scale per output channel (FP8: one per layer). The inputs
   of these layers are quantized where they are computed (rvit_layernorm, rvit_quantize), with one scale per row
   (FP8: one constant scale that no input exceeds; behind a gate, one per row). The result of an image does not depend
   on its batch. Nothing else changes: the residual stream, norms, softmax and scores are float32; attention, patch
   embedding, mergers, pooling and head use dtype. */
typedef enum rvit_quantization {
    RVIT_QUANTIZATION_NONE = 0,
    RVIT_QUANTIZATION_INT8 = 1, /* qkv, proj, fc1 and fc2 in RVIT_I8: CPU and Vulkan */
    RVIT_QUANTIZATION_FP8 = 2   /* qkv, fc1 and fc2 in RVIT_E4M3, proj in dtype: CUDA; on the CPU a slow reference */
} rvit_quantization;

/* A precision stands for a dtype and a quantization; rvit_precision_choose resolves it. */
typedef enum rvit_precision {
    RVIT_PRECISION_F32 = 0,
    RVIT_PRECISION_F16 = 1,
    RVIT_PRECISION_BF16 = 2,
    /* RVIT_QUANTIZATION_INT8. CPU: dtype is bf16 if the device multiplies it fast (rvit_device_info.native_dtypes),
       else f32. Vulkan: dtype as for FP8 */
    RVIT_PRECISION_INT8 = 3,
    /* RVIT_QUANTIZATION_FP8. dtype is f16, or bf16 if most tensors of the checkpoint are, or if the model may
       overflow f16 */
    RVIT_PRECISION_FP8 = 4,
    /* The fastest precision of the device that is accurate enough for the model. int8 and fp8 are chosen for an
       architecture whose accuracy with them was measured and drops by at most 0.7 points of top-1 (table in
       docs/using.md); otherwise bf16 or f16 if the device multiplies it fast, and otherwise f32. f16 is chosen
       only if no image can overflow it: the weights bound the outputs of norms and GEMMs. The bound does not cover
       DynamicViT's predictors, nor pixels beyond 65504 */
    RVIT_PRECISION_AUTO = 5
} rvit_precision;

typedef struct rvit_precision_choice {
    size_t struct_size;
    rvit_precision precision; /* never AUTO */
    rvit_dtype dtype;         /* for rvit_model_desc */
    rvit_quantization quantization;
    char reason[256]; /* AUTO: one line that says why; otherwise empty */
} rvit_precision_choice;
#define RVIT_PRECISION_CHOICE_INIT RVIT_INIT(rvit_precision_choice)

/* A checkpoint does not belong to a device. `raggedvit inspect` shows one. Immutable; threads may share it. */
typedef struct rvit_checkpoint rvit_checkpoint;

/* How a model turns its rows into one vector per image, the input of its head. */
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

/* How a model encodes the position of a patch. */
typedef enum rvit_position {
    RVIT_POSITION_UNKNOWN = 0,
    RVIT_POSITION_TABLE = 1, /* a table added to the embedding */
    RVIT_POSITION_ROPE = 2,  /* rotary: queries and keys are rotated */
    RVIT_POSITION_BOTH = 3,
    RVIT_POSITION_NONE = 4
} rvit_position;

/* The geometry of a model. */
typedef struct rvit_model_info {
    size_t struct_size;
    char architecture[64]; /* for example "deit_tiny_patch16_224"; derived from the geometry */
    /* The naming scheme of the tensors: "timm", "deit3" (timm's with gamma_1 and gamma_2), "dinov2", "hf" (Hugging
       Face's ViT and DeiT), "hf-dinov2", "hf-dinov3", "hf-clip", "hf-siglip", "hf-aimv2", "open_clip",
       "torchvision", "naflexvit" (timm's), "hf-qwen2.5-vl", "hf-qwen3-vl" */
    char family[32];
    /* The input, in pixels. Rows and columns past the last whole patch are not read. image_size: both, or 0 if
       they differ. A model with merge: only the default of rvit_session_desc.max_len. */
    int32_t image_size, image_height, image_width;
    int32_t patch_size, channels;
    int32_t dim, n_heads, head_dim, depth, mlp_dim;
    int32_t n_prefix;    /* prefix tokens: CLS if any, then the distillation token if any, then the registers */
    int32_t n_registers; /* of these, registers */
    int32_t tokens;      /* n_prefix + patches */
    int32_t n_classes;   /* 0: no head. With attention pooling and no head after it: dim, and the logits are the pooled vectors */
    /* 1: logits are the mean of the CLS head's and the distillation head's. 0 for a distillation token without a
       head of its own, as in some Hugging Face checkpoints */
    int32_t distilled;
    int32_t embedding_dim; /* width of RVIT_OUTPUT_PROJECTED; 0: the model has no such output */
    float eps;             /* of the layernorms */
    /* Weights do not tell these; rvit_checkpoint_info.facts says where each came from. */
    rvit_activation activation; /* of the MLPs */
    int32_t gated;              /* 1: the MLPs multiply by a gate (SwiGLU) */
    int32_t rms_norm;           /* 1: norms that subtract no mean */
    int32_t norm_pre;           /* 1: a norm between the embedding and the first block */
    int32_t final_norm;         /* 1: a norm after the last block */
    rvit_pooling pooling;
    rvit_position position;
    rvit_resample resample; /* how the position table is resampled to another image size */
    /* Vision encoders that merge groups of merge x merge patches (Qwen2.5-VL, Qwen3-VL); 0 for others. They run
       only in sessions with rvit_session_desc.variable_resolution. */
    int32_t merge;
    int32_t merged_dim;   /* width of a merged row */
    int32_t n_deepstack;  /* blocks whose rows are merged too: RVIT_OUTPUT_DEEPSTACK */
    int32_t window;       /* side of an attention window, in merge groups; 0: no windows */
    int32_t patch_frames; /* frames of a patch; those of a still image are equal */
    /* Of a model; 0 for a checkpoint. */
    rvit_quantization quantization;
    int64_t weights_size; /* bytes of device memory of the weights */
} rvit_model_info;
#define RVIT_MODEL_INFO_INIT RVIT_INIT(rvit_model_info)

/* A property of a model beyond its geometry, as text. */
typedef struct rvit_checkpoint_fact {
    const char *name;   /* "activation" */
    const char *value;  /* "quick GELU" */
    const char *origin; /* "config.json: hidden_act", "the weights", "given", or an assumption */
} rvit_checkpoint_fact;

/* The files of a checkpoint. */
typedef struct rvit_checkpoint_info {
    size_t struct_size;
    int64_t n_parameters;  /* elements of the tensors that the forward uses */
    int32_t n_tensors;     /* tensors in the files */
    int32_t n_unknown;     /* of these, tensors that the forward does not use, predictors of other policies among them */
    int32_t n_by_dtype[3]; /* tensors stored as F32, F16, BF16 */
    int32_t n_files;       /* 0: the tensors are in the caller's memory */
    int32_t n_predictors;  /* complete DynamicViT predictors: score_predictor.0 .. n_predictors - 1 */
    int32_t trained_size;  /* image size of the position table; it was resampled if image_size differs */
    /* These live as long as the checkpoint. */
    const rvit_tensors *tensors;       /* its tensors; do not destroy them */
    const char *unsupported;           /* why a checkpoint opened with rvit_checkpoint_desc.describe cannot be run; "" if it can */
    const rvit_checkpoint_fact *facts; /* [n_facts] */
    /* [n_class_names], from label_names (timm) or id2label (transformers) of the config. A class without a name has its
       number as a name. */
    const char *const *class_names;
    int32_t n_facts, n_class_names;
} rvit_checkpoint_info;
#define RVIT_CHECKPOINT_INFO_INIT RVIT_INIT(rvit_checkpoint_info)

/* A tensor in the caller's memory. */
typedef struct rvit_tensor_desc {
    size_t struct_size;
    const char *name;
    rvit_dtype dtype;
    int32_t rank;         /* 0..8 */
    const int64_t *shape; /* [rank]; NULL with rank 0 */
    const void *data;     /* host memory, contiguous, row-major; any alignment */
} rvit_tensor_desc;
#define RVIT_TENSOR_DESC_INIT RVIT_INIT(rvit_tensor_desc)

typedef struct rvit_checkpoint_desc {
    size_t struct_size;
    /* 1: accept tensors that the model does not use, except in the blocks and the embedding, where an unknown tensor
       would take part in the computation. score_predictor.*, mask_token, pooler.dense.* and the text half of CLIP are
       always accepted. */
    int32_t lenient;
    const rvit_allocator *allocator; /* copied; NULL: malloc */
    /* 0: the size of the position table; without a table, the size in a file beside the weights. Another size
       resamples the table. */
    int32_t image_size;
    rvit_resample resample; /* resampling method */
    /* These override the files beside the weights. 0, NULL: not set. */
    float eps; /* of the layernorms */
    int32_t n_heads;
    rvit_activation activation;
    rvit_pooling pooling;
    rvit_position position;
    /* A timm name ("vit_base_patch16_224"), which implies all of these; or "vit": exact GELU, eps 1e-6, a position
       table, a head on the CLS row. */
    const char *architecture;
    /* 1: also open a model that the library recognises but cannot run; rvit_checkpoint_info.unsupported and
       rvit_model_create then say why. */
    int32_t describe;
    /* The text of a config.json of timm or Hugging Face, used in place of the files beside the weights and of their
       metadata. Read during the call only. */
    const char *config;
    /* [n_tensors], instead of files, with the names that a file would have (a state_dict of timm or Hugging Face). The
       caller sets each struct_size, to the same value. The descs and shapes are read during the call only; names and
       data must stay valid and unchanged until the checkpoint is destroyed. The fields above, or a config.json in
       config, supply the facts that weights do not determine. */
    const rvit_tensor_desc *tensors;
    int32_t n_tensors;
} rvit_checkpoint_desc;
#define RVIT_CHECKPOINT_DESC_INIT RVIT_INIT(rvit_checkpoint_desc)

/* Reads a .safetensors file, or the files that an index names (*.safetensors.index.json); path NULL: desc.tensors,
   which messages call "tensors in memory". Infers the geometry and checks every tensor against it. desc may be NULL
   if there is a path. Known naming schemes: timm's ViT, DeiT, CLIP, EVA and
   NaFlexViT; DeiT-III; DINOv2; Hugging Face's ViT, DeiT, DINOv2 (with registers), CLIP, SigLIP, SigLIP2 (NaFlex
   too), DINOv3 and AIMv2; open_clip; torchvision; and the vision encoders of Hugging Face's Qwen2.5-VL and
   Qwen3-VL, by themselves or in the files of the whole model.

   Weights do not determine the number of heads, the activation, the eps of the norms, the pooling, and whether
   positions are rotary. The first of these sources that has a value wins:
     1. desc: n_heads, activation, eps, pooling, position, architecture;
     2. the text in desc.config. Without it, the files beside the weights: config.json (timm or Hugging Face),
        open_clip_config.json, processor_config.json, preprocessor_config.json. Without these, the text of a
        config.json under "config" in the file's metadata. Such a text may contain a preprocessor_config.json under
        "preprocessor_config";
     3. the name of a timm architecture in that config, or under "architecture" in the metadata;
     4. for Hugging Face, the defaults of the config's model_type;
     5. for a bare file in timm's names whose tensors match only published models that all compute the same (DeiT
        and most ViT), the values of these models.
   If no source has a value, the model is refused, and the detail names the missing facts and the options that
   supply them. rvit_checkpoint_info.facts says which source each value came from.

   A prefix that all tensor names share ("module.", "model.") is removed from the names.

   Linear layers of the blocks may be stored quantized, all with one dtype, as compressed-tensors and ModelOpt write
   them: X.weight in I8 or F8_E4M3, X.weight_scale [rows, 1], [rows] or a single value, where weight = q * scale; and
   optionally X.input_scale, a single value. Scales are F32, F16 or BF16, from 2^-100 to 2^100.

   BAD_FILE names the file and the tensor, the broken rule of the format, or the config field that is malformed or
   contradicts the tensors. UNSUPPORTED lists everything that keeps the model from running: missing facts, and parts
   that are recognised but not implemented. INVALID_ARGUMENT: image_size is not a multiple of the patch size; a
   field of desc is out of range or contradicts the tensors; a tensor desc is malformed, or two have the same name; or
   there are both a path and tensors, or neither. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_open(const char *path, const rvit_checkpoint_desc *desc,
                                                         rvit_checkpoint **out_checkpoint);

RVIT_API void rvit_checkpoint_destroy(rvit_checkpoint *checkpoint);
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_get_info(const rvit_checkpoint *checkpoint, rvit_checkpoint_info *out_info);
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_get_model_info(const rvit_checkpoint *checkpoint, rvit_model_info *out_info);
/* How the files beside the weights prepare images for the model. Fields that they do not set have timm's defaults:
   CROP, BICUBIC, Pillow's resize, and a crop of 0.9 below 384 pixels (otherwise 1). fit or filter is OTHER if the
   files ask for something that is not supported; mean and std are 0 if no file sets them. Sessions refuse such a
   recipe with UNSUPPORTED: set these fields first. */
RVIT_API RVIT_NODISCARD rvit_status rvit_checkpoint_get_recipe(const rvit_checkpoint *checkpoint, rvit_image_recipe *out_recipe);
/* The text of a key in the file's __metadata__; NULL if there is none. It lives as long as the checkpoint. */
RVIT_API const char *rvit_checkpoint_metadata(const rvit_checkpoint *checkpoint, const char *key);

/* The weights of a checkpoint on a device. Threads and sessions may share it; only
   rvit_model_update changes it. */
typedef struct rvit_model rvit_model;

typedef struct rvit_model_desc {
    size_t struct_size;
    /* F32, F16 or BF16: storage type of weights and activations. Weights that the file stores in it are not rounded,
       except those that are folded into others (layer scale, the query of attention pooling). The residual stream,
       LayerNorm, softmax, biases and sums are always float32, except that a device may round the bias of queries,
       keys and values, and the bias before a tanh GELU, to dtype. */
    rvit_dtype dtype;
    rvit_quantization quantization;
} rvit_model_desc;
#define RVIT_MODEL_DESC_INIT RVIT_INIT(rvit_model_desc)

/* Loads the weights of a checkpoint, which is not needed afterwards. desc may be NULL. Without a quantization,
   quantized weights of the checkpoint are converted to dtype. With one, the model uses the checkpoint's quantized
   weights with their scales, and its input scales if it has any; layers that the checkpoint has in 16 or 32 bits
   stay in dtype. UNSUPPORTED: the device does not compute in dtype or with the quantization; or, with a
   quantization, dim is not a multiple of 16 or the checkpoint is quantized to another dtype. */
RVIT_API RVIT_NODISCARD rvit_status rvit_model_create(rvit_device *device, const rvit_checkpoint *checkpoint, const rvit_model_desc *desc,
                                                      rvit_model **out_model);
RVIT_API void rvit_model_destroy(rvit_model *model);

/* Resolves a precision for a device and a checkpoint; the result is deterministic. On GPUs, AUTO, INT8 and FP8 read
   the weights, because f16 is chosen only if the model cannot overflow it. UNSUPPORTED: the device lacks the
   precision, as rvit_model_create would say. BAD_FILE: the weights cannot be read. */
RVIT_API RVIT_NODISCARD rvit_status rvit_precision_choose(const rvit_device *device, const rvit_checkpoint *checkpoint,
                                                          rvit_precision precision, rvit_precision_choice *out_choice);

/* Replaces the weights in place with those of a checkpoint of the same geometry. Sessions stay valid, and their next
   runs use the new weights. Returns when the weights are on the device. No run of the model's sessions may be
   pending, and none may start before this returns: wait or synchronise first. INVALID_ARGUMENT: the geometry, the
   eps or the number of predictors differs, or, for a quantized model, the set of quantized layers or of input
   scales; the detail names the field, and nothing has changed. After any other failure, such as a file that changed
   meanwhile, the weights are undefined until an update succeeds. */
RVIT_API RVIT_NODISCARD rvit_status rvit_model_update(rvit_model *model, const rvit_checkpoint *checkpoint);
RVIT_API RVIT_NODISCARD rvit_status rvit_model_get_info(const rvit_model *model, rvit_model_info *out_info);
/* As rvit_checkpoint_get_recipe. */
RVIT_API RVIT_NODISCARD rvit_status rvit_model_get_recipe(const rvit_model *model, rvit_image_recipe *out_recipe);

#ifdef __cplusplus
}
#endif
#endif
