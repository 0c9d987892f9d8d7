/* Checks that the quantization in a config is supported. The tensors show which layers are quantized, and their scales
   (quantized_tensors.h). */
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/read.h"

enum { SHOWN_NAME = 64 };

static const char *const methods[] = {"compressed-tensors", "modelopt"};
static const char *const formats[] = {"float-quantized", "int-quantized", "naive-quantized", "dense"};
static const char *const algorithms[] = {"FP8", "FP8_PER_CHANNEL_PER_TOKEN"};

/* Adds a reason if the field has an unknown value. */
static rvit_status check_name(const rvit_config_reader *r, const rvit_json *object, const char *field, const char *const *known, int n)
{
    char where[RVIT_FACT_WHERE], shown[SHOWN_NAME];
    const char *name = NULL;
    RVIT_TRY(rvit_config_string(r, object, field, &name));
    if (name == NULL)
        return RVIT_OK;
    for (int i = 0; i < n; i++)
        if (strcmp(known[i], name) == 0)
            return RVIT_OK;
    rvit_printable(shown, sizeof shown, name);
    rvit_unsupported_add(r->unsupported, "%s is '%s', which is not supported", rvit_config_where(r, field, where), shown);
    return RVIT_OK;
}

#define CHECK_NAME(r, object, field, known) check_name(r, object, field, known, (int)(sizeof known / sizeof *known))

rvit_status rvit_config_quantization(const rvit_config_reader *r, const rvit_json *root)
{
    rvit_config_reader in = *r;
    const rvit_json *config = NULL;
    RVIT_TRY(rvit_config_object(r, root, "quantization_config", &config));
    if (config == NULL)
        return RVIT_OK;
    in.section = "quantization_config.";
    RVIT_TRY(CHECK_NAME(&in, config, "quant_method", methods));
    RVIT_TRY(CHECK_NAME(&in, config, "format", formats));
    return CHECK_NAME(&in, config, "quant_algo", algorithms);
}

rvit_status rvit_config_modelopt(const rvit_config_reader *r, const rvit_json *root)
{
    rvit_config_reader in = *r;
    const rvit_json *config = NULL;
    RVIT_TRY(rvit_config_object(r, root, "quantization", &config));
    if (config == NULL)
        return RVIT_OK;
    in.section = "quantization.";
    return CHECK_NAME(&in, config, "quant_algo", algorithms);
}
