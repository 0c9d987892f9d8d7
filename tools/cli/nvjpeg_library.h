/* Opens nvJPEG of the CUDA toolkit at run time. */
#ifndef RVIT_CLI_NVJPEG_LIBRARY_H
#define RVIT_CLI_NVJPEG_LIBRARY_H

#include <stdbool.h>

#include "nvjpeg_api.h"

struct nvjpeg_library {
    struct nvjpeg_functions call;
    char name[64];                /* the opened file */
    nvjpeg_handle cuda, hardware; /* handles for kernels and for JPEG engines; hardware is NULL if the GPU has none */
    int (*push_context)(void *);  /* cuCtxPushCurrent */
    int (*pop_context)(void **);  /* cuCtxPopCurrent */
};

/* Opens the first library that works with the context. On failure, reason [size] says what was not found or is wrong, without a full stop.
 */
bool nvjpeg_library_open(void *cu_context, struct nvjpeg_library *out, char *reason, size_t size);
/* Destroys the handles. The library stays open, because it and CUDA keep state until the process ends. */
void nvjpeg_library_close(struct nvjpeg_library *self, void *cu_context);

/* "out of memory" */
const char *nvjpeg_status_text(int status);

#endif
