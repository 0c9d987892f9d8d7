#include "core/hf_config.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json_file.h"
#include "core/status.h"

enum { MAX_PATH = 4096, SHOWN_NAME = 96 };

static rvit_status apply(const char *path, const json_t *root, rvit_model_info *info)
{
    const json_t *activation = json_object_get(root, "hidden_act");
    if (activation != NULL && !json_is_string(activation))
        return rvit_fail(RVIT_BAD_FILE, "%s: hidden_act is not a string", path);
    const char *name = activation == NULL ? "gelu" : json_string_value(activation);
    if (strcmp(name, "gelu") != 0 && strcmp(name, "gelu_python") != 0) {
        char shown[SHOWN_NAME];
        rvit_printable(shown, sizeof shown, name);
        return rvit_fail(RVIT_UNSUPPORTED, "%s: hidden_act is '%s'; MLPs have the exact gelu", path, shown);
    }
    const json_t *heads = json_object_get(root, "num_attention_heads");
    if (heads != NULL && !json_is_integer(heads))
        return rvit_fail(RVIT_BAD_FILE, "%s: num_attention_heads is not an integer", path);
    if (heads != NULL && json_integer_value(heads) != info->n_heads)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: num_attention_heads is %lld; a width of %d has %d heads of %d here", path,
                         (long long)json_integer_value(heads), (int)info->dim, (int)info->n_heads, (int)info->head_dim);
    const json_t *eps = json_object_get(root, "layer_norm_eps");
    if (eps == NULL)
        return RVIT_OK;
    const float value = (float)json_number_value(eps);
    if (!json_is_number(eps) || !(value > 0 && isfinite(value)))
        return rvit_fail(RVIT_BAD_FILE, "%s: layer_norm_eps is not a number above 0", path);
    info->eps = value;
    return RVIT_OK;
}

rvit_status rvit_hf_config_apply(const char *path, rvit_alloc *alloc, rvit_model_info *info)
{
    char config[MAX_PATH], shown[RVIT_SHOWN_PATH];
    RVIT_TRY(rvit_path_beside(config, sizeof config, path, "config.json"));
    if (access(config, F_OK) != 0)
        return RVIT_OK;
    json_t *root = NULL;
    RVIT_TRY(rvit_json_read(config, alloc, &root));
    rvit_printable(shown, sizeof shown, config);
    const rvit_status status = apply(shown, root, info);
    json_decref(root);
    return status;
}
