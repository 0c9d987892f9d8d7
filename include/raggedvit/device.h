/* Devices, buffers, streams, recorded programs and their statistics.

   Objects are opaque. A _create function creates an object and the matching _destroy function
   destroys it; destroying NULL does nothing. Children (buffer, stream, semaphore, program, model,
   session) keep their device alive, so objects may be destroyed in any order.

   Threads: several threads may share a device, a buffer, a semaphore or a program. Only one thread
   at a time may use a stream.

   Fork: if no other thread was inside the library, the child of a fork may use and destroy objects
   of the CPU device, and runs them on one core. It must not touch objects of any other device.

   Signals: threads that the library starts, and threads that drivers start when it calls them,
   block the application's signals, except those of their own faults.

   Unloading: once a device has started threads, the shared library (or the plugin that contains the
   static library) stays loaded until the process ends, even if it is closed.

   A program linked with -static cannot open drivers: it has the CPU device only. */
#ifndef RAGGEDVIT_DEVICE_H
#define RAGGEDVIT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#if defined(RVIT_BUILDING) && defined(_WIN32)
#define RVIT_API __declspec(dllexport)
#elif defined(RVIT_BUILDING) && defined(__GNUC__)
#define RVIT_API __attribute__((visibility("default")))
#else
#define RVIT_API
#endif

#if defined(__GNUC__)
#define RVIT_NODISCARD __attribute__((warn_unused_result))
#else
#define RVIT_NODISCARD
#endif

/* Args and descs begin with their size, so that later versions can append fields. Initialise each
   with its RVIT_..._INIT, then set the fields you need. Zero means the default, or absent, unless a
   field says otherwise. RVIT_INIT sets the size and makes all else zero; RVIT_INIT_WITH also sets
   up to six fields: RVIT_INIT_WITH(rvit_device_desc, .index = RVIT_INDEX_AUTO). */
/* clang-format off */
#ifdef __cplusplus
template <class T> inline T rvit_init_struct()
{
    T value = {};
    value.struct_size = sizeof(T);
    return value;
}
#define RVIT_INIT(type) rvit_init_struct<type>()
#define RVIT_SET_1(a) rvit_init a;
#define RVIT_SET_2(a, b) rvit_init a; rvit_init b;
#define RVIT_SET_3(a, b, c) rvit_init a; rvit_init b; rvit_init c;
#define RVIT_SET_4(a, b, c, d) rvit_init a; rvit_init b; rvit_init c; rvit_init d;
#define RVIT_SET_5(a, b, c, d, e) rvit_init a; rvit_init b; rvit_init c; rvit_init d; rvit_init e;
#define RVIT_SET_6(a, b, c, d, e, f) rvit_init a; rvit_init b; rvit_init c; rvit_init d; rvit_init e; rvit_init f;
#define RVIT_SET_OF(a, b, c, d, e, f, set, ...) set
#define RVIT_INIT_WITH(type, ...) ([] { type rvit_init = RVIT_INIT(type); \
    RVIT_SET_OF(__VA_ARGS__, RVIT_SET_6, RVIT_SET_5, RVIT_SET_4, RVIT_SET_3, RVIT_SET_2, RVIT_SET_1, 0)(__VA_ARGS__) return rvit_init; }())
#else
#define RVIT_INIT(type) {.struct_size = sizeof(type)}
#define RVIT_INIT_WITH(type, ...) {.struct_size = sizeof(type), __VA_ARGS__}
#endif
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

#define RVIT_VERSION_MAJOR 0
#define RVIT_VERSION_MINOR 4
#define RVIT_VERSION_PATCH 0

/* Calls may come from any thread with a stack of 64 KiB or more (CPU backend; a GPU driver may need
   more) and in any floating-point environment. Inside a call the environment is the default one
   (round to nearest, no traps, subnormals kept), also for the caller's allocator and logger. When a
   call returns, the caller's environment is restored, flags included. */

/* The result of a function. The values are part of the ABI. A call that fails changes nothing: it
   writes no output and enqueues nothing, and the next call works. */
typedef enum rvit_status {
    RVIT_OK = 0,
    RVIT_INVALID_ARGUMENT = 10, /* an argument breaks its documented rule */
    RVIT_UNSUPPORTED = 20,      /* legal, but not on this device or in this build */
    RVIT_UNAVAILABLE = 30,      /* no such driver, library or device on this machine */
    RVIT_OUT_OF_HOST_MEMORY = 40,
    RVIT_OUT_OF_DEVICE_MEMORY = 41,
    RVIT_DEVICE_LOST = 50, /* destroy the device and its children, then create them again */
    RVIT_BAD_FILE = 60,    /* unreadable, malformed, or not of the type that its name says */
    RVIT_NOT_FINITE = 70,  /* a model's results are NaN or infinite: so are its weights, or its dtype overflows */
    RVIT_INTERNAL = 90     /* a defect in the library or in a driver */
} rvit_status;

/* The name of a status ("INVALID_ARGUMENT"); never NULL. */
RVIT_API const char *rvit_status_name(rvit_status status);

/* One sentence on the last failure in the calling thread: which argument or file, what was expected
   and what was found. Never NULL; empty if nothing has failed. Valid until the next call of this
   library in the same thread. */
RVIT_API const char *rvit_status_detail(void);

/* "0.4.0" */
RVIT_API const char *rvit_version(void);

typedef enum rvit_log_level { RVIT_LOG_ERROR = 1, RVIT_LOG_WARNING = 2, RVIT_LOG_INFO = 3, RVIT_LOG_DEBUG = 4 } rvit_log_level;

/* Receives one line, without a newline. May be called from any thread that calls the library. */
typedef void (*rvit_log_fn)(void *user, rvit_log_level level, const char *message);

/* Sets the process-wide log callback; NULL (the default) silences the library. Do not call this
   while other threads are inside the library. */
RVIT_API void rvit_log_set(rvit_log_fn fn, void *user);

/* A callback for rvit_log_set that writes to standard error. It writes messages up to the level in
   the environment variable RVIT_LOG (error, warning, info, debug; warning if unset). The library
   reads no other environment variable. */
RVIT_API void rvit_log_stderr(void *user, rvit_log_level level, const char *message);

typedef struct rvit_device rvit_device;
typedef struct rvit_buffer rvit_buffer;
typedef struct rvit_stream rvit_stream;
typedef struct rvit_program rvit_program;
typedef struct rvit_semaphore rvit_semaphore;

/* The enums whose values have names. A name is the constant in lower case without its prefix, with
   '-' for '_': RVIT_POOLING_CLS_MEAN is "cls-mean". RVIT_I8 is "int8". */
typedef enum rvit_enum {
    RVIT_ENUM_BACKEND = 0,
    RVIT_ENUM_TIER = 1,
    RVIT_ENUM_DEVICE_KIND = 2,
    RVIT_ENUM_DTYPE = 3,
    RVIT_ENUM_PRECISION = 4,
    RVIT_ENUM_QUANTIZATION = 5,
    RVIT_ENUM_ACTIVATION = 6,
    RVIT_ENUM_RESAMPLE = 7,
    RVIT_ENUM_FIT = 8,
    RVIT_ENUM_FILTER = 9,
    RVIT_ENUM_PROCESSOR = 10,
    RVIT_ENUM_POOLING = 11,
    RVIT_ENUM_POSITION = 12,
    RVIT_ENUM_PRUNE = 13
} rvit_enum;

/* The name of a value: rvit_enum_name(RVIT_ENUM_BACKEND, RVIT_BACKEND_CPU) is "cpu". "unknown" if
   the enum has no such value; never NULL. */
RVIT_API const char *rvit_enum_name(rvit_enum type, int32_t value);
/* The value of a name. INVALID_ARGUMENT: the enum has no such name; the detail lists its names. */
RVIT_API RVIT_NODISCARD rvit_status rvit_enum_from_name(rvit_enum type, const char *name, int32_t *out_value);

typedef enum rvit_backend { RVIT_BACKEND_AUTO = 0, RVIT_BACKEND_CPU = 1, RVIT_BACKEND_CUDA = 2, RVIT_BACKEND_VULKAN = 3 } rvit_backend;

/* Kernel families of a device. AUTO selects the highest one that is built in and that the device
   supports. */
typedef enum rvit_tier {
    RVIT_TIER_AUTO = 0,
    RVIT_TIER_SCALAR = 1,   /* Vulkan: shared memory only. CPU: portable C */
    RVIT_TIER_SUBGROUP = 2, /* Vulkan: subgroup arithmetic. CPU: the widest vector instructions
                               found */
    RVIT_TIER_MATRIX = 3    /* Vulkan: cooperative matrices for attention and linear of f16, and of
                               bf16 where the device supports it (AUTO skips them on software
                               devices). CUDA: tensor cores */
} rvit_tier;

/* What a device is. RVIT_INDEX_AUTO selects the device of the first of these kinds, UNKNOWN
   counting as OTHER; among Vulkan devices of one kind, the one with the most memory. */
typedef enum rvit_device_kind {
    RVIT_DEVICE_KIND_UNKNOWN = 0,
    RVIT_DEVICE_KIND_DISCRETE = 1,   /* a GPU with its own memory */
    RVIT_DEVICE_KIND_INTEGRATED = 2, /* a GPU that shares the CPU's memory */
    RVIT_DEVICE_KIND_VIRTUAL = 3,    /* part of a GPU, in a virtual machine */
    RVIT_DEVICE_KIND_OTHER = 4,
    RVIT_DEVICE_KIND_CPU = 5 /* a CPU; also a software Vulkan driver */
} rvit_device_kind;

/* What is known about a device before it is created. */
typedef struct rvit_device_info {
    size_t struct_size;
    rvit_backend backend;
    int32_t index;       /* within the backend; -1: the backend cannot be used, see note */
    int32_t is_software; /* 1: a software Vulkan driver, used only if selected by backend or
                            index */
    rvit_tier tier;      /* the tier that AUTO selects */
    int64_t memory_size; /* bytes of the device's memory; 0 if unknown */
    uint8_t uuid[16];    /* the same for one GPU through CUDA and Vulkan; zero if unknown */
    char name[128];
    char driver[128]; /* driver and version */
    char note[256];   /* why the device, a higher tier, or its bf16 kernels are not used; else empty */
    /* Bits 1 << dtype of the types narrower than f32 that GEMMs compute with dedicated
       instructions. CPU: the types that are faster than f32. Vulkan: I8 if the device has int8
       cooperative matrices, or dot products that the driver reports as accelerated; without them
       int8 works but is slower. CUDA: 0. */
    int32_t native_dtypes;
    rvit_device_kind kind;
    /* Bytes of device memory that this process could still allocate at the time of the call, given
       what other processes use; 0 if unknown. CUDA: known only from rvit_device_get_info. Vulkan:
       known if the driver has VK_EXT_memory_budget. */
    int64_t memory_free;
    /* "0000:65:00.0": domain, bus, device and function in hexadecimal; the same for one GPU through
       CUDA and Vulkan. Empty if unknown, or if it is not on a PCI bus. */
    char pci_address[24];
} rvit_device_info;

/* Lists the devices of every backend in this build, in the order of preference. Writes at most
   `capacity` entries to infos [capacity]; *out_n_infos is the number of devices found. A backend
   that cannot be used has one entry with index -1 and the reason in note. The caller must set
   infos[i].struct_size (RVIT_DEVICE_INFO_INIT), to the same value in every entry. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_list(rvit_device_info *infos, int32_t capacity, int32_t *out_n_infos);
#define RVIT_DEVICE_INFO_INIT RVIT_INIT(rvit_device_info)

/* Callbacks that provide host memory for the library's own objects and for the buffers of the CPU
   device. Both may be called from any thread that uses the device. */
typedef struct rvit_allocator {
    void *user;
    /* alignment: a power of two, at most 64. Returns NULL when out of memory. */
    void *(*allocate)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *pointer);
} rvit_allocator;

/* rvit_device_desc.index: the best device of the backend, by rvit_device_kind. */
#define RVIT_INDEX_AUTO (-1)

typedef struct rvit_device_desc {
    size_t struct_size;
    rvit_backend backend;            /* AUTO: CUDA, then a Vulkan GPU, then the CPU */
    int32_t index;                   /* within the backend, or RVIT_INDEX_AUTO */
    rvit_tier tier;                  /* UNSUPPORTED if the device lacks it */
    int32_t n_threads;               /* CPU: number of threads that run an op, including the calling
                                        thread. 0: the number of processors that the process may use
                                        when the device is created: online, in the calling thread's
                                        affinity mask, and within the CPU quota of its control
                                        groups (rounded up). More threads than that only compete
                                        with each other */
    int32_t oracle;                  /* CPU: 1: use the plain reference implementation, which
                                        accumulates in float64 and is slow */
    int32_t debug_checks;            /* 1: read back and validate cu_seqlens, rows.live and src_rows
                                        before each op runs; this synchronises. Recorded ops are not
                                        checked */
    const rvit_allocator *allocator; /* NULL: malloc. The struct is copied; allocator->user must
                                        outlive every object of the device */
    int32_t vector_bits;             /* CPU: widest vectors to use, 256 or 512 bits; 0: the widest
                                        available */
    /* Vulkan self-test. 0: creation runs a few small ops of the tier three times and compares the
       results with values computed on the host. With tier AUTO, a tier that fails, or whose driver
       is in the list of known-bad drivers (backend_vulkan/denied.c), is replaced by the next lower
       one, and rvit_device_info.note says why. With an explicit tier the list is ignored, and a
       failure is UNSUPPORTED. A tier that passed in an earlier run is not tested again if
       cache_data comes from that run and matches this device, driver and library. 1: skips both the
       list and the test; the tier is the explicit one, or the highest that the device reports. */
    int32_t skip_self_test;
    /* Vulkan: the blob that rvit_device_get_cache returned in an earlier run, read during the
       call; NULL and 0: none. A blob that is damaged, or that belongs to another device or driver,
       is ignored with a warning in the log. */
    const void *cache_data;
    size_t cache_size;
    /* Vulkan: the maximum number of multiply-accumulates (MACs), at capacity, in one queue submit.
       A program with more is launched as several submits of about this size, split between ops; a
       single op is never split. For drivers whose watchdog ends a submit after a few seconds. 0:
       5e10 on integrated GPUs, else no limit; -1: no limit. */
    int64_t submit_work;
    /* Vulkan: microseconds for which a waiting thread polls the device, keeping one core busy,
       before it sleeps. The system wakes a sleeping thread about 30 us late. 0: 2000, or no polling
       on a software device; -1: no polling. CUDA: -1: threads that wait for the library's own
       streams sleep; else they wait as the flags of the context say, which usually means polling. */
    int32_t poll_us;
    /* CPU: which kernels to use, for tests and comparisons; NULL: the fastest that this processor
       runs. UNSUPPORTED: the processor lacks their instructions. INVALID_ARGUMENT: its architecture
       has none of that name. "portable". x86-64: "avx2"; "avx2_vnni" (with AVX-VNNI, for int8);
       "avx512"; "avx512_vnni" (with AVX512-VNNI, for int8); "avx512_bf16" (also with AVX512-BF16;
       not chosen on Intel processors, where it is slow); "amx" (with tiles for bf16 and int8;
       creating the device asks Linux for permission to use them). arm64, where "portable" uses
       NEON: "neon_dotprod" (with dot products, for int8); "neon_i8mm" (with matrix multiplications,
       for int8); "neon_bf16" (also with those of bf16). */
    const char *kernels;
} rvit_device_desc;
#define RVIT_DEVICE_DESC_INIT RVIT_INIT_WITH(rvit_device_desc, .index = RVIT_INDEX_AUTO)

/* desc NULL means RVIT_DEVICE_DESC_INIT. UNAVAILABLE: no such backend, driver or device.
   UNSUPPORTED: the device lacks the tier. With AUTO, a device that is present but fails is skipped
   with a warning in the log. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_create(const rvit_device_desc *desc, rvit_device **out_device);
RVIT_API void rvit_device_destroy(rvit_device *device);
/* As rvit_device_list describes the device, with its current memory_free. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_get_info(const rvit_device *device, rvit_device_info *out_info);

/* Returns the kernels compiled so far, as a blob for rvit_device_desc.cache_data of a later run.
   Kernels are compiled when first needed, so call this after the work is done. *out_size is the
   size of the blob in bytes; it is 0 on devices that keep none (CPU, CUDA). data [capacity] is
   written only if the whole blob fits, so call first with NULL and 0 to get the size. The blob
   carries a checksum and the identity of device and driver. It may grow between two calls while
   other threads use the device. */
RVIT_API RVIT_NODISCARD rvit_status rvit_device_get_cache(rvit_device *device, void *data, size_t capacity, size_t *out_size);

typedef enum rvit_buffer_type {
    RVIT_BUFFER_DEVICE = 0,   /* device memory; not mapped */
    RVIT_BUFFER_UPLOAD = 1,   /* mapped; the host writes, the device reads (ops may read it in
                                 place) */
    RVIT_BUFFER_READBACK = 2, /* mapped; the device writes, the host reads after synchronising */
    RVIT_BUFFER_SHARED = 3    /* device memory that rvit_buffer_export exports; not mapped. Vulkan
                                 only */
} rvit_buffer_type;

/* size: in bytes, at least 1. The contents are undefined. A buffer must outlive the work and the
   programs that use it. OUT_OF_DEVICE_MEMORY: it does not fit. UNSUPPORTED: the device cannot
   export memory.

   On the CPU a buffer is host memory. The library touches every page at once, so that later writes
   cannot fail. Linux may grant more memory than it has and then kill the process that touches it.
   Without a caller's allocator, buffers of 4 MiB or more are therefore refused if they exceed 15/16
   of the available memory (MemAvailable plus SwapFree of /proc/meminfo, within the memory limits of
   the control groups). Other processes may still take that memory in the meantime. */
RVIT_API RVIT_NODISCARD rvit_status rvit_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
RVIT_API void rvit_buffer_destroy(rvit_buffer *buffer);
/* The mapped pointer of an UPLOAD or READBACK buffer: 64-byte aligned, valid for the buffer's life.
   NULL for any other buffer. */
RVIT_API void *rvit_buffer_host(const rvit_buffer *buffer);
RVIT_API int64_t rvit_buffer_size(const rvit_buffer *buffer);

/* How a handle of the operating system is passed between APIs, processes and devices. */
typedef enum rvit_handle_type {
    RVIT_HANDLE_NONE = 0,
    RVIT_HANDLE_OPAQUE_FD = 1,   /* a file descriptor, on all systems but Windows:
                                    VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                    CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD; for semaphores see
                                    rvit_semaphore_desc */
    RVIT_HANDLE_OPAQUE_WIN32 = 2 /* a HANDLE, cast, on Windows: _OPAQUE_WIN32 instead of _OPAQUE_FD
                                    in these names. UNSUPPORTED: the type of another system */
} rvit_handle_type;

/* Exported memory, not dedicated to one VkBuffer or image. */
typedef struct rvit_external_memory {
    size_t struct_size;
    rvit_handle_type handle_type;
    uint32_t memory_type; /* VkMemoryAllocateInfo.memoryTypeIndex; CUDA does not read it */
    intptr_t handle;
    int64_t size;   /* bytes of the whole memory: VkMemoryAllocateInfo.allocationSize */
    int64_t offset; /* where the buffer begins in it, in bytes */
} rvit_external_memory;
#define RVIT_EXTERNAL_MEMORY_INIT RVIT_INIT(rvit_external_memory)

typedef enum rvit_memory_type {
    RVIT_MEMORY_HOST = 0,    /* host memory of the process */
    RVIT_MEMORY_CUDA = 1,    /* a CUdeviceptr: cuda.h */
    RVIT_MEMORY_VULKAN = 2,  /* part of a VkBuffer: vulkan.h */
    RVIT_MEMORY_EXTERNAL = 3 /* memory that another API, process or device exported */
} rvit_memory_type;

/* Memory that the library did not allocate.

     type      fields that are read                                 devices
     HOST      address, size                                        CPU
     CUDA      address, size                                        CUDA
     VULKAN    vk_buffer, vk_buffer_size, vk_usage, offset, size    Vulkan
     EXTERNAL  external, size                                       CUDA, Vulkan */
typedef struct rvit_memory_desc {
    size_t struct_size;
    rvit_memory_type type;
    uint32_t vk_usage;      /* VkBufferCreateInfo.usage */
    int64_t size;           /* of the buffer, in bytes. VULKAN: 0: up to the end of the VkBuffer */
    void *address;          /* a multiple of 16. CUDA: the CUdeviceptr, cast */
    uint64_t vk_buffer;     /* VkBuffer, bound to memory */
    int64_t vk_buffer_size; /* VkBufferCreateInfo.size */
    int64_t offset;         /* in the VkBuffer, of the buffer's start, in bytes; a multiple of 16 */
    const rvit_external_memory *external;
} rvit_memory_desc;
#define RVIT_MEMORY_DESC_INIT RVIT_INIT(rvit_memory_desc)

/* Creates a buffer on such memory; ops use it in place. No size of rvit_stats counts the memory,
   and rvit_buffer_host returns NULL.

   HOST, CUDA, VULKAN: the caller keeps the memory alive as long as the buffer needs it;
   rvit_buffer_destroy does not free it. Buffers may overlap in memory. The library sees that
   through addresses or through one VkBuffer: an op whose output overlaps another array of its args
   is refused.

   EXTERNAL: on success the library owns external->handle and closes it. The memory lives until its
   last user releases it. It must be of the same physical device and, for Vulkan, of the same
   driver. external->offset: a multiple of 256 (CUDA), or of the driver's alignment (Vulkan; 256 is
   enough).

   UNSUPPORTED: the device does not use memory of this type, or does not import it.
   INVALID_ARGUMENT: the memory is too small or misaligned, belongs to another context, or the
   handle does not describe such memory (some Vulkan drivers report OUT_OF_DEVICE_MEMORY). */
RVIT_API RVIT_NODISCARD rvit_status rvit_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer);
/* Points a wrapped buffer of type HOST or CUDA at other memory of that type: two stores. It checks
   the alignment of the address and nothing else. CPU: recorded programs use the new memory from
   then on. CUDA: enqueued ops and recorded programs keep the old address. INVALID_ARGUMENT: the
   library owns the buffer's memory. UNSUPPORTED: a wrapped VkBuffer. */
RVIT_API RVIT_NODISCARD rvit_status rvit_buffer_set(rvit_buffer *buffer, void *address, int64_t size);
/* Where any buffer lies. CPU: its host address; CUDA: its CUdeviceptr; the offset is 0. Vulkan: its
   VkBuffer, and the offset in it at which the buffer begins, in bytes. out_offset may be NULL. */
RVIT_API RVIT_NODISCARD rvit_status rvit_buffer_handle(const rvit_buffer *buffer, uint64_t *out_handle, int64_t *out_offset);
/* Exports the memory of a SHARED buffer with a new handle, which the caller closes or passes to an
   import. INVALID_ARGUMENT: the buffer was not created as SHARED. */
RVIT_API RVIT_NODISCARD rvit_status rvit_buffer_export(const rvit_buffer *buffer, rvit_external_memory *out_memory);

/* A position in a buffer. offset: in bytes, a multiple of 16 unless an argument says otherwise.
   buffer NULL: the argument is absent. */
typedef struct rvit_view {
    rvit_buffer *buffer;
    int64_t offset;
} rvit_view;

/* What a stream has done since it was created. Allocation counts and sizes are those of the whole
   device. Sizes are the bytes held now. */
typedef struct rvit_stats {
    size_t struct_size;
    int64_t launches;           /* kernels started (CPU: ops run) */
    int64_t submits;            /* host submissions: queue submits, graph launches, eager
                                   enqueues */
    int64_t synchronizations;   /* times the host waited for the device */
    int64_t copies;             /* copy ops and transfers */
    int64_t host_allocations;   /* device-wide */
    int64_t device_allocations; /* device-wide */
    int64_t device_size;        /* in buffers of RVIT_BUFFER_DEVICE and RVIT_BUFFER_SHARED; no size
                                   counts wrapped memory */
    int64_t upload_size;        /* in buffers of RVIT_BUFFER_UPLOAD */
    int64_t readback_size;      /* in buffers of RVIT_BUFFER_READBACK */
    int64_t working_size;       /* device memory that streams and programs hold in addition to
                                   buffers */
    int64_t saturated;          /* of a session (rvit_session_get_stats): values that saturated
                                   because a scale of the checkpoint is too small, in all runs
                                   waited for (rvit_quantize_args.saturated) */
} rvit_stats;
#define RVIT_STATS_INIT RVIT_INIT(rvit_stats)

RVIT_API RVIT_NODISCARD rvit_status rvit_stream_create(rvit_device *device, rvit_stream **out_stream);
/* Waits for the stream's work. */
RVIT_API void rvit_stream_destroy(rvit_stream *stream);
/* Creates a stream on a native one of the caller's: a CUstream (cuda.h says what that means), or a
   VkCommandBuffer to record into (vulkan.h). The caller keeps it alive; rvit_stream_destroy does
   not destroy it. UNSUPPORTED: a CPU device. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_wrap(rvit_device *device, void *native, rvit_stream **out_stream);
/* Makes a wrapped stream use another native one from now on. INVALID_ARGUMENT: the stream is not
   wrapped, or it is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_set(rvit_stream *stream, void *native);
/* The CUstream of any CUDA stream, or the VkCommandBuffer of a wrapped Vulkan stream (NULL for a
   Vulkan stream of the library's own). UNSUPPORTED: a CPU device. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_handle(const rvit_stream *stream, void **out_native);
/* Waits until all enqueued work is done. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_synchronize(rvit_stream *stream);
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_get_stats(const rvit_stream *stream, rvit_stats *out_stats);

/* Copy between host memory and any buffer through staging memory of the stream: for set-up and
   inspection, not for hot paths. write: host may be reused on return. read: waits for the stream.
   size: in bytes. size and offset: multiples of 4. Not allowed while recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_write(rvit_stream *stream, rvit_view destination, const void *host, int64_t size);
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_read(rvit_stream *stream, rvit_view source, void *host, int64_t size);

/* Device-to-device copy on the stream. size: in bytes. size and both offsets: multiples of 4. The
   ranges must not overlap. */
typedef struct rvit_copy_args {
    size_t struct_size;
    rvit_view source, destination;
    int64_t size;
} rvit_copy_args;
#define RVIT_COPY_ARGS_INIT RVIT_INIT(rvit_copy_args)
RVIT_API RVIT_NODISCARD rvit_status rvit_copy(rvit_stream *stream, const rvit_copy_args *args);

/* Ops called on the stream between begin and end do not run: they are collected, in order, into a
   program. The program refers to the same buffers and reads their contents, lengths included, at
   each launch. A launch is one dispatch; it neither allocates nor waits. Its results are bit-equal
   to those of the ops called one by one. end returns INVALID_ARGUMENT for an empty recording;
   recording stops even if end fails. An op that fails while recording is not collected. Launches of
   one program run one after another, whatever their streams. */
RVIT_API RVIT_NODISCARD rvit_status rvit_record_begin(rvit_stream *stream);
RVIT_API RVIT_NODISCARD rvit_status rvit_record_end(rvit_stream *stream, rvit_program **out_program);
RVIT_API RVIT_NODISCARD rvit_status rvit_program_launch(rvit_program *program, rvit_stream *stream);
/* No launch of the program may be pending: synchronise first. */
RVIT_API void rvit_program_destroy(rvit_program *program);

/* A semaphore orders work of different streams, devices and APIs. A binary one is signalled and
   waited for in turn; a timeline one is a counter that only grows. Threads may share a semaphore.

   The fields choose where it comes from; at most one of shared, vk_semaphore and handle_type is
   set:
     none of them   a new semaphore of value 0 (Vulkan)
     shared         the same, and rvit_semaphore_export exports it (Vulkan)
     vk_semaphore   wraps a VkSemaphore of the caller's, who keeps it alive (Vulkan)
     handle_type    imports an exported semaphore (Vulkan, CUDA) */
typedef struct rvit_semaphore_desc {
    size_t struct_size;
    int32_t timeline; /* 0: binary; 1: timeline */
    int32_t shared;   /* 0 or 1 */
    uint64_t vk_semaphore;
    /* OPAQUE_FD: VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT. CUDA's
       CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD (binary) and TIMELINE_SEMAPHORE_FD (timeline) are
       the same. OPAQUE_WIN32: likewise, with WIN32 instead of FD in these names */
    rvit_handle_type handle_type;
    intptr_t handle; /* on success the library owns it and closes it */
} rvit_semaphore_desc;
#define RVIT_SEMAPHORE_DESC_INIT RVIT_INIT(rvit_semaphore_desc)

/* UNSUPPORTED: the device has no such semaphores, or does not share them in this way.
   INVALID_ARGUMENT: the handle does not describe such a semaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_semaphore_create(rvit_device *device, const rvit_semaphore_desc *desc,
                                                          rvit_semaphore **out_semaphore);
/* No wait for the semaphore and no signal of it may be pending. */
RVIT_API void rvit_semaphore_destroy(rvit_semaphore *semaphore);
/* A new handle, which the caller closes or passes to an import. INVALID_ARGUMENT: the semaphore was
   not created with shared = 1. */
RVIT_API RVIT_NODISCARD rvit_status rvit_semaphore_export(const rvit_semaphore *semaphore, rvit_handle_type *out_type,
                                                          intptr_t *out_handle);
/* The VkSemaphore or CUexternalSemaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_semaphore_handle(const rvit_semaphore *semaphore, uint64_t *out_handle);
/* Makes all work enqueued on the stream from now on wait until the semaphore is signalled (binary;
   this unsignals it, and value is ignored) or has reached value (timeline). Everything done before
   the signal is visible. INVALID_ARGUMENT: the semaphore belongs to another device, or the stream
   is recording or records into a command buffer.

   Vulkan: all streams share one queue, so later submits to that queue wait too. The signal of a
   binary semaphore must already have been submitted. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_wait(rvit_stream *stream, const rvit_semaphore *semaphore, uint64_t value);
/* Signals the semaphore (binary) or sets it to value, which must exceed its current one (timeline),
   once all work enqueued so far is done. Errors as for rvit_stream_wait. */
RVIT_API RVIT_NODISCARD rvit_status rvit_stream_signal(rvit_stream *stream, const rvit_semaphore *semaphore, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
