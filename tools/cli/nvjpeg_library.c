#include "nvjpeg_library.h"

#include <stdio.h>
#include <string.h>

#include "core/base/os.h"

#define TOOLKIT "/usr/local/cuda/lib64/"
/* Before 12.1 it does not interpolate chroma, which changes colours at edges strongly. */
#define MIN_MAJOR 12
#define MIN_MINOR 1

static const char *const paths[] = {"libnvjpeg.so.13",         "libnvjpeg.so.12", TOOLKIT "libnvjpeg.so.13",
                                    TOOLKIT "libnvjpeg.so.12", "nvjpeg64_13.dll", "nvjpeg64_12.dll"};
enum { N_PATHS = sizeof paths / sizeof paths[0] };

#define NAME_OF(name, parameters) #name,
static const char *const names[] = {NVJPEG_FUNCTIONS(NAME_OF)};
enum { N_FUNCTIONS = sizeof names / sizeof names[0] };

_Static_assert(sizeof(struct nvjpeg_functions) == N_FUNCTIONS * sizeof(void *), "one pointer for each name");

const char *nvjpeg_status_text(int status)
{
    switch (status) {
    case NVJPEG_NOT_INITIALIZED:
        return "not initialised";
    case NVJPEG_INVALID_PARAMETER:
        return "invalid parameter";
    case NVJPEG_BAD_JPEG:
        return "broken JPEG";
    case NVJPEG_JPEG_NOT_SUPPORTED:
        return "unsupported JPEG";
    case NVJPEG_ALLOCATOR_FAILURE:
        return "out of memory";
    case NVJPEG_EXECUTION_FAILED:
        return "execution failed";
    case NVJPEG_ARCH_MISMATCH:
        return "not on this GPU";
    case NVJPEG_INTERNAL_ERROR:
        return "internal error";
    case NVJPEG_IMPLEMENTATION_NOT_SUPPORTED:
        return "not implemented";
    case NVJPEG_INCOMPLETE_BITSTREAM:
        return "the JPEG ends too early";
    default:
        return "unknown status";
    }
}

/* The driver is already loaded, since the context exists. */
static bool open_driver(struct nvjpeg_library *out, char *reason, size_t size)
{
    static const char *const files[] = {"libcuda.so.1", "nvcuda.dll", NULL}, *const symbols[] = {"cuCtxPushCurrent_v2",
                                                                                                 "cuCtxPopCurrent_v2"};
    void *functions[2];
    char why[256];
    if (rvit_library_open(files, symbols, 2, 2, functions, why, sizeof why) == NULL) {
        snprintf(reason, size, "the library of the NVIDIA driver cannot be opened: %s", why);
        return false;
    }
    memcpy(&out->push_context, &functions[0], sizeof functions[0]);
    memcpy(&out->pop_context, &functions[1], sizeof functions[1]);
    return true;
}

static bool create_handles(struct nvjpeg_library *self, char *reason, size_t size)
{
    const unsigned flags = NVJPEG_INTERPOLATES | NVJPEG_STRICT;
    int major = 0, minor = 0;
    if (self->call.nvjpegGetProperty(NVJPEG_MAJOR, &major) != NVJPEG_SUCCESS ||
        self->call.nvjpegGetProperty(NVJPEG_MINOR, &minor) != NVJPEG_SUCCESS || major < MIN_MAJOR ||
        (major == MIN_MAJOR && minor < MIN_MINOR)) {
        snprintf(reason, size, "%s is version %d.%d; %d.%d or later is needed for the colours of libjpeg", self->name, major, minor,
                 MIN_MAJOR, MIN_MINOR);
        return false;
    }
    const int status = self->call.nvjpegCreateEx(NVJPEG_DEFAULT, NULL, NULL, flags, &self->cuda);
    if (status != NVJPEG_SUCCESS) {
        snprintf(reason, size, "%s: nvjpegCreateEx failed: %s (%d)", self->name, nvjpeg_status_text(status), status);
        return false;
    }
    if (self->call.nvjpegCreateEx(NVJPEG_HARDWARE, NULL, NULL, flags, &self->hardware) != NVJPEG_SUCCESS)
        self->hardware = NULL;
    return true;
}

/* reason: empty if there is no such file. */
static bool use(const char *path, void *cu_context, struct nvjpeg_library *out, char *reason, size_t size)
{
    const char *const files[] = {path, NULL};
    void *functions[N_FUNCTIONS];
    reason[0] = '\0';
    if (rvit_library_open(files, names, 0, N_FUNCTIONS, functions, reason, size) == NULL) {
        if (strstr(reason, "No such file"))
            reason[0] = '\0';
        return false;
    }
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!functions[i]) {
            snprintf(reason, size, "%s has no %s: CUDA %d.%d or later has it", path, names[i], MIN_MAJOR, MIN_MINOR);
            return false;
        }
    memcpy(&out->call, functions, sizeof functions);
    snprintf(out->name, sizeof out->name, "%s", path);
    if (out->push_context(cu_context) != 0) {
        snprintf(reason, size, "the context of the device cannot be made current");
        return false;
    }
    const bool ok = create_handles(out, reason, size);
    (void)out->pop_context(&cu_context);
    return ok;
}

bool nvjpeg_library_open(void *cu_context, struct nvjpeg_library *out, char *reason, size_t size)
{
    bool found = false;
    *out = (struct nvjpeg_library){.name = ""};
    if (!open_driver(out, reason, size))
        return false;
    for (int i = 0; i < N_PATHS; i++) {
        char why[256];
        if (use(paths[i], cu_context, out, why, sizeof why))
            return true;
        if (why[0] && !found)
            snprintf(reason, size, "%s", why); /* reason of the first library found */
        found |= why[0] != 0;
    }
    if (!found)
        snprintf(reason, size,
                 "nvJPEG of the CUDA toolkit is neither in the library path nor in %s: it is called libnvjpeg.so.13 or libnvjpeg.so.12, "
                 "on Windows nvjpeg64_13.dll or nvjpeg64_12.dll",
                 TOOLKIT);
    return false;
}

void nvjpeg_library_close(struct nvjpeg_library *self, void *cu_context)
{
    if (!self->cuda || self->push_context(cu_context) != 0)
        return;
    if (self->hardware)
        (void)self->call.nvjpegDestroy(self->hardware);
    (void)self->call.nvjpegDestroy(self->cuda);
    (void)self->pop_context(&cu_context);
}
