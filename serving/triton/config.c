#include "config.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "choices.h"
#include "failure.h"

typedef struct config T;

static const struct option_row rows[] = {
    {"backend", NULL, NULL, OPTION_CHOICE(T, backend, choice_backend, RVIT_BACKEND_AUTO, CHOICE_LAST_BACKEND)},
    {"dtype", NULL, NULL, OPTION_CHOICE(T, dtype, choice_precision, RVIT_PRECISION_F32, RVIT_PRECISION_AUTO), .given = CONFIG_DTYPE},
    {"policy", NULL, NULL, OPTION_TEXT(T, policy)},
    OPTION_PRUNE_ROWS(T, first.desc, 0),
    {"settings", NULL, NULL, OPTION_TEXT(T, further)},
    {"max_tokens", NULL, NULL, OPTION_INTEGER(T, max_tokens, 1, 1 << 24)},
    {"max_patches", NULL, NULL, OPTION_INTEGER(T, max_patches, 1, 1 << 20)},
    {"max_image_bytes", NULL, NULL, OPTION_INTEGER(T, max_image_bytes, 1, (int64_t)1 << 40)},
    {"small_batch", NULL, NULL, OPTION_INTEGER(T, small_batch, 1, 4096)},
    {"top", NULL, NULL, OPTION_INTEGER(T, top, 1, 100)},
    {"labels", NULL, NULL, OPTION_TEXT(T, labels)},
    {"checkpoint", NULL, NULL, OPTION_TEXT(T, checkpoint)},
    {"image_size", NULL, NULL, OPTION_INTEGER(T, image_size, 1, 65536)},
    {"architecture", NULL, NULL, OPTION_TEXT(T, architecture)},
    {"fit", NULL, NULL, OPTION_CHOICE(T, recipe.fit, choice_fit, RVIT_FIT_CROP, RVIT_FIT_BORDER)},
    {"filter", NULL, NULL, OPTION_CHOICE(T, recipe.filter, choice_filter, RVIT_FILTER_BILINEAR, RVIT_FILTER_BICUBIC)},
    {"crop", NULL, NULL, OPTION_NUMBER(T, recipe.crop, 0.1, 1)},
    {"mean", NULL, NULL, OPTION_NUMBERS(T, recipe.mean, 0, 1), .given = RECIPE_MEAN},
    {"std", NULL, NULL, OPTION_NUMBERS(T, recipe.deviation, 0.001, 1), .given = RECIPE_DEVIATION},
    {"threads", NULL, NULL, OPTION_INTEGER(T, threads, 1, 1024)},
    {"decode_threads", NULL, NULL, OPTION_INTEGER(T, decode_threads, 1, 1024)},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };
static const struct option_table table = {"raggedvit", "parameter ", rows, N_ROWS, offsetof(struct config, given), failure_note};

static TRITONSERVER_Error *unknown_parameter(const char *name)
{
    char known[1024] = "";
    for (int i = 0; i < N_ROWS; i++)
        append_text(known, sizeof known, "%s%s", known[0] ? ", " : "", rows[i].name);
    return invalid("unknown parameter '%.100s', expected one of %s", name, known);
}

static TRITONSERVER_Error *set_parameter(struct config *self, const char *name, const json_t *value)
{
    const char *text = json_string_value(json_object_get(value, "string_value"));
    if (strncmp(name, "TRITON_", 7) == 0) /* the server's own */
        return NULL;
    for (int i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        if (!text || !text[0])
            return invalid("parameter %s has no string_value", name);
        return option_table_set(&table, &rows[i], text, self) ? NULL : failure_of_complaint(NULL);
    }
    return unknown_parameter(name);
}

static TRITONSERVER_Error *read_parameters(struct config *self)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(self->root, "parameters"), name, value) TRY(set_parameter(self, name, value));
    self->first.given = self->given & ~(CONFIG_DTYPE | RECIPE_MEAN | RECIPE_DEVIATION);
    return NULL;
}

TRITONSERVER_Error *config_read(TRITONBACKEND_Model *model, struct config *out)
{
    TRITONSERVER_Message *message = NULL;
    const char *text = NULL;
    size_t size = 0;
    json_error_t reason;
    *out = (struct config){.policy = "none", .first = {.desc = RVIT_PRUNE_DESC_INIT}, .checkpoint = "model.safetensors"};
    TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
    TRITONSERVER_Error *error = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
    if (!error && !(out->root = json_loadb(text, size, 0, &reason)))
        error = failure(TRITONSERVER_ERROR_INTERNAL, "the model's configuration is not valid JSON: %s", reason.text);
    failure_log(TRITONSERVER_MessageDelete(message), "the configuration's text is not deleted");
    if (error)
        return error;
    const json_int_t batch = json_integer_value(json_object_get(out->root, "max_batch_size"));
    if (batch < 0 || batch > 4096)
        return invalid("max_batch_size is %lld, expected 1 to 4096, or 0 for 64", (long long)batch);
    out->max_batch_size = (int32_t)batch;
    return read_parameters(out);
}

void config_free(struct config *self)
{
    json_decref(self->root);
    self->root = NULL;
}

int32_t config_processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n;
}
