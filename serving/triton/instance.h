/* An instance of a model: sessions for each setting, and what a batch needs, which stays and grows. One thread at a time uses it. */
#ifndef RVIT_TRITON_INSTANCE_H
#define RVIT_TRITON_INSTANCE_H

#include "request.h"

/* Where requests of one setting run. */
struct lane {
    const struct image_plan *plan;
    rvit_session *session; /* NULL: there is none */
    uint8_t *memory;       /* of its images */
};

/* What the worker pool does for a run: an image that it fills, or a request whose images it copies. */
struct filling {
    struct batch_image *image;
    struct request *request;
};

struct instance {
    TRITONBACKEND_ModelInstance *handle;
    struct model *model;
    struct engine *engine;
    struct lane lanes[SETTINGS_MOST], small[SETTINGS_MOST]; /* of any run; of runs that model->small has room for */
    struct request *requests;                               /* [n_slots] */
    uint32_t n_slots;
    struct batch_images batch_images;
    rvit_image *images;      /* [max_images] of a run */
    struct filling *filling; /* [max_images] */
    struct worker_job job;
    int32_t *ranked; /* [max_images, top]: the best classes of a request's images */
};

TRITONSERVER_Error *instance_create(TRITONBACKEND_ModelInstance *handle, struct model *model, struct instance **out);
void instance_destroy(struct instance *self);
/* Slots for n requests. */
bool instance_reserve(struct instance *self, uint32_t n);

#endif
