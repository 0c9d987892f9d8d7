/* The names of enum values. */
#include <stdio.h>
#include <string.h>

#include <raggedvit/raggedvit.h>

#include "core/base/entry.h"
#include "core/base/printable.h"
#include "core/base/status.h"

static const char *const backends[] = {
    [RVIT_BACKEND_AUTO] = "auto", [RVIT_BACKEND_CPU] = "cpu", [RVIT_BACKEND_CUDA] = "cuda", [RVIT_BACKEND_VULKAN] = "vulkan"};
static const char *const tiers[] = {
    [RVIT_TIER_AUTO] = "auto", [RVIT_TIER_SCALAR] = "scalar", [RVIT_TIER_SUBGROUP] = "subgroup", [RVIT_TIER_MATRIX] = "matrix"};
static const char *const device_kinds[] = {
    [RVIT_DEVICE_KIND_UNKNOWN] = "unknown", [RVIT_DEVICE_KIND_DISCRETE] = "discrete", [RVIT_DEVICE_KIND_INTEGRATED] = "integrated",
    [RVIT_DEVICE_KIND_VIRTUAL] = "virtual", [RVIT_DEVICE_KIND_OTHER] = "other",       [RVIT_DEVICE_KIND_CPU] = "cpu"};
static const char *const dtypes[] = {
#define RVIT_ELEMENT(TYPE, name, file_name, PRECISION, precision, size, scaled) [RVIT_##TYPE] = name,
#include "core/base/dtype.def"
    [RVIT_I32] = "int32", [RVIT_U8] = "uint8"};
static const char *const precisions[] = {
#define RVIT_ELEMENT(TYPE, name, file_name, PRECISION, precision, size, scaled) [RVIT_PRECISION_##PRECISION] = precision,
#include "core/base/dtype.def"
    [RVIT_PRECISION_AUTO] = "auto"};
static const char *const quantizations[] = {
    [RVIT_QUANTIZATION_NONE] = "none", [RVIT_QUANTIZATION_INT8] = "int8", [RVIT_QUANTIZATION_FP8] = "fp8"};
static const char *const activations[] = {[RVIT_ACTIVATION_NONE] = "none",
                                          [RVIT_ACTIVATION_GELU] = "gelu",
                                          [RVIT_ACTIVATION_GELU_TANH] = "gelu-tanh",
                                          [RVIT_ACTIVATION_QUICK_GELU] = "quick-gelu",
                                          [RVIT_ACTIVATION_SILU] = "silu"};
static const char *const resamples[] = {[RVIT_RESAMPLE_DEFAULT] = "default",
                                        [RVIT_RESAMPLE_BICUBIC] = "bicubic",
                                        [RVIT_RESAMPLE_BILINEAR] = "bilinear",
                                        [RVIT_RESAMPLE_TIMM] = "timm",
                                        [RVIT_RESAMPLE_BILINEAR_ANTIALIAS] = "bilinear-antialias",
                                        [RVIT_RESAMPLE_ALIGN_CORNERS] = "align-corners",
                                        [RVIT_RESAMPLE_NEAREST] = "nearest"};
static const char *const fits[] = {[RVIT_FIT_UNKNOWN] = "unknown",
                                   [RVIT_FIT_CROP] = "crop",
                                   [RVIT_FIT_SQUASH] = "squash",
                                   [RVIT_FIT_BORDER] = "border",
                                   [RVIT_FIT_OTHER] = "other"};
static const char *const filters[] = {
    [RVIT_FILTER_UNKNOWN] = "unknown", [RVIT_FILTER_BILINEAR] = "bilinear", [RVIT_FILTER_BICUBIC] = "bicubic",
    [RVIT_FILTER_OTHER] = "other",     [RVIT_FILTER_LANCZOS] = "lanczos",   [RVIT_FILTER_BOX] = "box",
    [RVIT_FILTER_HAMMING] = "hamming", [RVIT_FILTER_NEAREST] = "nearest"};
static const char *const processors[] = {[RVIT_PROCESSOR_UNKNOWN] = "unknown",
                                         [RVIT_PROCESSOR_TIMM] = "timm",
                                         [RVIT_PROCESSOR_HF] = "hf",
                                         [RVIT_PROCESSOR_HF_FLOAT] = "hf-float"};
static const char *const poolings[] = {[RVIT_POOLING_UNKNOWN] = "unknown",   [RVIT_POOLING_CLS] = "cls",
                                       [RVIT_POOLING_MEAN] = "mean",         [RVIT_POOLING_MEAN_NORM] = "mean-norm",
                                       [RVIT_POOLING_MEAN_RAW] = "mean-raw", [RVIT_POOLING_CLS_MEAN] = "cls-mean",
                                       [RVIT_POOLING_MAP] = "map",           [RVIT_POOLING_NONE] = "none"};
static const char *const positions[] = {[RVIT_POSITION_UNKNOWN] = "unknown",
                                        [RVIT_POSITION_TABLE] = "table",
                                        [RVIT_POSITION_ROPE] = "rope",
                                        [RVIT_POSITION_BOTH] = "both",
                                        [RVIT_POSITION_NONE] = "none"};
static const char *const prunes[] = {[RVIT_PRUNE_NONE] = "none",
                                     [RVIT_PRUNE_L2] = "l2",
                                     [RVIT_PRUNE_EVIT] = "evit",
                                     [RVIT_PRUNE_MASK] = "mask",
                                     [RVIT_PRUNE_EVIT_FUSED] = "evit-fused",
                                     [RVIT_PRUNE_EVIT_PAPER] = "evit-paper",
                                     [RVIT_PRUNE_L2_THRESHOLD] = "l2-threshold",
                                     [RVIT_PRUNE_DYNAMICVIT] = "dynamicvit",
                                     [RVIT_PRUNE_DYNAMICVIT_GATE] = "dynamicvit-gate",
                                     [RVIT_PRUNE_ATS] = "ats",
                                     [RVIT_PRUNE_ATS_PAPER] = "ats-paper",
                                     [RVIT_PRUNE_TOME] = "tome",
                                     [RVIT_PRUNE_RANDOM] = "random",
                                     [RVIT_PRUNE_RECEIVED] = "received",
                                     [RVIT_PRUNE_FASTERVLM] = "fastervlm",
                                     [RVIT_PRUNE_MAP_PROBE] = "map-probe",
                                     [RVIT_PRUNE_HIPRUNE] = "hiprune",
                                     [RVIT_PRUNE_PIXELPRUNE] = "pixelprune"};

#define NAMES(what, names)                                   \
    {                                                        \
        what, names, (int32_t)(sizeof names / sizeof *names) \
    }
static const struct {
    const char *what;
    const char *const *names; /* by value */
    int32_t n;
} enums[] = {
    [RVIT_ENUM_BACKEND] = NAMES("backend", backends),
    [RVIT_ENUM_TIER] = NAMES("tier", tiers),
    [RVIT_ENUM_DEVICE_KIND] = NAMES("device kind", device_kinds),
    [RVIT_ENUM_DTYPE] = NAMES("dtype", dtypes),
    [RVIT_ENUM_PRECISION] = NAMES("precision", precisions),
    [RVIT_ENUM_QUANTIZATION] = NAMES("quantization", quantizations),
    [RVIT_ENUM_ACTIVATION] = NAMES("activation", activations),
    [RVIT_ENUM_RESAMPLE] = NAMES("resampling", resamples),
    [RVIT_ENUM_FIT] = NAMES("fit", fits),
    [RVIT_ENUM_FILTER] = NAMES("filter", filters),
    [RVIT_ENUM_PROCESSOR] = NAMES("processor", processors),
    [RVIT_ENUM_POOLING] = NAMES("pooling", poolings),
    [RVIT_ENUM_POSITION] = NAMES("position", positions),
    [RVIT_ENUM_PRUNE] = NAMES("pruning policy", prunes),
};

/* Callers may pass any integer as the enum. */
static int is_known(rvit_enum type)
{
    return (int)type >= 0 && (size_t)type < sizeof enums / sizeof *enums;
}

const char *rvit_enum_name(rvit_enum type, int32_t value)
{
    return is_known(type) && value >= 0 && value < enums[type].n ? enums[type].names[value] : "unknown";
}

rvit_status rvit_enum_from_name(rvit_enum type, const char *name, int32_t *out_value)
{
    RVIT_ENTRY;
    if (name == NULL || out_value == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_enum_from_name: name or out_value is NULL");
    if (!is_known(type))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_enum_from_name: type: %d is not a valid rvit_enum", (int)type);
    char known[256] = "", shown[64];
    for (int32_t i = 0; i < enums[type].n; i++) {
        if (strcmp(name, enums[type].names[i]) == 0) {
            *out_value = i;
            return RVIT_OK;
        }
        const size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", enums[type].names[i]);
    }
    rvit_printable(shown, sizeof shown, name);
    return rvit_fail(RVIT_INVALID_ARGUMENT, "no %s is called '%s'; valid names: %s", enums[type].what, shown, known);
}
