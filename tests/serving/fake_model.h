/* The fake server's model instance, with the statistics reported to it. */
#ifndef RVIT_TESTS_FAKE_MODEL_H
#define RVIT_TESTS_FAKE_MODEL_H

#include "fake_object.h"

struct TRITONBACKEND_ModelInstance {
    fake_object object;
    TRITONBACKEND_Model *model;
    char name[64];
    TRITONSERVER_InstanceGroupKind kind;
    int32_t device;
    void *state;
    uint64_t n_images; /* of the batches reported */
};

#endif
