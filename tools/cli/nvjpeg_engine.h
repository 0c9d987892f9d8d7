/* The GPU's engines for JPEG. A call for one image keeps one engine busy and costs as much as one for several, so what threads ask for
   meanwhile is decoded together. */
#ifndef RVIT_CLI_NVJPEG_ENGINE_H
#define RVIT_CLI_NVJPEG_ENGINE_H

#include <raggedvit/device.h>

#include "nvjpeg_library.h"

struct nvjpeg_engine;

/* The context is current, here and below. Returns NULL without engines, or without memory. */
struct nvjpeg_engine *nvjpeg_engine_create(const struct nvjpeg_library *library, rvit_device *device);
void nvjpeg_engine_destroy(struct nvjpeg_engine *self);

/* Whether the engines take the file. stream: for parsing, the thread's own. */
bool nvjpeg_engine_takes(const struct nvjpeg_engine *self, nvjpeg_stream stream, const void *data, size_t size);
/* Decodes, together with what other threads ask for, and waits. Returns a status. Success is not to be trusted: see nvjpeg.c. */
int nvjpeg_engine_decode(struct nvjpeg_engine *self, const void *data, size_t size, struct nvjpeg_image image);

#endif
