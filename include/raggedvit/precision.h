/* In what a model computes: its type by name, and products of 8 bits. rvit_precision_choose, in vit.h, says what
   is best on a device. */
#ifndef RAGGEDVIT_PRECISION_H
#define RAGGEDVIT_PRECISION_H

#include <raggedvit/ragged.h>

#ifdef __cplusplus
extern "C" {
#endif

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
/* "none", "int8", "fp8" */
RVIT_API const char *rvit_quantization_name(rvit_quantization quantization);

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
/* "f32", "f16", "bf16", "int8", "fp8", "auto" */
RVIT_API const char *rvit_precision_name(rvit_precision precision);

typedef struct rvit_precision_choice {
    size_t struct_size;
    rvit_precision precision; /* never AUTO */
    rvit_dtype dtype;         /* these are for rvit_model_desc */
    rvit_quantization quantization;
    char reason[256]; /* of AUTO: why this one, in a line; else empty */
} rvit_precision_choice;
#define RVIT_PRECISION_CHOICE_INIT RVIT_INIT(rvit_precision_choice)

#ifdef __cplusplus
}
#endif
#endif
