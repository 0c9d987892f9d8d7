/* Interoperation with Vulkan code of the caller's: its device and queue, its command buffers and
   VkBuffers, and memory and semaphores shared with another API. In builds without the Vulkan
   backend (RVIT_VULKAN) every function returns UNAVAILABLE.

   This header does not need vulkan.h. Dispatchable handles (VkInstance, VkPhysicalDevice, VkDevice,
   VkQueue, VkCommandBuffer) are passed as void *, the others (VkBuffer, VkSemaphore) as uint64_t,
   with a cast: (uint64_t)buffer. The library has its own tables of function pointers and exports no
   vk* symbol. It therefore works beside any loader, volk included, and with any number of devices
   in one process. */
#ifndef RAGGEDVIT_VULKAN_H
#define RAGGEDVIT_VULKAN_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any Vulkan function: PFN_vkVoidFunction. */
typedef void (*rvit_vulkan_function)(void);
typedef void (*rvit_vulkan_lock_fn)(void *user);

/* A device of the caller's. Vulkan cannot report what a VkDevice was created with: whatever
   `features` and `extensions` do not list counts as not enabled. The library needs:
     scalar, subgroup tier  none
     matrix tier            api_version 1.3, VK_KHR_cooperative_matrix, and the features
                            cooperativeMatrix, shaderFloat16, vulkanMemoryModel,
                            vulkanMemoryModelDeviceScope, subgroupSizeControl and
                            computeFullSubgroups
     its bf16 kernels       also VK_KHR_shader_bfloat16 and the features shaderBFloat16Type and
                            shaderBFloat16CooperativeMatrix; without them the kernels of the
                            subgroup tier run bf16
     int8 made fast         api_version 1.3 and the feature shaderIntegerDotProduct; in the matrix
                            tier also shaderInt8. Without them bytes are multiplied one by one
     shared memory          VK_KHR_external_memory_fd
     shared semaphores      VK_KHR_external_semaphore_fd
     timeline semaphores    api_version 1.2 and the feature timelineSemaphore
   vulkanMemoryModel without vulkanMemoryModelDeviceScope is UNSUPPORTED. */
typedef struct rvit_vulkan_device_desc {
    size_t struct_size;
    void *instance;                              /* VkInstance */
    void *physical_device;                       /* VkPhysicalDevice: Vulkan 1.1 or later */
    void *device;                                /* VkDevice */
    void *queue;                                 /* VkQueue that the library submits to */
    uint32_t queue_family;                       /* queue family of queue; must have
                                                    VK_QUEUE_COMPUTE_BIT */
    uint32_t api_version;                        /* VkApplicationInfo.apiVersion of the instance,
                                                    1.1 or later; 0: 1.1 */
    rvit_vulkan_function get_instance_proc_addr; /* vkGetInstanceProcAddr; NULL: the library opens
                                                    libvulkan.so.1 */
    /* VkDeviceCreateInfo.pNext: read during the call; unknown structures are ignored. */
    const void *features;
    /* [n_extensions]: VkDeviceCreateInfo.ppEnabledExtensionNames, read during the call. */
    const char *const *extensions;
    uint32_t n_extensions;
    /* Called before and after every use of the queue, on the thread that called the library:
       submits by enqueue, launch and transfers and, while the device is created, those of its
       self-test. Set both or neither. Without them the caller must not use the queue, or another
       device created on it, while the library may. */
    rvit_vulkan_lock_fn lock_queue, unlock_queue;
    void *user; /* passed to both */
} rvit_vulkan_device_desc;
#define RVIT_VULKAN_DEVICE_DESC_INIT RVIT_INIT(rvit_vulkan_device_desc)

/* Creates a device on the caller's VkDevice. desc may be NULL. Of desc, tier, debug_checks,
   allocator, skip_self_test, cache_data, submit_work and poll_us mean the same as in
   rvit_device_create; backend must be AUTO or VULKAN, index -1. Waits for the self-test. Instance
   and device must outlive the rvit_device and its children, which never destroy them and never wait
   for the whole device or queue.

   INVALID_ARGUMENT: a handle is NULL, the queue family has no compute, or features or extensions
   list something that the physical device lacks. UNSUPPORTED: the physical device cannot run the
   kernels, or lacks, or was created without, what desc->tier needs; the detail names it.
   UNAVAILABLE: no loader, or get_instance_proc_addr lacks a function of Vulkan 1.1. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_device_create(const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *desc,
                                                              rvit_device **out_device);

/* Creates a stream that records into a VkCommandBuffer of the caller's and submits nothing. Every
   op called on it, every program launched on it and every run of a session that uses it
   (rvit_session_desc.stream) is recorded at once. Lengths are still read when the command buffer
   runs. command_buffer NULL: none yet; ops fail until rvit_vulkan_stream_set.

   State. The command buffer must be in the recording state, outside a render pass, and of the
   device's queue family; it must be submitted to the device's queue. Recording changes the bound
   compute pipeline, the descriptor sets of the compute bind point and the push constants of the
   compute stage. Graphics state stays. Between two ops the caller may record its own commands, but
   not through another of these streams.

   Barriers. The library records the barriers between its own ops. Before the first op after wrap or
   set it records a barrier for everything that compute shaders and transfers read or wrote earlier
   on the same queue, including the caller's. All other barriers are the caller's:
     - Before an op, make available what other stages or queues wrote, and what the caller's own
       commands wrote since the previous op, to COMPUTE_SHADER (SHADER_READ, SHADER_WRITE) and, for
       rvit_copy, TRANSFER (TRANSFER_READ, TRANSFER_WRITE).
     - After the last op, record a barrier from COMPUTE_SHADER (SHADER_WRITE) and TRANSFER
       (TRANSFER_WRITE) to whatever reads the results or overwrites what the ops used: HOST
       (HOST_READ) for mapped buffers.
   What the host wrote before the submit is visible.

   Lifetime. The stream, and the buffers, programs and sessions that were used, must stay until the
   command buffer has run for the last time. It may be submitted repeatedly. Each execution uses the
   contents that the buffers have at that time, and runs after the work that the library and other
   such command buffers submitted before it, whatever they share. On another queue of the family it
   may run only while nothing else of the device does.

   Sessions. rvit_session_enqueue takes the images and records the forward. Once the caller has
   waited for the execution, rvit_session_wait returns its results. With fixed_batch and images on
   the device there is nothing to take: the recording alone is the forward.

   rvit_stream_synchronize does nothing. rvit_stream_write and rvit_stream_read return
   INVALID_ARGUMENT. debug_checks does not check lengths. Recording neither waits nor, once warm,
   allocates; a call that fails records nothing. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_wrap(rvit_device *device, void *command_buffer, rvit_stream **out_stream);
/* Makes a wrapped stream record into another command buffer, or into the same one after it was
   begun again; NULL: none. What the stream recorded before must not run any more, because its
   descriptor sets are reused: use one stream for each command buffer in flight. INVALID_ARGUMENT:
   the stream is not wrapped, or it is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_set(rvit_stream *stream, void *command_buffer);

/* A VkBuffer of the caller's, and the part of it that becomes an rvit_buffer. Vulkan cannot report
   the size and usage of a VkBuffer: give those of its VkBufferCreateInfo. */
typedef struct rvit_vulkan_buffer_desc {
    size_t struct_size;
    uint64_t buffer;     /* VkBuffer, bound to memory */
    int64_t buffer_size; /* bytes */
    /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT; for rvit_copy, rvit_stream_write and rvit_stream_read
       also the TRANSFER bits. UNIFORM_TEXEL_BUFFER_BIT makes software devices faster; their results
       then round differently. */
    uint32_t usage;
    int64_t offset; /* start of the part in bytes, a multiple of 16 */
    /* Bytes; 0: up to the end of the VkBuffer. offset + size, rounded up to 16, must be inside the
       VkBuffer. */
    int64_t size;
} rvit_vulkan_buffer_desc;
#define RVIT_VULKAN_BUFFER_DESC_INIT RVIT_INIT(rvit_vulkan_buffer_desc)

/* The caller keeps VkBuffer and memory alive as long as the buffer needs them, and keeps them owned
   by the device's queue family. Overlapping parts of one VkBuffer are recognised and ordered; two
   VkBuffers on the same memory are not. rvit_buffer_host returns NULL. INVALID_ARGUMENT: the part
   is too small or misaligned, or the usage bit is missing. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_wrap(rvit_device *device, const rvit_vulkan_buffer_desc *desc,
                                                            rvit_buffer **out_buffer);
/* The VkBuffer of any buffer, including the library's own, and the offset at which the buffer
   begins in it. The library's own buffers have the usage bits STORAGE_BUFFER, UNIFORM_TEXEL_BUFFER,
   INDIRECT_BUFFER, TRANSFER_SRC and TRANSFER_DST and belong to one queue family. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_handle(const rvit_buffer *buffer, uint64_t *out_buffer, int64_t *out_offset);

/* Memory in the form in which another API, process or device imports it: a file descriptor of type
   VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT (CUDA: CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
   rvit_cuda_buffer_import), of memory that is not dedicated to one VkBuffer. Devices that the
   library created can share wherever the driver can. */
typedef struct rvit_vulkan_memory {
    size_t struct_size;
    int32_t fd;
    uint32_t memory_type; /* VkMemoryAllocateInfo.memoryTypeIndex */
    int64_t memory_size;  /* VkMemoryAllocateInfo.allocationSize */
    int64_t offset;       /* offset of the buffer in the memory */
} rvit_vulkan_memory;
#define RVIT_VULKAN_MEMORY_INIT RVIT_INIT(rvit_vulkan_memory)

/* Creates a buffer of RVIT_BUFFER_DEVICE whose memory can be exported. UNSUPPORTED: the device was
   created without VK_KHR_external_memory_fd, or cannot export buffers in this way. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_create_shared(rvit_device *device, int64_t size, rvit_buffer **out_buffer);
/* Returns a new file descriptor of the buffer's memory. The caller closes it or passes it to an
   import, which takes ownership. The memory lives until its last user releases it.
   INVALID_ARGUMENT: the buffer was not created with rvit_vulkan_buffer_create_shared. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_export(const rvit_buffer *buffer, rvit_vulkan_memory *out_memory);
/* Creates a buffer of `size` bytes on memory of the same physical device and driver. memory->offset
   must be a multiple of the driver's alignment (256 is enough). On success the library owns
   memory->fd. INVALID_ARGUMENT: fd does not describe such memory (some drivers report
   OUT_OF_DEVICE_MEMORY), or the memory is too small. UNSUPPORTED: as for
   rvit_vulkan_buffer_create_shared. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_import(rvit_device *device, const rvit_vulkan_memory *memory, int64_t size,
                                                              rvit_buffer **out_buffer);

/* A VkSemaphore: binary or, with timeline = 1, a counter. Threads may share it; it keeps its device
   alive. */
typedef struct rvit_vulkan_semaphore rvit_vulkan_semaphore;

/* Creates a semaphore of value 0; with shared = 1 it can be exported. UNSUPPORTED: shared without
   VK_KHR_external_semaphore_fd, timeline without timelineSemaphore, or a driver that cannot share
   such a semaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_create(rvit_device *device, int32_t timeline, int32_t shared,
                                                                 rvit_vulkan_semaphore **out_semaphore);
/* Wraps a VkSemaphore of the caller's, who keeps it alive. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_wrap(rvit_device *device, uint64_t semaphore, int32_t timeline,
                                                               rvit_vulkan_semaphore **out_semaphore);
/* Imports a file descriptor of type VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT; on success the
   library owns it. Errors as for rvit_vulkan_semaphore_create and rvit_vulkan_buffer_import. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline,
                                                                 rvit_vulkan_semaphore **out_semaphore);
/* Returns a new file descriptor, with the same ownership as in rvit_vulkan_buffer_export (CUDA:
   CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD or TIMELINE_SEMAPHORE_FD,
   rvit_cuda_semaphore_import). INVALID_ARGUMENT: the semaphore was not created with shared = 1. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_export(const rvit_vulkan_semaphore *semaphore, int32_t *out_fd);
/* The VkSemaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_handle(const rvit_vulkan_semaphore *semaphore, uint64_t *out_semaphore);
/* No wait for the semaphore and no signal of it may be pending. */
RVIT_API void rvit_vulkan_semaphore_destroy(rvit_vulkan_semaphore *semaphore);

/* Makes all work enqueued on the stream from now on wait until the semaphore is signalled (binary;
   this unsignals it, and value is ignored) or has reached value (timeline). All streams share one
   queue, so later submits to that queue wait too. Everything done before the signal is visible. The
   signal of a binary semaphore must already have been submitted. INVALID_ARGUMENT: the semaphore
   belongs to another device, or the stream is recording or records into a command buffer. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_wait(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value);
/* Signals the semaphore (binary) or sets it to value, which must exceed its current one (timeline),
   once all work enqueued so far is done. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_signal(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
