/* Use of the library from CUDA code: its context, streams and device memory. In builds without the
   CUDA backend (RVIT_CUDA) every function returns UNAVAILABLE.

   This header does not need cuda.h. It passes a CUcontext as void *. A cudaStream_t is a CUstream;
   memory from cudaMalloc is a CUdeviceptr. The library uses the default stream only if the caller
   wraps it, synchronises only where a function says so, and leaves the calling thread's current
   context unchanged.

   Streams (rvit_stream_wrap). native is a CUstream of the device's context; NULL is the legacy
   default stream. Work is ordered with whatever else the caller enqueues there. rvit_stream_destroy
   waits for the CUstream. rvit_stream_set is one store and does not wait. The ops of a stream share
   working memory, so after rvit_stream_set the caller must order later work behind earlier work,
   for example with an event.

   The caller may capture ops into a graph of its own once each op has run outside a capture: a
   captured op that needs more working memory than the stream has fails with INVALID_ARGUMENT. The
   graph uses that working memory, so the stream must outlive the graph and must not run an op that
   needs more.

   Buffers (rvit_buffer_wrap, RVIT_MEMORY_CUDA). Kernels on the device must be able to access the
   address: device memory of its context, managed memory, or mapped pinned memory. INVALID_ARGUMENT:
   the memory belongs to another context, or the driver does not know it. */
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

/* Makes rvit_select and rvit_bipartite_match on a wrapped stream use this device memory as working memory,
   from now on, instead of the stream's own. address: a multiple of 16; size: in bytes, 0: back to
   the stream's own. An op zeroes the part that it needs. It can therefore be captured into a graph
   without having run before, and streams need no order between them as long as their memory
   differs. The caller keeps the memory alive until the work that uses it is done, and as long as
   the graphs that captured it. An op that needs more fails with INVALID_ARGUMENT. */
RVIT_API RVIT_NODISCARD rvit_status rvit_cuda_stream_set_workspace(rvit_stream *stream, void *address, int64_t size);
/* The most bytes of working memory that a rvit_select or rvit_bipartite_match of these capacities needs. */
RVIT_API int64_t rvit_cuda_workspace_size(int32_t n_images, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
