#include "nvjpeg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raggedvit/cuda.h>

#include "cli.h"
#include "core/base/os.h"
#include "image_file.h"
#include "nvjpeg_engine.h"
#include "nvjpeg_library.h"
#include "orientation.h"
#include "plain_jpeg.h"

/* Each thread has two buffers for an image, and nvJPEG one for its coefficients. */
#define MAX_PIXELS ((int64_t)50 * 1000 * 1000)
#define MARK 16 /* size in bytes */

struct nvjpeg {
    rvit_device *device;
    void *context;
    struct nvjpeg_library library;
    struct nvjpeg_engine *engine; /* NULL if the GPU has none */
    rvit_mutex lock;              /* protects the counts */
    struct nvjpeg_counts counts;
};

struct nvjpeg_decoder {
    struct nvjpeg *shared;
    rvit_stream *stream;
    void *cu_stream;
    nvjpeg_state kernels;
    nvjpeg_stream parsed;
    rvit_buffer *pixels, *readback; /* of equal size, grown on demand */
};

/* The outcome of decoding an image. */
struct outcome {
    enum nvjpeg_way way;
    const char *failed; /* the call that failed, or NULL */
    int status;         /* status of that call */
};

static void create_engine(struct nvjpeg *self)
{
    void *context;
    if (self->library.push_context(self->context) != 0)
        return;
    self->engine = nvjpeg_engine_create(&self->library, self->device);
    (void)self->library.pop_context(&context);
}

int nvjpeg_open(rvit_device *device, struct nvjpeg **out)
{
    char reason[256] = "";
    *out = NULL;
    struct nvjpeg *self = allocate(1, sizeof *self);
    if (!self)
        return EXIT_FAULT;
    *self = (struct nvjpeg){.device = device};
    rvit_mutex_init(&self->lock);
    const rvit_status status = rvit_cuda_device_context(device, &self->context);
    if (status == RVIT_OK && nvjpeg_library_open(self->context, &self->library, reason, sizeof reason)) {
        create_engine(self);
        *out = self;
        return EXIT_OK;
    }
    complain("--decoder nvjpeg", "%s", status == RVIT_OK ? reason : "needs --backend cuda");
    nvjpeg_close(self);
    return EXIT_DEVICE;
}

void nvjpeg_close(struct nvjpeg *self)
{
    if (!self)
        return;
    void *context;
    if (self->engine && self->library.push_context(self->context) == 0) {
        nvjpeg_engine_destroy(self->engine);
        (void)self->library.pop_context(&context);
    }
    nvjpeg_library_close(&self->library, self->context);
    rvit_mutex_destroy(&self->lock);
    free(self);
}

const char *nvjpeg_name(const struct nvjpeg *self)
{
    return self->library.name;
}

struct nvjpeg_counts nvjpeg_count(struct nvjpeg *self)
{
    rvit_mutex_lock(&self->lock);
    const struct nvjpeg_counts counts = self->counts;
    rvit_mutex_unlock(&self->lock);
    return counts;
}

static void count(struct nvjpeg *self, struct outcome outcome)
{
    struct nvjpeg_counts *counts = &self->counts;
    rvit_mutex_lock(&self->lock);
    counts->images[outcome.way]++;
    if (outcome.failed && counts->n_failures++ == 0)
        snprintf(counts->first_failure, sizeof counts->first_failure, "%s: %s", outcome.failed, nvjpeg_status_text(outcome.status));
    rvit_mutex_unlock(&self->lock);
}

/* A decoder */

static bool create_states(struct nvjpeg_decoder *self)
{
    const struct nvjpeg_library *library = &self->shared->library;
    if (library->push_context(self->shared->context) != 0)
        return false;
    void *context;
    const bool ok = library->call.nvjpegJpegStateCreate(library->cuda, &self->kernels) == NVJPEG_SUCCESS &&
                    library->call.nvjpegJpegStreamCreate(library->cuda, &self->parsed) == NVJPEG_SUCCESS;
    (void)library->pop_context(&context);
    return ok;
}

struct nvjpeg_decoder *nvjpeg_decoder_create(struct nvjpeg *shared)
{
    struct nvjpeg_decoder *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->shared = shared;
    if (rvit_stream_create(shared->device, &self->stream) == RVIT_OK && rvit_stream_handle(self->stream, &self->cu_stream) == RVIT_OK &&
        create_states(self))
        return self;
    nvjpeg_decoder_destroy(self);
    return NULL;
}

void nvjpeg_decoder_destroy(struct nvjpeg_decoder *self)
{
    if (!self)
        return;
    const struct nvjpeg_library *library = &self->shared->library;
    void *context;
    if (library->push_context(self->shared->context) == 0) {
        if (self->parsed)
            (void)library->call.nvjpegJpegStreamDestroy(self->parsed);
        if (self->kernels)
            (void)library->call.nvjpegJpegStateDestroy(self->kernels);
        (void)library->pop_context(&context);
    }
    rvit_buffer_destroy(self->pixels);
    rvit_buffer_destroy(self->readback);
    rvit_stream_destroy(self->stream);
    free(self);
}

static struct outcome decode_by_kernels(struct nvjpeg_decoder *self, const unsigned char *data, size_t size, struct nvjpeg_image *image)
{
    const struct nvjpeg_library *library = &self->shared->library;
    struct outcome out = {.way = NVJPEG_BY_KERNELS};
    out.status = library->call.nvjpegDecode(library->cuda, self->kernels, data, size, NVJPEG_RGB_INTERLEAVED, image, self->cu_stream);
    out.failed = out.status == NVJPEG_SUCCESS ? NULL : "nvjpegDecode";
    return out;
}

/* Some engines skip an image and report success. To detect that, the last bytes of the image hold a mark before decoding. */
static const uint8_t mark[MARK] = {1, 254, 85, 170, 254, 1, 170, 85, 3, 252, 90, 165, 252, 3, 165, 90};

struct tail {
    int64_t offset; /* in the image */
    int64_t size;   /* a multiple of 4, to at most 3 bytes beyond the image */
    int64_t n_own;  /* bytes of the tail that belong to the image */
};

static struct tail tail_of(int64_t size)
{
    const int64_t end = (size + 3) / 4 * 4, offset = end > MARK ? end - MARK : 0;
    return (struct tail){offset, end - offset, size - offset};
}

static bool write_mark(struct nvjpeg_decoder *self, rvit_view out, struct tail tail)
{
    out.offset += tail.offset;
    return rvit_stream_write(self->stream, out, mark, tail.size) == RVIT_OK && rvit_stream_synchronize(self->stream) == RVIT_OK;
}

static bool is_overwritten(struct nvjpeg_decoder *self, rvit_view out, struct tail tail)
{
    uint8_t found[MARK];
    out.offset += tail.offset;
    return rvit_stream_read(self->stream, out, found, tail.size) == RVIT_OK && memcmp(found, mark, (size_t)tail.n_own) != 0;
}

/* Decodes a file that plain_jpeg_read accepts to unpadded RGB rows in device memory, and waits. No enqueued work may still use this memory,
   because engines write immediately. The view's offset is a multiple of 4, and it has 3 bytes after the image. If nvJPEG cannot decode it
   (NVJPEG_BY_OTHERS), the contents are undefined. */
static struct outcome decode(struct nvjpeg_decoder *self, const void *data, const struct plain_jpeg *jpeg, rvit_view out)
{
    const struct nvjpeg_library *library = &self->shared->library;
    struct outcome outcome = {.way = NVJPEG_BY_OTHERS};
    uint64_t address;
    if ((int64_t)jpeg->width * jpeg->height > MAX_PIXELS)
        return outcome;
    const struct tail tail = tail_of(3 * (int64_t)jpeg->width * jpeg->height);
    outcome.failed = "the device";
    outcome.status = NVJPEG_EXECUTION_FAILED;
    if (rvit_buffer_handle(out.buffer, &address, NULL) != RVIT_OK || !write_mark(self, out, tail) ||
        library->push_context(self->shared->context) != 0)
        return outcome;
    struct nvjpeg_image image = {.channel = {(unsigned char *)(uintptr_t)(address + (uint64_t)out.offset)},
                                 .pitch = {3 * (size_t)jpeg->width}};
    void *context;
    bool done = false;
    struct nvjpeg_engine *engine = self->shared->engine;
    if (engine && nvjpeg_engine_takes(engine, self->parsed, data, jpeg->size)) {
        outcome = (struct outcome){.way = NVJPEG_BY_ENGINE};
        done = nvjpeg_engine_decode(engine, data, jpeg->size, image) == NVJPEG_SUCCESS && is_overwritten(self, out, tail);
    }
    if (!done) {
        outcome = decode_by_kernels(self, data, jpeg->size, &image);
        if (!outcome.failed && !is_overwritten(self, out, tail))
            outcome = (struct outcome){.failed = "nvjpegDecode", .status = NVJPEG_EXECUTION_FAILED};
    }
    (void)library->pop_context(&context);
    if (outcome.failed)
        outcome.way = NVJPEG_BY_OTHERS;
    return outcome;
}

/* To the host */

static bool grow(struct nvjpeg_decoder *self, int64_t size)
{
    if (self->readback && rvit_buffer_size(self->readback) >= size)
        return true;
    rvit_buffer_destroy(self->pixels);
    rvit_buffer_destroy(self->readback);
    self->pixels = self->readback = NULL;
    size += size / 4; /* images of a folder have similar sizes */
    return rvit_buffer_create(self->shared->device, size, RVIT_BUFFER_DEVICE, &self->pixels) == RVIT_OK &&
           rvit_buffer_create(self->shared->device, size, RVIT_BUFFER_READBACK, &self->readback) == RVIT_OK;
}

/* Decodes into readback. */
static struct outcome decode_to_host(struct nvjpeg_decoder *self, const void *data, const struct plain_jpeg *jpeg)
{
    const int64_t size = 3 * (int64_t)jpeg->width * jpeg->height;
    struct outcome outcome = {NVJPEG_BY_OTHERS, "the device", NVJPEG_ALLOCATOR_FAILURE};
    if (size > 3 * MAX_PIXELS)
        return (struct outcome){.way = NVJPEG_BY_OTHERS};
    if (!self || !grow(self, size + 3))
        return outcome;
    const struct outcome decoded = decode(self, data, jpeg, (rvit_view){self->pixels, 0});
    if (decoded.way == NVJPEG_BY_OTHERS)
        return decoded;
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.source.buffer = self->pixels;
    copy.destination.buffer = self->readback;
    copy.size = (size + 3) / 4 * 4;
    outcome.status = NVJPEG_EXECUTION_FAILED;
    if (rvit_copy(self->stream, &copy) != RVIT_OK || rvit_stream_synchronize(self->stream) != RVIT_OK)
        return outcome;
    return decoded;
}

static bool hand_over(const uint8_t *pixels, int32_t width, int32_t height, const struct image_taker *taker, struct image_error *error)
{
    uint8_t *out = taker->take(taker->user, width, height, error);
    if (out)
        memcpy(out, pixels, 3 * (size_t)width * (size_t)height);
    return out != NULL;
}

static bool hand_over_upright(const uint8_t *pixels, const struct plain_jpeg *jpeg, int orientation, const struct image_taker *taker,
                              struct image_error *error)
{
    struct image image;
    if (orientation == 0)
        return image_fail(error, "out of memory");
    if (orientation == 1)
        return hand_over(pixels, jpeg->width, jpeg->height, taker, error);
    if (!image_create(jpeg->width, jpeg->height, &image, error))
        return false;
    memcpy(image.pixels, pixels, 3 * (size_t)jpeg->width * (size_t)jpeg->height);
    const bool ok = orientation_apply(orientation, &image, error) && hand_over(image.pixels, image.width, image.height, taker, error);
    image_free(&image);
    return ok;
}

bool nvjpeg_load_to(struct nvjpeg *shared, struct nvjpeg_decoder *self, const char *path, const struct image_taker *taker,
                    struct image_error *error)
{
    struct plain_jpeg jpeg;
    struct outcome outcome = {.way = NVJPEG_BY_OTHERS};
    char *data = NULL;
    size_t size = 0;
    if (!image_read_file(path, &data, &size, error))
        return false;
    if (plain_jpeg_read((const uint8_t *)data, size, &jpeg))
        outcome = decode_to_host(self, data, &jpeg);
    count(shared, outcome);
    const bool ok = outcome.way == NVJPEG_BY_OTHERS ? image_decode_to(data, size, taker, error)
                                                    : hand_over_upright(rvit_buffer_host(self->readback), &jpeg,
                                                                        orientation_of_jpeg((const uint8_t *)data, size), taker, error);
    free(data);
    return ok;
}

static uint8_t *create(void *user, int32_t width, int32_t height, struct image_error *error)
{
    struct image *image = user;
    return image_create(width, height, image, error) ? image->pixels : NULL;
}

bool nvjpeg_load(struct nvjpeg *shared, struct nvjpeg_decoder *self, const char *path, struct image *out, struct image_error *error)
{
    struct image image = {0};
    const struct image_taker taker = {create, &image};
    const bool ok = nvjpeg_load_to(shared, self, path, &taker, error);
    if (ok)
        *out = image;
    else
        image_free(&image);
    return ok;
}
