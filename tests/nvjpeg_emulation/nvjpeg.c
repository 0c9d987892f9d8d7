/* Emulates nvJPEG for the emulated CUDA driver (../cuda_emulation): libjpeg decodes, and the pixels are copied to the device when the
   stream reaches the copy. It refuses the same files as nvJPEG. A line "nvJPEG emulation: ..." on standard error reports an error of the
   caller: no current context, a state used by two threads, an engine used while the stream has work, objects used after they were freed or
   never freed.

   RVIT_EMU_NVJPEG_ENGINES=1       the device has JPEG engines, for baseline files only
   RVIT_EMU_NVJPEG_VERSION=12.0    the version to report (default 13.0)
   RVIT_EMU_NVJPEG_CREATE=5        nvjpegCreateEx returns this status
   RVIT_EMU_NVJPEG_STATES=n        creating the n-th state and all later ones fails: out of memory
   RVIT_EMU_NVJPEG_FAIL=n          decoding the n-th image and all later ones fails, with kernels and engines
   RVIT_EMU_NVJPEG_FAIL_ENGINES=1  engines fail
   RVIT_EMU_NVJPEG_SKIP=1          engines report success and write nothing; 2: so do kernels
   RVIT_EMU_NVJPEG_SWAP=1          swaps red and blue, so that its images differ from libjpeg's */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tools/cli/nvjpeg_api.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_IMAGES 64

#define DECLARE(name, parameters) EXPORT int name parameters;
NVJPEG_FUNCTIONS(DECLARE)

struct nvjpeg_handle_object {
    bool is_engine;
    unsigned flags;
    _Atomic int n_users; /* states and streams */
};

struct nvjpeg_state_object {
    nvjpeg_handle handle;
    atomic_flag busy;
    int n_images;                       /* of the batch */
    unsigned char *pixels[MOST_IMAGES]; /* sources of enqueued copies */
};

struct nvjpeg_stream_object {
    nvjpeg_handle handle;
    int n_components;
    bool is_progressive;
};

static _Atomic int n_objects, n_states, n_images_seen;

__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("nvJPEG emulation: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static int setting(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

__attribute__((destructor)) static void at_end(void)
{
    if (n_objects > 0)
        report("%d objects were never freed", n_objects);
}

/* The driver */

/* out: a pointer to a function. */
static bool driver_function(const char *name, void *out)
{
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = driver ? dlsym(driver, name) : NULL;
    if (!function)
        report("no %s in libcuda.so.1", name);
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static bool has_context(const char *call)
{
    int (*get)(void **);
    void *context = NULL;
    if (driver_function("cuCtxGetCurrent", &get) && get(&context) == 0 && context)
        return true;
    report("%s without a current context", call);
    return false;
}

static bool is_drained(void *stream)
{
    int (*query)(void *);
    return driver_function("cuStreamQuery", &query) && query(stream) == 0;
}

static bool copy(void *to, const void *from, size_t size, void *stream)
{
    int (*copy_async)(uint64_t, const void *, size_t, void *);
    return driver_function("cuMemcpyHtoDAsync_v2", &copy_async) && copy_async((uint64_t)(uintptr_t)to, from, size, stream) == 0;
}

/* libjpeg warns about damaged data; nvJPEG decodes it silently */

struct reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    jmp_buf escape;
    unsigned char *pixels;
};

static void on_error(j_common_ptr jpeg)
{
    longjmp(((struct reading *)jpeg->client_data)->escape, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    (void)jpeg;
    (void)level;
}

static void begin_reading(struct reading *self, const unsigned char *data, size_t size)
{
    self->pixels = NULL;
    self->jpeg.err = jpeg_std_error(&self->manager);
    self->manager.error_exit = on_error;
    self->manager.emit_message = on_message;
    self->jpeg.client_data = self;
    jpeg_create_decompress(&self->jpeg);
    jpeg_mem_src(&self->jpeg, data, (unsigned long)size);
    jpeg_read_header(&self->jpeg, TRUE);
}

static int read_kind(const unsigned char *data, size_t size, int *out_components, bool *out_is_progressive)
{
    struct reading self;
    if (setjmp(self.escape)) {
        jpeg_destroy_decompress(&self.jpeg);
        return NVJPEG_BAD_JPEG;
    }
    begin_reading(&self, data, size);
    *out_components = self.jpeg.num_components;
    *out_is_progressive = self.jpeg.progressive_mode;
    jpeg_destroy_decompress(&self.jpeg);
    return NVJPEG_SUCCESS;
}

static int read_pixels(const unsigned char *data, size_t size, unsigned char **out_pixels, size_t *out_width, size_t *out_height)
{
    struct reading self;
    if (setjmp(self.escape)) {
        free(self.pixels);
        jpeg_destroy_decompress(&self.jpeg);
        return NVJPEG_BAD_JPEG;
    }
    begin_reading(&self, data, size);
    self.jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&self.jpeg);
    *out_width = self.jpeg.output_width;
    *out_height = self.jpeg.output_height;
    self.pixels = malloc(3 * *out_width * *out_height);
    while (self.pixels && self.jpeg.output_scanline < self.jpeg.output_height) {
        JSAMPROW line = self.pixels + 3 * *out_width * self.jpeg.output_scanline;
        jpeg_read_scanlines(&self.jpeg, &line, 1);
    }
    jpeg_destroy_decompress(&self.jpeg);
    *out_pixels = self.pixels;
    return self.pixels ? NVJPEG_SUCCESS : NVJPEG_ALLOCATOR_FAILURE;
}

/* Handles, states and streams */

EXPORT int nvjpegGetProperty(int property, int *out_value)
{
    const char *version = getenv("RVIT_EMU_NVJPEG_VERSION"), *dot;
    version = version ? version : "13.0";
    dot = strchr(version, '.');
    *out_value = property == NVJPEG_MAJOR ? atoi(version) : dot ? atoi(dot + 1) : 0;
    return NVJPEG_SUCCESS;
}

EXPORT int nvjpegCreateEx(int backend, void *device_allocator, void *pinned_allocator, unsigned flags, nvjpeg_handle *out_handle)
{
    const int status = setting("RVIT_EMU_NVJPEG_CREATE");
    if (!has_context(__func__) || (backend != NVJPEG_DEFAULT && backend != NVJPEG_HARDWARE) || device_allocator || pinned_allocator)
        return NVJPEG_INVALID_PARAMETER;
    if (!(flags & NVJPEG_INTERPOLATES))
        report("chroma would not be interpolated");
    if (status)
        return status;
    if (backend == NVJPEG_HARDWARE && !setting("RVIT_EMU_NVJPEG_ENGINES"))
        return NVJPEG_ARCH_MISMATCH;
    *out_handle = calloc(1, sizeof **out_handle);
    (*out_handle)->is_engine = backend == NVJPEG_HARDWARE;
    (*out_handle)->flags = flags;
    n_objects++;
    return NVJPEG_SUCCESS;
}

EXPORT int nvjpegDestroy(nvjpeg_handle handle)
{
    if (!has_context(__func__))
        return NVJPEG_NOT_INITIALIZED;
    if (handle->n_users > 0)
        report("a handle was destroyed before %d of its states and streams", handle->n_users);
    free(handle);
    n_objects--;
    return NVJPEG_SUCCESS;
}

EXPORT int nvjpegJpegStateCreate(nvjpeg_handle handle, nvjpeg_state *out_state)
{
    const int most = setting("RVIT_EMU_NVJPEG_STATES"), number = ++n_states;
    if (!has_context(__func__))
        return NVJPEG_NOT_INITIALIZED;
    if (most > 0 && number >= most)
        return NVJPEG_ALLOCATOR_FAILURE;
    *out_state = calloc(1, sizeof **out_state);
    (*out_state)->handle = handle;
    atomic_flag_clear(&(*out_state)->busy);
    handle->n_users++;
    n_objects++;
    return NVJPEG_SUCCESS;
}

static void free_pixels(nvjpeg_state state)
{
    for (int i = 0; i < MOST_IMAGES; i++) {
        free(state->pixels[i]);
        state->pixels[i] = NULL;
    }
}

EXPORT int nvjpegJpegStateDestroy(nvjpeg_state state)
{
    if (!has_context(__func__))
        return NVJPEG_NOT_INITIALIZED;
    state->handle->n_users--;
    free_pixels(state);
    free(state);
    n_objects--;
    return NVJPEG_SUCCESS;
}

EXPORT int nvjpegJpegStreamCreate(nvjpeg_handle handle, nvjpeg_stream *out_stream)
{
    *out_stream = calloc(1, sizeof **out_stream);
    (*out_stream)->handle = handle;
    handle->n_users++;
    n_objects++;
    return NVJPEG_SUCCESS;
}

EXPORT int nvjpegJpegStreamDestroy(nvjpeg_stream stream)
{
    stream->handle->n_users--;
    free(stream);
    n_objects--;
    return NVJPEG_SUCCESS;
}

EXPORT int nvjpegJpegStreamParse(nvjpeg_handle handle, const unsigned char *data, size_t size, int saves_metadata, int saves_stream,
                                 nvjpeg_stream stream)
{
    (void)handle;
    (void)saves_metadata;
    (void)saves_stream;
    return read_kind(data, size, &stream->n_components, &stream->is_progressive);
}

EXPORT int nvjpegDecodeBatchedSupported(nvjpeg_handle handle, nvjpeg_stream stream, int *out_unsupported)
{
    *out_unsupported = handle->is_engine && (stream->is_progressive || stream->n_components == 4);
    return NVJPEG_SUCCESS;
}

/* Decoding */

static int decode(nvjpeg_state state, int place, const unsigned char *data, size_t size, const struct nvjpeg_image *image, void *cu_stream)
{
    const int first_failure = setting("RVIT_EMU_NVJPEG_FAIL"), number = ++n_images_seen, skip = setting("RVIT_EMU_NVJPEG_SKIP");
    int n_components = 0;
    bool is_progressive = false;
    size_t width = 0, height = 0;
    int status = read_kind(data, size, &n_components, &is_progressive);
    if (status == NVJPEG_SUCCESS && (n_components == 4 || (state->handle->is_engine && is_progressive)))
        status = NVJPEG_JPEG_NOT_SUPPORTED;
    if (first_failure > 0 && number >= first_failure)
        status = NVJPEG_EXECUTION_FAILED;
    if (state->handle->is_engine && setting("RVIT_EMU_NVJPEG_FAIL_ENGINES"))
        status = NVJPEG_INTERNAL_ERROR;
    if (status != NVJPEG_SUCCESS || skip == 2 || (skip == 1 && state->handle->is_engine))
        return status;
    status = read_pixels(data, size, &state->pixels[place], &width, &height);
    if (status != NVJPEG_SUCCESS)
        return status;
    for (size_t i = 0; setting("RVIT_EMU_NVJPEG_SWAP") && i < width * height; i++) {
        unsigned char *pixel = state->pixels[place] + 3 * i, red = pixel[0];
        pixel[0] = pixel[2];
        pixel[2] = red;
    }
    for (size_t y = 0; y < height; y++)
        if (!copy(image->channel[0] + y * image->pitch[0], state->pixels[place] + 3 * y * width, 3 * width, cu_stream))
            return NVJPEG_EXECUTION_FAILED;
    return NVJPEG_SUCCESS;
}

static bool enter(nvjpeg_state state, const char *call, void *cu_stream)
{
    if (!has_context(call))
        return false;
    if (!cu_stream)
        report("%s on the default stream", call);
    if (!atomic_flag_test_and_set(&state->busy))
        return true;
    report("%s: two threads use a state", call);
    return false;
}

EXPORT int nvjpegDecode(nvjpeg_handle handle, nvjpeg_state state, const unsigned char *data, size_t size, int format,
                        struct nvjpeg_image *out_image, void *cu_stream)
{
    if (format != NVJPEG_RGB_INTERLEAVED || state->handle != handle || !enter(state, __func__, cu_stream))
        return NVJPEG_INVALID_PARAMETER;
    if (!is_drained(cu_stream))
        report("a state is used again before its stream has finished");
    free_pixels(state);
    const int status = decode(state, 0, data, size, out_image, cu_stream);
    atomic_flag_clear(&state->busy);
    return status;
}

EXPORT int nvjpegDecodeBatchedInitialize(nvjpeg_handle handle, nvjpeg_state state, int n_images, int n_threads, int format)
{
    if (format != NVJPEG_RGB_INTERLEAVED || state->handle != handle || n_images < 1 || n_images > MOST_IMAGES || n_threads < 1)
        return NVJPEG_INVALID_PARAMETER;
    state->n_images = n_images;
    return NVJPEG_SUCCESS;
}

#ifndef RVIT_NVJPEG_LACKS_BATCHES
EXPORT int nvjpegDecodeBatched(nvjpeg_handle handle, nvjpeg_state state, const unsigned char *const *data, const size_t *sizes,
                               struct nvjpeg_image *out_images, void *cu_stream)
{
    int status = NVJPEG_SUCCESS;
    if (state->n_images == 0 || state->handle != handle || !enter(state, __func__, cu_stream))
        return NVJPEG_INVALID_PARAMETER;
    if (!is_drained(cu_stream))
        report("engines write immediately, but the stream still has earlier work");
    free_pixels(state);
    for (int i = 0; i < state->n_images && status == NVJPEG_SUCCESS; i++)
        status = decode(state, i, data[i], sizes[i], &out_images[i], cu_stream);
    atomic_flag_clear(&state->busy);
    return status;
}
#endif
