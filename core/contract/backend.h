/* The interface of a backend: one table of functions. core fills in the base structs, checks arguments and forwards calls. A backend embeds
   each base struct as the first member of its own struct, which it allocates with the device's allocator.

   A stream runs in order. enqueue runs ops at once (CUDA: launches, Vulkan: a transient command buffer, CPU: runs them). A program is a
   list of ops prepared for replay (CUDA: a graph, Vulkan: a recorded command buffer, CPU: the list). The device reads lengths when the ops
   run; once warm, neither enqueue nor launch may wait, allocate or read back. */
#ifndef RVIT_CORE_CONTRACT_BACKEND_H
#define RVIT_CORE_CONTRACT_BACKEND_H

#include <stdatomic.h>

#include <raggedvit/model.h>

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/contract/op.h"

typedef struct rvit_backend_api rvit_backend_api;

struct rvit_device {
    const rvit_backend_api *api;
    rvit_device_info info;
    rvit_alloc alloc;
    atomic_int references;
    atomic_llong device_allocations; /* core counts buffers; a backend adds its other allocations */
    atomic_llong buffer_size[4];     /* current bytes in buffers, by type; counted by core */
    atomic_llong working_size;       /* current bytes of device memory in streams and programs; counted by the backend */
    int32_t debug_checks;
    int32_t takes_ops; /* set by the backend: programs may hold ops with by_launch */
    int64_t max_array; /* set by the backend: largest array in bytes that an op other than copy can use; 0: no limit */
    int32_t transfers; /* set by the backend: enqueued copies from mapped memory overlap with the kernels of other streams */
    /* Set by the backend; plans depend on these. */
    int32_t reads_mapped;     /* ops read mapped memory as fast as device memory */
    int32_t fuses_rows;       /* consecutive ops may run on a few rows at a time: arrays of an MLP and of the next qkv may not overlap */
    int32_t binds_capacity;   /* an op binds its arrays at capacity, so their memory must be that large */
    int32_t widens;           /* types that info.native_dtypes lacks are computed as float32, at its speed */
    rvit_precision fast_8bit; /* the 8-bit type whose GEMMs are faster than those of 16 bits; with widens, only if I8 is in native_dtypes.
                                 RVIT_PRECISION_AUTO: none */
};

struct rvit_buffer {
    rvit_device *device;
    int64_t size;
    int64_t counted; /* used by core: this buffer's share of the device's buffer_size; 0 for the caller's memory */
    rvit_buffer_type type;
    int32_t wrapped; /* set by the backend: the caller frees the memory */
    void *host;      /* mapped pointer, or NULL */
    /* Set by the backend: the buffer begins at `address` in `memory`; buffers may share a memory */
    uint64_t memory, address;
};

/* The memory of a buffer whose address is a pointer. */
enum { RVIT_ADDRESS_SPACE = 1 };

struct rvit_stream {
    rvit_device *device;
    void *native;     /* a CUstream or VkCommandBuffer; set by the backend, of a wrapped one by core */
    int32_t wrapped;  /* set by core: native is the caller's */
    rvit_stats stats; /* launches, submits, synchronizations, copies: counted by the backend */
    int32_t deferred; /* set by the backend: the caller decides when enqueued work runs, so it cannot be waited for */
    /* used by core: the recording, and staging memory for write and read */
    rvit_op *recorded;
    int32_t n_recorded, recorded_capacity, recording;
    rvit_buffer *upload, *readback;
};

struct rvit_program {
    rvit_device *device;
};

struct rvit_semaphore {
    rvit_device *device;
    int32_t timeline, shared, wrapped; /* set by core, as is native if wrapped is 1 */
    uint64_t native;                   /* VkSemaphore or CUexternalSemaphore */
};

struct rvit_backend_api {
    rvit_backend backend;

    /* Describes device `index` (from 0; -1: the one that device_create would choose) and keeps nothing open. UNAVAILABLE with a detail:
       the backend or the index cannot be used; INVALID_ARGUMENT: no such index. */
    rvit_status (*device_describe)(int32_t index, rvit_device_info *out_info);

    /* desc is complete. The backend copies *alloc into the device before using it, and sets alloc and info of the base; core sets the
       rest. */
    rvit_status (*device_create)(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device);
    void (*device_destroy)(rvit_device *device);

    /* The current rvit_device_info.memory_free. */
    int64_t (*device_free_memory)(const rvit_device *device);

    /* As rvit_device_get_cache; NULL: the backend has no cache. */
    rvit_status (*device_get_cache)(rvit_device *device, void *data, size_t capacity, size_t *out_size);

    /* NULL if the device can run this prepared op, else the reason: a static sentence without a full stop. */
    const char *(*supports)(const rvit_device *device, const rvit_op *op);

    /* Optional: may reorder the weight of a prepared linear op (without rows and out) in place, at once or on the stream. It then sets
       hints.arranged, which core passes with every op that has this weight. */
    rvit_status (*arrange_weight)(rvit_stream *stream, rvit_op *linear);

    /* Optional: whether a prepared and supported linear op with E4M3 output is faster than one with 16-bit output followed by quantize. It
       decides by capacities only. NULL: never. */
    int (*prefers_quantized)(const rvit_device *device, const rvit_op *linear);

    rvit_status (*buffer_create)(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
    void (*buffer_destroy)(rvit_buffer *buffer);
    /* As rvit_buffer_wrap. core has done the checks that all backends share; memory is of a type in memory_types, bits
       1 << rvit_memory_type.
       The backend sets size, too. */
    int32_t memory_types;
    rvit_status (*buffer_wrap)(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer);
    /* Optional: as rvit_buffer_export, of a SHARED buffer; sets all but struct_size. NULL: the backend cannot create such buffers. */
    rvit_status (*buffer_export)(const rvit_buffer *buffer, rvit_external_memory *out_memory);

    rvit_status (*stream_create)(rvit_device *device, rvit_stream **out_stream);
    /* Optional, both: a stream on a native one, and its change to another one while it is not recording. */
    rvit_status (*stream_wrap)(rvit_device *device, void *native, rvit_stream **out_stream);
    void (*stream_set)(rvit_stream *stream, void *native);
    void (*stream_destroy)(rvit_stream *stream); /* core has synchronised the stream */
    rvit_status (*stream_enqueue)(rvit_stream *stream, const rvit_op *ops, int32_t n_ops);
    rvit_status (*stream_synchronize)(rvit_stream *stream);

    /* Optional, all of them. open creates or imports the native semaphore from a checked desc, or checks a wrapped one; close destroys one
       that is not wrapped. export: exports a shared one; NULL: the backend cannot export. */
    rvit_status (*semaphore_open)(rvit_semaphore *semaphore, const rvit_semaphore_desc *desc);
    void (*semaphore_close)(rvit_semaphore *semaphore);
    rvit_status (*semaphore_export)(const rvit_semaphore *semaphore, rvit_handle_type *out_type, intptr_t *out_handle);
    /* signals: 0: waits. The stream is of the same device, and neither recording nor deferred. */
    rvit_status (*stream_semaphore)(rvit_stream *stream, const rvit_semaphore *semaphore, int signals, uint64_t value);

    /* ops are prepared and supported; they are valid during the call only. */
    rvit_status (*program_create)(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);
    void (*program_destroy)(rvit_program *program);
    /* ops: prepared and supported, one for each of the program's ops with by_launch, in their order and of the same shapes, except that
       they may have fewer images, at least 1; NULL: the program has none. They apply to this launch, not to earlier ones. A failure
       enqueues nothing. */
    rvit_status (*program_launch)(rvit_program *program, rvit_stream *stream, const rvit_op *ops);
};

/* Whether to prefer a to b: its kind is better, or the kind is equal and its memory is larger. */
int rvit_device_outranks(const rvit_device_info *a, const rvit_device_info *b);
/* OUT_OF_DEVICE_MEMORY; the detail has the call, the size and the device's memory. */
rvit_status rvit_device_no_memory(const rvit_device *device, const char *call, int64_t size);
void rvit_device_set_pci(rvit_device_info *info, uint32_t domain, uint32_t bus, uint32_t device, uint32_t function);

/* Adds an owner; rvit_device_destroy removes one. */
static inline void rvit_device_retain(rvit_device *device)
{
    atomic_fetch_add(&device->references, 1);
}

/* Duplicates a handle: a driver may take the copy, and the caller's stays valid until everything has succeeded. what: the struct, for
   messages. */
rvit_status rvit_handle_copy(const char *what, rvit_handle_type type, intptr_t handle, intptr_t *out_copy);
/* After the import of a copy, which closes it unless the driver took it: drivers take file descriptors, but no HANDLEs. */
void rvit_handle_copy_end(intptr_t copy, int imported);
#define RVIT_HANDLE_OF_SYSTEM (RVIT_OS_HANDLES_ARE_FDS ? RVIT_HANDLE_OPAQUE_FD : RVIT_HANDLE_OPAQUE_WIN32)

/* For the device_create functions of cuda.h and vulkan.h: completes and checks a caller's desc (NULL: the default). */
rvit_status rvit_device_desc_take(const rvit_device_desc *given, rvit_device_desc *out_desc);

/* The backends that are built in, in order of preference (core/contract/backends.c). */
extern const rvit_backend_api *const rvit_backends[];
extern const int rvit_n_backends;

extern const rvit_backend_api rvit_backend_cpu;
extern const rvit_backend_api rvit_backend_cuda;
extern const rvit_backend_api rvit_backend_vulkan;

#endif
