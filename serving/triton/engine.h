/* A model's weights on a device, shared by the instances on it. */
#ifndef RVIT_TRITON_ENGINE_H
#define RVIT_TRITON_ENGINE_H

#include "api.h"

#include <raggedvit/raggedvit.h>

struct engine {
    rvit_backend backend;
    int32_t index;        /* device index; -1: the first */
    int32_t n_threads;    /* of the CPU; 0: all */
    rvit_precision dtype; /* as requested */
    rvit_precision_choice choice;
    int32_t n_users;
    rvit_device *device;
    rvit_model *model;
    struct engine *next;
};

/* wanted: backend, index, n_threads and dtype. Shares a matching engine unless exclusive. list: the model's engines, with its lock held. */
TRITONSERVER_Error *engine_get(struct engine **list, const rvit_checkpoint *checkpoint, const struct engine *wanted, bool exclusive,
                               struct engine **out);
void engine_put(struct engine **list, struct engine *engine);

#endif
