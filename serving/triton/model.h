/* A model of the server: one version of an entry in its repository. After loading, only the list of engines and the batches change. */
#ifndef RVIT_TRITON_MODEL_H
#define RVIT_TRITON_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "worker_pool.h"
#include "engine.h"
#include "metrics.h"
#include "names.h"
#include "image_plan.h"
#include "tensors.h"

/* Maximum bytes of padding to align an image in a run's memory. */
enum { IMAGE_ALIGNMENT = 128 };

struct model;
/* A batch that the server is building (batcher.c). */
struct batch {
    const struct model *model;
    int64_t images, tokens;
};
enum { MODEL_BATCHES = 8 };

struct model {
    TRITONBACKEND_Model *handle;
    const char *name;
    struct config config;
    struct settings settings;
    struct tensors tensors;
    struct names names; /* only with a head */
    int32_t n_classes;  /* 0: none, also for embedding models, whose "classes" are vector elements */
    int32_t top;
    rvit_checkpoint *checkpoint;
    rvit_model_info info;
    rvit_image_recipe recipe;
    struct image_plan plan;  /* limits of a run */
    struct image_plan small; /* limits of runs with at most small_batch images; max_images 0: unused */
    int32_t max_len;         /* maximum tokens per image */
    struct worker_pool *workers;
    struct metrics metrics;
    pthread_mutex_t lock;   /* protects the fields below */
    struct engine *engines; /* of the instances */
    struct batch batches[MODEL_BATCHES];
    atomic_uint n_batches; /* started batches */
};

TRITONSERVER_Error *model_create(TRITONBACKEND_Model *handle, const struct metric_families *families, struct model **out);
void model_destroy(struct model *self);
/* The model of a handle. */
struct model *model_of(TRITONBACKEND_Model *handle);

#endif
