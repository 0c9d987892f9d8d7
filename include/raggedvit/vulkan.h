/* Use of the library from Vulkan code: its device and queue, command buffers, VkBuffers, and memory
   and semaphores shared with other APIs. In builds without the Vulkan backend (RVIT_VULKAN) the
   function of this header returns UNAVAILABLE.

   This header does not need vulkan.h. Dispatchable handles (VkInstance, VkPhysicalDevice, VkDevice,
   VkQueue, VkCommandBuffer) are passed as void *, the others (VkBuffer, VkSemaphore) as uint64_t,
   with a cast: (uint64_t)buffer. The library has its own tables of function pointers and exports no
   vk* symbol. It therefore works beside any loader, volk included, and with any number of devices
   in one process.

   Streams. rvit_stream_wrap creates a stream that records into a VkCommandBuffer of the caller's
   and submits nothing. Every op called on it, every program launched on it and every run of a
   session that uses it (rvit_session_desc.stream) is recorded at once. Lengths are still read when
   the command buffer runs. native NULL: none yet; ops fail until rvit_stream_set. rvit_stream_set
   makes the stream record into another command buffer, or into the same one after it was begun
   again; NULL: none. What the stream recorded before must not run any more, because its descriptor
   sets are reused: use one stream for each command buffer in flight.

   State. The command buffer must be in the recording state, outside a render pass, and of the
   device's queue family; it must be submitted to the device's queue. Recording changes the bound
   compute pipeline, the descriptor sets of the compute bind point and the push constants of the
   compute stage. Graphics state stays. Between two ops the caller may record its own commands, but
   not through another of these streams.

   Barriers. The library records the barriers between its own ops. Before the first op after
   rvit_stream_wrap or rvit_stream_set it records a barrier for everything that compute shaders and
   transfers read or wrote earlier on the same queue, including the caller's. All other barriers are
   the caller's:
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
   the device there is nothing to take: the recorded commands are the whole forward.

   rvit_stream_synchronize does nothing. rvit_stream_write and rvit_stream_read return
   INVALID_ARGUMENT. debug_checks does not check lengths. Recording neither waits nor, once warm,
   allocates; a call that fails records nothing.

   Buffers (rvit_buffer_wrap, RVIT_MEMORY_VULKAN). Vulkan cannot report the size and usage of a
   VkBuffer: vk_buffer_size and vk_usage are those of its VkBufferCreateInfo. vk_usage needs
   VK_BUFFER_USAGE_STORAGE_BUFFER_BIT and, for rvit_copy, rvit_stream_write and rvit_stream_read,
   the TRANSFER bits. UNIFORM_TEXEL_BUFFER_BIT makes software devices faster; their results then
   round differently. offset + size, rounded up to 16, must be inside the VkBuffer. The caller keeps
   VkBuffer and memory owned by the device's queue family. Overlapping parts of one VkBuffer are
   recognised and ordered; two VkBuffers on the same memory are not.

   The library's own buffers (rvit_buffer_handle) have the usage bits STORAGE_BUFFER,
   UNIFORM_TEXEL_BUFFER, INDIRECT_BUFFER, TRANSFER_SRC and TRANSFER_DST and belong to one queue
   family. Devices that the library created export and import memory and semaphores wherever the
   driver can. */
#ifndef RAGGEDVIT_VULKAN_H
#define RAGGEDVIT_VULKAN_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any Vulkan function: PFN_vkVoidFunction. */
typedef void (*rvit_vulkan_function)(void);
typedef void (*rvit_vulkan_lock_fn)(void *user);

/* The caller's VkDevice. Vulkan cannot report what a VkDevice was created with: the library uses
   only what `features` and `extensions` list. It needs:
     scalar, subgroup tier  nothing
     matrix tier            api_version 1.3, VK_KHR_cooperative_matrix, and the features
                            cooperativeMatrix, shaderFloat16, vulkanMemoryModel,
                            vulkanMemoryModelDeviceScope, subgroupSizeControl and
                            computeFullSubgroups
     its bf16 kernels       also VK_KHR_shader_bfloat16 and the features shaderBFloat16Type and
                            shaderBFloat16CooperativeMatrix; without them the kernels of the
                            subgroup tier run bf16
     fast int8              api_version 1.3 and the feature shaderIntegerDotProduct; in the matrix
                            tier also shaderInt8. Without them int8 values are multiplied one by one
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
    /* Called before and after every use of the queue (enqueue, launch, transfers, semaphores, the
       self-test), on the thread that called the library. Set both or neither. Without them the
       caller must not use the queue, nor another rvit_device on it, while the library may use it.
       */
    rvit_vulkan_lock_fn lock_queue, unlock_queue;
    void *user; /* passed to both */
} rvit_vulkan_device_desc;
#define RVIT_VULKAN_DEVICE_DESC_INIT RVIT_INIT(rvit_vulkan_device_desc)

/* Creates a device on the caller's VkDevice. desc may be NULL. Of desc, tier, debug_checks,
   allocator, skip_self_test, cache_data, submit_work and poll_us mean the same as in
   rvit_device_create; backend must be AUTO or VULKAN, index RVIT_INDEX_AUTO. Waits for the
   self-test. Instance and VkDevice must outlive the rvit_device and its children. These never
   destroy them and never wait for the whole device or queue.

   INVALID_ARGUMENT: a handle is NULL, the queue family has no compute, or features or extensions
   list something that the physical device lacks. UNSUPPORTED: the physical device cannot run the
   kernels, or desc->tier needs something that it lacks or that is not listed; the detail names it.
   UNAVAILABLE: no loader, or get_instance_proc_addr lacks a function of Vulkan 1.1. */
RVIT_API RVIT_NODISCARD rvit_status rvit_vulkan_device_create(const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *desc,
                                                              rvit_device **out_device);

#ifdef __cplusplus
}
#endif
#endif
