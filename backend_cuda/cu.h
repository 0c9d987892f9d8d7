/* What the files of the CUDA backend share.

   Each op file fills the params struct of its kernel, chooses a grid from capacities (tile.h) and launches on a queue: a stream and the
   memory that ops on it need between them. Eager ops launch on the queue of their stream; a program's ops launch once on a queue of its own
   while the driver captures them into a graph. */
#ifndef RVIT_CU_H
#define RVIT_CU_H

#include <pthread.h>

#include "backend_cuda/driver.h"
#include "backend_cuda/linear_choose.h"
#include "backend_cuda/params.h"
#include "backend_cuda/tile.h"
#include "core/contract/backend.h"

typedef enum rvit_cu_kernel {
#define RVIT_CU_KERNEL(name, ...) RVIT_CU_##name,
#include "backend_cuda/kernels/kernels.def"
    RVIT_CU_N_KERNELS
} rvit_cu_kernel;

/* An array of the kernels of an op by element type. */
#define RVIT_CU_OF_TYPES(op)                                                                                \
    {                                                                                                       \
        [RVIT_F32] = RVIT_CU_##op##_f32, [RVIT_F16] = RVIT_CU_##op##_f16, [RVIT_BF16] = RVIT_CU_##op##_bf16 \
    }

/* The same of a variant of it. */
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
    int retained;          /* the context is the device's primary one, held by us */
    unsigned long long id; /* of the context: another after the application has reset the GPU; 0 where the driver has none */
    CUmodule module;
    CUfunction kernels[RVIT_CU_N_KERNELS];
    int e4m3; /* its kernels for e4m3 are there */
    rvit_cu_machine machine;
    /* rvit_cu_linear_choose; tests have others */
    rvit_cu_linear_choice (*choose_linear)(const rvit_cu_machine *machine, const rvit_cu_linear_facts *facts);
    rvit_cu_lt *lt; /* cuBLASLt; NULL: not there */
    int sleeps;     /* threads that wait for a stream of ours sleep, whatever the context's flags say */
} rvit_cu_device;

typedef struct rvit_cu_buffer {
    rvit_buffer base;
    CUdeviceptr pointer;
    int external;            /* wrapped: not ours to free */
    CUexternalMemory memory; /* that it is mapped from; NULL: an allocation */
} rvit_cu_buffer;

static inline void rvit_cu_buffer_point(rvit_cu_buffer *buffer, CUdeviceptr pointer)
{
    buffer->pointer = pointer;
    buffer->base.memory = RVIT_MEMORY_POINTERS;
    buffer->base.address = pointer;
}

/* Memory of the backend's own on the device: grows when an op needs more than any before it, which ends once everything has run. */
typedef struct rvit_cu_scratch {
    CUdeviceptr pointer;
    size_t size;
} rvit_cu_scratch;

/* A GEMM of one shape as cuBLASLt runs it: descriptors and an algorithm (linear_lt.c). */
typedef struct rvit_cu_lt_gemm rvit_cu_lt_gemm;

/* CTAs numbered in three dimensions. */
typedef struct rvit_cu_grid {
    unsigned x, y, z;
} rvit_cu_grid;

#define RVIT_CU_MOST_PARAMS 512 /* bytes, of every kernel */

/* The kernel of an op with by_launch in a program's graph, and what the executable graph has of it. */
typedef struct rvit_cu_node {
    CUgraphNode node;
    rvit_cu_kernel kernel;
    rvit_cu_grid grid;
    int known; /* 0: a change has failed */
    unsigned char params[RVIT_CU_MOST_PARAMS];
} rvit_cu_node;

#define RVIT_CU_MAX_NODES 2

typedef struct rvit_cu_queue {
    rvit_cu_device *device;
    CUstream stream;
    int capturing;                    /* memory is reserved beforehand */
    int records;                      /* a program's: its ops are prepared once and run often */
    rvit_cu_scratch layout;           /* of select and match: zeroed once; each leaves it ready for the next */
    rvit_cu_scratch sorted;           /* of select, for long images */
    rvit_cu_scratch caller_workspace; /* size not 0: memory of the caller's in place of layout and sorted */
    rvit_cu_scratch workspace;        /* of cuBLASLt */
    rvit_cu_lt_gemm *gemms;           /* a list */
    int asked_for_lt;
    rvit_op_hints hints;  /* of the op that runs or is prepared */
    int after_own_kernel; /* what was enqueued last is a kernel of the backend */
    const rvit_op *ops;   /* of the program that is recorded; eager: none */
    int32_t n_ops;
    const rvit_op *next_ops; /* the ops recorded after the one that runs; eager: none */
    int32_t n_next_ops;
    CUgraphExec changed; /* not NULL: launches change `node` there */
    rvit_cu_node *node;  /* of the op that is recorded or changed; NULL: it has none */
    int64_t launches, copies, synchronizations;
} rvit_cu_queue;

typedef struct rvit_cu_stream {
    rvit_stream base;
    rvit_cu_queue queue;
    int external;
    CUevent done; /* what is waited for asleep; NULL: waiting is as the context's flags say */
} rvit_cu_stream;

typedef struct rvit_cu_program {
    rvit_program base;
    rvit_cu_queue queue;
    CUgraphExec graph;
    CUgraph source; /* of graph, which its nodes are named by; NULL: nothing changes them */
    rvit_cu_node nodes[RVIT_CU_MAX_NODES];
    int32_t n_nodes;
    pthread_mutex_t lock; /* of graph and nodes: a program is for several threads, a graph for one at a time */
} rvit_cu_program;

static inline rvit_cu_device *rvit_cu_device_of(const rvit_device *device)
{
    return (rvit_cu_device *)(uintptr_t)device;
}

/* The device address of a view; NULL for an absent one. */
static inline void *rvit_cu_at(rvit_view view)
{
    return view.buffer == NULL ? NULL : (void *)(uintptr_t)(((const rvit_cu_buffer *)view.buffer)->pointer + (CUdeviceptr)view.offset);
}

/* The sizes of attention, of its gradient or of received, but for bias_stats. */
#define RVIT_CU_ATTENTION_SIZE(args)                                                                                   \
    .element_size = (int32_t)rvit_dtype_size((args)->dtype), .head_dim = (args)->head_dim, .n_heads = (args)->n_heads, \
    .n_images = (args)->n_images, .rows = (args)->rows, .len = (args)->max_len < (args)->rows ? (args)->max_len : (int32_t)(args)->rows

static inline rvit_cu_rows rvit_cu_rows_of(const rvit_rows *rows)
{
    return (rvit_cu_rows){rvit_cu_at(rows->live), (int32_t)rows->capacity, 0};
}

/* context.c. Makes the device's context current in the calling thread, unless it already is; leave undoes
   that. DEVICE_LOST: the application has reset the GPU. The driver's objects are gone then, and must not
   be destroyed either. */
rvit_status rvit_cu_enter(const rvit_cu_device *device, int *out_entered);
void rvit_cu_leave(const rvit_cu_device *device, int entered);

/* device.c */
rvit_status rvit_cu_device_describe(int32_t index, rvit_device_info *out_info);
rvit_status rvit_cu_device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device);
/* On a context of the caller's, which must outlive the device. */
rvit_status rvit_cu_device_create_on(CUcontext context, const rvit_alloc *alloc, rvit_device **out_device);
void rvit_cu_device_destroy(rvit_device *device);

/* ops.c */
const char *rvit_cu_supports(const rvit_device *device, const rvit_op *op);
rvit_status rvit_cu_run(rvit_cu_queue *queue, const rvit_op *op);
/* Room for what an op needs between launches, so that a capture allocates nothing. */
rvit_status rvit_cu_reserve(rvit_cu_queue *queue, const rvit_op *op);
void rvit_cu_queue_close(rvit_cu_queue *queue);

/* buffer.c */
/* cuMemAlloc, in the device's context; the detail of a failure has the sizes. */
rvit_status rvit_cu_allocate(const rvit_cu_device *device, size_t size, CUdeviceptr *out_pointer);
rvit_status rvit_cu_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
void rvit_cu_buffer_destroy(rvit_buffer *buffer);

/* queue.c */
rvit_status rvit_cu_launch(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t ctas, int32_t threads, int32_t shared, void *params);
rvit_status rvit_cu_launch_grid(rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params);
/* A warp for each row: small CTAs spread a small batch over the device. */
rvit_status rvit_cu_launch_rows(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t rows, void *params);
/* For each head of each image row_blocks CTAs. More images than the grid takes are more launches. first_image: in params. */
rvit_status rvit_cu_launch_images(rvit_cu_queue *queue, rvit_cu_kernel kernel, int64_t n_images, int32_t n_heads, int32_t row_blocks,
                                  int32_t threads, int32_t shared, int32_t *first_image, void *params);
/* In clusters of so many CTAs. */
rvit_status rvit_cu_launch_clusters(rvit_cu_queue *queue, rvit_cu_kernel kernel, int32_t ctas, int32_t cluster, int32_t threads,
                                    int32_t shared, void *params);
#define RVIT_CU_MAX_GRID_Z 65535 /* and y, on every device */
/* Whether the op writes any of the size bytes at view. */
int rvit_cu_writes(const rvit_op *op, rvit_view view, int64_t size);
/* Room for at least size bytes; zeroed if new. Waits for the stream before it frees what it replaces. */
rvit_status rvit_cu_scratch_reserve(rvit_cu_queue *queue, rvit_cu_scratch *scratch, size_t size);
void rvit_cu_scratch_free(rvit_cu_queue *queue, rvit_cu_scratch *scratch);

/* One file for each op. */
#define RVIT_OP(TYPE, name) rvit_status rvit_cu_##name(rvit_cu_queue *queue, const rvit_##name##_args *args);
#include "core/contract/ops.def"
/* Room for what the op needs in memory of the queue's. */
rvit_status rvit_cu_select_reserve(rvit_cu_queue *queue, const rvit_select_args *args);
rvit_status rvit_cu_match_reserve(rvit_cu_queue *queue, const rvit_match_args *args);

/* layout.c: what select and match share. */
/* Memory for the records of n_images images and for n_sorted numbers: the queue's own, or what its caller gave. */
rvit_status rvit_cu_layout_reserve(rvit_cu_queue *queue, int64_t n_images, int64_t n_sorted);
size_t rvit_cu_layout_size(int64_t n_images);
/* Where the numbers lie. */
void *rvit_cu_layout_sorted(const rvit_cu_queue *queue, int64_t n_images);
/* Where the launch finds its records, once they are reserved. */
void rvit_cu_layout_attach(const rvit_cu_queue *queue, rvit_cu_layout *layout);

/* linear.c: opens cuBLASLt and finds its algorithm, if it is to serve. */
rvit_status rvit_cu_linear_reserve(rvit_cu_queue *queue, const rvit_linear_args *args);

/* linear_params.c */
/* Whether no op of the program writes what is read early: weight, bias and scales that are not of rows. */
int rvit_cu_linear_has_constant_weights(const rvit_cu_queue *queue, const rvit_linear_args *args);
/* What the backend's kernels are told; of columns of the product, and of elements of x. */
rvit_cu_linear_params rvit_cu_linear_params_of(const rvit_cu_queue *queue, const rvit_linear_args *args);
/* What the choice of a kernel depends on. */
rvit_cu_linear_facts rvit_cu_linear_facts_of(const rvit_cu_queue *queue, const rvit_linear_args *args);

/* linear_lt.c: GEMMs by cuBLASLt. */
rvit_status rvit_cu_lt_open(rvit_cu_device *device);
/* entered: the context is there; without it the library's own handle is left behind. */
void rvit_cu_lt_close(rvit_cu_device *device, int entered);
/* Finds how cuBLASLt runs the op, and keeps that in the queue. *out_gemm NULL: it cannot. */
rvit_status rvit_cu_lt_prepare(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_choice *choice,
                               const rvit_cu_lt_gemm **out_gemm);
rvit_status rvit_cu_lt_run(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm);
void rvit_cu_lt_forget(rvit_cu_queue *queue);

/* linear_hopper.c: GEMMs by kernels of warpgroups. */
int rvit_cu_prefers_quantized(const rvit_device *device, const rvit_op *linear);
rvit_status rvit_cu_linear_small_m(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_small_m_tile *tile);
rvit_status rvit_cu_linear_large_m(rvit_cu_queue *queue, const rvit_linear_args *args);

/* linear_own.c: GEMMs by kernels that every device runs. */
rvit_status rvit_cu_linear_own(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_tile *tile);

/* stream.c */
rvit_status rvit_cu_stream_create(rvit_device *device, rvit_stream **out_stream);
void rvit_cu_stream_destroy(rvit_stream *stream);
rvit_status rvit_cu_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops);
rvit_status rvit_cu_stream_synchronize(rvit_stream *stream);

/* nodes.c: kernels of a graph whose params change from launch to launch. */
/* Whether the driver has what this takes. */
int rvit_cu_nodes_work(const rvit_cu_device *device);
/* Finds the node that the queue's stream has just captured. */
rvit_status rvit_cu_node_find(const rvit_cu_queue *queue, rvit_cu_node *node);
/* What a launch gives queue->node. */
void rvit_cu_node_keep(rvit_cu_node *node, rvit_cu_kernel kernel, rvit_cu_grid grid, const void *params);
/* Gives it that in the executable graph queue->changed, unless it has it. */
rvit_status rvit_cu_node_change(const rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params);

/* program.c */
rvit_status rvit_cu_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);
void rvit_cu_program_destroy(rvit_program *program);
rvit_status rvit_cu_program_launch(rvit_program *program, rvit_stream *stream, const rvit_op *ops);

#endif
