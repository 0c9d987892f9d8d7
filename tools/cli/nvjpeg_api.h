/* Our own declarations of the part of nvJPEG that we use. The library is opened at run time, and its header need not be installed. Enums
   are ints in its ABI. */
#ifndef RVIT_CLI_NVJPEG_API_H
#define RVIT_CLI_NVJPEG_API_H

#include <stddef.h>

enum nvjpeg_status {
    NVJPEG_SUCCESS = 0,
    NVJPEG_NOT_INITIALIZED = 1,
    NVJPEG_INVALID_PARAMETER = 2,
    NVJPEG_BAD_JPEG = 3,
    NVJPEG_JPEG_NOT_SUPPORTED = 4,
    NVJPEG_ALLOCATOR_FAILURE = 5,
    NVJPEG_EXECUTION_FAILED = 6,
    NVJPEG_ARCH_MISMATCH = 7, /* also: the GPU has no JPEG engine */
    NVJPEG_INTERNAL_ERROR = 8,
    NVJPEG_IMPLEMENTATION_NOT_SUPPORTED = 9,
    NVJPEG_INCOMPLETE_BITSTREAM = 10
};

enum nvjpeg_backend { NVJPEG_DEFAULT = 0, NVJPEG_HARDWARE = 3 };

enum nvjpeg_property { NVJPEG_MAJOR = 0, NVJPEG_MINOR = 1 };

enum { NVJPEG_RGB_INTERLEAVED = 5 }; /* output format, in channel[0] */

enum nvjpeg_flags {
    NVJPEG_STRICT = 1 << 2,      /* rejects nonconforming files */
    NVJPEG_INTERPOLATES = 1 << 5 /* interpolates chroma like libjpeg; since 12.1 */
};

typedef struct nvjpeg_handle_object *nvjpeg_handle;
typedef struct nvjpeg_state_object *nvjpeg_state;   /* used by one thread at a time */
typedef struct nvjpeg_stream_object *nvjpeg_stream; /* a parsed file; used by one thread at a time */

struct nvjpeg_image {
    unsigned char *channel[4]; /* on the device */
    size_t pitch[4];           /* bytes between lines */
};

/* X(name, parameters). All return a status. The last argument of the decoding functions is a CUstream. nvjpegDecodeBatchedSupported outputs
   0 for yes. */
#define NVJPEG_FUNCTIONS(X)                                                                                                       \
    X(nvjpegGetProperty, (int property, int *out_value))                                                                          \
    X(nvjpegCreateEx, (int backend, void *device_allocator, void *pinned_allocator, unsigned flags, nvjpeg_handle *out_handle))   \
    X(nvjpegDestroy, (nvjpeg_handle handle))                                                                                      \
    X(nvjpegJpegStateCreate, (nvjpeg_handle handle, nvjpeg_state * out_state))                                                    \
    X(nvjpegJpegStateDestroy, (nvjpeg_state state))                                                                               \
    X(nvjpegJpegStreamCreate, (nvjpeg_handle handle, nvjpeg_stream * out_stream))                                                 \
    X(nvjpegJpegStreamDestroy, (nvjpeg_stream stream))                                                                            \
    X(nvjpegJpegStreamParse,                                                                                                      \
      (nvjpeg_handle handle, const unsigned char *data, size_t size, int saves_metadata, int saves_stream, nvjpeg_stream stream)) \
    X(nvjpegDecodeBatchedSupported, (nvjpeg_handle handle, nvjpeg_stream stream, int *out_unsupported))                           \
    X(nvjpegDecodeBatchedInitialize, (nvjpeg_handle handle, nvjpeg_state state, int n_images, int n_threads, int format))         \
    X(nvjpegDecodeBatched, (nvjpeg_handle handle, nvjpeg_state state, const unsigned char *const *data, const size_t *sizes,      \
                            struct nvjpeg_image *out_images, void *cu_stream))                                                    \
    X(nvjpegDecode, (nvjpeg_handle handle, nvjpeg_state state, const unsigned char *data, size_t size, int format,                \
                     struct nvjpeg_image *out_image, void *cu_stream))

#define NVJPEG_MEMBER(name, parameters) int(*name) parameters;
struct nvjpeg_functions {
    NVJPEG_FUNCTIONS(NVJPEG_MEMBER)
};
#undef NVJPEG_MEMBER

#endif
