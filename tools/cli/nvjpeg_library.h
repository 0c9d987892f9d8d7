/* Opening nvJPEG, of the CUDA toolkit, at run time. */
#ifndef RVIT_CLI_NVJPEG_LIBRARY_H
#define RVIT_CLI_NVJPEG_LIBRARY_H

#include <stdbool.h>

#include "nvjpeg_api.h"

struct nvjpeg_library {
    struct nvjpeg_functions call;
    char name[64];                /* the file's, as it was opened */
    nvjpeg_handle cuda, hardware; /* decoders of kernels, and of engines for JPEG; NULL: the GPU has none */
    int (*push_context)(void *);  /* cuCtxPushCurrent */
    int (*pop_context)(void **);  /* cuCtxPopCurrent */
};

/* Opens the first library that works on the context. reason [size]: on failure a sentence without a full stop: what was looked for, or what
   is wrong with what was found. */
bool nvjpeg_library_open(void *cu_context, struct nvjpeg_library *out, char *reason, size_t size);
/* Ends the handles. The library stays open: it and CUDA keep state to the end of the process. */
void nvjpeg_library_close(struct nvjpeg_library *self, void *cu_context);

/* "out of memory" */
const char *nvjpeg_status_text(int status);

#endif
