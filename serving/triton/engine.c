#include "engine.h"

#include <stdlib.h>

#include "failure.h"

static bool is_same(const struct engine *a, const struct engine *b)
{
    return a->backend == b->backend && a->index == b->index && a->n_threads == b->n_threads && a->dtype == b->dtype;
}

static void destroy(struct engine *engine)
{
    rvit_model_destroy(engine->model);
    rvit_device_destroy(engine->device);
    free(engine);
}

static rvit_status open_engine(struct engine *self, const rvit_checkpoint *checkpoint)
{
    rvit_device_desc device = RVIT_DEVICE_DESC_INIT;
    rvit_model_desc model = RVIT_MODEL_DESC_INIT;
    device.backend = self->backend;
    device.index = self->index;
    device.n_threads = self->n_threads;
    rvit_status status = rvit_device_create(&device, &self->device);
    if (status == RVIT_OK)
        status = rvit_precision_choose(self->device, checkpoint, self->dtype, &self->choice);
    model.dtype = self->choice.dtype;
    model.quantization = self->choice.quantization;
    return status == RVIT_OK ? rvit_model_create(self->device, checkpoint, &model, &self->model) : status;
}

TRITONSERVER_Error *engine_get(struct engine **list, const rvit_checkpoint *checkpoint, const struct engine *wanted, bool exclusive,
                               struct engine **out)
{
    for (struct engine *engine = *list; engine && !exclusive; engine = engine->next)
        if (is_same(engine, wanted)) {
            engine->n_users++;
            *out = engine;
            return NULL;
        }
    struct engine *engine = malloc(sizeof *engine);
    if (!engine)
        return failure_out_of_memory();
    *engine = (struct engine){.backend = wanted->backend,
                              .index = wanted->index,
                              .n_threads = wanted->n_threads,
                              .dtype = wanted->dtype,
                              .choice = RVIT_PRECISION_CHOICE_INIT,
                              .n_users = 1,
                              .next = *list};
    const rvit_status status = open_engine(engine, checkpoint);
    if (status != RVIT_OK) {
        TRITONSERVER_Error *error = failure_of_status(status, NULL);
        destroy(engine);
        return error;
    }
    if (engine->choice.reason[0])
        log_line(TRITONSERVER_LOG_INFO, "dtype auto: %s, because %s", rvit_enum_name(RVIT_ENUM_PRECISION, engine->choice.precision),
                 engine->choice.reason);
    *out = *list = engine;
    return NULL;
}

void engine_put(struct engine **list, struct engine *engine)
{
    if (!engine || --engine->n_users > 0)
        return;
    for (struct engine **at = list; *at; at = &(*at)->next)
        if (*at == engine) {
            *at = engine->next;
            break;
        }
    destroy(engine);
}
