/* Collects the reasons why a model cannot run. The table in unsupported.c lists the features that the forward lacks. */
#ifndef RVIT_CORE_MODEL_UNSUPPORTED_H
#define RVIT_CORE_MODEL_UNSUPPORTED_H

#include <raggedvit/device.h>

typedef enum rvit_feature {
    RVIT_FEATURE_OTHER_ACTIVATION,
    RVIT_FEATURE_GATED,
    RVIT_FEATURE_SUB_NORM,
    RVIT_FEATURE_QK_NORM,
    RVIT_FEATURE_POST_NORM,
    RVIT_FEATURE_PARALLEL,
    RVIT_FEATURE_OTHER_BLOCK,
    RVIT_FEATURE_DIFFERENTIAL,
    RVIT_FEATURE_META_NAMES,
    RVIT_FEATURE_MIXED_ROPE,
    RVIT_FEATURE_RELATIVE_POSITION,
    RVIT_FEATURE_DISTILLED_REGISTERS,
    RVIT_FEATURE_PRE_LOGITS,
    RVIT_FEATURE_PATCH_NORM,
    RVIT_FEATURE_SINES,
    RVIT_FEATURE_ASPECT,
    RVIT_FEATURE_FACTORED,
    RVIT_FEATURE_CONV_STEM,
    RVIT_FEATURE_HEAD_DIM,
    RVIT_FEATURE_PATCH_ODD,
    RVIT_FEATURE_COUNT
} rvit_feature;

/* The reasons, joined into one text. */
typedef struct rvit_unsupported {
    int32_t n, seen[RVIT_FEATURE_COUNT];
    char text[960];
    size_t used;
} rvit_unsupported;

/* Marks a feature of the model as seen, and adds a reason if the forward lacks it. Repeated calls do nothing. where: what shows it
   ("tensor 'norm_pre.bias'"). */
void rvit_unsupported_feature(rvit_unsupported *unsupported, rvit_feature feature, const char *where);
/* Adds any other reason. */
#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
void rvit_unsupported_add(rvit_unsupported *unsupported, const char *format, ...);
/* UNSUPPORTED with all reasons; OK if there are none. */
rvit_status rvit_unsupported_status(const rvit_unsupported *unsupported, const char *path);

#endif
