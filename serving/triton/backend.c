/* Entry points that the server calls, except those in execute.c and batcher.c. */
#include <stdlib.h>

#include "failure.h"
#include "instance.h"

/* rvit_log_fn: forwards the library's messages to the server's log. */
static void log_library(void *user, rvit_log_level level, const char *message)
{
    static const TRITONSERVER_LogLevel levels[] = {[RVIT_LOG_ERROR] = TRITONSERVER_LOG_ERROR,
                                                   [RVIT_LOG_WARNING] = TRITONSERVER_LOG_WARN,
                                                   [RVIT_LOG_INFO] = TRITONSERVER_LOG_INFO,
                                                   [RVIT_LOG_DEBUG] = TRITONSERVER_LOG_VERBOSE};
    (void)user;
    log_line(levels[level], "raggedvit: %s", message);
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
    uint32_t major = 0, minor = 0;
    TRY(TRITONBACKEND_ApiVersion(&major, &minor));
    if (major != TRITON_API_MAJOR || minor < TRITON_API_MINOR)
        return failure(TRITONSERVER_ERROR_UNSUPPORTED, "the server's backend API is %u.%u; raggedvit %s needs %d.%d or a later %d.x", major,
                       minor, rvit_version(), TRITON_API_MAJOR, TRITON_API_MINOR, TRITON_API_MAJOR);
    struct metric_families *families = malloc(sizeof *families);
    if (!families)
        return failure_out_of_memory();
    metric_families_make(families);
    TRITONSERVER_Error *error = TRITONBACKEND_BackendSetState(backend, families);
    if (error) {
        metric_families_free(families);
        free(families);
    }
    if (!error)
        rvit_log_set(log_library, NULL);
    return error;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
    void *state = NULL;
    rvit_log_set(NULL, NULL);
    TRY(TRITONBACKEND_BackendState(backend, &state));
    if (state)
        metric_families_free(state);
    free(state);
    return NULL;
}

/* Default instance_group: two instances per GPU, so that one copies and answers while the other computes. Without GPUs one on the CPU,
   which runs one instance at a time. */
TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend, TRITONBACKEND_BackendAttribute *attributes)
{
    (void)backend;
    TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, TRITONSERVER_INSTANCEGROUPKIND_GPU, 2, NULL, 0));
    return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 1, NULL, 0);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *handle)
{
    TRITONBACKEND_Backend *backend = NULL;
    void *families = NULL;
    struct model *model = NULL;
    TRY(TRITONBACKEND_ModelBackend(handle, &backend));
    TRY(TRITONBACKEND_BackendState(backend, &families));
    TRY(model_create(handle, families, &model));
    TRITONSERVER_Error *error = TRITONBACKEND_ModelSetState(handle, model);
    if (error)
        model_destroy(model);
    return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *handle)
{
    model_destroy(model_of(handle));
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *handle)
{
    TRITONBACKEND_Model *model = NULL;
    struct instance *instance = NULL;
    TRY(TRITONBACKEND_ModelInstanceModel(handle, &model));
    TRY(instance_create(handle, model_of(model), &instance));
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceSetState(handle, instance);
    if (error)
        instance_destroy(instance);
    return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *handle)
{
    void *state = NULL;
    TRY(TRITONBACKEND_ModelInstanceState(handle, &state));
    instance_destroy(state);
    return NULL;
}
