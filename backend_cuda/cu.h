/* Declarations that the files of the CUDA backend share.

   Each op has a file that fills its kernel's params struct, chooses a grid from capacities (tile.h) and launches on a queue: a CUDA
   stream and the scratch memory of its ops. Eager ops launch on the queue of their stream. The ops of a program launch once, on the
   program's own queue, while the driver captures them into a graph. */
#ifndef RVIT_CU_H
#define RVIT_CU_H

#include "backend_cuda/driver.h"
#include "backend_cuda/linear_choose.h"
#include "backend_cuda/params.h"
#include "backend_cuda/tile.h"
#include "core/base/os.h"
#include "core/contract/backend.h"

typedef enum rvit_cu_kernel {
#define RVIT_CU_KERNEL(name, ...) RVIT_CU_##name,
#include "backend_cuda/kernels/kernels.def"
    RVIT_CU_N_KERNELS
} rvit_cu_kernel;

/* The kernels of an op by element type. */
#define RVIT_CU_OF_TYPES(op)                                                                                \
    {                                                                                                       \
        [RVIT_F32] = RVIT_CU_##op##_f32, [RVIT_F16] = RVIT_CU_##op##_f16, [RVIT_BF16] = RVIT_CU_##op##_bf16 \
    }

/* The same for a variant of the kernels. */
#define RVIT_CU_OF_TYPES_AND(op, variant)                                                                                                 \
    {                                                                                                                                     \
        [RVIT_F32] = RVIT_CU_##op##_f32_##variant, [RVIT_F16] = RVIT_CU_##op##_f16_##variant, [RVIT_BF16] = RVIT_CU_##op##_bf16_##variant \
    }

typedef struct rvit_cu_lt rvit_cu_lt;

typedef struct rvit_cu_device {
    rvit_device base;
    const rvit_cu_driver *driver;
    CUdevice handle;
    CUcontext context;
    int retained;          /* device holds a reference to its primary context */
    unsigned long long id; /* of the context; changes when the application resets the GPU; 0: the driver has no ids */
    CUmodule module;
    CUfunction kernels[RVIT_CU_N_KERNELS];
    int e4m3; /* e4m3 kernels are present */
    rvit_cu_machine machine;
    /* rvit_cu_linear_choose; tests replace it */
    rvit_cu_linear_choice (*choose_linear)(const rvit_cu_machine *machine, const rvit_cu_linear_facts *facts);
    rvit_cu_lt *lt; /* cuBLASLt; NULL: not opened */
    int sleeps;     /* threads that wait for a stream sleep instead of spinning, whatever the context's flags are */
} rvit_cu_device;

typedef struct rvit_cu_buffer {
    rvit_buffer base;          /* base.address is the device address */
    CUexternalMemory external; /* imported memory that it maps; NULL: none */
} rvit_cu_buffer;

/* Device memory that grows when an op needs more. After a warm-up it no longer grows. */
typedef struct rvit_cu_scratch {
    CUdeviceptr pointer;
    size_t size;
} rvit_cu_scratch;

/* A GEMM of one shape for cuBLASLt: descriptors and an algorithm (linear_lt.c). */
typedef struct rvit_cu_lt_gemm rvit_cu_lt_gemm;

typedef struct rvit_cu_grid {
    unsigned x, y, z;
} rvit_cu_grid;

#define RVIT_CU_MAX_PARAMS 512 /* bytes, of any kernel */

/* The kernel of an op with by_launch in a program's graph, and the parameters set in the executable graph. */
typedef struct rvit_cu_node {
    CUgraphNode node;
    rvit_cu_kernel kernel;
    rvit_cu_grid grid;
    int known; /* 0: an update failed, so the parameters in the graph are unknown */
    unsigned char params[RVIT_CU_MAX_PARAMS];
} rvit_cu_node;

#define RVIT_CU_MAX_NODES 2

typedef struct rvit_cu_queue {
    rvit_cu_device *device;
    CUstream stream;
    int capturing;                    /* scratch memory cannot grow */
    int records;                      /* the queue of a program: its ops are prepared once and run often */
    rvit_cu_scratch layout;           /* select and bipartite_match: zeroed once; each op leaves it ready for the next */
    rvit_cu_scratch sorted;           /* select with long images */
    rvit_cu_scratch caller_workspace; /* size > 0: the caller's memory, used instead of layout and sorted */
    rvit_cu_scratch workspace;        /* cuBLASLt */
    rvit_cu_lt_gemm *gemms;           /* linked list */
    int checked_lt;                   /* the queue has tried to open cuBLASLt */
    rvit_op_hints hints;              /* of the current op */
    int after_own_kernel;             /* the last launch was a kernel of this backend */
    const rvit_op *ops;               /* the ops of the program being recorded; none in eager mode */
    int32_t n_ops;
    const rvit_op *next_ops; /* the ops recorded after the current one; none in eager mode */
    int32_t n_next_ops;
    CUgraphExec changed; /* if set, launches update `node` in this graph */
    rvit_cu_node *node;  /* of the op being recorded or updated, or NULL */
    int64_t launches, copies, synchronizations;
} rvit_cu_queue;

typedef struct rvit_cu_stream {
    rvit_stream base;
    rvit_cu_queue queue;
    CUevent done; /* to sleep while waiting; NULL: the context's flags decide how to wait */
} rvit_cu_stream;

typedef struct rvit_cu_program {
    rvit_program base;
    rvit_cu_queue queue;
    CUgraphExec graph;
    CUgraph source; /* graph was instantiated from it; kept while nodes are updated, else NULL */
    rvit_cu_node nodes[RVIT_CU_MAX_NODES];
    int32_t n_nodes;
    rvit_mutex lock; /* of graph and nodes: several threads may launch a program, but a graph only one at a time */
} rvit_cu_program;

static inline rvit_cu_device *rvit_cu_device_of(const rvit_device *device)
{
    return (rvit_cu_device *)(uintptr_t)device;
}

/* The device address of a view, or NULL for an empty view. */
static inline void *rvit_cu_at(rvit_view view)
{
    return view.buffer == NULL ? NULL : (void *)(uintptr_t)(view.buffer->address + (uint64_t)view.offset);
}

/* The fields of rvit_cu_attention_size, except bias_stats, for attention, its gradient and attention_received. */
#define RVIT_CU_ATTENTION_SIZE(args)                                                                                   \
    .element_size = (int32_t)rvit_dtype_size((args)->dtype), .head_dim = (args)->head_dim, .n_heads = (args)->n_heads, \
    .n_images = (args)->n_images, .rows = (args)->rows, .len = (args)->max_len < (args)->rows ? (args)->max_len : (int32_t)(args)->rows

/* The fields that the params of attention, its gradient and attention_received share. */
#define RVIT_CU_ATTENTION_PARAMS(args)                                                                                                    \
    .q = rvit_cu_at((args)->q), .k = rvit_cu_at((args)->k), .cu_seqlens = rvit_cu_at((args)->cu_seqlens), .lse = rvit_cu_at((args)->lse), \
    .key_bias = rvit_cu_at((args)->key_bias), .q_stride = (int32_t)(args)->q_stride, .k_stride = (int32_t)(args)->k_stride,               \
    .n_heads = (args)->n_heads, .head_dim = (args)->head_dim, .max_len = (args)->max_len, .rows = (int32_t)(args)->rows

/* The factor of the logits for softmax: 16-bit kernels use powers of two, float32 kernels powers of e. */
static inline float rvit_cu_softmax_factor(rvit_dtype dtype)
{
    return dtype == RVIT_F32 ? 1.0f : 1.44269504088896340736f; /* log2(e) */
}

static inline rvit_cu_rows rvit_cu_rows_of(const rvit_rows *rows)
{
    return (rvit_cu_rows){rvit_cu_at(rows->live), (int32_t)rows->capacity, 0};
}

/* context.c. Makes the device's context current in the calling thread if it is not; leave restores the old one. DEVICE_LOST: the
   application reset the GPU. The driver's objects are gone then and must not be destroyed. */
rvit_status rvit_cu_enter(const rvit_cu_device *device, int *out_entered);
void rvit_cu_leave(const rvit_cu_device *device, int entered);

/* device.c */
rvit_status rvit_cu_device_describe(int32_t index, rvit_device_info *out_info);
rvit_status rvit_cu_device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device);
/* On the caller's context, which must outlive the device. */
rvit_status rvit_cu_device_create_on(CUcontext context, const rvit_alloc *alloc, rvit_device **out_device);
void rvit_cu_device_destroy(rvit_device *device);

/* module.c: loads the kernels. Needs the device's context to be current. */
rvit_status rvit_cu_kernels_load(rvit_cu_device *device);

/* ops.c */
const char *rvit_cu_supports(const rvit_device *device, const rvit_op *op);
rvit_status rvit_cu_run(rvit_cu_queue *queue, const rvit_op *op);
/* Allocates the scratch memory of an op in advance, because a capture must not allocate. */
rvit_status rvit_cu_reserve(rvit_cu_queue *queue, const rvit_op *op);
void rvit_cu_queue_close(rvit_cu_queue *queue);

/* buffer.c */
/* cuMemAlloc in the device's context. The detail of a failure names the sizes. */
rvit_status rvit_cu_allocate(const rvit_cu_device *device, size_t size, CUdeviceptr *out_pointer);
rvit_status rvit_cu_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
rvit_status rvit_cu_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer);
void rvit_cu_buffer_destroy(rvit_buffer *buffer);
/* external.c: maps imported memory. Needs the device's context to be current. On success memory->handle is closed. */
rvit_status rvit_cu_import_memory(const rvit_cu_device *device, const rvit_external_memory *memory, int64_t size, rvit_cu_buffer *buffer);

rvit_status rvit_cu_semaphore_open(rvit_semaphore *semaphore, const rvit_semaphore_desc *desc);
void rvit_cu_semaphore_close(rvit_semaphore *semaphore);
rvit_status rvit_cu_stream_semaphore(rvit_stream *stream, const rvit_semaphore *semaphore, int signals, uint64_t value);

/* queue.c */
rvit_status rvit_cu_launch(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t ctas, int32_t threads, int32_t shared, void *params);
rvit_status rvit_cu_launch_grid(rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params);
/* One warp per row. A small batch gets smaller CTAs, so that it uses more SMs. */
rvit_status rvit_cu_launch_rows(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t rows, void *params);
/* row_blocks CTAs per head and image. Images beyond the grid's limit get further launches. first_image points into params. */
rvit_status rvit_cu_launch_images(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t n_images, int32_t n_heads, int32_t row_blocks,
                                  int32_t threads, int32_t shared, int32_t *first_image, void *params);
/* In clusters of `cluster` CTAs. */
rvit_status rvit_cu_launch_clusters(rvit_cu_queue *queue, rvit_cu_kernel kernel, int32_t ctas, int32_t cluster, int32_t threads,
                                    int32_t shared, void *params);
#define RVIT_CU_MAX_GRID_Z 65535 /* also the limit for y, on every device */
/* Whether the op writes any of the `size` bytes at view. */
int rvit_cu_writes(const rvit_op *op, rvit_view view, int64_t size);
/* Grows to at least `size` zeroed bytes. Waits for the stream before it frees the old memory. */
rvit_status rvit_cu_scratch_reserve(rvit_cu_queue *queue, rvit_cu_scratch *scratch, size_t size);
void rvit_cu_scratch_free(rvit_cu_queue *queue, rvit_cu_scratch *scratch);

/* One file per op. */
#define RVIT_OP(TYPE, name) rvit_status rvit_cu_##name(rvit_cu_queue *queue, const rvit_##name##_args *args);
#include "core/contract/ops.def"
/* Allocates the op's scratch memory in the queue. */
rvit_status rvit_cu_select_reserve(rvit_cu_queue *queue, const rvit_select_args *args);
rvit_status rvit_cu_bipartite_match_reserve(rvit_cu_queue *queue, const rvit_bipartite_match_args *args);

/* layout.c: shared by select and bipartite_match. */
/* Reserves memory for the records of n_images images and for n_sorted numbers to sort: the queue's own or the caller's. */
rvit_status rvit_cu_layout_reserve(rvit_cu_queue *queue, int64_t n_images, int64_t n_sorted);
size_t rvit_cu_layout_size(int64_t n_images);
/* The address of the numbers to sort. */
void *rvit_cu_layout_sorted(const rvit_cu_queue *queue, int64_t n_images);
/* Sets the addresses of the reserved records in `layout`. */
void rvit_cu_layout_attach(const rvit_cu_queue *queue, rvit_cu_layout *layout);

/* linear.c: opens cuBLASLt and looks up its algorithm, if cuBLASLt is chosen. */
rvit_status rvit_cu_linear_reserve(rvit_cu_queue *queue, const rvit_linear_args *args);

/* linear_params.c */
/* Whether no op of the program writes what is read before the previous kernel ends: weight, bias and scales, except those of rows. */
int rvit_cu_linear_has_constant_weights(const rvit_cu_queue *queue, const rvit_linear_args *args);
/* The kernel parameters. in_features counts elements of x, out_features columns of the GEMM. */
rvit_cu_linear_params rvit_cu_linear_params_of(const rvit_cu_queue *queue, const rvit_linear_args *args);
/* The input for the choice of a kernel. */
rvit_cu_linear_facts rvit_cu_linear_facts_of(const rvit_cu_queue *queue, const rvit_linear_args *args);

/* linear_lt.c: GEMMs by cuBLASLt. */
rvit_status rvit_cu_lt_open(rvit_cu_device *device);
/* entered: the context is current; without it, cuBLASLt's handle is leaked. */
void rvit_cu_lt_close(rvit_cu_device *device, int entered);
/* Looks up how cuBLASLt runs the op and caches it in the queue. *out_gemm is NULL if it cannot. */
rvit_status rvit_cu_lt_prepare(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_choice *choice,
                               const rvit_cu_lt_gemm **out_gemm);
rvit_status rvit_cu_lt_run(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm);
void rvit_cu_lt_forget(rvit_cu_queue *queue);

/* linear_hopper.c: wgmma GEMMs. */
int rvit_cu_prefers_quantized(const rvit_device *device, const rvit_op *linear);
rvit_status rvit_cu_linear_small_m(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_small_m_tile *tile);
rvit_status rvit_cu_linear_large_m(rvit_cu_queue *queue, const rvit_linear_args *args);

/* linear_own.c: GEMM kernels that run on every device. */
rvit_status rvit_cu_linear_own(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_tile *tile);

/* stream.c */
rvit_status rvit_cu_stream_create(rvit_device *device, rvit_stream **out_stream);
rvit_status rvit_cu_stream_wrap(rvit_device *device, void *native, rvit_stream **out_stream);
void rvit_cu_stream_set(rvit_stream *stream, void *native);
void rvit_cu_stream_destroy(rvit_stream *stream);
rvit_status rvit_cu_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops);
rvit_status rvit_cu_stream_synchronize(rvit_stream *stream);

/* nodes.c: graph kernels whose parameters change between launches. */
/* Whether the driver supports this. */
int rvit_cu_nodes_work(const rvit_cu_device *device);
/* Finds the node that the queue's stream captured last. */
rvit_status rvit_cu_node_find(const rvit_cu_queue *queue, rvit_cu_node *node);
/* Stores the parameters of a launch in `node`. */
void rvit_cu_node_keep(rvit_cu_node *node, rvit_cu_kernel kernel, rvit_cu_grid grid, const void *params);
/* Updates queue->node in the executable graph queue->changed, if the parameters differ. */
rvit_status rvit_cu_node_change(const rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params);

/* program.c */
rvit_status rvit_cu_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);
void rvit_cu_program_destroy(rvit_program *program);
rvit_status rvit_cu_program_launch(rvit_program *program, rvit_stream *stream, const rvit_op *ops);

#endif
