/* Declarations shared by the files of the Vulkan backend.

   instance.c opens the loader and an instance, device.c a device and its queue; pipeline.c creates pipelines on first use. A recorder
   (record.c) turns ops into commands: each op file fills one or more rvit_vk_dispatch and passes them to it. A stream records into
   transient command buffers (stream.c) or into the caller's (commands.c); a program records into command buffers that it keeps
   (program.c). */
#ifndef RVIT_BACKEND_VULKAN_VULKAN_H
#define RVIT_BACKEND_VULKAN_VULKAN_H

#include <raggedvit/vulkan.h>

#include "backend_vulkan/functions.h"
#include "backend_vulkan/status.h"
#include "core/base/os.h"
#include "core/contract/backend.h"
#include "shaders/common/interface_grids.h"
#include "shaders/common/interface_images.h"
#include "shaders/common/interface_prune.h"
#include "vulkan_shaders.h"

#define RVIT_VK_MIN_STORAGE 8   /* storage buffers per shader that every supported device can bind */
#define RVIT_VK_MAX_BINDINGS 12 /* the maximum of all shaders; used only on devices that can bind them */
#define RVIT_VK_MAX_TEXELS 3    /* the first bindings of a layout may be texel buffers */
#define RVIT_VK_MAX_SPECS 13
#define RVIT_VK_SPEC_BF16 (RVIT_VK_MAX_SPECS - 1) /* index of constant RVIT_SPEC_BF16 */
#define RVIT_VK_PUSH_SIZE 128                     /* guaranteed by Vulkan */
#define RVIT_VK_MAX_RANGES 96
#define RVIT_VK_SLOTS 64          /* maximum submits in flight per stream */
#define RVIT_VK_SLOT_OPS 8        /* maximum ops per eager submit */
#define RVIT_VK_OP_MAX_DISPATCH 3 /* maximum dispatches per op */

typedef struct rvit_vk_instance {
    VkInstance handle;
    PFN_vkDestroyInstance destroy;
    PFN_vkEnumeratePhysicalDevices enumerate_devices;
    PFN_vkGetPhysicalDeviceProperties get_properties;
    PFN_vkGetPhysicalDeviceProperties2 get_properties2;
    PFN_vkGetPhysicalDeviceFeatures2 get_features2;
    PFN_vkEnumerateDeviceExtensionProperties enumerate_extensions;
    PFN_vkGetInstanceProcAddr get_proc;
    PFN_vkGetPhysicalDeviceMemoryProperties2 get_memory2;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties get_queue_families;
    PFN_vkGetPhysicalDeviceExternalBufferProperties get_external_buffer;
    PFN_vkGetPhysicalDeviceExternalSemaphoreProperties get_external_semaphore;
    PFN_vkCreateDevice create_device;
    PFN_vkGetDeviceProcAddr get_device_proc;
    uint32_t api_version; /* upper bound of the Vulkan version used with any device */
} rvit_vk_instance;

/* Features and extensions that the backend can use, as bits (features.c). */
enum {
    RVIT_VK_COOPERATIVE_MATRIX = 1 << 0,
    RVIT_VK_FLOAT16 = 1 << 1,
    RVIT_VK_MEMORY_MODEL = 1 << 2,
    RVIT_VK_SUBGROUP_SIZE = 1 << 3,
    RVIT_VK_FULL_SUBGROUPS = 1 << 4,
    RVIT_VK_DEVICE_SCOPE = 1 << 5, /* required with the memory model: atomics of select and bipartite_match have device scope */
    RVIT_VK_TIMELINE = 1 << 6,
    RVIT_VK_BF16_TYPE = 1 << 7,
    RVIT_VK_BF16_MATRIX = 1 << 8,
    RVIT_VK_INT8 = 1 << 9,        /* int8 matrices require it */
    RVIT_VK_DOT = 1 << 10,        /* Vulkan 1.3: dot products of int8 */
    RVIT_VK_EXT_MATRIX = 1 << 11, /* extensions from here on */
    RVIT_VK_EXT_BF16 = 1 << 12,
    RVIT_VK_EXT_MEMORY_HANDLE = 1 << 13,
    RVIT_VK_EXT_SEMAPHORE_HANDLE = 1 << 14,
    RVIT_VK_EXT_PORTABLE = 1 << 15, /* must be enabled where it is offered; its limits concern graphics and events */
    RVIT_VK_EXT_PCI = 1 << 16,      /* this and the next only provide information and need not be enabled */
    RVIT_VK_EXT_BUDGET = 1 << 17,
    RVIT_VK_MATRIX_FEATURES = RVIT_VK_COOPERATIVE_MATRIX | RVIT_VK_FLOAT16 | RVIT_VK_MEMORY_MODEL | RVIT_VK_SUBGROUP_SIZE |
                              RVIT_VK_FULL_SUBGROUPS | RVIT_VK_DEVICE_SCOPE | RVIT_VK_EXT_MATRIX,
    RVIT_VK_BF16_FEATURES = RVIT_VK_BF16_TYPE | RVIT_VK_BF16_MATRIX | RVIT_VK_EXT_BF16, /* optional in the matrix tier */
    RVIT_VK_SHARING_FEATURES = RVIT_VK_TIMELINE | RVIT_VK_EXT_MEMORY_HANDLE | RVIT_VK_EXT_SEMAPHORE_HANDLE
};

/* Identifies a driver. */
typedef struct rvit_vk_driver {
    uint32_t vendor_id, device_id, version;
    VkDriverId id; /* 0: unknown, the device has Vulkan 1.1 */
    uint8_t cache_uuid[VK_UUID_SIZE];
} rvit_vk_driver;

/* Specialisation of the matrix tier's shaders: cooperative matrices of m x k times k x n. m 0: the device has no matrix tier. */
typedef struct rvit_vk_matrix {
    uint32_t m, n, k;
    uint32_t subgroup;   /* required subgroup size */
    uint32_t processors; /* number of multiprocessors */
    int has_half_sums;   /* there are f16 accumulators of m x n too: attention rounds its weights to them */
    int has_narrow_sums; /* there are matrices with half the columns too */
    int in_rows;         /* the driver is known to lay out f16 matrices as common/matrix_rows.glsl describes; the self-test verifies it */
    int has_bf16;        /* matrices of bf16 of the same size, with f32 accumulators */
    const char *why_no_bf16;
    uint32_t i8_m, i8_n, i8_k; /* matrices of int8, with int32 accumulators; 0: none */
} rvit_vk_matrix;

/* The properties of a physical device that the backend uses. */
typedef struct rvit_vk_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceLimits limits;
    VkPhysicalDeviceMemoryProperties memory;
    rvit_vk_driver driver;
    VkPhysicalDeviceType type;
    uint32_t queue_family;
    int has_subgroups; /* subgroup arithmetic in compute shaders */
    uint32_t subgroup_size;
    uint32_t features; /* usable features: those of the device or, for an external device, those it was created with */
    rvit_vk_matrix matrix;
    const char *why_no_matrix;
    int has_budget;  /* rvit_vk_free_memory knows */
    int dot_is_fast; /* the driver reports that packed signed dot products of int8 are accelerated */
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
    const rvit_vk_layout *layout;
    VkPipeline handle; /* VK_NULL_HANDLE: not compiled yet */
} rvit_vk_pipeline;

typedef struct rvit_vk_buffer {
    rvit_buffer base;
    VkBuffer handle;
    int64_t offset; /* offset in the VkBuffer; 0 unless wrapped */
    VkBufferUsageFlags usage;
    VkDeviceMemory memory;
    int64_t memory_size; /* this and memory_type: of memory that can be exported */
    uint32_t memory_type;
} rvit_vk_buffer;

typedef struct rvit_vk_device {
    rvit_device base;
    rvit_vk_instance instance;
    rvit_vk_physical physical;
    VkDevice handle;
    int is_external;  /* the caller owns instance, device and queue */
    uint32_t enabled; /* features that the device was created with */
    rvit_vk_functions vk;
    VkQueue queue;
    rvit_mutex queue_lock;
    void *user; /* passed to the caller's lock functions, which replace queue_lock */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    rvit_tier proven_tier;    /* highest tier whose self-test passed, in this run or in the run that made the cache */
    double submit_work;       /* maximum MACs of one submit of a program; 0: no limit */
    int64_t poll_ns;          /* how long a wait polls before it sleeps */
    rvit_mutex pipeline_lock; /* guards the fields below */
    VkPipelineCache pipeline_cache;
    rvit_vk_layout layouts[RVIT_VK_MAX_TEXELS + 1]; /* [texel buffers] */
    rvit_vk_pipeline *pipelines;
    rvit_vk_buffer dispatch_sizes; /* empty: bound by programs without indirect dispatches */
} rvit_vk_device;

/* A texel holds four elements. Every device supports these formats for texel buffers. bf16 has no format: shaders decode its words. */
static inline VkFormat rvit_vk_texel_format(rvit_dtype dtype)
{
    return dtype == RVIT_BF16 ? VK_FORMAT_R32G32_UINT : dtype == RVIT_F16 ? VK_FORMAT_R16G16B16A16_SFLOAT : VK_FORMAT_R32G32B32A32_SFLOAT;
}

/* Whether elements have 16 bits: f16 and bf16 share shaders. */
static inline int rvit_vk_is_half(rvit_dtype dtype)
{
    return dtype == RVIT_F16 || dtype == RVIT_BF16;
}

/* The value of RVIT_SPEC_BF16 if a shader's IN and OUT have these types. */
static inline uint32_t rvit_vk_bf16(rvit_dtype in, rvit_dtype out)
{
    return (in == RVIT_BF16 ? RVIT_BF16_IN : 0u) | (out == RVIT_BF16 ? RVIT_BF16_OUT : 0u);
}

/* An op's shaders: [subgroup][half in][half out or, for a head, half weight]. */
#define RVIT_VK_OF_TYPES_IN(OP, TIER)                                         \
    {                                                                         \
        {RVIT_VK_##OP##_F32_VK_##TIER, RVIT_VK_##OP##_F32_F16_VK_##TIER},     \
            {RVIT_VK_##OP##_F16_F32_VK_##TIER, RVIT_VK_##OP##_F16_VK_##TIER}, \
    }
#define RVIT_VK_OF_TYPES(OP)                                               \
    {                                                                      \
        RVIT_VK_OF_TYPES_IN(OP, SCALAR), RVIT_VK_OF_TYPES_IN(OP, SUBGROUP) \
    }

static inline rvit_vk_device *rvit_vk_device_of(const rvit_device *device)
{
    return (rvit_vk_device *)device;
}

/* Byte offset of a view in its VkBuffer. */
static inline int64_t rvit_vk_at(rvit_view view)
{
    return ((const rvit_vk_buffer *)view.buffer)->offset + view.offset;
}

/* instance.c */
rvit_status rvit_vk_instance_open(rvit_alloc *alloc, rvit_vk_instance *out_instance);
/* Uses the caller's instance. get_proc NULL: functions come from the loader, which is opened here. Closing does not destroy the
   instance. */
rvit_status rvit_vk_instance_import(VkInstance handle, PFN_vkGetInstanceProcAddr get_proc, uint32_t api_version,
                                    rvit_vk_instance *out_instance);
void rvit_vk_instance_close(rvit_vk_instance *instance);
/* Usable device number `index`; -1: the best one. INVALID_ARGUMENT: index is too large. UNAVAILABLE: there is no device. */
rvit_status rvit_vk_instance_device(const rvit_vk_instance *instance, rvit_alloc *alloc, int32_t index, rvit_vk_physical *out_physical);
/* Uses the caller's physical device and queue family, limited to the given features. */
rvit_status rvit_vk_instance_import_device(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice handle,
                                           uint32_t queue_family, uint32_t features, rvit_vk_physical *out_physical);
/* Returns the name of a function that the device lacks, or NULL. */
const char *rvit_vk_load_functions(const rvit_vk_instance *instance, VkDevice device, rvit_vk_functions *out_functions);
/* Bytes of device memory that the process may still allocate; only where has_budget is set. */
int64_t rvit_vk_free_memory(const rvit_vk_instance *instance, VkPhysicalDevice handle);

/* features.c */

/* Returns the features of a device. Some drivers crash when queried for cooperative matrices. */
rvit_status rvit_vk_find_features(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice device, uint32_t version,
                                  int query_matrices, uint32_t *out_bits);
/* Returns the features that the caller listed. */
uint32_t rvit_vk_named_features(const void *chain, const char *const *extensions, uint32_t n_extensions);
/* For the first feature of a non-empty set: its name, a sentence that the device lacks it, a sentence that it is not enabled. */
const char *rvit_vk_feature_name(uint32_t features);
const char *rvit_vk_feature_lacking(uint32_t features);
const char *rvit_vk_feature_missing(uint32_t features);
/* UNSUPPORTED: the device was created without this feature. */
rvit_status rvit_vk_check_enabled(const rvit_vk_device *device, uint32_t bit);
/* vkCreateDevice with the features of device->enabled. */
VkResult rvit_vk_create_handle(rvit_vk_device *device);

/* matrix.c */

/* Chooses the cooperative matrices of a device with these features, bf16 included. Returns NULL, or why the device has no matrix tier. */
const char *rvit_vk_find_matrix(const rvit_vk_instance *instance, const VkPhysicalDeviceProperties *properties, uint32_t features,
                                const VkPhysicalDeviceSubgroupProperties *subgroup, VkPhysicalDevice device, rvit_vk_matrix *out_matrix);
int rvit_vk_is_matrix_shader(rvit_vk_shader shader);
/* rvit_device_info.native_dtypes in this tier with these features. */
int32_t rvit_vk_native_dtypes(const rvit_vk_physical *physical, rvit_tier tier, uint32_t features);

/* device.c */
rvit_status rvit_vk_device_describe(int32_t index, rvit_device_info *out_info);
rvit_status rvit_vk_device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device);
void rvit_vk_device_destroy(rvit_device *device);
/* Creates a device on the caller's VkDevice. desc must be complete; its backend and index are ignored. */
rvit_status rvit_vk_device_create_on(const rvit_vulkan_device_desc *external, const rvit_device_desc *desc, const rvit_alloc *alloc,
                                     rvit_device **out_device);

/* denied.c: why a tier of a driver is used only on explicit request, as a sentence without a full stop; NULL: it is not restricted.
   Never query the cooperative matrices of a driver whose matrix tier is denied. */
const char *rvit_vk_denied(const rvit_vk_driver *driver, rvit_tier tier);
/* Lowers physical->info.tier to the highest tier that is not denied, and mentions it in the note. */
void rvit_vk_apply_denied(rvit_vk_physical *physical);

/* cache.c: the pipeline cache as a blob that the caller keeps. */

/* Checks a blob. Returns NULL if *out_payload may be passed to the driver, else why not. */
const char *rvit_vk_cache_check(const rvit_vk_driver *driver, const void *blob, size_t size, const void **out_payload,
                                size_t *out_payload_size);
rvit_status rvit_vk_cache_open(rvit_vk_device *device, const void *blob, size_t size);
rvit_status rvit_vk_device_get_cache(rvit_device *device, void *data, size_t capacity, size_t *out_size);

/* self_test.c: runs the kernels of the device's tier on problems with known answers. INTERNAL: wrong answer, named in the detail. */
rvit_status rvit_vk_self_test(rvit_vk_device *device);

/* loops.c: NULL, or why the driver cannot run the loops of the op. */
const char *rvit_vk_loops_fit(const rvit_vk_device *device, const rvit_op *op);

/* macs.c: approximate number of multiply-accumulates (MACs) of an op at capacity. */
double rvit_vk_macs(const rvit_op *op);

/* buffer.c */
rvit_status rvit_vk_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
void rvit_vk_buffer_destroy(rvit_buffer *buffer);
/* An additional buffer type: a few words that the host writes once and the device then updates. */
#define RVIT_VK_BUFFER_WORDS (RVIT_BUFFER_SHARED + 1)
/* Checks that the device can export or import the memory of buffers by handle. needed: which of the two. */
rvit_status rvit_vk_check_memory_handles(const rvit_vk_device *device, VkExternalMemoryFeatureFlags needed);
/* vkCreateBuffer. external: its memory is exported or imported. */
rvit_status rvit_vk_buffer_new(rvit_vk_device *device, int64_t size, int external, rvit_vk_buffer *buffer,
                               VkMemoryRequirements *out_requirements);
/* Opens only the VkBuffer and its memory, for internal use: size, type and device of the base need not be set. */
rvit_status rvit_vk_buffer_open(rvit_vk_device *device, int64_t size, int type, rvit_vk_buffer *out_buffer);
#define RVIT_VK_SIZE_ROUND 16 /* VkBuffer sizes are multiples of this, so that shaders may read whole vectors at the end of an array */
#define RVIT_VK_BUFFER_USAGE                                                                                               \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | \
     VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)
/* Calls vkAllocateMemory; the detail of a failure has the sizes. */
rvit_status rvit_vk_allocate(const rvit_vk_device *device, const VkMemoryAllocateInfo *info, VkDeviceMemory *out_memory);
/* The best memory type of those in the mask; negative: none. */
int32_t rvit_vk_choose_memory(const rvit_vk_device *device, uint32_t allowed, int type);
void rvit_vk_buffer_close(rvit_vk_device *device, rvit_vk_buffer *buffer);

/* arrange.c: see rvit_backend_api. */
rvit_status rvit_vk_arrange_weight(rvit_stream *stream, rvit_op *op);
/* The value of rvit_op_hints.arranged for a linear op that rearranges its weight instead of computing a GEMM. */
#define RVIT_VK_ARRANGING (-1)

/* pipeline.c */
/* Number of storage buffers that a shader may bind on the device. */
uint32_t rvit_vk_max_bindings(const rvit_vk_device *device);
rvit_status rvit_vk_get_layout(rvit_vk_device *device, uint32_t n_texels, const rvit_vk_layout **out_layout);
/* Returns the existing pipeline or creates it. */
rvit_status rvit_vk_get_pipeline(rvit_vk_device *device, const rvit_vk_pipeline *wanted, VkPipeline *out_pipeline);
void rvit_vk_pipelines_destroy(rvit_vk_device *device);

/* shape.c: tile sizes, chosen from an op's host-known sizes and the device. */
typedef struct rvit_vk_linear_shape {
    int direct;        /* linear_direct.comp */
    int matrix;        /* linear_matrix.comp */
    int direct_matrix; /* linear_direct_matrix.comp */
    int small_m;       /* linear_direct_matrix.comp: fewer rows than a subgroup computes */
    int tight;         /* linear_matrix.comp: accumulators take most of the registers */
    uint32_t threads, rows, columns;
    uint32_t tile_m, tile_n, tile_k;
} rvit_vk_linear_shape;
/* arranged: weight has the layout that rvit_vk_arrange_weight makes. */
rvit_vk_linear_shape rvit_vk_shape_linear(const rvit_vk_device *device, const rvit_linear_args *args, int arranged);
typedef struct rvit_vk_attention_shape {
    int direct;    /* attention_direct.comp */
    int matrix;    /* attention_matrix.comp */
    int in_rows;   /* attention_rows.comp */
    int lines;     /* attention.comp, each subgroup has whole lines of columns */
    uint32_t rows; /* attention_rows.comp: matrices of queries per subgroup */
    uint32_t threads, queries, keys, columns;
} rvit_vk_attention_shape;
rvit_vk_attention_shape rvit_vk_shape_attention(const rvit_vk_device *device, const rvit_attention_args *args);
int rvit_vk_uses_subgroups(const rvit_vk_device *device);
/* Whether linear_i8.comp may use dot products. The scalar tier requires nothing of a driver. */
int rvit_vk_uses_dot(const rvit_vk_device *device);
uint32_t rvit_vk_row_teams(const rvit_vk_device *device); /* row teams (common/row_team.glsl) in a workgroup of maximum size */

/* record.c */

/* Number of workgroups of a dispatch: ceil(rows * multiply / divide) * times; a factor of 0 means 1. If live is set, rows is the
   capacity, and in a program the device computes the number from the live rows. */
typedef struct rvit_vk_groups {
    int64_t rows, multiply, divide, times;
    rvit_view live;
} rvit_vk_groups;

typedef struct rvit_vk_dispatch {
    rvit_vk_shader shader;
    uint32_t specs[RVIT_VK_MAX_SPECS]; /* RVIT_SPEC_THREADS 0: RVIT_MAX_THREADS */
    uint32_t n_bindings;
    VkDescriptorBufferInfo bindings[RVIT_VK_MAX_BINDINGS];
    uint32_t n_texels; /* the first bindings are texel buffers of this format, the rest storage buffers */
    VkFormat texel_format;
    rvit_vk_groups groups;
} rvit_vk_dispatch;

/* The size of an indirect dispatch, computed on the device after the op `producer` (-1: before the first op). */
typedef struct rvit_vk_dispatch_size {
    rvit_vk_groups groups;
    int32_t producer;
    int32_t slot; /* index of the size in memory */
} rvit_vk_dispatch_size;

/* The indirect dispatches of a program. */
typedef struct rvit_vk_indirect {
    rvit_vk_dispatch_size *sizes; /* capacity: RVIT_VK_OP_MAX_DISPATCH for each op */
    int32_t n_sizes;
    const rvit_op *ops;
    int32_t n_slots;       /* 0 until the sizes are numbered, then n_sizes */
    rvit_vk_buffer memory; /* of the sizes */
} rvit_vk_indirect;

typedef struct rvit_vk_range {
    VkBuffer buffer; /* several rvit_buffers may wrap it */
    int64_t begin, end;
    int writes;
} rvit_vk_range;

/* Events since the last full barrier: an op whose dependents need a full barrier; a compute-only barrier. */
#define RVIT_VK_NEEDS_FULL 1
#define RVIT_VK_COMPUTE_BARRIER 2

typedef struct rvit_vk_recorder {
    rvit_vk_device *device;
    VkCommandBuffer commands; /* NULL: a dry run, which counts descriptors and lists dispatch sizes */
    VkDescriptorPool descriptors;
    VkBufferView *views;        /* views of texel buffers; the owner of the recording destroys them */
    rvit_vk_indirect *indirect; /* NULL: no indirect dispatch */
    int32_t op_index;
    const rvit_op_hints *hints;                     /* of the current op */
    rvit_access accesses[RVIT_OP_MAX_ACCESSES + 1]; /* of the current op, by slot; then the dispatch sizes, if it uses them */
    int n_accesses;
    rvit_vk_range ranges[RVIT_VK_MAX_RANGES]; /* ranges touched since the last barrier */
    int n_ranges;
    int since_full; /* RVIT_VK_NEEDS_FULL, RVIT_VK_COMPUTE_BARRIER */
    int64_t launches, copies;
    uint32_t n_sets, n_views;
    rvit_vk_pipeline *wanted; /* pipelines that a dry run found missing; to be compiled or dropped */
} rvit_vk_recorder;

/* pipeline.c */
rvit_status rvit_vk_want_pipeline(rvit_vk_recorder *dry, const rvit_vk_pipeline *wanted);
/* Compiles them in parallel, on threads of its own. */
rvit_status rvit_vk_compile_wanted(rvit_vk_recorder *dry);
void rvit_vk_drop_wanted(rvit_vk_recorder *dry);

/* The commands around a recording: the barrier after earlier submits, and the one that makes results visible to the host. */
rvit_status rvit_vk_record_begin(rvit_vk_recorder *recorder, VkCommandBufferUsageFlags usage);
rvit_status rvit_vk_record_end(rvit_vk_recorder *recorder);
/* A full barrier. */
void rvit_vk_record_barrier(rvit_vk_recorder *recorder);
/* order records a barrier before the op with the listed accesses, if it needs one; remember then stores what the op touches.
   needs_full: the op is a transfer or writes what indirect dispatches read. */
void rvit_vk_record_order(rvit_vk_recorder *recorder, int needs_full);
void rvit_vk_record_remember(rvit_vk_recorder *recorder, int needs_full);
/* Binds the array in a slot (RVIT_SLOT) of the current op to the shader's next binding. Returns its offset in the binding, in units of
   `unit` bytes. An absent or empty array is replaced by another array of the op; the result is then 0. */
int rvit_vk_bind(const rvit_vk_recorder *recorder, rvit_vk_dispatch *dispatch, int slot, int unit);
/* One array for rvit_vk_bind_all: where to store its offset, and the offset to store if it is absent or empty. */
typedef struct rvit_vk_array {
    int *at, slot, unit, absent;
} rvit_vk_array;
/* An array whose offset is the push constant named after its slot; with the second macro, an absent array gets a negative offset. */
#define RVIT_VK_ARRAY(op, slot, unit) ((rvit_vk_array){&push.slot##_at, RVIT_SLOT(op, slot), unit, 0})
#define RVIT_VK_OPTIONAL(op, slot) ((rvit_vk_array){&push.slot##_at, RVIT_SLOT(op, slot), 4, -1})
void rvit_vk_bind_all(const rvit_vk_recorder *recorder, rvit_vk_dispatch *dispatch, const rvit_vk_array *arrays, size_t n);
/* Binds arrays in the order of the shader's bindings. */
#define RVIT_VK_BIND(recorder, dispatch, ...)                                  \
    rvit_vk_bind_all(recorder, dispatch, (const rvit_vk_array[]){__VA_ARGS__}, \
                     sizeof((rvit_vk_array[]){__VA_ARGS__}) / sizeof(rvit_vk_array))
/* The live count from which the number of workgroups is computed; absent: use the capacity. */
rvit_view rvit_vk_dispatch_live(rvit_rows rows);
rvit_status rvit_vk_record_dispatch(rvit_vk_recorder *recorder, const rvit_vk_dispatch *dispatch, const void *push, uint32_t push_size);
/* Records the dispatches that compute the dispatch sizes known after op `producer`, except those that the op computes itself. */
rvit_status rvit_vk_record_dispatch_sizes(rvit_vk_recorder *recorder, int32_t producer);

/* indirect.c: the sizes of indirect dispatches, in the layout of common/dispatch_sizes.glsl. */

/* The size of a dispatch of the current op; a dry run adds it if it is missing. */
const rvit_vk_dispatch_size *rvit_vk_find_dispatch_size(const rvit_vk_recorder *recorder, const rvit_vk_groups *groups);
/* Assigns a slot to every dispatch size. */
void rvit_vk_number_dispatch_sizes(rvit_vk_indirect *indirect);
/* Allocates the memory of all dispatch sizes. indirect NULL: of none, for the device. */
rvit_status rvit_vk_dispatch_sizes_open(rvit_vk_device *device, const rvit_vk_indirect *indirect, rvit_vk_buffer *out_sizes);
/* Byte offset of a dispatch size in the memory. */
int64_t rvit_vk_dispatch_size_offset(int32_t slot);
/* Consecutive dispatch sizes that one dispatch computes. */
typedef struct rvit_vk_dispatch_size_list {
    int n, sizes_at, rules_at;
} rvit_vk_dispatch_size_list;
/* The dispatch sizes that the current op, a select or bipartite_match, computes itself. */
rvit_vk_dispatch_size_list rvit_vk_find_own_dispatch_sizes(const rvit_vk_recorder *recorder);
/* The next dispatch sizes of one live count that are known after op `producer` and not computed by it. Returns the index of the first of
   them, at least `from`; -1: there are no more. */
int32_t rvit_vk_next_dispatch_sizes(const rvit_vk_indirect *indirect, int32_t producer, int32_t from, rvit_vk_dispatch_size_list *out_list);
/* The memory of the dispatch sizes, as an access of the op. */
rvit_access rvit_vk_dispatch_sizes_access(const rvit_vk_recorder *recorder);

/* One file for each op. */
#define RVIT_OP(TYPE, name) rvit_status rvit_vk_record_##name(rvit_vk_recorder *recorder, const rvit_##name##_args *args);
#include "core/contract/ops.def"
int rvit_vk_bipartite_match_share(const rvit_bipartite_match_args *args); /* consecutive images per workgroup */
int64_t rvit_vk_preprocess_groups(const rvit_preprocess_args *args);
int64_t rvit_vk_pixelprune_groups(const rvit_pixelprune_args *args); /* workgroups per image; 1 if it cannot be split */

/* ops.c */
rvit_status rvit_vk_record_op(rvit_vk_recorder *recorder, const rvit_op *op);
const char *rvit_vk_supports(const rvit_device *device, const rvit_op *op);

/* external.c */
rvit_status rvit_vk_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer);
rvit_status rvit_vk_buffer_export(const rvit_buffer *buffer, rvit_external_memory *out_memory);

/* semaphore.c */
rvit_status rvit_vk_semaphore_open(rvit_semaphore *semaphore, const rvit_semaphore_desc *desc);
void rvit_vk_semaphore_close(rvit_semaphore *semaphore);
rvit_status rvit_vk_semaphore_export(const rvit_semaphore *semaphore, rvit_handle_type *out_type, intptr_t *out_handle);

/* Non-dispatchable handles are pointers or integers, depending on the platform; the public API uses integers. */
#define RVIT_VK_HANDLE(type, number) ((type)(number))
#define RVIT_VK_NUMBER(handle) ((uint64_t)(handle))

/* stream.c */
rvit_status rvit_vk_stream_create(rvit_device *device, rvit_stream **out_stream);
void rvit_vk_stream_destroy(rvit_stream *stream);
rvit_status rvit_vk_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops);
rvit_status rvit_vk_stream_synchronize(rvit_stream *stream);
/* Submits recorded command buffers, one submit each, with nothing of another stream in between. */
rvit_status rvit_vk_stream_submit(rvit_stream *stream, const VkCommandBuffer *commands, int32_t n_commands);
/* Makes later submits wait for a semaphore, or signals it once all earlier submits are done. */
rvit_status rvit_vk_stream_semaphore(rvit_stream *stream, const rvit_semaphore *semaphore, int signals, uint64_t value);
/* Must be held for every use of the queue. */
void rvit_vk_queue_lock(rvit_vk_device *device);
void rvit_vk_queue_unlock(rvit_vk_device *device);

/* commands.c: streams that record into the caller's command buffer; base.deferred is set for them. */
rvit_status rvit_vk_commands_create(rvit_device *device, void *commands, rvit_stream **out_stream);
void rvit_vk_commands_destroy(rvit_stream *stream);
/* Records into another command buffer from now on. Reuses the descriptor sets and views of the previous one. */
void rvit_vk_commands_set(rvit_stream *stream, void *commands);
/* indirect: that of the program that the ops belong to; NULL: single ops. */
rvit_status rvit_vk_commands_record(rvit_stream *stream, const rvit_op *ops, int32_t n_ops, rvit_vk_indirect *indirect);

/* program.c */
rvit_status rvit_vk_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);
void rvit_vk_program_destroy(rvit_program *program);
rvit_status rvit_vk_program_launch(rvit_program *program, rvit_stream *stream, const rvit_op *ops);

#endif
