#include "instance.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

/* Chooses the device and dtype of an instance. The CPU device runs one session at a time on all its threads, so instances that share it
   take turns: while one computes, others decode, copy and answer. The alternative of two devices with one thread each was measured on two
   cores with images of mixed sizes: the same CPU time per image (30 ms, DeiT-T), but a median of 40 to 70 ms instead of 32 ms for one
   client, and of 340 ms instead of 252 to 298 ms for eight, and each device has its own copy of the weights. Small runs do not scale to
   many cores; there the parameter threads gives each instance its own device. */
static TRITONSERVER_Error *choose_engine(const struct instance *self, struct engine *out)
{
    const struct config *config = &self->model->config;
    TRITONSERVER_InstanceGroupKind kind;
    int32_t device = 0;
    TRY(TRITONBACKEND_ModelInstanceKind(self->handle, &kind));
    TRY(TRITONBACKEND_ModelInstanceDeviceId(self->handle, &device));
    *out = (struct engine){.backend = (rvit_backend)config->backend, .index = -1};
    if (out->backend == RVIT_BACKEND_AUTO && kind == TRITONSERVER_INSTANCEGROUPKIND_GPU)
        out->backend = RVIT_BACKEND_CUDA;
    else if (out->backend == RVIT_BACKEND_AUTO && kind == TRITONSERVER_INSTANCEGROUPKIND_CPU)
        out->backend = RVIT_BACKEND_CPU;
    if (out->backend == RVIT_BACKEND_CPU)
        out->n_threads = config->threads;
    else if (kind == TRITONSERVER_INSTANCEGROUPKIND_GPU)
        out->index = device;
    out->dtype = config->given & CONFIG_DTYPE       ? (rvit_precision)config->dtype
                 : out->backend == RVIT_BACKEND_CPU ? RVIT_PRECISION_F32
                                                    : RVIT_PRECISION_F16;
    return NULL;
}

static TRITONSERVER_Error *open_lane(struct instance *self, const struct setting *setting, const struct image_plan *plan, struct lane *out)
{
    const struct model *model = self->model;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = plan->max_images;
    desc.prune = &setting->desc;
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = image_plan_bytes(plan);
    desc.recipe = &plan->recipe;
    if (model->tensors.outputs & 1U << OUTPUT_POOLED)
        desc.outputs |= RVIT_OUTPUT_POOLED;
    if (model->tensors.outputs & 1U << OUTPUT_EMBEDDING)
        desc.outputs |= RVIT_OUTPUT_PROJECTED | RVIT_OUTPUT_NORMALIZED;
    if (plan->variable_resolution) {
        desc.variable_resolution = 1;
        desc.max_tokens = plan->max_tokens;
        desc.max_len = model->max_len;
    }
    const rvit_status status = rvit_session_create(self->engine->model, &desc, &out->session);
    if (status != RVIT_OK)
        return failure_of_status(status, setting->text);
    out->plan = plan;
    out->memory = rvit_session_input_memory(out->session, NULL);
    return NULL;
}

static TRITONSERVER_Error *open_instance(struct instance *self)
{
    struct model *model = self->model;
    struct engine wanted;
    TRY(choose_engine(self, &wanted));
    pthread_mutex_lock(&model->lock);
    TRITONSERVER_Error *error = engine_get(&model->engines, model->checkpoint, &wanted, wanted.n_threads > 0, &self->engine);
    pthread_mutex_unlock(&model->lock);
    if (error)
        return error;
    for (int32_t i = 0; i < model->settings.n; i++) {
        TRY(open_lane(self, &model->settings.list[i], &model->plan, &self->lanes[i]));
        if (model->small.max_images > 0)
            TRY(open_lane(self, &model->settings.list[i], &model->small, &self->small[i]));
    }
    self->images = calloc((size_t)model->plan.max_images, sizeof *self->images);
    self->filling = calloc((size_t)model->plan.max_images, sizeof *self->filling);
    self->ranked = calloc((size_t)model->plan.max_images * (size_t)(model->top + 1), sizeof *self->ranked);
    return self->images && self->filling && self->ranked ? NULL : failure_out_of_memory();
}

TRITONSERVER_Error *instance_create(TRITONBACKEND_ModelInstance *handle, struct model *model, struct instance **out)
{
    struct instance *self = calloc(1, sizeof *self);
    if (!self)
        return failure_out_of_memory();
    self->handle = handle;
    self->model = model;
    worker_job_init(&self->job);
    TRITONSERVER_Error *error = open_instance(self);
    if (error) {
        instance_destroy(self);
        return error;
    }
    *out = self;
    return NULL;
}

void instance_destroy(struct instance *self)
{
    if (!self)
        return;
    for (int32_t i = 0; i < self->model->settings.n; i++)
        rvit_session_destroy(self->lanes[i].session), rvit_session_destroy(self->small[i].session);
    pthread_mutex_lock(&self->model->lock);
    engine_put(&self->model->engines, self->engine);
    pthread_mutex_unlock(&self->model->lock);
    worker_job_destroy(&self->job);
    for (uint32_t i = 0; i < self->n_slots; i++)
        request_free(&self->requests[i]);
    free(self->requests);
    free(self->batch_images.list);
    free(self->images);
    free(self->filling);
    free(self->ranked);
    free(self);
}

bool instance_reserve(struct instance *self, uint32_t n)
{
    if (n <= self->n_slots)
        return true;
    struct request *slots = realloc(self->requests, n * sizeof *slots);
    if (!slots)
        return false;
    memset(slots + self->n_slots, 0, (n - self->n_slots) * sizeof *slots);
    self->requests = slots;
    self->n_slots = n;
    return true;
}
