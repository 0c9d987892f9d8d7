/* What the files of the Vulkan backend share.

   Loader and instance (instance.c), a device and its queue (device.c), pipelines made when first needed (pipeline.c), and a recorder
   (record.c) that turns ops into commands: each op file fills an rvit_vk_dispatch or more and hands them to it. A stream (stream.c)
   records into transient command buffers, or (commands.c) into one of the caller's, a program (program.c) into one that is kept. */
#ifndef RVIT_BACKEND_VULKAN_VULKAN_H
#define RVIT_BACKEND_VULKAN_VULKAN_H

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <pthread.h>

#include <raggedvit/vulkan.h>

#include "vulkan_names.h"

#include <volk.h>

#include "backend_vulkan/functions.h"
#include "core/backend.h"
#include "shaders/common/interface.h"
#include "vulkan_shaders.h"

#define RVIT_VK_MIN_STORAGE 8   /* storage buffers that a shader can have bound on every device worked with */
#define RVIT_VK_MAX_BINDINGS 12 /* those of a shader that is used on the devices that can */
#define RVIT_VK_MAX_TEXELS 3    /* bindings that may be texel buffers: the first ones of a layout */
#define RVIT_VK_MAX_SPECS 12
#define RVIT_VK_PUSH_SIZE 128 /* what every device offers */
#define RVIT_VK_MAX_RANGES 96
#define RVIT_VK_SLOTS 64          /* submits of one stream in flight at most */
#define RVIT_VK_SLOT_OPS 8        /* ops an eager submit holds at most */
#define RVIT_VK_OP_MAX_DISPATCH 3 /* dispatches one op is recorded as at most */

typedef struct rvit_vk_instance {
    VkInstance handle;
    PFN_vkDestroyInstance destroy;
    PFN_vkEnumeratePhysicalDevices enumerate_devices;
    PFN_vkGetPhysicalDeviceProperties get_properties;
    PFN_vkGetPhysicalDeviceProperties2 get_properties2;
    PFN_vkGetPhysicalDeviceFeatures2 get_features2;
    PFN_vkEnumerateDeviceExtensionProperties enumerate_extensions;
    PFN_vkGetInstanceProcAddr get_proc;
    PFN_vkGetPhysicalDeviceMemoryProperties get_memory;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties get_queue_families;
    PFN_vkGetPhysicalDeviceExternalBufferProperties get_external_buffer;
    PFN_vkGetPhysicalDeviceExternalSemaphoreProperties get_external_semaphore;
    PFN_vkCreateDevice create_device;
    PFN_vkGetDeviceProcAddr get_device_proc;
    uint32_t api_version; /* what is used of a device is of no later one */
} rvit_vk_instance;

/* Features and extensions that the backend can use, as bits (features.c). */
enum {
    RVIT_VK_COOPERATIVE_MATRIX = 1 << 0,
    RVIT_VK_FLOAT16 = 1 << 1,
    RVIT_VK_MEMORY_MODEL = 1 << 2,
    RVIT_VK_SUBGROUP_SIZE = 1 << 3,
    RVIT_VK_FULL_SUBGROUPS = 1 << 4,
    RVIT_VK_DEVICE_SCOPE = 1 << 5, /* under the memory model, for atomics of shaders that are of no tier */
    RVIT_VK_TIMELINE = 1 << 6,
    RVIT_VK_EXT_MATRIX = 1 << 7, /* extensions from here on */
    RVIT_VK_EXT_MEMORY_FD = 1 << 8,
    RVIT_VK_EXT_SEMAPHORE_FD = 1 << 9,
    RVIT_VK_MATRIX_FEATURES = RVIT_VK_COOPERATIVE_MATRIX | RVIT_VK_FLOAT16 | RVIT_VK_MEMORY_MODEL | RVIT_VK_SUBGROUP_SIZE |
                              RVIT_VK_FULL_SUBGROUPS | RVIT_VK_DEVICE_SCOPE | RVIT_VK_EXT_MATRIX,
    RVIT_VK_SHARING_FEATURES = RVIT_VK_TIMELINE | RVIT_VK_EXT_MEMORY_FD | RVIT_VK_EXT_SEMAPHORE_FD
};

/* By what drivers are told apart. */
typedef struct rvit_vk_driver {
    uint32_t vendor_id, device_id, version;
    VkDriverId id; /* 0: a device of Vulkan 1.1, which does not tell */
    uint8_t cache_uuid[VK_UUID_SIZE];
} rvit_vk_driver;

/* What the shaders of the matrix tier are specialised for: products of m x k and k x n. m 0: there is no such tier. */
typedef struct rvit_vk_matrix {
    uint32_t m, n, k;
    uint32_t subgroup;   /* the size that they are run with */
    uint32_t processors; /* groups that run side by side, if each fills one */
    int has_half_sums;   /* there are m x n matrices of f16 too, to which attention rounds its weights */
} rvit_vk_matrix;

/* A physical device as far as the backend cares. */
typedef struct rvit_vk_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceLimits limits;
    VkPhysicalDeviceMemoryProperties memory;
    rvit_vk_driver driver;
    VkPhysicalDeviceType type;
    uint32_t queue_family;
    int has_subgroups; /* subgroup arithmetic in compute shaders */
    uint32_t subgroup_size;
    uint32_t features; /* that may be used: what the device offers or, of the caller's, what it was created with */
    rvit_vk_matrix matrix;
    const char *why_no_matrix;
    rvit_device_info info;
} rvit_vk_physical;

typedef struct rvit_vk_layout {
    VkDescriptorSetLayout set;
    VkPipelineLayout pipeline;
} rvit_vk_layout;

typedef struct rvit_vk_pipeline {
    struct rvit_vk_pipeline *next;
    rvit_vk_shader shader;
    uint32_t specs[RVIT_VK_MAX_SPECS];
    uint32_t n_specs;
    const rvit_vk_layout *layout;
    VkPipeline handle; /* VK_NULL_HANDLE: it is wanted */
} rvit_vk_pipeline;

typedef struct rvit_vk_buffer {
    rvit_buffer base;
    VkBuffer handle;
    int64_t offset; /* where it begins in the VkBuffer: 0 but for wrapped ones */
    VkBufferUsageFlags usage;
    VkDeviceMemory memory;
    int borrowed; /* wrapped: not ours to free */
    int shared;   /* the memory can be exported; then these tell of it */
    int64_t memory_size;
    uint32_t memory_type;
} rvit_vk_buffer;

typedef struct rvit_vk_device {
    rvit_device base;
    rvit_vk_instance instance;
    rvit_vk_physical physical;
    VkDevice handle;
    int borrowed;     /* instance, device and queue are the caller's */
    uint32_t enabled; /* features that the device was created with */
    rvit_vk_functions vk;
    VkQueue queue;
    pthread_mutex_t queue_lock;
    void *user; /* of the caller's lock, which stands in for queue_lock; NULL: there is none */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    rvit_tier proven_tier;         /* that has passed its self-test, in this run or the one that the cache is of */
    double submit_work;            /* multiply-adds of a program that go into one submit; 0: no bound */
    int64_t poll_ns;               /* that a wait asks for before it sleeps */
    pthread_mutex_t pipeline_lock; /* guards what follows */
    VkPipelineCache pipeline_cache;
    rvit_vk_layout layouts[RVIT_VK_MAX_TEXELS + 1]; /* [texel buffers] */
    rvit_vk_pipeline *pipelines;
    rvit_vk_buffer grids; /* without any: for what is not part of a program */
} rvit_vk_device;

/* Of four elements. Both formats may be texel buffers on every device. */
static inline VkFormat rvit_vk_texel_format(int half)
{
    return half ? VK_FORMAT_R16G16B16A16_SFLOAT : VK_FORMAT_R32G32B32A32_SFLOAT;
}

static inline rvit_vk_device *rvit_vk_device_of(const rvit_device *device)
{
    return (rvit_vk_device *)device;
}

/* Where a view begins in its VkBuffer. */
static inline int64_t rvit_vk_at(rvit_view view)
{
    return ((const rvit_vk_buffer *)view.buffer)->offset + view.offset;
}

/* status of a Vulkan result; the detail names the call. */
rvit_status rvit_vk_fail(VkResult result, const char *call);
#define RVIT_VK_TRY(table, call, arguments)                 \
    do {                                                    \
        const VkResult try_result = (table).call arguments; \
        if (try_result != VK_SUCCESS)                       \
            return rvit_vk_fail(try_result, #call);         \
    } while (0)

/* instance.c */
rvit_status rvit_vk_instance_open(rvit_vk_instance *out_instance);
/* The caller's instance, with the functions that its get_proc gives; NULL: those of the loader opened here. Close leaves it be. */
rvit_status rvit_vk_instance_borrow(VkInstance handle, PFN_vkGetInstanceProcAddr get_proc, uint32_t api_version,
                                    rvit_vk_instance *out_instance);
void rvit_vk_instance_close(rvit_vk_instance *instance);
/* The index-th device that the backend can work with; -1: the first that is not software, or, if all are, the first. INVALID_ARGUMENT
   past the last; UNAVAILABLE if there is none. */
rvit_status rvit_vk_instance_device(const rvit_vk_instance *instance, rvit_alloc *alloc, int32_t index, rvit_vk_physical *out_physical);
/* The caller's physical device and queue family, of which only these features may be used. */
rvit_status rvit_vk_instance_borrow_device(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice handle,
                                           uint32_t queue_family, uint32_t features, rvit_vk_physical *out_physical);
void rvit_vk_load_functions(const rvit_vk_instance *instance, VkDevice device, rvit_vk_functions *out_functions);

/* features.c */

/* What the device offers. Some drivers crash when they are asked for cooperative matrices. */
rvit_status rvit_vk_find_features(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice device, uint32_t version,
                                  int ask_for_matrices, uint32_t *out_bits);
/* What stands in the lists that the caller's device was created with. */
uint32_t rvit_vk_named_features(const void *chain, const char *const *extensions, uint32_t n_extensions);
/* Of the first feature in a set that is not empty: the name, that there is none, that it is not enabled. */
const char *rvit_vk_feature_name(uint32_t features);
const char *rvit_vk_feature_lacking(uint32_t features);
const char *rvit_vk_feature_missing(uint32_t features);
/* vkCreateDevice with the features of device->enabled. */
VkResult rvit_vk_create_handle(rvit_vk_device *device);

/* matrix.c */

/* What the device, of features, offers for the matrix tier; NULL, or why there is none. */
const char *rvit_vk_find_matrix(const rvit_vk_instance *instance, const VkPhysicalDeviceProperties *properties, uint32_t features,
                                const VkPhysicalDeviceSubgroupProperties *subgroup, VkPhysicalDevice device, rvit_vk_matrix *out_matrix);
int rvit_vk_is_matrix_shader(rvit_vk_shader shader);

/* device.c */
rvit_status rvit_vk_device_describe(int32_t index, rvit_device_info *out_info);
rvit_status rvit_vk_device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device);
void rvit_vk_device_destroy(rvit_device *device);
/* A device of the caller's. desc: complete; its backend and index are not looked at. */
rvit_status rvit_vk_device_create_on(const rvit_vulkan_device_desc *lent, const rvit_device_desc *desc, const rvit_alloc *alloc,
                                     rvit_device **out_device);
/* Around whatever is done with the queue. */
void rvit_vk_queue_lock(rvit_vk_device *device);
void rvit_vk_queue_unlock(rvit_vk_device *device);

/* denied.c: why a tier is not to be used with a driver unless it is asked for, a sentence without a full stop; NULL: it may. A driver
   whose matrix tier is denied must not even be asked for its cooperative matrices. */
const char *rvit_vk_denied(const rvit_vk_driver *driver, rvit_tier tier);
/* Lowers physical->info.tier past what is denied and says so in the note. */
void rvit_vk_apply_denied(rvit_vk_physical *physical);

/* cache.c: the pipeline cache as a blob that the caller keeps. */

/* NULL, or why the blob is of no use to the driver; *out_payload is what the driver may see. */
const char *rvit_vk_cache_check(const rvit_vk_driver *driver, const void *blob, size_t size, const void **out_payload,
                                size_t *out_payload_size);
rvit_status rvit_vk_cache_open(rvit_vk_device *device, const void *blob, size_t size);
rvit_status rvit_vk_device_get_cache(rvit_device *device, void *data, size_t capacity, size_t *out_size);

/* self_test.c: runs the device's tier on problems with known answers. INTERNAL with a detail: a wrong one. */
rvit_status rvit_vk_self_test(rvit_vk_device *device);

/* loops.c: NULL, or why the op's loops are too long for the driver. */
const char *rvit_vk_loops_fit(const rvit_vk_device *device, const rvit_op *op);

/* work.c: multiply-adds of an op at capacity, roughly. */
double rvit_vk_work(const rvit_op *op);

/* buffer.c */
rvit_status rvit_vk_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
void rvit_vk_buffer_destroy(rvit_buffer *buffer);
/* What the host writes once, a few words, and the device then works with: a type beside those of rvit_buffer_type. */
#define RVIT_VK_BUFFER_WORDS (RVIT_BUFFER_READBACK + 1)
/* The Vulkan side alone, for memory of the backend's own: size, type and device of the base need not be set. */
rvit_status rvit_vk_buffer_open(rvit_vk_device *device, int64_t size, int type, rvit_vk_buffer *out_buffer);
#define RVIT_VK_SIZE_ROUND 16 /* what a VkBuffer holds is rounded up to, so that whole vectors may be read at the end of an array */
#define RVIT_VK_BUFFER_USAGE                                                                                               \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | \
     VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)
/* The memory type that suits best, of those in the mask; negative: none. */
int32_t rvit_vk_choose_memory(const rvit_vk_device *device, uint32_t allowed, int type);
void rvit_vk_buffer_close(rvit_vk_device *device, rvit_vk_buffer *buffer);

/* pipeline.c */
rvit_status rvit_vk_get_layout(rvit_vk_device *device, uint32_t n_texels, const rvit_vk_layout **out_layout);
/* The one that is there, or a new one. */
rvit_status rvit_vk_get_pipeline(rvit_vk_device *device, const rvit_vk_pipeline *wanted, VkPipeline *out_pipeline);
void rvit_vk_pipelines_destroy(rvit_vk_device *device);

/* shape.c: tile sizes, chosen from an op's host-known sizes and the device. */
typedef struct rvit_vk_linear_shape {
    int direct; /* linear_direct.comp */
    int matrix; /* linear_matrix.comp */
    int tight;  /* of that: sums take most of the registers */
    uint32_t threads, rows, columns;
    uint32_t tile_m, tile_n, tile_k;
} rvit_vk_linear_shape;
rvit_vk_linear_shape rvit_vk_shape_linear(const rvit_vk_device *device, const rvit_linear_args *args);
typedef struct rvit_vk_attention_shape {
    int direct; /* attention_direct.comp */
    int matrix; /* attention_matrix.comp */
    int lines;  /* attention.comp for subgroups that hold whole lines */
    uint32_t threads, queries, keys, columns;
} rvit_vk_attention_shape;
rvit_vk_attention_shape rvit_vk_shape_attention(const rvit_vk_device *device, const rvit_attention_args *args);
int rvit_vk_uses_subgroups(const rvit_vk_device *device);
uint32_t rvit_vk_row_teams(const rvit_vk_device *device); /* of common/row_team.glsl, in a group of the largest size */

/* record.c */

/* Groups of a dispatch: ceil(rows * multiply / divide) * times. With live given, rows is the capacity and a program has the device work
   out the number from the rows that are there. */
typedef struct rvit_vk_groups {
    int64_t rows, multiply, divide, times;
    rvit_view live;
} rvit_vk_groups;

typedef struct rvit_vk_dispatch {
    rvit_vk_shader shader;
    uint32_t specs[RVIT_VK_MAX_SPECS];
    uint32_t n_specs;
    uint32_t n_bindings;
    VkDescriptorBufferInfo bindings[RVIT_VK_MAX_BINDINGS];
    uint32_t n_texels; /* the first bindings are texel buffers of this format, the rest storage buffers */
    VkFormat texel_format;
    const void *push;
    uint32_t push_size;
    rvit_vk_groups groups;
} rvit_vk_dispatch;

/* A grid that a program needs, made after the op `producer` (-1: before the first). */
typedef struct rvit_vk_need {
    rvit_vk_groups groups;
    int32_t producer;
    int32_t slot; /* the grid's number */
} rvit_vk_need;

typedef struct rvit_vk_plan {
    rvit_vk_need *needs; /* room for RVIT_VK_OP_MAX_DISPATCH an op */
    int32_t n_needs;
    const rvit_op *ops;
    int32_t n_grids;      /* once the needs are numbered */
    rvit_vk_buffer grids; /* the program's */
} rvit_vk_plan;

typedef struct rvit_vk_range {
    VkBuffer buffer; /* of which several rvit_buffers may be wrapped */
    int64_t begin, end;
    int writes;
} rvit_vk_range;

/* What there was since the last full barrier: an op that needs one before what depends on it, a compute-only barrier. */
#define RVIT_VK_NEEDS_FULL 1
#define RVIT_VK_COMPUTE_BARRIER 2

typedef struct rvit_vk_recorder {
    rvit_vk_device *device;
    VkCommandBuffer commands; /* NULL: a dry run, which counts and plans */
    VkDescriptorPool descriptors;
    VkBufferView *views; /* made for texel buffers; theirs who owns the recording */
    rvit_vk_plan *plan;  /* NULL: no indirect dispatch */
    int32_t op_index;
    rvit_access accesses[RVIT_OP_MAX_ACCESSES + 1]; /* of the op being recorded, by slot; then the grids, if it touches some */
    int n_accesses;
    rvit_vk_range ranges[RVIT_VK_MAX_RANGES]; /* touched since the last barrier */
    int n_ranges;
    int since_full; /* RVIT_VK_NEEDS_FULL, RVIT_VK_COMPUTE_BARRIER */
    int64_t launches, copies;
    uint32_t n_sets, n_views;
    rvit_vk_pipeline *wanted; /* pipelines that a dry run did not find: then compiled, or dropped */
} rvit_vk_recorder;

/* pipeline.c */
rvit_status rvit_vk_want_pipeline(rvit_vk_recorder *dry, const rvit_vk_pipeline *wanted);
/* Side by side, in threads of its own. */
rvit_status rvit_vk_compile_wanted(rvit_vk_recorder *dry);
void rvit_vk_drop_wanted(rvit_vk_recorder *dry);

/* Commands around a recording: the barrier against earlier submits, and the one that lets the host read. */
rvit_status rvit_vk_record_begin(rvit_vk_recorder *recorder, VkCommandBufferUsageFlags usage);
rvit_status rvit_vk_record_end(rvit_vk_recorder *recorder);
/* A full barrier. */
void rvit_vk_record_barrier(rvit_vk_recorder *recorder);
/* The barrier that the op whose accesses are listed needs before it, if any; afterwards what it touched is remembered. needs_full: it is a
   transfer, or writes what indirect dispatches read. */
void rvit_vk_record_order(rvit_vk_recorder *recorder, int needs_full);
void rvit_vk_record_remember(rvit_vk_recorder *recorder, int needs_full);
/* Binds the array in a slot of the op being recorded (RVIT_SLOT), and returns where it begins in the binding, in units of `unit` bytes. An
   array that is absent or empty is replaced by another of the op: 0, or -1 for a live count. */
int rvit_vk_bind(const rvit_vk_recorder *recorder, rvit_vk_dispatch *dispatch, uint32_t binding, int slot, int unit);
/* What the groups of an op over these rows are worked out from; absent: the capacity. */
rvit_view rvit_vk_grid_live(rvit_rows rows);
rvit_status rvit_vk_record_dispatch(rvit_vk_recorder *recorder, const rvit_vk_dispatch *dispatch);

/* grids.c: the grids of indirect dispatches, as common/grids.glsl has them. */

/* The need that serves a dispatch of the op being recorded; in a dry run it is added if there is none. */
const rvit_vk_need *rvit_vk_find_need(const rvit_vk_recorder *recorder, const rvit_vk_groups *groups);
/* Numbers the grids that are needed. */
void rvit_vk_plan_grids(rvit_vk_plan *plan);
/* Opens the memory of the plan's grids, or, without a plan, of the device. */
rvit_status rvit_vk_grids_open(rvit_vk_device *device, const rvit_vk_plan *plan, rvit_vk_buffer *out_grids);
/* Byte offset of a grid. */
int64_t rvit_vk_grid_offset(int32_t slot);
/* Records the making of the grids that are known after op `producer`, but for those that the op itself makes. */
rvit_status rvit_vk_record_grids(rvit_vk_recorder *recorder, int32_t producer);
/* The same for those that the op being recorded, a select or match, makes itself. */
typedef struct rvit_vk_own_grids {
    int n, grids_at, rules_at;
} rvit_vk_own_grids;
rvit_vk_own_grids rvit_vk_find_own_grids(const rvit_vk_recorder *recorder);
/* The array that holds them, as an access of the op. */
rvit_access rvit_vk_grids_access(const rvit_vk_recorder *recorder);

/* One file for each op. */
#define RVIT_OP(TYPE, name) rvit_status rvit_vk_record_##name(rvit_vk_recorder *recorder, const rvit_##name##_args *args);
#include "core/ops.def"
int rvit_vk_match_share(const rvit_match_args *args); /* consecutive images that a group takes */

/* ops.c */
rvit_status rvit_vk_record_op(rvit_vk_recorder *recorder, const rvit_op *op);
const char *rvit_vk_supports(const rvit_device *device, const rvit_op *op);

/* interop.c */

/* Handles that are not dispatchable are pointers or integers, by the platform; in the public API integers. */
#define RVIT_VK_HANDLE(type, number) ((type)(number))
#define RVIT_VK_NUMBER(handle) ((uint64_t)(handle))
rvit_status rvit_vk_check_device(const char *function, const rvit_device *device);
/* As core does for an object it creates: the child keeps its device alive. */
void rvit_vk_retain(rvit_device *device);

/* stream.c */
rvit_status rvit_vk_stream_create(rvit_device *device, rvit_stream **out_stream);
void rvit_vk_stream_destroy(rvit_stream *stream);
rvit_status rvit_vk_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops);
rvit_status rvit_vk_stream_synchronize(rvit_stream *stream);
/* Submits finished command buffers on the stream, each by itself, nothing of another stream in between. */
rvit_status rvit_vk_stream_submit(rvit_stream *stream, const VkCommandBuffer *commands, int32_t n_commands);
/* Makes what is submitted next wait for a semaphore, or has it signalled once everything before is done. */
rvit_status rvit_vk_stream_semaphore(rvit_stream *stream, VkSemaphore semaphore, int signals, int timeline, uint64_t value);

/* commands.c: streams that record into a command buffer of the caller's; base.deferred tells them. */
rvit_status rvit_vk_commands_create(rvit_vk_device *device, VkCommandBuffer commands, rvit_stream **out_stream);
void rvit_vk_commands_destroy(rvit_stream *stream);
/* Records into another command buffer from now on, and frees what the one before needed. */
void rvit_vk_commands_set(rvit_stream *stream, VkCommandBuffer commands);
/* plan: of the program whose ops they are; NULL: single ops. */
rvit_status rvit_vk_commands_record(rvit_stream *stream, const rvit_op *ops, int32_t n_ops, rvit_vk_plan *plan);

/* program.c */
rvit_status rvit_vk_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);
void rvit_vk_program_destroy(rvit_program *program);
rvit_status rvit_vk_program_launch(rvit_program *program, rvit_stream *stream);

#endif
