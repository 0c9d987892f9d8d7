/* A model of the server: one version of an entry of its repository. What is here does not change once the model is loaded, but for the list
   of engines and the batches. */
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

/* The most bytes that aligning an image in a run's memory takes. */
enum { IMAGE_ALIGNMENT = 128 };

struct model;
/* A batch that the server is putting together (batcher.c). */
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
    struct names names; /* of models with a head */
    int32_t n_classes;  /* 0: none. What a model for embeddings calls so are their elements */
    int32_t top;
    rvit_checkpoint *checkpoint;
    rvit_model_info info;
    struct preprocess recipe;
    struct image_plan plan;  /* its max_images is that of a run */
    struct image_plan small; /* of runs of at most small_batch images; max_images 0: there are none */
    int32_t max_len;         /* the most tokens of an image */
    struct worker_pool *workers;
    struct metrics metrics;
    pthread_mutex_t lock;   /* of what follows */
    struct engine *engines; /* where instances are */
    struct batch batches[MODEL_BATCHES];
    atomic_uint n_batches; /* begun */
};

TRITONSERVER_Error *model_create(TRITONBACKEND_Model *handle, const struct metric_families *families, struct model **out);
void model_destroy(struct model *self);
/* Of a handle. */
struct model *model_of(TRITONBACKEND_Model *handle);

#endif
