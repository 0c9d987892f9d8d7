/* The GPU's JPEG engines. A call for one image uses one engine and costs as much as a call for several, so requests that arrive meanwhile
   are decoded together. */
#ifndef RVIT_CLI_NVJPEG_ENGINE_H
#define RVIT_CLI_NVJPEG_ENGINE_H

#include <raggedvit/device.h>

#include "nvjpeg_library.h"

struct nvjpeg_engine;

/* These functions need the context to be current. Returns NULL without engines or if out of memory. */
struct nvjpeg_engine *nvjpeg_engine_create(const struct nvjpeg_library *library, rvit_device *device);
void nvjpeg_engine_destroy(struct nvjpeg_engine *self);

/* Whether the engines support the file. stream: the thread's own, for parsing. */
bool nvjpeg_engine_takes(const struct nvjpeg_engine *self, nvjpeg_stream stream, const void *data, size_t size);
/* Decodes together with the requests of other threads, and waits. Returns a status. Success may be wrong: see nvjpeg.c. */
int nvjpeg_engine_decode(struct nvjpeg_engine *self, const void *data, size_t size, struct nvjpeg_image image);

#endif
