/* An instance of a model: sessions for each setting, and memory for batches, which is reused. Used by one thread at a time. */
#ifndef RVIT_TRITON_INSTANCE_H
#define RVIT_TRITON_INSTANCE_H

#include "request.h"

/* Runs requests of one setting. */
struct lane {
    const struct image_plan *plan;
    rvit_session *session; /* or NULL */
    uint8_t *memory;       /* memory for its images */
};

/* A task of the worker pool: an image to fill, or a request whose images to copy. */
struct filling {
    struct batch_image *image;
    struct request *request;
};

struct instance {
    TRITONBACKEND_ModelInstance *handle;
    struct model *model;
    struct engine *engine;
    struct lane lanes[MAX_SETTINGS], small[MAX_SETTINGS]; /* lanes: for all runs; small: for runs that fit model->small */
    struct request *requests;                             /* [n_slots] */
    uint32_t n_slots;
    struct batch_images batch_images;
    rvit_image *images;      /* [max_images], of a run */
    struct filling *filling; /* [max_images] */
    struct worker_job job;
    int32_t *ranked; /* [max_images, top]: the best classes of a request's images */
};

TRITONSERVER_Error *instance_create(TRITONBACKEND_ModelInstance *handle, struct model *model, struct instance **out);
void instance_destroy(struct instance *self);
/* Makes room for n requests. */
bool instance_reserve(struct instance *self, uint32_t n);

#endif
