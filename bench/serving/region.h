/* Shared memory of the system's, for requests that carry names in the place of tensors. */
#ifndef RVIT_SERVING_REGION_H
#define RVIT_SERVING_REGION_H

#include <stddef.h>
#include <stdint.h>

typedef struct region {
    char name[48]; /* what the server calls it */
    char key[56];  /* of shm_open */
    uint8_t *memory;
    size_t size;
} region;

/* Ends the program if there is no such memory. role: a part of the name. */
region region_create(const char *role, size_t size);
/* Takes the name from the system; who has mapped the memory keeps it. May be called twice. */
void region_unlink(region *self);
/* Unlinks and unmaps it. */
void region_destroy(region *self);

#endif
