#include "core/hf_config.h"

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "core/json_file.h"
#include "core/status.h"

enum { MAX_PATH = 4096, SHOWN_NAME = 96 };

static rvit_status apply(const char *path, const rvit_json *root, rvit_model_info *info)
{
    const rvit_json *activation = rvit_json_get(root, "hidden_act");
    if (activation != NULL && activation->type != RVIT_JSON_STRING)
        return rvit_fail(RVIT_BAD_FILE, "%s: hidden_act is not a string", path);
    const char *name = activation == NULL ? "gelu" : activation->string;
    if (strcmp(name, "gelu") != 0 && strcmp(name, "gelu_python") != 0) {
        char shown[SHOWN_NAME];
        rvit_printable(shown, sizeof shown, name);
        return rvit_fail(RVIT_UNSUPPORTED, "%s: hidden_act is '%s', expected the exact 'gelu'", path, shown);
    }
    const rvit_json *heads = rvit_json_get(root, "num_attention_heads");
    if (heads != NULL && heads->type != RVIT_JSON_INTEGER)
        return rvit_fail(RVIT_BAD_FILE, "%s: num_attention_heads is not an integer", path);
    if (heads != NULL && heads->integer != info->n_heads)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: num_attention_heads is %lld; a width of %d has %d heads of %d here", path,
                         (long long)heads->integer, (int)info->dim, (int)info->n_heads, (int)info->head_dim);
    const rvit_json *eps = rvit_json_get(root, "layer_norm_eps");
    if (eps == NULL)
        return RVIT_OK;
    const double number = eps->type == RVIT_JSON_REAL ? eps->real : eps->type == RVIT_JSON_INTEGER ? (double)eps->integer : 0;
    const float value = (float)number;
    if (!(value > 0 && isfinite(value)))
        return rvit_fail(RVIT_BAD_FILE, "%s: layer_norm_eps is not a number above 0", path);
    info->eps = value;
    return RVIT_OK;
}

rvit_status rvit_hf_config_apply(const char *path, rvit_alloc *alloc, rvit_model_info *info)
{
    char config[MAX_PATH], shown[RVIT_SHOWN_PATH];
    RVIT_TRY(rvit_path_beside(config, sizeof config, path, "config.json"));
    if (!rvit_path_exists(config))
        return RVIT_OK;
    rvit_json_file file;
    RVIT_TRY(rvit_json_file_read(config, alloc, &file));
    rvit_printable(shown, sizeof shown, config);
    const rvit_status status = apply(shown, file.root, info);
    rvit_json_file_free(alloc, &file);
    return status;
}
