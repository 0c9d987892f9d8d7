/* Working with Vulkan code of the caller's: its device and queue, its command buffers, its VkBuffers, memory and semaphores shared with
   another API. In builds without the Vulkan backend (RVIT_VULKAN) every function returns UNAVAILABLE.

   vulkan.h is not needed to include this header. Dispatchable handles (VkInstance, VkPhysicalDevice, VkDevice, VkQueue, VkCommandBuffer)
   are passed as void *, the others (VkBuffer, VkSemaphore) as uint64_t: with a cast, (uint64_t)buffer. The library has tables of function
   pointers of its own and exports no vk* symbol, so that it goes together with any loader, volk included, and with any number of devices
   in one process. */
#ifndef RAGGEDVIT_VULKAN_H
#define RAGGEDVIT_VULKAN_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any function of Vulkan's: PFN_vkVoidFunction. */
typedef void (*rvit_vulkan_function)(void);
typedef void (*rvit_vulkan_lock_fn)(void *user);

/* A device of the caller's. Vulkan cannot be asked what a VkDevice was created with: what features and extensions do not name counts as
   not enabled. The scalar and the subgroup tier need none. The matrix tier needs api_version 1.3,
   VK_KHR_cooperative_matrix and the features cooperativeMatrix, shaderFloat16, vulkanMemoryModel, vulkanMemoryModelDeviceScope,
   subgroupSizeControl and computeFullSubgroups; sharing memory VK_KHR_external_memory_fd; sharing semaphores VK_KHR_external_semaphore_fd;
   timeline semaphores timelineSemaphore and api_version 1.2. vulkanMemoryModel without vulkanMemoryModelDeviceScope is UNSUPPORTED. */
typedef struct rvit_vulkan_device_desc {
    size_t struct_size;
    void *instance;                              /* VkInstance */
    void *physical_device;                       /* VkPhysicalDevice: Vulkan 1.1 or later */
    void *device;                                /* VkDevice */
    void *queue;                                 /* VkQueue: where the library submits */
    uint32_t queue_family;                       /* the queue's; it has VK_QUEUE_COMPUTE_BIT */
    uint32_t api_version;                        /* VkApplicationInfo.apiVersion of the instance, 1.1 or later; 0: 1.1 */
    rvit_vulkan_function get_instance_proc_addr; /* vkGetInstanceProcAddr; NULL: that of libvulkan.so.1, opened here */
    const void *features;          /* VkDeviceCreateInfo.pNext: read during the call, structures unknown here are passed over */
    const char *const *extensions; /* [n_extensions]: VkDeviceCreateInfo.ppEnabledExtensionNames, read during the call */
    uint32_t n_extensions;
    /* Called around everything that the library does with the queue, from the thread that called the library: submits, which enqueue,
       launch and transfers make, and, while the device is created, those of its self-test. Both or neither; without, the caller keeps
       its own use of the queue, and every other device made on it, out of the library's calls. */
    rvit_vulkan_lock_fn lock_queue, unlock_queue;
    void *user; /* given to both */
} rvit_vulkan_device_desc;
#define RVIT_VULKAN_DEVICE_DESC_INIT RVIT_INIT(rvit_vulkan_device_desc)

/* A device on the caller's VkDevice. desc may be NULL; of it tier, debug_checks, allocator, skip_self_test, cache_data, submit_work and
   poll_us are as in rvit_device_create, backend is AUTO or VULKAN, index -1. Waits for the self-test. Instance and device must outlive the
   rvit_device and its children, which never destroy them and never wait for the whole of the device or the queue. INVALID_ARGUMENT: a
   handle is NULL, the queue family is not one with compute, features or extensions name what the physical device does not have;
   UNSUPPORTED: the physical device cannot run the kernels, or lacks, or was created without, what desc->tier needs: the detail names it;
   UNAVAILABLE: no loader, or get_instance_proc_addr does not give a function of Vulkan 1.1. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_device_create(const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *desc,
                                                              rvit_device **out_device);

/* A stream that records into a VkCommandBuffer of the caller's and submits nothing. Every op called on it, every program launched on it,
   and every run of a session that it was given to (rvit_session_desc.stream) is recorded at once; lengths are still read when it runs.
   NULL: none yet, and ops fail until rvit_vulkan_stream_set.

   The command buffer is in the recording state, outside a render pass, of the device's queue family, and is submitted to its queue.
   Recording changes its bound compute pipeline, descriptor sets of the compute bind point and push constants of the compute stage; graphics
   state stays. Between two ops the caller may record commands of its own, but not with another of these streams.

   Barriers. Between its own ops the library records those that they need. The first op after wrap or set is preceded by one for all
   that compute shaders and transfers wrote or read before it on the same queue, the caller's included. All else is the caller's: before an
   op, making what other stages or queues wrote, or the caller's own commands since the op before, available to COMPUTE_SHADER (SHADER_READ,
   SHADER_WRITE) and, for rvit_copy, TRANSFER (TRANSFER_READ, TRANSFER_WRITE); after the last, a barrier from COMPUTE_SHADER (SHADER_WRITE)
   and TRANSFER (TRANSFER_WRITE) to whatever reads the results, or writes over what the ops used: HOST (HOST_READ) for mapped buffers. What
   the host wrote before the submit is visible.

   Lifetime. The stream, and buffers, programs and sessions used, stay until the command buffer has run for the last time. It may be
   submitted again and again: each time it runs on what is then in the buffers, after what the library and other such command buffers were
   given to do before, whatever they share. On another queue of the family it may run while nothing else of the device does.

   A session's run: rvit_session_enqueue hands over the images and records the forward; once the caller has waited for the execution,
   rvit_session_wait gives its results. With fixed_batch and images of the device's nothing is handed over, and the recording alone is the
   forward.

   rvit_stream_synchronize does nothing, rvit_stream_write and read are INVALID_ARGUMENT, debug_checks does not look into lengths.
   Recording neither waits nor, once warm, allocates; a call that fails records nothing. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_wrap(rvit_device *device, void *command_buffer, rvit_stream **out_stream);
/* Makes a wrapped stream record into another command buffer, or into the same one begun anew; NULL: none. What it recorded before must
   not run any more: its descriptors are used again. One stream for each command buffer in flight. INVALID_ARGUMENT for a stream that is not
   a wrapped one, or is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_set(rvit_stream *stream, void *command_buffer);

/* A VkBuffer of the caller's, and the part of it that becomes an rvit_buffer. Vulkan cannot be asked for size and usage: they are those of
   its VkBufferCreateInfo. */
typedef struct rvit_vulkan_buffer_desc {
    size_t struct_size;
    uint64_t buffer;     /* VkBuffer, bound to memory */
    int64_t buffer_size; /* bytes */
    uint32_t usage;      /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, and for rvit_copy, rvit_stream_write and read the TRANSFER bits.
                            UNIFORM_TEXEL_BUFFER_BIT as well is faster on software devices, where results then round otherwise */
    int64_t offset;      /* where the part begins, a multiple of 16 */
    int64_t size;        /* bytes; 0: to the VkBuffer's end. offset + size, rounded up to 16, is inside the VkBuffer */
} rvit_vulkan_buffer_desc;
#define RVIT_VULKAN_BUFFER_DESC_INIT RVIT_INIT(rvit_vulkan_buffer_desc)

/* The caller keeps VkBuffer and memory alive for as long as a buffer must, and the device's queue family its owner. Parts of one VkBuffer
   are told apart, and ordered where they overlap; two VkBuffers on the same memory are not. rvit_buffer_host is NULL. INVALID_ARGUMENT: too
   small, not aligned, or without the usage bit. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_wrap(rvit_device *device, const rvit_vulkan_buffer_desc *desc,
                                                            rvit_buffer **out_buffer);
/* The VkBuffer of a buffer, the library's own included, and where the buffer begins in it. The library's own have the usage bits
   STORAGE_BUFFER, UNIFORM_TEXEL_BUFFER, INDIRECT_BUFFER, TRANSFER_SRC and TRANSFER_DST and belong to one queue family. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_handle(const rvit_buffer *buffer, uint64_t *out_buffer, int64_t *out_offset);

/* Memory as another API, process or device takes it: a file descriptor of the type VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT (CUDA:
   CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, rvit_cuda_buffer_import), of memory that is not dedicated to one VkBuffer. A device of the
   library's own can share wherever the driver can. */
typedef struct rvit_vulkan_memory {
    size_t struct_size;
    int32_t fd;
    uint32_t memory_type; /* VkMemoryAllocateInfo.memoryTypeIndex */
    int64_t memory_size;  /* VkMemoryAllocateInfo.allocationSize */
    int64_t offset;       /* where in the memory the buffer begins */
} rvit_vulkan_memory;
#define RVIT_VULKAN_MEMORY_INIT RVIT_INIT(rvit_vulkan_memory)

/* A buffer of RVIT_BUFFER_DEVICE whose memory can be exported. UNSUPPORTED: the device was created without VK_KHR_external_memory_fd, or
   cannot export buffers in this way. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_create_shared(rvit_device *device, int64_t size, rvit_buffer **out_buffer);
/* A new descriptor of the buffer's memory; the caller closes it, or gives it to an import, which takes it over. The memory lives until
   the last that has it is done with it. INVALID_ARGUMENT for a buffer that was not created shared. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_export(const rvit_buffer *buffer, rvit_vulkan_memory *out_memory);
/* A buffer of `size` bytes on memory of the same physical device and driver, with memory->offset a multiple of what the driver asks for
   (256 will do). On success memory->fd is the library's. INVALID_ARGUMENT: no descriptor of such memory (a driver may call that
   OUT_OF_DEVICE_MEMORY), or too little memory; UNSUPPORTED as above. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_buffer_import(rvit_device *device, const rvit_vulkan_memory *memory, int64_t size,
                                                              rvit_buffer **out_buffer);

/* A VkSemaphore: binary, or, with timeline = 1, one that counts up. May be shared by threads; it keeps its device alive. */
typedef struct rvit_vulkan_semaphore rvit_vulkan_semaphore;

/* A new one, of value 0, that can be exported if `shared` is 1. UNSUPPORTED: shared without VK_KHR_external_semaphore_fd, timeline without
   timelineSemaphore, or a driver that cannot share such a semaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_create(rvit_device *device, int32_t timeline, int32_t shared,
                                                                 rvit_vulkan_semaphore **out_semaphore);
/* One of the caller's, who keeps the VkSemaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_wrap(rvit_device *device, uint64_t semaphore, int32_t timeline,
                                                               rvit_vulkan_semaphore **out_semaphore);
/* From a descriptor of the type VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT, which on success is the library's. Errors as in create
   and rvit_vulkan_buffer_import. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline,
                                                                 rvit_vulkan_semaphore **out_semaphore);
/* A new descriptor, as for rvit_vulkan_buffer_export (CUDA: CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD or TIMELINE_SEMAPHORE_FD,
   rvit_cuda_semaphore_import). INVALID_ARGUMENT for one that was not created shared. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_export(const rvit_vulkan_semaphore *semaphore, int32_t *out_fd);
/* The VkSemaphore. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_semaphore_handle(const rvit_vulkan_semaphore *semaphore, uint64_t *out_semaphore);
/* Nothing that waits for it or signals it may be pending. */
RVIT_API void rvit_vulkan_semaphore_destroy(rvit_vulkan_semaphore *semaphore);

/* Makes what is enqueued on the stream from now on (and, all streams being on one queue, what is submitted there after) wait until the
   semaphore is signalled, or has reached the value; a binary one is then unsignalled, and its value is not looked at. What was done before
   it was signalled is visible. For a binary one the signal must have been submitted. INVALID_ARGUMENT: another device's, or a stream that
   is recording or records into a command buffer. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_wait(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value);
/* Signals the semaphore, or sets it to a value above the one it has, once what was enqueued is done. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_stream_signal(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
