/* The fake server's backend, models and instances. Functions that get a state never fail: the backend could not free it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_model.h"

struct TRITONBACKEND_Backend {
    fake_object object;
    void *state;
};

struct TRITONBACKEND_BackendAttribute {
    fake_object object;
    uint32_t n_kinds;
    TRITONSERVER_InstanceGroupKind kinds[4];
};

struct TRITONBACKEND_Model {
    fake_object object;
    TRITONBACKEND_Backend *backend;
    char name[64], directory[256];
    json_t *config;
    bool completes;
    void *state;
};

static void free_model(void *object)
{
    json_decref(((TRITONBACKEND_Model *)object)->config);
}

TRITONBACKEND_Backend *fake_backend_new(void)
{
    return fake_object_new(FAKE_BACKEND, sizeof(TRITONBACKEND_Backend), NULL);
}

TRITONBACKEND_BackendAttribute *fake_attribute_new(void)
{
    return fake_object_new(FAKE_ATTRIBUTE, sizeof(TRITONBACKEND_BackendAttribute), NULL);
}

uint32_t fake_attribute_kinds(const TRITONBACKEND_BackendAttribute *attribute, const TRITONSERVER_InstanceGroupKind **kinds)
{
    *kinds = attribute->kinds;
    return attribute->n_kinds;
}

TRITONBACKEND_Model *fake_model_new(TRITONBACKEND_Backend *backend, const char *name, const char *directory, const char *config)
{
    TRITONBACKEND_Model *model = fake_object_new(FAKE_MODEL, sizeof *model, free_model);
    model->backend = backend;
    model->completes = true;
    snprintf(model->name, sizeof model->name, "%s", name);
    snprintf(model->directory, sizeof model->directory, "%s", directory);
    json_error_t error;
    model->config = json_loads(config, 0, &error);
    if (!model->config)
        fail_msg("the test's config is not JSON: %s: %s", error.text, config);
    /* The fields that the server adds, on one line. */
    json_t *defaults = json_loads("{\"platform\": \"\", \"backend\": \"raggedvit\", \"max_batch_size\": 0, \"input\": [], \"output\": [],"
                                  " \"batch_input\": [], \"batch_output\": [], \"default_model_filename\": \"\", \"parameters\": {},"
                                  " \"instance_group\": [{\"kind\": \"KIND_CPU\", \"count\": 1, \"gpus\": []}], \"model_warmup\": []}",
                                  0, NULL);
    json_object_set_new(defaults, "name", json_string(name));
    json_object_update_missing(model->config, defaults);
    json_decref(defaults);
    return model;
}

void fake_model_do_not_complete(TRITONBACKEND_Model *model)
{
    model->completes = false;
}

const json_t *fake_model_config(const TRITONBACKEND_Model *model)
{
    return model->config;
}

TRITONBACKEND_ModelInstance *fake_instance_new(TRITONBACKEND_Model *model, const char *name, TRITONSERVER_InstanceGroupKind kind,
                                               int32_t device)
{
    TRITONBACKEND_ModelInstance *instance = fake_object_new(FAKE_INSTANCE, sizeof *instance, NULL);
    instance->model = model;
    instance->kind = kind;
    instance->device = device;
    snprintf(instance->name, sizeof instance->name, "%s", name);
    return instance;
}

uint64_t fake_instance_images(const TRITONBACKEND_ModelInstance *instance)
{
    return instance->n_images;
}

TRITONSERVER_Error *TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *backend, TRITONSERVER_Message **config)
{
    FAKE_CALL(backend, FAKE_BACKEND);
    static const char text[] = "{\"cmdline\": {\"auto-complete-config\": \"true\", \"backend-directory\": \"backends\"}}";
    return TRITONSERVER_MessageNewFromSerializedJson(config, text, sizeof text - 1);
}

TRITONSERVER_Error *TRITONBACKEND_BackendState(TRITONBACKEND_Backend *backend, void **state)
{
    if (!fake_object_check(backend, FAKE_BACKEND, __func__))
        return fake_failure(__func__);
    *state = backend->state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend *backend, void *state)
{
    if (!fake_object_check(backend, FAKE_BACKEND, __func__))
        return fake_failure(__func__);
    backend->state = state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute *attributes,
                                                                            TRITONSERVER_InstanceGroupKind kind, uint64_t count,
                                                                            const uint64_t *devices, uint64_t n_devices)
{
    (void)count;
    (void)devices;
    FAKE_CALL(attributes, FAKE_ATTRIBUTE);
    if (n_devices > 0 || attributes->n_kinds == 4)
        return fake_failure(__func__);
    attributes->kinds[attributes->n_kinds++] = kind;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name)
{
    FAKE_CALL(model, FAKE_MODEL);
    *name = model->name;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model, uint64_t *version)
{
    FAKE_CALL(model, FAKE_MODEL);
    *version = 1;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model, TRITONBACKEND_ArtifactType *type, const char **location)
{
    FAKE_CALL(model, FAKE_MODEL);
    *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
    *location = model->directory;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version, TRITONSERVER_Message **config)
{
    FAKE_CALL(model, FAKE_MODEL);
    if (config_version != 1)
        fake_broken_rule(__func__, "version %u", config_version);
    char *text = json_dumps(model->config, JSON_COMPACT);
    TRITONSERVER_Error *error = TRITONSERVER_MessageNewFromSerializedJson(config, text, strlen(text));
    free(text);
    return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *model, bool *wanted)
{
    FAKE_CALL(model, FAKE_MODEL);
    *wanted = model->completes;
    return NULL;
}

/* The server uses these fields of a completed configuration; a scheduler only if none was configured. */
TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, uint32_t config_version, TRITONSERVER_Message *message)
{
    FAKE_CALL(model, FAKE_MODEL);
    if (config_version != 1 || !model->completes)
        fake_broken_rule(__func__, "version %u, or auto-completion is disabled", config_version);
    const char *text;
    size_t size;
    TRITONSERVER_Error *error = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
    if (error)
        return error;
    json_t *set = json_loadb(text, size, 0, NULL);
    if (!json_is_object(set)) {
        fake_broken_rule(__func__, "the config is not a JSON object");
        json_decref(set);
        return fake_failure(__func__);
    }
    static const char *const fields[] = {"max_batch_size", "input", "output", "dynamic_batching"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *value = json_object_get(set, fields[i]);
        if (value && (i < 3 || !json_object_get(model->config, fields[i])))
            json_object_set(model->config, fields[i], value);
    }
    json_decref(set);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBackend(TRITONBACKEND_Model *model, TRITONBACKEND_Backend **backend)
{
    FAKE_CALL(model, FAKE_MODEL);
    *backend = model->backend;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model, void **state)
{
    if (!fake_object_check(model, FAKE_MODEL, __func__))
        return fake_failure(__func__);
    *state = model->state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model, void *state)
{
    FAKE_CALL(model, FAKE_MODEL);
    model->state = state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *instance, const char **name)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    *name = instance->name;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance *instance, TRITONSERVER_InstanceGroupKind *kind)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    *kind = instance->kind;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *instance, int32_t *device)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    *device = instance->device;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Model **model)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    *model = instance->model;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *instance, void **state)
{
    if (!fake_object_check(instance, FAKE_INSTANCE, __func__))
        return fake_failure(__func__);
    *state = instance->state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *instance, void *state)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    instance->state = state;
    return NULL;
}
