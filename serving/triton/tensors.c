#include "tensors.h"

#include <string.h>

#include "failure.h"

const struct tensor tensors_inputs[N_INPUTS] = {
    [INPUT_IMAGE] = {"IMAGE", TRITONSERVER_TYPE_UINT8, "TYPE_UINT8"},
    [INPUT_ENCODED] = {"ENCODED", TRITONSERVER_TYPE_BYTES, "TYPE_STRING"},
    [INPUT_PIXELS] = {"PIXELS", TRITONSERVER_TYPE_FP32, "TYPE_FP32"},
};
const struct tensor tensors_outputs[N_OUTPUTS] = {
    [OUTPUT_LOGITS] = {"LOGITS", TRITONSERVER_TYPE_FP32, "TYPE_FP32"},
    [OUTPUT_CLASSES] = {"CLASSES", TRITONSERVER_TYPE_INT32, "TYPE_INT32"},
    [OUTPUT_SCORES] = {"SCORES", TRITONSERVER_TYPE_FP32, "TYPE_FP32"},
    [OUTPUT_LABELS] = {"LABELS", TRITONSERVER_TYPE_BYTES, "TYPE_STRING"},
    [OUTPUT_POOLED] = {"POOLED", TRITONSERVER_TYPE_FP32, "TYPE_FP32"},
    [OUTPUT_EMBEDDING] = {"EMBEDDING", TRITONSERVER_TYPE_FP32, "TYPE_FP32"},
    [OUTPUT_MASK] = {"MASK", TRITONSERVER_TYPE_UINT8, "TYPE_UINT8"},
    [OUTPUT_TOKENS] = {"TOKENS", TRITONSERVER_TYPE_INT32, "TYPE_INT32"},
};

static int find(const struct tensor *tensors, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return i;
    return -1;
}

int tensors_find_input(const char *name)
{
    return find(tensors_inputs, N_INPUTS, name);
}

int tensors_find_output(const char *name)
{
    return find(tensors_outputs, N_OUTPUTS, name);
}

void tensors_of_model(const rvit_model_info *info, bool variable_resolution, int32_t n_classes, int32_t top, struct tensors *out)
{
    const int64_t height = variable_resolution ? -1 : info->image_height, width = variable_resolution ? -1 : info->image_width;
    *out = (struct tensors){
        .input_dims = {[INPUT_IMAGE] = {-1, -1, 3}, [INPUT_ENCODED] = {1}, [INPUT_PIXELS] = {3, height, width}},
        .n_input_dims = {[INPUT_IMAGE] = 3, [INPUT_ENCODED] = 1, [INPUT_PIXELS] = 3},
        .width = {[OUTPUT_LOGITS] = n_classes,
                  [OUTPUT_CLASSES] = top,
                  [OUTPUT_SCORES] = top,
                  [OUTPUT_LABELS] = top,
                  [OUTPUT_EMBEDDING] = info->embedding_dim,
                  [OUTPUT_MASK] = variable_resolution ? 0 : info->tokens,
                  [OUTPUT_TOKENS] = 1},
    };
    if (info->pooling != RVIT_POOLING_NONE && info->pooling != RVIT_POOLING_UNKNOWN)
        out->width[OUTPUT_POOLED] = info->pooling == RVIT_POOLING_CLS_MEAN || info->distilled ? 2 * (int64_t)info->dim : info->dim;
}

/* 64-bit integers may be strings. */
static int64_t integer_of(const json_t *value)
{
    const char *text = json_string_value(value);
    json_t *number = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    const int64_t result = json_integer_value(number ? number : value);
    json_decref(number);
    return result;
}

static bool dims_fit(const json_t *given, const int64_t *dims, int32_t n_dims)
{
    if (json_array_size(given) != (size_t)n_dims)
        return false;
    for (int32_t i = 0; i < n_dims; i++) {
        const int64_t dim = integer_of(json_array_get(given, (size_t)i));
        if (dim != dims[i] && dim != -1 && dims[i] != -1)
            return false;
    }
    return true;
}

static TRITONSERVER_Error *refuse(const char *what, const struct tensor *tensor, const int64_t *dims, int32_t n_dims)
{
    if (n_dims == 3)
        return invalid("%s %s: expected data_type %s and dims [ %lld, %lld, %lld ]", what, tensor->name, tensor->config_type,
                       (long long)dims[0], (long long)dims[1], (long long)dims[2]);
    return invalid("%s %s: expected data_type %s and dims [ %lld ]", what, tensor->name, tensor->config_type, (long long)dims[0]);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static TRITONSERVER_Error *check_input(struct tensors *self, const json_t *given, bool is_only)
{
    const char *name = text_of(given, "name");
    const int kind = tensors_find_input(name);
    if (kind < 0)
        return invalid("unknown input '%.100s', expected IMAGE, ENCODED or PIXELS", name);
    if (strcmp(text_of(given, "data_type"), tensors_inputs[kind].config_type) != 0 ||
        !dims_fit(json_object_get(given, "dims"), self->input_dims[kind], self->n_input_dims[kind]))
        return refuse("input", &tensors_inputs[kind], self->input_dims[kind], self->n_input_dims[kind]);
    if (!is_only && !json_is_true(json_object_get(given, "optional")))
        return invalid("input %s: if there are several inputs, each must be optional, because a request has only one", name);
    if (kind == INPUT_IMAGE && !json_is_true(json_object_get(given, "allow_ragged_batch")))
        log_line(TRITONSERVER_LOG_WARN, "raggedvit: input IMAGE has no allow_ragged_batch: every change of size closes a batch");
    self->inputs |= 1U << kind;
    return NULL;
}

static TRITONSERVER_Error *check_output(struct tensors *self, const json_t *given)
{
    const char *name = text_of(given, "name");
    const int kind = tensors_find_output(name);
    if (kind < 0 || self->width[kind] == 0) {
        char known[256] = "";
        for (int i = 0; i < N_OUTPUTS; i++)
            if (self->width[i] > 0)
                strcat(strcat(known, known[0] ? ", " : ""), tensors_outputs[i].name);
        return invalid("unknown output '%.100s', expected one of %s", name, known);
    }
    if (strcmp(text_of(given, "data_type"), tensors_outputs[kind].config_type) != 0 ||
        !dims_fit(json_object_get(given, "dims"), &self->width[kind], 1))
        return refuse("output", &tensors_outputs[kind], &self->width[kind], 1);
    self->outputs |= 1U << kind;
    return NULL;
}

static json_t *dims_to_json(const int64_t *dims, int32_t n_dims)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n_dims; i++)
        json_array_append_new(array, json_integer(dims[i]));
    return array;
}

static void add_inputs(struct tensors *self, json_t *array)
{
    for (int i = 0; i < N_INPUTS; i++) {
        json_t *input = json_pack("{s:s, s:s, s:o, s:b}", "name", tensors_inputs[i].name, "data_type", tensors_inputs[i].config_type,
                                  "dims", dims_to_json(self->input_dims[i], self->n_input_dims[i]), "optional", 1);
        if (self->input_dims[i][1] == -1)
            json_object_set_new(input, "allow_ragged_batch", json_true());
        json_array_append_new(array, input);
        self->inputs |= 1U << i;
    }
}

/* Pooled vectors are only computed if the configuration declares them. */
static void add_outputs(struct tensors *self, json_t *array)
{
    for (int i = 0; i < N_OUTPUTS; i++) {
        if (self->width[i] == 0 || i == OUTPUT_POOLED)
            continue;
        json_array_append_new(array, json_pack("{s:s, s:s, s:o}", "name", tensors_outputs[i].name, "data_type",
                                               tensors_outputs[i].config_type, "dims", dims_to_json(&self->width[i], 1)));
        self->outputs |= 1U << i;
    }
}

/* The array of that name, created if missing. */
static json_t *array_of(json_t *root, const char *name)
{
    json_t *array = json_object_get(root, name);
    if (json_is_array(array))
        return array;
    array = json_array();
    json_object_set_new(root, name, array);
    return array;
}

/* Uses no queue delay. Then a request starts immediately if an instance is idle, and batches fill while all instances are busy. A delay
   would add latency at low load and gain nothing at high load. It helps if requests arrive in bursts and small runs take nearly as long as
   large ones; then configure it. */
static void add_batching(json_t *root)
{
    static const char *const choices[] = {"dynamic_batching", "sequence_batching", "ensemble_scheduling"};
    for (int i = 0; i < 3; i++)
        if (json_object_get(root, choices[i]))
            return;
    json_object_set_new(root, "dynamic_batching", json_pack("{s:i}", "max_queue_delay_microseconds", 0));
}

/* With a queue policy the scheduler does not prepare batches ahead, and a batch may wait up to 500 ms if no further request arrives. */
static void warn_of_policy(const json_t *root)
{
    const json_t *batching = json_object_get(root, "dynamic_batching"), *policy = json_object_get(batching, "default_queue_policy");
    if (integer_of(json_object_get(policy, "max_queue_size")) > 0 ||
        integer_of(json_object_get(policy, "default_timeout_microseconds")) > 0 ||
        json_is_true(json_object_get(policy, "allow_timeout_override")) || integer_of(json_object_get(batching, "priority_levels")) > 0)
        log_line(TRITONSERVER_LOG_WARN,
                 "raggedvit: dynamic_batching has a queue policy or priorities, so the server prepares no batch ahead, "
                 "and a batch may wait for 500 ms if no further request arrives");
}

static TRITONSERVER_Error *update_server(TRITONBACKEND_Model *model, const json_t *root)
{
    TRITONSERVER_Message *message = NULL;
    char *text = json_dumps(root, JSON_COMPACT);
    if (!text)
        return failure_out_of_memory();
    TRITONSERVER_Error *error = TRITONSERVER_MessageNewFromSerializedJson(&message, text, strlen(text));
    if (!error)
        error = TRITONBACKEND_ModelSetConfig(model, 1, message);
    if (message)
        failure_log(TRITONSERVER_MessageDelete(message), "the configuration's text is not deleted");
    free(text);
    return error;
}

static TRITONSERVER_Error *complete(struct tensors *self, TRITONBACKEND_Model *model, struct config *config)
{
    json_t *inputs = array_of(config->root, "input"), *outputs = array_of(config->root, "output");
    bool wanted = false;
    TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &wanted));
    const bool is_whole = config->max_batch_size > 0 && json_array_size(inputs) > 0 && json_array_size(outputs) > 0;
    if (!wanted && is_whole)
        return NULL;
    if (!wanted)
        return invalid("config.pbtxt needs max_batch_size, input and output if the server does not complete configurations");
    if (config->max_batch_size == 0) {
        config->max_batch_size = 64;
        json_object_set_new(config->root, "max_batch_size", json_integer(config->max_batch_size));
    }
    if (json_array_size(inputs) == 0)
        add_inputs(self, inputs);
    if (json_array_size(outputs) == 0)
        add_outputs(self, outputs);
    add_batching(config->root);
    return update_server(model, config->root);
}

TRITONSERVER_Error *tensors_declare(struct tensors *self, TRITONBACKEND_Model *model, struct config *config)
{
    size_t i;
    json_t *given, *inputs = json_object_get(config->root, "input"), *outputs = json_object_get(config->root, "output");
    json_array_foreach(inputs, i, given) TRY(check_input(self, given, json_array_size(inputs) == 1));
    json_array_foreach(outputs, i, given) TRY(check_output(self, given));
    if (json_object_get(config->root, "sequence_batching"))
        return failure(TRITONSERVER_ERROR_UNSUPPORTED,
                       "sequence_batching is not supported, because images are independent; use dynamic_batching");
    warn_of_policy(config->root);
    return complete(self, model, config);
}
