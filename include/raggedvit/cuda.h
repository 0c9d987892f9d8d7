/* Interoperation with CUDA code of the caller's: its context, stream and device memory. In builds
   without the CUDA backend (RVIT_CUDA) every function returns UNAVAILABLE.

   This header does not need cuda.h. It passes driver handles with the types of the driver API: a
   CUcontext and a CUstream as void *, a CUdeviceptr as uint64_t. A cudaStream_t is a CUstream;
   memory from cudaMalloc is a CUdeviceptr. The library uses the default stream only if the caller
   wraps it, synchronises only where a function says so, and leaves the calling thread's current
   context unchanged. */
#ifndef RAGGEDVIT_CUDA_H
#define RAGGEDVIT_CUDA_H

#include <raggedvit/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a device on a context of the caller's. context NULL: the calling thread's current
   context, which is that of the runtime API and of PyTorch if the thread has used them. The context
   must outlive the device. allocator: as in rvit_device_desc. UNAVAILABLE: no driver or no context.
   UNSUPPORTED: the context's device cannot run the kernels. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_device_create(void *context, const rvit_allocator *allocator, rvit_device **out_device);
/* The CUcontext of a device. INVALID_ARGUMENT for a device of another backend. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_device_context(const rvit_device *device, void **out_context);

/* Creates a stream that enqueues on a CUstream of the device's context; NULL is the legacy default
   stream. Work is ordered with whatever else the caller enqueues there. The caller keeps the
   CUstream alive; rvit_stream_destroy waits for it but does not destroy it.

   The caller may capture ops into a graph of its own once each op has run outside a capture: a
   captured op that needs more working memory than the stream has fails with INVALID_ARGUMENT. The
   graph uses that working memory, so the stream must outlive the graph and must not run an op that
   needs more. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_wrap(rvit_device *device, void *cu_stream, rvit_stream **out_stream);
/* Makes a wrapped stream enqueue on another CUstream from now on: one store, no waiting. The ops of
   a stream share working memory, so the caller must order later work behind earlier work, for
   example with an event. INVALID_ARGUMENT: the stream is not wrapped, or it is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_set(rvit_stream *stream, void *cu_stream);
/* Gives a wrapped stream device memory of the caller's as the working memory of rvit_select and
   rvit_match, from now on and in place of its own: size bytes at a multiple of 16; size 0 ends it.
   An op zeroes the part that it needs, so an op can be captured into a graph without having run
   before, and streams need no order between them as long as their memory differs. The caller keeps
   the memory alive until the work that uses it is done, and as long as the graphs that captured it.
   An op that needs more fails with INVALID_ARGUMENT. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_set_workspace(rvit_stream *stream, uint64_t address, int64_t size);
/* Bytes of working memory that a rvit_select or rvit_match of these capacities needs at most. */
RVIT_API int64_t rvit_cuda_select_workspace(int32_t n_images, int64_t rows);
/* The CUstream of any stream, including the library's own. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_handle(const rvit_stream *stream, void **out_cu_stream);

/* Creates a buffer of `size` bytes at an address that kernels on the device can access: device
   memory of its context, managed memory, or mapped pinned memory. address: a multiple of 16. The
   caller keeps the memory alive as long as the buffer needs it. INVALID_ARGUMENT: the memory
   belongs to another context, or the driver does not know it. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_wrap(rvit_device *device, uint64_t address, int64_t size, rvit_buffer **out_buffer);
/* Points a wrapped buffer to other memory: two stores; only the alignment of the address is
   checked. Ops already enqueued and programs already recorded keep the old address.
   INVALID_ARGUMENT: the buffer is not wrapped. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_set(rvit_buffer *buffer, uint64_t address, int64_t size);
/* The device address of any buffer, including the library's own. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_address(const rvit_buffer *buffer, uint64_t *out_address);

/* Creates a buffer on memory that another API exported, for example with rvit_vulkan_buffer_export:
   memory_size bytes in all, on the same physical device, not dedicated to one object. fd: of type
   CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD; on success the library owns it. offset: a multiple of
   256. The memory lives until its last user releases it. INVALID_ARGUMENT: fd does not describe
   such memory, or the range is outside it. UNSUPPORTED: not on this device or system. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_buffer_import(rvit_device *device, int32_t fd, int64_t memory_size, int64_t offset,
                                                            int64_t size, rvit_buffer **out_buffer);

/* A semaphore that another API exported, for example with rvit_vulkan_semaphore_export: binary or,
   with timeline = 1, a counter. Threads may share it; it keeps its device alive. */
typedef struct rvit_cuda_semaphore rvit_cuda_semaphore;

/* fd: of type CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD or TIMELINE_SEMAPHORE_FD; on success the
   library owns it. Errors as for rvit_cuda_buffer_import. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline,
                                                               rvit_cuda_semaphore **out_semaphore);
/* No wait for the semaphore and no signal of it may be pending. */
RVIT_API void rvit_cuda_semaphore_destroy(rvit_cuda_semaphore *semaphore);
/* Makes all work enqueued on the stream from now on wait until the semaphore is signalled (binary;
   this unsignals it, and value is ignored) or has reached value (timeline). Everything done before
   the signal is visible. INVALID_ARGUMENT: the semaphore belongs to another device, or the stream
   is recording. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_wait(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value);
/* Signals the semaphore (binary) or sets it to value, which must exceed its current one (timeline),
   once all work enqueued so far is done. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_signal(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
