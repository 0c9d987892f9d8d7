#include "core/model/unsupported.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/status.h"

/* Features that the forward (core/forward) does not implement yet. Delete the row when you add support. */
static const char *const not_run[RVIT_FEATURE_COUNT] = {
    [RVIT_FEATURE_OTHER_ACTIVATION] = "an unknown activation",
    [RVIT_FEATURE_SUB_NORM] = "a norm inside attention or MLP",
    [RVIT_FEATURE_QK_NORM] = "normalised queries and keys",
    [RVIT_FEATURE_POST_NORM] = "post-norm blocks",
    [RVIT_FEATURE_PARALLEL] = "parallel attention and MLP",
    [RVIT_FEATURE_OTHER_BLOCK] = "blocks or a stem unlike those of a plain Vision Transformer",
    [RVIT_FEATURE_DIFFERENTIAL] = "differential attention",
    [RVIT_FEATURE_META_NAMES] = "the tensor names of DINOv3's own code",
    [RVIT_FEATURE_MIXED_ROPE] = "learned rotary frequencies",
    [RVIT_FEATURE_RELATIVE_POSITION] = "a relative position bias",
    [RVIT_FEATURE_DISTILLED_REGISTERS] = "both a distillation token and register tokens",
    [RVIT_FEATURE_PRE_LOGITS] = "a layer between norm and head (pre_logits)",
    [RVIT_FEATURE_PATCH_NORM] = "a patch norm together with prefix tokens",
    [RVIT_FEATURE_SINES] = "sinusoidal positions",
    [RVIT_FEATURE_ASPECT] = "a position table that keeps its aspect ratio for all images",
    [RVIT_FEATURE_FACTORED] = "factorised position tables (lines and columns)",
    [RVIT_FEATURE_CONV_STEM] = "a convolutional stem",
    [RVIT_FEATURE_HEAD_DIM] = "heads whose width is not a multiple of 8 up to 128",
    [RVIT_FEATURE_PATCH_ODD] = "an odd patch size",
};

static void append(rvit_unsupported *o, const char *format, va_list arguments)
{
    if (o->used < sizeof o->text) {
        o->used += (size_t)snprintf(o->text + o->used, sizeof o->text - o->used, "%s", o->n > 0 ? "; " : "");
        if (o->used < sizeof o->text)
            o->used += (size_t)vsnprintf(o->text + o->used, sizeof o->text - o->used, format, arguments);
    }
    o->n++;
}

void rvit_unsupported_add(rvit_unsupported *unsupported, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(unsupported, format, arguments);
    va_end(arguments);
}

void rvit_unsupported_feature(rvit_unsupported *unsupported, rvit_feature feature, const char *where)
{
    if (unsupported->seen[feature])
        return;
    unsupported->seen[feature] = 1;
    if (not_run[feature] != NULL)
        rvit_unsupported_add(unsupported, "the model has %s, which is not supported (%s)", not_run[feature], where);
}

rvit_status rvit_unsupported_status(const rvit_unsupported *unsupported, const char *path)
{
    return unsupported->n == 0 ? RVIT_OK : rvit_fail(RVIT_UNSUPPORTED, "%s: %s", path, unsupported->text);
}
