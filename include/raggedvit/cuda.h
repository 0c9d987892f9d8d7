/* Working with CUDA code of the caller's: its context, its stream, its device memory. In builds without the CUDA backend (RVIT_CUDA)
   every function returns UNAVAILABLE.

   cuda.h is not needed to include this header. Driver handles are passed as what they are in the driver's API: a CUcontext and a CUstream
   as void *, a CUdeviceptr as uint64_t. A cudaStream_t is a CUstream; memory from cudaMalloc is a CUdeviceptr. The library never uses the
   default stream unless it is wrapped, never synchronises where a function does not say so, and leaves the calling thread's current context
   as it was. */
#ifndef RAGGEDVIT_CUDA_H
#define RAGGEDVIT_CUDA_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device on a context of the caller's; NULL: the calling thread's current one, which is that of the runtime API and of PyTorch if they
   have been used in the thread. The context must outlive the device. allocator: as in rvit_device_desc. UNAVAILABLE: no driver, no context;
   UNSUPPORTED: the context's device cannot run the kernels. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_device_create(void *context, const rvit_allocator *allocator, rvit_device **out_device);
/* The CUcontext a device works in. INVALID_ARGUMENT for a device of another backend. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_device_context(const rvit_device *device, void **out_context);

/* A stream that enqueues on a CUstream of the device's context; NULL is the legacy default stream. The caller keeps the CUstream alive;
   rvit_stream_destroy waits for it and leaves it be. Work is ordered with whatever else the caller enqueues there.
   The caller may capture ops into a graph of its own, once each has run: one that needs more working memory than the stream has fails with
   INVALID_ARGUMENT. The graph uses that memory: the stream must outlive it, and not be given an op that needs more. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_wrap(rvit_device *device, void *cu_stream, rvit_stream **out_stream);
/* Makes a wrapped stream enqueue on another CUstream from now on: one store, no waiting. The caller must order what is enqueued after
   behind what was enqueued before (an event will do): a stream's ops share working memory. INVALID_ARGUMENT for a stream that is not a
   wrapped one, or is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_set(rvit_stream *stream, void *cu_stream);
/* The CUstream of a stream, the library's own included. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_handle(const rvit_stream *stream, void **out_cu_stream);

/* A buffer of `size` bytes at an address that kernels on the device can reach: device memory of its context, managed memory, or mapped
   pinned memory. address: a multiple of 16. The caller keeps the memory alive for as long as a buffer must. INVALID_ARGUMENT: memory of
   another context, or none that the driver knows. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_wrap(rvit_device *device, uint64_t address, int64_t size, rvit_buffer **out_buffer);
/* Points a wrapped buffer elsewhere: two stores, no check of the address beyond its alignment. Ops enqueued before and programs recorded
   before keep the old one. INVALID_ARGUMENT for a buffer that is not a wrapped one. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_set(rvit_buffer *buffer, uint64_t address, int64_t size);
/* The device address of a buffer, the library's own included. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_address(const rvit_buffer *buffer, uint64_t *out_address);

/* A buffer on memory that another API exported, as rvit_vulkan_buffer_export does: memory_size bytes in all, of the same physical device,
   not dedicated to one object. fd: of the type CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD; on success it is the library's. offset: a multiple
   of 256. The memory lives until the last that has it is done with it. INVALID_ARGUMENT: no descriptor of such memory, or a range outside
   it; UNSUPPORTED: not on this device or system. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_import(rvit_device *device, int32_t fd, int64_t memory_size, int64_t offset,
                                                            int64_t size, rvit_buffer **out_buffer);

/* A semaphore that another API exported, as rvit_vulkan_semaphore_export does: binary, or, with timeline = 1, one that counts up. May be
   shared by threads; it keeps its device alive. */
typedef struct rvit_cuda_semaphore rvit_cuda_semaphore;

/* fd: of the type CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD or TIMELINE_SEMAPHORE_FD; on success it is the library's. Errors as above. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline,
                                                               rvit_cuda_semaphore **out_semaphore);
/* Nothing that waits for it or signals it may be pending. */
RVIT_API void rvit_cuda_semaphore_destroy(rvit_cuda_semaphore *semaphore);
/* Makes what is enqueued on the stream from now on wait until the semaphore is signalled, or has reached the value; a binary one is then
   unsignalled, and its value is not looked at. What was done before it was signalled is visible. INVALID_ARGUMENT: another device's, or a
   stream that is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_wait(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value);
/* Signals the semaphore, or sets it to a value above the one it has, once what was enqueued is done. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_signal(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
