/* Devices, buffers, streams, recorded programs, and what they count.

   Objects are opaque. Each is made by _create and ended by _destroy; destroying NULL does nothing. A child (buffer, stream, program,
   model, session) keeps its device alive, so the order of destruction is free. Threads: a device, a buffer handle and a program may be
   shared by threads; a stream belongs to one thread at a time. The child of a fork may use and destroy what belongs to the CPU device, on
   one core, if no other thread was inside the library; what belongs to another device it must leave alone. */
#ifndef RAGGEDVIT_DEVICE_H
#define RAGGEDVIT_DEVICE_H

#include <raggedvit/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rvit_device rvit_device;
typedef struct rvit_buffer rvit_buffer;
typedef struct rvit_stream rvit_stream;
typedef struct rvit_program rvit_program;

typedef enum rvit_backend { RVIT_BACKEND_AUTO = 0, RVIT_BACKEND_CPU = 1, RVIT_BACKEND_CUDA = 2, RVIT_BACKEND_VULKAN = 3 } rvit_backend;

/* "auto", "cpu", "cuda", "vulkan" */
RVIT_API const char *rvit_backend_name(rvit_backend backend);

/* Kernel families of a device. AUTO takes the highest that the device offers and that is built. */
typedef enum rvit_tier {
    RVIT_TIER_AUTO = 0,
    RVIT_TIER_SCALAR = 1,   /* Vulkan: shared memory only. CPU: portable C */
    RVIT_TIER_SUBGROUP = 2, /* Vulkan: subgroup arithmetic. CPU: the widest vector instructions found */
    RVIT_TIER_MATRIX = 3    /* Vulkan: cooperative matrices for f16 attention and linear (AUTO: not in software). CUDA: tensor cores */
} rvit_tier;

/* "auto", "scalar", "subgroup", "matrix" */
RVIT_API const char *rvit_tier_name(rvit_tier tier);

/* What is known of a device before it is created. */
typedef struct rvit_device_info {
    size_t struct_size;
    rvit_backend backend;
    int32_t index;       /* within the backend; -1: the backend itself cannot be used, see note */
    int32_t is_software; /* 1 for a software Vulkan driver: never chosen unless asked for by backend or index */
    rvit_tier tier;      /* the tier that AUTO takes */
    int64_t memory_size; /* bytes of the device's memory; 0 if unknown */
    uint8_t uuid[16];    /* zero if unknown */
    char name[128];
    char driver[128]; /* driver and version */
    char note[256];   /* why the device or a higher tier is passed over; empty if nothing is */
} rvit_device_info;

/* Lists every device of every backend that is built in, in the order of preference, at most `capacity` of them into infos
   [capacity]; *out_n_infos is how many there are. A backend that cannot be used is one entry of index -1 that says why. Each
   infos[i].struct_size must be set by the caller (RVIT_DEVICE_INFO_INIT), all to the same. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_list(rvit_device_info *infos, int32_t capacity, int32_t *out_n_infos);
#define RVIT_DEVICE_INFO_INIT RVIT_INIT(rvit_device_info)

/* Host memory for the library's own objects, and the buffers of the CPU device. Both functions may be called from any thread that uses
   the device. */
typedef struct rvit_allocator {
    void *user;
    void *(*allocate)(void *user, size_t size, size_t alignment); /* alignment is a power of two, at most 64; NULL: out of memory */
    void (*release)(void *user, void *pointer);
} rvit_allocator;

typedef struct rvit_device_desc {
    size_t struct_size;
    rvit_backend backend; /* AUTO: CUDA, then a Vulkan GPU, then the CPU */
    int32_t index;        /* within the backend; -1: the first that is not software, else the first */
    rvit_tier tier;       /* UNSUPPORTED if the device lacks it */
    int32_t n_threads;    /* CPU: threads that run an op, the calling one included. 0: as many processors as the process may use when the
                             device is created: those online, in the calling thread's affinity mask, and within the CPU quota of its control
                             groups, rounded up. More than these only take each other's time */
    int32_t oracle;       /* CPU: 1 for the plain reference with float64 accumulation; slow */
    int32_t debug_checks; /* 1: read back and validate cu_seqlens, rows.live and src_rows of an op before it runs, unless it was recorded;
                             synchronises */
    const rvit_allocator *allocator; /* copied; NULL: malloc. It must outlive every object of the device */
    int32_t vector_bits;             /* CPU: widest vectors to use, 256 or 512 bits; 0: the widest found */
    /* Vulkan: 0: before the device is handed out, a few small ops of the tier are run three times and compared with what the host
       computes. A tier that fails, or whose driver is on the list of those known to fail (backend_vulkan/denied.c), is passed over for
       the next lower one, and rvit_device_info.note says why. With a tier named the list is not asked, and a failure is UNSUPPORTED.
       A tier that passed in an earlier run is not tested again where cache_data is of that run, this device, driver and library.
       1: neither the list nor the test: the tier is the named one, or the highest reported. */
    int32_t skip_self_test;
    /* Vulkan: what rvit_device_get_cache gave in an earlier run, borrowed for the call; NULL and 0: none. A blob that is damaged, or of
       another device or driver, is ignored with a line in the log. */
    const void *cache_data;
    size_t cache_size;
    /* Vulkan: a program whose work at capacity is above this many multiply-adds is launched as several queue submits, cut between ops,
       each with about this much; for drivers with a watchdog that ends a submit of some seconds. One op is never cut. 0: 5e10 on
       integrated GPUs, else unbounded; -1: unbounded. */
    int64_t submit_work;
    /* Vulkan: a thread that waits keeps a core busy asking the device for this many microseconds, and only then sleeps; the system wakes
       a sleeper some 30 us late. 0: 2000, or none of a software device; -1: none. CUDA waits as its context's flags say. */
    int32_t poll_us;
} rvit_device_desc;
/* clang-format off */
#define RVIT_DEVICE_DESC_INIT {sizeof(rvit_device_desc), RVIT_BACKEND_AUTO, -1, RVIT_TIER_AUTO, 0, 0, 0, NULL, 0, 0, NULL, 0, 0, 0}
/* clang-format on */

/* desc NULL means RVIT_DEVICE_DESC_INIT. UNAVAILABLE: no such backend, driver or device; UNSUPPORTED: not the tier. AUTO passes over a
   device that is there and fails, with a warning in the log. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_create(const rvit_device_desc *desc, rvit_device **out_device);
RVIT_API void rvit_device_destroy(rvit_device *device);
RVIT_API RVIT_NODISCARD rvit_status rvit_device_get_info(const rvit_device *device, rvit_device_info *out_info);

/* What the device has compiled so far, for rvit_device_desc.cache_data of a later run: kernels are compiled when first needed, so ask
   after the work is done. *out_size is the blob's size in bytes, 0 on a device that keeps none (CPU, CUDA); data [capacity] is written
   only if the whole fits, so a first call with NULL and 0 tells the size. It carries a checksum and the identity of device and
   driver. It may grow between two calls while other threads use the device. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_get_cache(rvit_device *device, void *data, size_t capacity, size_t *out_size);

typedef enum rvit_buffer_type {
    RVIT_BUFFER_DEVICE = 0,  /* the device's memory; not mapped */
    RVIT_BUFFER_UPLOAD = 1,  /* mapped; written by the host, read by the device (ops may read it in place) */
    RVIT_BUFFER_READBACK = 2 /* mapped; written by the device, read by the host after a synchronise */
} rvit_buffer_type;

/* size in bytes, at least 1; contents undefined. A buffer must outlive the work and the programs that use it.
   OUT_OF_DEVICE_MEMORY: it does not fit. On the CPU a buffer is host memory and is touched at once, so that what was granted is there.
   Linux grants more than it has and ends a process that touches it: without an allocator of the caller's, 4 MiB or more are refused where
   they are more than 15/16 of what is available (MemAvailable and SwapFree of /proc/meminfo, and what the control groups' memory limits
   leave). Others may take that memory meanwhile. */
RVIT_API RVIT_NODISCARD rvit_status rvit_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
RVIT_API void rvit_buffer_destroy(rvit_buffer *buffer);
/* The mapped pointer of an UPLOAD or READBACK buffer, 64-byte aligned, for the buffer's life; NULL for a DEVICE buffer. */
RVIT_API void *rvit_buffer_host(const rvit_buffer *buffer);
RVIT_API int64_t rvit_buffer_size(const rvit_buffer *buffer);

/* A place in a buffer: offset in bytes, a multiple of 16 unless an argument says otherwise. buffer NULL: the argument is absent. */
typedef struct rvit_view {
    rvit_buffer *buffer;
    int64_t offset;
} rvit_view;

/* What a stream has done since it was created. The allocation counts are those of its whole device, and so are the sizes: bytes held
   now. */
typedef struct rvit_stats {
    size_t struct_size;
    int64_t launches;           /* kernels started by the device (CPU: ops run) */
    int64_t submits;            /* dispatches from the host: queue submits, graph launches, eager enqueues */
    int64_t synchronizations;   /* times the host waited for the device */
    int64_t copies;             /* copy ops and transfers */
    int64_t host_allocations;   /* device-wide */
    int64_t device_allocations; /* device-wide */
    int64_t device_size;        /* in buffers of RVIT_BUFFER_DEVICE; memory wrapped from the caller is in none of the sizes */
    int64_t upload_size;        /* in buffers of RVIT_BUFFER_UPLOAD */
    int64_t readback_size;      /* in buffers of RVIT_BUFFER_READBACK */
    int64_t working_size;       /* device memory that streams and programs hold beside buffers */
} rvit_stats;
#define RVIT_STATS_INIT RVIT_INIT(rvit_stats)

RVIT_API RVIT_NODISCARD rvit_status rvit_stream_create(rvit_device *device, rvit_stream **out_stream);
/* Waits for the stream's work. */
RVIT_API void rvit_stream_destroy(rvit_stream *stream);
/* Waits until all enqueued work is done. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_synchronize(rvit_stream *stream);
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_get_stats(const rvit_stream *stream, rvit_stats *out_stats);

/* Convenience for set-up and inspection, not for hot paths: copies between host memory and any buffer through staging memory of the
   stream. write: host is free again on return. read: waits for the stream. size in bytes; size and offset multiples of 4. Not
   while recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_write(rvit_stream *stream, rvit_view destination, const void *host, int64_t size);
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_read(rvit_stream *stream, rvit_view source, void *host, int64_t size);

/* Device-to-device copy on the stream. size in bytes; size and both offsets are multiples of 4; the ranges must not overlap. */
typedef struct rvit_copy_args {
    size_t struct_size;
    rvit_view source, destination;
    int64_t size;
} rvit_copy_args;
#define RVIT_COPY_ARGS_INIT RVIT_INIT(rvit_copy_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_copy(rvit_stream *stream, const rvit_copy_args *args);

/* Between begin and end the ops called on the stream are not run but collected, in order, into a program. The program refers to the
   same buffers; the values it finds there, lengths included, are those at each launch. A launch costs one dispatch, allocates nothing
   and waits for nothing, and gives what the ops would have given one by one, bit for bit. end fails with INVALID_ARGUMENT on an empty
   recording; the recording is over even if end fails. An op that fails while recording is not collected. Launches of one program run one
   after another, whatever their streams. */
RVIT_API RVIT_NODISCARD rvit_status rvit_record_begin(rvit_stream *stream);
RVIT_API RVIT_NODISCARD rvit_status rvit_record_end(rvit_stream *stream, rvit_program **out_program);
RVIT_API RVIT_NODISCARD rvit_status rvit_program_launch(rvit_program *program, rvit_stream *stream);
/* No launch of it may be pending: synchronise first. */
RVIT_API void rvit_program_destroy(rvit_program *program);

#ifdef __cplusplus
}
#endif
#endif
