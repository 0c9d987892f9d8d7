/* System shared memory, which Triton calls a region. Requests have its name instead of tensors. */
#ifndef RVIT_SERVING_REGION_H
#define RVIT_SERVING_REGION_H

#include <stddef.h>
#include <stdint.h>

typedef struct region {
    char name[48]; /* its name in the server */
    char key[56];  /* of shm_open */
    uint8_t *memory;
    size_t size;
} region;

/* Creates shared memory, and ends the program on failure. role: a part of the name. */
region region_create(const char *role, size_t size);
/* Removes the name from the system; existing mappings stay valid. May be called twice. */
void region_unlink(region *self);
/* Unlinks and unmaps it. */
void region_destroy(region *self);

#endif
