/* An instance of a model: a session for each setting, and what a batch needs, which stays and grows. One thread at a time uses it. */
#ifndef RVIT_TRITON_INSTANCE_H
#define RVIT_TRITON_INSTANCE_H

#include "request.h"

/* Where the requests of one setting run. */
struct lane {
    rvit_session *session;
    uint8_t *memory; /* of its pictures */
};

struct instance {
    TRITONBACKEND_ModelInstance *handle;
    struct model *model;
    struct engine *engine;
    struct lane lanes[SETTINGS_MOST];
    struct request *requests; /* [n_slots] */
    uint32_t n_slots;
    struct pictures pictures;
    rvit_image *images;       /* [max_images] of a run */
    struct picture **filling; /* [max_images]: those of a run that the crew fills */
    struct crew_job job;
    int32_t *ranked; /* [max_images, top]: the best classes of a request's pictures */
};

TRITONSERVER_Error *instance_create(TRITONBACKEND_ModelInstance *handle, struct model *model, struct instance **out);
void instance_destroy(struct instance *self);
/* Slots for n requests. */
bool instance_reserve(struct instance *self, uint32_t n);

#endif
