/* The best precision for a model on a device. */
#include <stdio.h>
#include <string.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/printable.h"
#include "core/model/checkpoint.h"
#include "core/weights/float16_bounds.h"
#include "core/weights/quantize.h"

/* The loss of top-1 accuracy, in points, with 8 bits instead of f32, measured by `raggedvit verify --expect`
   (bench/results/accuracy_8bits.json). Other models were not measured. */
static const struct {
    const char *architecture;
    rvit_precision precision;
    double lost;
    int n_images;
} measured[] = {
    {"deit_tiny_patch16_224", RVIT_PRECISION_INT8, -0.1, 1000},
    {"deit_tiny_patch16_224", RVIT_PRECISION_FP8, 0.3, 1000},
};
#define MAX_LOSS 0.7

static int is_fast(const rvit_device *device, rvit_dtype dtype)
{
    return !device->widens || (device->info.native_dtypes >> dtype & 1) != 0;
}

#define MAX_F16 65000.0 /* below the largest value, 65504, because operands are rounded */

/* The dtype of a model without quantization, or of its layers that are not quantized. */
typedef struct wide_type {
    rvit_dtype dtype;
    char reason[160]; /* why it is not float16; may be empty */
} wide_type;

/* bfloat16 if most of the file is bfloat16 and the device supports it; else float16 if no image can overflow it; else bfloat16 or, without
   support for that, float32. */
static rvit_status find_wide(const rvit_device *device, const rvit_checkpoint *checkpoint, wide_type *out)
{
    const rvit_checkpoint_info *files = &checkpoint->config.files;
    const int has_bf16 = rvit_model_check_dtype(device, RVIT_BF16) == RVIT_OK;
    *out = (wide_type){.dtype = RVIT_BF16};
    if (has_bf16 && 2 * files->n_by_dtype[RVIT_BF16] > files->n_tensors)
        return RVIT_OK;
    double max;
    char where[RVIT_BOUND_NAME];
    RVIT_TRY(rvit_float16_bound(device, checkpoint, &max, where));
    out->dtype = max <= MAX_F16 ? RVIT_F16 : has_bf16 ? RVIT_BF16 : RVIT_F32;
    if (max > MAX_F16)
        snprintf(out->reason, sizeof out->reason, "%s may reach %.3g, but float16 holds at most 65504", where, max);
    return RVIT_OK;
}

static void fill(rvit_precision_choice *choice, const rvit_device *device, rvit_dtype wide, rvit_precision precision)
{
    choice->precision = precision;
    choice->dtype = (rvit_dtype)precision;
    choice->quantization = RVIT_QUANTIZATION_NONE;
    if (precision == RVIT_PRECISION_INT8) {
        choice->dtype = !device->widens ? wide : is_fast(device, RVIT_BF16) ? RVIT_BF16 : RVIT_F32;
        choice->quantization = RVIT_QUANTIZATION_INT8;
    } else if (precision == RVIT_PRECISION_FP8) {
        choice->dtype = wide;
        choice->quantization = RVIT_QUANTIZATION_FP8;
    }
}

static rvit_precision without_8bit(const rvit_device *device, rvit_dtype wide)
{
    if (device->widens)
        return is_fast(device, RVIT_BF16) ? RVIT_PRECISION_BF16 : RVIT_PRECISION_F32;
    return (rvit_precision)wide;
}

/* Whether 8 bits are accurate enough for the model, and why. */
static int passes(const rvit_model_info *info, rvit_precision precision, char reason[256])
{
    const char *name = rvit_enum_name(RVIT_ENUM_PRECISION, precision);
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (measured[i].precision == precision && strcmp(measured[i].architecture, info->architecture) == 0) {
            const int good = measured[i].lost <= MAX_LOSS;
            snprintf(reason, 256, "%s changes the top-1 accuracy of %s by %+.1f points (%d images); the limit is %+.1f", name,
                     info->architecture, -measured[i].lost, measured[i].n_images, -MAX_LOSS);
            return good;
        }
    snprintf(reason, 256, "the accuracy of %s was not measured for %s", name, info->architecture);
    return 0;
}

static void choose(const rvit_device *device, const rvit_checkpoint *checkpoint, const wide_type *wide, rvit_precision_choice *out)
{
    const rvit_model_info *info = &checkpoint->config.info;
    const rvit_precision fast = is_fast(device, RVIT_I8) ? device->fast_8bit : RVIT_PRECISION_AUTO,
                         other = without_8bit(device, wide->dtype);
    if (fast == RVIT_PRECISION_AUTO) {
        fill(out, device, wide->dtype, other);
        snprintf(out->reason, sizeof out->reason, "8-bit GEMMs are not faster on this device%s%s", wide->reason[0] ? "; " : "",
                 wide->reason);
        return;
    }
    fill(out, device, wide->dtype, fast);
    if (rvit_quantization_check(device, out->quantization, out->dtype, checkpoint) != RVIT_OK) {
        char shown[sizeof out->reason - 32]; /* printable keeps the ends, which name the cause */
        rvit_printable(shown, sizeof shown, rvit_status_detail());
        snprintf(out->reason, sizeof out->reason, "%s is not possible: %s", rvit_enum_name(RVIT_ENUM_PRECISION, fast), shown);
        fill(out, device, wide->dtype, other);
    } else if (checkpoint->config.quantized_dtype != 0) {
        snprintf(out->reason, sizeof out->reason, "the checkpoint's weights are %s", rvit_enum_name(RVIT_ENUM_PRECISION, fast));
    } else if (!passes(info, fast, out->reason)) {
        fill(out, device, wide->dtype, other);
    }
    const size_t n = strlen(out->reason);
    if (wide->reason[0])
        snprintf(out->reason + n, sizeof out->reason - n, "; %s", wide->reason);
}

/* Whether the choice depends on float16's range, which requires reading the weights. */
static int needs_wide(const rvit_device *device, rvit_precision precision)
{
    return precision == RVIT_PRECISION_FP8 || (!device->widens && (precision == RVIT_PRECISION_AUTO || precision == RVIT_PRECISION_INT8));
}

rvit_status rvit_precision_choose(const rvit_device *device, const rvit_checkpoint *checkpoint, rvit_precision precision,
                                  rvit_precision_choice *out_choice)
{
    RVIT_ENTRY;
    if (device == NULL || checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_precision_choose: device or checkpoint is NULL");
    if ((int)precision < 0 || precision > RVIT_PRECISION_AUTO)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_precision_choose: precision: %d is not a valid precision", (int)precision);
    wide_type wide = {.dtype = RVIT_F16};
    rvit_precision_choice choice = RVIT_PRECISION_CHOICE_INIT;
    const rvit_detail kept = rvit_detail_keep();
    if (needs_wide(device, precision) && checkpoint->unsupported.text[0] == '\0')
        RVIT_TRY(find_wide(device, checkpoint, &wide));
    if (precision == RVIT_PRECISION_AUTO)
        choose(device, checkpoint, &wide, &choice);
    else /* a requested 8-bit precision is combined with 16 bits, never 32 */
        fill(&choice, device, wide.dtype == RVIT_F32 ? RVIT_F16 : wide.dtype, precision);
    (void)rvit_detail_restore(&kept, RVIT_OK);
    RVIT_TRY(rvit_model_check_dtype(device, choice.dtype));
    RVIT_TRY(rvit_quantization_check(device, choice.quantization, choice.dtype, checkpoint));
    return rvit_args_return(out_choice, &choice, sizeof choice, "precision choice");
}
