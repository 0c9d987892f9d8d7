#include "nvjpeg_engine.h"

#include <stdlib.h>

#include <raggedvit/cuda.h>

#include "core/base/os.h"

#define MAX_BATCH 32

struct request {
    const unsigned char *data;
    size_t size;
    struct nvjpeg_image image;
    int status;
    bool is_done;
};

struct nvjpeg_engine {
    const struct nvjpeg_library *library;
    nvjpeg_state state;
    rvit_stream *stream;
    void *cu_stream;
    int n_initialised; /* batch size that the state is initialised for; 0: none */
    rvit_mutex lock;   /* protects the fields below */
    rvit_condition changed;
    struct request *waiting[MAX_BATCH];
    int n_waiting;
    bool works; /* a thread is decoding the waiting requests */
};

struct nvjpeg_engine *nvjpeg_engine_create(const struct nvjpeg_library *library, rvit_device *device)
{
    struct nvjpeg_engine *self = library->hardware ? calloc(1, sizeof *self) : NULL;
    if (!self)
        return NULL;
    self->library = library;
    rvit_mutex_init(&self->lock);
    rvit_condition_init(&self->changed);
    if (rvit_stream_create(device, &self->stream) == RVIT_OK && rvit_stream_handle(self->stream, &self->cu_stream) == RVIT_OK &&
        library->call.nvjpegJpegStateCreate(library->hardware, &self->state) == NVJPEG_SUCCESS)
        return self;
    nvjpeg_engine_destroy(self);
    return NULL;
}

void nvjpeg_engine_destroy(struct nvjpeg_engine *self)
{
    if (!self)
        return;
    if (self->state)
        (void)self->library->call.nvjpegJpegStateDestroy(self->state);
    rvit_stream_destroy(self->stream);
    rvit_condition_destroy(&self->changed);
    rvit_mutex_destroy(&self->lock);
    free(self);
}

bool nvjpeg_engine_takes(const struct nvjpeg_engine *self, nvjpeg_stream stream, const void *data, size_t size)
{
    const struct nvjpeg_library *library = self->library;
    int unsupported = 1;
    return library->call.nvjpegJpegStreamParse(library->hardware, data, size, 0, 0, stream) == NVJPEG_SUCCESS &&
           library->call.nvjpegDecodeBatchedSupported(library->hardware, stream, &unsupported) == NVJPEG_SUCCESS && !unsupported;
}

static int decode(struct nvjpeg_engine *self, struct request *const *requests, int n)
{
    const struct nvjpeg_library *library = self->library;
    const unsigned char *data[MAX_BATCH];
    size_t sizes[MAX_BATCH];
    struct nvjpeg_image images[MAX_BATCH];
    int status = NVJPEG_SUCCESS;
    for (int i = 0; i < n; i++) {
        data[i] = requests[i]->data;
        sizes[i] = requests[i]->size;
        images[i] = requests[i]->image;
    }
    if (n != self->n_initialised)
        status = library->call.nvjpegDecodeBatchedInitialize(library->hardware, self->state, n, 1, NVJPEG_RGB_INTERLEAVED);
    if (status == NVJPEG_SUCCESS)
        status = library->call.nvjpegDecodeBatched(library->hardware, self->state, data, sizes, images, self->cu_stream);
    const bool waited = rvit_stream_synchronize(self->stream) == RVIT_OK;
    if (status == NVJPEG_SUCCESS && !waited)
        status = NVJPEG_EXECUTION_FAILED;
    self->n_initialised = status == NVJPEG_SUCCESS ? n : 0; /* reinitialise after a failed batch */
    return status;
}

/* Called with the lock held; releases it while the engines work. */
static void decode_waiting(struct nvjpeg_engine *self)
{
    struct request *requests[MAX_BATCH];
    const int n = self->n_waiting;
    for (int i = 0; i < n; i++)
        requests[i] = self->waiting[i];
    self->n_waiting = 0;
    self->works = true;
    rvit_mutex_unlock(&self->lock);
    const int status = decode(self, requests, n);
    rvit_mutex_lock(&self->lock);
    self->works = false;
    for (int i = 0; i < n; i++) {
        requests[i]->status = status;
        requests[i]->is_done = true;
    }
    rvit_condition_broadcast(&self->changed);
}

int nvjpeg_engine_decode(struct nvjpeg_engine *self, const void *data, size_t size, struct nvjpeg_image image)
{
    struct request request = {.data = data, .size = size, .image = image};
    rvit_mutex_lock(&self->lock);
    while (self->n_waiting == MAX_BATCH)
        rvit_condition_wait(&self->changed, &self->lock);
    self->waiting[self->n_waiting++] = &request;
    while (!request.is_done) {
        if (self->works)
            rvit_condition_wait(&self->changed, &self->lock);
        else
            decode_waiting(self);
    }
    rvit_mutex_unlock(&self->lock);
    return request.status;
}
